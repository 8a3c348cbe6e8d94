"""Where the time of each agent run went, from OpenClaw's timeline and the recorder's events together.

The timeline has the preparation of an agent run and the real times of its requests; the recorder has the tool calls and
the start and end of the agent run. Both use the clock of the same machine and are joined by the agent run id.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from critiqor.model.event import Event, EventType
from critiqor.model.timeline import Turn
from critiqor.model.timestamps import is_real_time, iso_from_ms, ms_from_iso
from critiqor.spans.pairing import SpanPairer
from critiqor.timeline.slowest import Slowest
from critiqor.timeline.span_tree import build_tree, flatten_tree
from critiqor.timeline.spans import ClosedSpan
from critiqor.timeline.turns.recorded_turns import RecordedTurn
from critiqor.timeline.turns.splits import Interval
from critiqor.timeline.turns.timeline_turns import MAX_TURNS

_PROCESS_TYPES = frozenset((EventType.PROCESS_START, EventType.PROCESS_END, EventType.STATE_TRANSITION))
MAX_LIVE = 512
"""Maximum number of agent runs that are kept because they may continue. Older ones are kept if they are slow or in the
timeline."""
MAX_LIVE_CALLS = 16_384
"""Maximum number of their calls that are kept one by one, as far as older ones have ended."""
CHECKED_EVERY = 1024
"""Events between two checks of that number."""
MAX_SLOWEST = 2 * MAX_TURNS
"""The slowest agent runs that are kept: more than are shown, because the timeline can make one slower."""


def attribute_turns(turns: Sequence[Turn], events: Iterable[Event]) -> list[Turn]:
    """Join the turns of a timeline with the events of the recorder; the slowest come first."""
    attribution = Attribution(turns)
    for event in events:
        attribution.observe(event)
    return attribution.turns()


class Attribution:
    """Joins the turns of a timeline with the events of a recording, which come in true order."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._named = {turn.agent_run_id: turn for turn in turns if turn.agent_run_id is not None}
        self._nameless = [turn for turn in turns if turn.agent_run_id is None]
        # Messages are ignored: one that arrives between two agent runs has the id of the first.
        self._pairer = SpanPairer[str](("agent", "model", "tool"))
        self._live: dict[str, RecordedTurn] = {}
        """By agent run id, in the order in which they began."""
        self._wanted: dict[str, RecordedTurn] = {}
        """Older ones that the timeline contains, or may contain."""
        self._slowest: Slowest[RecordedTurn] = Slowest(MAX_SLOWEST)
        self._observed = 0
        """Number of events that started or ended something."""
        self._last: Event | None = None
        self._is_process_running = False
        self.total = 0
        """Number of agent runs."""

    def observe(self, event: Event) -> None:
        """Add one event."""
        kind = event.event_type
        if kind in _PROCESS_TYPES:
            self._observe_process(event)
        else:
            self._last = event
        pairer, run_id = self._pairer, event.agent_run_id
        pair = pairer.handlers.get(kind)
        if pair is None or run_id is None:
            return
        moment = ms_from_iso(event.timestamp)
        if moment is None or not is_real_time(moment):
            return
        at_us = 1000 * moment if moment > 0 else 0
        pairing = pair(pairer.run_of(event, at_us), event, at_us)
        turn = self._live.get(run_id) or self._wanted.get(run_id)
        if turn is None:
            turn = self._live[run_id] = RecordedTurn(pairing.run, run_id, moment)
            self.total += 1
            if len(self._live) > MAX_LIVE:
                turn.add(pairing, event, moment)
                self._retire(self._live.pop(next(iter(self._live))))
                return
        turn.add(pairing, event, moment)
        self._observed += 1
        if self._observed % CHECKED_EVERY == 0:
            self._limit_calls()

    def _limit_calls(self) -> None:
        excess = sum(turn.kept_calls for turn in self._live.values()) - MAX_LIVE_CALLS
        for run_id, turn in list(self._live.items()) if excess > 0 else ():
            if turn.has_ended and excess > 0:
                excess -= turn.kept_calls
                self._retire(self._live.pop(run_id))

    def _observe_process(self, event: Event) -> None:
        if event.event_type == EventType.PROCESS_START:
            self._is_process_running = True
        elif event.event_type == EventType.PROCESS_END:
            self._is_process_running = False
        # A run that is sealed while its process is running is known to have lasted until then.
        if event.event_type != EventType.STATE_TRANSITION or self._is_process_running:
            self._last = event

    def turns(self) -> list[Turn]:
        """Return the turns of the timeline joined with the events, and those that only the recorder saw."""
        last = ms_from_iso(self._last.timestamp) if self._last is not None else None
        runs = {run.run_id: run for run in (*self._slowest.items(), *self._wanted.values(), *self._live.values())}
        named = dict(self._named)
        for run_id, run in runs.items():
            turn = named.get(run_id)
            self._cut(run, max(run.end, last or 0.0, _end_of(turn) if turn is not None else 0.0))
        chosen = list(runs.values())
        if not self._nameless:
            # Most runs are too short to be listed, so their trees are not needed.
            chosen = sorted(chosen, key=lambda run: _order(*_bounds(run, named.get(run.run_id))))[:MAX_TURNS]
        turns = [_joined(run, named.get(run.run_id)) for run in chosen]
        for turn in self._nameless:
            within = [run for run in turns if "timeline" not in run.sources and _contains(turn, run.tree.start_ms)]
            if len(within) == 1:
                turns.remove(within[0])
                turns.append(_joined(runs[within[0].agent_run_id or ""], turn))
            else:
                turns.append(turn)
        turns += [turn for run_id, turn in named.items() if run_id not in runs]
        return sorted(turns, key=lambda turn: (-turn.duration_ms, turn.started_at))[:MAX_TURNS]

    def _retire(self, run: RecordedTurn) -> None:
        self._cut(run, run.end)
        if run.run_id in self._named or any(_contains(turn, run.start) for turn in self._nameless):
            self._wanted[run.run_id] = run
        elif run.duration >= self._slowest.floor:
            self._slowest.offer(run.duration, (run.start, run.run_id), run)

    def _cut(self, run: RecordedTurn, last: float) -> None:
        if self._pairer.runs.get(run.run.scope) is run.run:
            run.cut(self._pairer.forget(run.run), last)


def _joined(run: RecordedTurn, turn: Turn | None) -> Turn:
    """Join what the recorder and the timeline know of one agent run."""
    spans = flatten_tree(turn.tree) if turn is not None else []
    start, end = _bounds(run, turn)
    has_ended = run.has_ended or (turn is not None and turn.ended)
    requests = sorted((span for span in spans if span.kind == "provider"), key=lambda span: span.start)
    intervals = [Interval(span.start, span.end, "provider", "a request", span.failed) for span in requests]
    shown = sorted(run.longest())
    for number, (begin, until, kind, label, failed) in enumerate(shown):
        key = f"{kind}.{number}"
        if kind == "tool":
            spans.append(ClosedSpan("tool", label, key, None, begin, until, failed, kind))
        elif not _is_among(shown[number], requests):
            spans.append(ClosedSpan("provider.request", None, key, None, begin, until, failed, kind))
    tree = build_tree(ClosedSpan("turn", run.run_id, "", None, start, end, False), spans)
    return Turn(
        agent_run_id=run.run_id,
        pid=turn.pid if turn is not None else None,
        started_at=iso_from_ms(int(start)),
        duration_ms=round(end - start, 3),
        ended=has_ended,
        overlapped=turn.overlapped if turn is not None else False,
        sources=["timeline", "recorder"] if turn is not None else ["recorder"],
        requests=max(turn.requests if turn is not None else 0, run.requests),
        failed_requests=max(turn.failed_requests if turn is not None else 0, run.failed_requests),
        tools=run.tools,
        split=run.splitter(intervals).split(start, end, ended=has_ended),
        tree=msgspec.structs.replace(tree, more=tree.more + max(0, run.requests + run.tools - len(shown))),
    )


def _bounds(run: RecordedTurn, turn: Turn | None) -> tuple[float, float]:
    """Return start and end of an agent run, by recorder and timeline."""
    if turn is None:
        return run.start, run.end
    return min(run.start, turn.tree.start_ms), max(run.end, _end_of(turn))


def _order(start: float, end: float) -> tuple[float, str]:
    """Return what turns are sorted by: the slowest first, then the earliest."""
    return (-round(end - start, 3), iso_from_ms(int(start)))


def _is_among(call: Interval, requests: Sequence[ClosedSpan]) -> bool:
    """Whether a model call is one of the requests of the timeline, which are sorted by start."""
    place = bisect_right(requests, call.end, key=lambda span: span.start)
    return place > 0 and requests[place - 1].end >= call.start


def _contains(turn: Turn, moment: float) -> bool:
    return turn.tree.start_ms <= moment <= _end_of(turn)


def _end_of(turn: Turn) -> float:
    return turn.tree.start_ms + turn.tree.duration_ms
