"""Session transcripts of OpenClaw: the JSON Lines of its `sessions` folder, and `events.jsonl` of a trajectory export.

Both contain the same entries, each with the id of its predecessor. OpenClaw saves messages a second time when it
rewrites history on a new branch; such copies are left out, because the agent acted only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from critiqor.errors import UsageError
from critiqor.importers.event_writer import EventWriter
from critiqor.importers.files import read_entries
from critiqor.importers.session_entries import SessionEntry, write_session
from critiqor.importers.trace import ImportedTrace
from critiqor.importers.values import as_ms, as_number, as_object, as_text

TRANSCRIPT = "openclaw_transcript"
TRAJECTORY = "openclaw_trajectory"
_ENTRY_TYPES = frozenset(
    (
        *("session", "message", "compaction", "model_change", "thinking_level_change", "custom", "custom_message"),
        *("branch_summary", "label", "session_info"),
    )
)
_RELEVANT = frozenset(("message", "compaction"))


def is_transcript(value: Any) -> bool:
    """Return whether a line belongs to a session transcript."""
    if not isinstance(value, dict) or as_text(value.get("type")) not in _ENTRY_TYPES:
        return False
    return "timestamp" in value and ("parentId" in value or "version" in value)


def is_trajectory(value: Any) -> bool:
    """Return whether a line belongs to a trajectory export of OpenClaw, which contains a transcript."""
    return isinstance(value, dict) and value.get("traceSchema") == "openclaw-trajectory"


def read_transcript(path: Path, key: bytes) -> Iterator[ImportedTrace]:
    """Yield the one session of a transcript."""
    session_id = path.name.split(".")[0]
    broken: list[str] = []
    entries: list[SessionEntry] = []
    for line, value, problem in read_entries(path):
        if not isinstance(value, dict):
            broken.append(f"{line}: {problem or 'not an object'}")
        elif value.get("type") == "session":
            session_id = as_text(value.get("id")) or session_id
        elif as_text(value.get("type")) not in _ENTRY_TYPES:
            broken.append(f"{line}: unknown type {(as_text(value.get('type')) or 'none')[:40]}")
        else:
            entries.append(_from_transcript(line, value))
    yield _session(entries, broken, _open_writer(session_id, key, entries), TRANSCRIPT)


def read_trajectory(path: Path, key: bytes) -> Iterator[ImportedTrace]:
    """Yield the one session of a trajectory export; runtime records besides the transcript are left out."""
    session_id, session_key, has_messages = path.name.split(".")[0], None, False
    broken: list[str] = []
    entries: list[SessionEntry] = []
    for line, value, problem in read_entries(path):
        if not isinstance(value, dict):
            broken.append(f"{line}: {problem or 'not an object'}")
            continue
        session_id = as_text(value.get("sessionId")) or session_id
        session_key = as_text(value.get("sessionKey")) or session_key
        if value.get("source") != "transcript":
            continue
        has_messages = True
        if isinstance(value.get("data"), dict):
            entries.append(_from_trajectory(line, value))
        else:
            broken.append(f"{line}: no data")
    if not has_messages:
        raise UsageError(
            f"{path.name} contains runtime records of OpenClaw, but no messages",
            fix="import the transcript in the same folder, or the events.jsonl of: openclaw sessions export-trajectory",
        )
    yield _session(entries, broken, _open_writer(session_id, key, entries, session_key), TRAJECTORY)


def _open_writer(
    session_id: str, key: bytes, entries: list[SessionEntry], session_key: str | None = None
) -> EventWriter:
    relevant = (entry for entry in entries if entry.kind in _RELEVANT)
    times = (time for entry in relevant for time in (entry.sent_at, entry.saved_at))
    start = next((time for time in times if time is not None), None)
    return EventWriter(session_id, key, session_key=session_key, start=start)


def _session(entries: list[SessionEntry], broken: list[str], writer: EventWriter, format_name: str) -> ImportedTrace:
    for place in broken:
        writer.notes.add("lines that could not be read", place, not_understood=True)
    write_session(_without_copies(entries, writer), writer)
    return writer.trace(format_name)


def _from_transcript(line: int, value: dict[str, Any]) -> SessionEntry:
    kind = as_text(value.get("type")) or ""
    return SessionEntry(
        line=line,
        kind=kind,
        id=as_text(value.get("id")),
        parent=as_text(value.get("parentId")),
        saved_at=as_ms(value.get("timestamp")),
        content=as_object(value.get("message")) if kind == "message" else value,
    )


def _from_trajectory(line: int, value: dict[str, Any]) -> SessionEntry:
    data = as_object(value.get("data"))
    is_message = isinstance(data.get("message"), dict)
    return SessionEntry(
        line=line,
        kind="message" if is_message else (as_text(value.get("type")) or "").removeprefix("session."),
        id=as_text(value.get("entryId")),
        parent=as_text(value.get("parentEntryId")),
        saved_at=as_ms(value.get("ts")),
        content=data["message"] if is_message else data,
    )


def _without_copies(entries: Iterable[SessionEntry], writer: EventWriter) -> Iterator[SessionEntry]:
    """Yield messages and compactions once each; a branch from an earlier entry begins with copies of others."""
    seen: set[tuple[Any, ...]] = set()
    previous: str | None = None
    is_copying = False
    for entry in entries:
        if entry.kind in _RELEVANT:
            parts = (entry.content.get(name) for name in ("role", "toolCallId", "tokensBefore", "firstKeptEntryId"))
            identity = (entry.kind, as_number(entry.content.get("timestamp")), *map(as_text, parts))
            has_jumped = entry.parent is not None and previous is not None and entry.parent != previous
            is_copying = (is_copying or has_jumped) and identity in seen
            seen.add(identity)
            if is_copying:
                writer.notes.add("messages that were saved a second time, left out")
            else:
                yield entry
        previous = entry.id or previous
