"""The evidence document: `runs/<run_id>/session.json`, and what it says about its own completeness."""

from __future__ import annotations

import msgspec

EVIDENCE_SCHEMA = "critiqor.session.v1"
# v1: the documented document; sealed evidence adds `coverage`.


class Metrics(msgspec.Struct, kw_only=True):
    """Counts over all events, so that nobody must scan them for a summary."""

    total_events: int = 0
    by_event_type: dict[str, int] = msgspec.field(default_factory=dict)
    by_source_layer: dict[str, int] = msgspec.field(default_factory=dict)
    error_events: int = 0
    tool_calls: int = 0


class Damage(msgspec.Struct, frozen=True):
    """One record of the journal that could not be read, and where it stands."""

    line: int
    offset: int
    kind: str
    """`torn_tail`, `invalid_json`, `invalid_utf8`, `lone_surrogate`, `too_deep`, `too_long`, `number_out_of_range`,
    `not_an_object` or `wrong_type`; `lifecycle` for an event of the run record, where `line` is its place in there."""


class RecorderFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One process that the recorder was attached to."""

    pid: int | None = None
    mode: str | None = None
    openclaw_version: str | None = None
    plugin_version: str | None = None
    node_version: str | None = None
    attached: bool = False
    """Whether that process ran by itself, with the recorder in its settings, and not under our monitor."""
    sources: dict[str, bool] = msgspec.field(default_factory=dict)


class OpenCall(msgspec.Struct, frozen=True):
    """A call whose result was never seen."""

    event_id: str
    tool_name: str | None
    tool_call_id: str | None


class SealedFile(msgspec.Struct, frozen=True):
    """A file beside the evidence that was sealed with it, as far as it went."""

    bytes: int
    digest: str
    """`sha256:` and the digest of so many bytes."""


class Coverage(msgspec.Struct, kw_only=True):
    """What the recorder saw and what it did not: about the collector, never about the agent."""

    imported_from: str | None = None
    """The format in which somebody else had recorded the run; null for a run of our own recorder."""
    recorder_attached: bool = False
    recorders: list[RecorderFacts] = msgspec.field(default_factory=list)
    agent_events: int = 0
    """Events that tell of an agent's work; starts and stops of the program around it do not count."""
    sources: dict[str, bool] = msgspec.field(default_factory=dict)
    """Which live sources at least one recorder had."""
    journal_present: bool = False
    journal_bytes: int = 0
    journal_lines: int = 0
    damaged_records: int = 0
    damage_by_kind: dict[str, int] = msgspec.field(default_factory=dict)
    damage: list[Damage] = msgspec.field(default_factory=list)
    """The first few damaged records."""
    duplicate_records: int = 0
    missing_records: int = 0
    """Holes in the numbering of a writer: records that it could not write."""
    missing_by_writer: dict[str, int] = msgspec.field(default_factory=dict)
    timestamps_replaced: int = 0
    """Records without a usable time, placed after the one before them."""
    calls_without_results: int = 0
    open_calls: list[OpenCall] = msgspec.field(default_factory=list)
    """The first few calls without results."""
    results_without_calls: int = 0
    requests_without_responses: int = 0
    responses_without_usage: int = 0
    values_cut: int = 0
    """Payload values that were too large and are kept as size, digest and excerpt."""
    secrets_redacted: dict[str, int] = msgspec.field(default_factory=dict)
    timeline: SealedFile | None = None
    """OpenClaw's diagnostics timeline; null where it wrote none."""
    sealed_while_running: bool = False
    """The run was finalized before its process ended: what came later is not in here."""
    notes: list[str] = msgspec.field(default_factory=list)
    """The same in sentences, for people."""
