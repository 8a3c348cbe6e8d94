"""One agent run: its identity, its open spans, and its history for the detectors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from critiqor.model import Scope
from critiqor.spans.calls import MemoryLookup, Message, ModelCall, Moment, Plan, RunSpan, SecretMark, ToolCall
from critiqor.spans.span import Span, SpanKind

_STOPPED = re.compile(
    r"^(?:(?:the|this|agent|cli) )*(?:(?:run|request|operation|execution) )?(?:was |has been )?"
    r"(?:abort(?:ed)?|cancell?ed)\b"
    r"|\bsuperseded by\b",
    re.IGNORECASE,
)
CLOSED: list[Any] = []
"""What an agent run has of everything once it is closed; never changed."""
_BOUNDS = frozenset(("agent_start", "agent_end"))
_CUT_ORDER: tuple[SpanKind, ...] = ("memory", "tool", "model", "compaction")
"""Inner spans come before those around them."""
_HISTORY: dict[str, type[list[Any] | dict[str, Any]]] = {
    **dict.fromkeys(
        ("tool_calls", "model_calls", "messages", "lookups", "moments", "secrets", "spans", "_actions"), list
    ),
    "children": dict,
}


class AgentRun:
    """One agent run: one message and all it led to, with all attempts.

    `SpanPairer` keeps the open spans. The history is filled by the run builder of the diagnosis and stays empty for all
    other users.
    """

    __slots__ = (
        "_actions",
        "_actions_of",
        "_ended_badly",
        "_has_worked",
        "_open_calls",
        "action_count",
        "answered",
        "attempt",
        "children",
        "dropped",
        "ended_us",
        "failed_actions",
        "first_time",
        "history",
        "last_id",
        "last_order",
        "last_time",
        "lookups",
        "messages",
        "model_calls",
        "moments",
        "number",
        "plan",
        "reached_us",
        "request",
        "scope",
        "secrets",
        "side_effects",
        "spans",
        "superseded_us",
        "tool_calls",
        "turn",
    )

    tool_calls: list[ToolCall]
    model_calls: list[ModelCall]
    messages: list[Message]
    lookups: list[MemoryLookup]
    moments: list[Moment]
    """Starts, ends, retries, compactions, subagents, errors."""
    secrets: list[SecretMark]
    children: dict[str, ToolCall]
    """Session keys of subagents, with the tool calls that started them."""
    spans: list[RunSpan]
    """All of these in the order in which they began; a tool call may still lack its result."""
    _actions: list[ToolCall]

    def __init__(self, scope: Scope, history: int = 0) -> None:
        self.scope = scope

        self.attempt: Span[Any] | None = None
        """The open attempt."""
        self.turn: Span[Any] | None = None
        """The open turn."""
        self._open_calls: dict[SpanKind, dict[str | None, list[Span[Any]]]] = {}
        """Calls without an end by kind and call id. Ids can repeat: the first result belongs to the first call."""
        self.request: str | None = None
        """Event id of the newest model request, if no response and no end of the agent run followed it."""
        self.reached_us = 0
        """When the last span ended; microseconds since 1970, like the other times of spans."""
        self.ended_us: int | None = None
        """When the last attempt ended; None while an attempt is open, and if no end was recorded."""
        self.superseded_us: int | None = None
        """When its session went on with another agent run."""

        self.history = history
        """How often its session was reset before this agent run; a reset removes the history."""
        self.number = 0
        """Position of its first event in the recording."""
        self.action_count = 0
        """Number of tool calls that did something themselves, once they were counted."""
        self.side_effects = 0
        """Number of tool calls that act on the world outside, such as messages and payments."""
        self.failed_actions = 0
        """Number of these that failed: later lookups may show whether they took effect all the same."""
        self._has_worked = False
        """Whether a call or a message of it was dropped."""
        self._ended_badly = False
        """Whether its last attempt that ended had failed, if that end was dropped."""
        self.dropped = 0
        """Number of spans that were dropped, see `drop`."""
        self.plan: Plan | None = None
        self.answered: tuple[str | None, ToolCall] | None = None
        """The last tool call with a result, and its id: the outcome of a memory lookup is recorded right after it."""
        self.last_order = 0
        """Position of its last event in the recording; 0 if none was observed."""
        self.last_id = ""
        self.first_time = ""
        self.last_time = ""
        """Times of its first and its last event: UTC, ISO 8601, so they sort as text."""
        self._actions_of = 0
        """Number of tool calls from which `_actions` was made."""

    def add_call(self, call_id: str | None, call: Span[Any]) -> None:
        """Add a call that starts."""
        calls = self._open_calls.get(call.kind)
        if calls is None:
            self._open_calls[call.kind] = {call_id: [call]}
        elif call_id in calls:
            calls[call_id].append(call)
        else:
            calls[call_id] = [call]

    def take_call(self, kind: SpanKind, call_id: str | None) -> Span[Any] | None:
        """Remove and return the open call that a result with this id belongs to."""
        calls = self._open_calls.get(kind)
        if calls is None or call_id not in calls:
            return None
        same_id = calls[call_id]
        if len(same_id) > 1:
            return same_id.pop(0)
        del calls[call_id]
        if not calls:
            del self._open_calls[kind]
        return same_id[0]

    def take_oldest_call(self, kind: SpanKind) -> Span[Any] | None:
        """Remove and return the oldest open call."""
        calls = self._open_calls.get(kind)
        return self.take_call(kind, next(iter(calls))) if calls else None

    def oldest_call(self, kind: SpanKind) -> Span[Any] | None:
        """Return the oldest open call."""
        return next(self.open_calls(kind), None)

    def first_call(self, kind: SpanKind, call_id: str) -> Span[Any] | None:
        """Return the open call that the next result with this id belongs to."""
        calls = self._open_calls.get(kind)
        return calls[call_id][0] if calls and call_id in calls else None

    def newest_call(self, kind: SpanKind, call_id: str) -> Span[Any] | None:
        """Return the newest open call with this id: older ones may have been abandoned."""
        calls = self._open_calls.get(kind)
        return calls[call_id][-1] if calls and call_id in calls else None

    def open_calls(self, kind: SpanKind) -> Iterator[Span[Any]]:
        """Iterate over the open calls of one kind."""
        for same_id in self._open_calls.get(kind, {}).values():
            yield from same_id

    @property
    def has_open_calls(self) -> bool:
        """Whether a call of any kind has no result yet."""
        return bool(self._open_calls)

    def move_start(self, span: Span[Any], start_us: int) -> None:
        """Move the start of a span back to `start_us`, and that of the surrounding attempt and turn.

        It is not moved before the end of anything that had ended when its start was recorded.
        """
        start_us = max(start_us, span.floor_us)
        for outer in (self.attempt, self.turn):
            if outer is not None and span.seen_us >= outer.seen_us:
                outer.start_us = min(outer.start_us, max(start_us, outer.floor_us))
                start_us = max(start_us, outer.start_us)
        span.start_us = min(span.start_us, start_us)

    def cut_open_spans(self) -> Iterator[Span[Any]]:
        """Set the ends of all open spans: when the agent run ended or was superseded, else None. Inner ones first."""
        for kind in _CUT_ORDER:
            yield from map(self._cut, self.open_calls(kind))
        for span in (self.turn, self.attempt):
            if span is not None:
                yield self._cut(span)

    def _cut(self, span: Span[Any]) -> Span[Any]:
        ends = (end for end in (self.ended_us, self.superseded_us) if end is not None and end >= span.start_us)
        span.end_us = min(ends, default=None)
        return span

    def __getattr__(self, name: str) -> Any:
        """Create a part of the history when it is first used: most users have none, and a recording many runs."""
        kind = _HISTORY.get(name)
        if kind is None:
            raise AttributeError(name)
        made = kind()
        setattr(self, name, made)
        return made

    @property
    def actions(self) -> list[ToolCall]:
        """Tool calls that did something themselves, not through an inner call."""
        # An inner call marks its outer call as a wrapper, so both lists change together.
        if self._actions_of != len(self.tool_calls):
            self._actions = [call for call in self.tool_calls if not call.wraps]
            self._actions_of = len(self.tool_calls)
        return self._actions

    @property
    def final_reply(self) -> Message | None:
        """The last message to the user; None if the agent run ended without one."""
        for message in reversed(self.messages):
            if not message.is_user:
                return message if message.text and not message.asks_tools else None
        return None

    @property
    def last_end(self) -> Moment | None:
        """The end of the last attempt that ended: a failed attempt is often followed by another."""
        return next((moment for moment in reversed(self.moments) if moment.event_type == "agent_end"), None)

    @property
    def is_under_way(self) -> bool:
        """Whether it was still working when the recording ended."""
        for moment in reversed(self.moments):
            if moment.event_type in ("agent_start", "agent_end"):
                return moment.event_type == "agent_start"
        return self.request is not None or any(call.result is None for call in self.actions)

    @property
    def was_stopped(self) -> bool:
        """Whether it was ended on purpose: by the user, or by a newer message that replaced it."""
        end = self.last_end
        return end is not None and (end.payload.get("aborted") is True or bool(_STOPPED.search(end.error or "")))

    @property
    def is_for_user(self) -> bool:
        """Whether a user waits for its reply, which is not the case for heartbeats and scheduled jobs."""
        starts = self.moments_of("agent_start")
        return not starts or starts[-1].payload.get("trigger") not in ("heartbeat", "cron")

    @property
    def compactions(self) -> list[Moment]:
        """Compactions that completed and removed something."""
        ends = self.moments_of("compaction_end")
        return [
            end for end in ends if end.payload.get("completed") is not False and end.payload.get("compactedCount") != 0
        ]

    @property
    def has_history(self) -> bool:
        """Whether anything of it was recorded, apart from the fact that it existed."""
        return bool(self.spans or self.dropped)

    @property
    def has_worked(self) -> bool:
        """Whether anything is known about what it did, or at least that it failed."""
        if self._has_worked or self.request or self._has_calls_or_text:
            return True
        end = self.last_end
        return self._ended_badly if end is None else end.status == "error"

    @property
    def has_begun(self) -> bool:
        """Whether more of it was recorded than messages that users sent."""
        if self.spans is CLOSED or self.dropped:
            return True
        return any(not (isinstance(span, Message) and span.is_user) for span in self.spans)

    @property
    def _has_calls_or_text(self) -> bool:
        if self.tool_calls or self.model_calls or self.lookups:
            return True
        return any(message.size or message.asks_tools for message in self.messages)

    def drop(self, count: int) -> None:
        """Drop the first spans, which are not needed any more.

        Of the calls, messages and moments up to there, only those are kept that tell its state: calls without a result,
        the latest of each kind, starts and ends, and what is known of subagents.
        """
        if not count:
            return
        orders = [span.order for span in self.spans[:count] if not isinstance(span, SecretMark)]
        until = orders[-1] if orders else 0
        self.dropped += count
        self._has_worked = self._has_worked or self._has_calls_or_text
        del self.spans[:count]
        calls, requests, lookups, messages, moments = (
            *(self.tool_calls, self.model_calls, self.lookups),
            *(self.messages, self.moments),
        )
        self.tool_calls = [call for call in calls if call.order > until or call.result is None or call is calls[-1]]
        self._actions_of = -1
        self.model_calls = [call for call in requests if call.order > until or call is requests[-1]]
        self.lookups = [lookup for lookup in lookups if lookup.order > until or lookup is lookups[-1]]
        self.secrets = []
        reply = next((message for message in reversed(messages) if not message.is_user), None)
        self.messages = [each for each in messages if each.order > until or each is reply or each is messages[-1]]
        last = {moment.event_type: moment for moment in moments}
        self.moments = [
            moment
            for moment in moments
            if moment.order > until
            or moment.event_type.startswith("subagent_")
            or (moment.event_type in _BOUNDS and moment is last[moment.event_type])
        ]

    def close(self, *, keeps_state: bool = False, keeps_reply: bool = False) -> None:
        """Drop everything but what identifies it, because it is over.

        `keeps_state` also keeps its calls without a result, starts, ends and subagents; `keeps_reply` its last message.
        """
        self.drop(len(self.spans))
        self.spans, self.model_calls, self.lookups, self.secrets = CLOSED, CLOSED, CLOSED, CLOSED
        self.tool_calls = [call for call in self.tool_calls if call.result is None] if keeps_state else CLOSED
        self.messages = self.messages if keeps_reply else CLOSED
        self._actions, self._actions_of = CLOSED, -1
        self.plan = self.answered = None
        if not keeps_state:
            end = self.last_end
            self._ended_badly = self._ended_badly if end is None else end.status == "error"
            self.moments = CLOSED
            self.first_time = self.last_time = self.last_id = ""

    def reopen(self) -> None:
        """Go on after all, because an event arrived late."""
        self.spans, self.model_calls, self.lookups, self.secrets = [], [], [], []
        self.tool_calls, self.messages, self.moments = [*self.tool_calls], [*self.messages], [*self.moments]

    def moments_of(self, *event_types: str) -> list[Moment]:
        """Return the moments of these event types."""
        return [moment for moment in self.moments if moment.event_type in event_types]
