"""Drafts: what detectors return, before drafts are merged into findings, scored and numbered."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Set

import msgspec

from critiqor.model import CausalStep, Scope, Severity
from critiqor.spans.calls import ModelCall, ToolCall

MAX_CITED = 12
"""Maximum number of events that one finding cites: the first ones and the last `_LAST_CITED`."""
_LAST_CITED = 4
MAX_NAMED = 3
"""Maximum number of names of tool calls in a sentence."""
RUN_AGAIN = "Run the task again and let it finish before you judge it: this recording ends before the agent was done."
"""Recommendation for a run that was cut off: nothing about the agent needs to change."""


class Draft(msgspec.Struct, kw_only=True):
    """A failure that a detector found."""

    type: str
    about: tuple[str, ...]
    """Parts of the cause that are the same in other runs: tool, kind of error."""
    severity: Severity
    confidence: int
    """Confidence of the detector in this draft, 0 to 100."""
    title: str
    explanation: str
    evidence: list[str]
    """Ids of the events that prove the failure, as `cite` selects them."""
    occurrences: int = 1
    first_bad_step: str | None = None
    """Id of the event with which the failure began."""
    chain: list[CausalStep] = msgspec.field(default_factory=list)
    wasted_tool_calls: list[ToolCall] = msgspec.field(default_factory=list)
    wasted_model_calls: list[ModelCall] = msgspec.field(default_factory=list)
    explains: Set[str] = frozenset()
    """Ids of events that this draft explains. The set and the two lists above may grow while the detector observes."""
    scope: Scope = Scope()
    recommendation: str
    verification: str


def cite(events: Iterable[str]) -> list[str]:
    """Return at most `MAX_CITED` of these event ids in order: the first ones and the last `_LAST_CITED`."""
    # Events are usually in order already; a dictionary keeps the order, which makes sorting cheap.
    ordered = sorted(dict.fromkeys(events))
    if len(ordered) <= MAX_CITED:
        return ordered
    return ordered[: MAX_CITED - _LAST_CITED] + ordered[-_LAST_CITED:]


class Citations:
    """The events that `cite` would select, updated while events are added one by one."""

    __slots__ = ("_first", "_last")

    def __init__(self) -> None:
        self._first: list[str] = []
        """The `MAX_CITED` smallest ids; all ids if there are fewer."""
        self._last: list[str] = []
        """The `_LAST_CITED` largest ids."""

    def add(self, event_id: str) -> None:
        first, last = self._first, self._last
        if len(first) < MAX_CITED:
            if event_id not in first:
                insort(first, event_id)
        elif event_id < first[-1] and event_id not in first:
            insort(first, event_id)
            first.pop()
        if (len(last) < _LAST_CITED or event_id > last[0]) and event_id not in last:
            insort(last, event_id)
            del last[:-_LAST_CITED]

    def cited(self, *others: str) -> list[str]:
        """Return the ids that `cite` selects from all added events and `others`."""
        return cite((*self._first, *self._last, *others))


class CallGroup:
    """Tool calls that belong to one finding. Adding a call takes constant time."""

    __slots__ = ("again", "all", "citations", "distinct", "evidence", "first", "last", "names_seen", "tools")

    def __init__(self, first: ToolCall) -> None:
        self.first = first
        self.last = first
        self.all = [first]
        self.again: list[ToolCall] = []
        """All calls but the first."""
        self.evidence = {first.evidence}
        """The event id of each call."""
        self.citations = Citations()
        self.citations.add(first.evidence)
        self.distinct = {first.same_call: first}
        """The first occurrence of each distinct call."""
        self.tools = {first.tool}
        self.names_seen = {first.name: None}
        """The first distinct names, at most `MAX_NAMED` + 1."""

    def __len__(self) -> int:
        return len(self.all)

    def add(self, call: ToolCall) -> None:
        self.last = call
        self.all.append(call)
        self.again.append(call)
        self.evidence.add(call.evidence)
        self.citations.add(call.evidence)
        if call.same_call not in self.distinct:
            self.distinct[call.same_call] = call
            self.tools.add(call.tool)
            if len(self.names_seen) <= MAX_NAMED:
                self.names_seen[call.name] = None

    @property
    def names(self) -> str:
        """The names of the calls, for a sentence."""
        return _join_names(list(self.names_seen))


def name_calls(calls: Iterable[ToolCall]) -> str:
    """Return the names of calls for a sentence: the first `MAX_NAMED` different ones."""
    names: dict[str, None] = {}
    for call in calls:
        names[call.name] = None
        if len(names) > MAX_NAMED:
            break
    return _join_names(list(names))


def _join_names(names: list[str]) -> str:
    if len(names) > MAX_NAMED:
        return f"{', '.join(names[:MAX_NAMED])} and others"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else ""
