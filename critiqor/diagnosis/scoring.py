"""Trust, confidence and readiness, each point of which can be accounted for."""

from __future__ import annotations

from critiqor.model import Coverage, Finding, Readiness, Severity

POINTS: dict[Severity, int] = {"critical": 50, "high": 30, "medium": 15, "low": 5, "info": 0}
"""Points of trust that a finding costs."""
OF_THE_RECORDER = frozenset(("inspection_incomplete",))
"""Damage to the collector lowers confidence, never trust."""


def trust_points(type_: str, severity: Severity, left: int) -> int:
    """What a finding costs of the points that are left."""
    return 0 if type_ in OF_THE_RECORDER else min(left, POINTS[severity])


def confidence_lost(coverage: Coverage, *, hollow: bool = False) -> dict[str, int]:
    """Points of confidence that are lost to what the recorder is known to have missed, by reason; 100 at most."""
    if not coverage.agent_events:
        return {"no agent was observed": 100}
    lost = coverage.damaged_records + coverage.missing_records
    imported = coverage.imported_from is not None
    blind = not coverage.sources.get("hooks") and not imported
    reasons = {
        "what the agent did was not seen": 60 if hollow else 0,
        "imported from elsewhere: what that recorder left out is unknown": 20 if imported else 0,
        "no hooks: size and budget of requests are unknown": 10 if blind else 0,
        "records that were lost": min(50, 2 * lost),
        "requests without responses": min(20, 5 * coverage.requests_without_responses),
        "calls without results": min(10, 2 * coverage.calls_without_results),
        "results without calls": min(10, 2 * coverage.results_without_calls),
        "sealed while the process ran": 10 if coverage.sealed_while_running else 0,
        "values that were cut": 5 if coverage.values_cut else 0,
    }
    left = 100
    told = {}
    for reason, points in reasons.items():
        taken = min(left, points)
        left -= taken
        if taken:
            told[reason] = taken
    return told


def readiness(trust: int | None, sure: int, findings: list[Finding], *, unfinished: bool = False) -> Readiness:
    """Whether such a run can be let loose. One that did not come to its end has shown nothing yet."""
    if trust is None or sure < 50:
        return "unknown"
    worst = {finding.severity for finding in findings if finding.type not in OF_THE_RECORDER}
    if worst & {"critical", "high"} or trust < 50:
        return "unsafe"
    doubtful = any(finding.severity in ("high", "medium") for finding in findings)
    return "review" if doubtful or unfinished or trust < 85 else "ready"
