"""Turns of agents, found in a timeline.

OpenClaw marks a turn in several ways, none of which is always present: as a span (`agent.turn`, or the outermost span
of the phase `agent-turn`), as provider requests that carry the run id of the agent, and as spans of preparation that
carry no id and precede the first request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from critiqor.model.timeline import Turn
from critiqor.model.timestamps import iso_from_ms
from critiqor.timeline.reader.records import Line, Mark, ProviderCall, SpanStart, agent_run_of_call, moment_ms
from critiqor.timeline.slowest import Slowest
from critiqor.timeline.span_tree import build_tree, descendants
from critiqor.timeline.spans import ClosedSpan, closed_span, detail_of
from critiqor.timeline.turns.splits import Interval, split_turn

TURN_NAME = "agent.turn"
TURN_PHASE = "agent-turn"
PREPARATION_PHASES = frozenset(("agent.startup", "agent.prepare"))
"""Phases of the spans that precede the first request."""
MAX_TURNS = 20
MAX_LIVE = 32
"""Turns of one process that may not have ended yet."""
MAX_INSIDE = 256
"""Spans kept per turn, in addition to its outermost ones."""
MAX_REQUESTS = 1000
MAX_UNCLAIMED = 128
"""Spans of preparation, and requests, that are not assigned to a turn yet."""
MAX_PAUSE_MS = 10_000.0
"""Longest pause between two spans that prepare the same turn; earlier spans belong to another turn."""
MAX_DEPTH = 64


def _is_turn(record: Line) -> bool:
    """Return whether a span is a turn or a part of one."""
    return record.phase == TURN_PHASE or record.name == TURN_NAME


class _LiveTurn:
    """A turn that may not have ended yet; times in milliseconds since 1970."""

    __slots__ = (
        "at_attempt_start",
        "calls",
        "end",
        "ended",
        "failed",
        "has_root_span",
        "name",
        "overlapped",
        "pid",
        "preparation",
        "requests",
        "run_id",
        "spans",
        "start",
    )

    def __init__(self, run_id: str | None, name: str, pid: int | None, start: float) -> None:
        self.run_id = run_id
        self.name = name
        """Its run id, or the id of its span if it has none."""
        self.pid = pid
        self.start = start
        self.end = start
        self.ended = False
        self.overlapped = False
        self.at_attempt_start = True
        """Whether the next request can be the first of an attempt, which spans of preparation precede."""
        self.has_root_span = False
        """Whether it has a span in the timeline."""
        self.requests = 0
        self.failed = 0
        self.calls: list[ProviderCall] = []
        self.spans: list[Line] = []
        """Its outermost spans and the spans inside them."""
        self.preparation: list[ClosedSpan] = []
        """Spans of its preparation."""

    def add_request(self, record: ProviderCall, start: float) -> None:
        """Add a request to the turn."""
        end = start + (record.duration_ms or 0.0)
        if start < self.start:
            self.start = start
        if end > self.end:
            self.end = end
        failed = record.ok is False
        self.at_attempt_start = failed
        self.failed += failed
        self.requests += 1
        self.ended = False
        if self.requests <= MAX_REQUESTS:
            self.calls.append(record)

    def extend(self, start: float, end: float) -> None:
        """Extend the turn so that it covers this time."""
        if start < self.start:
            self.start = start
        if end > self.end:
            self.end = end

    def summary(self) -> Turn:
        """Return the turn as the timeline alone describes it."""
        root = ClosedSpan("turn", self.run_id, "", None, self.start, self.end, False)
        calls = [closed_span(record) for record in self.calls]
        intervals = [Interval(call.start, call.end, "provider", "a request", call.failed) for call in calls]
        return Turn(
            agent_run_id=self.run_id,
            pid=self.pid,
            started_at=iso_from_ms(int(self.start)),
            duration_ms=round(root.duration, 3),
            ended=self.ended,
            overlapped=self.overlapped,
            sources=["timeline"],
            requests=self.requests,
            failed_requests=self.failed,
            split=split_turn(self.start, self.end, intervals, ended=self.ended),
            tree=build_tree(root, [*self.preparation, *calls, *map(closed_span, self.spans)]),
        )


class TurnTracker:
    """Finds the turns of one process."""

    __slots__ = ("_latest", "_live", "_preparation", "_unassigned_calls", "open", "slowest", "total")

    def __init__(self) -> None:
        self._live: dict[str, _LiveTurn] = {}
        """By name; the most recently used one is last."""
        self._latest: _LiveTurn | None = None
        self._preparation: list[ClosedSpan] = []
        """Spans of preparation that belong to turns without a request yet."""
        self._unassigned_calls: list[ProviderCall] = []
        """Requests without the run id of an agent."""
        self.open: dict[str, None] = {}
        """Ids of open spans that are turns, in order of start: the order of a set would change from run to run."""
        self.slowest: Slowest[_LiveTurn] = Slowest(MAX_TURNS)
        self.total = 0
        """Turns that have ended."""

    def start_span(self, record: SpanStart, open_spans: Mapping[str, SpanStart]) -> None:
        """Take the start of a span that belongs to a turn; the outermost such span is the turn."""
        if not _is_inside_turn(record, open_spans):
            self.open[record.span_id or record.name] = None

    def end_span(self, record: Line, key: str, closed: Sequence[Line]) -> None:
        """Take the end of an outermost span; `closed` are the most recently ended spans."""
        end = moment_ms(record)
        start = end - (record.duration_ms or 0.0)
        self.open.pop(key, None)
        turn = self._turn_of(record, start)
        turn.extend(start, end)
        if self._unassigned_calls:
            self._assign_calls(turn)
        if turn.run_id is None and self.open:
            turn.overlapped = True
        turn.has_root_span = turn.ended = True
        # Most turns are too short to be listed, so their spans are not needed.
        if turn.end - turn.start >= self.slowest.floor:
            turn.spans.append(record)
            turn.spans += descendants(key, closed, MAX_INSIDE - len(turn.spans))

    def add_preparation(self, span: ClosedSpan) -> None:
        """Add a preparation span that is inside no other span."""
        self._preparation.append(span)
        if len(self._preparation) > MAX_UNCLAIMED:
            del self._preparation[0]

    def end_request(self, record: ProviderCall) -> None:
        """Add a finished request to a provider."""
        run_id = agent_run_of_call(record)
        if run_id is None:
            if len(self._unassigned_calls) < MAX_UNCLAIMED:
                self._unassigned_calls.append(record)
            return
        start = record.timestamp.timestamp() * 1000
        turn = self._latest
        if turn is None or turn.name != run_id or turn.at_attempt_start:
            turn = self._turn_of_request(run_id, record.pid, start)
        turn.add_request(record, start)

    def add_mark(self, record: Mark) -> None:
        """Take a mark with the run id of an agent: a request begins, or OpenClaw has decided whether to retry."""
        run_id = agent_run_of_call(record)
        if run_id is not None:
            self._turn_of_request(run_id, record.pid, moment_ms(record))
            return
        turn = self._live.get(record.run_id or "")
        decision = record.attributes.decision if record.attributes is not None else None
        if turn is not None and decision is not None:
            turn.end = max(turn.end, moment_ms(record))
            turn.ended = decision == "rejected"

    def finish(self, still_open: Mapping[str, SpanStart], last: float) -> None:
        """Close all turns; `last` is when the process wrote its last line."""
        for key in self.open:
            if key in still_open:
                record = still_open[key]
                start = moment_ms(record)
                turn = self._turn_of(record, start)
                turn.extend(start, last)
                turn.preparation.append(ClosedSpan(record.name, detail_of(record), key, None, start, last, False))
                turn.ended = False
        for name in list(self._live):
            self._close(self._live.pop(name))

    def _turn_of(self, root: Line, start: float) -> _LiveTurn:
        """Return the turn of a span. Without a run id, it is that of the requests inside the span if they share one."""
        run_id = root.attributes.run_id if root.attributes is not None else None
        if run_id is None:
            within = [turn for turn in self._live.values() if not turn.has_root_span and turn.start >= start]
            if len(within) == 1:
                return within[0]
        return self._turn(run_id, run_id or root.span_id or root.name, root.pid, start)

    def _assign_calls(self, turn: _LiveTurn) -> None:
        for call in self._unassigned_calls:
            if turn.start <= (start := moment_ms(call)) <= turn.end:
                turn.add_request(call, start)
        self._unassigned_calls.clear()

    def _turn_of_request(self, run_id: str, pid: int | None, moment: float) -> _LiveTurn:
        """Return the turn of a request; the first request of an attempt claims the spans that prepared it."""
        turn = self._turn(run_id, run_id, pid, moment)
        if self._preparation and turn.at_attempt_start:
            self._claim(turn, moment)
        return turn

    def _turn(self, run_id: str | None, name: str, pid: int | None, start: float) -> _LiveTurn:
        turn = self._live.pop(name, None)
        if turn is None:
            turn = _LiveTurn(run_id, name, pid, start)
            if len(self._live) >= MAX_LIVE:
                self._close(self._live.pop(next(iter(self._live))))
        self._live[name] = self._latest = turn
        return turn

    def _close(self, turn: _LiveTurn) -> None:
        if turn.calls or turn.has_root_span or turn.preparation:
            self.total += 1
            duration = turn.end - turn.start
            if duration >= self.slowest.floor:
                self.slowest.offer(duration, (turn.start, turn.name), turn)

    def _claim(self, turn: _LiveTurn, request_start: float) -> None:
        """Assign the first preparation span of each kind to the turn, unless a long pause follows it."""
        turn.at_attempt_start = False
        recent: list[ClosedSpan] = []
        following = request_start
        for span in reversed(self._preparation):
            if following - span.end > MAX_PAUSE_MS:
                break
            recent.append(span)
            following = min(following, span.start)
        claimed: set[tuple[str, str | None]] = set()
        self._preparation = []
        for span in reversed(recent):
            kind = (span.name, span.detail)
            if kind in claimed:
                self._preparation.append(span)
            else:
                claimed.add(kind)
                turn.extend(span.start, span.end)
                turn.preparation.append(span)
        turn.overlapped = turn.overlapped or bool(self._preparation)


def _is_inside_turn(record: Line, open_spans: Mapping[str, SpanStart]) -> bool:
    parent = record.parent_span_id
    for _ in range(MAX_DEPTH):
        enclosing = open_spans.get(parent) if parent is not None else None
        if enclosing is None:
            return False
        if _is_turn(enclosing):
            return True
        parent = enclosing.parent_span_id
    return False
