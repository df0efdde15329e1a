# `make demo` and `make test` are all a newcomer needs; both install what they use into $(VENV) first.
# `make demo PYTHON=python3 VENV=` runs in the current interpreter and installs nothing.
# `make gpu-test` runs what needs a GPU: first it compiles all kernels, once and on all cores, then GPU_WORKERS processes
# share the GPU, and last come the tests that must have it alone. `make gpu-test VENV=` installs nothing.

PYTHON ?= python3
VENV ?= .venv
DEMO ?= demo
GPU_WORKERS ?= 6
# Processes that share the tests; tests of time allow for one neighbour.
TEST_WORKERS ?= 2

ifeq ($(strip $(VENV)),)
PY := PYTHONPATH=. $(PYTHON)
READY :=
READY_DEV :=
else
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev
endif

# The driver's CUDA major version picks the exclusive cupy extra; empty where there is no GPU.
CUDA := $(shell nvidia-smi 2>/dev/null | sed -n 's/.*CUDA[^:]*Version: *\([0-9]*\)\..*/\1/p' | head -n 1)
GPU_EXTRA := $(if $(filter 12 13,$(CUDA)),cuda$(CUDA))
comma := ,

.PHONY: demo test gpu-test fuzz lint notebooks results starter docs clean python

demo: $(READY)
	@echo "demo: $(if $(strip $(VENV)),installed into $(VENV),in the current interpreter $(PYTHON), nothing installed); $(if $(GPU_EXTRA),a GPU driver with CUDA $(CUDA) was found,$(if $(CUDA),the driver has CUDA $(CUDA) for which there is no CuPy extra so the CPU path runs,no GPU driver was found so the CPU path runs))"
	@PYTHON="$(PY)" sh subcubic/demo.sh "$(DEMO)"

test: lint
	$(PY) -m pytest -q $$($(PY) -c 'import xdist' 2>/dev/null && echo "-n $(TEST_WORKERS) --dist worksteal")

# 1 from the prebuild: some kernels do not compile, and the tests that need them say so; the others can run.
gpu-test: $(READY_DEV)
	$(PY) -m tests.prebuild || [ $$? -eq 1 ]
	@run="$(PY) -m pytest -v --durations 15 $$(grep -rl 'mark\.gpu' tests --include='test_*.py' | sort | tr '\n' ' ')"; \
	share=$$($(PY) -c 'import xdist' 2>/dev/null && echo "-n $(GPU_WORKERS) --dist worksteal"); failed=0; \
	env $$run -m "gpu and not alone" $$share || failed=1; \
	env $$run -m "gpu and alone" || failed=1; \
	exit $$failed

fuzz: $(READY_DEV)
	SUBCUBIC_FUZZ=50 SUBCUBIC_KILLS=60 $(PY) -m pytest -q --timeout 3600 tests/catalog tests/search tests/codegen tests/subcubic/test_kill.py

lint: $(READY_DEV)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy

notebooks: $(READY_DEV)
	$(PY) -m pytest -q tests/test_notebooks.py

results: $(READY)
	$(PY) -m subcubic.readme

starter: $(READY)
	$(PY) -m subcubic.starter

docs: $(READY_DEV)
	$(if $(strip $(VENV)),$(PY) -m pip install --quiet --disable-pip-version-check --editable ".[docs]")
	$(PY) -m sphinx.ext.apidoc -q -f -e -M -o build/docs/api . tests docs notebooks build
	cp docs/conf.py docs/*.md build/docs/
	$(PY) -m sphinx -q -W -b html build/docs build/site
	@echo "documentation: build/site/index.html"

clean:
	rm -rf $(DEMO) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

python:
	@command -v $(PYTHON) >/dev/null 2>&1 || { echo "subcubic needs Python 3.11 or newer and found no $(PYTHON): install the package python3, or run make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "subcubic needs Python 3.11 or newer and $(PYTHON) is $$($(PYTHON) -V 2>&1): install the package python3.11, or run make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: install the package python3-venv (Debian, Ubuntu) or run make PYTHON=/path/to/another/python3" >&2; exit 1; }

$(VENV)/bin/python: | python
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[plot$(if $(GPU_EXTRA),$(comma)$(GPU_EXTRA))]"
	touch $@

$(VENV)/.ready-dev: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[dev$(if $(GPU_EXTRA),$(comma)$(GPU_EXTRA))]"
	touch $@ $(VENV)/.ready
