"""The neutral shape: JSON Lines, one trace a line, as benchmarks of agents are converted to.

    {"labels": {"trace_id": …}, "events": [{"i": 0, "type": "user", "text": …}, …]}

One event of a trace becomes one event here, under a number that leads back to it. Labels say what people think of the
run: nothing but the name of the trace is read of them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from critiqor.importers.files import Entry, read_entries
from critiqor.importers.ledger import MAIN, NO_TIME, Known, Ledger
from critiqor.importers.trace import ImportedTrace
from critiqor.importers.values import as_count, as_list, as_ms, as_object, as_text, as_told_duration, unwrapped
from critiqor.model import EventType

NAME = "neutral"
_TYPES = {
    "user": "input",
    "assistant": "message_end",
    "tool_call": EventType.TOOL_CALL,
    "tool_result": EventType.TOOL_OUTPUT,
    "error": "error",
    "end": "agent_end",
}
_UNKNOWN = "unknown"
_MOST_NUMBERS = 36**5 - 1
"""Event ids sort as text up to here."""


def is_neutral(value: Any) -> bool:
    """Whether a line is a trace in this shape."""
    return isinstance(value, dict) and isinstance(value.get("events"), list)


def read_neutral(path: Path, key: bytes) -> Iterator[ImportedTrace]:
    """The traces of a file; a line that is none becomes one without events, whose notes say why."""
    for entry in read_entries(path):
        yield _read_trace(entry, key)


def _read_trace(entry: Entry, key: bytes) -> ImportedTrace:
    if not is_neutral(entry.value):
        ledger = Ledger(f"line-{entry.line}", key)
        ledger.notes.add("lines that could not be read", f"{entry.line}: {entry.problem or 'no list of events'}")
        return ledger.trace(NAME)
    trace_id = as_text(as_object(entry.value.get("labels")).get("trace_id")) or f"line-{entry.line}"
    told = [event for event in entry.value["events"] if isinstance(event, dict)]
    times = [moment for event in told if (moment := as_ms(event.get("ts"))) is not None]
    ledger = Ledger(trace_id, key, start=times[0] if times else None)
    if len(told) < len(entry.value["events"]):
        ledger.notes.add("entries that are no events", times=len(entry.value["events"]) - len(told))
    if len(times) < len(told):
        where = "beside the one ahead of them" if times else "a millisecond apart in the year 2000"
        ledger.notes.add(f"events without a time, placed {where}", times=len(told) - len(times))
    agents = _Agents(told)
    latest = 0
    for number, event in _numbered(told, ledger):
        at = as_ms(event.get("ts")) if times else NO_TIME + number
        is_late = at is not None and at < latest
        if is_late:
            ledger.notes.add("events told with a time before the one ahead of them, and placed beside it")
        latest = max(latest, at or 0)
        kind = _TYPES.get(str(event.get("type")), _UNKNOWN)
        if kind == _UNKNOWN:
            ledger.notes.add("events of an unknown type", (as_text(event.get("type")) or "none")[:40])
        known = _envelope(event, kind)
        known.at = at
        known.agent_run_id = agents.run_of(event)
        payload = _payload(event, kind) | ({"ts": event["ts"]} if is_late else {})
        ledger.write(kind, known, payload, sequence=number + 1)
    return ledger.trace(NAME)


def _numbered(events: list[dict[str, Any]], ledger: Ledger) -> list[tuple[int, dict[str, Any]]]:
    """Events in the order of their own numbers, or of their places where the numbers are no order."""
    told = [as_count(event.get("i")) for event in events]
    numbers = [number for number in told if number is not None and number < _MOST_NUMBERS]
    if len(set(numbers)) == len(events):
        return sorted(zip(numbers, events, strict=True), key=lambda pair: pair[0])
    if numbers:
        ledger.notes.add("traces whose numbering has holes or doubles, numbered by place")
    return list(enumerate(events))


class _Agents:
    """Whose event it is: a result belongs to whom its call belongs to, and the rest to the first agent named."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self._first = next((agent for event in events if (agent := _agent_of(event))), MAIN)
        self._callers: dict[str | None, deque[str]] = defaultdict(deque)

    def run_of(self, event: dict[str, Any]) -> str:
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


def _envelope(event: dict[str, Any], kind: str) -> Known:
    text = event.get("text")
    said = as_text(event.get("error_text")) or (text if isinstance(text, str) else "")
    return Known(
        tool_name=as_text(event.get("tool")),
        tool_call_id=as_text(event.get("tool_call_id")),
        error=said if event.get("is_error") is True or kind == "error" else None,
        # At the beginning of something nothing has been measured yet.
        duration_ms=None if kind in ("input", EventType.TOOL_CALL) else as_told_duration(event.get("duration")),
        raw=as_text(event.get("type")),
    )


def _payload(event: dict[str, Any], kind: str) -> dict[str, Any]:
    payload: dict[str, Any] = {name: event.get(name) for name in ("span_id", "msg", "agent_end")}
    text = event.get("text")
    if kind == EventType.TOOL_CALL:
        payload["arguments"] = unwrapped(event.get("args"))
    elif kind == EventType.TOOL_OUTPUT:
        payload["result"] = text
    elif kind == _UNKNOWN:
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
