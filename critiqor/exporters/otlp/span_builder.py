"""Build OTLP spans from a recording: the run, its agent runs, and the model calls and tool calls in them.

Each agent run is a trace of its own, with the subagents that it started, and its roots are linked to the span of the
run, which is a trace too: a recording of a gateway can last for weeks.

A span is yielded when nothing more can be added to it: the text of a response and the outcome of a memory lookup are
recorded shortly after the call has ended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from critiqor.exporters.otlp import attributes as otel
from critiqor.exporters.otlp.attributes import EXCEPTION
from critiqor.exporters.otlp.evaluations import Evaluations
from critiqor.exporters.otlp.recorded_values import value_to_text
from critiqor.exporters.otlp.span import Attributes, OtlpSpan, SpanEvent, SpanLink
from critiqor.exporters.trace.described_spans import DescribedSpans, Description
from critiqor.exporters.trace.event_facts import event_time_us
from critiqor.model import Diagnosis, Scope
from critiqor.model.event import Event, EventType
from critiqor.model.record import RunHead
from critiqor.model.report import Recorded
from critiqor.model.sanitize import sanitize
from critiqor.model.timestamps import ms_from_iso, us_of
from critiqor.model.trace import Fact, label
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.pairing import Pairing
from critiqor.spans.span import Span, SpanKind
from critiqor.spans.tool_results import result_details

MAX_HELD = 256
"""Maximum number of ended spans of one agent run that are held back for late additions."""
_EXPORTED: frozenset[SpanKind] = frozenset(("agent", "model", "tool"))


class _Place(NamedTuple):
    """The trace of a span and its parent there; None for a root."""

    trace_id: str
    parent: str | None


class _OpenSpan:
    """What is known of an exported span before it ends."""

    __slots__ = ("attributes", "events", "place", "requested_model", "session")

    def __init__(self, place: _Place, session: str | None, requested_model: Fact | None) -> None:
        self.place = place
        self.session = session
        self.requested_model = requested_model
        self.attributes: Attributes = {}
        """Its content, if content is exported."""
        self.events: list[SpanEvent] = []


class _HeldSpan(NamedTuple):
    """A span that has ended and was not yielded yet."""

    span: OtlpSpan
    kind: SpanKind
    tool_call_id: Fact | None


def trace_id_of(run: RunHead) -> str:
    """Return the trace id of all spans that are built of a run: 32 hexadecimal digits, the same for every export."""
    return _digest(16, run.run_id, run.timestamps.created_at)


def build_spans(recorded: Recorded) -> Iterator[OtlpSpan]:
    """Yield the spans of a run, that of the run itself last."""
    builder = SpanBuilder(recorded)
    for event in recorded.events:
        builder.observe(event)
        yield from builder.take_completed()
    builder.finish()
    yield from builder.take_completed()


class SpanBuilder:
    """Builds the spans of a run, event by event."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._trace_id = trace_id_of(recorded.run)
        self._run_link = SpanLink(self._trace_id, self._span_id("run"))
        self._pairer = DescribedSpans()
        self._open: dict[Span[Description], _OpenSpan] = {}
        self._held: dict[AgentRun, list[_HeldSpan]] = {}
        self._completed: list[OtlpSpan] = []
        self._attempts: dict[AgentRun, str] = {}
        """Span id of the last attempt of each agent run."""
        self._places: dict[AgentRun, _Place] = {}
        """Where the attempts of each agent run are."""
        self._spawned: dict[str, _Place] = {}
        """Session keys of subagents, with the tool call that started them."""
        self._inputs: dict[str | None, str] = {}
        """Messages to sessions that no agent run has started to answer, by session key."""
        self._evaluations = Evaluations(recorded)
        self._run_events: list[SpanEvent] = []
        self._first_us: int | None = None
        self._last_us = 0
        self._exit_code: Fact | None = None

    def take_completed(self) -> list[OtlpSpan]:
        """Return the spans that were completed since the last call."""
        completed, self._completed = self._completed, []
        return completed

    def observe(self, event: Event) -> None:
        """Add one event."""
        at_us = event_time_us(event)
        if at_us is None:
            return
        events = self._observe(event, at_us)
        self._first_us = at_us if self._first_us is None else min(self._first_us, at_us)
        self._last_us = max(self._last_us, at_us)
        if evaluations := self._evaluations.started_at(event.event_id, at_us):
            events = events if events is not None else self._events_around(event)
            events += evaluations

    def release(self, until_us: int) -> None:
        """Complete the spans of agent runs of which nothing has ended since then: nothing is added to them any more."""
        for run in [run for run, held in self._held.items() if held[-1].span.end_us < until_us]:
            self._release(run)

    def finish(self, diagnosis: Diagnosis | None = None) -> None:
        """Complete all spans when there are no more events.

        A `diagnosis` that was made after spans were taken has all of its findings in the span of the run.
        """
        if diagnosis is not None:
            self._recorded = self._recorded._replace(diagnosis=diagnosis)
            self._evaluations = Evaluations(self._recorded)
        for pairing in self._pairer.finish():
            for span in pairing.cut:
                self._close(pairing.run, span, failed=False)
        for run in list(self._held):
            self._release(run)
        self._completed.append(self._run_span())

    def _observe(self, event: Event, at_us: int) -> list[SpanEvent] | None:
        """Add one event; return the events of the span that it starts or ends."""
        if event.source_layer == "supervisor":
            if event.event_type == EventType.PROCESS_END:
                code = event.payload.get("exit_code")
                self._exit_code = code if isinstance(code, int) and not isinstance(code, bool) else None
            return None
        previous = self._pairer.current_run(event.session_key)
        pairing = self._pairer.observe(event, at_us)
        if pairing is None:
            self._add_message(event)
            return None
        if previous is not None and previous is not pairing.run:
            self._release(previous)
        return self._add_pairing(pairing, event, at_us)

    def _add_pairing(self, pairing: Pairing[Description], event: Event, at_us: int) -> list[SpanEvent] | None:
        run = pairing.run
        touched = None
        for span in pairing.cut:
            touched = self._close(run, span, failed=False) or touched
        opened, closed = pairing.opened, pairing.closed
        if opened is not None and opened.kind in _EXPORTED:
            touched = self._start(run, opened, event)
        if closed is not None and closed.kind in _EXPORTED:
            self._add_end(run, closed, event, at_us)
            touched = self._close(run, closed, failed=event.status == "error")
        return touched

    def _start(self, run: AgentRun, span: Span[Description], event: Event) -> list[SpanEvent]:
        self._release(run)
        opened = self._open_span(run, span, event)
        if self._recorded.content and (arguments := event.payload.get("arguments")) is not None:
            opened.attributes |= otel.arguments_attributes(arguments)
        if span.kind == "agent" and (text := self._inputs.pop(event.session_key, None)) is not None:
            opened.attributes |= otel.question_attributes(text)
        return opened.events

    def _open_span(self, run: AgentRun, span: Span[Description], event: Event) -> _OpenSpan:
        place = self._place_of(run)
        if span.kind == "agent":
            self._attempts[run] = self._span_id(label(span.event_id))
        elif span.outer is not None:
            place = place._replace(parent=self._span_id(label(span.outer.event_id)))
        else:
            place = place._replace(parent=self._attempts.get(run, place.parent))
        opened = self._open[span] = _OpenSpan(place, event.session_key, _facts(span).get("model"))
        return opened

    def _place_of(self, run: AgentRun) -> _Place:
        """Return where an agent run is: in the call that started it, or in a trace of its own."""
        place = self._places.get(run)
        if place is None:
            session, agent_run = run.scope.session_key or "", run.scope.agent_run_id or ""
            own = _Place(_digest(16, self._trace_id, session, agent_run), None)
            place = self._places[run] = self._spawned.get(session, own)
        return place

    def _add_end(self, run: AgentRun, span: Span[Description], event: Event, at_us: int) -> None:
        opened = self._open.get(span) or self._open_span(run, span, event)
        result = event.payload.get("result")
        for name in ("childSessionKey", "child_session_key"):
            if isinstance(child := result_details(result).get(name), str):
                self._spawned[child] = _Place(opened.place.trace_id, self._span_id(label(span.event_id)))
        error = None
        if self._recorded.content:
            error = sanitize(event.error, max_length=otel.MAX_CONTENT, multiline=True) if event.error else None
            if result is not None:
                opened.attributes |= otel.result_attributes(result)
        if event.status == "error":
            kind = otel.error_type(_facts(span))
            opened.events.append(SpanEvent(EXCEPTION, at_us, otel.exception_attributes(kind, error)))

    def _close(self, run: AgentRun, span: Span[Description], *, failed: bool) -> list[SpanEvent] | None:
        """Hold back a span that has ended; return its events."""
        opened = self._open.pop(span, None)
        if opened is None:
            return None
        facts = _facts(span)
        name, attributes = _name_and_attributes(span, opened, self._recorded.run)
        attributes |= otel.session_attributes(opened.session) | otel.place_attributes(facts)
        if failed:
            attributes["error.type"] = otel.error_type(facts)
        if not span.has_end:
            attributes["critiqor.unfinished"] = True
        end_us = self._last_us if span.end_us is None else span.end_us
        messages = [event.attributes.get("exception.message") for event in opened.events if event.name == EXCEPTION]
        exported = OtlpSpan(
            trace_id=opened.place.trace_id,
            id=self._span_id(label(span.event_id)),
            parent=opened.place.parent,
            name=name,
            kind="client" if span.kind == "model" else "internal",
            start_us=span.start_us,
            end_us=max(span.start_us, end_us),
            attributes=attributes | opened.attributes,
            events=opened.events,
            link=self._run_link if opened.place.parent is None else None,
            failed=failed,
            message=next((text for text in messages if isinstance(text, str)), None),
        )
        self._first_us = span.start_us if self._first_us is None else min(self._first_us, span.start_us)
        held = self._held.setdefault(run, [])
        held.append(_HeldSpan(exported, span.kind, facts.get("tool_call_id")))
        if len(held) > MAX_HELD:
            self._release(run)
        return exported.events

    def _release(self, run: AgentRun) -> None:
        self._completed += [held.span for held in self._held.pop(run, ())]

    def _add_message(self, event: Event) -> None:
        run = self._run_of(event)
        role, text = event.payload.get("role"), value_to_text(event.payload.get("text"))
        if event.event_type == "message_end" and role == "assistant" and run is not None:
            self._add_reply(run, event, text)
        elif event.event_type == "input" and text and self._recorded.content:
            opened = self._open.get(run.attempt) if run is not None and run.attempt is not None else None
            if opened is None:
                self._inputs[event.session_key] = text
            elif "input.value" not in opened.attributes:
                opened.attributes |= otel.question_attributes(text)

    def _add_reply(self, run: AgentRun, event: Event, text: str) -> None:
        """Add the text of a reply to its model call, and to the agent run as its latest answer."""
        call = self._model_call_of_reply(run)
        reason = event.payload.get("stop_reason")
        reason = reason if isinstance(reason, str) else None
        if call is not None and reason:
            call.attributes |= otel.finish_attributes(reason)
        if not self._recorded.content:
            return
        if call is not None:
            call.attributes |= otel.reply_attributes(text, event.payload.get("tool_calls"), reason)
        agent = self._open.get(run.attempt) if run.attempt is not None else None
        if agent is not None and text:
            agent.attributes |= otel.answer_attributes(text, reason)

    def _model_call_of_reply(self, run: AgentRun) -> OtlpSpan | _OpenSpan | None:
        """Return the model call that a reply belongs to: the open one, else the last that ended."""
        request = run.oldest_call("model")
        if request is not None:
            return self._open.get(request)
        calls = [held.span for held in self._held.get(run, ()) if held.kind == "model"]
        return calls[-1] if calls else None

    def _run_of(self, event: Event) -> AgentRun | None:
        return self._pairer.runs.get(Scope(event.session_key, event.agent_run_id))

    def _events_around(self, event: Event) -> list[SpanEvent]:
        """Return the events of the span around an event that neither starts nor ends one."""
        run = self._run_of(event)
        if run is None:
            return self._run_events
        if event.tool_call_id is not None:
            call = run.first_call("tool", event.tool_call_id)
            if call is not None and call in self._open:
                return self._open[call].events
            same = [held for held in self._held.get(run, ()) if held.tool_call_id == label(event.tool_call_id)]
            if same:
                return same[-1].span.events
        if event.event_type == "message_end" and (model_call := self._model_call_of_reply(run)) is not None:
            return model_call.events
        if run.attempt is not None and run.attempt in self._open:
            return self._open[run.attempt].events
        agents = [held.span for held in self._held.get(run, ()) if held.kind == "agent"]
        return agents[-1].events if agents else self._run_events

    def _run_span(self) -> OtlpSpan:
        run = self._recorded.run
        created_us = us_of(ms_from_iso(run.timestamps.created_at) or 0)
        start_us = created_us if self._first_us is None else self._first_us
        end_us = max(start_us, self._last_us)
        attributes = otel.run_attributes(run, self._recorded.diagnosis)
        if self._exit_code is not None:
            attributes["process.exit.code"] = self._exit_code
        if failed := bool(self._exit_code):
            attributes["error.type"] = otel.error_type({"exit_code": self._exit_code or 0})
        return OtlpSpan(
            trace_id=self._trace_id,
            id=self._run_link.span_id,
            parent=None,
            name=f"run {run.run_id}",
            kind="internal",
            start_us=start_us,
            end_us=end_us,
            attributes=attributes,
            events=self._run_events + self._evaluations.remaining(start_us, end_us),
            failed=failed,
        )

    def _span_id(self, event_id: str) -> str:
        return _digest(8, self._trace_id, event_id)


def _facts(span: Span[Description]) -> dict[str, Fact]:
    return span.data.facts if span.data is not None else {}


def _name_and_attributes(span: Span[Description], opened: _OpenSpan, run: RunHead) -> tuple[str, Attributes]:
    facts = _facts(span)
    if span.kind == "agent":
        agent = str(facts.get("agent_id") or label(run.metadata.agent_id))
        return f"invoke_agent {agent}", otel.agent_attributes(facts, agent)
    if span.kind == "model":
        model = opened.requested_model or facts.get("model")
        return f"chat {model or ''}".rstrip(), otel.chat_attributes(facts, model)
    tool = span.data.name if span.data is not None else "unknown tool"
    return f"execute_tool {tool}", otel.tool_attributes(facts, tool)


def _digest(size: int, *parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=size).hexdigest()
