"""Writer of the events of one imported trace: adds id, time and envelope, redacts and bounds the values."""

from __future__ import annotations

from typing import Any

import msgspec

from critiqor.importers.notes import ImportNotes
from critiqor.importers.trace import ImportedTrace
from critiqor.importers.values import LATEST_MS
from critiqor.model import Event, EventType, event_id_for, iso_from_ms
from critiqor.model.event import IMPORT_WRITER
from critiqor.model.timestamps import NO_TIME_MS
from critiqor.spans.memory_lookups import is_memory_tool, memory_lookup
from critiqor.spans.tool_results import NO_REASON
from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import Redactor

MAIN = "main"
"""The agent run of events that name no agent."""


class EventFields(msgspec.Struct, kw_only=True):
    """Fields of an event other than its type and payload."""

    at: int | None = None
    """Milliseconds since 1970. A time before that of the preceding event is replaced by that time."""
    session_key: str | None = None
    """None for the session of the trace."""
    agent_run_id: str | None = MAIN
    tool_name: str | None = None
    tool_call_id: str | None = None
    error: str | None = None
    """Description of the failure; empty if there is no description, None if nothing failed."""
    duration_ms: int | float | None = None
    raw: str | None = None
    """The source's name for this type of event."""


class EventWriter:
    """Collects the events of one trace in order."""

    def __init__(
        self,
        trace_id: str,
        key: bytes,
        *,
        session_key: str | None = None,
        start: int | None = None,
        notes: ImportNotes | None = None,
    ) -> None:
        """`start` is the time of events without a time that precede the first one with a time."""
        self._filter = RecordFilter(Redactor(key))
        self.trace_id = self._filter.name(trace_id)
        self._session_key = self._name(session_key) or self.trace_id
        self._latest = NO_TIME_MS if start is None else start
        self._events: list[Event] = []
        self.notes = notes or ImportNotes()

    def write(
        self, event_type: str, fields: EventFields, payload: dict[str, Any], *, sequence: int | None = None
    ) -> None:
        """Write an event. `sequence` is its number in the source; by default it gets the next one."""
        self._latest = max(self._latest, min(fields.at or 0, LATEST_MS))
        number = sequence or len(self._events) + 1
        error = fields.error
        self._events.append(
            Event(
                event_id=event_id_for(self._latest, IMPORT_WRITER, number),
                event_type=event_type,
                raw_event_type=self._name(fields.raw) or event_type,
                timestamp=iso_from_ms(self._latest),
                source_layer="tool_hooks" if event_type.startswith(("tool_", "memory_")) else "extension_api",
                session_key=self._name(fields.session_key) or self._session_key,
                agent_run_id=self._name(fields.agent_run_id),
                tool_name=self._name(fields.tool_name),
                tool_call_id=self._name(fields.tool_call_id),
                status="ok" if error is None else "error",
                error=None if error is None else self._name(error) or NO_REASON,
                duration_ms=fields.duration_ms,
                payload=self._filter.payload({name: value for name, value in payload.items() if value is not None}),
            )
        )

    def write_tool_call(self, fields: EventFields, arguments: Any, *, is_lookup: bool = False, **payload: Any) -> None:
        """Write the start of a tool call, and of the memory lookup if it is one."""
        content = {"arguments": arguments, **payload}
        self.write(EventType.TOOL_CALL, fields, content)
        if is_lookup or is_memory_tool(fields.tool_name):
            lookup = memory_lookup(arguments, None, has_ended=False, failed=False)
            self._write_lookup(fields, {**content, "observed_as": "tool_call", **lookup})

    def write_tool_result(
        self, fields: EventFields, arguments: Any, result: Any, *, is_lookup: bool = False, **payload: Any
    ) -> None:
        """Write the end of a tool call, and of the memory lookup if it is one."""
        content = {"result": result, **payload}
        self.write(EventType.TOOL_OUTPUT, fields, content)
        if is_lookup or is_memory_tool(fields.tool_name):
            lookup = memory_lookup(arguments, result, has_ended=True, failed=fields.error is not None)
            self._write_lookup(fields, {**content, "observed_as": "tool_result", **lookup})

    def _write_lookup(self, fields: EventFields, payload: dict[str, Any]) -> None:
        self.write(EventType.MEMORY, msgspec.structs.replace(fields, raw=fields.tool_name), payload)

    def trace(self, format_name: str) -> ImportedTrace:
        """Return the trace with all events written so far."""
        notes = [self._filter.name(note) for note in self.notes.sentences()]
        return ImportedTrace(
            trace_id=self.trace_id,
            format=format_name,
            events=self._events,
            notes=notes,
            not_understood=self.notes.not_understood,
        )

    def _name(self, text: str | None) -> str | None:
        return self._filter.name(text) if text else None
