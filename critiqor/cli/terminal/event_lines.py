"""Events as one line each, for following a run while it is recorded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from critiqor.diagnosis.prices.price import price_of
from critiqor.diagnosis.signals.text import plain_text
from critiqor.model import EventType, iso_from_ms, ms_from_iso
from critiqor.model.formatting import format_duration, format_money, format_number, format_session
from critiqor.model.sanitize import collapse_whitespace, excerpt
from critiqor.model.usage import is_plausible

if TYPE_CHECKING:
    from critiqor.model import Event

MAX_QUOTE = 200
"""Maximum length of a quoted text in characters."""
MAX_SESSION = 32
"""Maximum length of the name of a session, so that what happened still fits on the line."""
MAIN_ARGUMENTS = ("command", "cmd", "path", "file_path", "url", "query", "pattern", "message", "task")
"""Arguments of a tool call that say what it does; they are printed first."""


class EventLine(NamedTuple):
    """An event in words."""

    clock: str
    """Time of day in UTC, with milliseconds."""
    name: str
    detail: str
    failed: bool

    @property
    def text(self) -> str:
        return f"{self.clock}  {'!' if self.failed else ' '} {self.name:<24} {self.detail}".rstrip()


_MESSAGES = frozenset(("message_end", "input", "message_received", "message_sent"))


def format_event(event: Event, *, with_session: bool = False) -> EventLine:
    """Summarize an event on one line, with the words of a message; `with_session` for one of several sessions."""
    failed = event.status == "error"
    details = [*_facts(event)]
    if event.duration_ms is not None and event.duration_ms >= 0:
        details.append(format_duration(event.duration_ms))
    if failed:
        details.append(f"error: {_quote(event.error)}" if event.error else "error")
    named = with_session and event.session_key is not None
    session = f"[{excerpt(format_session(event.session_key), MAX_SESSION)}] " if named else ""
    detail = f"{session}{', '.join(details)}".rstrip()
    return EventLine(_clock(event.timestamp), _quote(event.event_type), detail, failed)


def _facts(event: Event) -> list[str]:
    payload = event.payload
    if event.source_layer == "supervisor":
        return _process_facts(event)
    if event.event_type in (EventType.TOKEN_USAGE, "before_provider_request"):
        model = "/".join(_quote(payload[name]) for name in ("provider", "model") if isinstance(payload.get(name), str))
        return [*([model] if model else []), *_usage(payload)]
    if event.event_type in _MESSAGES:
        words = plain_text(payload.get("text"))
        return [f"“{_quote(words)}”"] if words.strip() else []
    tool = [_quote(event.tool_name)] if event.tool_name else []
    arguments = payload.get("arguments")
    has_arguments = event.event_type == EventType.TOOL_CALL and arguments
    return [*tool, _format_arguments(arguments)] if has_arguments else tool


def _format_arguments(arguments: Any) -> str:
    """Format tool arguments as JSON, the main ones first because the end may be cut off."""
    if isinstance(arguments, dict):
        arguments = {name: arguments[name] for name in sorted(arguments, key=_argument_order)}
    return _quote(json.dumps(arguments, ensure_ascii=False, separators=(",", ":"), default=str))


def _argument_order(name: Any) -> tuple[int, str]:
    return (MAIN_ARGUMENTS.index(name) if name in MAIN_ARGUMENTS else len(MAIN_ARGUMENTS), str(name))


def _process_facts(event: Event) -> list[str]:
    payload = event.payload
    if event.event_type == EventType.STATE_TRANSITION:
        return [f"{_quote(payload.get('from'))} → {_quote(payload.get('to'))}"]
    if event.event_type == EventType.PROCESS_OUTPUT:
        lines = str(payload.get("text", "")).strip().rpartition("\n")[2]
        return [f"“{_quote(lines)}”"] if lines else []
    known = {"pid": payload.get("pid"), "exit code": payload.get("exit_code")}
    return [f"{name} {value}" for name, value in known.items() if isinstance(value, int)]


def _usage(payload: dict[str, Any]) -> list[str]:
    usage = payload.get("usage")
    if not isinstance(usage, dict):
        return []
    tokens = [
        f"{format_number(usage[name])} {direction}"
        for name, direction in (("input", "in"), ("output", "out"))
        if is_plausible(usage.get(name))
    ]
    price = price_of(usage, payload.get("provider"), payload.get("model"))
    return tokens if price is None else [*tokens, format_money(price.usd, is_estimated=price.is_estimated)]


def _clock(timestamp: str) -> str:
    """Return the time of day; dashes if the timestamp is invalid."""
    moment = ms_from_iso(timestamp)
    return "--:--:--.---" if moment is None else iso_from_ms(moment)[11:23]


def _quote(text: object) -> str:
    line = collapse_whitespace(str(text)[: 2 * MAX_QUOTE])
    return line if len(line) <= MAX_QUOTE else line[: MAX_QUOTE - 1] + "…"
