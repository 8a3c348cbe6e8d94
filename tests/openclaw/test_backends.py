"""A real OpenClaw that runs its agent on `claude-cli`, with a stand-in for Claude Code: what is recorded of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from openclaw.rig import LOCAL_TURN, Rig, rig

ANSWER = "The file is missing, so nothing was changed."
INNER = {"tool": "Bash", "input": {"command": "ls inner"}, "result": "a b"}
TURN = (
    {"tool": "Bash", "input": {"command": "echo hello"}, "result": "hello"},
    {"tool": "Read", "input": {"file_path": "/nonexistent"}, "result": "File does not exist.", "fails": True},
    {"tool": "Task", "input": {"description": "look", "prompt": "look"}, "result": "It is fine.", "inside": [INNER]},
)
CONFIGURATION = {"agents": {"defaults": {"model": {"primary": "claude-cli/claude-sonnet-5"}}}}


def record(made: Rig, folder: Path, asks: str, turn: Sequence[dict[str, Any]] = TURN) -> dict[str, Any]:
    """Record one turn on the stand-in, and return the diagnosis."""
    command = folder / "bin" / "claude"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("standin_claude.py")} "$@"\n')
    command.chmod(0o755)
    made.environment |= {"STANDIN_TURN": json.dumps(turn), "STANDIN_ANSWER": ANSWER, "STANDIN_ASKS": asks}
    made.environment["PATH"] = os.pathsep.join((str(command.parent), made.environment["PATH"]))
    done = made.monitor(*LOCAL_TURN)
    assert done.returncode == 0, done.stderr
    assert ANSWER in done.stdout
    made.finalize()
    diagnosis: dict[str, Any] = json.loads((made.runs / "run_001" / "diagnosis.json").read_text())
    return diagnosis


@pytest.mark.parametrize("asks", ["hook", "both", "never"])
def test_tools_of_claude_cli_are_recorded_once_and_what_is_hidden_is_said(
    asks: str, version: str, tmp_path: Path
) -> None:
    with rig(tmp_path, version, extra=CONFIGURATION) as made:
        diagnosis = record(made, tmp_path, asks)
        assert made.model.requests == []

        calls = [event["payload"]["arguments"] for event in made.events("tool_call")]
        outer = [call for call in calls if call != INNER["input"]]
        assert [call.get("command") or call.get("file_path") or call["prompt"] for call in outer] == [
            "echo hello",
            "/nonexistent",
            "look",
        ]
        assert [event["status"] for event in made.events("tool_output")].count("error") == 1
        assert made.events("input")[0]["payload"]["text"].endswith("do the thing")
        assert made.events("message_end")[-1]["payload"]["text"] == ANSWER

        coverage = made.evidence()["coverage"]
        assert coverage["hidden_model_calls"] == {"claude-cli": 1}
        assert coverage["calls_without_results"] == 0
        assert any("ran on claude-cli" in note for note in coverage["notes"])
        assert "model calls that a backend made itself" in diagnosis["confidence_lost"]
        assert diagnosis["cost_analysis"]["agent_runs_with_hidden_calls"] == 1
        assert "tool_misuse" not in [finding["type"] for finding in diagnosis["failure_analysis"]["findings"]]
