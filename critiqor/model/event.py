"""One event: a fact of a run, in the envelope that all of them share."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

import msgspec

SourceLayer = Literal["extension_api", "tool_hooks", "supervisor"]


class EventType:
    """Canonical names of what the diagnosis works with; every other event keeps the name it was recorded under."""

    TOOL_CALL = "tool_call"
    TOOL_OUTPUT = "tool_output"
    MEMORY = "memory_event"
    TOKEN_USAGE = "token_usage"
    STATE_TRANSITION = "state_transition"
    PROCESS_START = "process_start"
    PROCESS_END = "process_end"
    ERROR = "error_event"
    RECORDER_ATTACHED = "recorder_attached"
    RUN_IMPORTED = "run_imported"
    """The supervisor's word that the run was recorded by somebody else."""


IMPORT_WRITER = "import"
"""The writer of events that were recorded elsewhere: their numbers are the source's own, and may have holes."""


class Event(msgspec.Struct, kw_only=True, frozen=True):
    """A fact of a run. Unknown fields of a record are left out, missing ones are null."""

    event_id: str = ""
    """Sorts in the order of events, and never changes once it is given."""
    event_type: str
    """Canonical name."""
    raw_event_type: str | None = None
    """The name under which the recorder wrote it."""
    timestamp: str = ""
    """UTC, ISO 8601, milliseconds."""
    source_layer: str = "extension_api"
    """`extension_api`, `tool_hooks`, or `supervisor` for what the monitor itself saw."""
    session_key: str | None = None
    """OpenClaw's session; one gateway run holds many."""
    agent_run_id: str | None = None
    """OpenClaw's own id of the agent run; one session holds many."""
    tool_name: str | None = None
    tool_call_id: str | None = None
    """Ties a call to its result. Ids can repeat: the nth call of an id belongs to its nth result."""
    status: str = "ok"
    """`ok` or `error`, as it really was."""
    error: str | None = None
    """What went wrong, in words."""
    duration_ms: int | float | None = None
    """Milliseconds; null where nothing has ended."""
    payload: dict[str, Any] = msgspec.field(default_factory=dict)
    """What else is known of this kind of event."""


_HOUSEKEEPING = frozenset(
    (EventType.RECORDER_ATTACHED, "gateway_start", "gateway_stop", "session_start", "session_end", "before_reset")
)


def is_agent_activity(event_type: str) -> bool:
    """Whether an event of the recorder tells of an agent's work, and not only of the program around it."""
    return event_type not in _HOUSEKEEPING


def now_ms() -> int:
    """Milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


def iso_from_ms(milliseconds: int) -> str:
    """UTC, ISO 8601, always three decimals and a Z; a time outside the calendar is its first or its last moment."""
    moment = _EPOCH + timedelta(milliseconds=max(_FIRST_MS, min(milliseconds, _LAST_MS)))
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def ms_from_iso(text: str) -> int | None:
    """Milliseconds since 1970, or None when the text is no time; a time without a zone is taken as UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


def event_id_for(milliseconds: int, writer: str, sequence: int) -> str:
    """An id in the form that the recorder uses: it sorts by time, then writer, then the writer's own count."""
    return f"evt_{_base36(max(0, milliseconds)):0>9}_{writer}_{_base36(sequence):0>5}"


class EventPlace(NamedTuple):
    """What an event id says."""

    milliseconds: int
    writer: str
    sequence: int
    """The writer's own count, from 1."""


_EVENT_ID = re.compile(r"evt_([0-9a-z]{9})_([0-9a-z]+)_([0-9a-z]{5,7})")


def place_of(event_id: str) -> EventPlace | None:
    """When and by whom an event was written; None for an id that neither `event_id_for` nor the recorder makes."""
    parts = _EVENT_ID.fullmatch(event_id)
    return EventPlace(int(parts[1], 36), parts[2], int(parts[3], 36)) if parts else None


def recovered_usage(agent_end: Event) -> list[tuple[str, dict[str, Any]]]:
    """Usage of model calls that did not tell it in their own response, as the end of the run does: turn and usage."""
    recovered = agent_end.payload.get("recovered_usage")
    if not isinstance(recovered, list):
        return []
    told = ((str(item.get("turn")), item.get("usage")) for item in recovered if isinstance(item, dict))
    return [(turn, usage) for turn, usage in told if isinstance(usage, dict)]
