"""OTLP: what Critiqor exports and imports again has the same agent runs, calls, tokens and findings."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from support import Cli, Runs, attached, recorded

KINDS = ("agent_start", "agent_end", "token_usage", "tool_call", "tool_output", "message_end")


def turn(
    first: int, run: str, request: str, output: str, answer: str, exit_code: int, session: str = "agent:main:main"
) -> list[dict[str, Any]]:
    """An agent run with one command."""
    place: dict[str, Any] = {"agent_run_id": run, "session_key": session}
    call: dict[str, Any] = {**place, "tool_name": "exec", "tool_call_id": f"call_{run}"}
    usage = {"usage": {"input": 900, "output": 30}, "provider": "lab", "model": "scripted"}
    result = {"content": [{"type": "text", "text": output}], "details": {"exitCode": exit_code}}
    failed: dict[str, Any] = {"status": "error", "error": f"exit code {exit_code}"} if exit_code else {}
    said = {"role": "assistant", "text": answer, "stop_reason": "stop"}
    records: list[tuple[str, dict[str, Any]]] = [
        ("agent_start", {**place, "payload": {"attempt": 1}}),
        ("input", {**place, "payload": {"role": "user", "text": request}}),
        ("before_provider_request", {**place, "payload": {"callId": f"{run}:1"}}),
        ("token_usage", {**place, "payload": {"callId": f"{run}:1", **usage}}),
        ("tool_call", {**call, "payload": {"arguments": {"command": "pytest -q"}}}),
        ("tool_output", {**call, **failed, "payload": {"result": result}}),
        ("before_provider_request", {**place, "payload": {"callId": f"{run}:2"}}),
        ("token_usage", {**place, "payload": {"callId": f"{run}:2", **usage}}),
        ("message_end", {**place, "payload": said}),
        ("agent_end", {**place, "payload": {"success": True}}),
    ]
    begin = 1_800_000_000_000
    return [
        recorded(first + n, kind, at=begin + 1000 * (first + n), **fields) for n, (kind, fields) in enumerate(records)
    ]


def facts(runs: Runs) -> tuple[dict[str, int], Any]:
    events = [one for one in runs.evidence("run_001")["events"] if one["source_layer"] != "supervisor"]
    counts = Counter(one["event_type"] for one in events)
    diagnosis = json.loads(runs.paths.diagnosis_path("run_001").read_text())
    causes = [one["cause"] for one in diagnosis["failure_analysis"]["findings"]]
    cost = diagnosis["cost_analysis"]
    tokens = [cost[name] for name in ("model_calls", "input_tokens", "output_tokens")]
    started = (one for one in events if one["event_type"] == "agent_start")
    agent_runs = sorted((one["session_key"], one["agent_run_id"]) for one in started)
    return {kind: counts[kind] for kind in KINDS if kind != "message_end"}, (causes, tokens, agent_runs)


def test_the_export_is_imported_with_the_same_agent_runs_calls_tokens_and_findings(
    runs: Runs, cli: Cli, tmp_path: Path
) -> None:
    runs.seal(
        attached(1, at=1_800_000_000_000),
        *turn(2, "a", "Fix the tests.", "12 passed", "All tests pass.", 0),
        *turn(12, "b", "Fix the other tests.", "1 failed, 11 passed", "All tests pass.", 1),
        *turn(22, "c", "Run the tests.", "12 passed", "All tests pass.", 0, session="agent:main:other"),
    )
    assert cli("export", "run_001", "--format", "otlp", "--content").code == 0
    assert cli("import", "run_001.otlp.json", "--runs-dir", "again").code == 0

    before, after = facts(runs), facts(Runs(tmp_path / "again"))
    assert before == after
    assert before[1][0], "there is a finding"


def test_empty_answers_results_and_errors_are_the_same_after_a_round_trip(runs: Runs, cli: Cli, tmp_path: Path) -> None:
    begin, place = 1_800_000_000_000, {"agent_run_id": "a"}
    call: dict[str, Any] = {**place, "tool_name": "edit", "tool_call_id": "c"}
    other: dict[str, Any] = {**place, "tool_name": "exec", "tool_call_id": "d"}
    records: list[tuple[str, dict[str, Any]]] = [
        ("agent_start", {**place, "payload": {"attempt": 1}}),
        ("input", {**place, "payload": {"role": "user", "text": "Fix the tests."}}),
        ("before_provider_request", place),
        ("token_usage", {**place, "payload": {"usage": {"input": 9, "output": 3}}}),
        ("message_end", {**place, "payload": {"role": "assistant", "text": "I look.", "stop_reason": "toolUse"}}),
        ("tool_call", {**call, "payload": {"arguments": {"path": "a.py"}}}),
        ("tool_output", {**call, "status": "error", "error": "File does not exist.", "payload": {"result": "no"}}),
        ("tool_call", {**other, "payload": {"arguments": {"command": "ls"}}}),
        ("tool_output", {**other, "payload": {"result": {"content": [{"type": "text", "text": "x" * 40_000}]}}}),
        ("before_provider_request", place),
        ("token_usage", {**place, "payload": {"usage": {"input": 9, "output": 0}}}),
        ("message_end", {**place, "payload": {"role": "assistant", "text": "", "stop_reason": "stop"}}),
        ("agent_end", {**place, "payload": {"success": True}}),
    ]
    runs.seal(
        attached(1, at=begin),
        *(recorded(n, kind, at=begin + n * 1000, **fields) for n, (kind, fields) in enumerate(records, 2)),
    )
    assert cli("export", "run_001", "--format", "otlp", "--content").code == 0
    assert cli("import", "run_001.otlp.json", "--runs-dir", "again").code == 0

    def told(folder: Runs) -> list[tuple[Any, ...]]:
        events = [one for one in folder.evidence("run_001")["events"] if one["source_layer"] != "supervisor"]
        kept = [
            one for one in events if one["event_type"] in ("message_end", "tool_output") and one["tool_name"] != "exec"
        ]
        return [(one["error"], one["payload"].get("text"), one["payload"].get("result")) for one in kept]

    again = Runs(tmp_path / "again")
    assert (
        told(runs) == told(again) == [(None, "I look.", None), ("File does not exist.", None, "no"), (None, "", None)]
    )
    assert facts(runs)[1] == facts(again)[1]
    [long] = [one for one in again.evidence("run_001")["events"] if one["event_type"] == "tool_output"][1:]
    assert "xxxx" in str(long["payload"]["result"]), "a result that was cut is kept as text"
