"""The transcript of a session: JSON Lines in the format of OpenClaw 2026.6.1, appended to under its write lock.

The first line is the session header, every other line an entry that names its parent. The visible history is the last
entry and its ancestors. Entries are appended with one write each and are never changed.

Known limitation: nothing is synced to disk, because that would take longer than the rest of a turn. A killed process
loses nothing; a power failure can lose the last seconds and tear the last line, which is then terminated and skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import msgspec

from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import Message, Text, ToolCall, ToolResultMessage, message_to_json
from critiqor.agentloop.sessions.transcript_entries import (
    Entry,
    find_open_calls,
    messages_for_model,
    parse_entry,
)
from critiqor.agentloop.sessions.write_lock import LostLockError, WriteLock, acquire
from critiqor.errors import CritiqorError
from critiqor.model import iso_from_ms, now_ms
from critiqor.storage import read_journal
from critiqor.storage.paths import FOLDER_MODE

VERSION = 3
"""Version of the transcript format."""
ABORTED = "The agent run ended before this tool finished."
INTERRUPTED = "The process that ran this tool ended before the tool finished. The effects of the call are unknown."


class ForeignWriteError(CritiqorError):
    """Another program wrote to the transcript without holding its lock."""


class TranscriptUpdates:
    """Passes each saved message to all listeners. An exception in a listener does not affect the others."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[dict[str, Any]], None]] = []
        self.listener_errors = 0

    def on_transcript(self, listener: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
        """Call `listener` with every message after it was appended to the transcript of a session.

        It gets `{sessionKey, sessionId, agentId, sessionFile, message, messageId, messageSeq}`.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def announce(self, update: dict[str, Any]) -> None:
        """Pass a saved message of a transcript to all listeners."""
        for listener in list(self._listeners):
            try:
                listener(update)
            except Exception:
                self.listener_errors += 1


class TranscriptHead(NamedTuple):
    """The session that a transcript belongs to."""

    session_id: str
    session_key: str
    agent_id: str
    cwd: str


class Transcript:
    """A transcript that is open for one run. Create it with `open_transcript`."""

    def __init__(self, path: Path, head: TranscriptHead, lock: WriteLock, updates: TranscriptUpdates) -> None:
        self.path = path
        self.head = head
        self._lock = lock
        self._updates = updates
        self._entries: list[Entry] = []
        self._leaf: str | None = None
        self._size = 0
        self.message_count = 0
        """Messages saved so far, including those before a compaction."""
        self.unreadable_lines = 0
        """Number of lines that could not be parsed."""

    @property
    def entries(self) -> list[Entry]:
        """The entries visible to the model: the last compaction, if any, and what follows it."""
        return self._entries

    @property
    def messages(self) -> list[Message]:
        """The messages that the model receives, starting with the summary of a compaction, if any."""
        return messages_for_model(self._entries)

    def append(self, message: Message) -> str:
        """Save a message, pass it to the listeners and return the id of its entry."""
        saved = message_to_json(message)
        parent = self._leaf
        entry_id = self._write("message", {"message": saved})
        self._entries.append(Entry(entry_id, parent, message))
        self.message_count += 1
        # As in OpenClaw, tool results are not announced here: `after_tool_call` reports them.
        if not isinstance(message, ToolResultMessage):
            head = self.head
            self._updates.announce(
                {
                    "sessionKey": head.session_key,
                    "sessionId": head.session_id,
                    "agentId": head.agent_id,
                    "sessionFile": str(self.path),
                    "message": saved,
                    "messageId": entry_id,
                    "messageSeq": self.message_count,
                    "runId": self._lock.owner.holder,
                }
            )
        return entry_id

    def append_model_change(self, provider: str, model_id: str) -> None:
        """Append an entry for a change of the model."""
        self._append_note("model_change", {"provider": provider, "modelId": model_id})

    def append_thinking_change(self, level: str) -> None:
        """Append an entry for a change of the thinking level."""
        self._append_note("thinking_level_change", {"thinkingLevel": level})

    def append_compaction(self, summary: str, first_kept: str, tokens_before: int) -> None:
        """Hide everything before `first_kept` from the model behind a summary. The file keeps all entries."""
        facts = {"summary": summary, "firstKeptEntryId": first_kept, "tokensBefore": tokens_before, "fromHook": False}
        parent = self._leaf
        entry_id = self._write("compaction", facts)
        self._entries = _apply_compaction(self._entries, Entry(entry_id, parent, None, summary, first_kept))

    def load(self) -> None:
        """Read the file, or create it with its header."""
        self._lock.check()
        try:
            self._size = self.path.stat().st_size
        except FileNotFoundError:
            self._create()
            return
        entries: list[Entry] = []
        is_torn = False
        for line in read_journal(self.path, self._size):
            is_torn = not line.terminated
            entry = parse_entry(line.data)
            if isinstance(entry, Entry):
                entries.append(entry)
            elif entry is None:
                self.unreadable_lines += 1
        if is_torn:
            self._append(b"\n")
        if self._size == 0:
            self._create()
        branch = _current_branch(entries)
        self._leaf = branch[-1].id if branch else None
        self.message_count = sum(entry.message is not None for entry in branch)
        for entry in branch:
            if entry.summary is None:
                self._entries.append(entry)
            else:
                self._entries = _apply_compaction(self._entries, entry)

    def close_open_calls(self, text: str = INTERRUPTED) -> list[ToolCall]:
        """Save an error result for each tool call without a result. Return those calls."""
        calls = find_open_calls(self._entries)
        for call in calls:
            self.append(
                ToolResultMessage(
                    tool_call_id=call.id,
                    tool_name=call.name,
                    content=[Text(text)],
                    details={"status": "aborted"},
                    is_error=True,
                    timestamp=now_ms(),
                )
            )
        return calls

    def _create(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        first = {"type": "session", "version": VERSION, "id": self.head.session_id}
        self._append(_line(first | {"timestamp": iso_from_ms(now_ms()), "cwd": self.head.cwd}))

    def _append_note(self, kind: str, facts: dict[str, Any]) -> None:
        parent = self._leaf
        self._entries.append(Entry(self._write(kind, facts), parent, None))

    def _write(self, kind: str, facts: dict[str, Any]) -> str:
        entry_id = token_hex(4)
        known = {"type": kind, "id": entry_id, "parentId": self._leaf, "timestamp": iso_from_ms(now_ms())}
        self._append(_line(known | facts))
        self._leaf = entry_id
        return entry_id

    def _append(self, data: bytes) -> None:
        self._lock.check()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if os.fstat(descriptor).st_size != self._size:
                raise ForeignWriteError(
                    f"{self.path.name} was changed by a program that does not hold its lock",
                    fix="stop that program, then send the message again",
                )
            written = 0
            try:
                while written < len(data):
                    written += os.write(descriptor, data[written:])
            except OSError:
                # A partial line would corrupt the next one.
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, self._size)
                raise
            self._size += written
        finally:
            os.close(descriptor)


def open_transcript(path: Path, head: TranscriptHead, lock: WriteLock, updates: TranscriptUpdates) -> Transcript:
    """Open the transcript of a session under its lock: created if new, repaired if its last writer died."""
    transcript = Transcript(path, head, lock, updates)
    transcript.load()
    transcript.close_open_calls()
    return transcript


@contextlib.asynccontextmanager
async def locked_transcript(run: Run, services: Services, cwd: str = "") -> AsyncIterator[Transcript]:
    """Open the transcript of a run under its write lock, for the duration of an `async with` block.

    Tool calls that are still open at the end of the block get an error result.
    """
    session = run.session
    wait = services.configuration.write_lock.acquire_timeout_ms / 1000
    lock = run.lock = await acquire(session.transcript, run.id, timeout=wait)
    try:
        if run.has_emitted_end:
            # The run was abandoned while it waited for the lock.
            raise LostLockError("the agent run has ended, so nothing was written", fix="send the message again")
        head = TranscriptHead(session.id, session.key, session.agent_id, cwd)
        transcript = open_transcript(session.transcript, head, lock, services.updates)
        try:
            yield transcript
        finally:
            # On a full disk or a foreign write this fails, and the next run repairs the transcript.
            with contextlib.suppress(Exception):
                transcript.close_open_calls(ABORTED)
    finally:
        lock.release()


def _line(entry: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(entry) + b"\n"
    except UnicodeEncodeError:
        # Models can produce unpaired surrogates, which UTF-8 cannot represent.
        text = json.dumps(entry, ensure_ascii=False)
        return text.encode("utf-8", "replace") + b"\n"


def _current_branch(entries: list[Entry]) -> list[Entry]:
    """Return the ancestors of the last entry, oldest first: OpenClaw rewrites history by starting a new branch."""
    by_id = {entry.id: index for index, entry in enumerate(entries)}
    branch: list[Entry] = []
    index = len(entries) - 1
    while index >= 0:
        entry = entries[index]
        branch.append(entry)
        # A missing parent was on an unreadable line; the preceding line is the best guess.
        before = by_id.get(entry.parent, index - 1) if entry.parent is not None else -1
        index = min(before, index - 1)
    branch.reverse()
    return branch


def _apply_compaction(entries: list[Entry], compaction: Entry) -> list[Entry]:
    """Return the entries that remain visible after a compaction: the compaction itself and what it kept."""
    kept = next((index for index, entry in enumerate(entries) if entry.id == compaction.first_kept), len(entries))
    return [compaction._replace(kept=1 + len(entries) - kept), *entries[kept:]]
