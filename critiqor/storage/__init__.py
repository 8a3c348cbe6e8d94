"""Bytes on disk: where files are, how they are replaced, appended, locked and sealed. Nothing else knows."""

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
