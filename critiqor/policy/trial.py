"""Tries a policy on recorded events: which contracts are violated, and which limits would have been exceeded."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from critiqor.model import ContractResult, Event, Severity
from critiqor.policy.contracts import ContractChecker
from critiqor.policy.limits import LimitReached, LimitTracker
from critiqor.policy.policy_file import Policy


class TriedContract(msgspec.Struct, frozen=True, kw_only=True):
    """A contract that is violated in one agent run."""

    id: str
    says: str
    severity: Severity
    occurrences: int
    session_key: str | None
    agent_run_id: str | None
    evidence: list[str]
    """Events that violate it, or because of which others do."""


class PolicyTrial(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy says about one recording."""

    run: str
    violations: list[TriedContract]
    """In the order of the policy."""
    limits: list[LimitReached]
    """In the order in which they were exceeded."""
    not_evaluated: list[ContractResult]
    """Contracts with expressions that could not be evaluated on some events."""


def try_policy(run: str, events: Iterable[Event], policy: Policy) -> PolicyTrial:
    """Check the contracts and limits of a policy on the events of a recording, all of which are known."""
    checker, tracker = ContractChecker(policy.contracts), LimitTracker(policy.limits)
    reached: list[LimitReached] = []
    for event in events:
        checker.observe(event)
        reached += tracker.observe(event)
    severities = {contract.id: contract.severity for contract in policy.contracts}
    violations = [
        TriedContract(
            id=draft.about[0],
            says=draft.title,
            severity=severities[draft.about[0]],
            occurrences=draft.occurrences,
            session_key=draft.scope.session_key,
            agent_run_id=draft.scope.agent_run_id,
            evidence=draft.evidence,
        )
        for draft in checker.findings(is_over=True)
    ]
    unknown = [result for result in checker.results() if result.not_evaluated]
    return PolicyTrial(run=run, violations=violations, limits=reached, not_evaluated=unknown)
