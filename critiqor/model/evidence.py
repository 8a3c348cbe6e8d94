"""Structs of the evidence document `runs/<run_id>/session.json`: metrics and coverage."""

from __future__ import annotations

import msgspec

EVIDENCE_SCHEMA = "critiqor.session.v1"
# v1: events and metrics; sealed evidence adds `coverage`.


class Metrics(msgspec.Struct, kw_only=True):
    """Counts over all events."""

    total_events: int = 0
    by_event_type: dict[str, int] = msgspec.field(default_factory=dict)
    by_source_layer: dict[str, int] = msgspec.field(default_factory=dict)
    error_events: int = 0
    tool_calls: int = 0


class Damage(msgspec.Struct, frozen=True):
    """A record of the journal that could not be read, and its position."""

    line: int
    offset: int
    kind: str
    """`torn_tail`, `invalid_json`, `invalid_utf8`, `lone_surrogate`, `too_deep`, `too_long`, `number_out_of_range`,
    `not_an_object` or `wrong_type`; `lifecycle` for an event of the run record, where `line` is its position there;
    `in_source` counts records that were lost in the evidence from which a run was imported."""


class RecorderFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A process to which the recorder was attached."""

    pid: int | None = None
    mode: str | None = None
    openclaw_version: str | None = None
    plugin_version: str | None = None
    node_version: str | None = None
    attached: bool = False
    """Whether the process was attached to with `critiqor attach`, and not launched by the monitor."""
    sources: dict[str, bool] = msgspec.field(default_factory=dict)


class OpenCall(msgspec.Struct, frozen=True):
    """A tool call without a result."""

    event_id: str
    tool_name: str | None
    tool_call_id: str | None


class SealedFile(msgspec.Struct, frozen=True):
    """A file beside the evidence that was sealed with it, up to a size."""

    bytes: int
    digest: str
    """`sha256:` and the digest of that many bytes."""


class WitnessFacts(msgspec.Struct, kw_only=True):
    """The journal compared with what the monitor counted in its own memory while the run was recorded."""

    recorders: int = 0
    produced: int = 0
    """Number of records that the recorders had to write."""
    lost: int = 0
    """Number of those that never reached the disk."""
    removed: int = 0
    """Number of those that were written and are not in the journal any more."""
    changed: int = 0
    inserted: int = 0
    """Number of records that no recorder wrote."""
    unreported: int = 0
    """Number of records that the monitor did not get a report of."""
    unknown_recorders: int = 0
    """Number of writers in the journal that did not report to the monitor, or are not of the launched process."""
    silenced_recorders: int = 0
    """Number of recorders that a forged lock of session.json stopped."""
    irregular_reports: int = 0
    lifecycle_changed: int = 0
    """Number of lifecycle events in the run record that the monitor did not write, or wrote otherwise."""
    altered: list[str] = msgspec.field(default_factory=list)
    """Other files that the monitor found changed, in words."""
    examples: list[str] = msgspec.field(default_factory=list)
    """Ids of the first few events that are concerned."""
    is_missing: bool = False
    """Whether there was a monitor that left no statement, because it was killed or could not write."""

    @property
    def is_tampered(self) -> bool:
        """Whether the evidence differs from what was recorded."""
        counts = (self.removed, self.changed, self.inserted, self.unknown_recorders, self.silenced_recorders)
        return any(counts) or bool(self.irregular_reports or self.lifecycle_changed or self.altered)


class Coverage(msgspec.Struct, kw_only=True):
    """What was recorded and what is missing: a statement about the recorder, not about the agent."""

    imported_from: str | None = None
    """Format from which the run was imported; null for a recorded run."""
    entries_not_understood: int = 0
    """Entries of the imported file whose content is unknown; the notes say which."""
    recorder_attached: bool = False
    recorders: list[RecorderFacts] = msgspec.field(default_factory=list)
    agent_events: int = 0
    """Number of events about an agent's work; starts and stops of its process do not count."""
    sources: dict[str, bool] = msgspec.field(default_factory=dict)
    """Sources of events, and whether at least one recorder had them."""
    journal_present: bool = False
    journal_bytes: int = 0
    journal_lines: int = 0
    damaged_records: int = 0
    damage_by_kind: dict[str, int] = msgspec.field(default_factory=dict)
    damage: list[Damage] = msgspec.field(default_factory=list)
    """The first few damaged records."""
    duplicate_records: int = 0
    missing_records: int = 0
    """Records that could not be written: gaps in the numbering of the writers, and what they counted at their end."""
    missing_by_writer: dict[str, int] = msgspec.field(default_factory=dict)
    recorders_not_closed: int = 0
    """Number of recorders that did not end properly; records at their end may be missing."""
    witness: WitnessFacts | None = None
    """Null for a run without a monitor."""
    timestamps_replaced: int = 0
    """Records without a valid time; they are placed after the record before them."""
    calls_without_results: int = 0
    open_calls: list[OpenCall] = msgspec.field(default_factory=list)
    """The first few calls without results."""
    hidden_model_calls: dict[str, int] = msgspec.field(default_factory=dict)
    """Number of agent runs by backend, such as `claude-cli`, that answered without a visible model call: the backend
    makes the model calls itself, and the results of tools that its own subagents call are not visible either."""
    results_hidden: dict[str, int] = msgspec.field(default_factory=dict)
    """Tool calls of these agent runs whose result was not visible, by tool; they are no calls without results."""
    transcript_records: int = 0
    """Records that were taken from the transcripts of such a backend after the run."""
    results_without_calls: int = 0
    requests_without_responses: int = 0
    responses_without_usage: int = 0
    values_cut: int = 0
    """Payload values that were too large and are kept as size, digest and excerpt."""
    secrets_redacted: dict[str, int] = msgspec.field(default_factory=dict)
    timeline: SealedFile | None = None
    """OpenClaw's diagnostics timeline; null if there is none."""
    carried: SealedFile | None = None
    """Events of earlier segments that the diagnosis read before those of this run; null if there are none."""
    sealed_while_running: bool = False
    """Whether the run was finalized before its process ended; later events are not included."""
    end_not_recorded: bool = False
    """Whether the launched process was gone when the run was finalized, and nothing says how it ended."""
    notes: list[str] = msgspec.field(default_factory=list)
    """The same facts, as sentences."""
