"""Events on one line each, for whoever looks on while they happen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from critiqor.cli.wording import one_line
from critiqor.diagnosis.signals.numbers import is_plausible, price_of
from critiqor.model import EventType, iso_from_ms, ms_from_iso
from critiqor.model.formatting import money, number
from critiqor.model.timeline import spent

if TYPE_CHECKING:
    from critiqor.model import Event

LONGEST = 200
"""Characters of a text that is quoted."""
TELLING = ("command", "cmd", "path", "file_path", "url", "query", "pattern", "message", "task")
"""What says of a call at a glance what it does."""


class Happening(NamedTuple):
    """An event in words."""

    clock: str
    """Hours, minutes, seconds, UTC."""
    name: str
    detail: str
    failed: bool

    @property
    def line(self) -> str:
        return f"{self.clock}  {'!' if self.failed else ' '} {self.name:<24} {self.detail}".rstrip()


def happening(event: Event) -> Happening:
    """What an event tells at a glance."""
    failed = event.status == "error"
    told = [*_facts(event)]
    if event.duration_ms is not None and event.duration_ms >= 0:
        told.append(spent(event.duration_ms))
    if failed:
        told.append(f"error: {_quoted(event.error)}" if event.error else "error")
    return Happening(_clock(event.timestamp), _quoted(event.event_type), ", ".join(told), failed)


def _facts(event: Event) -> list[str]:
    payload = event.payload
    if event.source_layer == "supervisor":
        return _of_process(event)
    if event.event_type in (EventType.TOKEN_USAGE, "before_provider_request"):
        model = "/".join(_quoted(payload[name]) for name in ("provider", "model") if isinstance(payload.get(name), str))
        return [*([model] if model else []), *_usage(payload.get("usage"))]
    named = [_quoted(event.tool_name)] if event.tool_name else []
    asked = payload.get("arguments")
    return [*named, _asked(asked)] if event.event_type == EventType.TOOL_CALL and asked else named


def _asked(arguments: Any) -> str:
    """What a tool was asked, the telling part of it first: the rest may be cut away."""
    if isinstance(arguments, dict):
        arguments = {name: arguments[name] for name in sorted(arguments, key=_telling)}
    return _quoted(json.dumps(arguments, ensure_ascii=False, separators=(",", ":"), default=str))


def _telling(name: Any) -> tuple[int, str]:
    return (TELLING.index(name) if name in TELLING else len(TELLING), str(name))


def _of_process(event: Event) -> list[str]:
    payload = event.payload
    if event.event_type == EventType.STATE_TRANSITION:
        return [f"{_quoted(payload.get('from'))} → {_quoted(payload.get('to'))}"]
    known = {"pid": payload.get("pid"), "exit code": payload.get("exit_code")}
    return [f"{name} {value}" for name, value in known.items() if isinstance(value, int)]


def _usage(usage: Any) -> list[str]:
    if not isinstance(usage, dict):
        return []
    told = [
        f"{number(usage[name])} {way}"
        for name, way in (("input", "in"), ("output", "out"))
        if is_plausible(usage.get(name))
    ]
    price = price_of(usage)
    return told if price is None else [*told, money(price)]


def _clock(timestamp: str) -> str:
    """The time of day, where there is one."""
    moment = ms_from_iso(timestamp)
    return "--:--:--.---" if moment is None else iso_from_ms(moment)[11:23]


def _quoted(text: object) -> str:
    line = one_line(str(text)[: 2 * LONGEST])
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
