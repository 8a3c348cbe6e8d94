"""A real OpenClaw that runs its agent on `claude-cli`, with a stand-in for Claude Code: what is recorded of it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from openclaw.install import VERSIONS
from openclaw.rig import LOCAL_TURN, Rig, rig

ANSWER = "The file is missing, so nothing was changed."
INNER = {"tool": "Bash", "input": {"command": "ls inner"}, "result": "a b"}
TURN = (
    {"tool": "Bash", "input": {"command": "echo hello"}, "result": "hello"},
    {"tool": "Read", "input": {"file_path": "/nonexistent"}, "result": "File does not exist.", "fails": True},
    {"tool": "Task", "input": {"description": "look", "prompt": "look"}, "result": "It is fine.", "inside": [INNER]},
)
CONFIGURATION = {"agents": {"defaults": {"model": {"primary": "claude-cli/claude-sonnet-5"}}}}


def record(made: Rig, folder: Path, asks: str, transcript: str) -> dict[str, Any]:
    """Record one turn on the stand-in, and return the diagnosis."""
    command = folder / "bin" / "claude"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("standin_claude.py")} "$@"\n')
    command.chmod(0o755)
    made.environment |= {"STANDIN_TURN": json.dumps(TURN), "STANDIN_ANSWER": ANSWER, "STANDIN_ASKS": asks}
    made.environment |= {"STANDIN_TRANSCRIPT": transcript}
    made.environment["PATH"] = os.pathsep.join((str(command.parent), made.environment["PATH"]))
    done = made.monitor(*LOCAL_TURN)
    assert done.returncode == 0, done.stderr
    assert ANSWER in done.stdout
    assert made.model.requests == []
    made.finalize()
    assert made.critiqor("verify", "run_001").returncode == 0
    diagnosis: dict[str, Any] = json.loads((made.runs / "run_001" / "diagnosis.json").read_text())
    assert "tool_misuse" not in [finding["type"] for finding in diagnosis["failure_analysis"]["findings"]]
    return diagnosis


def commands(made: Rig) -> list[str]:
    """What the recorded tool calls were asked to do."""
    calls = [event["payload"]["arguments"] for event in made.events("tool_call")]
    return [call.get("command") or call.get("file_path") or call["prompt"] for call in calls]


def test_tools_of_claude_cli_are_recorded_once_and_what_is_hidden_is_named(version: str, tmp_path: Path) -> None:
    with rig(tmp_path, version, extra=CONFIGURATION) as made:
        diagnosis = record(made, tmp_path, "both", "")
        assert commands(made) == ["echo hello", "/nonexistent", "look", "ls inner"]
        assert [event["status"] for event in made.events("tool_output")].count("error") == 1
        assert made.events("input")[0]["payload"]["text"].endswith("do the thing")
        assert made.events("message_end")[-1]["payload"]["text"] == ANSWER

        coverage = made.evidence()["coverage"]
        assert coverage["hidden_model_calls"] == {"claude-cli": 1}
        assert coverage["results_hidden"] == ({"exec": 1} if version == "2026.9.6" else {})
        assert coverage["calls_without_results"] == 0
        assert any("ran on claude-cli" in note for note in coverage["notes"])
        assert "model calls that a backend made itself" in diagnosis["confidence_lost"]
        assert diagnosis["cost_analysis"]["agent_runs_with_hidden_calls"] == 1


@pytest.mark.parametrize(("asks", "version"), [*(("hook", version) for version in VERSIONS), ("never", VERSIONS[0])])
def test_what_claude_cli_hides_is_taken_from_the_transcript_of_claude_code(
    asks: str, version: str, tmp_path: Path
) -> None:
    with rig(tmp_path, version, extra=CONFIGURATION) as made:
        diagnosis = record(made, tmp_path, asks, "yes")
        assert sorted(commands(made)) == ["/nonexistent", "echo hello", "look", "ls inner"]
        outputs = {event["tool_call_id"] for event in made.events("tool_output")}
        assert outputs == {event["tool_call_id"] for event in made.events("tool_call")}
        assert len(made.events("token_usage")) == len(commands(made)) + 1

        coverage = made.evidence()["coverage"]
        assert (coverage["hidden_model_calls"], coverage["results_hidden"]) == ({}, {})
        assert coverage["transcript_records"] >= 5
        assert coverage["missing_records"] == coverage["damaged_records"] == 0
        assert diagnosis["cost_analysis"]["model_calls"] == 5
        assert diagnosis["cost_analysis"]["input_tokens"] == 50
