"""The neutral format: JSON Lines with one trace per line, a target for converting agent benchmarks.

    {"labels": {"trace_id": …}, "events": [{"i": 0, "type": "user", "text": …}, …]}

Each event of a trace becomes one event, with a number that leads back to it. Labels are judgements of people about the
run: only the name of the trace is read from them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from critiqor.diagnosis.results.exit_codes import stated_code
from critiqor.diagnosis.signals.tool_calls import runs_commands
from critiqor.importers.event_writer import MAIN, EventFields, EventWriter
from critiqor.importers.files import Entry, read_entries
from critiqor.importers.otel.attributes import unwrap_arguments
from critiqor.importers.trace import ImportedTrace
from critiqor.importers.values import as_count, as_list, as_ms, as_object, as_text, parse_duration
from critiqor.model import EventType
from critiqor.model.event import UNKNOWN
from critiqor.model.timestamps import NO_TIME_MS

NAME = "neutral"
_TYPES = {
    "user": "input",
    "assistant": "message_end",
    "tool_call": EventType.TOOL_CALL,
    "tool_result": EventType.TOOL_OUTPUT,
    "compaction": "compaction_end",
    "error": "error",
    "end": "agent_end",
}
_MAX_SEQUENCE = 36**5 - 1
"""Event ids sort correctly as text up to this number."""


def is_neutral(value: Any) -> bool:
    """Return whether a value is a trace in the neutral format."""
    return isinstance(value, dict) and isinstance(value.get("events"), list)


def read_neutral(path: Path, key: bytes) -> Iterator[ImportedTrace]:
    """Yield the traces of a file; an invalid line becomes a trace without events, whose notes say why."""
    for entry in read_entries(path):
        yield _read_trace(entry, key)


def _read_trace(entry: Entry, key: bytes) -> ImportedTrace:
    if not is_neutral(entry.value):
        writer = EventWriter(f"line-{entry.line}", key)
        problem = entry.problem or "no list of events"
        writer.notes.add("lines that could not be read", f"{entry.line}: {problem}", not_understood=True)
        return writer.trace(NAME)
    trace_id = as_text(as_object(entry.value.get("labels")).get("trace_id")) or f"line-{entry.line}"
    events = [event for event in entry.value["events"] if isinstance(event, dict)]
    times = [moment for event in events if (moment := as_ms(event.get("ts"))) is not None]
    writer = EventWriter(trace_id, key, start=times[0] if times else None)
    if len(events) < len(entry.value["events"]):
        missing = len(entry.value["events"]) - len(events)
        writer.notes.add("entries that are not events", times=missing, not_understood=True)
    if len(times) < len(events):
        where = "at the time of the preceding event" if times else "in the year 2000, one millisecond apart"
        writer.notes.add(f"events without a time, placed {where}", times=len(events) - len(times))
    agents = _AgentRuns(events)
    latest = 0
    for number, event in _number_events(events, writer):
        at = as_ms(event.get("ts")) if times else NO_TIME_MS + number
        is_late = at is not None and at < latest
        if is_late:
            writer.notes.add("events with a time before the preceding event, placed at its time")
        latest = max(latest, at or 0)
        kind = _TYPES.get(str(event.get("type")), UNKNOWN)
        if kind == UNKNOWN:
            named = (as_text(event.get("type")) or "none")[:40]
            writer.notes.add("events of an unknown type", named, not_understood=True)
        fields = _fields(event, kind)
        fields.at = at
        fields.agent_run_id = agents.find(event)
        payload = _payload(event, kind) | ({"ts": event["ts"]} if is_late else {})
        writer.write(kind, fields, payload, sequence=number + 1)
    return writer.trace(NAME)


def _number_events(events: list[dict[str, Any]], writer: EventWriter) -> list[tuple[int, dict[str, Any]]]:
    """Return the events in the order of their numbers, or of their positions if the numbers are not usable."""
    stated = [as_count(event.get("i")) for event in events]
    numbers = [number for number in stated if number is not None and number < _MAX_SEQUENCE]
    if len(set(numbers)) == len(events):
        return sorted(zip(numbers, events, strict=True), key=lambda pair: pair[0])
    if numbers:
        writer.notes.add("traces with missing or repeated event numbers, numbered by position")
    return list(enumerate(events))


class _AgentRuns:
    """Assigns events to agent runs: a result to that of its call, an event without an agent to the first one named."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self._first = next((agent for event in events if (agent := _agent_of(event))), MAIN)
        self._callers: dict[str | None, deque[str]] = defaultdict(deque)

    def find(self, event: dict[str, Any]) -> str:
        agent = _agent_of(event)
        call_id = as_text(event.get("tool_call_id"))
        if event.get("type") == "tool_call":
            agent = agent or self._first
            self._callers[call_id].append(agent)
        elif event.get("type") == "tool_result" and (callers := self._callers[call_id]):
            caller = callers.popleft()
            agent = agent or caller
        return agent or self._first


def _agent_of(event: dict[str, Any]) -> str | None:
    return as_text(event.get("agent")) or as_text(event.get("agent_end"))


def _fields(event: dict[str, Any], kind: str) -> EventFields:
    text = event.get("text")
    message = as_text(event.get("error_text")) or (text if isinstance(text, str) else "")
    return EventFields(
        tool_name=as_text(event.get("tool")),
        tool_call_id=as_text(event.get("tool_call_id")),
        error=message if event.get("is_error") is True or kind == "error" else None,
        # A start event cannot have a measured duration.
        duration_ms=None if kind in ("input", EventType.TOOL_CALL) else parse_duration(event.get("duration")),
        raw=as_text(event.get("type")),
    )


def _exit_code(event: dict[str, Any]) -> int | None:
    """Return the exit code of a command; one that is said not to have failed ended with 0."""
    code = as_count(event.get("exit_code"))
    if code is None and event.get("is_error") is False and runs_commands(as_text(event.get("tool")) or ""):
        return None if isinstance(event.get("text"), str) and stated_code(event["text"]) else 0
    return code


def _payload(event: dict[str, Any], kind: str) -> dict[str, Any]:
    payload: dict[str, Any] = {name: event.get(name) for name in ("span_id", "msg", "agent_end")}
    text = event.get("text")
    if kind == EventType.TOOL_CALL:
        payload["arguments"] = unwrap_arguments(event.get("args"))
    elif kind == EventType.TOOL_OUTPUT:
        payload["result"] = text
        payload["exit_code"] = _exit_code(event)
    elif kind == "compaction_end":
        payload["summary"] = text
    elif kind == UNKNOWN:
        payload = dict(event)
    else:
        payload["text"] = text
    if kind == "message_end":
        requested = as_list(event.get("requested_tool_calls"))
        payload |= {"role": "assistant", "tool_calls": requested or None, "model": event.get("model")}
        usage = {"input": as_count(event.get("tokens_in")), "output": as_count(event.get("tokens_out"))}
        payload["usage"] = {name: count for name, count in usage.items() if count is not None} or None
    elif kind == "input":
        payload["role"] = "user"
    return payload
