"""Three short stories of an agent, recorded, sealed and diagnosed like any other run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from critiqor.lab.runners.runner import Runner
from critiqor.lab.scenario_file import chosen, shipped_scenarios
from critiqor.model import Diagnosis

ACTS = {
    "clean": "An agent that does what it says.",
    "same_search_again": "An agent that goes round in circles.",
    "false_claim_tests": "An agent that says it worked, when it did not.",
}
"""The scenarios that are shown, with what to look for."""


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """One of the stories."""

    scenario: str
    lesson: str
    description: str
    run_id: str
    diagnosis: Diagnosis


def perform(runner: Runner, folder: Path) -> Iterator[Act]:
    """Play one story after the other in `folder`; all runs are in `runs` there."""
    for scenario in chosen(shipped_scenarios(), tuple(ACTS)):
        played = runner.play(scenario, folder / scenario.name, folder / "runs")
        yield Act(
            scenario=scenario.name,
            lesson=ACTS[scenario.name],
            description=scenario.description,
            run_id=played.run_id,
            diagnosis=played.diagnosis,
        )
