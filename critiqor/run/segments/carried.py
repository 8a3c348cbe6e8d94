"""Events that a segment carries over to the next one, so that it can be diagnosed without its predecessor.

They are the latest agent runs of all sessions, as whole agent runs, in a bounded number. The file is written into the
folder of the next run before that run can be sealed, and its digest is part of the evidence there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from critiqor.model import Event
from critiqor.model.event import HOUSEKEEPING, is_event_id
from critiqor.model.evidence import SealedFile
from critiqor.model.timestamps import ms_from_iso
from critiqor.storage import open_regular_file, write_bytes
from critiqor.storage.bounds import is_too_deep
from critiqor.storage.session_document import decode_event, encode

MAX_EVENTS = 2_000
MAX_BYTES = 4_000_000
"""Maximum size of the file; 2,000 records of a usual size take half of it."""
_Key = tuple[str | None, str | None]


class CarriedEvents:
    """Collects the latest agent runs of a segment while its events are sealed."""

    def __init__(self) -> None:
        self._runs: dict[_Key, list[Event]] = {}
        """Events by session and agent run, in order of the last event."""
        self._count = 0

    def add(self, event: Event) -> None:
        """Add the next event."""
        if event.source_layer == "supervisor" or event.event_type in HOUSEKEEPING:
            return
        key = (event.session_key, event.agent_run_id)
        events = self._runs.pop(key, None) or []
        events.append(event)
        self._runs[key] = events
        self._count += 1
        while self._count > MAX_EVENTS:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Drop the agent run without news for longest; of a single one, its first half."""
        oldest = next(iter(self._runs))
        if len(self._runs) > 1:
            self._count -= len(self._runs.pop(oldest))
        else:
            events = self._runs[oldest]
            del events[: max(1, len(events) // 2)]
            self._count = len(events)

    def write(self, path: Path) -> None:
        """Write them in order, without the oldest agent runs if they are too large."""
        while self._count and sum(map(len, lines := self._lines())) > MAX_BYTES:
            self._drop_oldest()
        if self._count:
            write_bytes(path, b"\n".join(lines) + b"\n")

    def _lines(self) -> list[bytes]:
        events = (event for run in self._runs.values() for event in run)
        return [encode(event) for event in sorted(events, key=lambda event: event.event_id)]


def read_carried(path: Path, limit: int = MAX_BYTES + MAX_EVENTS) -> Iterator[Event]:
    """Yield the events of such a file, and nothing if there is none. One that cannot be read is left out.

    `limit` is in bytes. Until the segment is sealed, a program of the same user could change the file.
    """
    try:
        file = open_regular_file(path, buffering=1 << 16)
    except OSError:
        return
    with file:
        for line in file.read(max(0, min(limit, MAX_BYTES + MAX_EVENTS))).splitlines():
            try:
                event = decode_event(line)
                is_sound = is_event_id(event.event_id) and ms_from_iso(event.timestamp) is not None
                if is_sound and not is_too_deep(line, event.payload):
                    yield event
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue


def read_sealed_carried(path: Path, sealed: SealedFile | None) -> Iterator[Event]:
    """Yield the events that were sealed with a run, and none that somebody has added later."""
    return read_carried(path, sealed.bytes if sealed is not None else 0)
