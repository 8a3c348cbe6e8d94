"""The journal as the loop appends to it: one line a record, one write a line, beside any number of other processes.

A record that could not be written leaves a hole in its writer's numbering, which is how the reader of the evidence
learns that it is missing. Nothing here fails and nothing waits. Lines are not synced to the disk one by one: a process
that is killed loses none of them, a power cut can lose the last seconds.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from critiqor.model import event_id_for, iso_from_ms, now_ms
from critiqor.storage import SessionPaths
from critiqor.storage.atomic import FILE_MODE
from critiqor.storage.lock import SEALED
from critiqor.storage.paths import FOLDER_MODE
from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import Redactor

LOOKED_AFTER_MS = 1000
"""How often it is looked whether the file can be opened, is still there, or was sealed."""
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class JournalWriter:
    """Appends records to the journal of one run."""

    def __init__(
        self,
        paths: SessionPaths,
        run_id: str,
        clock: Callable[[], int] = now_ms,
        on_write: Callable[[], None] = lambda: None,
    ) -> None:
        self._paths = paths
        self._run_id = run_id
        self._clock = clock
        self._on_write = on_write
        self.writer = f"{os.getpid():x}{secrets.token_hex(2)}"
        """Who writes, in event ids."""
        self.written = 0
        self.lost = 0
        """Records that did not reach the disk, and facts that did not become records."""
        self.is_closed = False
        self.sealed = False
        """Whether the run is completed: nothing is written any more."""
        self._sequence = 0
        self._latest = 0
        self._look_at = 0
        self._descriptor: int | None = None
        self._filter: RecordFilter | None = None
        self._torn = False

    def now(self) -> int:
        """The time for the next record: never before one already given, even when the clock steps back."""
        self._latest = max(self._latest, self._clock())
        return self._latest

    def append(self, record: dict[str, Any], at: int) -> bool:
        """Write one record, which gets its id and its time here; `at` can be a little before now."""
        filter_ = self._ready()
        if self.sealed:
            return False
        self._sequence += 1
        kept = filter_ is not None and self._write(record, at, filter_)
        if kept:
            self.written += 1
            self._on_write()
        else:
            self.lost += 1
        return kept

    def lose(self) -> None:
        """Leave a hole in the numbering, for a fact that never became a record."""
        self._sequence += 1
        self.lost += 1

    def close(self) -> None:
        """Close the file for good."""
        self.is_closed = True
        self._release()

    def _release(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = self._filter = None

    def _write(self, record: dict[str, Any], at: int, filter_: RecordFilter) -> bool:
        assert self._descriptor is not None
        try:
            record["event_id"] = event_id_for(at, self.writer, self._sequence)
            record["timestamp"] = iso_from_ms(at)
            line = filter_.journal_line(record)
            data = b"\n" + line + b"\n" if self._torn else line + b"\n"
            self._torn = True  # until it is known to be whole: a failed write can still have left some bytes
            self._torn = os.write(self._descriptor, data) < len(data)
        except Exception:  # a full disk, or a record that nobody has thought of: the agent must not notice
            return False
        return not self._torn

    def _ready(self) -> RecordFilter | None:
        now = self._clock()
        if self.sealed or 0 <= self._look_at - now <= LOOKED_AFTER_MS:
            return self._filter
        self._look_at = now + LOOKED_AFTER_MS
        try:
            # A completed run has no redaction key any more, and must not get another.
            self.sealed = _is_sealed(self._paths.session_lock_path(self._run_id))
            if self.sealed or not self._is_there():
                self._release()
            if not self.sealed and self._descriptor is None:
                self._open()
        except OSError:
            self._release()
        return self._filter

    def _open(self) -> None:
        self._paths.run_folder(self._run_id).mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        filter_ = RecordFilter(Redactor(_shared_key(self._paths.redaction_key_path(self._run_id))))
        self._descriptor = os.open(self._paths.journal_path(self._run_id), _FLAGS, FILE_MODE)
        self._filter = filter_
        self._torn = False

    def _is_there(self) -> bool:
        """Whether the file that is written is still the journal, and was not moved or removed."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._paths.journal_path(self._run_id).stat())
        except OSError:
            return False


def _is_sealed(lock: Path) -> bool:
    try:
        return lock.read_bytes() == SEALED
    except OSError:
        return False  # not there; or whatever keeps it from being read keeps the rest from being written


def _shared_key(path: Path) -> bytes:
    """The key of the run. Processes of one run must agree, and may start together: the first to link its file wins."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    mine = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        mine.touch(FILE_MODE)
        mine.write_text(secrets.token_hex(32))
        try:
            path.hardlink_to(mine)
        except FileExistsError:
            pass
        except OSError:
            mine.replace(path)  # a disk without links
        return path.read_bytes()
    finally:
        mine.unlink(missing_ok=True)
