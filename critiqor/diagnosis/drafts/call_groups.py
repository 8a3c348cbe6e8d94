"""Groups of tool calls that belong to one finding, and their names for its sentences."""

from __future__ import annotations

from collections.abc import Iterable

from critiqor.diagnosis.drafts.cited_events import CitedEvents
from critiqor.spans.calls import ToolCall

MAX_NAMED = 3
"""Maximum number of names of tool calls in a sentence."""


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
        self.citations = CitedEvents()
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
        """The names of the tool calls of the group, for a sentence."""
        return _join_names(list(self.names_seen))


def name_calls(calls: Iterable[ToolCall]) -> str:
    """Return the names of tool calls for a sentence: the first `MAX_NAMED` different ones."""
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
