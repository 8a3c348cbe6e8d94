"""Spans of agent runs with the names and facts that they have in traces."""

from __future__ import annotations

from typing import NamedTuple

from critiqor.exporters.trace.facts import facts_of
from critiqor.model.event import Event, EventType
from critiqor.model.timestamps import ms_from_iso, us_of
from critiqor.model.trace import Fact, label
from critiqor.spans.pairing import Pairing, SpanPairer
from critiqor.spans.span import SpanKind

_OUTSIDE_OF_TRACES = frozenset((EventType.STATE_TRANSITION, EventType.RUN_IMPORTED))
"""Event types of the run record that are left out of traces: they can be days later than the run."""


class Description(NamedTuple):
    """Name and facts of a span."""

    name: str
    facts: dict[str, Fact]


class DescribedSpans(SpanPairer[Description]):
    """Pairs starts with ends and describes each span, open ones from their start and ended ones from both."""

    def observe(self, event: Event, at_us: int = 0) -> Pairing[Description] | None:
        pairing = super().observe(event, at_us)
        if pairing is None:
            return None
        facts = facts_of(event)
        if (span := pairing.opened) is not None:
            span.data = Description(_span_name(span.kind, event, facts), facts)
        if (span := pairing.closed) is not None:
            span.data = _joined(span.data or _description_of_end(span.kind, event, facts), event, facts)
        return pairing


def trace_time_us(event: Event) -> int | None:
    """Return the time of an event in microseconds since 1970; None for an event that is not part of a trace."""
    if event.event_type in _OUTSIDE_OF_TRACES:
        return None
    moment = ms_from_iso(event.timestamp)
    return None if moment is None else us_of(moment)


def _description_of_end(kind: SpanKind, event: Event, facts: dict[str, Fact]) -> Description:
    """Describe a span whose start was not recorded."""
    name = "agent run" if kind == "agent" else _span_name(kind, event, facts)
    return Description(name, {**facts, "beginning_seen": False})


def _joined(started: Description, end: Event, end_facts: dict[str, Fact]) -> Description:
    event_id = started.facts["event_id"]
    facts = {**started.facts, **end_facts, "event_id": event_id}
    if event_id != end.event_id:
        facts["end_event_id"] = label(end.event_id)
    return Description(started.name, facts)


def _span_name(kind: SpanKind, event: Event, facts: dict[str, Fact]) -> str:
    if kind == "agent":
        attempt = facts.get("attempt", 1)
        return "agent run" if attempt == 1 else label(f"agent run, attempt {attempt}")
    if kind == "turn":
        return label(f"turn {facts['turn']}") if "turn" in facts else "turn"
    if kind == "model":
        names = (event.payload.get("provider"), event.payload.get("model"))
        return label("/".join(name for name in names if isinstance(name, str))) or "model call"
    if kind == "tool":
        return label(event.tool_name or "unknown tool")
    return "memory lookup" if kind == "memory" else "compaction"
