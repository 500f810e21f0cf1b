# Two commands are enough: `make demo` shows Perago, `make test` is the whole gate.
# Nothing here names a package index: pip, go and Ivy use what the machine is set up for.

PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

# The gate starts hundreds of Python programs; none of them needs to compile Perago again.
unexport PYTHONDONTWRITEBYTECODE
# Two at once, unless a make above has already said how many; a make that can keeps their output apart.
SIDE_BY_SIDE = --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j2) $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
ON_SERVERS = (browser or lakefs or conductor) and not (spark or soak)
# The gate says which tests cost it its minutes.
SLOWEST = --durations=15 --durations-min=5
UNIT = $(PYTEST) -m "not (scale or simulation or soak or lakefs or conductor or spark)"

.DEFAULT_GOAL := help
.PHONY: browser chromium docs help house demo unit unit-inner unit-outer lint lint-mypy lint-pyright check check-core check-programs servers test test-spark test-contract test-integration soak simulate simulate-planted matrix mutate bench-start bench-kit bench-publish bench-transfer bench-worker bench-spark clean

help:  ## Lists the commands.
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.perago  ## Runs a workflow with a crash in the middle, in memory, and tells the story.
	@$(BIN)/perago demo

unit: .venv/.gate  ## Runs the unit tests: seconds, no server, no Java, no network.
	@$(MAKE) $(SIDE_BY_SIDE) unit-inner unit-outer
unit-inner:
	@$(UNIT) tests/unit --ignore=tests/unit/app --ignore=tests/unit/testing
unit-outer:
	@$(UNIT) tests/unit/app tests/unit/testing examples

lint: .venv/.gate  ## Checks style, types, the architecture contracts, dependencies and dead code.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/deptry src
	$(BIN)/vulture
	@$(MAKE) $(SIDE_BY_SIDE) lint-mypy lint-pyright
lint-mypy:
	$(BIN)/mypy
lint-pyright:
	$(BIN)/pyright

house: .venv/.gate  ## Measures the layout of the source, beside trio and pyiceberg, and counts retired words.
	@$(BIN)/python -m tools.house

check: lint  ## Runs everything that needs no server: lint, unit, contracts on memory, scale cases.
	@$(MAKE) $(SIDE_BY_SIDE) check-core check-programs
check-core:  # half of the minutes: the unit tests, and what drives the in-memory servers
	$(PYTEST) $(SLOWEST) tests/unit tests/contract tests/simulation examples
check-programs:  # the other half, most of which starts programs
	$(PYTEST) $(SLOWEST) tests $(addprefix --ignore=tests/,unit contract simulation)

docs: .venv/.gate  ## Builds the documentation to build/docs, and runs its code.
	@$(BIN)/python -m tools.build_docs
	$(PYTEST) tests/integration/test_kit_docs.py tests/integration/test_tutorial.py tests/integration/test_add_a_policy.py tests/integration/test_first_workflow.py tests/unit/test_readme.py tests/unit/test_pages.py

servers: .venv/.gate  ## Fetches and builds the real servers, once per user of the machine.
	@$(BIN)/python -m perago_servers fetch

test:  ## Runs the whole gate: check, and the contract and integration tests on real servers.
	@$(MAKE) --no-print-directory -j2 check servers chromium
	@$(MAKE) $(subst -j2,-j3,$(subst =target,=line,$(SIDE_BY_SIDE))) test-spark test-contract test-integration
# JVMs that calculate, beside tests that mostly wait: three at once on two cores. Each has servers of its own.
test-spark:
	$(PYTEST) -m "spark and not soak" $(SLOWEST)
test-contract:
	$(PYTEST) -m "$(ON_SERVERS)" $(SLOWEST) tests/contract
# Two workers of xdist, each with servers of its own: one alone is idle for most of the gate's minutes.
# Tests of one file stay together, because some of them share what a fixture of the file made.
test-integration:
	$(PYTEST) -n 2 --dist loadfile -m "$(ON_SERVERS)" $(SLOWEST) tests --ignore=tests/contract

soak: servers  ## Runs the full form of the long tests: chaos, races, simulation.
	$(PYTEST) -m soak

browser: .venv/.gate chromium  ## Opens the page of `perago dev` and `perago watch` in headless Chromium.
	$(PYTEST) -m browser
chromium: .venv/.gate
	@$(BIN)/python -m tools.browser

simulate: .venv/.gate  ## Explores schedules of the protocol in memory; MIX=name, SCHEDULES=count.
	$(BIN)/python -m tests.simulation.explore --mix $(or $(MIX),all) --schedules $(or $(SCHEDULES),2000)

simulate-planted: .venv/.gate  ## Plants bugs in the protocol, in memory; the search must find each.
	$(BIN)/python -m tests.simulation.planted

matrix: servers  ## Runs tests on lowest versions, every Python declared, and every pyspark promised.
	$(BIN)/python -m tools.lowest_direct
	$(BIN)/python -m tools.python_matrix
	$(BIN)/python -m tools.spark_matrix

mutate: .venv/.gate  ## Changes the domain in small wrong ways; its tests must notice each of them.
	$(BIN)/python -m tools.mutate $(MODULES)

bench-start: .venv/.gate  ## Measures how long `perago --version` and `--help` take.
	$(BIN)/python -m benchmarks.start_up

bench-kit: .venv/.gate  ## Measures what a test with the kit costs.
	$(BIN)/python -m benchmarks.kit

bench-publish: servers  ## Measures requests and time of one publication by policy, beside 0.6.1.
	$(BIN)/python -m benchmarks.publish

bench-worker: servers  ## Measures `perago start` on a full queue, beside 0.6.1; QUICK=1 is short.
	$(BIN)/python -m benchmarks.worker $(if $(QUICK),--quick)

bench-transfer: servers  ## Measures workspaces down and up beside other clients; QUICK=1 is short.
	$(BIN)/python -m benchmarks.transfer $(if $(QUICK),--quick)

bench-spark: servers  ## Measures Spark's commit protocols on lakeFS, beside a local write; QUICK=1 is short.
	$(BIN)/python -m benchmarks.spark $(if $(QUICK),--quick)
	$(BIN)/python -m benchmarks.spark_pipeline $(if $(QUICK),--quick)

clean:  ## Removes the virtual environment and what the tools left; keeps the cache of servers.
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# Each stamp is newer than what it was installed from, so a second run installs nothing.
.venv/.perago: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Perago needs Python 3.11 or newer: make PYTHON=...")'
	@echo "Installing Perago into .venv: half a minute or more, the first time"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) --editable .
	@touch $@

.venv/.gate: .venv/.perago
	@$(PIP) 'pip>=25.1'  # the first that knows dependency groups
	@$(PIP) --editable '.[openlineage,otel,spark,testing]' --group dev
	@touch $@
