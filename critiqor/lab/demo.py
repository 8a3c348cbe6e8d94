"""The demo: three short scenarios, recorded, sealed and diagnosed like any other run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from critiqor.lab.runners.runner import Runner
from critiqor.lab.scenario_file import select_scenarios, shipped_scenarios
from critiqor.model import Diagnosis

ACTS = {
    "clean": "An agent that does what it says.",
    "same_search_again": "An agent that repeats the same calls.",
    "false_claim_tests": "An agent that claims success although it failed.",
}
"""The scenarios of the demo, each with what it shows."""


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario of the demo, after it was played."""

    scenario: str
    lesson: str
    """What it shows, in one sentence."""
    description: str
    run_id: str
    diagnosis: Diagnosis


def play_acts(runner: Runner, folder: Path) -> Iterator[Act]:
    """Play the scenarios of the demo in `folder`; all runs are recorded into its subfolder `runs`."""
    for scenario in select_scenarios(shipped_scenarios(), tuple(ACTS)):
        played = runner.play(scenario, folder / scenario.name, folder / "runs")
        yield Act(
            scenario=scenario.name,
            lesson=ACTS[scenario.name],
            description=scenario.description,
            run_id=played.run_id,
            diagnosis=played.diagnosis,
        )
