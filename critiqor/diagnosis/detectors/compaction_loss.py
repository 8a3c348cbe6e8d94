"""`compaction_loss`: what was known before a compaction is requested again after it, or acted against."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

import msgspec

from critiqor.diagnosis.detector import SessionDetector
from critiqor.diagnosis.detectors.context_pollution import is_compaction
from critiqor.diagnosis.draft import Draft, cite
from critiqor.diagnosis.signals.text import likeness
from critiqor.model import CausalStep, Scope
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Message, Moment, ToolCall

TYPE = "compaction_loss"
MEANING = "the agent requests again what it knew before a compaction"
REDONE = 3
"""Lookups that were made before and returned the same result again."""
SAME_WORDS = 0.8
"""Share of common words from which two messages say the same."""
MAX_COMPACTIONS = 3
"""The last ones of a session are looked at."""
MAX_MESSAGES = 50
"""Messages on either side of a compaction that are compared."""
MAX_RULES = 20
"""Things that a user forbids."""
MIN_CHARACTERS = 20
"""A shorter message ("go on") is often repeated."""
_FORBIDDEN = re.compile(
    r"\b(?:never|do not|don't|must not)\s+(?:ever\s+)?"
    r"(?P<deed>use|run|call|open|read|touch|edit|change|modify|delete|remove|overwrite|write to|push to|deploy to)\s+"
    r"(?:the |file |folder |command )?[`\"']?(?P<what>[\w.-]*[./_-][\w./-]*\w|(?<=[`\"'])[\w -]{4,})",
    re.IGNORECASE,
)
_READING = frozenset(("use", "run", "call", "open", "read"))

_order = attrgetter("order")


class _Loss(msgspec.Struct, kw_only=True):
    """What shows that something was lost."""

    compaction: Moment
    what: str
    about: tuple[str, ...]
    known: CausalStep
    """Where it was still known."""
    calls: list[ToolCall] = []
    messages: list[Message] = []
    contradicts: bool = False
    """It is not requested again, but acted against."""


class _Said(NamedTuple):
    """A message and its agent run."""

    order: int
    message: Message
    run: AgentRun


class _Rule:
    """Something that the user forbade."""

    __slots__ = ("action", "broken", "message", "seen", "text", "what")

    def __init__(self, message: Message, found: re.Match[str]) -> None:
        self.message = message
        self.action = found["deed"].lower()
        self.what = found["what"]
        self.text = excerpt(found[0], 80)
        self.broken: ToolCall | None = None
        """The first call that did it all the same."""
        self.seen = -1
        """Order of the last call that was looked at."""

    def first_breach(self, calls: list[ToolCall]) -> ToolCall | None:
        """Return the first call after the message that did what it forbids; each call is looked at once."""
        if self.broken is None:
            start = bisect_right(calls, max(self.seen, self.message.order), key=_order)
            self.broken = next((call for call in calls[start:] if self._is_broken_by(call)), None)
            self.seen = calls[-1].order if calls else -1
        return self.broken

    def _is_broken_by(self, call: ToolCall) -> bool:
        if self.what not in call.arguments and self.what != call.tool:
            return False
        return self.action in _READING or call.kind in (Kind.CHANGE, Kind.ACTION, Kind.COMMAND)


class _Seen(msgspec.Struct, gc=False):
    """How often a call with the same result was made: the first one, and when it came again."""

    first: ToolCall
    second: int | None = None


class _After:
    """What happened after one compaction."""

    def __init__(self, compaction: Moment) -> None:
        self.compaction = compaction
        self.seen = compaction.order
        """Order of the last call that was looked at."""
        self.redone: dict[tuple[bytes, bytes], ToolCall] = {}
        self.is_changed = False
        """Whether a call has changed something since: other results may be expected."""
        self.earlier: list[Message] | None = None
        """The last messages before it; None while they are not needed."""
        self.heard = compaction.order
        """Order of the last message that was compared with them."""
        self.compared = 0
        self.repeated: Message | None = None
        """The first message that repeats an earlier one."""
        self.repeats: Message | None = None
        """That earlier one."""


class CompactionLoss(SessionDetector[ToolCall | Message | Moment]):
    """Compares what came after the last compactions of a session with what came before them.

    A compaction happens within an agent run or between two of them. The calls and messages of the session are kept,
    because any of them may come again; `findings` looks only at those that are new since it was last called.
    """

    OBSERVES = (ToolCall, Message, Moment)

    def __init__(self) -> None:
        self._runs: list[AgentRun] = []
        self._calls: list[ToolCall] = []
        self._messages: list[_Said] = []
        self._seen: dict[tuple[bytes, bytes], _Seen] = {}
        self._rules: list[tuple[_Rule, AgentRun]] = []
        self._after: list[_After] = []
        self._scheduled: set[AgentRun] = set()
        """Heartbeats and scheduled jobs, whose messages nobody wrote."""
        self._is_sorted = True

    @classmethod
    def is_needed(cls, runs: list[AgentRun]) -> bool:
        return any(is_compaction(moment) for run in runs for moment in run.moments)

    def begin_run(self, run: AgentRun) -> None:
        self._runs.append(run)

    def observe(self, span: ToolCall | Message | Moment, /) -> None:
        if isinstance(span, ToolCall):
            self._is_sorted &= not self._calls or self._calls[-1].order < span.order
            self._calls.append(span)
            self._see(span)
        elif isinstance(span, Message):
            self._is_sorted &= not self._messages or self._messages[-1].order < span.order
            self._messages.append(_Said(span.order, span, self._runs[-1]))
            if span.is_user:
                self._rules += [(_Rule(span, found), self._runs[-1]) for found in _FORBIDDEN.finditer(span.text)]
        elif is_compaction(span):
            self._after.append(_After(span))
        elif span.event_type == "agent_start":
            self._start(self._runs[-1], is_scheduled=span.payload.get("trigger") in ("heartbeat", "cron"))

    def _start(self, run: AgentRun, *, is_scheduled: bool) -> None:
        if is_scheduled != (run in self._scheduled):
            self._scheduled ^= {run}
            self._is_sorted = False  # its messages may have been compared already

    def _see(self, call: ToolCall) -> None:
        key = (call.same_call, call.same_output)
        known = self._seen.get(key)
        if known is None:
            self._seen[key] = _Seen(call)
        elif known.second is None:
            known.second = call.order

    def findings(self) -> list[Draft]:
        if not self._is_sorted:
            self._sort()
        for after in self._after[-MAX_COMPACTIONS:]:
            loss = self._contradicted(after.compaction) or self._redone(after) or self._repeated(after)
            if loss is not None:
                return [_draft(self._scope_of(loss), loss)]
        return []

    def _sort(self) -> None:
        """Put everything in order and compare it again: agent runs of a session can overlap."""
        self._calls.sort(key=_order)
        self._messages.sort(key=_order)
        self._rules.sort(key=lambda rule: rule[0].message.order)
        self._seen.clear()
        for call in self._calls:
            self._see(call)
        self._after = [
            _After(after.compaction) for after in sorted(self._after, key=lambda each: each.compaction.order)
        ]
        for rule, _ in self._rules:
            rule.broken, rule.seen = None, -1
        self._is_sorted = True

    def _contradicted(self, compaction: Moment) -> _Loss | None:
        """Return something that the user forbade, that was respected until the compaction and was done after it."""
        before = bisect_right(self._rules, compaction.order, key=lambda rule: rule[0].message.order)
        chosen: list[_Rule] = []
        for rule, run in reversed(self._rules[:before]):
            if len(chosen) == MAX_RULES:
                break
            if run not in self._scheduled:
                chosen.append(rule)
        for rule in reversed(chosen):
            broken = rule.first_breach(self._calls)
            if broken is None or broken.order < compaction.order:
                continue
            later = self._said_after(compaction)
            if any(message.is_user and rule.what in message.text for message in later):
                continue  # the user came back to it, and may have allowed it
            return _Loss(
                compaction=compaction,
                what=f"the agent did what the user had forbidden: {rule.text}",
                about=("instructions", "contradicted"),
                known=CausalStep(rule.message.event_id, f"The user said: {rule.text}", None),
                calls=[broken],
                contradicts=True,
            )
        return None

    def _said_after(self, compaction: Moment) -> list[Message]:
        start = bisect_right(self._messages, compaction.order, key=_order)
        return [said.message for said in self._messages[start:] if said.run not in self._scheduled]

    def _redone(self, after: _After) -> _Loss | None:
        """Return calls that were repeated although nothing had changed that could lead to another result."""
        start = after.compaction.order
        for call in self._calls[bisect_right(self._calls, after.seen, key=_order) :]:
            after.seen = call.order
            if after.is_changed or call.kind is Kind.CHANGE:
                after.is_changed = True
                break
            key = (call.same_call, call.same_output)
            known = self._seen[key]
            # What was repeated before as well is a habit, and not a loss.
            once = known.first.order < start and (known.second is None or known.second > start)
            if once and _is_worth(known.first):
                after.redone[key] = call
        again = list(after.redone.values())
        if not again:
            return None
        request = next((message.order for message in self._said_after(after.compaction) if message.is_user), None)
        acted = [call for call in again if call.kind is Kind.ACTION and (request is None or call.order < request)]
        if len(again) < REDONE and not acted:
            return None
        first = (acted or again)[0]
        known = self._seen[first.same_call, first.same_output]
        return _Loss(
            compaction=after.compaction,
            what=f"{counted(len(again), 'call was', 'calls were')} repeated",
            about=tuple(sorted({call.tool for call in again})),
            known=CausalStep(known.first.evidence, f"Known from `{first.tool}`", None),
            calls=again,
        )

    def _repeated(self, after: _After) -> _Loss | None:
        """Return what the user had to say a second time, or was asked a second time."""
        if after.earlier is None:
            middle = bisect_right(self._messages, after.compaction.order, key=_order)
            telling = (said.message for said in reversed(self._messages[:middle]) if self._is_telling(said))
            after.earlier = list(islice(telling, MAX_MESSAGES))
        if after.repeated is None and after.compared < MAX_MESSAGES:
            self._compare(after, after.earlier)
        message, before = after.repeated, after.repeats
        if message is None or before is None:
            return None
        return _Loss(
            compaction=after.compaction,
            what="the user had to repeat a message"
            if message.is_user
            else "the agent asked the user the same question again",
            about=("instructions",),
            known=CausalStep(before.event_id, "Said before", None),
            messages=[message],
        )

    def _compare(self, after: _After, earlier: list[Message]) -> None:
        """Look for a message that repeats exactly one of the earlier ones, among those that are new."""
        for said in self._messages[bisect_right(self._messages, after.heard, key=_order) :]:
            message, after.heard = said.message, said.order
            if not self._is_telling(said):
                continue
            after.compared += 1
            if message.is_user or message.asks_user:
                same = [
                    before
                    for before in earlier
                    if before.is_user == message.is_user and likeness(message.text, before.text) >= SAME_WORDS
                ]
                # What was said over and over before is a habit, or a scheduled job.
                if len(same) == 1 and self._was_answered(same[0], message):
                    after.repeated, after.repeats = message, same[0]
                    return
            if after.compared == MAX_MESSAGES:
                return

    def _is_telling(self, said: _Said) -> bool:
        message = said.message
        return message.size > MIN_CHARACTERS and not message.asks_tools and said.run not in self._scheduled

    def _was_answered(self, before: Message, again: Message) -> bool:
        """Return whether the other side spoke in between: OpenClaw may send a message again after a compaction."""
        start = bisect_right(self._messages, before.order, key=_order)
        end = bisect_right(self._messages, again.order, key=_order)
        between = self._messages[start : end - 1]
        others = (said for said in between if said.message.is_user != before.is_user)
        return any(said.run not in self._scheduled for said in others)

    def _scope_of(self, loss: _Loss) -> Scope:
        order = loss.calls[0].order if loss.calls else loss.messages[0].order
        return next((run.scope for run in self._runs if order <= run.last_order), self._runs[-1].scope)


def _is_worth(call: ToolCall) -> bool:
    return call.kind in (Kind.LOOKUP, Kind.ACTION) and not call.failed and call.result is not None


def _draft(scope: Scope, loss: _Loss) -> Draft:
    compaction = loss.compaction.event_id
    first = loss.calls[0].call if loss.calls else loss.messages[0].event_id
    shown = [*(call.evidence for call in loss.calls), *(message.event_id for message in loss.messages)]
    lost = loss.calls[0].arguments if loss.calls else loss.messages[0].text
    return Draft(
        type=TYPE,
        about=loss.about,
        severity="medium",
        confidence=70,
        title=f"After a compaction, {loss.what}",
        explanation=f"The compaction summary lost this: {excerpt(lost, 120)}",
        evidence=cite([loss.known.event_id, compaction, *shown]),
        occurrences=len(shown),
        first_bad_step=first,
        chain=[
            loss.known,
            CausalStep(compaction, "The context was compacted", "precedes"),
            CausalStep(first, "Done anyway", "contradicted")
            if loss.contradicts
            else CausalStep(first, "Requested again", "caused"),
        ],
        wasted_tool_calls=[] if loss.contradicts else loss.calls,
        scope=scope,
        recommendation="Have the agent write facts and instructions that must survive a compaction to memory or a "
        "file. Keep large results out of the context, so that it is compacted less often.",
        verification="Run the same task again: no call from before the compaction is repeated after it.",
    )
