"""Segments of a recording of the embedded loop: the slot names the run that takes events, and the recorder follows.

Agent runs that have begun end in the run in which they began; the journal of that run is closed when none is left, so
that the run can be sealed.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from critiqor.agentloop.recording.journal_writer import JournalWriter
from critiqor.agentloop.recording.live_view import LiveView
from critiqor.agentloop.recording.run_recording import RunRecording
from critiqor.model import now_ms
from critiqor.storage import SessionPaths, open_regular_file
from critiqor.storage.audit.witness_socket import WitnessConnection

POLL_SECONDS = 1.0
"""How often the slot is read."""
MAX_LEFT_SECONDS = 600.0
"""After that time, the rest of an agent run belongs to the next segment."""
MAX_FILE_BYTES = 1 << 16


class Segment(NamedTuple):
    """The files of one run of a recording."""

    run_id: str
    journal: JournalWriter
    view: LiveView


class _Left(msgspec.Struct):
    """A segment that the recording has left, while agent runs that began in it go on."""

    segment: Segment
    until: float
    was_idle: bool = False


class _Slot(msgspec.Struct):
    run_id: str
    status: str
    recording: str | None = None


class _Guard(msgspec.Struct):
    witness: str = ""


_Document = TypeVar("_Document", bound=msgspec.Struct)


class Segments:
    """The current segment of a recording, and those that it has left."""

    def __init__(
        self,
        paths: SessionPaths,
        recording: str,
        environment: Mapping[str, str],
        clock: Callable[[], int] = now_ms,
    ) -> None:
        """`recording` is its first run. Raise `UsageError` if that is no valid id."""
        self._paths = paths
        self._clock = clock
        self._recording = recording
        slot = Path(environment.get("CRITIQOR_SLOT_FILE", ""))
        self._slot = slot if slot.is_absolute() else None
        # A process that starts late finds the recording in a later run.
        run_id = self._named() or recording
        witness = environment.get("CRITIQOR_WITNESS") if run_id == recording else self._witness_of(run_id)
        self.current = self._open(run_id, witness)
        self._left: list[_Left] = []

    @property
    def is_cut(self) -> bool:
        """Whether the recording can go on in another run."""
        return self._slot is not None

    @property
    def all(self) -> list[Segment]:
        """The segments that are written into, the current one last."""
        return [*(each.segment for each in self._left), self.current]

    def follow(self) -> bool:
        """Go on in another run if the slot names one. Return whether it does."""
        run_id = self._named()
        if run_id is None or run_id == self.current.run_id:
            return False
        self._left.append(_Left(self.current, time.monotonic() + MAX_LEFT_SECONDS))
        self.current = self._open(run_id, self._witness_of(run_id))
        return True

    def close_left(self, runs: Iterable[RunRecording]) -> None:
        """Close segments in which no agent run is under way any more; late records go into the current one."""
        kept, known = [], list(runs)
        for left in self._left:
            own = [run for run in known if run.is_in(left.segment.journal)]
            is_idle = not any(run.is_open for run in own)
            if (is_idle and left.was_idle) or time.monotonic() >= left.until:
                for run in own:
                    run.move(self.current.journal)
                left.segment.journal.close()
            else:
                # Records follow the end of an agent run, such as the delivery of its answer.
                left.was_idle = is_idle
                kept.append(left)
        self._left = kept

    def _open(self, run_id: str, address: str | None) -> Segment:
        view = LiveView(self._paths, run_id)
        witness = functools.partial(WitnessConnection, address) if address else None
        journal = JournalWriter(self._paths, run_id, self._clock, on_write=view.schedule, witness=witness)
        return Segment(run_id, journal, view)

    def _named(self) -> str | None:
        """Return the run that the slot names, if it belongs to this recording."""
        found = _read(self._slot, _Slot) if self._slot is not None else None
        if found is None or found.status != "MONITORING" or self._recording not in (found.run_id, found.recording):
            return None
        return found.run_id

    def _witness_of(self, run_id: str) -> str:
        guard = _read(self._paths.run_folder(run_id) / "guard.json", _Guard)
        return "" if guard is None else guard.witness


def _read(path: Path, kind: type[_Document]) -> _Document | None:
    try:
        with open_regular_file(path) as file:
            return msgspec.json.decode(file.read(MAX_FILE_BYTES), type=kind)
    except (OSError, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
