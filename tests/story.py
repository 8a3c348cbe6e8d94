"""Agent runs as stories: one short method call per step, which becomes events as in sealed evidence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from critiqor.diagnosis import Diagnoser
from critiqor.model import Coverage, Diagnosis, Event, Finding, event_id_for, iso_from_ms, ms_from_iso
from critiqor.model.event import place_of
from critiqor.model.timeline import TimelineSummary

START = 1_794_000_000_000


class Story:
    """One agent run, step by step; every method returns the story, so that steps can be chained."""

    def __init__(self, session: str = "agent:main:main", run: str = "run-1", *, start: int = START) -> None:
        self.events: list[Event] = []
        self._session: str | None = session
        self._run: str | None = run
        self._now = start
        self._calls = 0

    def event(self, event_type: str, *, layer: str = "extension_api", after: int = 1000, **fields: Any) -> Story:
        """Any event, `after` milliseconds after the one before."""
        self._now += after
        alone = layer == "supervisor"
        self.events.append(
            Event(
                event_id=event_id_for(self._now, "0supervisor" if alone else "story", len(self.events) + 1),
                event_type=event_type,
                raw_event_type=event_type,
                timestamp=iso_from_ms(self._now),
                source_layer=layer,
                session_key=None if alone else self._session,
                agent_run_id=None if alone else self._run,
                **fields,
            )
        )
        return self

    def starts(self, *, trigger: str = "user") -> Story:
        """The agent run begins, or is tried again."""
        return self.event("agent_start", payload={"attempt": 1, "trigger": trigger})

    def turns_to(self, run: str, session: str | None = None) -> Story:
        """Continue in another agent run; in the same session, unless one is given."""
        self._run, self._session = run, session or self._session
        return self

    def waits(self, milliseconds: int) -> Story:
        """Let time pass without events."""
        self._now += milliseconds
        return self

    def asks(self, **payload: Any) -> Story:
        """A request to a model, whose answer is still to come."""
        return self.event("before_provider_request", payload=payload)

    def compacts(self, **payload: Any) -> Story:
        return self.event("compaction_start").event("compaction_end", payload=payload)

    def user(self, text: str) -> Story:
        return self.event("input", payload={"role": "user", "text": text})

    def says(self, text: str, *, stop_reason: str = "stop") -> Story:
        return self.event("message_end", payload={"role": "assistant", "text": text, "stop_reason": stop_reason})

    def calls(
        self, tool: str, arguments: Any = None, output: Any = "ok", *, error: str | None = None, ms: int = 50
    ) -> Story:
        """A call with its result; with `error`, one that failed."""
        call_id = self.begins(tool, arguments)
        return self.ends(tool, call_id, output, error=error, ms=ms)

    def begins(self, tool: str, arguments: Any = None, *, call_id: str | None = None, **payload: Any) -> str:
        """A call without its result, so far; returns its id."""
        self._calls += 1
        call_id = call_id or f"call_{self._calls}"
        known = {"arguments": arguments, **payload}
        self.event("tool_call", layer="tool_hooks", tool_name=tool, tool_call_id=call_id, payload=known)
        return call_id

    def ends(self, tool: str, call_id: str, output: Any = "ok", *, error: str | None = None, ms: int = 50) -> Story:
        """The result of a call."""
        result = {"content": [{"type": "text", "text": output}]} if isinstance(output, str) else output
        return self.event(
            "tool_output",
            layer="tool_hooks",
            tool_name=tool,
            tool_call_id=call_id,
            status="error" if error else "ok",
            error=error,
            duration_ms=ms,
            payload={"result": result},
        )

    def fails(self, tool: str, arguments: Any = None, error: str = "it broke", output: str = "") -> Story:
        return self.calls(tool, arguments, output, error=error)

    def runs(self, command: str, output: str = "", *, exit_code: int = 0) -> Story:
        """A command line; one that exits non-zero is an error, as the recorder has it."""
        error = f"exit code {exit_code}" if exit_code else None
        return self.calls("exec", {"command": command}, output, error=error)

    def model(
        self,
        *,
        input: int = 1000,
        output: int = 20,
        cost: float | None = 0.001,
        budget: int | None = 128_000,
        error: str | None = None,
        **payload: Any,
    ) -> Story:
        """A model call; with `error`, one that failed."""
        priced = {} if cost is None else {"cost": {"total": cost}}
        usage = None if error else {"input": input, "output": output, **priced}
        known = {"provider": "lab", "model": "scripted", "usage": usage, "contextTokenBudget": budget, **payload}
        return self.event("token_usage", status="error" if error else "ok", error=error, duration_ms=100, payload=known)

    def remembers(self, query: str, lookup: str = "found") -> Story:
        """A lookup in memory that ended with `found`, `empty` or `error`."""
        return self.event(
            "memory_event", layer="tool_hooks", tool_name="memory_search", payload={"query": query, "lookup": lookup}
        )

    def finishes(self, *, error: str | None = None, **payload: Any) -> Story:
        status = "error" if error else "ok"
        return self.event("agent_end", status=status, error=error, payload={"success": True, **payload})

    def process(self, exit_code: int = 0, *, error: str | None = None, reason: str = "nonzero_exit") -> Story:
        """The end of the process as the supervisor saw it."""
        self.event("process_end", layer="supervisor", payload={"exit_code": exit_code})
        if error is not None:
            self.event("error_event", layer="supervisor", status="error", error=error, payload={"reason": reason})
        return self

    def diagnosis(self, **coverage: Any) -> Diagnosis:
        return diagnose(self.events, **coverage)

    def findings(self, **coverage: Any) -> list[Finding]:
        return self.diagnosis(**coverage).failure_analysis.findings

    def types(self, **coverage: Any) -> list[str]:
        """The types of all findings, the worst first."""
        return [finding.type for finding in self.findings(**coverage)]

    def only(self, type_: str, **coverage: Any) -> Finding:
        """The one finding of a type."""
        found = [finding for finding in self.findings(**coverage) if finding.type == type_]
        assert len(found) == 1, [(finding.type, finding.title) for finding in self.findings(**coverage)]
        return found[0]


def diagnose(events: Iterable[Event], timing: TimelineSummary | None = None, **coverage: Any) -> Diagnosis:
    """Return the diagnosis of events; unless `coverage` says otherwise, the recorder missed nothing."""
    examination = Diagnoser()
    count = 0
    for event in events:
        count += event.source_layer != "supervisor"
        examination.observe(event)
    known = {"agent_events": count, "recorder_attached": True, "sources": {"hooks": True}, **coverage}
    return examination.conclude("run_001", "sha256:0", Coverage(**known), "2026-11-15T00:00:00.000Z", timing)


Verdict = list[tuple[str, str, int]]


def verdict(events: Iterable[Event]) -> Verdict:
    """Return the findings about events without their names: type, severity and count."""
    findings = diagnose(events).failure_analysis.findings
    return sorted((finding.type, finding.severity, finding.occurrences) for finding in findings)


def renamed(events: list[Event]) -> list[Event]:
    """The same story with every id under another name."""
    return [
        msgspec.structs.replace(
            event,
            event_id=_moved(event.event_id, 0, "zzz"),
            session_key=event.session_key and f"other:{event.session_key[::-1]}",
            agent_run_id=event.agent_run_id and f"x-{event.agent_run_id[::-1]}",
            tool_call_id=event.tool_call_id and f"toolu_{event.tool_call_id}_9",
        )
        for event in events
    ]


def shifted(events: list[Event], milliseconds: int) -> list[Event]:
    """The same story at another time."""
    return [
        msgspec.structs.replace(
            event,
            event_id=_moved(event.event_id, milliseconds),
            timestamp=iso_from_ms((ms_from_iso(event.timestamp) or 0) + milliseconds),
        )
        for event in events
    ]


def interleaved(events: list[Event], others: list[Event]) -> list[Event]:
    """Two stories of one gateway, event by event in turn."""
    both: list[Event] = []
    longest = max(len(events), len(others))
    for number in range(longest):
        both += events[number : number + 1] + others[number : number + 1]
    return both


def _moved(event_id: str, milliseconds: int, writer: str | None = None) -> str:
    place = place_of(event_id)
    assert place is not None
    return event_id_for(place.milliseconds + milliseconds, writer or place.writer, place.sequence)
