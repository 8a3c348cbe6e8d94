"""The events of one trace as they come: each gets its id, its time and its envelope, redacted and bounded."""

from __future__ import annotations

from typing import Any

import msgspec

from critiqor.importers.trace import ImportedTrace, Notes
from critiqor.importers.values import LATEST_MS
from critiqor.model import Event, EventType, event_id_for, iso_from_ms
from critiqor.model.event import IMPORT_WRITER
from critiqor.spans.tool_results import NO_REASON, is_memory_tool, memory_lookup
from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import Redactor

NO_TIME = 946_684_800_000
"""Where events are placed whose source tells no time at all: the beginning of the year 2000, visibly none of theirs."""
MAIN = "main"
"""The agent run of what is told of no agent in particular."""


class Known(msgspec.Struct, kw_only=True):
    """What an importer knows of an event beside its type and payload."""

    at: int | None = None
    """Milliseconds since 1970. What is told as earlier than the event before it is placed beside that."""
    agent_run_id: str | None = MAIN
    tool_name: str | None = None
    tool_call_id: str | None = None
    error: str | None = None
    """What went wrong, in words; an empty text where nobody said."""
    duration_ms: int | float | None = None
    raw: str | None = None
    """What the source calls this kind of event."""


class Ledger:
    """Writes the events of one trace, in order."""

    def __init__(
        self,
        trace_id: str,
        key: bytes,
        *,
        session_key: str | None = None,
        start: int | None = None,
        notes: Notes | None = None,
    ) -> None:
        """`start` is where events without a time go that come before the first one with a time."""
        self._filter = RecordFilter(Redactor(key))
        self.trace_id = self._filter.name(trace_id)
        self._session_key = self._name(session_key) or self.trace_id
        self._latest = NO_TIME if start is None else start
        self._events: list[Event] = []
        self.notes = notes or Notes()

    def write(self, event_type: str, known: Known, payload: dict[str, Any], *, sequence: int | None = None) -> None:
        """One event. `sequence` is its number where the source gives it one; else it is the next."""
        self._latest = max(self._latest, min(known.at or 0, LATEST_MS))
        number = sequence or len(self._events) + 1
        error = known.error
        self._events.append(
            Event(
                event_id=event_id_for(self._latest, IMPORT_WRITER, number),
                event_type=event_type,
                raw_event_type=self._name(known.raw) or event_type,
                timestamp=iso_from_ms(self._latest),
                source_layer="tool_hooks" if event_type.startswith(("tool_", "memory_")) else "extension_api",
                session_key=self._session_key,
                agent_run_id=self._name(known.agent_run_id),
                tool_name=self._name(known.tool_name),
                tool_call_id=self._name(known.tool_call_id),
                status="ok" if error is None else "error",
                error=None if error is None else self._name(error) or NO_REASON,
                duration_ms=known.duration_ms,
                payload=self._filter.payload({name: value for name, value in payload.items() if value is not None}),
            )
        )

    def write_call(self, known: Known, arguments: Any, *, looks_up: bool = False, **payload: Any) -> None:
        """The beginning of a tool call, and of the lookup that it is where the tool asks a memory."""
        told = {"arguments": arguments, **payload}
        self.write(EventType.TOOL_CALL, known, told)
        if looks_up or is_memory_tool(known.tool_name):
            lookup = memory_lookup(arguments, None, has_ended=False, failed=False)
            self._lookup(known, {**told, "observed_as": "tool_call", **lookup})

    def write_result(
        self, known: Known, arguments: Any, result: Any, *, looks_up: bool = False, **payload: Any
    ) -> None:
        """The end of a tool call, and how the lookup ended where the tool asks a memory."""
        told = {"result": result, **payload}
        self.write(EventType.TOOL_OUTPUT, known, told)
        if looks_up or is_memory_tool(known.tool_name):
            lookup = memory_lookup(arguments, result, has_ended=True, failed=known.error is not None)
            self._lookup(known, {**told, "observed_as": "tool_result", **lookup})

    def _lookup(self, known: Known, payload: dict[str, Any]) -> None:
        self.write(EventType.MEMORY, msgspec.structs.replace(known, raw=known.tool_name), payload)

    def trace(self, format_name: str) -> ImportedTrace:
        """Everything that was written."""
        notes = [self._filter.name(note) for note in self.notes.sentences()]
        return ImportedTrace(trace_id=self.trace_id, format=format_name, events=self._events, notes=notes)

    def _name(self, text: str | None) -> str | None:
        return self._filter.name(text) if text else None
