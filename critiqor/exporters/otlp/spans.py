"""What was recorded of a run as spans: the run, its agent runs, and in those model calls and tools.

Spans are told as soon as nothing more can be learnt of them: what an answer said, and what a lookup in memory found,
comes a moment after their end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from critiqor.exporters.otlp import conventions
from critiqor.exporters.otlp.conventions import EXCEPTION
from critiqor.exporters.otlp.evaluations import Evaluations
from critiqor.exporters.otlp.span import Attributes, Span, SpanEvent
from critiqor.exporters.texts import lines, words_of
from critiqor.model.event import Event, EventType, ms_from_iso
from critiqor.model.record import RunHead
from critiqor.model.report import Recorded
from critiqor.model.trace import Category, Fact, label, us_of
from critiqor.spans.open_work import AgentRun, Begun, outer_call_id
from critiqor.spans.pairing import NOT_SHOWN, Pairing

MOST_HELD = 256
"""Spans of one agent run that wait for what is still to be learnt of them."""
_BEGINNINGS = frozenset(("agent_start", "before_provider_request", EventType.TOOL_CALL))


class _Open:
    """What is known of a span before it ends."""

    __slots__ = ("asked_for", "attributes", "events", "parent", "session")

    def __init__(self, parent: str, session: str | None, asked_for: Fact | None) -> None:
        self.parent = parent
        self.session = session
        self.asked_for = asked_for
        """The model that is asked."""
        self.attributes: Attributes = {}
        """Its content, where that is wanted."""
        self.events: list[SpanEvent] = []


class _Held(NamedTuple):
    span: Span
    category: Category
    tool_call_id: Fact | None


def trace_id_of(run: RunHead) -> str:
    """32 hexadecimal digits: the same whenever the same run is exported, and another one for every other run."""
    return _digest(16, run.run_id, run.timestamps.created_at)


def spans(recorded: Recorded) -> Iterator[Span]:
    """The spans of a run, the one around all others last."""
    seen = _Spans(recorded)
    for event in recorded.events:
        seen.observe(event)
        yield from seen.told()
    seen.finish()
    yield from seen.told()


class _Spans(Pairing[Span]):
    def __init__(self, recorded: Recorded) -> None:
        super().__init__()
        self._recorded = recorded
        self._trace_id = trace_id_of(recorded.run)
        self._root = self._id_of("run")
        self._open: dict[Begun, _Open] = {}
        self._held: dict[AgentRun, list[_Held]] = {}
        self._attempts: dict[AgentRun, str] = {}
        """The span of the last attempt of each agent run."""
        self._spawned: dict[str, str] = {}
        """Sessions of subagents, and the span of the call that asked for them."""
        self._asked: dict[str | None, str] = {}
        """What was said to a session that no agent run has begun to answer."""
        self._evaluations = Evaluations(recorded)
        self._root_events: list[SpanEvent] = []
        self._touched: list[SpanEvent] | None = None
        """The events of the span that the event at hand began or ended."""
        self._first: int | None = None
        self._last = 0
        self._exit_code: Fact | None = None

    def observe(self, event: Event) -> None:
        self._touched = None
        super().observe(event)
        moment = ms_from_iso(event.timestamp)
        if moment is None or event.event_type in NOT_SHOWN:
            return
        at = us_of(moment)
        self._first = at if self._first is None else min(self._first, at)
        self._last = max(self._last, at)
        if evaluations := self._evaluations.begun_at(event.event_id, at):
            events = self._touched if self._touched is not None else self._around(event)
            events += evaluations

    def finish(self) -> None:
        super().finish()
        for run in list(self._held):
            self._release(run)
        self._told.append(self._around_all())

    def _run_of(self, event: Event, at: int) -> AgentRun:
        before = self._running.get(event.session_key)
        run = super()._run_of(event, at)
        if before is not None and before is not run:
            self._release(before)  # the session went on
        return run

    def _opens(self, run: AgentRun, begun: Begun, event: Event) -> None:
        if event.event_type not in _BEGINNINGS:
            return
        self._release(run)
        opened = self._opened(run, begun, event)
        self._touched = opened.events
        if self._recorded.content and (arguments := event.payload.get("arguments")) is not None:
            opened.attributes |= conventions.arguments_attributes(arguments)
        if event.event_type == "agent_start" and (asked := self._asked.pop(event.session_key, None)) is not None:
            opened.attributes |= conventions.question_attributes(asked)

    def _opened(self, run: AgentRun, begun: Begun, event: Event) -> _Open:
        span_id = self._id_of(str(begun.facts["event_id"]))
        if event.event_type in ("agent_start", "agent_end"):
            parent = self._spawned.get(event.session_key or "", self._root)
            self._attempts[run] = span_id
        else:
            outer = run.tools.first(outer_call_id(event))
            parent = self._id_of(str(outer.facts["event_id"])) if outer else self._attempts.get(run, self._root)
        opened = self._open[begun] = _Open(parent, event.session_key, begun.facts.get("model"))
        return opened

    def _closes(self, run: AgentRun, begun: Begun, event: Event) -> None:
        if event.event_type not in ("agent_end", EventType.TOKEN_USAGE, EventType.TOOL_OUTPUT):
            return
        opened = self._open.get(begun) or self._opened(run, begun, event)
        result = event.payload.get("result")
        for name in ("childSessionKey", "child_session_key"):
            if isinstance(child := _details(result).get(name), str):
                self._spawned[child] = self._id_of(str(begun.facts["event_id"]))
        error = None
        if self._recorded.content:
            error = lines(event.error, conventions.LONGEST_CONTENT) if event.error else None
            if result is not None:
                opened.attributes |= conventions.result_attributes(result)
        if event.status == "error":
            at = us_of(ms_from_iso(event.timestamp) or 0)
            kind = conventions.error_type(begun.facts)
            opened.events.append(SpanEvent(EXCEPTION, at, conventions.exception_attributes(kind, error)))

    def _over(
        self,
        run: AgentRun,
        begun: Begun,
        category: Category,
        depth: int,
        end: int | None,
        *,
        finished: bool = True,
        failed: bool = False,
    ) -> None:
        opened = self._open.pop(begun, None)
        if opened is None:
            return
        name, attributes = _described(category, begun, opened, self._recorded.run)
        attributes |= conventions.session_attributes(opened.session) | conventions.place_attributes(begun.facts)
        if failed:
            attributes["error.type"] = conventions.error_type(begun.facts)
        if not finished:
            attributes["critiqor.unfinished"] = True
        ended = self._last if end is None else end
        said = [event.attributes.get("exception.message") for event in opened.events if event.name == EXCEPTION]
        span = Span(
            id=self._id_of(str(begun.facts["event_id"])),
            parent=opened.parent,
            name=name,
            kind="client" if category == "model" else "internal",
            start_us=begun.start,
            end_us=max(begun.start, ended),
            attributes=attributes | opened.attributes,
            events=opened.events,
            failed=failed,
            message=next((text for text in said if isinstance(text, str)), None),
        )
        self._first = begun.start if self._first is None else min(self._first, begun.start)
        self._touched = span.events
        held = self._held.setdefault(run, [])
        held.append(_Held(span, category, begun.facts.get("tool_call_id")))
        if len(held) > MOST_HELD:
            self._release(run)

    def _release(self, run: AgentRun) -> None:
        self._told += [held.span for held in self._held.pop(run, ())]

    def _aside(self, event: Event, at: int) -> None:
        run = self._runs.get((event.session_key, event.agent_run_id))
        role, text = event.payload.get("role"), words_of(event.payload.get("text"))
        if event.event_type == "message_end" and role == "assistant" and run is not None:
            self._replied(run, event, text)
        elif event.event_type == "input" and text and self._recorded.content:
            opened = self._open.get(run.attempt) if run is not None and run.attempt is not None else None
            if opened is None:
                self._asked[event.session_key] = text
            elif "input.value" not in opened.attributes:
                opened.attributes |= conventions.question_attributes(text)

    def _replied(self, run: AgentRun, event: Event, text: str) -> None:
        """A model answered: the words belong to its call, and so far they are the agent's answer."""
        call = self._chat_of(run)
        reason = event.payload.get("stop_reason")
        reason = reason if isinstance(reason, str) else None
        if call is not None and reason:
            call.attributes |= conventions.finish_attributes(reason)
        if not self._recorded.content:
            return
        if call is not None:
            call.attributes |= conventions.reply_attributes(text, event.payload.get("tool_calls"), reason)
        agent = self._open.get(run.attempt) if run.attempt is not None else None
        if agent is not None and text:
            agent.attributes |= conventions.answer_attributes(text, reason)

    def _chat_of(self, run: AgentRun) -> Span | _Open | None:
        """The model call that words belong to: one that is under way, else the last that was."""
        request = run.requests.oldest()
        if request is not None:
            return self._open.get(request)
        chats = [held.span for held in self._held.get(run, ()) if held.category == "model"]
        return chats[-1] if chats else None

    def _around(self, event: Event) -> list[SpanEvent]:
        """The events of the span that an event is part of, which neither began nor ended one."""
        run = self._runs.get((event.session_key, event.agent_run_id))
        if run is None:
            return self._root_events
        if event.tool_call_id is not None:
            call = run.tools.first(event.tool_call_id)
            if call is not None and call in self._open:
                return self._open[call].events
            same = [held for held in self._held.get(run, ()) if held.tool_call_id == label(event.tool_call_id or "")]
            if same:
                return same[-1].span.events
        if event.event_type == "message_end" and (chat := self._chat_of(run)) is not None:
            return chat.events
        if run.attempt is not None and run.attempt in self._open:
            return self._open[run.attempt].events
        agents = [held.span for held in self._held.get(run, ()) if held.category == "agent"]
        return agents[-1].events if agents else self._root_events

    def _supervised(self, event: Event, at: int) -> None:
        if event.event_type == EventType.PROCESS_END:
            code = event.payload.get("exit_code")
            self._exit_code = code if isinstance(code, int) and not isinstance(code, bool) else None

    def _around_all(self) -> Span:
        run = self._recorded.run
        created = us_of(ms_from_iso(run.timestamps.created_at) or 0)
        start = created if self._first is None else self._first
        end = max(start, self._last)
        attributes = conventions.run_attributes(run, self._recorded.diagnosis)
        if self._exit_code is not None:
            attributes["process.exit.code"] = self._exit_code
        if failed := bool(self._exit_code):
            attributes["error.type"] = conventions.error_type({"exit_code": self._exit_code or 0})
        return Span(
            id=self._root,
            parent=None,
            name=f"run {run.run_id}",
            kind="internal",
            start_us=start,
            end_us=end,
            attributes=attributes,
            events=self._root_events + self._evaluations.left(start, end),
            failed=failed,
        )

    def _id_of(self, event_id: str) -> str:
        return _digest(8, self._trace_id, event_id)


def _described(category: Category, begun: Begun, opened: _Open, run: RunHead) -> tuple[str, Attributes]:
    facts = begun.facts
    if category == "agent":
        agent = str(facts.get("agent_id") or label(run.metadata.agent_id))
        return f"invoke_agent {agent}", conventions.agent_attributes(facts, agent)
    if category == "model":
        model = str(opened.asked_for or facts.get("model") or "")
        return f"chat {model}".rstrip(), conventions.chat_attributes(facts, opened.asked_for or facts.get("model"))
    return f"execute_tool {begun.name}", conventions.tool_attributes(facts, begun.name)


def _details(result: Any) -> dict[str, Any]:
    details = result.get("details") if isinstance(result, dict) else None
    return details if isinstance(details, dict) else {}


def _digest(size: int, *parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=size).hexdigest()
