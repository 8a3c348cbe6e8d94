"""Verdict on a played scenario: its findings compared with the expected ones."""

from __future__ import annotations

from typing import Any

import msgspec

from critiqor.diagnosis import FAILURE_TYPES
from critiqor.diagnosis.scoring import Judgement, SessionFacts, judge
from critiqor.lab.scenario import EVERYTHING_ELSE, Expectation, Platform, Scenario, session_key_of
from critiqor.model import Coverage, Diagnosis, Finding, Readiness, TaskVerdict

MACHINE_DEPENDENT = frozenset(("latency_stall", "slow_startup"))
"""Failure types that a busy machine causes by itself: they count only in scenarios that name them."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Short form of a diagnosis."""

    primary: str | None
    severity: str | None
    findings: list[str]
    """Failure types, the worst first, each once."""
    trust: int | None
    outcome: str
    readiness: Readiness
    sessions: dict[str, Readiness] = {}
    """Readiness by session key; agent runs without a session are left out."""
    task: TaskVerdict
    headline: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one play of a scenario."""

    scenario: str
    on: Platform
    passed: bool
    missed: list[str]
    """Differences from the expectation, one sentence each."""
    seen: Seen | None
    """Null if it could not be played."""
    seconds: float
    run: str | None = None
    """The folder with the run of a failed play."""


def summarize_diagnosis(diagnosis: Diagnosis, ignored: frozenset[str] = frozenset()) -> Seen:
    """Return the short form of a diagnosis without the findings of ignored types."""
    found = diagnosis.failure_analysis.own_findings
    kept = [finding for finding in found if finding.type not in ignored]
    trust, readiness, sessions = diagnosis.trust_score, diagnosis.readiness, diagnosis.sessions
    if len(kept) < len(found):
        again = _judge_again(diagnosis, kept)
        trust, readiness, sessions = again.trust, again.readiness, again.sessions
    return Seen(
        primary=kept[0].type if kept else None,
        severity=kept[0].severity if kept else None,
        findings=list(dict.fromkeys(finding.type for finding in kept)),
        trust=trust,
        outcome=diagnosis.outcome.state,
        readiness=readiness,
        sessions={each.session_key: each.readiness for each in sessions if each.session_key is not None},
        task=diagnosis.outcome.task.verdict,
        headline=diagnosis.headline,
    )


def _judge_again(diagnosis: Diagnosis, findings: list[Finding]) -> Judgement:
    """Return the scores that a diagnosis would have with these findings only."""
    cut_short = bool(diagnosis.outcome.cut_short)
    return judge(
        findings,
        [SessionFacts(each.session_key, was_cut_short=cut_short) for each in diagnosis.sessions],
        confidence=diagnosis.confidence_score,
        is_observed=diagnosis.trust_score is not None,
        tasks={each.session_key: each.task for each in diagnosis.sessions},
    )


def find_mismatches(scenario: Scenario, diagnosis: Diagnosis, coverage: Coverage) -> list[str]:
    """Return the differences of a diagnosis from what the scenario expects, one sentence each."""
    expect = scenario.expect
    seen = summarize_diagnosis(diagnosis, MACHINE_DEPENDENT - expect.types - set(expect.absent))
    missed = []
    if seen.primary != expect.primary:
        missed.append(f"the primary diagnosis is {seen.primary or 'none'}, expected {expect.primary or 'none'}")
    elif expect.severity and seen.severity not in expect.severity:
        missed.append(f"its severity is {seen.severity}, expected {' or '.join(expect.severity)}")
    found = set(seen.findings)
    missed += [f"{name} was not found" for name in expect.findings if name not in found]
    missed += [f"{name} was found, but must not be" for name in seen.findings if name in forbidden_types(expect)]
    return [*missed, *_score_mismatches(expect, seen), *_coverage_mismatches(expect, coverage)]


def forbidden_types(expect: Expectation) -> frozenset[str]:
    """Return every failure type that leads to a failed verdict."""
    if expect.primary is None or EVERYTHING_ELSE in expect.absent:
        return frozenset(FAILURE_TYPES) - expect.types
    return frozenset(expect.absent)


def _score_mismatches(expect: Expectation, seen: Seen) -> list[str]:
    missed = []
    if expect.trust is not None:
        lowest, highest = expect.trust
        if seen.trust is None or not lowest <= seen.trust <= highest:
            missed.append(f"trust is {'unknown' if seen.trust is None else seen.trust}, expected {lowest} to {highest}")
    if expect.outcome is not None and seen.outcome != expect.outcome:
        missed.append(f"the outcome is {seen.outcome}, expected {expect.outcome}")
    if expect.readiness is not None and seen.readiness != expect.readiness:
        missed.append(f"the readiness is {seen.readiness}, expected {expect.readiness}")
    for name, wanted in expect.sessions.items():
        readiness = seen.sessions.get(session_key_of(name), "not recorded")
        if readiness != wanted:
            missed.append(f"session {name} is {readiness}, expected {wanted}")
    if expect.task is not None and seen.task != expect.task:
        missed.append(f"the task is {seen.task}, expected {expect.task}")
    return missed


def _coverage_mismatches(expect: Expectation, coverage: Coverage) -> list[str]:
    known: dict[str, Any] = msgspec.to_builtins(coverage)
    return [
        f"coverage.{name} is {known[name]}, expected {wanted}"
        for name, wanted in expect.coverage.items()
        if known[name] != wanted
    ]
