"""One agent run: everything it did, in order, and what can be asked about it."""

from __future__ import annotations

import re
from collections import deque

from critiqor.model import Scope
from critiqor.spans.calls import Kind, MemoryLookup, Message, ModelCall, Moment, Plan, SecretMark, ToolCall

_STOPPED = re.compile(
    r"^(?:(?:the|this|agent|cli) )*(?:(?:run|request|operation|execution) )?(?:was |has been )?"
    r"(?:abort(?:ed)?|cancell?ed)\b"
    r"|\bsuperseded by\b",
    re.IGNORECASE,
)


class AgentRun:
    """Everything that one agent run did, in order."""

    __slots__ = (
        "_actions",
        "answered",
        "budget",
        "children",
        "first_time",
        "history",
        "last_id",
        "last_order",
        "last_time",
        "lookups",
        "messages",
        "model_calls",
        "moments",
        "open",
        "plan",
        "request",
        "scope",
        "secrets",
        "tool_calls",
    )

    def __init__(self, scope: Scope, history: int = 0) -> None:
        self.scope = scope
        self.history = history
        """How often its session had been begun anew before."""
        self.tool_calls: list[ToolCall] = []
        self.model_calls: list[ModelCall] = []
        self.messages: list[Message] = []
        self.lookups: list[MemoryLookup] = []
        self.moments: list[Moment] = []
        """Starts, ends, retries, compactions, subagents, errors."""
        self.secrets: list[SecretMark] = []
        self.children: dict[str, ToolCall] = {}
        """Sessions of subagents, with the steps that started them."""
        self.plan: Plan | None = None
        self.request: str | None = None
        """The event of a request to a model that was not answered yet."""
        self.budget: int | None = None
        """What that request may hold, where its answer does not tell."""
        self.open: dict[str | None, deque[ToolCall]] = {}
        """Calls without a result so far, by the id of the call; ids can repeat."""
        self.answered: tuple[str | None, ToolCall] | None = None
        """The last result with the id of its call: a lookup in memory is told once more right after it."""
        self.last_order = 0
        self.last_id = ""
        self.first_time = ""
        self.last_time = ""
        """UTC, ISO 8601: they sort as texts."""
        self._actions: list[ToolCall] | None = None

    @property
    def actions(self) -> list[ToolCall]:
        """The steps that did something themselves; to be asked for when all is observed."""
        if self._actions is None:
            self._actions = [step for step in self.tool_calls if not step.wraps]
        return self._actions

    @property
    def final_reply(self) -> Message | None:
        """The last thing that the agent said to its user, or None where it ended without a word."""
        for message in reversed(self.messages):
            if not message.is_user:
                return message if message.text and not message.asks_tools else None
        return None

    @property
    def last_end(self) -> Moment | None:
        """The last end of the agent run: a failed attempt is often followed by another."""
        return next((moment for moment in reversed(self.moments) if moment.event_type == "agent_end"), None)

    @property
    def is_under_way(self) -> bool:
        """Whether it had begun and not ended when the recording did."""
        for moment in reversed(self.moments):
            if moment.event_type in ("agent_start", "agent_end"):
                return moment.event_type == "agent_start"
        return self.request is not None or any(step.result is None for step in self.actions)

    @property
    def was_stopped(self) -> bool:
        """Whether somebody ended it on purpose: the user, or a newer message that took its place."""
        end = self.last_end
        return end is not None and (end.payload.get("aborted") is True or bool(_STOPPED.search(end.error or "")))

    @property
    def is_for_user(self) -> bool:
        """Whether a person waits for its answer; heartbeats and timed jobs do their rounds by themselves."""
        starts = self.moments_of("agent_start")
        return not starts or starts[-1].payload.get("trigger") not in ("heartbeat", "cron")

    @property
    def chapters(self) -> list[list[ToolCall]]:
        """What it did between words of the user and compactions: to look again after one of these has its reasons."""
        turns = [message.order for message in self.messages if message.is_user]
        breaks = sorted([*turns, *(moment.order for moment in self.moments_of("compaction_end"))], reverse=True)
        chapters: list[list[ToolCall]] = [[]]
        for step in self.actions:
            if breaks and step.order > breaks[-1]:
                chapters.append([])
                while breaks and step.order > breaks[-1]:
                    breaks.pop()
            if step.result and step.kind is not Kind.THOUGHT:
                chapters[-1].append(step)
        return chapters

    @property
    def compactions(self) -> list[Moment]:
        """Those that were carried out and removed something."""
        ends = self.moments_of("compaction_end")
        return [
            end for end in ends if end.payload.get("completed") is not False and end.payload.get("compactedCount") != 0
        ]

    def moments_of(self, *event_types: str) -> list[Moment]:
        return [moment for moment in self.moments if moment.event_type in event_types]
