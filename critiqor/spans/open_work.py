"""What is under way in an agent run: its attempt, its turn, its calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from critiqor.model.event import Event
from critiqor.model.trace import Category, Fact, Track

RUN, TURN, CALL, INNER_CALL, LOOKUP = range(5)
"""How deep things stand. Calls at the same time are beside each other, never one inside the other."""


class Begun:
    """Something that is under way."""

    __slots__ = ("facts", "floor", "name", "seen", "start")

    def __init__(self, name: str, seen: int, facts: dict[str, Fact], floor: int = 0) -> None:
        self.name = name
        self.seen = seen
        """When its beginning was told."""
        self.start = seen
        """When it began: that can turn out to be a moment before it was told."""
        self.facts = facts
        self.floor = floor
        """It did not begin before this."""


class Calls:
    """Calls that are under way, by their ids. Ids can repeat: the first result belongs to the first call."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun: dict[str | None, deque[Begun]] = {}

    def begin(self, call_id: str | None, begun: Begun) -> None:
        self._begun.setdefault(call_id, deque()).append(begun)

    def end(self, call_id: str | None) -> Begun | None:
        """The call that a result belongs to."""
        begun = self._begun.get(call_id)
        if begun is None:
            return None
        first = begun.popleft()
        if not begun:
            del self._begun[call_id]
        return first

    def first(self, call_id: str | None) -> Begun | None:
        """The first call of that id that is under way."""
        begun = self._begun.get(call_id) if call_id is not None else None
        return begun[0] if begun else None

    def oldest(self) -> Begun | None:
        """The call that has been under way for longest."""
        return next(iter(self._begun.values()))[0] if self._begun else None

    def end_oldest(self) -> Begun | None:
        """The call that a result belongs to which bears no id, or one that no call had."""
        return self.end(next(iter(self._begun))) if self._begun else None

    def left(self) -> Iterator[Begun]:
        """Those without a result."""
        for begun in self._begun.values():
            yield from begun


class Unfinished(NamedTuple):
    """What was never seen to end."""

    begun: Begun
    category: Category
    depth: int
    end_us: int | None
    """The last that is known of it; null for what may have gone on to the end."""


class AgentRun:
    """One agent run, with all attempts."""

    __slots__ = (
        "attempt",
        "compactions",
        "ended",
        "family",
        "lookups",
        "reached",
        "requests",
        "superseded",
        "tools",
        "track",
        "turn",
    )

    def __init__(self, track: Track, family: str) -> None:
        self.track = track
        self.family = family
        self.attempt: Begun | None = None
        self.turn: Begun | None = None
        self.requests = Calls()
        self.tools = Calls()
        self.lookups = Calls()
        self.compactions = Calls()
        self.reached = 0
        """When the last thing ended that was told to have ended."""
        self.ended: int | None = None
        self.superseded: int | None = None
        """When its session went on with another one."""

    def begin(self, name: str, at: int, facts: dict[str, Fact]) -> Begun:
        """Something of this agent run is seen to begin."""
        return Begun(name, at, facts, self.reached)

    def reach_back(self, begun: Begun, start: int) -> None:
        """Something is found to have begun at `start`, before that was told.

        The attempt and the turn in which it was seen began no later. Nothing began before that had ended which was told
        to have ended before it.
        """
        start = max(start, begun.floor)
        for around in (self.attempt, self.turn):
            if around is not None and begun.seen >= around.seen:
                around.start = min(around.start, max(start, around.floor))
                start = max(start, around.start)
        begun.start = min(begun.start, start)

    def unfinished(self) -> Iterator[Unfinished]:
        """What is left when there are no more events."""
        left: list[tuple[Begun, Category, int]] = []
        left += [(begun, "memory", LOOKUP) for begun in self.lookups.left()]
        left += [(begun, "tool", depth_of_tool(begun)) for begun in self.tools.left()]
        left += [(begun, "model", CALL) for begun in self.requests.left()]
        left += [(begun, "compaction", CALL) for begun in self.compactions.left()]
        left += [(self.turn, "turn", TURN)] if self.turn is not None else []
        left += [(self.attempt, "agent", RUN)] if self.attempt is not None else []
        for begun, category, depth in left:
            ends = [end for end in (self.ended, self.superseded) if end is not None and end >= begun.start]
            yield Unfinished(begun, category, depth, min(ends, default=None))


_PASSED_ON = "tool_search_code:"
"""How the id of a call begins that another one has passed on, whose own id comes next."""


def outer_call_id(event: Event) -> str | None:
    """The id of the call that has passed this one on."""
    told = event.payload.get("parent_tool_call_id")
    if isinstance(told, str):
        return told
    call_id = event.tool_call_id or ""
    return call_id.split(":")[1] if call_id.startswith(_PASSED_ON) else None


def depth_of_tool(call: Begun) -> int:
    """A call that another one has passed on is inside that one."""
    passed_on = str(call.facts.get("tool_call_id", "")).startswith(_PASSED_ON)
    return INNER_CALL if passed_on or "parent_tool_call_id" in call.facts else CALL
