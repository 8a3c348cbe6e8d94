"""Runs on disk: paths, locks, atomic files, journal, run records, sealed evidence and their verification."""

from critiqor.storage.atomic import AtomicFile, open_regular_file, write_bytes, write_json
from critiqor.storage.journal import JournalLine, read_journal
from critiqor.storage.lock import exclusive, take_permanent_lock
from critiqor.storage.paths import SessionPaths, paths_for

__all__ = [
    "AtomicFile",
    "JournalLine",
    "SessionPaths",
    "exclusive",
    "open_regular_file",
    "paths_for",
    "read_journal",
    "take_permanent_lock",
    "write_bytes",
    "write_json",
]
