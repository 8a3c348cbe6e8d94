"""Playing scenarios: through the real monitor, finalize and diagnosis, in a folder of their own, and judged."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from critiqor.errors import CritiqorError
from critiqor.lab.runners import embedded_runner as embedded
from critiqor.lab.runners import openclaw_runner as real
from critiqor.lab.runners.sandbox import Sandbox, staged
from critiqor.lab.scenario import Place, Scenario
from critiqor.lab.verdict import Verdict, missed_in, seen_in
from critiqor.model import Coverage, Diagnosis
from critiqor.model.timeline import TimelineSummary
from critiqor.run.diagnosis import load_diagnosed, run_timeline
from critiqor.run.lifecycle import finalize_session, load_record_head, paths_for
from critiqor.storage.session_document import read_coverage


class Played(NamedTuple):
    """A scenario that was played."""

    run_id: str
    runs: Path
    diagnosis: Diagnosis
    coverage: Coverage
    unplayed: int
    """Steps of the model that the agent never asked for, although nothing kept it from doing so."""

    def timeline(self) -> TimelineSummary:
        """Where its time went."""
        return run_timeline(self.run_id, self.runs)


class Runner:
    """Plays scenarios in one place."""

    def __init__(
        self, place: Place, openclaw_command: str = "openclaw", environment: Mapping[str, str] | None = None
    ) -> None:
        self.place: Place = place
        self._command = openclaw_command
        self._environment = os.environ if environment is None else environment

    def play(self, scenario: Scenario, folder: Path, runs: Path | None = None) -> Played:
        """Play a scenario in `folder`, which must not exist yet, seal what was recorded and diagnose it.

        The run lies in `runs`, or in the folder.
        """
        folder.mkdir(parents=True)
        extra = embedded.CONFIGURATION if self.place == "embedded" else {}
        with staged(scenario, folder, self._environment, extra, runs) as stage:
            result = embedded.perform(stage) if self.place == "embedded" else real.perform(stage, self._command)
            if result.interrupted:
                raise KeyboardInterrupt
            unplayed = _unplayed(stage)
        if load_record_head(result.run_id, runs_dir=stage.runs)["status"] != "COMPLETED":
            finalize_session(result.run_id, runs_dir=stage.runs)
        document = paths_for(stage.runs).evidence_summary_path(result.run_id)
        diagnosis = load_diagnosed(result.run_id, stage.runs)
        return Played(result.run_id, stage.runs, diagnosis, read_coverage(document), unplayed)

    def judge(self, scenario: Scenario, folder: Path) -> tuple[Verdict, TimelineSummary | None]:
        """Play a scenario and say whether everything was found; what a failed one left stays in `folder`."""
        begun = time.monotonic()
        try:
            played = self.play(scenario, folder)
        except (CritiqorError, OSError) as error:
            told = error.message if isinstance(error, CritiqorError) else str(error)
            missed = [f"it could not be played: {told}"]
            return self._verdict(scenario, missed, None, time.monotonic() - begun, folder), None
        missed = missed_in(scenario, played.diagnosis, played.coverage)
        if played.unplayed:
            missed.append(f"the agent stopped {played.unplayed} steps before the model's script was at its end")
        timeline = played.timeline()
        verdict = self._verdict(scenario, missed, played, time.monotonic() - begun, folder)
        if verdict.passed:
            shutil.rmtree(folder, ignore_errors=True)
        return verdict, timeline

    def _verdict(
        self, scenario: Scenario, missed: list[str], played: Played | None, seconds: float, folder: Path
    ) -> Verdict:
        return Verdict(
            scenario=scenario.name,
            on=self.place,
            passed=not missed,
            missed=missed,
            seen=seen_in(played.diagnosis) if played is not None else None,
            seconds=round(seconds, 3),
            run=str(folder) if missed else None,
        )


def _unplayed(stage: Sandbox) -> int:
    world, expect = stage.scenario.world, stage.scenario.expect
    is_cut_short = world.kill or world.timeout_s or expect.outcome not in (None, "completed")
    return 0 if is_cut_short else sum(stage.model.unplayed().values())
