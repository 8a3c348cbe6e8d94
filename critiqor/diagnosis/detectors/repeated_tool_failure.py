"""`repeated_tool_failure`: the same failure repeatedly, without an attempt to fix it."""

from __future__ import annotations

import re
from collections import defaultdict

from critiqor.diagnosis.collections.orders import Orders
from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.drafts.merging import MAX_PAST, PastDrafts
from critiqor.diagnosis.loops.cascades import Cascades, Streak, is_code
from critiqor.diagnosis.loops.common_causes import CauseGroup, CommonCauses
from critiqor.diagnosis.signals.text import words
from critiqor.diagnosis.signals.tool_calls import does_nothing, tool_call_likeness
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Message, ToolCall

TYPE = "repeated_tool_failure"
MEANING = "the same tool failure repeated, without a fix in between"
MIN_SIMILARITY = 0.4
"""Minimum share of common words for two calls to count as the same attempt."""
MIN_COMPARABLE_WORDS = 12
"""Minimum number of words for a call to be compared even if the outputs differ."""
MIN_GUESSES = 3
"""Minimum number of failures of different attempts: two wrong guesses are a search, three of one kind are a habit."""
MIN_FAILURES_FOR_HIGH = 6
"""Minimum number of failures for severity high."""
MAX_TOOLS = 256
"""Maximum number of tools whose failures are tracked: those that failed last for the first time."""
MAX_OPEN_STREAKS = 8
"""Maximum number of open streaks per tool; the oldest is closed first."""
MAX_REPORTED_SHARE = 0.6
"""Share of the failures with one cause above which other findings say enough about it."""
MAX_CALLS_TO_FIX = 20
"""Maximum number of calls after which a similar call counts as the fix of a failed one; an identical one always
does."""


_CAUSE = re.compile(r"^(missing|denied) ")
_CAUSES = {"missing": "there is no", "denied": "no access to"}


class RepeatedToolFailure(RunDetector[ToolCall | Message]):
    """Tracks the failures of each tool by kind, and each kind of failure across tools."""

    NEEDS = ("failed call",)
    OBSERVES = (ToolCall, Message)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._index = 0
        self._successes = 0
        self._effects = 0
        self._open: dict[str, dict[object, Streak]] = {}
        """Streaks that may continue, by tool and kind of failure."""
        self._blind = PastDrafts()
        """Streaks that have ended and are reported in any case."""
        self._blind_calls: dict[str, Orders] = {}
        """The calls of these streaks by kind of failure."""
        self._closed: list[Streak] = []
        """Streaks that have ended, and are reported if they are habits (see `_is_habit`)."""
        self._calls: dict[str, int] = defaultdict(int)
        self._last_failed: dict[str, bool] = {}
        """Whether the last call of a tool failed."""
        self._cascades = Cascades()
        self._causes = CommonCauses()
        self._is_ordered = False
        """Whether the last request orders repetition, such as to reproduce a failure."""

    def observe(self, span: ToolCall | Message, /) -> None:
        if isinstance(span, Message):
            if span.is_user:
                self._is_ordered = span.orders_repetition
            return
        if not span.result or span.kind is Kind.THOUGHT:
            return
        self._calls[span.tool] += 1
        self._last_failed[span.tool] = span.has_failed
        if span.has_failed:
            self._failed(span)
        else:
            self._succeeded(span)
        self._index += 1

    def _succeeded(self, call: ToolCall) -> None:
        self._successes += 1
        self._effects += call.kind is not Kind.LOOKUP
        self._cascades.succeeded(call)
        self._causes.succeeded(call)
        known = self._open.get(call.tool)
        if not known:
            return
        if does_nothing(call.tool, call.arguments):
            return
        for key in [key for key, streak in known.items() if _resolves(call, streak, self._index)]:
            known[key].recovered = True
            self._close(known.pop(key))

    def _failed(self, call: ToolCall) -> None:
        self._cascades.failed(call)
        if call.cause or not self._is_ordered:
            self._causes.failed(call)
        known = self._open.get(call.tool)
        if known is None:
            known = self._open[call.tool] = {}
            if len(self._open) > MAX_TOOLS:
                for forgotten in self._open.pop(next(iter(self._open))).values():
                    self._close(forgotten)
        # An exit code alone does not identify the reason; only identical calls are assumed to fail for the same one.
        key = (call.error_kind, call.same_call) if is_code(call.error_kind) else call.error_kind
        streak = known.get(key)
        if streak is not None and streak.effects < self._effects and streak.last.same_output != call.same_output:
            # Something was changed, and the output is different now: this is progress.
            self._close(known.pop(key))
            streak = None
        if streak is None:
            streak = known[key] = Streak(call)
            streak.is_ordered = self._is_ordered
            if len(known) > MAX_OPEN_STREAKS:
                self._close(known.pop(next(iter(known))))
        else:
            if call.same_call == streak.last.same_call:
                streak.blind += streak.effects == self._effects
            elif streak.successes == self._successes:
                streak.blind += _is_same_attempt(streak.last, call)
            streak.add(call)
        streak.index, streak.successes, streak.effects = self._index, self._successes, self._effects

    def _close(self, streak: Streak) -> None:
        if streak.recovered and streak.first.kind is Kind.WAIT:
            return  # the agent polled until the call succeeded
        if streak.is_blind:
            # The draft of a joined streak goes on with its calls, so they are copied.
            self._blind_calls.setdefault(streak.first.error_kind, Orders()).update(streak.calls)
            self._blind.add(_draft(self.run, streak))
        elif len(streak) >= MIN_GUESSES and self._is_half(streak):
            self._closed.append(streak)
            if len(self._closed) > MAX_PAST:
                self._closed = [streak for streak in self._closed if self._is_half(streak)][-MAX_PAST:]

    def findings(self) -> list[Draft]:
        if not self._open:
            return []
        # The number of calls of a tool only grows, so a streak that is less than half of them stays below half.
        self._closed = [streak for streak in self._closed if self._is_half(streak)]
        still_open = [streak for streaks in self._open.values() for streak in streaks.values()]
        streaks = [
            *(streak for streak in self._closed if self._last_failed[streak.first.tool]),
            *(streak for streak in still_open if streak.is_blind or self._is_habit(streak)),
        ]
        cascades = self._cascades.found(self._blind_calls, streaks)
        reported = [
            *self._blind_calls.values(),
            *(streak.calls for streak in streaks),
            *(each.calls for each in cascades),
        ]
        causes = (
            _cause_draft(self.run, group)
            for group in self._causes.found()
            if group.calls.count_in(reported) < MAX_REPORTED_SHARE * len(group)
        )
        return [*self._blind.all, *(_draft(self.run, streak) for streak in (*streaks, *cascades)), *causes]

    def _is_half(self, streak: Streak) -> bool:
        """Return whether at least half of the tool's calls failed like this."""
        return 2 * len(streak) >= self._calls[streak.first.tool]

    def _is_habit(self, streak: Streak) -> bool:
        """Return whether at least half of the tool's calls failed like this, and its last call failed."""
        return len(streak) >= MIN_GUESSES and self._is_half(streak) and self._last_failed[streak.first.tool]


def _resolves(call: ToolCall, streak: Streak, index: int) -> bool:
    last = streak.last
    if call.same_call == last.same_call:
        return True
    return (
        index - streak.index <= MAX_CALLS_TO_FIX
        and tool_call_likeness(call.arguments, last.arguments) >= MIN_SIMILARITY
    )


def _is_same_attempt(before: ToolCall, call: ToolCall) -> bool:
    """Return whether a call is nearly identical to the previous one."""
    comparable = call.same_output == before.same_output or len(words(call.arguments)) >= MIN_COMPARABLE_WORDS
    return comparable and tool_call_likeness(call.arguments, before.arguments) >= MIN_SIMILARITY


def _draft(run: AgentRun, streak: Streak) -> Draft:
    first, second, last = streak.first, streak.second or streak.first, streak.last
    names, failures = streak.names, len(streak)
    severity: Severity = "high" if failures >= MIN_FAILURES_FOR_HIGH else "medium" if failures >= 3 else "low"
    if streak.is_ordered:
        severity = "low"
    elif streak.recovered:
        severity = "medium" if failures >= MIN_FAILURES_FOR_HIGH else "low"
    error = excerpt(first.error or "", 160)
    attempts = "with the same arguments" if len(streak.distinct) == 1 else "with nearly the same arguments"
    return Draft(
        type=TYPE,
        about=(*sorted(streak.tools), first.error_kind),
        severity=severity,
        confidence=90 if failures >= 3 and streak.blind else 75 if streak.blind else 60,
        title=f"{names} failed {counted(failures, 'time')} in the same way"
        + (", then succeeded" if streak.recovered else ""),
        explanation=f"The agent called it again {attempts} after this error: {error}",
        evidence=streak.citations.cited(),
        occurrences=failures,
        first_bad_step=(streak.first_blind or second).evidence,
        chain=[
            CausalStep(first.evidence, f"{first.name} failed: {excerpt(first.error or '', 80)}", None),
            CausalStep(second.evidence, "Tried again, failed in the same way", "retried"),
            *([CausalStep(last.evidence, f"Failure number {failures}", "retried")] if failures > 2 else []),
        ],
        wasted_tool_calls=streak.wasted,
        explained_calls=streak.calls,
        scope=run.scope,
        recommendation=f"Make the agent read the error of {names} before it tries again, and stop after two failures "
        "of the same kind. If the error is about the tool itself, fix the tool or its description.",
        verification="Run the same task again: at most one failure of this kind, and `critiqor compare` lists this "
        f"{TYPE} as gone.",
    )


def _cause_draft(run: AgentRun, group: CauseGroup) -> Draft:
    first, second, last = group.first, group.second or group.first, group.last
    failures = len(group)
    cause = _CAUSE.sub(lambda found: f"{_CAUSES[found[1]]} ", group.description)
    return Draft(
        type=TYPE,
        about=(*sorted(group.tools), group.cause),
        severity="high" if failures >= MIN_FAILURES_FOR_HIGH else "medium",
        confidence=85,
        title=f"{counted(failures, 'call')} failed for the same reason: {excerpt(cause, 80)}",
        explanation=f"The agent tried {group.names} without removing the cause: {excerpt(cause, 120)}.",
        evidence=group.citations.cited(),
        occurrences=failures,
        first_bad_step=second.evidence,
        chain=[
            CausalStep(first.evidence, f"{first.name} failed: {excerpt(cause, 80)}", None),
            CausalStep(second.evidence, f"{second.name} failed for the same reason", "retried"),
            CausalStep(last.evidence, f"Failure number {failures}", "retried"),
        ],
        wasted_tool_calls=group.wasted,
        explained_calls=group.calls,
        scope=run.scope,
        recommendation="Have the agent look for the cause after the second failure, and remove it or report it, "
        "instead of trying other tools that need the same.",
        verification=f"Run the same task again: `critiqor compare` lists this {TYPE} as gone.",
    )
