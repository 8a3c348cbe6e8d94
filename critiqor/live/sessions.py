"""What the sessions of a recording are doing: their calls, the agent's last words, and whether it is working."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from critiqor.diagnosis.signals.text import plain_text
from critiqor.model import Event, EventType
from critiqor.model.event import HOUSEKEEPING
from critiqor.model.sanitize import excerpt

MAX_SESSIONS = 200
"""Maximum number of sessions that are kept: those with the latest events."""
MAX_WORDS = 300
"""Maximum number of characters that are kept of a message."""


class SessionActivity(msgspec.Struct):
    """What one session is doing."""

    agent_run_id: str | None = None
    is_working: bool = False
    tool_calls: int = 0
    last_words: str | None = None
    last_event_at: str | None = None


class SessionActivities:
    """Observes the events of a recording, and keeps what the latest sessions are doing."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str | None, SessionActivity] = OrderedDict()
        self.tool_calls = 0
        """Those of all sessions."""

    def observe(self, event: Event) -> None:
        """Process the next event."""
        kind = event.event_type
        if event.source_layer == "supervisor":
            if kind == EventType.PROCESS_END:
                for session in self._sessions.values():
                    session.is_working = False
            return
        if kind in HOUSEKEEPING or kind == "message_received":
            return
        activity = self._sessions.get(event.session_key)
        if activity is None:
            activity = self._sessions[event.session_key] = SessionActivity()
            if len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        else:
            self._sessions.move_to_end(event.session_key)
        activity.last_event_at = event.timestamp
        activity.agent_run_id = event.agent_run_id or activity.agent_run_id
        if kind == "agent_end":
            activity.is_working = False
        elif kind == "message_end":
            _add_message(activity, event)
        else:
            activity.is_working = activity.is_working or kind in _WORK
            if kind == EventType.TOOL_CALL:
                activity.tool_calls += 1
                self.tool_calls += 1

    def of(self, session_key: str | None) -> SessionActivity | None:
        """Return what a session is doing; None if it was forgotten."""
        return self._sessions.get(session_key)

    @property
    def latest(self) -> list[str | None]:
        """The sessions that are kept, the one with the latest event first."""
        return list(reversed(self._sessions))


_WORK = frozenset(("agent_start", "turn_start", "before_provider_request", EventType.TOOL_CALL))


def _add_message(activity: SessionActivity, event: Event) -> None:
    if event.payload.get("role", "assistant") == "assistant":
        text = excerpt(plain_text(event.payload.get("text")), MAX_WORDS)
        activity.last_words = text or activity.last_words
