"""The run record, `runs/<run_id>.json`, and its head."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from critiqor.errors import UsageError

RECORD_SCHEMA = "critiqor.run.v1"
# v1: the documented record, plus owner, cut, seal, visibility_changes and headline.

Status = Literal["IDLE", "MONITORING", "FINALIZING", "COMPLETED", "ABORTED"]
Visibility = Literal["private", "public", "anonymous", "shared"]


class Transition(msgspec.Struct, frozen=True):
    """One transition of the state machine."""

    state: Status
    timestamp: str


class Timestamps(msgspec.Struct, frozen=True):
    """When the run was created, started and finalized; UTC, ISO 8601."""

    created_at: str
    started_at: str | None = None
    finalized_at: str | None = None


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """Whose run it is, who may see it, and with which runs it is compared."""

    agent_id: str = "openclaw_agent"
    tenant_id: str = "default"
    framework: str = "openclaw"
    visibility: Visibility = "private"
    benchmark_id: str = "openclaw_runtime_v1"
    difficulty_tier: str = "standard"

    @classmethod
    def parse(cls, **named: str) -> Metadata:
        """Return the metadata of a new run. Raise `UsageError` if a name or value is invalid."""
        unknown = sorted(named.keys() - set(cls.__struct_fields__))
        if unknown:
            known = ", ".join(cls.__struct_fields__)
            raise UsageError(f"unknown metadata: {', '.join(unknown)}", fix=f"use {known}")
        try:
            metadata = msgspec.convert(named, cls)
            msgspec.json.encode(metadata)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise UsageError(f"the run cannot be created: {error}") from error
        return metadata


class Owner(msgspec.Struct, frozen=True):
    """The process that created the session. Pids are reused, so its start time identifies it as well."""

    pid: int
    started_at: float
    """Start time of that process, in seconds since 1970."""


class Cut(msgspec.Struct, frozen=True):
    """Where the evidence ends. It is set once, when finalizing begins, so that every attempt seals the same bytes."""

    journal_bytes: int
    lifecycle_events: int
    timeline_bytes: int | None = None
    """Bytes of OpenClaw's timeline; null where there was none."""
    is_running: bool | None = None
    """Whether a process of the run may have been alive; null in an older record."""
    fixed_at: str | None = None
    """When it was set; null if that was when finalizing began."""


class Seal(msgspec.Struct, frozen=True):
    """Digest and size of the evidence at the time of sealing."""

    digest: str
    """`sha256:` followed by the digest of session.json."""
    bytes: int
    events: int
    sealed_at: str
    record: str | None = None
    """Digest of what is fixed in the run record at this time: run id, metadata without visibility, lifecycle,
    timestamps, owner, cut and seal; null in a record of an older version."""
    signature: str | None = None
    """The SSH signature of the user's key over the digests; null if it was not signed."""
    unsigned: str | None = None
    """Why it was not signed although there was a key."""


class VisibilityChange(msgspec.Struct, frozen=True, rename={"before": "from", "after": "to"}):
    """One change of a run's visibility."""

    before: Visibility
    after: Visibility
    timestamp: str
    """UTC, ISO 8601."""


class RunHead(msgspec.Struct, kw_only=True):
    """The head of a run record: everything but the diagnosis and the event log, which can be large."""

    schema_version: str = RECORD_SCHEMA
    run_id: str
    status: Status
    lifecycle: list[Transition]
    timestamps: Timestamps
    metadata: Metadata
    owner: Owner | None = None
    """Null if no Critiqor process owns the session: it is attached to an OpenClaw that Critiqor did not launch."""
    slot: str | None = None
    """Name of the slot that the run holds while it is active; null for the default one, `active_session.json`."""
    recording: str | None = None
    """The first run of the recording, if this one continues it: processes that it launched are known by that id."""
    continues: str | None = None
    """The run before this one, if the recording is cut into segments."""
    segment: str | None = None
    """When the recording is cut: `24h`, `500MB` or `idle`; null if it is not."""
    cut: Cut | None = None
    seal: Seal | None = None
    visibility_changes: list[VisibilityChange] = msgspec.field(default_factory=list)
    """Changes since the run was created, in order; only the latest where there are very many."""
    headline: str | None = None
    """The diagnosis in one sentence."""
    trust_score: int | float | None = None
    confidence_score: int | float | None = None

    @property
    def is_being_recorded(self) -> bool:
        """Whether events are added to it; also to a segment that the recording has left, until its end is fixed."""
        return self.status == "MONITORING" or (self.status == "FINALIZING" and self.cut is None)

    @property
    def has_forged_status(self) -> bool:
        """Whether somebody else has set the status: it is no transition, or completed without a seal."""
        is_transition = not self.lifecycle or self.lifecycle[-1].state == self.status
        return self.seal is None and (not is_transition or self.status == "COMPLETED")

    @property
    def sealed_timeline_bytes(self) -> int | None:
        """How many bytes of OpenClaw's timeline belong to the run; None for all of them.

        Lines that OpenClaw wrote after the seal do not belong to the evidence.
        """
        return self.cut.timeline_bytes if self.seal is not None and self.cut is not None else None


class SessionRecord(RunHead, kw_only=True):
    """The whole run record. `event_log` comes last in the file: it can be large, and lists read only the head."""

    diagnosis: Any = None
    failure_analysis: Any = None
    causal_graph: Any = None
    cost_analysis: Any = None
    event_log: list[Any] = msgspec.field(default_factory=list)
    """Lifecycle events while the run is recorded, the merged event stream once it is completed."""
