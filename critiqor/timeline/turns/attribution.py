"""Where the time of each turn went, from the timeline and the recorder together.

The timeline knows how a turn was prepared and when requests really began and ended; the recorder knows the tools, and
where a turn began and ended. Both use the clock of the same machine, and the run id of the agent joins them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from critiqor.model.event import Event, EventType, iso_from_ms, ms_from_iso
from critiqor.model.timeline import Turn
from critiqor.timeline.span_tree import build_tree, flatten_tree
from critiqor.timeline.spans import ClosedSpan, Slowest
from critiqor.timeline.turns.recorded_turns import TELLING, RecordedTurn
from critiqor.timeline.turns.splits import Interval
from critiqor.timeline.turns.timeline_turns import MAX_TURNS

MOST_LIVE = 512
"""Agent runs that can still go on; of older ones the slowest are kept, and those that the timeline tells of."""
KEPT = 2 * MAX_TURNS
"""The slowest agent runs that are kept: one can be slower with what the timeline knows of it."""


def attribute_turns(turns: Sequence[Turn], events: Iterable[Event]) -> list[Turn]:
    """The turns with what the recorder saw of them, and those that only the recorder saw; the slowest first."""
    attribution = Attribution(turns)
    for event in events:
        attribution.observe(event)
    return attribution.turns()


class Attribution:
    """Knows the turns of a timeline, sees the events of the recording in order, then tells of both."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._named = {turn.agent_run_id: turn for turn in turns if turn.agent_run_id is not None}
        self._nameless = [turn for turn in turns if turn.agent_run_id is None]
        self._live: dict[str, RecordedTurn] = {}
        """By run id; the one that began last comes last."""
        self._wanted: dict[str, RecordedTurn] = {}
        """Older ones that the timeline tells of, or may."""
        self._slowest: Slowest[RecordedTurn] = Slowest(KEPT)
        self._running: dict[str | None, RecordedTurn] = {}
        self._last: Event | None = None
        self._running_process = False
        self.total = 0
        """Agent runs that were seen."""

    def observe(self, event: Event) -> None:
        """Take in one event."""
        if event.event_type == EventType.PROCESS_START:
            self._running_process = True
        elif event.event_type == EventType.PROCESS_END:
            self._running_process = False
        # A run that is sealed while its process goes on is known to have gone on until then.
        if event.event_type != EventType.STATE_TRANSITION or self._running_process:
            self._last = event
        if event.agent_run_id is None or event.event_type not in TELLING:
            return
        moment = ms_from_iso(event.timestamp)
        if moment is not None:
            run = self._live.get(event.agent_run_id) or self._wanted.get(event.agent_run_id)
            if run is None:
                run = self._begun(event.agent_run_id, event.session_key, moment)
            run.observe(event, moment)

    def turns(self) -> list[Turn]:
        """The turns of the timeline with what was seen of them, and those that only the recorder saw; slowest first."""
        last = ms_from_iso(self._last.timestamp) if self._last is not None else None
        runs = {run.run_id: run for run in (*self._slowest.items(), *self._wanted.values(), *self._live.values())}
        named = dict(self._named)
        told = [_joined(run, named.pop(run_id, None), last) for run_id, run in runs.items()]
        for turn in self._nameless:
            within = [run for run in told if "timeline" not in run.sources and _contains(turn, run.tree.start_ms)]
            if len(within) == 1:
                told.remove(within[0])
                told.append(_joined(runs[within[0].agent_run_id or ""], turn, last))
            else:
                told.append(turn)
        told += named.values()
        return sorted(told, key=lambda turn: (-turn.duration_ms, turn.started_at))[:MAX_TURNS]

    def _begun(self, run_id: str, session_key: str | None, moment: float) -> RecordedTurn:
        run = self._live[run_id] = RecordedTurn(run_id, moment)
        self.total += 1
        before = self._running.get(session_key)
        if before is not None:
            before.cut(moment)  # a session does one thing at a time
        self._running[session_key] = run
        if len(self._live) > MOST_LIVE:
            self._close(self._live.pop(next(iter(self._live))))
            self._running = {key: run for key, run in self._running.items() if run.run_id in self._live}
        return run

    def _close(self, run: RecordedTurn) -> None:
        run.cut(run.end)
        if run.run_id in self._named or any(_contains(turn, run.start) for turn in self._nameless):
            self._wanted[run.run_id] = run
        elif run.duration >= self._slowest.floor:
            self._slowest.offer(run.duration, (run.start, run.run_id), run)


def _joined(run: RecordedTurn, turn: Turn | None, last: float | None) -> Turn:
    """One turn of what both know; `last` is the last moment that is known of the recording."""
    spans = flatten_tree(turn.tree) if turn is not None else []
    known = [moment for moment in (last, turn.tree.start_ms + turn.tree.duration_ms if turn else None) if moment]
    run.cut(max([run.end, *known]))
    start, end, ended = run.start, run.end, run.ended
    if turn is not None:
        start = min(start, turn.tree.start_ms)
        end = max(end, turn.tree.start_ms + turn.tree.duration_ms)
        ended = ended or turn.ended
    asked = sorted((span for span in spans if span.kind == "provider"), key=lambda span: span.start)
    stretches = [Interval(span.start, span.end, "provider", "a request", span.failed) for span in asked]
    shown = sorted(run.longest.items())
    for number, (begin, until, kind, label, failed) in enumerate(shown):
        key = f"{kind}.{number}"
        if kind == "tool":
            spans.append(ClosedSpan("tool", label, key, None, begin, until, failed, kind))
        elif not _is_among(shown[number], asked):
            spans.append(ClosedSpan("provider.request", None, key, None, begin, until, failed, kind))
    tree = build_tree(ClosedSpan("turn", run.run_id, "", None, start, end, False), spans)
    return Turn(
        agent_run_id=run.run_id,
        pid=turn.pid if turn is not None else None,
        started_at=iso_from_ms(int(start)),
        duration_ms=round(end - start, 3),
        ended=ended,
        overlapped=turn.overlapped if turn is not None else False,
        sources=["timeline", "recorder"] if turn is not None else ["recorder"],
        requests=max(turn.requests if turn is not None else 0, run.requests),
        failed_requests=max(turn.failed_requests if turn is not None else 0, run.failed_requests),
        tools=run.tools,
        split=run.splitter(stretches).split(start, end, ended=ended),
        tree=msgspec.structs.replace(tree, more=tree.more + max(0, run.requests + run.tools - len(shown))),
    )


def _is_among(call: Interval, asked: Sequence[ClosedSpan]) -> bool:
    """Whether one of the requests of the timeline, in the order of their starts, is this one."""
    place = bisect_right(asked, call.end, key=lambda span: span.start)
    return place > 0 and asked[place - 1].end >= call.start


def _contains(turn: Turn, moment: float) -> bool:
    tree = turn.tree
    return tree.start_ms <= moment <= tree.start_ms + tree.duration_ms
