"""`repeated_tool_failure`: the same failure repeatedly, without an attempt to fix it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from operator import attrgetter

from critiqor.diagnosis.bounds.orders import Orders
from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.call_groups import CallGroup
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.drafts.merging import MAX_PAST, PastDrafts
from critiqor.diagnosis.signals.errors import reports_absence, reports_already_done
from critiqor.diagnosis.signals.text import words
from critiqor.diagnosis.signals.tools import likeness_of_calls
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, ToolCall

TYPE = "repeated_tool_failure"
MEANING = "the same tool failure repeated, without a fix in between"
MIN_SIMILARITY = 0.4
"""Minimum share of common words for two calls to count as the same attempt."""
MIN_COMPARABLE_WORDS = 12
"""Minimum number of words for a call to be compared even if the outputs differ."""
MIN_GUESSES = 3
"""Minimum number of failures of different attempts: two wrong guesses are a search, three of one kind are a habit."""
MIN_CASCADE = 4
"""Minimum number of failures of one kind across several tools."""
MIN_FAILURES_FOR_HIGH = 6
"""Minimum number of failures for severity high."""
MAX_TOOLS = 256
"""Maximum number of tools whose failures are tracked: those that failed last for the first time."""
MAX_KINDS = 256
"""Maximum number of kinds of failures that are searched for a common cause across tools: the latest are kept."""
MAX_CASCADE_CALLS = 1024
"""Maximum number of failures of all kinds that are searched for it."""
MAX_OPEN_STREAKS = 8
"""Maximum number of open streaks per tool; the oldest is closed first."""
MAX_CALLS_TO_FIX = 20
"""Maximum number of calls after which a similar call counts as the fix of a failed one; an identical one always
does."""


_order = attrgetter("order")
_tool = attrgetter("tool")


class _Streak(CallGroup):
    """Failures of one tool and one kind, until they are resolved."""

    __slots__ = ("blind", "effects", "first_blind", "index", "recovered", "successes")

    def __init__(self, first: ToolCall) -> None:
        super().__init__(first)
        self.blind = 0
        """Number of attempts that repeated a failed one although nothing that could help had happened in between."""
        self.recovered = False
        """Whether a later call succeeded."""
        self.index = 0
        """Index of the last failure among all calls."""
        self.successes = 0
        """Number of calls that had succeeded before the last failure."""
        self.effects = 0
        """Number of those that may have changed something, if only because time passed."""
        self.first_blind: ToolCall | None = None
        """The first attempt that is identical to the previous one."""

    def add(self, call: ToolCall) -> None:
        if self.first_blind is None and call.same_call == self.last.same_call:
            self.first_blind = call
        super().add(call)

    @property
    def is_blind(self) -> bool:
        """Whether attempts were repeated unnecessarily, and were not a search for something that does not exist."""
        return self.blind > 0 and not self._is_search

    @property
    def _is_search(self) -> bool:
        """Whether every call was different, and the error says that something does not exist or is already done."""
        error = self.first.error or ""
        return not self.repeats and (reports_absence(error) or reports_already_done(error))


class RepeatedToolFailure(RunDetector[ToolCall]):
    """Tracks the failures of each tool by kind, and each kind of failure across tools."""

    NEEDS = ("failed call",)
    OBSERVES = (ToolCall,)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._index = 0
        self._successes = 0
        self._effects = 0
        self._open: dict[str, dict[object, _Streak]] = {}
        """Streaks that may continue, by tool and kind of failure."""
        self._blind = PastDrafts()
        """Streaks that have ended and are reported in any case."""
        self._blind_calls: dict[str, Orders] = {}
        """The calls of these streaks by kind of failure."""
        self._closed: list[_Streak] = []
        """Streaks that have ended, and are reported if they are habits (see `_is_habit`)."""
        self._calls: dict[str, int] = defaultdict(int)
        self._last_failed: dict[str, bool] = {}
        """Whether the last call of a tool failed."""
        self._cascades = _Cascades()

    def observe(self, span: ToolCall, /) -> None:
        if not span.result or span.kind is Kind.THOUGHT:
            return
        self._calls[span.tool] += 1
        self._last_failed[span.tool] = span.failed
        if span.failed:
            self._failed(span)
        else:
            self._succeeded(span)
        self._index += 1

    def _succeeded(self, call: ToolCall) -> None:
        self._successes += 1
        self._effects += call.kind is not Kind.LOOKUP
        self._cascades.succeeded(call)
        known = self._open.get(call.tool)
        if not known:
            return
        for key in [key for key, streak in known.items() if _resolves(call, streak, self._index)]:
            known[key].recovered = True
            self._close(known.pop(key))

    def _failed(self, call: ToolCall) -> None:
        self._cascades.failed(call)
        known = self._open.get(call.tool)
        if known is None:
            known = self._open[call.tool] = {}
            if len(self._open) > MAX_TOOLS:
                for forgotten in self._open.pop(next(iter(self._open))).values():
                    self._close(forgotten)
        # An exit code alone does not identify the reason; only identical calls are assumed to fail for the same one.
        key = (call.error_kind, call.same_call) if _is_code(call.error_kind) else call.error_kind
        streak = known.get(key)
        if streak is not None and streak.effects < self._effects and streak.last.same_output != call.same_output:
            # Something was changed, and the output is different now: this is progress.
            self._close(known.pop(key))
            streak = None
        if streak is None:
            streak = known[key] = _Streak(call)
            if len(known) > MAX_OPEN_STREAKS:
                self._close(known.pop(next(iter(known))))
        else:
            if call.same_call == streak.last.same_call:
                streak.blind += streak.effects == self._effects
            elif streak.successes == self._successes:
                streak.blind += _is_same_attempt(streak.last, call)
            streak.add(call)
        streak.index, streak.successes, streak.effects = self._index, self._successes, self._effects

    def _close(self, streak: _Streak) -> None:
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
        return [*self._blind.all, *(_draft(self.run, streak) for streak in (*streaks, *cascades))]

    def _is_half(self, streak: _Streak) -> bool:
        """Return whether at least half of the tool's calls failed like this."""
        return 2 * len(streak) >= self._calls[streak.first.tool]

    def _is_habit(self, streak: _Streak) -> bool:
        """Return whether at least half of the tool's calls failed like this, and its last call failed."""
        return len(streak) >= MIN_GUESSES and self._is_half(streak) and self._last_failed[streak.first.tool]


def _is_code(error_kind: str) -> bool:
    return error_kind.startswith("exit code") and ":" not in error_kind


def _resolves(call: ToolCall, streak: _Streak, index: int) -> bool:
    last = streak.last
    if call.same_call == last.same_call:
        return True
    return (
        index - streak.index <= MAX_CALLS_TO_FIX and likeness_of_calls(call.arguments, last.arguments) >= MIN_SIMILARITY
    )


def _is_same_attempt(before: ToolCall, call: ToolCall) -> bool:
    """Return whether a call is nearly identical to the previous one."""
    comparable = call.same_output == before.same_output or len(words(call.arguments)) >= MIN_COMPARABLE_WORDS
    return comparable and likeness_of_calls(call.arguments, before.arguments) >= MIN_SIMILARITY


class _KindFailures:
    """The failures of one kind across all tools."""

    __slots__ = ("calls", "failures", "tools")

    def __init__(self) -> None:
        self.calls: deque[ToolCall] = deque()
        """The failures, and the first success of each tool after such a failure, in order."""
        self.failures = 0
        self.tools: set[str] = set()


class _Cascades:
    """Failures of several tools with one cause, until one of the tools works again."""

    def __init__(self) -> None:
        self._kinds: dict[str, _KindFailures] = {}
        self._suspects: dict[str, _KindFailures] = {}
        """Kinds with enough failures in more than one tool."""
        self._found: dict[int, tuple[_Streak, list[int]]] = {}
        """The cascades that were found last, by the order of their first call, with the orders of all."""
        self._calls = 0
        """Number of calls of all kinds."""
        self._failed_kinds: dict[str, set[str]] = {}
        """Kinds of failures of each tool since its last success."""

    def failed(self, call: ToolCall) -> None:
        if _is_code(call.error_kind):
            return
        kind = self._kinds.get(call.error_kind)
        if kind is None:
            kind = self._kinds[call.error_kind] = _KindFailures()
        self._add(call.error_kind, kind, call)
        kind.failures += 1
        kind.tools.add(call.tool)
        if kind.failures >= MIN_CASCADE and len(kind.tools) > 1:
            self._suspects[call.error_kind] = kind
        names = self._failed_kinds.setdefault(call.tool, set())
        names.add(call.error_kind)
        if len(names) > 2 * MAX_KINDS:
            names &= self._kinds.keys()

    def _add(self, name: str, kind: _KindFailures, call: ToolCall) -> None:
        """Add a call of a kind, which becomes the latest, and forget calls of the oldest kind if there are too many."""
        self._kinds[name] = self._kinds.pop(name)
        kind.calls.append(call)
        self._calls += 1
        if self._calls <= MAX_CASCADE_CALLS and len(self._kinds) <= MAX_KINDS:
            return
        oldest, forgotten = next(iter(self._kinds.items()))
        if forgotten is kind:
            kind.calls.popleft()
            self._calls -= 1
        else:
            self._calls -= len(forgotten.calls)
            del self._kinds[oldest]
            self._suspects.pop(oldest, None)

    def succeeded(self, call: ToolCall) -> None:
        for name in self._failed_kinds.pop(call.tool, ()):
            if name in self._kinds:
                self._add(name, self._kinds[name], call)

    def found(self, blind: dict[str, Orders], streaks: list[_Streak]) -> list[_Streak]:
        """Return the cascades among the failures that are neither in these streaks nor among the blind ones."""
        kinds = self._suspects
        if not kinds:
            return []
        reported: dict[str, Orders] = defaultdict(Orders)
        for name in kinds:
            if name in blind:
                reported[name].update(blind[name])
        for streak in streaks:
            if streak.first.error_kind in kinds:
                reported[streak.first.error_kind].update(streak.calls)
        groups = [group for name, kind in kinds.items() for group in _split(kind.calls, reported[name])]
        long = (group for group in groups if len(group) >= MIN_CASCADE and len(set(map(_tool, group))) > 1)
        self._found = {group[0].order: self._streak_of(group) for group in long}
        return [streak for streak, _ in self._found.values()]

    def _streak_of(self, calls: list[ToolCall]) -> tuple[_Streak, list[int]]:
        """Return a group as a streak, and the orders of its calls; a group that has only grown is continued."""
        orders = list(map(_order, calls))
        streak, known = self._found.get(orders[0], (None, []))
        if streak is None or orders[: len(known)] != known:
            streak, known = _Streak(calls[0]), orders[:1]
        for call in calls[len(known) :]:
            streak.add(call)
        streak.blind = len(streak) - 1
        return streak, orders


def _split(calls: Iterable[ToolCall], reported: Orders) -> list[list[ToolCall]]:
    """Return the unreported failures of one kind, split at each success of a tool that had failed."""
    groups: list[list[ToolCall]] = []
    group: list[ToolCall] = []
    failed_tools: set[str] = set()
    for call in calls:
        if call.failed:
            if call.order not in reported:
                group.append(call)
                failed_tools.add(call.tool)
        elif call.tool in failed_tools:
            failed_tools.remove(call.tool)
            groups.append(group)
            group = []
    return [*groups, group]


def _draft(run: AgentRun, streak: _Streak) -> Draft:
    first, second, last = streak.first, streak.second or streak.first, streak.last
    names, failures = streak.names, len(streak)
    severity: Severity = "high" if failures >= MIN_FAILURES_FOR_HIGH else "medium" if failures >= 3 else "low"
    if streak.recovered:
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
