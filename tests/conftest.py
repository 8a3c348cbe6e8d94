from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from coverage import Coverage
from hypothesis import settings
from support import Answer, Cli, Runs, let_time_pass

from critiqor.cli import main

# The same examples every time, and no failures because the machine is slow.
settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
settings.load_profile("deterministic")
# Tests that a shell starts in the background ignore Ctrl-C, and so would every program that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionfinish() -> None:
    """Save what `make coverage` has counted: xdist kills a worker whose exit takes longer than ten seconds."""
    if (counting := Coverage.current()) is not None:
        counting.save()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures of a long form, also of tests that ran in other processes."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    figures = [
        value for report in reports for name, value in getattr(report, "user_properties", []) if name == "figure"
    ]
    if figures and "CRITIQOR_FAULTS" in os.environ:
        terminalreporter.section("figures")
        terminalreporter.write("".join(f"{figure}\n" for figure in dict.fromkeys(figures)))


pytest.register_assert_rewrite("fleet_index_cases")


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Report what a test has measured; it is printed at the end if `CRITIQOR_FAULTS` asks for a long form."""
    return lambda text: record_property("figure", text)


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-settings"))


@pytest.fixture(autouse=True)
def errors_in_checks_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise what a user only learns from a note: that a check of a claim has failed."""
    monkeypatch.setattr("critiqor.diagnosis.claims.claim_checker.RAISES_ERRORS", True)


@pytest.fixture(autouse=True)
def a_moment_of_its_own() -> None:
    """Give the records of each test a new time."""
    let_time_pass()


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path / "runs")


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line in this process, typed in a folder of its own, whose runs are in `runs`."""
    monkeypatch.chdir(tmp_path)
    for name in ("RUNS_DIR", "AGENT_ID", "TENANT_ID", "VISIBILITY", "DEBUG"):
        monkeypatch.delenv(f"CRITIQOR_{name}", raising=False)

    def call(*arguments: str | Path) -> Answer:
        monkeypatch.setattr(sys, "argv", ["critiqor", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        code = end.value.code
        assert isinstance(code, int)
        return Answer(code, captured.out, captured.err)

    return call
