"""Entries of the fleet's index made by hand, for tests and benchmarks of the index."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from diagnosed import diagnosis, finding

from critiqor.fleet.index.entry import IndexEntry
from critiqor.fleet.index.texts import SearchText
from critiqor.fleet.manifest import Content, Manifest
from critiqor.model import Metadata, Timestamps, iso_from_ms
from critiqor.model.diagnosis import Finding, Readiness
from critiqor.model.usage import ModelUsage

BEGIN_MS = 1_790_000_000_000
"""When the first run of these tests was created."""
DAY_MS = 86_400_000


def seal_of(*names: object) -> str:
    """A seal that is made from names."""
    return f"sha256:{hashlib.sha256(repr(names).encode()).hexdigest()}"


def manifest_of(
    host: str = "build-1",
    run: str = "run_001",
    *,
    created_ms: int = BEGIN_MS,
    content: Content = "full",
    openclaw: str | None = "2026.11.1",
    seal: str | None = None,
    **metadata: Any,
) -> Manifest:
    """The manifest of a run."""
    created = iso_from_ms(created_ms)
    return Manifest(
        host_id=host,
        run_id=run,
        seal=seal or seal_of(host, run),
        metadata=Metadata(**metadata),
        timestamps=Timestamps(created_at=created, started_at=created, finalized_at=created),
        sealed_at=iso_from_ms(created_ms + 60_000),
        events=700,
        rule_set="11",
        critiqor_version="1.0.0",
        openclaw_version=openclaw,
        content=content,
        bundle_size=50_000,
        bundle_digest=seal_of("bundle", host, run),
    )


def entry(
    host: str = "build-1",
    run: str = "run_001",
    *findings: Finding,
    rules: str = "11",
    trust: int | None = 90,
    verdict: Readiness = "ready",
    request: str = "please deploy the site",
    answer: str = "the site is deployed",
    cost_usd: float | None = 0.25,
    model: str = "claude",
    **named: Any,
) -> IndexEntry:
    """An entry of a run with one model; `named` is for its manifest."""
    manifest = manifest_of(host, run, **named)
    usage: Any = {"model_calls": 3, "input_tokens": 1000, "output_tokens": 200, "cost_usd": cost_usd}
    made = diagnosis(run, *findings, trust=trust, rules=rules, **usage)
    made = msgspec.structs.replace(made, evidence_digest=manifest.seal, readiness=verdict, headline=f"{verdict}: {run}")
    made.cost_analysis.per_model = [ModelUsage(provider="anthropic", model=model, **usage)]
    texts = (
        SearchText(kind="request", source="evt_1", session_key="main", text=request),
        SearchText(kind="answer", source="evt_9", session_key="main", text=answer),
    )
    return IndexEntry(manifest=manifest, diagnosis=made, texts=texts)


__all__ = ["BEGIN_MS", "DAY_MS", "entry", "finding", "manifest_of", "seal_of"]
