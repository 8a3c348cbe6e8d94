"""What was found, held against what must be found."""

from __future__ import annotations

from typing import Any

import msgspec

from critiqor.lab.scenario import Expectation, Place, Scenario
from critiqor.lab.scenario_file import others_absent
from critiqor.model import Coverage, Diagnosis

OF_THE_MACHINE = frozenset(("latency_stall", "slow_startup"))
"""Types that a machine with too much to do has by itself: they count only in scenarios that name them."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the diagnosis of a scenario says."""

    primary: str | None
    severity: str | None
    findings: list[str]
    """Types, the worst first, each once."""
    trust: int | None
    outcome: str
    headline: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """How one play of a scenario ended."""

    scenario: str
    on: Place
    passed: bool
    missed: list[str]
    """What is not as it must be, one sentence each."""
    seen: Seen | None
    """Null where it could not be played."""
    seconds: float
    run: str | None = None
    """Where the run lies, for one that failed."""


def seen_in(diagnosis: Diagnosis, but: frozenset[str] = frozenset()) -> Seen:
    """The diagnosis in short, as it would be without findings of some types."""
    found = diagnosis.failure_analysis.findings
    kept = [finding for finding in found if finding.type not in but]
    trust = diagnosis.trust_score
    if trust is not None:
        trust += sum(finding.impact.trust_points for finding in found if finding.type in but)
    return Seen(
        primary=kept[0].type if kept else None,
        severity=kept[0].severity if kept else None,
        findings=list(dict.fromkeys(finding.type for finding in kept)),
        trust=trust,
        outcome=diagnosis.outcome.state,
        headline=diagnosis.headline,
    )


def missed_in(scenario: Scenario, diagnosis: Diagnosis, coverage: Coverage) -> list[str]:
    """What is not as the scenario wants it."""
    expect = scenario.expect
    seen = seen_in(diagnosis, OF_THE_MACHINE - expect.types - set(expect.absent))
    missed = []
    if seen.primary != expect.primary:
        missed.append(f"the primary diagnosis is {seen.primary or 'none'}, and not {expect.primary or 'none'}")
    elif expect.severity and seen.severity not in expect.severity:
        missed.append(f"it weighs {seen.severity}, and not {' or '.join(expect.severity)}")
    found = set(seen.findings)
    missed += [f"{name} was not found" for name in expect.findings if name not in found]
    missed += [f"{name} was found, and should not be" for name in seen.findings if name in others_absent(expect)]
    return [*missed, *_scores_missed(expect, seen), *_coverage_missed(expect, coverage)]


def _scores_missed(expect: Expectation, seen: Seen) -> list[str]:
    missed = []
    if expect.trust is not None:
        least, greatest = expect.trust
        if seen.trust is None or not least <= seen.trust <= greatest:
            missed.append(f"trust is {'unknown' if seen.trust is None else seen.trust}, and not {least} to {greatest}")
    if expect.outcome is not None and seen.outcome != expect.outcome:
        missed.append(f"the outcome is {seen.outcome}, and not {expect.outcome}")
    return missed


def _coverage_missed(expect: Expectation, coverage: Coverage) -> list[str]:
    known: dict[str, Any] = msgspec.to_builtins(coverage)
    return [
        f"coverage.{name} is {known[name]}, and not {wanted}"
        for name, wanted in expect.coverage.items()
        if known[name] != wanted
    ]
