"""What new diagnoses of runs change: of each run, and added up by failure type and agent."""

from __future__ import annotations

from collections import Counter

import msgspec

from critiqor.comparison.causes import CauseChange, cause_changes
from critiqor.fleet.manifest import Manifest
from critiqor.model.diagnosis import Diagnosis, Readiness

MAX_LISTED = 1000
"""Maximum number of runs that a report lists; the others are only counted."""


class RunChange(msgspec.Struct, frozen=True, kw_only=True):
    """How the new diagnosis of a run differs from the previous one."""

    host_id: str
    run_id: str
    seal: str
    agent_id: str
    is_new: bool
    """Whether it was diagnosed now; else the diagnosis was in the store already."""
    previous_rule_set: str
    trust: int | None
    previous_trust: int | None
    verdict: Readiness
    previous_verdict: Readiness
    gone: list[CauseChange] = msgspec.field(default_factory=list)
    """Causes that are no longer found."""
    new: list[CauseChange] = msgspec.field(default_factory=list)
    changed: list[CauseChange] = msgspec.field(default_factory=list)
    """Causes that are found still, with another severity, in other findings or another number of times."""

    @property
    def is_different(self) -> bool:
        """Whether anything that the report counts is different."""
        judged = self.trust != self.previous_trust or self.verdict != self.previous_verdict
        return judged or bool(self.gone or self.new or self.changed)


class RunProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A run that could not be diagnosed or exported."""

    host_id: str
    run_id: str
    seal: str
    problem: str
    """Why, in one sentence."""

    @classmethod
    def of(cls, manifest: Manifest, problem: str) -> RunProblem:
        """Return a run whose changes are unknown because of a problem."""
        return cls(host_id=manifest.host_id, run_id=manifest.run_id, seal=manifest.seal, problem=problem)


class TypeCount(msgspec.Struct, kw_only=True):
    """How often a failure type is gone, new or changed in the runs of an agent; each cause of a run counts once."""

    type: str
    agent_id: str
    gone: int = 0
    new: int = 0
    changed: int = 0


class ChangeReport(msgspec.Struct, kw_only=True):
    """What the diagnosis of many runs with one rule set did and changed."""

    store: str
    rule_set: str
    selected: int = 0
    """Runs that the expression selects; the next five numbers add up to it."""
    diagnosed: int = 0
    """Runs that were diagnosed now."""
    already_diagnosed: int = 0
    """Runs whose diagnosis by this rule set was in the store: an earlier call, or another one, made it."""
    same_rule_set: int = 0
    """Runs that were recorded and diagnosed with this rule set, or a newer one; they are left alone."""
    without_content: int = 0
    """Runs that were pushed without their content: what is left of them cannot be diagnosed again."""
    failed: int = 0
    different: int = 0
    """Runs whose new diagnosis differs from the previous one."""
    trust_rose: int = 0
    trust_fell: int = 0
    verdicts: dict[str, int] = msgspec.field(default_factory=dict)
    """Number of runs by change of the verdict, such as `review → unsafe`."""
    findings: list[TypeCount] = msgspec.field(default_factory=list)
    """By failure type and agent, the most frequent first."""
    runs: list[RunChange] = msgspec.field(default_factory=list)
    """Runs that differ, at most a thousand of them."""
    problems: list[RunProblem] = msgspec.field(default_factory=list)
    """Runs that could not be diagnosed, at most a thousand of them."""
    unusable: list[str] = msgspec.field(default_factory=list)
    """Objects of the store that are no manifests, one sentence each."""


class ChangeCounter:
    """Adds up changes run by run."""

    def __init__(self, store: str, rule_set: str) -> None:
        self.report = ChangeReport(store=store, rule_set=rule_set)
        self._types: dict[tuple[str, str], TypeCount] = {}
        self._verdicts: Counter[str] = Counter()

    def add(self, change: RunChange) -> None:
        """Add a run that was diagnosed."""
        report = self.report
        report.diagnosed += change.is_new
        report.already_diagnosed += not change.is_new
        if not change.is_different:
            return
        report.different += 1
        if change.trust is not None and change.previous_trust is not None:
            report.trust_rose += change.trust > change.previous_trust
            report.trust_fell += change.trust < change.previous_trust
        if change.verdict != change.previous_verdict:
            self._verdicts[f"{change.previous_verdict} → {change.verdict}"] += 1
        for cause in change.gone:
            self._count(cause, change.agent_id).gone += 1
        for cause in change.new:
            self._count(cause, change.agent_id).new += 1
        for cause in change.changed:
            self._count(cause, change.agent_id).changed += 1
        if len(report.runs) < MAX_LISTED:
            report.runs.append(change)

    def add_problem(self, manifest: Manifest, problem: str) -> None:
        """Add a run that could not be diagnosed."""
        self.report.failed += 1
        if len(self.report.problems) < MAX_LISTED:
            self.report.problems.append(RunProblem.of(manifest, problem))

    def finish(self) -> ChangeReport:
        """Return the report on all runs that were added; whatever their order was, it is the same."""
        report = self.report
        report.findings = sorted(
            self._types.values(), key=lambda each: (-(each.gone + each.new + each.changed), each.type, each.agent_id)
        )
        report.verdicts = dict(sorted(self._verdicts.items()))
        report.runs.sort(key=lambda each: (each.host_id, each.run_id, each.seal))
        report.problems.sort(key=lambda each: (each.host_id, each.run_id, each.seal))
        return report

    def _count(self, cause: CauseChange, agent_id: str) -> TypeCount:
        key = (cause.type, agent_id)
        if key not in self._types:
            self._types[key] = TypeCount(type=cause.type, agent_id=agent_id)
        return self._types[key]


def change_of(manifest: Manifest, before: Diagnosis, after: Diagnosis, *, is_new: bool) -> RunChange:
    """Return how the new diagnosis of a run differs from the previous one."""
    changes = cause_changes(before, after)
    both = [change for change in changes if change.severity_before and change.severity_after]
    return RunChange(
        host_id=manifest.host_id,
        run_id=manifest.run_id,
        seal=manifest.seal,
        agent_id=manifest.metadata.agent_id,
        is_new=is_new,
        previous_rule_set=before.rule_set_version,
        trust=after.trust_score,
        previous_trust=before.trust_score,
        verdict=after.readiness,
        previous_verdict=before.readiness,
        gone=[change for change in changes if change.severity_after is None],
        new=[change for change in changes if change.severity_before is None],
        changed=[change for change in both if _is_different(change)],
    )


def _is_different(change: CauseChange) -> bool:
    before = (change.severity_before, change.findings_before, change.occurrences_before)
    return before != (change.severity_after, change.findings_after, change.occurrences_after)
