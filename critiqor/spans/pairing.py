"""Pair starts with ends: attempts of agent runs, turns, model calls, tool calls, memory lookups and compactions.

This is the only implementation of these rules:

- Spans are paired within one agent run of one session.
- Ids of tool calls can repeat: the first result belongs to the first call.
- A response belongs to the request with its call id, otherwise to the oldest open request.
- A tool call made by another tool call names it in `parent_tool_call_id`, or in an id `tool_search_code:<outer id>:…`.
- A session does one thing at a time: a new agent run supersedes the one before it.
- A span without an end lasts until its agent run ended or was superseded.
- A span started earlier than recorded if its end reports a longer duration, but not before something ended that had
  ended when its start was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, get_args

import msgspec

from critiqor.model import Event, EventType, Scope
from critiqor.model.trace import MAX_MS
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.span import Data, Span, SpanKind

ALL_KINDS: tuple[SpanKind, ...] = get_args(SpanKind)
_INNER_CALL = "tool_search_code:"
"""Prefix of the id of an inner call; the id of its outer call follows."""


class Pairing(msgspec.Struct, Generic[Data], frozen=True, eq=False, gc=False):
    """What one event does to the spans of an agent run."""

    run: AgentRun
    opened: Span[Data] | None = None
    """The span that the event starts."""
    closed: Span[Data] | None = None
    """The span that the event ends; a new one if its start was not recorded."""
    cut: tuple[Span[Data], ...] = ()
    """Spans that ended without their own end event, inner ones first."""


_Handler = Callable[[AgentRun, Event, int], Pairing[Any]]


class SpanPairer(Generic[Data]):
    """Pairs the events of a recording, which come in true order. Only open spans are kept.

    Users attach what they need to `Span.data` of an opened span and find it there when the span is closed.
    """

    def __init__(self, kinds: Iterable[SpanKind] = ALL_KINDS) -> None:
        self.runs: dict[Scope, AgentRun] = {}
        """Agent runs in the order in which they began."""
        self._current: dict[str | None, AgentRun] = {}
        """The newest agent run of each session."""
        handlers: dict[SpanKind, dict[str, _Handler]] = {
            "agent": {"agent_start": self._start_attempt, "agent_end": self._end_attempt},
            "turn": {"turn_start": self._start_turn, "turn_end": self._end_turn},
            "model": {"before_provider_request": self._start_model_call, EventType.TOKEN_USAGE: self._end_model_call},
            "tool": {EventType.TOOL_CALL: self._start_tool_call, EventType.TOOL_OUTPUT: self._end_tool_call},
            "memory": {EventType.MEMORY: self._memory_lookup},
            "compaction": {"compaction_start": self._start_compaction, "compaction_end": self._end_compaction},
        }
        self.handlers: dict[str, _Handler] = {name: each for kind in kinds for name, each in handlers[kind].items()}
        """What pairs an event of each type, given its agent run; other events neither start nor end a span."""

    def observe(self, event: Event, at_us: int = 0) -> Pairing[Data] | None:
        """Pair one event; None if it neither starts nor ends a span.

        `at_us` is the time of the event in microseconds since 1970. Users that need no times leave it out.
        """
        handler = self.handlers.get(event.event_type)
        return None if handler is None else handler(self.run_of(event, at_us), event, at_us)

    def run_of(self, event: Event, at_us: int = 0) -> AgentRun:
        """Return the agent run of an event; a new one supersedes the one before it in its session."""
        session_key, agent_run_id = event.session_key, event.agent_run_id
        current = self._current.get(session_key)
        if current is not None and current.scope.agent_run_id == agent_run_id:
            return current
        scope = Scope(session_key, agent_run_id)
        run = self.runs.get(scope)
        if run is None:
            run = self.runs[scope] = self._current[session_key] = AgentRun(scope)
            if current is not None:
                current.superseded_us = at_us
                run.reached_us = current.reached_us
        return run

    def current_run(self, session_key: str | None) -> AgentRun | None:
        """Return the newest agent run of a session."""
        return self._current.get(session_key)

    def forget(self, run: AgentRun) -> Pairing[Data]:
        """Forget an agent run and cut its open spans."""
        del self.runs[run.scope]
        if self._current.get(run.scope.session_key) is run:
            del self._current[run.scope.session_key]
        return Pairing(run, cut=tuple(run.cut_open_spans()))

    def finish(self) -> Iterator[Pairing[Data]]:
        """Cut all spans that are open when there are no more events."""
        for run in self.runs.values():
            yield Pairing(run, cut=tuple(run.cut_open_spans()))

    def _start_attempt(self, run: AgentRun, event: Event, at_us: int) -> Pairing[Data]:
        # The previous attempt is over, although its end was not recorded.
        cut = (*self._cut_turn(run, at_us), *self._cut_attempt(run, at_us))
        run.ended_us = None
        run.attempt = Span("agent", event.event_id, at_us, at_us, run.reached_us)
        return Pairing(run, run.attempt, None, cut)

    def _end_attempt(self, run: AgentRun, event: Event, at_us: int) -> Pairing[Data]:
        cut = self._cut_turn(run, at_us)
        attempt, run.attempt = run.attempt, None
        run.ended_us = at_us
        run.request = None
        return Pairing(run, None, _end("agent", attempt, run, event, at_us), cut)

    def _start_turn(self, run: AgentRun, event: Event, at_us: int) -> Pairing[Data]:
        cut = self._cut_turn(run, at_us)
        run.turn = Span("turn", event.event_id, at_us, at_us, run.reached_us)
        return Pairing(run, run.turn, None, cut)

    def _end_turn(self, run: AgentRun, event: Event, at_us: int) -> Pairing[Data]:
        turn, run.turn = run.turn, None
        return Pairing(run, None, _end("turn", turn, run, event, at_us))

    def _cut_attempt(self, run: AgentRun, at_us: int) -> tuple[Span[Data], ...]:
        attempt, run.attempt = run.attempt, None
        return () if attempt is None else (_cut(attempt, run, at_us),)

    def _cut_turn(self, run: AgentRun, at_us: int) -> tuple[Span[Data], ...]:
        turn, run.turn = run.turn, None
        return () if turn is None else (_cut(turn, run, at_us),)

    def _start_model_call(self, run: AgentRun, event: Event, at_us: int) -> Pairing[Data]:
        run.request = event.event_id
        return Pairing(run, _start("model", _model_call_id(event), run, event, at_us))

    def _end_model_call(self, run: AgentRun, event: Event, at_us: int) -> Pairing[Data]:
        run.request = None
        call = run.take_call("model", _model_call_id(event)) or run.take_oldest_call("model")
        return Pairing(run, None, _end("model", call, run, event, at_us))

    def _start_tool_call(self, run: AgentRun, event: Event, at_us: int) -> Pairing[Data]:
        call: Span[Data] = Span("tool", event.event_id, at_us, at_us, run.reached_us)
        _link_outer_call(call, run, event)
        run.add_call(event.tool_call_id, call)
        return Pairing(run, call)

    def _end_tool_call(self, run: AgentRun, event: Event, at_us: int) -> Pairing[Data]:
        call = _end("tool", run.take_call("tool", event.tool_call_id), run, event, at_us)
        if not call.has_start:
            _link_outer_call(call, run, event)
        return Pairing(run, None, call)

    def _memory_lookup(self, run: AgentRun, event: Event, at_us: int) -> Pairing[Data]:
        # A lookup is recorded beside the tool call that makes it: when it starts (pending) and when it ends.
        if event.payload.get("lookup") == "pending":
            return Pairing(run, _start("memory", event.tool_call_id, run, event, at_us))
        return Pairing(run, None, _end("memory", run.take_call("memory", event.tool_call_id), run, event, at_us))

    def _start_compaction(self, run: AgentRun, event: Event, at_us: int) -> Pairing[Data]:
        return Pairing(run, _start("compaction", None, run, event, at_us))

    def _end_compaction(self, run: AgentRun, event: Event, at_us: int) -> Pairing[Data]:
        return Pairing(run, None, _end("compaction", run.take_call("compaction", None), run, event, at_us))


def _start(kind: SpanKind, call_id: str | None, run: AgentRun, event: Event, at_us: int) -> Span[Any]:
    call: Span[Any] = Span(kind, event.event_id, at_us, at_us, run.reached_us)
    run.add_call(call_id, call)
    return call


def _end(kind: SpanKind, span: Span[Any] | None, run: AgentRun, event: Event, at_us: int) -> Span[Any]:
    start_us = at_us
    duration = event.duration_ms
    if at_us and duration is not None and 0 <= duration <= MAX_MS:
        start_us = max(0, at_us - round(duration * 1000))
    if span is None:
        span = Span(kind, event.event_id, start_us, start_us, has_start=False)
    elif start_us < span.start_us:
        run.move_start(span, start_us)
    span.end_us = run.reached_us = at_us
    span.has_end = True
    return span


def _cut(span: Span[Any], run: AgentRun, at_us: int) -> Span[Any]:
    span.end_us = run.reached_us = at_us
    return span


def _link_outer_call(call: Span[Any], run: AgentRun, event: Event) -> None:
    """Link a tool call that another tool call made to that one."""
    outer_id = event.payload.get("parent_tool_call_id")
    if not isinstance(outer_id, str):
        call_id = event.tool_call_id
        if call_id is None or not call_id.startswith(_INNER_CALL):
            return
        outer_id = call_id.split(":")[1]
    call.is_inner = True
    call.outer = run.newest_call("tool", outer_id)


def _model_call_id(event: Event) -> str | None:
    call_id = event.payload.get("callId")
    return call_id if isinstance(call_id, str) else None
