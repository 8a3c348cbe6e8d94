"""What an expression sees of an event: calls, results and messages as plain values of bounded size."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from critiqor.diagnosis.signals.compactions import summarizes_history
from critiqor.diagnosis.signals.text import decode_json, plain_text
from critiqor.model import Event, EventType, Scope
from critiqor.model.event import HOUSEKEEPING
from critiqor.policy.expressions import MAX_ITEMS, EventKind, EventSize
from critiqor.spans.pairing import SpanPairer

MAX_TEXT = 100_000
"""Maximum number of characters of a text that an expression sees."""
MAX_VALUES = 5000
"""Maximum number of values in arguments or a result. If there are more, or more than `MAX_ITEMS` in one list or object,
all of them are left out."""
MAX_DEPTH = 16
MAX_RUNS = 4096
"""Agent runs whose open calls are kept: those with the latest events."""
_INT = 1 << 63
Values = dict[str, Any]


class SeenEvent(NamedTuple):
    """An event that expressions are evaluated on."""

    kind: EventKind
    event_id: str
    scope: Scope
    name: str
    """The tool, or the role of a message."""
    values: Values
    size: EventSize = EventSize()


class EventReader:
    """Turns the events of a recording into what expressions see, one by one."""

    def __init__(self) -> None:
        self._pairer = SpanPairer[Values](("tool",))
        self._runs: dict[Scope, None] = {}

    def read(self, event: Event) -> SeenEvent | None:
        """Return what expressions see of an event; None if that is nothing."""
        if event.source_layer == "supervisor" or event.event_type in HOUSEKEEPING:
            return None
        kind = event.event_type
        scope = Scope(event.session_key, event.agent_run_id)
        if kind in (EventType.TOOL_CALL, EventType.TOOL_OUTPUT):
            return self._read_call(event, scope)
        is_message = kind in ("input", "message_end")
        if is_message or (kind == "agent_end" and isinstance(event.payload.get("text"), str)):
            return _message(event, scope)
        return None

    def _read_call(self, event: Event, scope: Scope) -> SeenEvent | None:
        self._keep(scope)
        pairing = self._pairer.observe(event)
        tool = _text(event.tool_name or "unknown")
        if pairing is None:
            return None
        if pairing.opened is not None:
            pairing.opened.data = _call(event, tool)
            values = {"call": pairing.opened.data, "session": _text(event.session_key or "")}
            return SeenEvent("call", event.event_id, scope, tool, values, _size_of(values))
        known = pairing.closed.data if pairing.closed is not None else None
        # Without its call, the arguments are not known: expressions about them cannot be evaluated.
        call = known or {"tool": tool}
        values = {"call": call, "result": _result(event), "session": _text(event.session_key or "")}
        return SeenEvent("result", event.event_id, scope, tool, values, _size_of(values))

    def _keep(self, scope: Scope) -> None:
        self._runs.pop(scope, None)
        self._runs[scope] = None
        if len(self._runs) > MAX_RUNS:
            oldest = next(iter(self._runs))
            del self._runs[oldest]
            if oldest in self._pairer.runs:
                self._pairer.forget(self._pairer.runs[oldest])


def _call(event: Event, tool: str) -> Values:
    payload = event.payload
    arguments = payload["arguments"] if "arguments" in payload else payload.get("args")
    return {"tool": tool, **_bounded_member("args", {} if arguments is None else arguments)}


def _result(event: Event) -> Values:
    payload = event.payload
    text = plain_text(payload["result"] if "result" in payload else payload.get("output"))
    values = {"status": "error" if event.status == "error" else "ok", "text": _text(text or event.error or "")}
    if text.lstrip()[:1] in ("{", "["):
        try:
            return {**values, **_bounded_member("json", decode_json(text))}
        except msgspec.DecodeError:
            pass
    return values


def _message(event: Event, scope: Scope) -> SeenEvent | None:
    payload = event.payload
    role = payload.get("role") or ("user" if event.event_type == "input" else "assistant")
    text = plain_text(payload.get("text"))
    if role not in ("user", "assistant") or summarizes_history(text, by_user=role == "user"):
        return None
    values = {"message": {"role": role, "text": _text(text)}, "session": _text(event.session_key or "")}
    return SeenEvent("message", event.event_id, scope, role, values)


def _size_of(value: Any) -> EventSize:
    """Return how large a value is."""
    if not isinstance(value, dict | list):
        return EventSize(1, 0)
    members = [_size_of(each) for each in (value.values() if isinstance(value, dict) else value)]
    longest = max((each.longest for each in members), default=0)
    return EventSize(1 + sum(each.values for each in members), max(len(value), longest))


def _bounded_member(name: str, value: object) -> Values:
    """Return a value as a member, or nothing if it is too large: then expressions cannot be evaluated on it."""
    try:
        return {name: _Bounded().value(value)}
    except _TooLargeError:
        return {}


class _TooLargeError(Exception):
    pass


class _Bounded:
    """Copies a value as far as CEL can represent it, and counts its parts."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def value(self, value: object, depth: int = 0) -> object:
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            raise _TooLargeError
        if isinstance(value, str):
            return _text(value)
        if isinstance(value, dict | list):
            if len(value) > MAX_ITEMS:
                raise _TooLargeError
            if isinstance(value, list):
                return [self.value(item, depth + 1) for item in value]
            return {_text(str(key)): self.value(item, depth + 1) for key, item in value.items()}
        if isinstance(value, int) and not isinstance(value, bool) and not -_INT <= value < _INT:
            raise _TooLargeError
        return value


def _text(text: str) -> str:
    """Return the part of a text that expressions see; evidence can contain lone surrogates, which CEL cannot."""
    text = text[:MAX_TEXT]
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
