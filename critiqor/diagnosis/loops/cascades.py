"""Failures of one tool in the same way, and failures of one kind across several tools."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from operator import attrgetter

from critiqor.diagnosis.collections.orders import Orders
from critiqor.diagnosis.drafts.call_groups import CallGroup
from critiqor.diagnosis.signals.errors import reports_absence, reports_already_done
from critiqor.spans.calls import ToolCall

MIN_CASCADE = 4
"""Minimum number of failures of one kind across several tools."""
MAX_KINDS = 256
"""Maximum number of kinds of failures that are searched for a common cause across tools: the latest are kept."""
MAX_CASCADE_CALLS = 1024
"""Maximum number of failures of all kinds that are searched for it."""

_order = attrgetter("order")
_tool = attrgetter("tool")


class Streak(CallGroup):
    """Failures of one tool and one kind, until they are resolved."""

    __slots__ = ("blind", "effects", "first_blind", "index", "is_ordered", "recovered", "successes")

    def __init__(self, first: ToolCall) -> None:
        super().__init__(first)
        self.blind = 0
        """Number of attempts that repeated a failed one although nothing that could help had happened in between."""
        self.is_ordered = False
        """Whether the user ordered repetition."""
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


def is_code(error_kind: str) -> bool:
    return error_kind.startswith("exit code") and ":" not in error_kind


class _KindFailures:
    """The failures of one kind across all tools."""

    __slots__ = ("calls", "failures", "tools")

    def __init__(self) -> None:
        self.calls: deque[ToolCall] = deque()
        """The failures, and the first success of each tool after such a failure, in order."""
        self.failures = 0
        self.tools: set[str] = set()


class Cascades:
    """Failures of several tools with one cause, until one of the tools works again."""

    def __init__(self) -> None:
        self._kinds: dict[str, _KindFailures] = {}
        self._suspects: dict[str, _KindFailures] = {}
        """Kinds with enough failures in more than one tool."""
        self._found: dict[int, tuple[Streak, list[int]]] = {}
        """The cascades that were found last, by the order of their first call, with the orders of all."""
        self._calls = 0
        """Number of calls of all kinds."""
        self._failed_kinds: dict[str, set[str]] = {}
        """Kinds of failures of each tool since its last success."""

    def failed(self, call: ToolCall) -> None:
        if is_code(call.error_kind):
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

    def found(self, blind: dict[str, Orders], streaks: list[Streak]) -> list[Streak]:
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

    def _streak_of(self, calls: list[ToolCall]) -> tuple[Streak, list[int]]:
        """Return a group as a streak, and the orders of its calls; a group that has only grown is continued."""
        orders = list(map(_order, calls))
        streak, known = self._found.get(orders[0], (None, []))
        if streak is None or orders[: len(known)] != known:
            streak, known = Streak(calls[0]), orders[:1]
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
        if call.has_failed:
            if call.order not in reported:
                group.append(call)
                failed_tools.add(call.tool)
        elif call.tool in failed_tools:
            failed_tools.remove(call.tool)
            groups.append(group)
            group = []
    return [*groups, group]
