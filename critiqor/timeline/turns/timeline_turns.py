"""Turns of agents, as far as a timeline tells them.

OpenClaw marks a turn in several ways, and none of them is there always: as a span of its own (`agent.turn`, or the
outermost span of the phase `agent-turn`), as requests to a provider that bear the run id of the agent, and as steps of
preparation that bear nothing and just come before the first request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from critiqor.model.event import iso_from_ms
from critiqor.model.timeline import Turn
from critiqor.timeline.reader.records import Line, Mark, ProviderCall, SpanStart, detail_of, moment_ms
from critiqor.timeline.spans import ClosedSpan, Slowest, closed_span, descendants
from critiqor.timeline.trees import grow
from critiqor.timeline.turns.splits import Stretch, split_of

TURN_NAME = "agent.turn"
TURN_PHASE = "agent-turn"
PREPARING = frozenset(("agent.startup", "agent.prepare"))
"""Phases of the steps that come before the first request."""
MOST_TURNS = 20
MOST_LIVE = 32
"""Turns of one process that can still go on."""
MOST_INSIDE = 256
"""Spans kept of one turn, beside its outermost ones."""
MOST_REQUESTS = 1000
MOST_STEPS = 128
"""Steps of preparation that no turn has claimed yet."""
LONGEST_PAUSE_MS = 10_000.0
"""Between two steps of preparing one turn; after a longer one the earlier steps were somebody else's."""
DEEPEST = 64
_CALL = ":model:"


def run_of_call(record: Line) -> str | None:
    """The run id of the agent, where the line is about a request of one: its span id is `<run id>:model:<number>`."""
    return record.run_id if record.span_id is not None and _CALL in record.span_id else None


def is_turn(record: Line) -> bool:
    """Whether a span says to be a turn, or a part of one."""
    return record.phase == TURN_PHASE or record.name == TURN_NAME


class LiveTurn:
    """A turn while it goes on."""

    __slots__ = (
        "calls",
        "end",
        "ended",
        "failed",
        "name",
        "overlapped",
        "pid",
        "requests",
        "retrying",
        "rooted",
        "run_id",
        "spans",
        "start",
        "steps",
    )

    def __init__(self, run_id: str | None, name: str, pid: int | None, start: float) -> None:
        self.run_id = run_id
        self.name = name
        """Its run id, or the id of its span where that is all there is."""
        self.pid = pid
        self.start = start
        self.end = start
        self.ended = False
        self.overlapped = False
        self.retrying = True
        """Whether the next request can be the first of an attempt, which steps of preparation come before."""
        self.rooted = False
        """Whether a span stands for it."""
        self.requests = 0
        self.failed = 0
        self.calls: list[ProviderCall] = []
        self.spans: list[Line] = []
        """Its outermost spans, and what was inside of them."""
        self.steps: list[ClosedSpan] = []
        """Of its preparation."""

    def asked(self, record: ProviderCall, start: float) -> None:
        """A request was part of it."""
        end = start + (record.duration_ms or 0.0)
        if start < self.start:
            self.start = start
        if end > self.end:
            self.end = end
        failed = record.ok is False
        self.retrying = failed
        self.failed += failed
        self.requests += 1
        self.ended = False
        if self.requests <= MOST_REQUESTS:
            self.calls.append(record)

    def reaches(self, start: float, end: float) -> None:
        """Something that was part of it went on for that time."""
        if start < self.start:
            self.start = start
        if end > self.end:
            self.end = end

    def told(self) -> Turn:
        """The turn as the timeline alone knows it."""
        root = ClosedSpan("turn", self.run_id, "", None, self.start, self.end, False)
        calls = [closed_span(record) for record in self.calls]
        stretches = [Stretch(call.start, call.end, "provider", "a request", call.failed) for call in calls]
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
            split=split_of(self.start, self.end, stretches, ended=self.ended),
            tree=grow(root, [*self.steps, *calls, *map(closed_span, self.spans)]),
        )


class Turns:
    """The turns of one process."""

    __slots__ = ("_latest", "_live", "_loose_calls", "_steps", "open", "over", "slowest")

    def __init__(self) -> None:
        self._live: dict[str, LiveTurn] = {}
        """By name; the one that was touched last comes last."""
        self._latest: LiveTurn | None = None
        self._steps: list[ClosedSpan] = []
        """Of turns that have not said anything yet."""
        self._loose_calls: list[ProviderCall] = []
        """Requests that do not say whose they are."""
        self.open: set[str] = set()
        """Open spans that stand for turns."""
        self.slowest: Slowest[LiveTurn] = Slowest(MOST_TURNS)
        self.over = 0

    def span_started(self, record: SpanStart, around: Mapping[str, SpanStart]) -> None:
        """A span that says to be part of a turn; the outermost one stands for the turn."""
        if not _is_inside_a_turn(record, around):
            self.open.add(record.span_id or record.name)

    def span_ended(self, record: Line, key: str, closed: Sequence[Line]) -> None:
        """The end of such an outermost span; `closed` are the last spans that ended."""
        end = moment_ms(record)
        start = end - (record.duration_ms or 0.0)
        self.open.discard(key)
        turn = self._turn_of(record, start)
        turn.reaches(start, end)
        if self._loose_calls:
            self._take_loose_calls(turn)
        if turn.run_id is None and self.open:
            turn.overlapped = True
        turn.rooted = turn.ended = True
        # Most turns are too short to be told of, so that their spans need not be looked for.
        if turn.end - turn.start >= self.slowest.floor:
            turn.spans.append(record)
            turn.spans += descendants(key, closed, MOST_INSIDE - len(turn.spans))

    def step_ended(self, step: ClosedSpan) -> None:
        """A step of preparation that is inside of no other span."""
        self._steps.append(step)
        if len(self._steps) > MOST_STEPS:
            del self._steps[0]

    def request_ended(self, record: ProviderCall) -> None:
        """A request to a provider."""
        run_id, span_id = record.run_id, record.span_id
        if run_id is None or span_id is None or _CALL not in span_id:
            if len(self._loose_calls) < MOST_STEPS:
                self._loose_calls.append(record)
            return
        start = record.timestamp.timestamp() * 1000
        turn = self._latest
        if turn is None or turn.name != run_id or turn.retrying:
            turn = self._asking(run_id, record.pid, start)
        turn.asked(record, start)

    def marked(self, record: Mark) -> None:
        """A mark that bears the run id of an agent: a request begins, or it was decided whether to ask again."""
        run_id = run_of_call(record)
        if run_id is not None:
            self._asking(run_id, record.pid, moment_ms(record))
            return
        turn = self._live.get(record.run_id or "")
        decision = record.attributes.decision if record.attributes is not None else None
        if turn is not None and decision is not None:
            turn.end = max(turn.end, moment_ms(record))
            turn.ended = decision == "rejected"

    def finish(self, still_open: Mapping[str, SpanStart], last: float) -> None:
        """There is no more to come; `last` is when the process was last heard of."""
        for key in self.open:
            if key in still_open:
                record = still_open[key]
                start = moment_ms(record)
                turn = self._turn_of(record, start)
                turn.reaches(start, last)
                turn.steps.append(ClosedSpan(record.name, detail_of(record), key, None, start, last, False))
                turn.ended = False
        for name in list(self._live):
            self._close(self._live.pop(name))

    def _turn_of(self, root: Line, start: float) -> LiveTurn:
        """The turn that a span stands for. One without a run id has that of the requests within it, if it is one."""
        run_id = root.attributes.run_id if root.attributes is not None else None
        if run_id is None:
            within = [turn for turn in self._live.values() if not turn.rooted and turn.start >= start]
            if len(within) == 1:
                return within[0]
        return self._turn(run_id, run_id or root.span_id or root.name, root.pid, start)

    def _take_loose_calls(self, turn: LiveTurn) -> None:
        for call in self._loose_calls:
            if turn.start <= (start := moment_ms(call)) <= turn.end:
                turn.asked(call, start)
        self._loose_calls.clear()

    def _asking(self, run_id: str, pid: int | None, moment: float) -> LiveTurn:
        """The turn that a request is part of; the first one of an attempt claims what was prepared for it."""
        turn = self._turn(run_id, run_id, pid, moment)
        if self._steps and turn.retrying:
            self._claim(turn, moment)
        return turn

    def _turn(self, run_id: str | None, name: str, pid: int | None, start: float) -> LiveTurn:
        turn = self._live.pop(name, None)
        if turn is None:
            turn = LiveTurn(run_id, name, pid, start)
            if len(self._live) >= MOST_LIVE:
                self._close(self._live.pop(next(iter(self._live))))
        self._live[name] = self._latest = turn
        return turn

    def _close(self, turn: LiveTurn) -> None:
        if turn.calls or turn.rooted or turn.steps:
            self.over += 1
            duration = turn.end - turn.start
            if duration >= self.slowest.floor:
                self.slowest.offer(duration, (turn.start, turn.name), turn)

    def _claim(self, turn: LiveTurn, asked: float) -> None:
        """Give the turn the steps that were taken for it: the first one of each kind, if no long pause follows it."""
        turn.retrying = False
        recent: list[ClosedSpan] = []
        following = asked
        for step in reversed(self._steps):
            if following - step.end > LONGEST_PAUSE_MS:
                break
            recent.append(step)
            following = min(following, step.start)
        claimed: set[tuple[str, str | None]] = set()
        self._steps = []
        for step in reversed(recent):
            kind = (step.name, step.detail)
            if kind in claimed:
                self._steps.append(step)
            else:
                claimed.add(kind)
                turn.reaches(step.start, step.end)
                turn.steps.append(step)
        turn.overlapped = turn.overlapped or bool(self._steps)


def _is_inside_a_turn(record: Line, around: Mapping[str, SpanStart]) -> bool:
    parent = record.parent_span_id
    for _ in range(DEEPEST):
        above = around.get(parent) if parent is not None else None
        if above is None:
            return False
        if is_turn(above):
            return True
        parent = above.parent_span_id
    return False
