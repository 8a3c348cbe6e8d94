"""ATIF: what is exported and imported again has the same diagnosis."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dashboards import failing_tests
from support import Cli, Runs

from critiqor.importers import read_traces

AGENT = {"name": "claude-code", "version": "2.1", "model_name": "claude-haiku-4-5"}


def step(number: int, source: str, message: str, **fields: Any) -> dict[str, Any]:
    time = f"2026-01-01T00:00:{number:02}.000Z"
    return {"step_id": number, "timestamp": time, "source": source, "message": message, **fields}


def calling(call_id: str, command: str, content: str, **extra: Any) -> dict[str, Any]:
    result = {"source_call_id": call_id, "content": content, **({"extra": extra} if extra else {})}
    call = {"tool_call_id": call_id, "function_name": "Bash", "arguments": {"command": command}}
    return {"tool_calls": [call], "observation": {"results": [result]}}


METRICS = {"prompt_tokens": 1200, "completion_tokens": 30, "cached_tokens": 1000}
STEPS = [
    step(1, "user", "Make the tests pass."),
    step(2, "agent", "I run them.", metrics=METRICS, **calling("a", "pytest -q", "Exit code 1\n1 failed, 11 passed")),
    step(3, "agent", "", **calling("b", "cat big.txt", "x" * 50_000)),
    step(4, "agent", "", metrics=METRICS, extra={"is_sidechain": True}, **calling("s", "ls", "a.py")),
    step(5, "system", "So far: a test fails.", extra={"context_management": {}}),
    step(6, "agent", "", metrics={**METRICS, "cost_usd": 0.25}, **calling("c", "rm missing", "gone", is_error=True)),
    step(7, "agent", "All tests pass.", metrics=METRICS, extra={"stop_reason": "end_turn"}),
    step(8, "user", "Are you sure?"),
    step(9, "agent", "Yes.", metrics=METRICS),
]


def facts(runs: Runs, run_id: str) -> dict[str, Any]:
    """What must be the same after a round trip."""
    diagnosis = json.loads(runs.paths.diagnosis_path(run_id).read_text())
    changing = ("run_id", "generated_at", "evidence_digest", "seal", "playbook")
    return {name: value for name, value in diagnosis.items() if name not in changing}


def test_an_exported_trajectory_is_diagnosed_as_before(cli: Cli, tmp_path: Path) -> None:
    document = {"schema_version": "ATIF-v1.4", "session_id": "s", "agent": AGENT, "steps": STEPS}
    (tmp_path / "original.json").write_text(json.dumps(document))
    assert cli("import", "original.json").code == 0
    assert cli("export", "run_001", "--format", "atif").code == 0
    assert cli("import", "run_001.atif.jsonl", "--runs-dir", "again").code == 0

    before, after = facts(Runs(tmp_path / "runs"), "run_001"), facts(Runs(tmp_path / "again"), "run_001")
    assert before == after
    assert before["failure_analysis"]["findings"], "there is something to compare"
    events = [next(iter(read_traces(name))).events for name in ("original.json", "run_001.atif.jsonl")]
    assert [(one.event_type, one.timestamp, one.status, one.error) for one in events[0]] == [
        (one.event_type, one.timestamp, one.status, one.error) for one in events[1]
    ]


def test_a_recorded_run_is_exported_with_its_requests_calls_results_and_tokens(
    cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    failing_tests(runs)
    assert cli("export", "run_001", "--format", "atif").code == 0

    [line] = (tmp_path / "run_001.atif.jsonl").read_text().splitlines()
    made = json.loads(line)
    assert [one["source"] for one in made["steps"]] == ["user", "agent", "agent", "agent"]
    assert made["final_metrics"] == {
        "total_prompt_tokens": 900,
        "total_completion_tokens": 30,
        "total_cached_tokens": 0,
        "total_cost_usd": 0.01,
        "total_steps": 4,
    }
    assert cli("import", "run_001.atif.jsonl", "--runs-dir", "again").code == 0
    before, after = facts(runs, "run_001"), facts(Runs(tmp_path / "again"), "run_001")
    assert before["failure_analysis"]["findings"][0]["cause"] == after["failure_analysis"]["findings"][0]["cause"]
    for name in ("model_calls", "input_tokens", "output_tokens", "cost_usd"):
        assert before["cost_analysis"][name] == after["cost_analysis"][name]


def test_an_anonymous_run_is_exported_without_its_texts(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    failing_tests(runs, visibility="anonymous")
    assert cli("export", "run_001", "--format", "atif").code == 0
    assert "npm test" not in (tmp_path / "run_001.atif.jsonl").read_text()
