"""What the recorder and the supervisor saw, as slices of time: agent runs, turns, model calls, tools, and the rest.

A start and its end become one slice. What was never seen to end lasts until its agent run did, until the session went
on with another one, or to the end of the trace, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from critiqor.model.event import Event, EventType, ms_from_iso, place_of
from critiqor.model.resources import ResourceUsage
from critiqor.model.trace import Category, Counter, Fact, Instant, Part, Slice, Track, began_us, label, us_of
from critiqor.reporters.agent_runs import CALL, LOOKUP, RUN, TURN, AgentRun, Begun, depth_of_tool
from critiqor.reporters.facts import facts_of

SUPERVISOR = "supervisor"
RECORDER = "recorder"
FIRST_LOOK_SECONDS = 0.5
"""Memory is first looked at that long after the process began, or after an interval if that is shorter."""
_NOT_SHOWN = frozenset((EventType.STATE_TRANSITION, EventType.RUN_IMPORTED))
"""What happened to the record and not in the run; it can be days later."""


def activity(events: Iterable[Event]) -> Iterator[Part]:
    """The parts of a trace that events tell, which come in their true order."""
    seen = _Activity()
    for event in events:
        seen.observe(event)
        yield from seen.told()
    seen.finish()
    yield from seen.told()


class _Activity:
    def __init__(self) -> None:
        self._told: list[Part] = []
        self._pids: dict[str, int] = {}
        """The processes of those that write events."""
        self._runs: dict[tuple[str | None, str | None], AgentRun] = {}
        self._running: dict[str | None, AgentRun] = {}
        """The agent run that each session is at."""
        self._process: Begun | None = None
        self._launched: int | None = None
        self._in_run = {
            "agent_start": self._attempt_began,
            "agent_end": self._attempt_ended,
            "turn_start": self._turn_began,
            "turn_end": self._turn_ended,
            "before_provider_request": self._request,
            EventType.TOKEN_USAGE: self._response,
            EventType.TOOL_CALL: self._tool_called,
            EventType.TOOL_OUTPUT: self._tool_ended,
            EventType.MEMORY: self._lookup,
            "compaction_start": self._compaction_began,
            "compaction_end": self._compaction_ended,
        }

    def told(self) -> list[Part]:
        """What came since it was asked for last."""
        told, self._told = self._told, []
        return told

    def observe(self, event: Event) -> None:
        """Take in one event."""
        moment = ms_from_iso(event.timestamp)
        kind = event.event_type
        if moment is None or kind in _NOT_SHOWN:
            return
        at = us_of(moment)
        if event.source_layer == "supervisor":
            self._supervised(event, at)
        elif kind in self._in_run:
            self._in_run[kind](self._run_of(event, at), event, at)
        else:
            if kind == EventType.RECORDER_ATTACHED:
                self._attached(event)
            self._instant(self._track_of(event), event, at)

    def finish(self) -> None:
        """There are no more events."""
        for run in self._runs.values():
            for begun, category, depth, end in run.unfinished():
                self._slice(run, begun, category, depth, end, finished=False)
        if self._process is not None:
            self._process_over(None, {}, failed=False)

    def _run_of(self, event: Event, at: int) -> AgentRun:
        scope = (event.session_key, event.agent_run_id)
        run = self._runs.get(scope)
        if run is None:
            run = self._runs[scope] = AgentRun(self._track_of(event), label(event.agent_run_id or ""))
            before = self._running.get(event.session_key)
            if before is not None:
                before.superseded = at  # a session does one thing at a time
                run.reached = before.reached
            self._running[event.session_key] = run
        return run

    def _track_of(self, event: Event) -> Track:
        place = place_of(event.event_id)
        pid = self._pids.get(place.writer) if place is not None else None
        return Track(pid, RECORDER if event.session_key is None else f"session {label(event.session_key)}")

    def _attached(self, event: Event) -> None:
        place, pid = place_of(event.event_id), event.payload.get("pid")
        if place is not None and isinstance(pid, int) and not isinstance(pid, bool):
            self._pids[place.writer] = pid

    def _attempt_began(self, run: AgentRun, event: Event, at: int) -> None:
        self._close(run, at)
        facts = facts_of(event)
        number = facts.get("attempt", 1)
        name = "agent run" if number == 1 else f"agent run, attempt {number}"
        run.attempt = run.begin(label(name), at, facts)
        run.ended = None

    def _attempt_ended(self, run: AgentRun, event: Event, at: int) -> None:
        self._close_turn(run, at)
        begun, run.attempt = run.attempt or _unseen("agent run", event, at), None
        self._ended(run, begun, "agent", RUN, event, at)
        run.ended = at

    def _turn_began(self, run: AgentRun, event: Event, at: int) -> None:
        self._close_turn(run, at)
        facts = facts_of(event)
        run.turn = run.begin(_name_of_turn(facts), at, facts)

    def _turn_ended(self, run: AgentRun, event: Event, at: int) -> None:
        begun, run.turn = run.turn or _unseen(_name_of_turn(facts_of(event)), event, at), None
        self._ended(run, begun, "turn", TURN, event, at)

    def _close(self, run: AgentRun, at: int) -> None:
        """The attempt is over, for another one begins; its end was not told."""
        self._close_turn(run, at)
        if run.attempt is not None:
            self._slice(run, run.attempt, "agent", RUN, at, finished=False)
            run.attempt, run.reached = None, at

    def _close_turn(self, run: AgentRun, at: int) -> None:
        if run.turn is not None:
            self._slice(run, run.turn, "turn", TURN, at, finished=False)
            run.turn, run.reached = None, at

    def _request(self, run: AgentRun, event: Event, at: int) -> None:
        run.requests.begin(_call_id(event), run.begin(_name_of_model(event), at, facts_of(event)))

    def _response(self, run: AgentRun, event: Event, at: int) -> None:
        begun = run.requests.end(_call_id(event)) or run.requests.end_oldest()
        self._ended(run, begun or _unseen(_name_of_model(event), event, at), "model", CALL, event, at)

    def _tool_called(self, run: AgentRun, event: Event, at: int) -> None:
        run.tools.begin(event.tool_call_id, run.begin(_name_of_tool(event), at, facts_of(event)))

    def _tool_ended(self, run: AgentRun, event: Event, at: int) -> None:
        begun = run.tools.end(event.tool_call_id) or _unseen(_name_of_tool(event), event, at)
        self._ended(run, begun, "tool", depth_of_tool(begun), event, at)

    def _lookup(self, run: AgentRun, event: Event, at: int) -> None:
        """A memory is asked, which is told beside the call of its tool: once when it begins and once when it ends."""
        if event.payload.get("lookup") == "pending":
            run.lookups.begin(event.tool_call_id, run.begin("memory lookup", at, facts_of(event)))
            return
        begun = run.lookups.end(event.tool_call_id) or _unseen("memory lookup", event, at)
        self._ended(run, begun, "memory", LOOKUP, event, at)

    def _compaction_began(self, run: AgentRun, event: Event, at: int) -> None:
        run.compactions.begin(None, run.begin("compaction", at, facts_of(event)))

    def _compaction_ended(self, run: AgentRun, event: Event, at: int) -> None:
        begun = run.compactions.end(None) or _unseen("compaction", event, at)
        self._ended(run, begun, "compaction", CALL, event, at)

    def _ended(self, run: AgentRun, begun: Begun, category: Category, depth: int, event: Event, at: int) -> None:
        start = began_us(at / 1000, event.duration_ms)
        if start is not None:
            run.reach_back(begun, start)
        begun.facts = _joined(begun, event)
        run.reached = at
        self._slice(run, begun, category, depth, at, failed=event.status == "error")

    def _slice(
        self,
        run: AgentRun,
        begun: Begun,
        category: Category,
        depth: int,
        end: int | None,
        *,
        finished: bool = True,
        failed: bool = False,
    ) -> None:
        self._told.append(
            Slice(
                track=run.track,
                name=begun.name,
                category=category,
                start_us=begun.start,
                end_us=end,
                depth=depth,
                family=run.family,
                finished=finished,
                failed=failed,
                facts=begun.facts,
            )
        )

    def _instant(self, track: Track, event: Event, at: int) -> None:
        name, facts = label(event.event_type), facts_of(event)
        self._told.append(Instant(track=track, name=name, category="event", at_us=at, facts=facts))

    def _supervised(self, event: Event, at: int) -> None:
        kind = event.event_type
        if kind == EventType.PROCESS_START:
            pid = event.payload.get("pid")
            self._launched = pid if isinstance(pid, int) else None
            self._process = Begun("process", at, facts_of(event))
        elif kind == EventType.PROCESS_END:
            self._process_over(at, facts_of(event), failed=event.payload.get("exit_code") not in (None, 0))
        elif kind == "resource_usage":
            self._resources(event, at)
        else:
            self._instant(Track(None, SUPERVISOR), event, at)

    def _process_over(self, at: int | None, facts: dict[str, Fact], *, failed: bool) -> None:
        begun = self._process or Begun("process", at or 0, {})
        self._process = None
        self._told.append(
            Slice(
                track=Track(self._launched, "process"),
                name=begun.name,
                category="process",
                start_us=begun.start,
                end_us=at,
                finished=at is not None,
                failed=failed,
                facts={**facts, **begun.facts},
            )
        )

    def _resources(self, event: Event, at: int) -> None:
        """The series says how long after its first look, not when that was."""
        try:
            usage = msgspec.convert(event.payload, ResourceUsage)
        except msgspec.ValidationError:
            return
        if self._process is not None:
            first = self._process.start + us_of(min(usage.interval_seconds, FIRST_LOOK_SECONDS) * 1000)
        else:
            first = at - us_of(max((point.seconds for point in usage.series), default=0) * 1000)
        for point in usage.series:
            moment = us_of(first / 1000 + point.seconds * 1000)
            figures = {"": round(point.rss_bytes / (1 << 20), 3)}
            counter = Counter(pid=None, name="memory of all processes", unit="MiB", at_us=moment, figures=figures)
            self._told.append(counter)


def _unseen(name: str, event: Event, at: int) -> Begun:
    """What ended and was never seen to begin."""
    start = began_us(at / 1000, event.duration_ms)
    return Begun(name, at if start is None else start, {**facts_of(event), "beginning_seen": False})


def _joined(begun: Begun, end: Event) -> dict[str, Fact]:
    """What the beginning and the end of something tell together."""
    told = {**begun.facts, **facts_of(end), "event_id": begun.facts["event_id"]}
    if begun.facts["event_id"] != end.event_id:
        told["end_event_id"] = label(end.event_id)
    return told


def _call_id(event: Event) -> str | None:
    call_id = event.payload.get("callId")
    return call_id if isinstance(call_id, str) else None


def _name_of_model(event: Event) -> str:
    names = (event.payload.get("provider"), event.payload.get("model"))
    return label("/".join(name for name in names if isinstance(name, str))) or "model call"


def _name_of_tool(event: Event) -> str:
    return label(event.tool_name or "unknown tool")


def _name_of_turn(facts: dict[str, Fact]) -> str:
    return label(f"turn {facts['turn']}") if "turn" in facts else "turn"
