"""What a real OpenClaw does under a scripted model, and what the diagnosis makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from openclaw.install import install
from openclaw.rig import command_path
from openclaw.scenarios import SCENARIOS

from critiqor.lab.runners.runner import Runner
from critiqor.lab.scenario import Scenario


@pytest.mark.parametrize("scenario", [pytest.param(each, id=each.name) for each in SCENARIOS])
def test_what_happened_gets_the_diagnosis_that_it_deserves(scenario: Scenario, tmp_path: Path) -> None:
    runner = Runner("openclaw", environment={"PATH": command_path(install("2026.9.6"))})
    verdict, _ = runner.judge(scenario, tmp_path / "play")
    assert verdict.missed == [], verdict.seen
