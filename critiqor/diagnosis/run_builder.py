"""What the detectors look at: events joined into steps, each agent run by itself.

A call and its result become one step, a request to a model and its answer one model call. Texts are kept as
fingerprints and short excerpts, so that a long recording fits into memory and every event is looked at once.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict, deque

from critiqor.diagnosis.claims.assertions import Stated, admits_failure, claims_in, plans_work
from critiqor.diagnosis.signals.numbers import amount, price_of
from critiqor.diagnosis.signals.recall import news, telling_words
from critiqor.diagnosis.signals.secrets import secret_marks
from critiqor.diagnosis.signals.text import (
    canonical,
    cut_digests,
    error_kind,
    finds_nothing,
    fingerprint,
    is_echo,
    missed_names,
    plain_text,
    size_of,
    telling_line,
    without_clock,
)
from critiqor.diagnosis.signals.tools import answers_by_code, kind_of, runs_commands, runs_tests
from critiqor.model import Event, EventType, Scope
from critiqor.model.sanitize import excerpt, plain_line
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, MemoryLookup, Message, ModelCall, Moment, Plan, ToolCall
from critiqor.spans.late_usage import LateUsage, tells_usage

ARGUMENTS_KEPT = 800
OUTPUT_KEPT = 400
MOST_UNREAD = 8
"""Answers of memory that are watched at a time for being used."""


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
_TOLD_AT_MOMENTS = frozenset(
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
    told = {name: payload[name] for name in _TOLD_AT_MOMENTS & payload.keys()}
    return Moment(
        order=order,
        event_id=event.event_id,
        event_type=sys.intern(event.event_type),
        status=sys.intern(event.status),
        error=excerpt(event.error) if event.error else None,
        payload={name: value for name, value in told.items() if not isinstance(value, dict | list)} if told else told,
    )


class RunBuilder:
    """All agent runs of a recording, built event by event."""

    def __init__(self) -> None:
        self.runs: dict[Scope, AgentRun] = {}
        self._latest: AgentRun | None = None
        self._events = 0
        self._histories: dict[str | None, int] = {}
        self._untold = LateUsage[ModelCall]()
        self._unread: dict[Scope, list[tuple[MemoryLookup, frozenset[str]]]] = {}
        self._testing: set[tuple[str | None, str]] = set()
        """Tests that run in the background, by the session that OpenClaw gave them."""

    @property
    def sessions(self) -> list[list[AgentRun]]:
        """The agent runs that share a history, in the order in which they began."""
        sessions: dict[object, list[AgentRun]] = defaultdict(list)
        for scope, run in self.runs.items():
            sessions[scope if scope.session_key is None else (scope.session_key, run.history)].append(run)
        return list(sessions.values())

    def begin_anew(self, session_key: str | None) -> None:
        """A session forgets its history: what comes next knows nothing of what was before."""
        self._histories[session_key] = self._histories.get(session_key, 0) + 1

    def observe(self, event: Event) -> None:
        """Take in one event of an agent."""
        self._events += 1
        run = self._run_of(event)
        run.last_order = self._events
        run.first_time = run.first_time or event.timestamp
        run.last_time = event.timestamp
        run.last_id = event.event_id
        kind = event.event_type
        if kind == EventType.TOOL_CALL:
            self._call(run, event)
        elif kind == EventType.TOOL_OUTPUT:
            self._output(run, event)
        elif kind == EventType.TOKEN_USAGE:
            self._model_call(run, event)
        elif kind == EventType.MEMORY:
            self._lookup(run, event)
        elif kind in ("message_end", "input"):
            if tells_usage(event):
                self._model_call(run, event)
            self._message(run, event)
        elif kind == "before_provider_request":
            run.request = event.event_id
            run.budget = amount(event.payload.get("contextTokenBudget"))
        elif kind in _MOMENTS:
            self._moment(run, event)

    def _run_of(self, event: Event) -> AgentRun:
        latest = self._latest
        if latest is not None:
            scope = latest.scope
            if scope.agent_run_id == event.agent_run_id and scope.session_key == event.session_key:
                return latest
        scope = Scope(event.session_key, event.agent_run_id)
        run = self.runs.get(scope)
        if run is None:
            run = self.runs[scope] = AgentRun(scope, self._histories.get(event.session_key, 0))
        self._latest = run
        return run

    def _moment(self, run: AgentRun, event: Event) -> None:
        if event.event_type == "agent_end":
            run.request = None
            for call, usage in self._untold.told_at(event):
                if call is not None:
                    _price(call, usage)
            if isinstance(event.payload.get("text"), str):
                self._message(run, event)
            if event.status != "error":
                self._unread.pop(run.scope, None)  # one that failed may be tried again
        run.moments.append(_moment_of(event, self._events))

    def _call(self, run: AgentRun, event: Event) -> None:
        arguments = canonical(event.payload.get("arguments", event.payload.get("args")))
        step = self._step(run, event, arguments)
        run.open.setdefault(event.tool_call_id, deque()).append(step)
        parent = event.payload.get("parent_tool_call_id") or _parent_in(event.tool_call_id)
        # A call that passes another one on is still open while that one runs.
        if parent is not None and (wrappers := run.open.get(str(parent))):
            wrappers[-1].wraps = True
        if step.tool.lower() in _PLAN_TOOLS:
            run.plan = Plan(self._events, event.event_id, len(_PENDING.findall(arguments)))
        run.secrets += secret_marks(event, "arguments", arguments)
        self._read(run, arguments)

    def _step(self, run: AgentRun, event: Event, arguments: str) -> ToolCall:
        tool = sys.intern(plain_line(event.tool_name or "unknown"))
        same_call = fingerprint(tool, arguments)
        last = run.tool_calls[-1] if run.tool_calls else None
        if last is not None and last.same_call == same_call:
            # The longest recordings are loops: what repeats is kept once.
            kind, kept, same_call = last.kind, last.arguments, last.same_call
            is_test = last.is_test or (bool(self._testing) and kind is Kind.COMMAND and runs_tests(tool, arguments))
        else:
            kind, kept = kind_of(tool, arguments), arguments[:ARGUMENTS_KEPT]
            is_test = kind is Kind.COMMAND and runs_tests(tool, arguments)
        step = ToolCall(
            order=self._events,
            call=event.event_id,
            tool=tool,
            kind=kind,
            arguments=kept,
            same_call=same_call,
            is_test=is_test,
            model_call=run.model_calls[-1] if run.model_calls else None,
        )
        run.tool_calls.append(step)
        return step

    def _output(self, run: AgentRun, event: Event) -> None:
        waiting = run.open.get(event.tool_call_id)
        if waiting:
            step = waiting.popleft()
            if not waiting:
                del run.open[event.tool_call_id]
        else:
            step = self._step(run, event, "null")
        step.result = event.event_id
        text = plain_text(event.payload.get("result", event.payload.get("output")))
        step.output_size = size_of(event.payload.get("result"), text)
        cut = cut_digests(event.payload.get("result")) if step.output_size > len(text) else ""
        step.same_output = fingerprint(without_clock(text) + cut)
        step.duration_ms = amount(event.duration_ms) or 0
        step.failed = event.status == "error" and not _is_answer(step, event.error or "", text)
        if step.kind in _SEEKING:
            step.nothing_found = _nothing_found(step, text)
            step.missed = missed_names(text, step.arguments)
            step.echo = is_echo(text, step.arguments)
        if step.is_test or self._testing:
            step.is_test = self._tells_of_tests(run, step, text)
        if step.failed:
            step.error = excerpt(_reason(event.error or "", text), OUTPUT_KEPT)
            step.error_kind = _kind_of_failure(event.error or "", text)
        if step.failed or step.is_test or step.nothing_found or step.echo:
            # Tests end with their summary.
            step.output = excerpt(text[-OUTPUT_KEPT:] if step.is_test else text, OUTPUT_KEPT)
        if "spawn" in step.tool and (child := _CHILD.search(text)):
            run.children[child[0]] = step
        run.secrets += secret_marks(event, "output", f"{event.error}\n{text}" if event.error else text)
        run.answered = (event.tool_call_id, step)

    def _tells_of_tests(self, run: AgentRun, step: ToolCall, text: str) -> bool:
        """Whether tests ended here: those that go on in the background end where their process is asked for."""
        if step.is_test:
            if session := _IN_BACKGROUND.search(text):
                self._testing.add((run.scope.session_key, session[1]))
            return session is None
        asked = _SESSION.search(step.arguments) if step.kind is Kind.WAIT else None
        is_ours = asked is not None and (run.scope.session_key, asked[1]) in self._testing
        return is_ours and "still running" not in text

    def _model_call(self, run: AgentRun, event: Event) -> None:
        payload = event.payload
        budget = amount(payload.get("contextTokenBudget")) or run.budget or None
        run.request = run.budget = None
        call = ModelCall(
            order=self._events,
            event_id=event.event_id,
            failed=event.status == "error",
            error=excerpt(event.error) if event.error else None,
            category=_category(event),
            duration_ms=amount(event.duration_ms) or 0,
            first_byte_ms=amount(payload.get("timeToFirstByteMs")) or None,
            request_bytes=amount(payload.get("requestPayloadBytes")) or None,
            budget_tokens=budget,
        )
        usage = payload.get("usage")
        if isinstance(usage, dict):
            _price(call, usage)
        elif not call.failed:
            self._untold.add(event, call)
        run.model_calls.append(call)

    def _message(self, run: AgentRun, event: Event) -> None:
        payload = event.payload
        role = payload.get("role") or ("user" if event.event_type == "input" else "assistant")
        if role not in ("user", "assistant"):
            return  # OpenClaw notes things of its own as messages
        text = plain_text(payload.get("text"))
        is_user = role == "user"
        asks = bool(payload.get("tool_calls"))
        plans = not is_user and plans_work(text)
        stated = Stated() if is_user or asks else claims_in(text)
        run.messages.append(
            Message(
                order=self._events,
                event_id=event.event_id,
                is_user=is_user,
                text=excerpt(text),
                size=len(text),
                claims=stated.claims,
                deeds=stated.deeds,
                admits_failure=not is_user and admits_failure(text),
                plans_work=plans,
                ending=excerpt(text[-ENDING_KEPT:]) if plans else "",
                asks_user=not is_user and "?" in text,
                asks_tools=asks,
                stop_reason=str(payload["stop_reason"]) if payload.get("stop_reason") else None,
            )
        )
        if not is_user:
            run.secrets += secret_marks(event, "reply", text)
            self._read(run, text)

    def _lookup(self, run: AgentRun, event: Event) -> None:
        outcome = event.payload.get("lookup")
        if outcome in (None, "pending"):
            return
        what = excerpt(str(event.payload.get("query") or event.payload.get("key") or ""), 160)
        lookup = MemoryLookup(order=self._events, event_id=event.event_id, what=what, outcome=str(outcome))
        if run.answered is not None and run.answered[0] == event.tool_call_id is not None:
            lookup.step = run.answered[1]
        run.lookups.append(lookup)
        told = news(plain_text(event.payload.get("result")), what) if outcome == "found" else None
        if told:
            lookup.unread = True
            watched = self._unread.setdefault(run.scope, [])
            if len(watched) < MOST_UNREAD:
                watched.append((lookup, told))
            else:
                lookup.unread = False

    def _read(self, run: AgentRun, text: str) -> None:
        """What the agent says or passes on shows what it has read of the answers of its memory."""
        watched = self._unread.get(run.scope) if self._unread else None
        if not watched:
            return
        said = telling_words(text)
        for lookup, told in watched:
            if told & said:
                lookup.unread = False
        watched[:] = [(lookup, told) for lookup, told in watched if lookup.unread]


_SEEKING = frozenset((Kind.LOOKUP, Kind.COMMAND, Kind.WAIT))
_PLAN_TOOLS = frozenset(("update_plan", "progress_card", "todo_write", "todowrite", "todo", "plan"))
_PENDING = re.compile(r'"status":"(?:pending|in_progress|todo|not_started)"')
_CHILD = re.compile(r"agent:[\w.-]+:(?:subagent|acp):[\w.-]+")
ENDING_KEPT = 300
_IN_BACKGROUND = re.compile(r"still running \(session ([^\s,)]+)")
_SESSION = re.compile(r'"sessionId":"([^"]+)"')


def _price(call: ModelCall, usage: dict[str, object]) -> None:
    """What a model call used, as far as somebody can have meant it."""
    read = [amount(usage.get(name)) for name in ("input", "cacheRead", "cacheWrite")]
    if any(part is not None for part in read):
        call.input_tokens = sum(part or 0 for part in read)
        call.tokens = call.input_tokens + (amount(usage.get("output")) or 0)
    call.cost_usd = price_of(usage)


def _parent_in(tool_call_id: str | None) -> str | None:
    """The call that passed this one on: OpenClaw writes its id between two colons."""
    if tool_call_id is None or not tool_call_id.startswith("tool_search_code:"):
        return None
    parts = tool_call_id.split(":")
    return parts[1] if len(parts) >= 4 else None


_ONLY_A_CODE = ("exit code", "ended by")
_TRAILER = ("(no output", "(no new output", "Command exited", "(Command exited", "Process exited")


def _reason(error: str, output: str) -> str:
    """What to call a failure: a code with what the program said before it ended."""
    if not error:
        return output
    said = telling_line("\n".join(_said(output))) if error.startswith(_ONLY_A_CODE) else ""
    return f"{error}: {said}" if said else error


def _kind_of_failure(error: str, output: str) -> str:
    """An exit code alone says nothing: two commands that end with 1 can have failed for different reasons."""
    if not error.startswith(_ONLY_A_CODE):
        return error_kind(error)
    said = "\n".join(_said(output))
    return f"{error}: {error_kind(without_clock(said))}" if said else error


def _said(output: str) -> list[str]:
    """What a command printed, without what OpenClaw notes of its end."""
    return [line for line in output.splitlines() if line.strip() and not line.startswith(_TRAILER)]


_ENDED_ON_REQUEST = re.compile(r"^(?:Termination requested for|Killed) session|stopped by request")


def _is_answer(step: ToolCall, error: str, output: str) -> bool:
    """Whether what is reported as a failure is an answer: a search without a match, a process that was told to end."""
    if not runs_commands(step.tool):
        return False
    return answers_by_code(step.arguments, error) or _ENDED_ON_REQUEST.search(output) is not None


def _nothing_found(step: ToolCall, output: str) -> bool:
    """Whether it was to find something and did not; a command that has nothing to say has simply worked."""
    if step.kind is Kind.COMMAND:
        return finds_nothing(output, silence=False)
    return finds_nothing(output) or (len(output) < OUTPUT_KEPT and runs_commands(step.tool) and not _said(output))


def _category(event: Event) -> str:
    payload = event.payload
    names = ("errorCategory", "failure_kind", "failureKind", "failover_reason")
    told = " ".join(str(payload[name]) for name in names if payload.get(name))
    return f"{told} {event.error or ''}".strip()
