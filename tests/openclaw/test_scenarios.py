"""What a real OpenClaw does under a scripted model, and what the diagnosis makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rig import Rig, rig, wait_until
from scenarios import SCENARIOS, Scenario


@pytest.mark.parametrize("scenario", [pytest.param(each, id=each.name) for each in SCENARIOS])
def test_what_happened_gets_the_diagnosis_that_it_deserves(scenario: Scenario, tmp_path: Path) -> None:
    record = record_of(scenario, tmp_path)
    diagnosis = record["diagnosis"]
    findings = diagnosis["failure_analysis"]["findings"]
    primary = diagnosis["primary_diagnosis"]
    shown = json.dumps(findings, indent=1)
    if scenario.diagnosis is None:
        assert (primary, findings) == (None, []), shown
        return
    assert primary is not None, shown
    assert primary["type"] == scenario.diagnosis, shown
    assert not scenario.severities or primary["severity"] in scenario.severities, shown


def record_of(scenario: Scenario, folder: Path) -> dict[str, Any]:
    """The finalized record of this scenario."""
    with rig(folder, "2026.9.6", scenario.steps, context_window=scenario.context_window) as made:
        for name, content in scenario.files.items():
            made.workspace.mkdir(exist_ok=True)
            (made.workspace / name).write_text(content)
        play(scenario, made)
        return made.finalize()


def play(scenario: Scenario, made: Rig) -> None:
    turn = ("agent", "--local", "--agent", "main", "--message", scenario.ask)
    if not scenario.killed:
        made.monitor(*turn)
        assert len(made.model.requests) >= len(scenario.steps), "the agent stopped before the script did"
        return
    monitor = made.start_monitor(*turn)
    journal = made.runs / "run_001" / "journal.jsonl"
    wait_until(lambda: journal.exists() and '"tool_call"' in journal.read_text())
    for process in made.openclaw_processes():
        process.kill()
    assert monitor.wait(60) == 137
