"""Groups of tool calls that belong to one finding, and their names for its sentences."""

from __future__ import annotations

from collections.abc import Iterable

from critiqor.diagnosis.collections.orders import Orders
from critiqor.diagnosis.drafts.call_costs import CallCosts
from critiqor.diagnosis.drafts.cited_events import CitedEvents
from critiqor.spans.calls import ToolCall

MAX_NAMED = 3
"""Maximum number of names of tool calls in a sentence."""
MAX_DISTINCT = 1024
"""Maximum number of different calls of a group that are remembered."""


class CallGroup:
    """Tool calls that belong to one finding. Adding a call takes constant time and a few bytes."""

    __slots__ = (
        "calls",
        "citations",
        "count",
        "distinct",
        "first",
        "last",
        "names_seen",
        "repeats",
        "second",
        "tools",
        "wasted",
    )

    def __init__(self, first: ToolCall) -> None:
        self.first = first
        self.second: ToolCall | None = None
        self.last = first
        self.count = 1
        self.calls = Orders((first.order,))
        self.wasted = CallCosts()
        """All calls but the first."""
        self.citations = CitedEvents()
        self.citations.add(first.evidence)
        self.distinct = {first.same_call}
        self.repeats = False
        """Whether a call was made twice."""
        self.tools = {first.tool}
        self.names_seen = {first.name: None}
        """The first distinct names, at most `MAX_NAMED` + 1."""

    def __len__(self) -> int:
        return self.count

    def add(self, call: ToolCall) -> None:
        self.last = call
        self.count += 1
        if self.second is None:
            self.second = call
        self.calls.add(call.order)
        self.wasted.add_tool_call(call)
        self.citations.add(call.evidence)
        if call.same_call in self.distinct:
            self.repeats = True
        elif len(self.distinct) < MAX_DISTINCT:
            self.distinct.add(call.same_call)
            self.tools.add(call.tool)
        if len(self.names_seen) <= MAX_NAMED:
            # Calls that do the same can have different names: `: one` and `: two` both do nothing.
            self.names_seen[call.name] = None

    @property
    def names(self) -> str:
        """The names of the tool calls of the group, for a sentence."""
        return _join_names(list(self.names_seen))


def name_calls(calls: Iterable[ToolCall]) -> str:
    """Return the names of the tools of a call group for a sentence: the first `MAX_NAMED` different ones."""
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
