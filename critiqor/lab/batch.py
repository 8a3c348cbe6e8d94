"""Many scenarios, each as often as was asked for, and what is to be said of all of them."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from critiqor.lab.runners.fault_injection import end_agents
from critiqor.lab.runners.runner import Runner
from critiqor.lab.scenario import Place, Scenario
from critiqor.lab.verdict import Verdict
from critiqor.model.timeline import TimelineSummary
from critiqor.model.timing import RepeatedFigures
from critiqor.timeline.repetition import repeated_figures

AT_ONCE = 2
"""Scenarios that are played on the embedded loop at a time, where nobody looks at the seconds."""


class ScenarioResult(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario, played once or several times."""

    scenario: str
    description: str
    """What was injected, or what looks like a failure and is none."""
    expected: str
    passed: bool
    plays: list[Verdict]
    same_diagnosis: bool
    """Whether all plays were diagnosed alike."""
    timings: list[RepeatedFigures] = []
    """How the times vary from play to play; empty where it was played once."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that does not apply here."""

    scenario: str
    because: str


class LabResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the lab found out."""

    on: Place
    repeat: int
    passed: bool
    results: list[ScenarioResult]
    left_out: list[LeftOut]


Told = Callable[[str, ScenarioResult | None], None]
"""Told the name of a scenario when it begins, and its result when it ends."""


def run_batch(
    scenarios: Iterable[Scenario], runner: Runner, repeat: int = 1, tell: Told = lambda name, result: None
) -> LabResult:
    """Play every scenario that applies; what failed ones leave behind is kept, and named in their verdicts."""
    chosen = list(scenarios)
    played = [scenario for scenario in chosen if runner.place in scenario.on]
    left_out = [
        LeftOut(scenario=scenario.name, because=scenario.because) for scenario in chosen if scenario not in played
    ]
    folder = Path(tempfile.mkdtemp(prefix="critiqor-lab-"))
    interrupted = threading.Event()

    def play(scenario: Scenario) -> ScenarioResult:
        tell(scenario.name, None)
        plays = []
        for number in range(1, repeat + 1):
            plays.append(runner.judge(scenario, folder / f"{scenario.name}-{number}"))
            if interrupted.is_set():
                raise KeyboardInterrupt  # its agent was ended, so nothing is to be said about it
        result = _result(scenario, plays)
        tell(scenario.name, result)
        return result

    at_once = AT_ONCE if runner.place == "embedded" and repeat == 1 else 1
    with ThreadPoolExecutor(at_once) as pool:
        try:
            results = list(pool.map(play, played))
        except BaseException:
            interrupted.set()
            pool.shutdown(wait=False, cancel_futures=True)
            end_agents(folder)  # or the pool would wait for them
            pool.shutdown()
            shutil.rmtree(folder, ignore_errors=True)
            raise
    if not any(folder.iterdir()):
        folder.rmdir()
    passed = all(result.passed for result in results)
    return LabResult(on=runner.place, repeat=repeat, passed=passed, results=results, left_out=left_out)


def _result(scenario: Scenario, plays: Sequence[tuple[Verdict, TimelineSummary | None]]) -> ScenarioResult:
    verdicts = [verdict for verdict, _ in plays]
    same = len({_diagnosed(verdict) for verdict in verdicts}) == 1
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


def _diagnosed(verdict: Verdict) -> tuple[str | None, tuple[str, ...]]:
    seen = verdict.seen
    return (seen.primary, tuple(seen.findings)) if seen is not None else (None, ("not played",))


def _expected(scenario: Scenario) -> str:
    expect = scenario.expect
    if expect.primary is None:
        return "nothing"
    return ", ".join(dict.fromkeys((expect.primary, *expect.findings)))
