"""Metrics and coverage: count what the evidence contains and what the recorder missed, event by event."""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from critiqor.model import Coverage, Damage, Event, EventType, Metrics, RecorderFacts
from critiqor.model.event import HOUSEKEEPING, IMPORT_WRITER
from critiqor.model.evidence import OpenCall
from critiqor.model.formatting import counted
from critiqor.storage.audit.journal_audit import JournalAudit
from critiqor.storage.redaction import Redactor

MAX_EXAMPLES = 20
MIN_RECORD = 250
"""Bytes of the smallest records that recorders write."""
MAX_IDLE_RUNS = 1000
"""Agent runs without open calls that are remembered."""
FOREIGN = "foreign"
"""The writer of records without an event id; there may be several such writers."""
_MODEL_EVENTS = (EventType.TOKEN_USAGE, "before_provider_request")
EMBEDDED = "critiqor-agentloop"
"""Start of the version that the recorder of the embedded loop announces; that loop reports commands of the user."""
_REDACTED = re.compile(rb"\[redacted:([a-z_]+):[0-9a-f]{8}\]")


_REDACTION = b"[redacted:"
_CUT = b'"cut":true'


def may_be_marked(data: bytes) -> bool:
    """Whether records, given as they were written, may have values that were cut or redacted."""
    return _CUT in data or _REDACTION in data


class _Writer(msgspec.Struct):
    """The records of one writer."""

    written: int = 0
    highest: int = 0
    """The highest sequence number."""


class CoverageCounter:
    """Counts what goes into the evidence and what the recorder missed."""

    def __init__(self, audit: JournalAudit | None = None) -> None:
        self._audit = audit or JournalAudit()
        self.metrics = Metrics()
        self.coverage = Coverage()
        self._types: Counter[str] = Counter()
        self._layers: Counter[str] = Counter()
        self._redacted: Counter[str] = Counter()
        self._writers: dict[str, _Writer] = {}
        self._errors = 0
        self._damaged = 0
        """Maximum number of records that were where nothing can be read."""
        self._housekeeping = 0
        """Events of recorders that are not about an agent's work."""
        # Imported here, because a session is created and appended to without counting anything.
        from critiqor.spans.hidden_calls import HiddenCalls
        from critiqor.spans.pairing import SpanPairer

        self._hidden_calls = HiddenCalls()
        self._pairer = SpanPairer[OpenCall](("model", "tool"))
        self._max_runs = MAX_IDLE_RUNS
        self._is_running = False
        self._has_terminal_ui = False
        """Whether the user could run shell commands that only the process tree shows."""
        self._import_notes: list[str] = []

    def count_damage(self, line: int, offset: int, kind: str, size: int = 0) -> None:
        """Count a journal record that cannot be read; one of a large size, in bytes, can have been several."""
        coverage = self.coverage
        coverage.damaged_records += 1
        self._damaged += 1 + size // MIN_RECORD
        coverage.damage_by_kind[kind] = coverage.damage_by_kind.get(kind, 0) + 1
        if len(coverage.damage) < MAX_EXAMPLES:
            coverage.damage.append(Damage(line, offset, kind))

    def count_record(self, event_id: str, data: bytes) -> str:
        """Count a readable record of the journal, given as it was written. Return its writer."""
        _, _, name, number = event_id.split("_")
        sequence = int(number, 36)
        self._audit.observe(name, sequence, event_id, data)
        if name != FOREIGN:
            writer = self._writers.get(name)
            if writer is None:
                writer = self._writers[name] = _Writer()
            writer.written += 1
            if sequence > writer.highest:
                writer.highest = sequence
        return name

    def count_repeated(self, event_id: str) -> None:
        """Count a record of the journal with the id of another one."""
        self.coverage.duplicate_records += 1
        self._audit.observe_repeated(event_id)

    def count_marks(self, data: bytes) -> None:
        """Count the values of a record, given as it was written, that were cut or redacted."""
        self.coverage.values_cut += data.count(_CUT)
        self.count_redactions(data)

    def count_redactions(self, data: bytes) -> None:
        """Count the secrets that were replaced before this record was written."""
        if _REDACTION in data:
            self._redacted.update(kind.decode() for kind in _REDACTED.findall(data))

    def count(self, event: Event) -> None:
        """Count an event of the evidence."""
        kind = event.event_type
        layer = event.source_layer
        self._types[kind] += 1
        self._layers[layer] += 1
        if event.status == "error":
            self._errors += 1
        if layer == "supervisor":
            self._count_process(event)
        elif kind in self._pairer.handlers:
            self._count_pairing(event)
        elif kind == "agent_end":
            self._count_end(event)
        elif kind in HOUSEKEEPING:
            self._housekeeping += 1
            if kind == EventType.RECORDER_ATTACHED:
                self._count_recorder(event)

    def _count_process(self, event: Event) -> None:
        if event.event_type == EventType.PROCESS_START:
            self._is_running = True
            self._has_terminal_ui = bool(event.payload.get("user_commands"))
        elif event.event_type in (EventType.PROCESS_END, EventType.SEGMENT_ENDED):
            self._is_running = False
        elif event.event_type == EventType.SEGMENT_STARTED:
            # The run before has shown it, even if the recording ends before anything happens in this one.
            self.coverage.recorder_attached = True
        elif event.event_type == EventType.RUN_IMPORTED:
            self._count_import(event)
        elif event.event_type == "backend_transcript":
            added = ("model_calls", "tool_calls", "results")
            self.coverage.transcript_records += sum(_count_of(event, name) for name in added)

    def _count_import(self, event: Event) -> None:
        self.coverage.imported_from = str(event.payload.get("format") or "an unknown format")
        self.coverage.entries_not_understood += _count_of(event, "not_understood")
        if damaged := _count_of(event, "damaged_records"):
            self.coverage.damaged_records += damaged
            self.coverage.damage_by_kind["in_source"] = damaged
        notes = event.payload.get("notes")
        self._import_notes += [str(note) for note in notes] if isinstance(notes, list) else []

    def _count_recorder(self, event: Event) -> None:
        try:
            facts = msgspec.convert(event.payload, RecorderFacts, strict=False)
        except msgspec.ValidationError:
            facts = RecorderFacts()
        self.coverage.recorder_attached = True
        if len(self.coverage.recorders) < MAX_EXAMPLES:
            self.coverage.recorders.append(facts)
        for source, live in facts.sources.items():
            self.coverage.sources[source] = self.coverage.sources.get(source, False) or live

    def _count_end(self, event: Event) -> None:
        from critiqor.spans.late_usage import recovered_usage

        self.coverage.responses_without_usage -= len(recovered_usage(event))
        if self._hidden_calls.end_attempt(event):
            self._count_hidden_calls(event)

    def _count_hidden_calls(self, agent_end: Event) -> None:
        """Count an attempt of a backend that makes its model calls itself, and the results that it did not report."""
        from critiqor.spans.hidden_calls import backend_of

        coverage, backend = self.coverage, backend_of(agent_end)
        coverage.hidden_model_calls[backend] = coverage.hidden_model_calls.get(backend, 0) + 1
        for call in self._pairer.run_of(agent_end).open_calls("tool"):
            if call.data is not None:
                name = call.data.tool_name or "unknown"
                coverage.results_hidden[name] = coverage.results_hidden.get(name, 0) + 1
                call.data = None

    def _count_pairing(self, event: Event) -> None:
        pairer = self._pairer
        pairing = pairer.handlers[event.event_type](pairer.run_of(event), event, 0)
        if event.event_type in _MODEL_EVENTS:
            self._hidden_calls.observe_model_call(event)
        if len(self._pairer.runs) > self._max_runs:
            self._forget_idle_runs()
        if (call := pairing.opened) is not None:
            if call.kind == "tool":
                call.data = OpenCall(event.event_id, event.tool_name, event.tool_call_id)
        elif (call := pairing.closed) is not None:
            if call.kind == "tool":
                self.coverage.results_without_calls += not call.has_start
            elif event.status == "ok" and not event.payload.get("usage"):
                self.coverage.responses_without_usage += 1

    def _forget_idle_runs(self) -> None:
        # Only open calls are counted at the end, so memory need not grow with the number of agent runs.
        for run in [run for run in self._pairer.runs.values() if not run.has_open_calls]:
            self._pairer.forget(run)
        self._max_runs = MAX_IDLE_RUNS + 2 * len(self._pairer.runs)

    def build_coverage(self, redactor: Redactor, *, is_running: bool | None = None) -> Coverage:
        """Return the coverage after all events were counted.

        `is_running` is whether a process of the run may have been alive when the end of the evidence was fixed.
        """
        coverage = self.coverage
        self.metrics.total_events = self._layers.total()
        self.metrics.error_events = self._errors
        coverage.agent_events = self._layers.total() - self._layers["supervisor"] - self._housekeeping
        self.metrics.by_event_type = dict(sorted(self._types.items()))
        self.metrics.by_source_layer = dict(sorted(self._layers.items()))
        self.metrics.tool_calls = self._types[EventType.TOOL_CALL]
        for name, produced in self._audit.produced().items():
            writer = self._writers.setdefault(name, _Writer())
            writer.highest = max(produced, writer.highest)
        missing = {name: writer.highest - writer.written for name, writer in self._writers.items()}
        if coverage.imported_from is not None:
            # The numbers are those of the source, which may leave some out.
            missing.pop(IMPORT_WRITER, None)
        coverage.missing_by_writer = {name: count for name, count in sorted(missing.items()) if count > 0}
        coverage.witness = self._audit.conclude(self._damaged)
        removed = coverage.witness.removed if coverage.witness is not None else 0
        explained = coverage.damaged_records + removed
        coverage.missing_records = max(0, sum(coverage.missing_by_writer.values()) - explained)
        self._count_open_calls()
        coverage.secrets_redacted = dict(sorted((self._redacted + redactor.counts).items()))
        coverage.sealed_while_running = self._is_running and is_running is not False
        coverage.end_not_recorded = self._is_running and is_running is False
        coverage.recorders_not_closed = 0 if coverage.sealed_while_running else self._audit.not_closed()
        coverage.damage.sort(key=lambda damage: damage.line)
        coverage.notes = [*_notes(coverage), *self._user_command_notes(), *self._import_notes]
        return coverage

    def _user_command_notes(self) -> list[str]:
        is_embedded = any((each.openclaw_version or "").startswith(EMBEDDED) for each in self.coverage.recorders)
        if not self._has_terminal_ui or is_embedded:
            return []
        seen = self._types["user_bash"]
        return [
            "OpenClaw does not report shell commands that the user runs with ! in the terminal UI: "
            f"{seen} {_were(seen)} seen among its processes; short ones, exit codes and outputs are not visible."
        ]

    def _count_open_calls(self) -> None:
        runs = self._pairer.runs.values()
        calls = [call.data for run in runs for call in run.open_calls("tool") if call.data is not None]
        calls.sort(key=lambda call: call.event_id)
        self.coverage.calls_without_results = len(calls)
        self.coverage.open_calls = calls[:MAX_EXAMPLES]
        self.coverage.requests_without_responses = sum(1 for run in runs for _ in run.open_calls("model"))


def _count_of(event: Event, name: str) -> int:
    count = event.payload.get(name)
    return count if isinstance(count, int) and count > 0 else 0


def _notes(coverage: Coverage) -> list[str]:
    notes = []
    if coverage.imported_from:
        known = (
            "recorded by Critiqor elsewhere; whether it was changed since is unknown."
            if coverage.recorder_attached
            else "not recorded by Critiqor; only the content of the source is known."
        )
        notes.append(f"Imported from a file of the format {coverage.imported_from}: {known}")
    elif coverage.agent_events and not coverage.recorder_attached:
        notes.append("The recorder's start event is missing: it is unknown which event sources were active.")
    elif not coverage.recorder_attached and coverage.witness is not None and coverage.witness.produced:
        notes.append("The recorder was loaded, but none of its records reached the disk.")
    elif not coverage.recorder_attached:
        notes.append("OpenClaw did not load the recorder: this evidence contains nothing the agent did.")
    elif coverage.agent_events == 0 and coverage.missing_records:
        notes.append("The recorder was attached, and none of its records of an agent run reached the disk.")
    elif coverage.agent_events == 0:
        notes.append("The recorder was attached, and no agent run took place.")
    if any(recorder.attached for recorder in coverage.recorders):
        notes.append(
            "Critiqor was attached to a running OpenClaw. Missing: everything before that, agent runs already in "
            "progress, process data (start, end, memory), and the timeline."
        )
    if coverage.damaged_records:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(coverage.damage_by_kind.items()))
        notes.append(f"{counted(coverage.damaged_records, 'journal record')} could not be read ({kinds}).")
    if coverage.missing_records:
        were = _were(coverage.missing_records)
        notes.append(f"{counted(coverage.missing_records, 'record')} {were} lost before reaching the disk.")
    notes += _witness_notes(coverage)
    for backend, runs in sorted(coverage.hidden_model_calls.items()):
        notes.append(
            f"{counted(runs, 'agent run')} ran on {backend}, which makes its model calls itself: neither they nor the "
            "messages of its own subagents were visible."
        )
    if coverage.transcript_records:
        notes.append(
            f"{counted(coverage.transcript_records, 'record')} about model calls and tools are from the transcripts of "
            "Claude Code, read after the run; the agent could have changed them."
        )
    if coverage.results_hidden:
        hidden = ", ".join(f"{count} of {tool}" for tool, count in sorted(coverage.results_hidden.items()))
        notes.append(f"The results of tool calls inside of such a backend were not visible: {hidden}.")
    if coverage.calls_without_results:
        notes.append(f"{_with_has(coverage.calls_without_results, 'tool call')} no result.")
    if coverage.requests_without_responses:
        notes.append(f"{_with_has(coverage.requests_without_responses, 'model call')} no response.")
    if coverage.responses_without_usage:
        notes.append(f"{_with_has(coverage.responses_without_usage, 'model call')} no token usage.")
    if coverage.sealed_while_running:
        notes.append("Sealed while OpenClaw was still running: later events are not included.")
    if coverage.end_not_recorded:
        notes.append("OpenClaw and its monitor have ended, and nothing was recorded about how.")
    return notes


def _witness_notes(coverage: Coverage) -> list[str]:
    """Return what the recorders and the monitor say about missing and altered records, as sentences."""
    notes = []
    if coverage.recorders_not_closed:
        number = counted(coverage.recorders_not_closed, "recorder")
        notes.append(f"{number} did not end properly: how many records are missing at the end is not known.")
    facts = coverage.witness
    if facts is None:
        return notes
    if facts.is_missing:
        notes.append("The monitor left no statement about the records: lost and altered ones would not be noticed.")
    for how, changes in (("changed", facts.changed), ("removed", facts.removed), ("added", facts.inserted)):
        if changes:
            notes.append(f"{counted(changes, 'record')} {_were(changes)} {how} by something other than the recorder.")
    if facts.unreported:
        notes.append(f"The monitor did not confirm {counted(facts.unreported, 'record')}.")
    if facts.unknown_recorders:
        notes.append(f"Writers of the journal that are no recorders of this run: {facts.unknown_recorders}.")
    if facts.silenced_recorders:
        notes.append(f"Recorders that stopped because of a forged seal: {facts.silenced_recorders}.")
    if facts.irregular_reports:
        notes.append(f"Reports to the monitor that no recorder makes: {facts.irregular_reports}.")
    if facts.lifecycle_changed:
        notes.append(f"Lifecycle events of the run record that were altered: {facts.lifecycle_changed}.")
    return [*notes, *(f"Altered while the run was recorded: {what}." for what in facts.altered)]


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _with_has(count: int, noun: str) -> str:
    return f"{counted(count, noun)} {'has' if count == 1 else 'have'}"
