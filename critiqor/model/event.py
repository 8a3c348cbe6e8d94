"""The event struct, canonical event names and event ids."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

SourceLayer = Literal["extension_api", "tool_hooks", "supervisor"]


class EventType:
    """Canonical names of the events that the diagnosis uses; all other events keep their recorded name."""

    TOOL_CALL = "tool_call"
    TOOL_OUTPUT = "tool_output"
    MEMORY = "memory_event"
    TOKEN_USAGE = "token_usage"
    STATE_TRANSITION = "state_transition"
    PROCESS_START = "process_start"
    PROCESS_END = "process_end"
    GUARD_STARTED = "guard_started"
    """Written by a guard that begins to follow the run of an attached OpenClaw."""
    SEGMENT_STARTED = "segment_started"
    """Written into a run that continues another one."""
    SEGMENT_ENDED = "segment_ended"
    """Written into a run that another one continues."""
    PROMPT_TEXT = "prompt_text"
    """A part of a text that the model was sent, if prompts are recorded."""
    PROCESS_OUTPUT = "process_output"
    """The last that a supervised OpenClaw printed."""
    ERROR = "error_event"
    RECORDER_ATTACHED = "recorder_attached"
    RUN_IMPORTED = "run_imported"
    """Written by the supervisor for a run that was imported."""


IMPORT_WRITER = "import"
"""Writer of imported events: their sequence numbers come from the source and may have gaps."""


USER_STOP = "user"
"""The limit that an event names if the user had the agent stopped, and no limit of a policy was exceeded."""


class Event(msgspec.Struct, kw_only=True, frozen=True):
    """One event of a run. Unknown fields of a record are dropped, missing ones are null."""

    event_id: str = ""
    """Unique id that sorts in the order of events and never changes."""
    event_type: str
    """Canonical name."""
    raw_event_type: str | None = None
    """Name that the recorder wrote."""
    timestamp: str = ""
    """UTC, ISO 8601, milliseconds."""
    source_layer: str = "extension_api"
    """`extension_api`, `tool_hooks`, or `supervisor` for events of the monitor itself."""
    session_key: str | None = None
    """Key of OpenClaw's session; a run of a gateway has many."""
    agent_run_id: str | None = None
    """OpenClaw's id of the agent run; a session has many."""
    tool_name: str | None = None
    tool_call_id: str | None = None
    """Connects a call with its result. Ids can repeat: the nth call with an id belongs to its nth result."""
    status: str = "ok"
    """`ok` or `error`."""
    error: str | None = None
    """Error message; null without an error."""
    duration_ms: int | float | None = None
    """Milliseconds; null for an event that does not end anything."""
    payload: dict[str, Any] = msgspec.field(default_factory=dict)
    """Data that is specific to the event type."""


class Scope(msgspec.Struct, frozen=True):
    """The session and agent run that something belongs to."""

    session_key: str | None = None
    agent_run_id: str | None = None


UNKNOWN = "unknown"
"""Type of an event that names none, or none that its importer knows: it says nothing about an agent."""
HOUSEKEEPING = frozenset(
    (
        *(EventType.RECORDER_ATTACHED, "gateway_start", "gateway_stop", "session_start", "session_end", "before_reset"),
        *(EventType.PROMPT_TEXT, UNKNOWN),
    )
)
"""Events of recorders that are about the process around an agent, and not about the agent's work."""


def is_agent_activity(event_type: str) -> bool:
    """Whether a recorder's event is about an agent's work, and not about the process around it."""
    return event_type not in HOUSEKEEPING


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


LAST_ID_MS = 36**9 - 1
"""The last time that an event id has room for, in milliseconds since 1970: in the year 5188."""


def event_id_for(milliseconds: int, writer: str, sequence: int) -> str:
    """Return an event id as the recorder creates it: it sorts by time, then writer, then sequence number.

    A time of a wrong clock, before 1970 or after `LAST_ID_MS`, becomes the nearest one that an id can have.
    """
    moment = max(0, min(milliseconds, LAST_ID_MS))
    return f"evt_{_base36(moment):0>9}_{writer}_{_base36(sequence):0>5}"


class EventPlace(NamedTuple):
    """The parts of an event id."""

    milliseconds: int
    writer: str
    sequence: int
    """The writer's sequence number, from 1."""


_EVENT_ID = re.compile(r"evt_([0-9a-z]{9})_([0-9a-z]+)_([0-9a-z]{5,7})")


def is_event_id(text: str) -> bool:
    """Whether a text is an event id as a recorder creates it."""
    return _EVENT_ID.fullmatch(text) is not None


# The stages of a pass over the events parse the id of the same event one after another.
@lru_cache(maxsize=16)
def place_of(event_id: str) -> EventPlace | None:
    """Return time, writer and sequence number of an event id; None for an id in another format."""
    parts = _EVENT_ID.fullmatch(event_id)
    return EventPlace(int(parts[1], 36), parts[2], int(parts[3], 36)) if parts else None
