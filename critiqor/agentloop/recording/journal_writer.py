"""Writer for the journal of a recording: one line per record and one write per line, shared by several processes.

A record that could not be written leaves a gap in the numbering of its writer, so that readers of the evidence know
that it is missing. Writing never raises and never waits. Lines are not synced one by one: a killed process loses
none of them, a power failure can lose the last seconds.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from critiqor.errors import BrokenRecordError
from critiqor.model import event_id_for, iso_from_ms, now_ms
from critiqor.model.event import LAST_ID_MS
from critiqor.storage import SessionPaths
from critiqor.storage.atomic import FILE_MODE
from critiqor.storage.audit.closing_records import ClosingFile
from critiqor.storage.audit.statement import digest_of
from critiqor.storage.lock import is_sealed
from critiqor.storage.paths import FOLDER_MODE
from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import Redactor, rules_digest

CHECK_INTERVAL_MS = 1000
"""Interval between checks whether the file can be opened, still exists, or was sealed."""
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class RecordObserver(Protocol):
    """A witness of the records of one writer."""

    def add(self, sequence: int, digest: bytes, /) -> None:
        """Note that the journal writer of the embedded loop is about to write a record."""

    def lose(self, sequence: int, /) -> None:
        """Note that a record was not written."""

    def stop_at_seal(self) -> None:
        """Note that the run was found sealed."""

    def end(self) -> None:
        """Note that the writer ended properly."""


class JournalWriter:
    """Appends records to the journal of one run."""

    def __init__(
        self,
        paths: SessionPaths,
        run_id: str,
        clock: Callable[[], int] = now_ms,
        on_write: Callable[[], None] = lambda: None,
        witness: Callable[[str], RecordObserver] | None = None,
    ) -> None:
        self._paths = paths
        self._run_id = run_id
        self._clock = clock
        self._on_write = on_write
        self.writer = f"{os.getpid():x}{secrets.token_hex(2)}"
        """Id of this writer, which is part of event ids."""
        self._witness = witness(self.writer) if witness is not None else None
        self._closing = ClosingFile()
        self.written = 0
        self.lost = 0
        """Number of records that could not be written, and of facts that could not be recorded."""
        self.is_closed = False
        self.is_sealed = False
        """Whether the recording is sealed, so that nothing more is written."""
        self._sequence = 0
        self._latest = 0
        self._next_check: int | None = None
        self._descriptor: int | None = None
        self._filter: RecordFilter | None = None
        self._torn = False

    def now(self) -> int:
        """Return the time for the next record in ms since 1970; it never decreases, even if the clock does.

        It is one that an event id can have, even if the clock is wrong.
        """
        self._latest = max(self._latest, min(self._clock(), LAST_ID_MS))
        return self._latest

    def append(self, record: dict[str, Any], at: int) -> bool:
        """Write a record and set its id and its time; `at` may be earlier than now."""
        filter_ = self._prepare()
        self._sequence += 1
        if self.is_sealed:
            if self._witness is not None:
                self._witness.lose(self._sequence)
            return False
        kept = filter_ is not None and self._write(record, at, filter_)
        if kept:
            self.written += 1
            self._on_write()
        else:
            self._count_lost()
        return kept

    @property
    def redaction(self) -> str:
        """Version of the redaction rules that are applied to the records."""
        filter_ = self._prepare()
        return rules_digest() if filter_ is None else filter_.redactor.digest

    def lose(self) -> None:
        """Skip a sequence number for something that could not be recorded."""
        self._sequence += 1
        self._count_lost()

    def close(self) -> None:
        """Close the file for good, and leave the counts of its records. Nothing is written into a sealed recording."""
        self.is_closed = True
        self._release()
        if is_sealed(self._paths.session_lock_path(self._run_id)):
            self._closing.release()
        else:
            self._closing.close(self.writer, self._sequence, self.lost)
        if self._witness is not None:
            self._witness.end()

    def _count_lost(self) -> None:
        self.lost += 1
        if self._witness is not None:
            self._witness.lose(self._sequence)

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
            if self._witness is not None:
                self._witness.add(self._sequence, digest_of(line))
            self._torn = True  # a failed write may still have written some bytes
            self._torn = os.write(self._descriptor, data) < len(data)
        except Exception:  # a full disk or an unexpected value must not disturb the agent
            return False
        return not self._torn

    def _prepare(self) -> RecordFilter | None:
        now = self._clock()
        is_checked = self._next_check is not None and 0 <= self._next_check - now <= CHECK_INTERVAL_MS
        if self.is_sealed or is_checked:
            return self._filter
        self._next_check = now + CHECK_INTERVAL_MS
        try:
            # A sealed recording has no redaction key any more, and must not get a new one.
            self.is_sealed = is_sealed(self._paths.session_lock_path(self._run_id))
            if self.is_sealed and self._witness is not None:
                self._witness.stop_at_seal()
            if self.is_sealed or not self._is_current():
                self._release()
            if not self.is_sealed and self._descriptor is None:
                self._open()
        except (OSError, BrokenRecordError):
            self._release()
        return self._filter

    def _open(self) -> None:
        self._paths.run_folder(self._run_id).mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        key = _shared_key(self._paths.redaction_key_path(self._run_id))
        filter_ = RecordFilter(Redactor.of_run(key, self._paths.redaction_rules_path(self._run_id)))
        self._descriptor = os.open(self._paths.journal_path(self._run_id), _FLAGS, FILE_MODE)
        self._closing.reserve(self._paths.closing_path(self._run_id, self.writer), self.writer)
        self._filter = filter_
        self._torn = False

    def _is_current(self) -> bool:
        """Whether the open file is still the journal, that is, was not moved or removed."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._paths.journal_path(self._run_id).stat())
        except OSError:
            return False


def _shared_key(path: Path) -> bytes:
    """Return the redaction key of the recording.

    All processes of a recording must use the same key and may start together: the first to link its file wins.
    """
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
            mine.replace(path)  # a file system without hard links
        return path.read_bytes()
    finally:
        mine.unlink(missing_ok=True)
