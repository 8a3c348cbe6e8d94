"""What a real OpenClaw does under a scripted model, and what the diagnosis makes of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from openclaw.install import install
from openclaw.rig import BIN
from openclaw.scenarios import SCENARIOS

from critiqor.lab.runners.runner import Runner
from critiqor.lab.scenario import Scenario


@pytest.mark.parametrize("scenario", [pytest.param(each, id=each.name) for each in SCENARIOS])
def test_what_happened_gets_the_diagnosis_that_it_deserves(scenario: Scenario, tmp_path: Path) -> None:
    command = install("2026.9.6")
    path = os.pathsep.join((str(command.parent), str(BIN), os.environ["PATH"]))
    verdict, _ = Runner("openclaw", environment={"PATH": path}).judge(scenario, tmp_path / "play")
    assert verdict.missed == [], verdict.seen
