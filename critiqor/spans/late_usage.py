"""Token usage that is recorded later than its model call: with a message, or at the end of the agent run."""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, TypeVar

from critiqor.model import Event, Scope

MAX_WAITING = 4096
"""Number of model calls that can wait for their usage; of more, the first ones are given up."""
Call = TypeVar("Call")


def has_usage(event: Event) -> bool:
    """Whether a message has the usage of its model call itself, so that no late report of it follows."""
    return event.event_type == "message_end" and isinstance(event.payload.get("usage"), dict)


def recovered_usage(agent_end: Event) -> list[tuple[str, dict[str, Any]]]:
    """Return (turn, usage) of model calls whose own response had no usage, from the end of their agent run."""
    recovered = agent_end.payload.get("recovered_usage")
    if not isinstance(recovered, list):
        return []
    entries = ((str(item.get("turn")), item.get("usage")) for item in recovered if isinstance(item, dict))
    return [(turn, usage) for turn, usage in entries if isinstance(usage, dict)]


class LateUsage(Generic[Call]):
    """Model calls whose usage is not known yet, by agent run and turn."""

    def __init__(self) -> None:
        self._calls: dict[Scope, dict[str, deque[Call]]] = {}
        self._waiting = 0
        """Number of calls."""

    def add(self, event: Event, call: Call) -> None:
        """Add a model call that ended without usage."""
        turns = self._calls.setdefault(Scope(event.session_key, event.agent_run_id), {})
        turns.setdefault(str(event.payload.get("turn")), deque()).append(call)
        self._waiting += 1
        if self._waiting > MAX_WAITING:
            self._give_up_first()

    def take(self, end: Event) -> list[tuple[Call | None, dict[str, object]]]:
        """Return the usage in the end of an agent run, each with its model call or None, and forget the calls."""
        turns = self._calls.pop(Scope(end.session_key, end.agent_run_id), None)
        if turns is None:
            turns = {}
        else:
            self._waiting -= sum(map(len, turns.values()))
        return [(_take(turns, turn), usage) for turn, usage in recovered_usage(end)]

    def _give_up_first(self) -> None:
        scope, turns = next(iter(self._calls.items()))
        _take(turns, next(iter(turns)))
        self._waiting -= 1
        if not turns:
            del self._calls[scope]


def _take(turns: dict[str, deque[Call]], turn: str) -> Call | None:
    # A call that does not name its turn is the first one that is left.
    name = turn if turn in turns else next(iter(turns), None)
    if name is None:
        return None
    call = turns[name].popleft()
    if not turns[name]:
        del turns[name]
    return call
