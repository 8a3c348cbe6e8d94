"""The run record: `runs/<run_id>.json`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

RECORD_SCHEMA = "critiqor.run.v1"
# v1: the documented record, with owner, cut, seal, visibility_changes and headline beside it.

Status = Literal["IDLE", "MONITORING", "FINALIZING", "COMPLETED", "ABORTED"]
Visibility = Literal["private", "public", "anonymous", "shared"]


class Transition(msgspec.Struct, frozen=True):
    """One step of the state machine."""

    state: Status
    timestamp: str


class Timestamps(msgspec.Struct, frozen=True):
    """When the run was created, began and was finalized; UTC, ISO 8601."""

    created_at: str
    started_at: str | None = None
    finalized_at: str | None = None


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """Whose run it is and what it is compared with."""

    agent_id: str = "openclaw_agent"
    tenant_id: str = "default"
    framework: str = "openclaw"
    visibility: Visibility = "private"
    benchmark_id: str = "openclaw_runtime_v1"
    difficulty_tier: str = "standard"


class Owner(msgspec.Struct, frozen=True):
    """The process that created the session: a pid alone can be anybody's by now."""

    pid: int
    started_at: float
    """Seconds since 1970 at which that process began."""


class Cut(msgspec.Struct, frozen=True):
    """Where the evidence ends: decided once, when finalizing begins, so that every attempt seals the same bytes."""

    journal_bytes: int
    lifecycle_events: int
    timeline_bytes: int | None = None
    """How far OpenClaw's timeline goes; null where there was none."""


class Seal(msgspec.Struct, frozen=True):
    """What the sealed evidence was when it was sealed."""

    digest: str
    """`sha256:` and the digest of session.json."""
    bytes: int
    events: int
    sealed_at: str


class VisibilityChange(msgspec.Struct, frozen=True, rename={"before": "from", "after": "to"}):
    """That a run was shown to others, or withdrawn from them."""

    before: Visibility
    after: Visibility
    timestamp: str


class SessionRecord(msgspec.Struct, kw_only=True):
    """The run record. `event_log` comes last in the file, because it can be large and listings need only the head."""

    schema_version: str = RECORD_SCHEMA
    run_id: str
    status: Status
    lifecycle: list[Transition]
    timestamps: Timestamps
    metadata: Metadata
    owner: Owner | None = None
    """Null where no process of ours keeps the session: it is attached to an OpenClaw that runs by itself."""
    cut: Cut | None = None
    seal: Seal | None = None
    visibility_changes: list[VisibilityChange] = msgspec.field(default_factory=list)
    """Since the run was created, in order; of very many the latest ones."""
    headline: str | None = None
    """The diagnosis in one sentence."""
    trust_score: int | float | None = None
    confidence_score: int | float | None = None
    diagnosis: Any = None
    failure_analysis: Any = None
    causal_graph: Any = None
    cost_analysis: Any = None
    event_log: list[Any] = msgspec.field(default_factory=list)
    """Lifecycle events while the run goes on, the merged stream once it is completed."""
