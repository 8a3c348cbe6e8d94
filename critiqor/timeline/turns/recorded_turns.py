"""What the recorder saw of single agent runs, in bounded space however long one goes on."""

from __future__ import annotations

from collections import deque

from critiqor.model.event import Event, EventType
from critiqor.timeline.spans import Slowest
from critiqor.timeline.turns.splits import Interval, Splitter

REQUEST = "before_provider_request"
START = "agent_start"
END = "agent_end"
# Not the messages: one that comes while the session rests bears the id of the run before it.
TELLING = frozenset((START, END, REQUEST, EventType.TOKEN_USAGE, EventType.TOOL_CALL, EventType.TOOL_OUTPUT))
"""Events that tell of the time of an agent run."""
MOST_RECENT = 1024
"""Requests and tools that are kept one by one until they are added up."""
MOST_SHOWN = 256
"""The longest of them, for the tree."""


class RecordedTurn:
    """One agent run as the recorder saw it."""

    __slots__ = (
        "_asked",
        "_called",
        "_recent",
        "_splitter",
        "end",
        "ended",
        "failed_requests",
        "longest",
        "requests",
        "run_id",
        "start",
        "tools",
    )

    def __init__(self, run_id: str, moment: float) -> None:
        self.run_id = run_id
        self.start = moment
        self.end = moment
        self.ended = False
        self.requests = 0
        self.failed_requests = 0
        self.tools = 0
        self.longest: Slowest[Interval] = Slowest(MOST_SHOWN)
        self._splitter: Splitter | None = None
        """What is older, where there was too much of it."""
        self._recent: list[Interval] = []
        self._asked: deque[float] = deque()
        self._called: dict[str | None, deque[tuple[float, str]]] = {}

    @property
    def duration(self) -> float:
        return self.end - self.start

    def observe(self, event: Event, moment: float) -> None:
        """Take in one event that tells of its time."""
        kind = event.event_type
        self.start = min(self.start, moment)
        self.end = max(self.end, moment)
        failed = event.status == "error"
        if kind == START:
            self.ended = False
        elif kind == END:
            self.ended = True
        elif kind == REQUEST:
            self._asked.append(moment)
        elif kind == EventType.TOKEN_USAGE:
            asked = self._asked.popleft() if self._asked else moment
            self._request(min(asked, moment - (event.duration_ms or 0.0)), moment, failed)
        elif kind == EventType.TOOL_CALL:
            self._called.setdefault(event.tool_call_id, deque()).append((moment, event.tool_name or "a tool"))
        elif kind == EventType.TOOL_OUTPUT:
            called = self._called.get(event.tool_call_id)
            start, name = called.popleft() if called else (moment, event.tool_name or "a tool")
            if called is not None and not called:
                del self._called[event.tool_call_id]
            self._tool(min(start, moment - (event.duration_ms or 0.0)), moment, name, failed)

    def cut(self, moment: float) -> None:
        """It cannot have gone on after that: what was under way lasted until then, as far as is known."""
        if self.ended:
            return
        for asked in self._asked:
            self._request(asked, moment, True)
        for called in self._called.values():
            for start, name in called:
                self._tool(start, moment, name, True)
        self._asked.clear()
        self._called.clear()

    def splitter(self, others: list[Interval]) -> Splitter:
        """Everything that went on, together with what others know of it."""
        splitter = self._splitter or Splitter()
        splitter.add([*self._recent, *others])
        return splitter

    def _request(self, start: float, end: float, failed: bool) -> None:
        self.requests += 1
        self.failed_requests += failed
        self._keep(Interval(start, end, "provider", "a request", failed))

    def _tool(self, start: float, end: float, name: str, failed: bool) -> None:
        self.tools += 1
        self._keep(Interval(start, end, "tool", name, failed))

    def _keep(self, stretch: Interval) -> None:
        self.start = min(self.start, stretch.start)
        self.end = max(self.end, stretch.end)
        self._recent.append(stretch)
        took = stretch.end - stretch.start
        if took >= self.longest.floor:
            self.longest.offer(took, (stretch.start, stretch.label), stretch)
        if len(self._recent) >= MOST_RECENT:
            self._add_up()

    def _add_up(self) -> None:
        """Add up the older half; what began within it and has not ended loses that part."""
        self._recent.sort(key=lambda stretch: stretch.end)
        older = len(self._recent) // 2
        self._splitter = self._splitter or Splitter()
        self._splitter.add(self._recent[:older])
        del self._recent[:older]
