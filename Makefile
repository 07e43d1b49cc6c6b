# Each target does all of its own set-up from a bare checkout: with uv where it is there, with
# python3 -m venv where it is not.
.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-long check format bench docs release clean

VENV := .venv
PYTHON := $(VENV)/bin/python
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
ROWS ?=
PIP = $(if $(shell command -v uv),uv pip install --quiet --python $(PYTHON),\
  $(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade)

# tests/conftest.py says how many processes: one more than there are cores.
PYTEST := $(PYTHON) -m pytest --numprocesses logical --dist loadfile
# No process, no JVM: what is to be had in a minute.
FAST := tests/unit tests/tsql $(wildcard tests/contract/test_[1-8]_*.py) tests/contract/test_dedup.py
# What has a long form, and how long it is.
BOUNDED := tests/stress tests/contract/test_model.py tests/contract/test_interleavings.py tests/contract/test_batch_ends.py \
  tests/acceptance/test_web_frameworks.py
LONG := ROWLEASE_MODEL_EXAMPLES=10000 ROWLEASE_INTERLEAVINGS=90 ROWLEASE_STRESS_TIMES=20 \
  ROWLEASE_STRESS_RESTARTS=10000 ROWLEASE_STRESS_SILENCE=60 ROWLEASE_STRESS_REQUESTS=100000 ROWLEASE_STRESS_FAILOVERS=20 \
  ROWLEASE_STRESS_FORKS=30 ROWLEASE_STRESS_SIGNALS=10 ROWLEASE_STRESS_BURSTS=500 ROWLEASE_WEB_ORDERS=1000 \
  ROWLEASE_BATCH_ORDERS=500

help: ## Say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 11

demo: $(VENV)/ready ## The main job on real data, end to end (ROWS=20000 shortens it)
	rowlease demo $(if $(ROWS),--rows $(ROWS))

test: $(VENV)/ready $(VENV)/spark-classes.jsa $(VENV)/django6 check ## Everything that guards the promises
	$(PYTEST) $(ARGS)

test-fast: $(VENV)/ready ## Unit tests, and the core of the contract on PostgreSQL: a minute
	ROWLEASE_TEST_ENGINE=postgresql $(PYTEST) $(FAST) $(ARGS)

test-long: $(VENV)/ready ## What `make test` bounds, in its long form: hours
	$(LONG) $(PYTHON) -m pytest -s --timeout 0 $(or $(ARGS),$(BOUNDED))

check: $(VENV)/ready ## Format, lint, types, import directions
	ruff format --check .
	ruff check .
	mypy
	lint-imports

format: $(VENV)/ready ## Put the code into its form
	ruff format .
	ruff check --fix .

bench: $(VENV)/ready ## Every benchmark in its short form, into docs/benchmarks.md
	$(PYTHON) -m benchmarks.bench $(ARGS)

docs: $(VENV)/docs ## The documentation as a site, into site/html
	$(PYTHON) docs/site/build.py $(ARGS)

release: $(VENV)/release ## Build and check the files of a release, into dist/; uploads nothing (TAG=1: sign the tag)
	$(PYTHON) .ci/release.py $(if $(TAG),--tag)

clean: ## Forget the set-up
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/ready: pyproject.toml tests/tsql/scriptdom.txt
	@echo "Making the environment in $(VENV), with $(if $(shell command -v uv),uv,python3 -m venv) …"
	@if command -v uv >/dev/null 2>&1; then uv venv --quiet --allow-existing $(VENV); \
	else python3 -m venv $(VENV); fi
	@echo "Installing rowlease and what it is developed with; Spark alone is 450 MB …"
	@$(PIP) -e '.[dev]'
	@# Microsoft's T-SQL grammar for the checks of sql/sqlserver, beside the packages and not
	@# among them; see tests/tsql/scriptdom.py. There is one for this platform alone.
	@if [ "$$(uname -sm)" = "Linux x86_64" ]; then echo "Installing the grammar of T-SQL …"; \
	  $(PIP) --no-deps --only-binary :all: --python-version 3.11 --require-hashes \
	    --target $(VENV)/scriptdom -r tests/tsql/scriptdom.txt; fi
	@touch $@

# With it, each of the many JVMs of the tests starts in half the processor time.
$(VENV)/spark-classes.jsa: $(VENV)/ready
	@echo "Preparing the classes of Spark, so that the JVMs of tests start faster …"
	@$(PYTHON) -m tests.spark.jvm

# Django 6 needs Python 3.12 or newer. Where there is one, its backend for tasks is tested.
$(VENV)/django6: $(VENV)/ready
	@mkdir -p $@
	@for newer in python3.14 python3.13 python3.12 $(wildcard $(HOME)/.pyenv/versions/3.1[2-9]*/bin/python); do \
	  if "$$newer" -c '' 2>/dev/null; then \
	    echo "Installing Django 6 for $$newer …"; \
	    "$$newer" -m venv $@ && $@/bin/pip install --quiet -e . 'django>=6'; break; \
	  fi; done

$(VENV)/docs: $(VENV)/ready
	@echo "Installing what builds the site …"
	@$(PIP) -e '.[docs]'
	@touch $@

$(VENV)/release: $(VENV)/ready
	@echo "Installing what builds a release …"
	@$(PIP) -e '.[release]'
	@touch $@
