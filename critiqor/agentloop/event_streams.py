"""Event streams of agent runs: numbered, ordered events that listeners receive while a run executes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from critiqor.model import now_ms

Stream = Literal["lifecycle", "assistant", "thinking", "tool", "command_output", "usage", "compaction", "run_status"]


class AgentEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One event of an agent run."""

    run_id: str
    session_key: str
    agent_id: str
    stream: Stream
    data: dict[str, Any]
    seq: int
    """Sequence number within the run, from 1 without gaps."""
    ts: int
    """Milliseconds since 1970."""


def is_prompt_report(event: AgentEvent, run_id: str) -> bool:
    """Return whether an event of the stream `run_status` reports on a prompt of this run, as a traced run does."""
    return event.run_id == run_id and event.stream == "run_status" and event.data.get("phase") == "trace"


Listener = Callable[[AgentEvent], None]


class EventStreams:
    """Numbers events and passes them to all listeners. An exception in a listener does not affect the others."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._sequences: dict[str, int] = {}
        self.listener_errors = 0

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on. Return a function that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def emit(self, run_id: str, session_key: str, agent_id: str, stream: Stream, **data: Any) -> AgentEvent:
        """Number an event and pass it to all listeners."""
        sequence = self._sequences[run_id] = self._sequences.get(run_id, 0) + 1
        event = AgentEvent(
            run_id=run_id,
            session_key=session_key,
            agent_id=agent_id,
            stream=stream,
            data=data,
            seq=sequence,
            ts=now_ms(),
        )
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception:
                self.listener_errors += 1
        return event

    def forget(self, run_id: str) -> None:
        """Drop the sequence counter of a run that has ended."""
        self._sequences.pop(run_id, None)
