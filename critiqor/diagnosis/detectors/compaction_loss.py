"""`compaction_loss`: after a compaction, the agent requests again what it knew, or does what the user had forbidden."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

import msgspec

from critiqor.diagnosis.collections.recent import Recent
from critiqor.diagnosis.detector import SessionDetector
from critiqor.diagnosis.drafts.call_costs import costs_of
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.runs.since_compaction import SinceCompaction
from critiqor.diagnosis.signals.compactions import is_compaction
from critiqor.diagnosis.signals.prohibitions import Prohibition, prohibitions_in
from critiqor.diagnosis.signals.text import likeness
from critiqor.model import CausalStep, Scope
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Message, Moment, ToolCall

TYPE = "compaction_loss"
MEANING = "the agent requests again what it knew before a compaction"
MIN_REPEATED_CALLS = 3
"""Minimum number of calls that were repeated with the same result."""
MIN_COMMON_WORDS = 0.8
"""Minimum share of common words for two messages to count as the same."""
MAX_COMPACTIONS = 3
"""Maximum number of compactions of a session that are checked: the last ones."""
MAX_MESSAGES = 50
"""Maximum number of messages on either side of a compaction that are compared."""
MAX_KEPT_CALLS = 64
"""Number of calls of a session that are kept until they are compared, and at most twice as many."""
MAX_KEPT_MESSAGES = 50
"""Number of messages of a session that are kept, and at most twice as many."""
MAX_KEPT_RUNS = 64
"""The same for agent runs."""
MAX_KNOWN = 256
"""Number of different results of a session that are remembered at least: more than a context holds."""
MAX_PROHIBITIONS = 20
"""Maximum number of prohibitions by the user that are checked: the last ones before a compaction."""
MAX_SHORT_CHARACTERS = 20
"""Maximum number of characters of a short message ("go on"). Such messages are often repeated, so they are not
compared."""
MAX_SHOWN = 240
"""Characters at the start of arguments from which an explanation quotes."""
_REUSABLE = (Kind.LOOKUP, Kind.ACTION, Kind.COMMAND)
"""Kinds of calls whose repetition shows a loss, if they had succeeded."""

_END = sys.maxsize
_order = attrgetter("order")
_order_of_compaction = attrgetter("compaction.order")


def _is_reusable(call: ToolCall) -> bool:
    """Return whether the result of a call can be used later on; tests are run again and again."""
    return call.kind in _REUSABLE and not call.is_test


def _identity(call: ToolCall) -> bytes:
    """Return what makes a call the same as another: of an action, only the call, because each gets its own id."""
    return call.same_call if call.kind is Kind.ACTION else call.same_call + call.same_output


def _shortened(call: ToolCall) -> ToolCall:
    """Return a call without texts that are not shown: the sessions of a recording keep thousands of them."""
    if len(call.arguments) <= MAX_SHOWN and not call.output:
        return call
    return msgspec.structs.replace(call, arguments=call.arguments[:MAX_SHOWN], output="")


class _Loss(msgspec.Struct, kw_only=True):
    """Evidence that information was lost in a compaction."""

    compaction: Moment
    what: str
    about: tuple[str, ...]
    known: CausalStep
    """The step at which the information was still known."""
    calls: list[ToolCall] = []
    messages: list[Message] = []
    contradicts: bool = False
    """Whether the agent acted against the information instead of requesting it again."""


class _SessionMessage(NamedTuple):
    """A message and its agent run."""

    order: int
    message: Message
    run: AgentRun


class _Occurrences(msgspec.Struct, frozen=True, gc=False):
    """The first two occurrences of a call with the same result."""

    first: int
    """Order of the first occurrence."""
    evidence: str
    """Its event."""
    is_reusable: bool
    second: int | None = None
    """Order of the second occurrence."""


class CompactionLoss(SessionDetector[ToolCall | Message | Moment]):
    """Compares what followed the last compactions of a session with what preceded them.

    A compaction happens within an agent run or between two agent runs. Calls and messages of the session are kept,
    because any of them may be repeated, up to a maximum; `findings` checks only those that are new since its last call.
    """

    OBSERVES = (ToolCall, Message, Moment)

    def __init__(self) -> None:
        self._runs: list[AgentRun] = []
        self._calls: list[ToolCall] = []
        self._messages: list[_SessionMessage] = []
        self._seen: Recent[bytes, _Occurrences] = Recent(MAX_KNOWN)
        """Occurrences by the fingerprints of call and output."""
        self._prohibitions: list[tuple[Prohibition, AgentRun]] = []
        self._after: list[SinceCompaction] = []
        self._scheduled: set[AgentRun] = set()
        """Heartbeats and scheduled jobs, whose messages were not written by a user."""
        self._is_sorted = True
        self._is_complete = True
        """Whether all calls and messages of the session are kept."""
        self._until = _END
        """Order of the last call or message that is compared."""

    @classmethod
    def is_needed(cls, runs: list[AgentRun]) -> bool:
        return any(is_compaction(moment) for run in runs for moment in run.moments)

    def begin_run(self, run: AgentRun) -> None:
        self._runs.append(run)
        if len(self._runs) > 2 * MAX_KEPT_RUNS:
            del self._runs[:-MAX_KEPT_RUNS]
            named = {*(entry.run for entry in self._messages), *(run for _, run in self._prohibitions)}
            self._scheduled &= named.union(self._runs)

    def fork(self) -> CompactionLoss:
        same = CompactionLoss()
        same._runs, same._calls, same._messages = self._runs.copy(), self._calls.copy(), self._messages.copy()
        same._seen, same._scheduled = self._seen.copy(), self._scheduled.copy()
        same._prohibitions = [(prohibition.copy(), run) for prohibition, run in self._prohibitions]
        same._after = [after.copy() for after in self._after]
        same._is_sorted, same._is_complete = self._is_sorted, self._is_complete
        return same

    def observe(self, span: ToolCall | Message | Moment, /) -> None:
        if isinstance(span, ToolCall):
            self._is_sorted &= not self._calls or self._calls[-1].order < span.order
            # A prohibition is searched for in all of the arguments; without one, only their start is ever quoted.
            self._calls.append(span if self._prohibitions else _shortened(span))
            self._count(span)
            if len(self._calls) > 2 * MAX_KEPT_CALLS:
                self._check(self._calls)
                del self._calls[:-MAX_KEPT_CALLS]
                self._is_complete = False
        elif isinstance(span, Message):
            self._is_sorted &= not self._messages or self._messages[-1].order < span.order
            self._messages.append(_SessionMessage(span.order, span, self._runs[-1]))
            if len(self._messages) > 2 * MAX_KEPT_MESSAGES:
                self._check(self._messages)
                del self._messages[:-MAX_KEPT_MESSAGES]
                self._is_complete = False
            if span.is_user:
                self._prohibitions += [(prohibition, self._runs[-1]) for prohibition in prohibitions_in(span)]
                if len(self._prohibitions) > 2 * MAX_KEPT_MESSAGES:
                    del self._prohibitions[:-MAX_KEPT_MESSAGES]
        elif is_compaction(span):
            self._after.append(SinceCompaction(span))
            if len(self._after) > 2 * MAX_COMPACTIONS:
                # Agent runs can overlap, so that the last compactions are not those that were observed last.
                self._after.sort(key=_order_of_compaction)
                del self._after[:-MAX_COMPACTIONS]
        elif span.event_type == "agent_start":
            self._start(self._runs[-1], is_scheduled=span.payload.get("trigger") in ("heartbeat", "cron"))

    def _start(self, run: AgentRun, *, is_scheduled: bool) -> None:
        if is_scheduled != (run in self._scheduled):
            self._scheduled ^= {run}
            self._is_sorted = False  # messages of this agent run may have been compared already

    def _count(self, call: ToolCall) -> None:
        if not _is_reusable(call):
            return
        key = _identity(call)
        known = self._seen.get(key)
        if known is None:
            is_reusable = not call.failed and call.result is not None
            known = _Occurrences(call.order, call.evidence, is_reusable)
        elif known.second is None:
            known = _Occurrences(known.first, known.evidence, known.is_reusable, call.order)
        self._seen[key] = known

    def findings(self) -> list[Draft]:
        if not self._is_sorted:
            self._sort()
        self._until = _END
        for after in self._after[-MAX_COMPACTIONS:]:
            loss = self._contradicted(after.compaction) or self._redone(after) or self._repeated(after)
            if loss is not None:
                return [_draft(self._scope_of(loss), loss)]
        return []

    def _check(self, entries: Sequence[ToolCall | _SessionMessage]) -> None:
        """Compare what is kept, before the first half of these entries is dropped.

        Agent runs are observed in order of start, and can overlap. So what follows the start of the last one is
        compared later, if possible: calls and messages of the next ones may still come before it.
        """
        if not self._is_sorted:
            self._sort()
        self._until = max(self._runs[-1].number, entries[len(entries) // 2].order)
        for after in self._after[-MAX_COMPACTIONS:]:
            _ = self._contradicted(after.compaction), self._redone(after), self._repeated(after)

    def _sort(self) -> None:
        """Sort calls and messages and compare all of them again, because agent runs of a session can overlap."""
        self._calls.sort(key=_order)
        self._messages.sort(key=_order)
        self._prohibitions.sort(key=lambda prohibition: prohibition[0].message.order)
        self._is_sorted = True
        self._after.sort(key=_order_of_compaction)
        if not self._is_complete:
            return  # what was compared before is not known any more
        self._seen.clear()
        for call in self._calls:
            self._count(call)
        self._after = [SinceCompaction(after.compaction) for after in self._after]
        for prohibition, _ in self._prohibitions:
            prohibition.violation, prohibition.last_checked = None, -1

    def _contradicted(self, compaction: Moment) -> _Loss | None:
        """Return a prohibition that was respected until the compaction and violated after it."""
        before = bisect_right(
            self._prohibitions, compaction.order, key=lambda prohibition: prohibition[0].message.order
        )
        chosen: list[Prohibition] = []
        for prohibition, run in reversed(self._prohibitions[:before]):
            if len(chosen) == MAX_PROHIBITIONS:
                break
            if run not in self._scheduled:
                chosen.append(prohibition)
        for prohibition in reversed(chosen):
            violation = prohibition.first_violation(self._calls, self._until)
            if violation is None or violation.order < compaction.order:
                continue
            later = self._messages_after(compaction)
            if any(message.is_user and prohibition.what in message.text for message in later):
                continue  # the user mentioned it again and may have allowed it
            return _Loss(
                compaction=compaction,
                what=f"the agent did what the user had forbidden: {prohibition.text}",
                about=("instructions", "contradicted"),
                known=CausalStep(prohibition.message.event_id, f"The user said: {prohibition.text}", None),
                calls=[violation],
                contradicts=True,
            )
        return None

    def _messages_after(self, compaction: Moment) -> list[Message]:
        start = bisect_right(self._messages, compaction.order, key=_order)
        return [entry.message for entry in self._messages[start:] if entry.run not in self._scheduled]

    def _redone(self, after: SinceCompaction) -> _Loss | None:
        """Return calls that were repeated although nothing was changed that could lead to other results."""
        start = after.compaction.order
        for call in self._calls[bisect_right(self._calls, after.last_checked, key=_order) :]:
            if call.order > self._until:
                break
            after.last_checked = call.order
            if after.is_changed or call.kind is Kind.CHANGE:
                after.is_changed = True
                break
            key = _identity(call)
            known = self._seen.get(key) if _is_reusable(call) else None
            # A call that was already repeated before the compaction is a habit, not a loss.
            if known is not None and known.is_reusable and known.first < start and (known.second or start + 1) > start:
                after.redone[key] = call
        again = list(after.redone.values())
        if not again:
            return None
        request = next((message.order for message in self._messages_after(after.compaction) if message.is_user), None)
        acted = [call for call in again if call.kind is Kind.ACTION and (request is None or call.order < request)]
        if len(again) < MIN_REPEATED_CALLS and not acted:
            return None
        first = (acted or again)[0]
        known = self._seen.get(_identity(first))
        return _Loss(
            compaction=after.compaction,
            what=f"{counted(len(again), 'call was', 'calls were')} repeated",
            about=tuple(sorted({call.tool for call in again})),
            known=CausalStep(
                known.evidence if known is not None else first.evidence, f"Known from `{first.tool}`", None
            ),
            calls=again,
        )

    def _repeated(self, after: SinceCompaction) -> _Loss | None:
        """Return a message that the user had to repeat, or a question that the agent repeated."""
        if after.compaction.order > self._until:
            return None
        if after.earlier is None:
            middle = bisect_right(self._messages, after.compaction.order, key=_order)
            comparable = (entry.message for entry in reversed(self._messages[:middle]) if self._is_comparable(entry))
            after.earlier = list(islice(comparable, MAX_MESSAGES))
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

    def _compare(self, after: SinceCompaction, earlier: list[Message]) -> None:
        """Search the new messages for the first one that repeats exactly one earlier message."""
        for entry in self._messages[bisect_right(self._messages, after.last_compared, key=_order) :]:
            if entry.order > self._until:
                return
            message, after.last_compared = entry.message, entry.order
            if not self._is_comparable(entry):
                continue
            after.compared += 1
            if message.is_user or message.asks_user:
                same = [
                    before
                    for before in earlier
                    if before.is_user == message.is_user and likeness(message.text, before.text) >= MIN_COMMON_WORDS
                ]
                # A message that was already repeated before the compaction is a habit, or a scheduled job.
                if len(same) == 1 and self._was_answered(same[0], message):
                    after.repeated, after.repeats = message, same[0]
                    return
            if after.compared == MAX_MESSAGES:
                return

    def _is_comparable(self, entry: _SessionMessage) -> bool:
        message = entry.message
        return message.size > MAX_SHORT_CHARACTERS and not message.asks_tools and entry.run not in self._scheduled

    def _was_answered(self, before: Message, again: Message) -> bool:
        """Return whether the other side answered in between; if not, OpenClaw may have sent the message again."""
        start = bisect_right(self._messages, before.order, key=_order)
        end = bisect_right(self._messages, again.order, key=_order)
        between = self._messages[start : end - 1]
        others = (entry for entry in between if entry.message.is_user != before.is_user)
        return any(entry.run not in self._scheduled for entry in others)

    def _scope_of(self, loss: _Loss) -> Scope:
        order = loss.calls[0].order if loss.calls else loss.messages[0].order
        return next((run.scope for run in self._runs if order <= run.last_order), self._runs[-1].scope)


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
        evidence=cite_events([loss.known.event_id, compaction, *shown]),
        occurrences=len(shown),
        first_bad_step=first,
        chain=[
            loss.known,
            CausalStep(compaction, "The context was compacted", "precedes"),
            CausalStep(first, "Done anyway", "contradicted")
            if loss.contradicts
            else CausalStep(first, "Requested again", "caused"),
        ],
        wasted_tool_calls=costs_of([] if loss.contradicts else loss.calls),
        scope=scope,
        recommendation="Have the agent write facts and instructions that must survive a compaction to memory or a "
        "file. Keep large results out of the context, so that it is compacted less often.",
        verification="Run the same task again: no call from before the compaction is repeated after it.",
    )
