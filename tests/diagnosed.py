"""Diagnoses made by hand, and runs with them, for tests of code that uses diagnoses."""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec
from hypothesis import strategies
from support import Runs

from critiqor.model import EVIDENCE_SCHEMA, Metadata, Seal, SessionRecord, Timestamps, iso_from_ms
from critiqor.model.diagnosis import (
    SEVERITIES,
    CausalGraph,
    ContextAnalysis,
    Diagnosis,
    FailureAnalysis,
    Finding,
    Impact,
    LatencyAnalysis,
    MemoryAnalysis,
    Outcome,
    Playbook,
    PrimaryDiagnosis,
)
from critiqor.model.report import RunSummary
from critiqor.model.usage import CostAnalysis
from critiqor.session import write_json
from critiqor.storage import write_bytes
from critiqor.storage.seals.digests import file_digest

DAY_MS = 86_400_000
RULES = "1"


class FindingTexts(TypedDict):
    """Every text of a finding."""

    title: str
    explanation: str
    recommendation: str
    verification: str


def texts_of(text: str) -> FindingTexts:
    """The same text everywhere in a finding."""
    return {"title": text, "explanation": text, "recommendation": text, "verification": text}


def finding(cause: str = "tool_failure:exec", severity: str = "high", points: int = 0, **fields: Any) -> Finding:
    """Return a finding; its type is the part of its cause before the colon."""
    texts = {"title": f"about {cause}", "explanation": "it failed", "recommendation": "fix it", "verification": "see"}
    return Finding(
        **{
            "type": cause.split(":")[0],
            "cause": cause,
            "severity": severity,
            "confidence": 100,
            "evidence": ["evt_1"],
            "impact": Impact(trust_points=points),
            **texts,
            **fields,
        }
    )


def diagnosis(
    run_id: str = "run_001",
    *findings: Finding,
    trust: int | None = 100,
    confidence: int = 100,
    wall_ms: int | None = 1000,
    rules: str = RULES,
    **cost: Any,
) -> Diagnosis:
    """Return the diagnosis of a run; fields that are not given have harmless values."""
    worst = findings[0] if findings else None
    return Diagnosis(
        run_id=run_id,
        generated_at=iso_from_ms(0),
        engine_version="0",
        rule_set_version=rules,
        evidence_digest=f"sha256:{run_id}",
        outcome=Outcome("completed", "the process ended with exit code 0"),
        trust_score=trust,
        confidence_score=confidence,
        confidence_lost={},
        readiness="review" if findings else "ready",
        headline="What happened.",
        primary_diagnosis=PrimaryDiagnosis(worst.type, worst.id, worst.severity, worst.title) if worst else None,
        failure_analysis=FailureAnalysis(list(findings)),
        causal_graph=CausalGraph(),
        cost_analysis=CostAnalysis(**{"model_calls": 2, "input_tokens": 90, "output_tokens": 10, **cost}),
        memory_analysis=MemoryAnalysis(),
        latency_analysis=LatencyAnalysis(wall_ms=wall_ms),
        context_analysis=ContextAnalysis(),
        playbook=Playbook(changes=[], prompt=None),
    )


def case(concluded: Diagnosis, day: int = 1, **metadata: str) -> RunSummary:
    """The case file of a diagnosed run, created on that day of 1970."""
    named = Metadata(**metadata)  # type: ignore[arg-type]
    created = iso_from_ms(day * DAY_MS)
    return RunSummary(run_id=concluded.run_id, created_at=created, metadata=named, diagnosis=concluded)


def store(runs: Runs, concluded: Diagnosis, day: float = 1, **metadata: str) -> str:
    """Put a completed run with this diagnosis and sealed evidence without events into a folder; returns its id."""
    run_id, created = concluded.run_id, iso_from_ms(round(day * DAY_MS))
    evidence = runs.paths.evidence_summary_path(run_id)
    evidence.parent.mkdir(parents=True, exist_ok=True)
    head = f'{{"schema_version":"{EVIDENCE_SCHEMA}","run_id":"{run_id}","session_id":"{run_id}","events":['
    evidence.write_text(f'{head}\n],\n"metrics":{{}},"coverage":{{}}}}\n')
    concluded.evidence_digest = file_digest(evidence) or ""
    record = SessionRecord(
        run_id=run_id,
        status="COMPLETED",
        lifecycle=[],
        timestamps=Timestamps(created_at=created, started_at=created, finalized_at=created),
        metadata=Metadata(**metadata),  # type: ignore[arg-type]
        seal=Seal(digest=concluded.evidence_digest, bytes=1, events=0, sealed_at=created),
        headline=concluded.headline,
        trust_score=concluded.trust_score,
        confidence_score=concluded.confidence_score,
    )
    write_bytes(runs.paths.run_path(run_id), msgspec.json.encode(record) + b"\n")
    write_json(runs.paths.diagnosis_path(run_id), concluded)
    return run_id


findings = strategies.builds(
    finding,
    strategies.sampled_from(["a:x", "a:y", "b", "c:z:1"]),
    strategies.sampled_from(SEVERITIES),
    title=strategies.sampled_from(["one", "two"]),
    occurrences=strategies.integers(1, 5),
)
"""Any findings, several of a cause among them."""

diagnoses = strategies.builds(
    lambda found, **fields: diagnosis("run_001", *found, **fields),
    strategies.lists(findings, max_size=6),
    trust=strategies.none() | strategies.integers(0, 100),
    confidence=strategies.integers(0, 100),
    wall_ms=strategies.none() | strategies.integers(0, 10**9),
    rules=strategies.sampled_from(["1", "2"]),
    cost_usd=strategies.none() | strategies.floats(0, 1000),
    input_tokens=strategies.integers(0, 10**9),
    model_calls_without_usage=strategies.integers(0, 1),
    tool_calls=strategies.integers(0, 1000),
)
"""Any diagnoses."""
