"""Build the agent runs for the detectors, event by event.

A call and its result become one tool call, a request and its response one model call. Texts are kept as fingerprints
and short excerpts, so that a long recording fits into memory and each event is processed once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from critiqor.diagnosis.call_descriptions import (
    MAX_LISTED,
    MAX_OUTPUT,
    describe_answer,
    describe_failure,
    describe_search,
    exit_code_of,
    is_expected_failure,
)
from critiqor.diagnosis.claims.claim_checker import ClaimChecker
from critiqor.diagnosis.collections.fingerprints import canonical_json, encoded, fingerprint
from critiqor.diagnosis.loops.hits import UnreadHits
from critiqor.diagnosis.prices.price import price_of
from critiqor.diagnosis.runs.request_log import RequestLog
from critiqor.diagnosis.runs.tool_catalog import SEARCH_TOOLS, ToolCatalog
from critiqor.diagnosis.signals.admissions import admits_failure
from critiqor.diagnosis.signals.compactions import is_compaction, summarizes_history
from critiqor.diagnosis.signals.language_coverage import LanguageCoverage
from critiqor.diagnosis.signals.noise import NoiseFilter
from critiqor.diagnosis.signals.outputs import cut_digests, cut_size
from critiqor.diagnosis.signals.repetition import orders_repetition, tells_repetition
from critiqor.diagnosis.signals.secrets import REDACTION_MARK, secret_marks
from critiqor.diagnosis.signals.text import distinctive_words, new_words, plain_text
from critiqor.diagnosis.signals.tool_calls import does_nothing, kind_of, runs_commands, runs_tests
from critiqor.model import Event, EventType, Scope
from critiqor.model.sanitize import excerpt, sanitize_line
from critiqor.model.usage import amount
from critiqor.spans.agent_run import CLOSED, AgentRun
from critiqor.spans.calls import Kind, MemoryLookup, Message, ModelCall, Moment, Plan, ToolCall, is_own_call
from critiqor.spans.hidden_calls import HiddenCalls
from critiqor.spans.late_usage import LateUsage, has_usage
from critiqor.spans.pairing import SpanPairer
from critiqor.spans.span import Span
from critiqor.spans.tool_results import CHILD_SESSION

MAX_ARGUMENTS = 800
"""Maximum number of characters that are kept of arguments."""
MAX_BACKGROUND_TESTS = 1024
"""Maximum number of test runs in the background whose end is awaited."""
MAX_UNREAD = 8
"""Maximum number of unread memory results that are tracked per agent run."""


_MOMENTS = frozenset(
    (
        "agent_start",
        "agent_end",
        "provider_retry",
        "compaction_start",
        "compaction_end",
        "subagent_spawned",
        "subagent_ended",
        "error",
    )
)
_MOMENT_FACTS = frozenset(
    (
        "aborted",
        "childRunId",
        "childSessionKey",
        "child_session_key",
        "compactedCount",
        "completed",
        "outcome",
        "reason",
        "runId",
        "status",
        "success",
        "targetSessionKey",
        "trigger",
    )
)


def _moment_of(event: Event, order: int) -> Moment:
    payload = event.payload
    facts = {name: payload[name] for name in _MOMENT_FACTS & payload.keys()}
    return Moment(
        order=order,
        event_id=event.event_id,
        event_type=sys.intern(event.event_type),
        status=sys.intern(event.status),
        error=excerpt(event.error) if event.error else None,
        payload={name: value for name, value in facts.items() if not isinstance(value, dict | list)}
        if facts
        else facts,
    )


class _Request(msgspec.Struct, frozen=True, gc=False):
    """A model request while its response is awaited."""

    context_budget: int | None
    """Maximum number of tokens of the context."""


class _OwnCall(msgspec.Struct, frozen=True, gc=False):
    """A call of Critiqor's own tools, from which nothing is concluded."""


class _WaitingCall(msgspec.Struct, frozen=True, gc=False):
    """A model call whose usage may arrive with the end of its agent run."""

    call: ModelCall
    provider: object
    model: object


class _UnreadLookup(NamedTuple):
    """A memory lookup whose result the agent has not used yet."""

    lookup: MemoryLookup
    words: frozenset[str]
    """Words of the result whose use shows that it was read."""


_RunSpan = Span[ToolCall | _Request | _OwnCall]
_Adder = Callable[[AgentRun, Event, _RunSpan | None], None]


class RunBuilder:
    """Builds all agent runs of a recording."""

    def __init__(self) -> None:
        self._pairer = SpanPairer[ToolCall | _Request | _OwnCall](("agent", "model", "tool"))
        self.runs: dict[Scope, AgentRun] = self._pairer.runs
        """The agent runs, in order of start."""
        self.begun = 0
        """Number of agent runs so far, also of those that are forgotten."""
        self.events = 0
        """Number of events."""
        self.latest: AgentRun | None = None
        """The agent run of the last event; None before the first event."""
        self._resets: dict[str | None, int] = {}
        """Number of times that each session has lost its history."""
        self._late_usage = LateUsage[_WaitingCall]()
        self._hidden_calls = HiddenCalls()
        self.requests = RequestLog()
        self.tools = ToolCatalog()
        self.languages = LanguageCoverage()
        self._unread: dict[Scope, list[_UnreadLookup]] = {}
        self._answers = NoiseFilter()
        self._unread_hits = UnreadHits()
        self.claims = ClaimChecker()
        self._background_tests: set[tuple[str | None, str]] = set()
        """Tests that run in the background: session key, and OpenClaw's id of the process."""
        self._adders: dict[str, _Adder] = {
            **dict.fromkeys(_MOMENTS, self._add_moment),
            EventType.TOOL_CALL: self._start_tool_call,
            EventType.TOOL_OUTPUT: self._end_tool_call,
            "before_provider_request": self._start_model_call,
            EventType.TOKEN_USAGE: self._end_model_call,
            EventType.MEMORY: self._add_lookup,
            "message_end": self._add_answer,
            "input": self._add_answer,
        }
        """What adds an event of each type to its agent run. Of all others, such as the turns, only the time is kept."""

    def current_run(self, session_key: str | None) -> AgentRun | None:
        """Return the newest agent run of a session."""
        return self._pairer.current_run(session_key)

    def forget(self, run: AgentRun) -> None:
        """Forget what is only needed while an agent run goes on."""
        self._unread.pop(run.scope, None)

    def remove(self, run: AgentRun) -> None:
        """Remove an agent run; if it goes on after all, the rest is one of its own."""
        self._pairer.forget(run)

    def reset_session(self, session_key: str | None) -> None:
        """Note that a session lost its history: later agent runs know nothing of earlier ones."""
        self._resets[session_key] = self._resets.get(session_key, 0) + 1

    def observe(self, event: Event) -> None:
        """Add one event of an agent."""
        self.events = order = self.events + 1
        run = self.latest = self._pairer.run_of(event)
        if run.last_order == 0:
            run.history = self._resets.get(event.session_key, 0)
            run.number = order
            self.begun += 1
        elif run.spans is CLOSED:
            run.reopen()
        run.last_order = order
        timestamp = run.last_time = event.timestamp
        if not run.first_time:
            run.first_time = timestamp
        run.last_id = event.event_id
        kind = event.event_type
        add = self._adders.get(kind)
        if add is not None:
            pair = self._pairer.handlers.get(kind)
            pairing = pair(run, event, 0) if pair is not None else None
            add(run, event, None if pairing is None else pairing.opened or pairing.closed)

    def _add_answer(self, run: AgentRun, event: Event, _span: _RunSpan | None) -> None:
        if has_usage(event):
            run.request = None
            self._add_model_call(run, event, None)
        self._add_message(run, event)

    def _start_model_call(self, run: AgentRun, event: Event, span: _RunSpan | None) -> None:
        if span is not None:
            span.data = _Request(amount(event.payload.get("contextTokenBudget")))
        self._hidden_calls.observe_model_call(event)
        self.tools.observe_request(event)

    def _end_model_call(self, run: AgentRun, event: Event, span: _RunSpan | None) -> None:
        request = span.data if span is not None else None
        self._add_model_call(run, event, request if isinstance(request, _Request) else None)

    def _add_moment(self, run: AgentRun, event: Event, _span: _RunSpan | None) -> None:
        if event.event_type == "agent_end":
            for waiting, usage in self._late_usage.take(event):
                if waiting is not None:
                    _set_usage(waiting, usage)
            if isinstance(event.payload.get("text"), str):
                self._add_message(run, event)
            if event.status != "error":
                self._unread.pop(run.scope, None)  # a failed attempt may be followed by another
        moment = _moment_of(event, self.events)
        if event.event_type == "agent_end" and self._hidden_calls.end_attempt(event):
            moment.payload["hidden_model_calls"] = True
        run.moments.append(moment)
        run.spans.append(moment)
        if event.event_type == "agent_end":
            self.claims.end_run(run, moment)
        elif is_compaction(moment):
            self.claims.add_compaction(run, moment.order)

    def _start_tool_call(self, run: AgentRun, event: Event, span: _RunSpan | None) -> None:
        payload = event.payload
        given = payload["arguments"] if "arguments" in payload else payload.get("args")
        if span is not None and span.outer is not None and isinstance(span.outer.data, ToolCall):
            span.outer.data.wraps = True
        if is_own_call(event.tool_name, given):
            if span is not None:
                span.data = _OwnCall()
            return
        arguments = canonical_json(given)
        call = self._add_tool_call(run, event, arguments)
        self.claims.start_call(run, call, arguments)
        if span is not None:
            span.data = call
        if call.tool.lower() in _PLAN_TOOLS:
            run.plan = Plan(self.events, event.event_id, len(_PENDING.findall(arguments)))
            run.spans.append(run.plan)
        _add_secrets(run, event, "arguments", arguments)
        self._mark_read(run, arguments)

    def _add_tool_call(self, run: AgentRun, event: Event, arguments: str) -> ToolCall:
        tool = sys.intern(sanitize_line(event.tool_name or "unknown"))
        # The null command ignores its arguments, so all of its calls are the same.
        same_call = fingerprint(tool, ":" if does_nothing(tool, arguments) else arguments)
        last = run.tool_calls[-1] if run.tool_calls else None
        if last is not None and last.same_call == same_call:
            # The longest recordings are loops: equal values are kept once.
            kind, kept, same_call = last.kind, last.arguments, last.same_call
            may_be_test = bool(self._background_tests) and kind is Kind.COMMAND
            is_test = last.is_test or (may_be_test and runs_tests(tool, arguments))
        else:
            kind, kept = kind_of(tool, arguments), arguments[:MAX_ARGUMENTS]
            is_test = kind is Kind.COMMAND and runs_tests(tool, arguments)
        call = ToolCall(
            order=self.events,
            call=event.event_id,
            tool=tool,
            kind=kind,
            arguments=kept,
            same_call=same_call,
            is_test=is_test,
            model_call=run.model_calls[-1] if run.model_calls else None,
        )
        run.tool_calls.append(call)
        run.spans.append(call)
        run.side_effects += kind is Kind.ACTION
        return call

    def _end_tool_call(self, run: AgentRun, event: Event, span: _RunSpan | None) -> None:
        started = span.data if span is not None else None
        if isinstance(started, _OwnCall) or is_own_call(event.tool_name):
            return
        call = started if isinstance(started, ToolCall) else self._add_tool_call(run, event, "null")
        call.result = event.event_id
        payload = event.payload
        result = payload.get("result")
        text = plain_text(result if "result" in payload else payload.get("output"))
        data = encoded(text)
        call.output_size = len(data) + cut_size(result)
        cut = cut_digests(result) if call.output_size > len(data) else ""
        session = run.scope.session_key or run.scope.agent_run_id
        measures = call.kind is not Kind.LOOKUP or runs_commands(call.tool)
        call.same_output = self._answers.mark((session, call.same_call), text, cut, measures=measures)
        call.duration_ms = amount(event.duration_ms) or 0
        exit_code = exit_code_of(event)
        call.failed = event.status == "error" and not is_expected_failure(call.tool, call.arguments, exit_code, text)
        if not call.failed:
            self.tools.add_call(call.tool, is_inner=span is not None and span.outer is not None)
            if call.tool in SEARCH_TOOLS:
                self.tools.add_listed(text)
        describe_search(call, text)
        describe_answer(call, text)
        if call.listing is not None:
            self._unread_hits.add(call.listing)
        if call.is_test or self._background_tests:
            call.is_test = self._shows_test_result(run, call, text)
        describe_failure(call, event.error or "", text)
        if call.failed or call.is_test or call.nothing_found or call.echo:
            # Tests print their summary last.
            call.output = excerpt(text[-MAX_OUTPUT:] if call.is_test else text, MAX_OUTPUT)
        elif run.failed_actions and call.kind is Kind.LOOKUP and len(text) <= MAX_LISTED:
            call.output = text
        run.failed_actions += call.failed and call.kind is Kind.ACTION
        if "spawn" in call.tool and (child := CHILD_SESSION.search(text)):
            run.children[child[0]] = call
        _add_secrets(run, event, "output", f"{event.error}\n{text}" if event.error else text)
        run.answered = (event.tool_call_id, call)
        self.claims.end_call(run, call, text, exit_code, is_whole=call.output_size == len(data))

    def _shows_test_result(self, run: AgentRun, call: ToolCall, text: str) -> bool:
        """Return whether tests ended with this call. Background tests end with a call that polls their process."""
        if call.is_test:
            if process := _IN_BACKGROUND.search(text):
                if len(self._background_tests) >= MAX_BACKGROUND_TESTS:
                    self._background_tests.clear()
                self._background_tests.add((run.scope.session_key, process[1]))
            return process is None
        polled = _PROCESS_ID.search(call.arguments) if call.kind is Kind.WAIT else None
        is_test = polled is not None and (run.scope.session_key, polled[1]) in self._background_tests
        return is_test and "still running" not in text

    def _add_model_call(self, run: AgentRun, event: Event, request: _Request | None) -> None:
        self._hidden_calls.observe_model_call(event)
        payload = event.payload
        requested_budget = request.context_budget if request is not None else None
        call = ModelCall(
            order=self.events,
            event_id=event.event_id,
            failed=event.status == "error",
            error=excerpt(event.error) if event.error else None,
            category=_error_category(event),
            duration_ms=amount(event.duration_ms) or 0,
            first_byte_ms=amount(payload.get("timeToFirstByteMs")) or None,
            request_bytes=amount(payload.get("requestPayloadBytes")) or None,
            budget_tokens=amount(payload.get("contextTokenBudget")) or requested_budget or None,
        )
        usage = payload.get("usage")
        waiting = _WaitingCall(call, payload.get("provider"), payload.get("model"))
        if isinstance(usage, dict):
            _set_usage(waiting, usage)
        elif not call.failed:
            self._late_usage.add(event, waiting)
        run.model_calls.append(call)
        run.spans.append(call)
        self.requests.add(call)

    def _add_message(self, run: AgentRun, event: Event) -> None:
        payload = event.payload
        role = payload.get("role") or ("user" if event.event_type == "input" else "assistant")
        if role not in ("user", "assistant"):
            return  # OpenClaw also saves its own notes as messages
        text = plain_text(payload.get("text"))
        is_user = role == "user"
        if summarizes_history(text, by_user=is_user):
            run.moments.append(msgspec.structs.replace(_moment_of(event, self.events), event_type="compaction_end"))
            run.spans.append(run.moments[-1])
            self.claims.add_compaction(run, self.events)
            return
        asks_tools = bool(payload.get("tool_calls"))
        run.messages.append(
            Message(
                order=self.events,
                event_id=event.event_id,
                is_user=is_user,
                text=excerpt(text),
                size=len(text),
                admits_failure=not is_user and admits_failure(text),
                # It is only of interest once something may have been done twice.
                tells_repetition=not is_user and run.side_effects > 1 and tells_repetition(text),
                orders_repetition=is_user and orders_repetition(text),
                asks_user=not is_user and "?" in text,
                asks_tools=asks_tools,
                stop_reason=str(payload["stop_reason"]) if payload.get("stop_reason") else None,
            )
        )
        run.spans.append(run.messages[-1])
        self.claims.add_message(run, event, text, self.events, is_user=is_user)
        if not is_user:
            if event.event_type == "message_end" and not asks_tools:
                self.languages.add_answer(text)
            _add_secrets(run, event, "reply", text)
            self._mark_read(run, text)

    def _add_lookup(self, run: AgentRun, event: Event, _span: _RunSpan | None) -> None:
        outcome = event.payload.get("lookup")
        if outcome in (None, "pending"):
            return
        what = excerpt(str(event.payload.get("query") or event.payload.get("key") or ""), 160)
        lookup = MemoryLookup(order=self.events, event_id=event.event_id, what=what, outcome=str(outcome))
        if run.answered is not None and run.answered[0] == event.tool_call_id is not None:
            lookup.tool_call = run.answered[1]
        run.lookups.append(lookup)
        run.spans.append(lookup)
        words = new_words(plain_text(event.payload.get("result")), what) if outcome == "found" else None
        if words:
            unread = self._unread.setdefault(run.scope, [])
            lookup.unread = len(unread) < MAX_UNREAD
            if lookup.unread:
                unread.append(_UnreadLookup(lookup, words))

    def _mark_read(self, run: AgentRun, text: str) -> None:
        """Mark memory lookups as read if a text of the agent contains words of their results."""
        unread = self._unread.get(run.scope) if self._unread else None
        if not unread:
            return
        used = distinctive_words(text)
        for lookup, words in unread:
            if words & used:
                lookup.unread = False
        unread[:] = [entry for entry in unread if entry.lookup.unread]


_PLAN_TOOLS = frozenset(("update_plan", "progress_card", "todo_write", "todowrite", "todo", "plan"))
_PENDING = re.compile(r'"status":"(?:pending|in_progress|todo|not_started)"')
_IN_BACKGROUND = re.compile(r"still running \(session ([^\s,)]+)")
_PROCESS_ID = re.compile(r'"sessionId":"([^"]+)"')


def _add_secrets(run: AgentRun, event: Event, place: str, text: str) -> None:
    if REDACTION_MARK in text and (marks := secret_marks(event, place, text)):
        run.secrets += marks
        run.spans += marks


def _set_usage(waiting: _WaitingCall, usage: dict[str, object]) -> None:
    """Set tokens and cost of a model call; implausible numbers are ignored."""
    call = waiting.call
    fresh, cached, written = amount(usage.get("input")), amount(usage.get("cacheRead")), amount(usage.get("cacheWrite"))
    if fresh is not None or cached is not None or written is not None:
        call.input_tokens = (fresh or 0) + (cached or 0) + (written or 0)
        call.tokens = call.input_tokens + (amount(usage.get("output")) or 0)
    price = price_of(usage, waiting.provider, waiting.model)
    if price is not None:
        call.cost_usd, call.cost_is_estimated = price


_CATEGORY_NAMES = ("errorCategory", "failure_kind", "failureKind", "failover_reason")
_CATEGORIES = frozenset(_CATEGORY_NAMES)


def _error_category(event: Event) -> str:
    payload = event.payload
    category = ""
    if not _CATEGORIES.isdisjoint(payload):
        category = " ".join(str(payload[name]) for name in _CATEGORY_NAMES if payload.get(name))
    return f"{category} {event.error or ''}".strip() if category or event.error else ""
