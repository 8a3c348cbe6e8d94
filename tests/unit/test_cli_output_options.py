"""Output options: --quiet, --verbose, and progress on a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import Cli, Runs, attached, line_of, recorded, run_critiqor
from terminal import shown

from critiqor.errors import ExitCode

SEALING = "sealing and diagnosing"


def large_run(runs: Runs) -> str:
    """A run with a journal of three megabytes."""
    run_id = runs.start()
    text = "x" * 6000
    calls = [recorded(number, "message_end", payload={"role": "assistant", "text": text}) for number in range(2, 502)]
    runs.write(run_id, attached(), b"".join(map(line_of, calls)))
    return run_id


def traces(folder: Path) -> Path:
    events = [{"i": 0, "kind": "user", "text": "hi"}, {"i": 1, "kind": "assistant", "text": "hello"}]
    lines = [{"trace_id": f"t{number}", "source": "elsewhere", "events": events} for number in range(3)]
    path = folder / "traces.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_finalize_of_a_large_run_shows_progress_and_removes_it(tmp_path: Path) -> None:
    run_id = large_run(Runs(tmp_path / "runs"))
    drawn = shown("finalize", "--no-dashboard", home=tmp_path)
    assert drawn.code == ExitCode.OK
    assert SEALING in drawn.raw and "of 501" in drawn.raw
    assert SEALING not in drawn.text
    assert drawn.lines[0].startswith(f"{run_id}  COMPLETED")


def test_progress_is_shown_only_on_a_terminal_without_quiet(tmp_path: Path) -> None:
    runs = Runs(tmp_path / "runs")
    large_run(runs)
    piped = run_critiqor("finalize", home=tmp_path)
    assert (piped.returncode, piped.stderr) == (ExitCode.OK, "")
    large_run(runs)
    assert SEALING not in shown("-q", "finalize", "--no-dashboard", home=tmp_path).raw
    large_run(runs)
    assert SEALING not in shown("finalize", "--no-dashboard", home=tmp_path, variables={"TERM": "dumb"}).raw


def test_import_shows_the_number_of_traces(tmp_path: Path) -> None:
    drawn = shown("import", traces(tmp_path), home=tmp_path)
    assert drawn.code == ExitCode.OK, drawn.text
    assert "reading traces.jsonl" in drawn.raw
    assert "reading traces.jsonl" not in drawn.text


def test_quiet_omits_messages_but_not_results_and_errors(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.critiqor]\nunknown = 1\n")
    assert "these settings are ignored: unknown" in cli("runs").err
    quiet = cli("-q", "runs")
    assert (quiet.code, quiet.err) == (ExitCode.OK, "")
    assert "No runs in " in quiet.out
    failed = cli("--quiet", "show", "run_404")
    assert "there is no run run_404" in failed.err


@pytest.mark.parametrize("option", ["-v", "--verbose"])
def test_verbose_prints_the_traceback_before_the_message(cli: Cli, option: str) -> None:
    result = cli(option, "show", "run_404")
    assert result.code == ExitCode.ERROR
    assert result.err.startswith("Traceback (most recent call last):\n")
    assert result.err.endswith("→ critiqor runs\n")
    assert "Traceback" not in cli("show", "run_404").err
    assert cli(option, "show", "run_404", "--json").error["type"] == "UnknownRunError"
