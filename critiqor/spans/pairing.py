"""A start and its end become one: agent runs, turns, model calls, tools, lookups in memory, compactions.

What was never seen to end lasts until its agent run did, until the session went on with another one, or to the end of
what is known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from critiqor.model.event import Event, EventType, ms_from_iso, place_of
from critiqor.model.trace import Category, Fact, Track, began_us, label, us_of
from critiqor.spans.facts import facts_of
from critiqor.spans.open_work import CALL, LOOKUP, RUN, TURN, AgentRun, Begun, depth_of_tool

RECORDER = "recorder"
NOT_SHOWN = frozenset((EventType.STATE_TRANSITION, EventType.RUN_IMPORTED))
"""What happened to the record and not in the run; it can be days later."""
Told = TypeVar("Told")


class Pairing(ABC, Generic[Told]):
    """Takes events in their true order, one by one; what is made of them is up to whoever fills in the last methods."""

    def __init__(self) -> None:
        self._told: list[Told] = []
        self._pids: dict[str, int] = {}
        """The processes of those that write events."""
        self._runs: dict[tuple[str | None, str | None], AgentRun] = {}
        self._running: dict[str | None, AgentRun] = {}
        """The agent run that each session is at."""
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

    def told(self) -> list[Told]:
        """What came since it was asked for last."""
        told, self._told = self._told, []
        return told

    def observe(self, event: Event) -> None:
        """Take in one event."""
        moment = ms_from_iso(event.timestamp)
        kind = event.event_type
        if moment is None or kind in NOT_SHOWN:
            return
        at = us_of(moment)
        if event.source_layer == "supervisor":
            self._supervised(event, at)
        elif kind in self._in_run:
            self._in_run[kind](self._run_of(event, at), event, at)
        else:
            if kind == EventType.RECORDER_ATTACHED:
                self._attached(event)
            self._aside(event, at)

    def finish(self) -> None:
        """There are no more events."""
        for run in self._runs.values():
            for begun, category, depth, end in run.unfinished():
                self._over(run, begun, category, depth, end, finished=False)

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
        number = facts_of(event).get("attempt", 1)
        name = "agent run" if number == 1 else f"agent run, attempt {number}"
        run.attempt = self._begin(run, label(name), event, at)
        run.ended = None

    def _attempt_ended(self, run: AgentRun, event: Event, at: int) -> None:
        self._close_turn(run, at)
        begun, run.attempt = run.attempt or _unseen("agent run", event, at), None
        self._ended(run, begun, "agent", RUN, event, at)
        run.ended = at

    def _turn_began(self, run: AgentRun, event: Event, at: int) -> None:
        self._close_turn(run, at)
        run.turn = self._begin(run, _name_of_turn(facts_of(event)), event, at)

    def _turn_ended(self, run: AgentRun, event: Event, at: int) -> None:
        begun, run.turn = run.turn or _unseen(_name_of_turn(facts_of(event)), event, at), None
        self._ended(run, begun, "turn", TURN, event, at)

    def _close(self, run: AgentRun, at: int) -> None:
        """The attempt is over, for another one begins; its end was not told."""
        self._close_turn(run, at)
        if run.attempt is not None:
            self._over(run, run.attempt, "agent", RUN, at, finished=False)
            run.attempt, run.reached = None, at

    def _close_turn(self, run: AgentRun, at: int) -> None:
        if run.turn is not None:
            self._over(run, run.turn, "turn", TURN, at, finished=False)
            run.turn, run.reached = None, at

    def _request(self, run: AgentRun, event: Event, at: int) -> None:
        run.requests.begin(_call_id(event), self._begin(run, _name_of_model(event), event, at))

    def _response(self, run: AgentRun, event: Event, at: int) -> None:
        begun = run.requests.end(_call_id(event)) or run.requests.end_oldest()
        self._ended(run, begun or _unseen(_name_of_model(event), event, at), "model", CALL, event, at)

    def _tool_called(self, run: AgentRun, event: Event, at: int) -> None:
        run.tools.begin(event.tool_call_id, self._begin(run, _name_of_tool(event), event, at))

    def _tool_ended(self, run: AgentRun, event: Event, at: int) -> None:
        begun = run.tools.end(event.tool_call_id) or _unseen(_name_of_tool(event), event, at)
        self._ended(run, begun, "tool", depth_of_tool(begun), event, at)

    def _lookup(self, run: AgentRun, event: Event, at: int) -> None:
        """A memory is asked, which is told beside the call of its tool: once when it begins and once when it ends."""
        if event.payload.get("lookup") == "pending":
            run.lookups.begin(event.tool_call_id, self._begin(run, "memory lookup", event, at))
            return
        begun = run.lookups.end(event.tool_call_id) or _unseen("memory lookup", event, at)
        self._ended(run, begun, "memory", LOOKUP, event, at)

    def _compaction_began(self, run: AgentRun, event: Event, at: int) -> None:
        run.compactions.begin(None, self._begin(run, "compaction", event, at))

    def _compaction_ended(self, run: AgentRun, event: Event, at: int) -> None:
        begun = run.compactions.end(None) or _unseen("compaction", event, at)
        self._ended(run, begun, "compaction", CALL, event, at)

    def _begin(self, run: AgentRun, name: str, event: Event, at: int) -> Begun:
        begun = run.begin(name, at, facts_of(event))
        self._opens(run, begun, event)
        return begun

    def _ended(self, run: AgentRun, begun: Begun, category: Category, depth: int, event: Event, at: int) -> None:
        start = began_us(at / 1000, event.duration_ms)
        if start is not None:
            run.reach_back(begun, start)
        begun.facts = _joined(begun, event)
        run.reached = at
        self._closes(run, begun, event)
        self._over(run, begun, category, depth, at, failed=event.status == "error")

    def _opens(self, run: AgentRun, begun: Begun, event: Event) -> None:
        """Something began, as this event tells."""

    def _closes(self, run: AgentRun, begun: Begun, event: Event) -> None:
        """Something ended, as this event tells, be its beginning seen or not; that it is over is told next."""

    @abstractmethod
    def _over(
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
        """Something is over; at an unknown time where `end` is None."""

    @abstractmethod
    def _aside(self, event: Event, at: int) -> None:
        """An event that neither begins nor ends anything."""

    @abstractmethod
    def _supervised(self, event: Event, at: int) -> None:
        """What the monitor saw."""


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
