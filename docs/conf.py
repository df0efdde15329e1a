"""Sphinx configuration: the API pages are made from the docstrings at every build."""

project = "subcubic"
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser"]
html_theme = "furo"
exclude_patterns: list[str] = []
# Attributes are documented once, by the class docstring.
napoleon_use_ivar = True
autodoc_mock_imports = ["cupy", "torch", "triton"]
suppress_warnings = ["ref.python", "docutils"]
