"""Playing a scenario through the real monitor, finalize and diagnosis, and comparing the result."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from critiqor.errors import CritiqorError
from critiqor.lab.runners.embedded_runner import CONFIGURATION, run_embedded
from critiqor.lab.runners.openclaw_runner import run_openclaw
from critiqor.lab.runners.sandbox import Sandbox, open_sandbox
from critiqor.lab.scenario import Platform, Scenario
from critiqor.lab.verdict import Verdict, find_mismatches, summarize_diagnosis
from critiqor.model import Coverage, Diagnosis
from critiqor.model.timeline import TimelineSummary
from critiqor.run.finalization import finalize
from critiqor.run.store import Run, RunStore


class PlayedScenario(NamedTuple):
    """A scenario that was played, with its diagnosis."""

    run_id: str
    runs: Path
    diagnosis: Diagnosis
    coverage: Coverage
    unplayed: int
    """Steps of the model's script that the agent never requested, although nothing stopped it."""

    def timeline(self) -> TimelineSummary:
        """Return the summary of its timeline."""
        return Run.load(self.run_id, self.runs).timing()


class Runner:
    """Plays scenarios on one platform."""

    def __init__(
        self, platform: Platform, openclaw_command: str = "openclaw", environment: Mapping[str, str] | None = None
    ) -> None:
        self.platform: Platform = platform
        self._command = openclaw_command
        self._environment = os.environ if environment is None else environment

    def play(self, scenario: Scenario, folder: Path, runs: Path | None = None) -> PlayedScenario:
        """Play a scenario in `folder`, which must not exist yet, then seal and diagnose the run.

        The run is recorded into `runs`, or into a subfolder of `folder`.
        """
        folder.mkdir(parents=True)
        extra = CONFIGURATION if self.platform == "embedded" else {}
        with open_sandbox(scenario, folder, self._environment, extra, runs) as sandbox:
            embedded = self.platform == "embedded"
            result = run_embedded(sandbox) if embedded else run_openclaw(sandbox, self._command)
            if result.interrupted:
                raise KeyboardInterrupt
            unplayed = _unplayed(sandbox)
        run = Run.load(result.run_id, sandbox.runs)
        if run.head().status != "COMPLETED":
            finalize(run, RunStore(sandbox.runs), contracts=scenario.contracts)
        return PlayedScenario(run.id, sandbox.runs, run.diagnosis, run.coverage(), unplayed)

    def judge(self, scenario: Scenario, folder: Path) -> tuple[Verdict, TimelineSummary | None]:
        """Play a scenario and compare the diagnosis with the expectation; if it differs, `folder` is kept."""
        started = time.monotonic()
        try:
            played = self.play(scenario, folder)
        except (CritiqorError, OSError) as error:
            reason = error.message if isinstance(error, CritiqorError) else str(error)
            missed = [f"it could not be played: {reason}"]
            return self._verdict(scenario, missed, None, time.monotonic() - started, folder), None
        missed = find_mismatches(scenario, played.diagnosis, played.coverage)
        if played.unplayed:
            missed.append(f"the agent stopped early: {played.unplayed} steps of the script were not used")
        timeline = played.timeline()
        verdict = self._verdict(scenario, missed, played, time.monotonic() - started, folder)
        if verdict.passed:
            shutil.rmtree(folder, ignore_errors=True)
        return verdict, timeline

    def _verdict(
        self, scenario: Scenario, missed: list[str], played: PlayedScenario | None, seconds: float, folder: Path
    ) -> Verdict:
        return Verdict(
            scenario=scenario.name,
            on=self.platform,
            passed=not missed,
            missed=missed,
            seen=summarize_diagnosis(played.diagnosis) if played is not None else None,
            seconds=round(seconds, 3),
            run=str(folder) if missed else None,
        )


def _unplayed(sandbox: Sandbox) -> int:
    world, expect = sandbox.scenario.world, sandbox.scenario.expect
    ends_early = world.kill or world.timeout_s or expect.outcome not in (None, "completed")
    return 0 if ends_early else sum(sandbox.model.unplayed().values())
