"""The diagnosis: what went wrong, with the events that prove it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

DIAGNOSIS_SCHEMA = "critiqor.diagnosis.v1"
# v1: first form.

Severity = Literal["critical", "high", "medium", "low", "info"]
Readiness = Literal["ready", "review", "unsafe", "unknown"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that went wrong."""

    id: str
    type: str
    """A stable name, such as `process_failure`."""
    severity: Severity
    title: str
    explanation: str
    evidence: list[str]
    """Ids of the events that prove it, in order; the first few where there are many."""
    impact: int = 0
    """Points of trust lost to it."""
    recommendation: str


class Outcome(msgspec.Struct, frozen=True):
    """What happened at the end, and how we know."""

    state: str
    """`completed`, `failed`, `interrupted`, `timed_out`, `still_running` or `unknown`."""
    known_from: str


class PrimaryDiagnosis(msgspec.Struct, frozen=True):
    """The one problem to look at first."""

    type: str
    finding_id: str
    severity: Severity
    title: str


class Diagnosis(msgspec.Struct, kw_only=True):
    """Everything that is concluded from one run's sealed evidence."""

    schema_version: str = DIAGNOSIS_SCHEMA
    run_id: str
    generated_at: str
    engine_version: str
    evidence_digest: str
    outcome: Outcome
    trust_score: int | None
    """0 to 100; null where there is no evidence to trust or distrust."""
    confidence_score: int
    """0 to 100, from what the recorder saw and did not see."""
    readiness: Readiness
    primary_diagnosis: PrimaryDiagnosis | None
    failure_analysis: dict[str, list[Finding]]
    causal_graph: dict[str, list[Any]]
    cost_analysis: dict[str, Any]
    headline: str
    """The diagnosis in one sentence."""
