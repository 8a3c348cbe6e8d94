"""Where the time of each turn went, from the timeline and the recorder together.

The timeline knows how a turn was prepared and when requests really began and ended; the recorder knows the tools, and
where a turn began and ended. Both use the clock of the same machine, and the run id of the agent joins them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from critiqor.model.event import Event, EventType, iso_from_ms, ms_from_iso
from critiqor.model.timeline import Turn
from critiqor.timeline.spans import ClosedSpan
from critiqor.timeline.splits import Stretch, split_of
from critiqor.timeline.trees import flatten, grow
from critiqor.timeline.turns import MOST_TURNS

_REQUEST = "before_provider_request"
_START = "agent_start"
_END = "agent_end"
# Not the messages: one that comes while the session rests bears the id of the run before it.
_TELLING = frozenset((_START, _END, _REQUEST, EventType.TOKEN_USAGE, EventType.TOOL_CALL, EventType.TOOL_OUTPUT))


def attribute_turns(turns: Sequence[Turn], events: Iterable[Event]) -> list[Turn]:
    """The turns with what the recorder saw of them, and those that only the recorder saw; the slowest first."""
    runs = _runs(events)
    named = {turn.agent_run_id: turn for turn in turns if turn.agent_run_id is not None}
    told = [_joined(run, named.pop(run_id, None)) for run_id, run in runs.items()]
    nameless = [turn for turn in turns if turn.agent_run_id is None]
    for turn in nameless:
        within = [run for run in told if "timeline" not in run.sources and _contains(turn, run)]
        if len(within) == 1:
            told.remove(within[0])
            told.append(_joined(runs[within[0].agent_run_id or ""], turn))
        else:
            told.append(turn)
    told += named.values()
    return sorted(told, key=lambda turn: (-turn.duration_ms, turn.started_at))[:MOST_TURNS]


class _Run:
    """What the recorder saw of one agent run."""

    def __init__(self, run_id: str, moment: float) -> None:
        self.run_id = run_id
        self.start = moment
        self.end = moment
        self.ended = False
        self.calls: list[Stretch] = []
        self.tools: list[Stretch] = []
        self._asked: list[float] = []
        self._called: dict[str | None, list[tuple[float, str]]] = {}

    def observe(self, event: Event, moment: float) -> None:
        kind = event.event_type
        self.start = min(self.start, moment)
        self.end = max(self.end, moment)
        if kind == _START:
            self.ended = False
        elif kind == _END:
            self.ended = True
        elif kind == _REQUEST:
            self._asked.append(moment)
        elif kind == EventType.TOKEN_USAGE:
            asked = self._asked.pop(0) if self._asked else moment
            start = min(asked, moment - (event.duration_ms or 0.0))
            self.calls.append(Stretch(start, moment, "provider", "a request", event.status == "error"))
        elif kind == EventType.TOOL_CALL:
            self._called.setdefault(event.tool_call_id, []).append((moment, event.tool_name or "a tool"))
        elif kind == EventType.TOOL_OUTPUT:
            called = self._called.get(event.tool_call_id)
            start, name = called.pop(0) if called else (moment, event.tool_name or "a tool")
            start = min(start, moment - (event.duration_ms or 0.0))
            self.tools.append(Stretch(start, moment, "tool", name, event.status == "error"))

    def cut(self, moment: float) -> None:
        """It cannot have gone on after that: what was under way lasted until then, as far as is known."""
        if self.ended:
            return
        self.calls += [Stretch(asked, moment, "provider", "a request", True) for asked in self._asked]
        self.tools += [
            Stretch(start, moment, "tool", name, True) for called in self._called.values() for start, name in called
        ]
        self._asked.clear()
        self._called.clear()
        self.end = max([self.end, *(stretch.end for stretch in (*self.calls, *self.tools))])


def _runs(events: Iterable[Event]) -> dict[str, _Run]:
    """The agent runs that events tell of, each up to its end or to the last that is known of it."""
    runs: dict[str, _Run] = {}
    running: dict[str | None, _Run] = {}
    last = 0.0
    for event in events:
        moment = ms_from_iso(event.timestamp)
        if moment is None or event.event_type == EventType.STATE_TRANSITION:
            continue
        last = max(last, moment)
        if event.agent_run_id is None or event.event_type not in _TELLING:
            continue
        run = runs.get(event.agent_run_id)
        if run is None:
            run = runs[event.agent_run_id] = _Run(event.agent_run_id, moment)
            before = running.get(event.session_key)
            if before is not None:
                before.cut(moment)  # a session does one thing at a time
            running[event.session_key] = run
        run.observe(event, moment)
    for run in runs.values():
        run.cut(last)
    return runs


def _joined(run: _Run, turn: Turn | None) -> Turn:
    """One turn of what both know."""
    spans = flatten(turn.tree) if turn is not None else []
    start, end, ended = run.start, run.end, run.ended
    if turn is not None:
        start = min(start, turn.tree.start_ms)
        end = max(end, turn.tree.start_ms + turn.tree.duration_ms)
        ended = ended or turn.ended
    asked = sorted((span for span in spans if span.kind == "provider"), key=lambda span: span.start)
    stretches = [Stretch(span.start, span.end, "provider", "a request", span.failed) for span in asked]
    unseen = [call for call in run.calls if not _is_among(call, asked)]
    spans += [
        ClosedSpan("provider.request", None, f"call.{number}", None, *call[:2], call.failed, "provider")
        for number, call in enumerate(unseen)
    ]
    spans += [
        ClosedSpan("tool", tool.label, f"tool.{number}", None, *tool[:2], tool.failed, "tool")
        for number, tool in enumerate(run.tools)
    ]
    root = ClosedSpan("turn", run.run_id, "", None, start, end, False)
    return Turn(
        agent_run_id=run.run_id,
        pid=turn.pid if turn is not None else None,
        started_at=iso_from_ms(int(start)),
        duration_ms=round(end - start, 3),
        ended=ended,
        overlapped=turn.overlapped if turn is not None else False,
        sources=["timeline", "recorder"] if turn is not None else ["recorder"],
        requests=max(turn.requests if turn is not None else 0, len(run.calls)),
        failed_requests=max(turn.failed_requests if turn is not None else 0, sum(call.failed for call in run.calls)),
        tools=len(run.tools),
        split=split_of(root, [*stretches, *run.calls, *run.tools], ended=ended),
        tree=grow(root, spans),
    )


def _is_among(call: Stretch, asked: Sequence[ClosedSpan]) -> bool:
    """Whether one of the requests of the timeline, in the order of their starts, is this one."""
    place = bisect_right(asked, call.end, key=lambda span: span.start)
    return place > 0 and asked[place - 1].end >= call.start


def _contains(turn: Turn, run: Turn) -> bool:
    tree = turn.tree
    return tree.start_ms <= run.tree.start_ms and run.tree.start_ms <= tree.start_ms + tree.duration_ms
