"""Playing many scenarios, once or repeatedly, and their combined result."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import psutil

from critiqor.lab.runners.runner import Runner
from critiqor.lab.scenario import Platform, Scenario
from critiqor.lab.verdict import Verdict
from critiqor.model.timeline import RepeatedFigures, TimelineSummary
from critiqor.processes import agent_processes
from critiqor.timeline.repeated_runs import repeated_figures

PARALLEL = 2
"""Scenarios played at the same time on the embedded loop, when their times are not measured."""


class ScenarioResult(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario, played once or several times."""

    scenario: str
    description: str
    """The injected fault, or what looks like a failure but is not one."""
    expected: str
    passed: bool
    plays: list[Verdict]
    same_diagnosis: bool
    """Whether all plays had the same diagnosis."""
    timings: list[RepeatedFigures] = []
    """Variation of the times between plays; empty if it was played once."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that cannot be played on this platform."""

    scenario: str
    because: str
    """Why not."""


class LabResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of playing scenarios on one platform."""

    on: Platform
    repeat: int
    passed: bool
    results: list[ScenarioResult]
    left_out: list[LeftOut]


ProgressCallback = Callable[[str, ScenarioResult | None], None]
"""Called with the name of a scenario when it begins, and with its name and result when it ends."""


def run_batch(
    scenarios: Iterable[Scenario],
    runner: Runner,
    repeat: int = 1,
    on_progress: ProgressCallback = lambda name, result: None,
) -> LabResult:
    """Play every scenario that applies; the folders of failed ones are kept and named in their verdicts."""
    chosen = list(scenarios)
    played = [scenario for scenario in chosen if runner.platform in scenario.on]
    left_out = [
        LeftOut(scenario=scenario.name, because=scenario.because) for scenario in chosen if scenario not in played
    ]
    folder = Path(tempfile.mkdtemp(prefix="critiqor-lab-"))
    interrupted = threading.Event()

    def play_repeatedly(scenario: Scenario) -> ScenarioResult:
        on_progress(scenario.name, None)
        plays = []
        for number in range(1, repeat + 1):
            plays.append(runner.judge(scenario, folder / f"{scenario.name}-{number}"))
            if interrupted.is_set():
                raise KeyboardInterrupt  # its agent was killed, so there is no verdict
        result = _result(scenario, plays)
        on_progress(scenario.name, result)
        return result

    workers = PARALLEL if runner.platform == "embedded" and repeat == 1 else 1
    with ThreadPoolExecutor(workers) as pool:
        try:
            results = list(pool.map(play_repeatedly, played))
        except BaseException:
            interrupted.set()
            pool.shutdown(wait=False, cancel_futures=True)
            _kill_agents(folder)  # the pool would wait for them
            pool.shutdown()
            shutil.rmtree(folder, ignore_errors=True)
            raise
    if not any(folder.iterdir()):
        folder.rmdir()
    passed = all(result.passed for result in results)
    return LabResult(on=runner.platform, repeat=repeat, passed=passed, results=results, left_out=left_out)


def _result(scenario: Scenario, plays: Sequence[tuple[Verdict, TimelineSummary | None]]) -> ScenarioResult:
    verdicts = [verdict for verdict, _ in plays]
    same = len({_diagnosis_key(verdict) for verdict in verdicts}) == 1
    summaries = [timeline for _, timeline in plays if timeline is not None]
    return ScenarioResult(
        scenario=scenario.name,
        description=scenario.description,
        expected=_expected(scenario),
        passed=same and all(verdict.passed for verdict in verdicts),
        plays=verdicts,
        same_diagnosis=same,
        timings=repeated_figures(summaries) if len(plays) > 1 else [],
    )


def _diagnosis_key(verdict: Verdict) -> tuple[str | None, tuple[str, ...]]:
    seen = verdict.seen
    return (seen.primary, tuple(seen.findings)) if seen is not None else (None, ("not played",))


def _expected(scenario: Scenario) -> str:
    expect = scenario.expect
    if expect.primary is None:
        return "nothing"
    return ", ".join(dict.fromkeys((expect.primary, *expect.findings)))


def _kill_agents(folder: Path) -> None:
    """Kill every process that is still recorded into this folder or one below it."""
    for process in agent_processes(folder):
        with contextlib.suppress(psutil.Error):
            process.kill()
