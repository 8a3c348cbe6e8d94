"""Runs on disk: paths, locks, atomic files, journal, run records, sealed evidence and their verification."""

from critiqor.storage.atomic import AtomicFile, write_bytes, write_json
from critiqor.storage.journal import JournalLine, read_journal
from critiqor.storage.lock import exclusive, hold_session_document
from critiqor.storage.paths import SessionPaths, paths_for

__all__ = [
    "AtomicFile",
    "JournalLine",
    "SessionPaths",
    "exclusive",
    "hold_session_document",
    "paths_for",
    "read_journal",
    "write_bytes",
    "write_json",
]
