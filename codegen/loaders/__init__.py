"""Python that an exported folder takes along: what loads its kernel, from PyTorch or CuPy."""
