# Each target does all of its own set-up from a bare checkout: with uv where it is there, with
# python3 -m venv where it is not.
.DEFAULT_GOAL := help
.PHONY: help demo test check format bench clean

VENV := .venv
PYTHON := $(VENV)/bin/python
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
ROWS ?=
PIP = $(if $(shell command -v uv),uv pip install --quiet --python $(PYTHON),\
  $(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade)

help: ## Say what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/ready ## The main job on real data, end to end (ROWS=20000 shortens it)
	rowlease demo $(if $(ROWS),--rows $(ROWS))

test: $(VENV)/ready check ## Everything that guards the promises
	@# A process for each core: the tests of one mostly wait, for a server, a worker or a JVM.
	$(PYTHON) -m pytest --numprocesses logical --dist worksteal $(ARGS)

check: $(VENV)/ready ## Format, lint, types, import directions
	ruff format --check .
	ruff check .
	mypy
	lint-imports

format: $(VENV)/ready ## Put the code into its form
	ruff format .
	ruff check --fix .

bench: $(VENV)/ready ## Every benchmark in its short form, into docs/benchmarks.md
	$(PYTHON) benchmarks/bench.py $(ARGS)

clean: ## Forget the set-up
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/ready: pyproject.toml tests/tsql/scriptdom.txt
	@if command -v uv >/dev/null 2>&1; then uv venv --quiet --allow-existing $(VENV); \
	else python3 -m venv $(VENV); fi
	@$(PIP) -e '.[dev]'
	@# Microsoft's T-SQL grammar for the checks of sql/sqlserver, beside the packages and not
	@# among them; see tests/tsql/scriptdom.py. There is one for this platform alone.
	@if [ "$$(uname -sm)" = "Linux x86_64" ]; then $(PIP) --no-deps --require-hashes \
	  --target $(VENV)/scriptdom -r tests/tsql/scriptdom.txt; fi
	@touch $@
