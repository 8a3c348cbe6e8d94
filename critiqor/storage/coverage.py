"""What evidence holds, counted, and what the recorder did not see: metrics and coverage, event by event."""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from critiqor.model import Coverage, Damage, Event, EventType, Metrics, RecorderFacts
from critiqor.model.event import IMPORT_WRITER, is_agent_activity, place_of, recovered_usage
from critiqor.model.evidence import OpenCall
from critiqor.model.formatting import counted
from critiqor.storage.redaction import Redactor

MOST_EXAMPLES = 20
FOREIGN = "foreign"
"""The writer of records that came without an id of ours: whoever that is, it may be several."""
_REDACTED = re.compile(rb"\[redacted:([a-z_]+):[0-9a-f]{8}\]")


class CoverageCounter:
    """Counts what goes into the evidence, and what the recorder did not see."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.coverage = Coverage()
        self._types: Counter[str] = Counter()
        self._layers: Counter[str] = Counter()
        self._redacted: Counter[str] = Counter()
        self._highest: dict[str, int] = {}
        self._written: Counter[str] = Counter()
        self._open_calls: dict[tuple[str | None, str | None], list[OpenCall]] = {}
        self._open_requests: Counter[str | None] = Counter()
        self._running = False
        self._import_notes: list[str] = []

    def damaged(self, line: int, offset: int, kind: str) -> None:
        coverage = self.coverage
        coverage.damaged_records += 1
        coverage.damage_by_kind[kind] = coverage.damage_by_kind.get(kind, 0) + 1
        if len(coverage.damage) < MOST_EXAMPLES:
            coverage.damage.append(Damage(line, offset, kind))

    def seen(self, data: bytes, event_id: str) -> None:
        """One readable record of the journal, as it stands there."""
        self.coverage.values_cut += data.count(b'"cut":true')
        self.redacted_before(data)
        place = place_of(event_id)
        if place is not None and place.writer != FOREIGN:
            self._written[place.writer] += 1
            self._highest[place.writer] = max(self._highest.get(place.writer, 0), place.sequence)

    def redacted_before(self, data: bytes) -> None:
        """Count the secrets that whoever wrote this had replaced."""
        if b"[redacted:" in data:
            self._redacted.update(kind.decode() for kind in _REDACTED.findall(data))

    def count(self, event: Event) -> None:
        kind = event.event_type
        self.metrics.total_events += 1
        self._types[kind] += 1
        self._layers[event.source_layer] += 1
        if event.status == "error":
            self.metrics.error_events += 1
        if event.source_layer == "supervisor":
            self._count_process(event)
        elif kind == EventType.RECORDER_ATTACHED:
            self._count_recorder(event)
        elif is_agent_activity(kind):
            self.coverage.agent_events += 1
            self._count_pairs(event)

    def _count_process(self, event: Event) -> None:
        if event.event_type == EventType.PROCESS_START:
            self._running = True
        elif event.event_type == EventType.PROCESS_END:
            self._running = False
        elif event.event_type == EventType.RUN_IMPORTED:
            self._count_import(event)

    def _count_import(self, event: Event) -> None:
        self.coverage.imported_from = str(event.payload.get("format") or "an unknown format")
        notes = event.payload.get("notes")
        self._import_notes += [str(note) for note in notes] if isinstance(notes, list) else []

    def _count_recorder(self, event: Event) -> None:
        try:
            facts = msgspec.convert(event.payload, RecorderFacts, strict=False)
        except msgspec.ValidationError:
            facts = RecorderFacts()
        self.coverage.recorder_attached = True
        if len(self.coverage.recorders) < MOST_EXAMPLES:
            self.coverage.recorders.append(facts)
        for source, live in facts.sources.items():
            self.coverage.sources[source] = self.coverage.sources.get(source, False) or live

    def _count_pairs(self, event: Event) -> None:
        kind = event.event_type
        key = (event.agent_run_id, event.tool_call_id)
        if kind == EventType.TOOL_CALL:
            call = OpenCall(event.event_id, event.tool_name, event.tool_call_id)
            self._open_calls.setdefault(key, []).append(call)
        elif kind == EventType.TOOL_OUTPUT:
            calls = self._open_calls.get(key)
            if not calls:
                self.coverage.results_without_calls += 1
                return
            calls.pop(0)
            if not calls:
                del self._open_calls[key]
        elif kind == "before_provider_request":
            self._open_requests[event.agent_run_id] += 1
        elif kind == EventType.TOKEN_USAGE:
            self._open_requests[event.agent_run_id] -= 1
            if event.status == "ok" and not event.payload.get("usage"):
                self.coverage.responses_without_usage += 1
        elif kind == "agent_end":
            self.coverage.responses_without_usage -= len(recovered_usage(event))

    def coverage_of(self, redactor: Redactor) -> Coverage:
        """What is known at the end."""
        coverage = self.coverage
        self.metrics.by_event_type = dict(sorted(self._types.items()))
        self.metrics.by_source_layer = dict(sorted(self._layers.items()))
        self.metrics.tool_calls = self._types[EventType.TOOL_CALL]
        holes = {writer: top - self._written[writer] for writer, top in self._highest.items()}
        if coverage.imported_from is not None:
            # The numbers are the source's own: one that is not there was never meant to be.
            holes.pop(IMPORT_WRITER, None)
        coverage.missing_by_writer = {writer: count for writer, count in sorted(holes.items()) if count > 0}
        coverage.missing_records = max(0, sum(coverage.missing_by_writer.values()) - coverage.damaged_records)
        still_open = [call for calls in self._open_calls.values() for call in calls]
        coverage.calls_without_results = len(still_open)
        coverage.open_calls = still_open[:MOST_EXAMPLES]
        coverage.requests_without_responses = sum(count for count in self._open_requests.values() if count > 0)
        coverage.secrets_redacted = dict(sorted((self._redacted + redactor.counts).items()))
        coverage.sealed_while_running = self._running
        coverage.damage.sort(key=lambda damage: damage.line)
        coverage.notes = [*_notes(coverage), *self._import_notes]
        return coverage


def _notes(coverage: Coverage) -> list[str]:
    notes = []
    if coverage.imported_from:
        source = coverage.imported_from
        notes.append(f"Imported from {source}: no recorder was there, and what the source does not tell is not known.")
    elif coverage.agent_events and not coverage.recorder_attached:
        notes.append("The recorder did not announce itself: which of its sources were live is not known.")
    elif not coverage.recorder_attached:
        notes.append("The recorder was never attached: what the agent did is not in this evidence.")
    elif coverage.agent_events == 0:
        notes.append("The recorder was attached and saw no agent activity.")
    if any(recorder.attached for recorder in coverage.recorders):
        notes.append(
            "OpenClaw ran by itself: what it did before it was attached, agent runs that were under way then, its "
            "process (start, end, memory) and its timeline are not in here."
        )
    if coverage.damaged_records:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(coverage.damage_by_kind.items()))
        notes.append(f"{counted(coverage.damaged_records, 'journal record')} could not be read ({kinds}).")
    if coverage.missing_records:
        were = "was" if coverage.missing_records == 1 else "were"
        notes.append(f"{counted(coverage.missing_records, 'record')} {were} lost before reaching the disk.")
    if coverage.calls_without_results:
        notes.append(f"{_having(coverage.calls_without_results, 'tool call')} no result.")
    if coverage.requests_without_responses:
        notes.append(f"{_having(coverage.requests_without_responses, 'model call')} no response.")
    if coverage.responses_without_usage:
        notes.append(f"{counted(coverage.responses_without_usage, 'model call')} did not say what was used.")
    if coverage.sealed_while_running:
        notes.append("Sealed while OpenClaw was still running: what came later is not in here.")
    return notes


def _having(count: int, noun: str) -> str:
    return f"{counted(count, noun)} {'has' if count == 1 else 'have'}"
