"""Session store: `sessions.json`, one small document for all sessions of an agent, shared between processes."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.errors import CritiqorError
from critiqor.model import now_ms
from critiqor.storage.paths import FOLDER_MODE

FLUSH_AFTER_SECONDS = 0.05
LOCK_TIMEOUT_SECONDS = 10.0
MAX_STORE_BYTES = 64 << 20
"""A larger file was not written by this store."""


class SessionEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Metadata of a session."""

    session_id: str
    session_started_at: int = 0
    """Milliseconds since 1970, like all times here."""
    last_interaction_at: int = 0
    updated_at: int = 0
    thinking_level: str | None = None
    verbose_level: str | None = None
    trace_level: str | None = None
    model_provider: str | None = None
    """Provider of the model that answered last."""
    model: str | None = None
    auth_profile: str | None = None
    """Name of the credentials that were used."""
    context_tokens: int | None = None
    """Tokens of the last request and its response."""
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    compaction_count: int = 0
    aborted_last_run: bool = False
    """Whether the last run was aborted."""


class _Signature(NamedTuple):
    inode: int
    modified: int
    size: int


class SessionStore:
    """The session entries of one agent, by session key."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, dict[str, Any]] = {}
        self._changed: set[str] = set()
        """Keys of entries that differ from the file."""
        self._unwritten: set[str] = set()
        """Keys passed to `put` that are not in the file yet."""
        self._signature: _Signature | None = None
        self._commit: asyncio.Task[None] | None = None
        self._flush: asyncio.TimerHandle | None = None
        self._writing = asyncio.Lock()
        self._read()

    def get(self, key: str) -> SessionEntry | None:
        """Return the stored entry of a session."""
        self._read()
        return _parse_entry(self._entries.get(key))

    def key_of(self, session_id: str) -> str | None:
        """Return the key of the session with this id."""
        self._read()
        return next((key for key, saved in self._entries.items() if saved.get("sessionId") == session_id), None)

    def is_unwritten(self, key: str) -> bool:
        """Whether `put` was called for a session and the write is still pending."""
        return key in self._unwritten

    async def put(self, key: str, entry: SessionEntry) -> None:
        """Save an entry and return when it is written. Concurrent calls share one write."""
        self._change(key, entry)
        self._unwritten.add(key)
        if self._commit is None:
            self._commit = asyncio.create_task(self._commit_soon())
        await asyncio.shield(self._commit)

    def put_later(self, key: str, entry: SessionEntry) -> None:
        """Save an entry and write it after a short delay."""
        self._change(key, entry)
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(FLUSH_AFTER_SECONDS, self._flush_now)

    async def flush(self) -> None:
        """Write all pending changes of the session store."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if self._commit is not None:
            await asyncio.shield(self._commit)
        if self._changed:
            await self._write()

    def _change(self, key: str, entry: SessionEntry) -> None:
        # Keep fields that other programs have added.
        merged = self._entries.get(key, {}) | msgspec.to_builtins(entry)
        self._entries[key] = {name: value for name, value in merged.items() if value is not None}
        self._changed.add(key)

    def _flush_now(self) -> None:
        self._flush = None
        if self._commit is None and self._changed:
            self._commit = asyncio.create_task(self._commit_soon())
            self._commit.add_done_callback(_ignore_failure)

    async def _commit_soon(self) -> None:
        await asyncio.sleep(0)  # lets concurrent callers add their changes to this write
        self._commit = None
        await self._write()

    async def _write(self) -> None:
        async with self._writing:
            if not self._changed:
                return
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
            descriptor = await _acquire_file_lock(self._path.with_name(self._path.name + ".lock"))
            try:
                self._read()
                _replace(self._path, msgspec.json.encode(self._entries))
                self._changed.clear()
                self._unwritten.clear()
                self._signature = _signature_of(self._path)
            finally:
                os.close(descriptor)

    def _read(self) -> None:
        """Reload the file if another process has written it, and keep unwritten changes of this process."""
        signature = _signature_of(self._path)
        if signature is None or signature == self._signature:
            return
        self._signature = signature
        read = self._decode() if signature.size <= MAX_STORE_BYTES else None
        if read is None:
            # Renamed rather than lost: the next write would replace it. The transcripts do not depend on it.
            with contextlib.suppress(OSError):
                self._path.rename(self._path.with_name(f"{self._path.name}.broken-{now_ms()}"))
            return
        self._entries = read | {key: self._entries[key] for key in self._changed if key in self._entries}

    def _decode(self) -> dict[str, dict[str, Any]] | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, dict[str, Any]])
        except FileNotFoundError:
            return {}
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None


def _ignore_failure(commit: asyncio.Task[None]) -> None:
    """Retrieve the exception of a delayed write. The changes stay pending, and the next write includes them."""
    if not commit.cancelled():
        commit.exception()


def _parse_entry(saved: dict[str, Any] | None) -> SessionEntry | None:
    try:
        return None if saved is None else msgspec.convert(saved, type=SessionEntry)
    except msgspec.ValidationError:
        return None


def _signature_of(path: Path) -> _Signature | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return _Signature(status.st_ino, status.st_mtime_ns, status.st_size)


async def _acquire_file_lock(path: Path) -> int:
    """Return a descriptor that holds the lock until it is closed. Polls, so that waiting does not block the loop."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = asyncio.get_running_loop().time() + LOCK_TIMEOUT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if asyncio.get_running_loop().time() >= deadline:
                os.close(descriptor)
                raise CritiqorError(
                    f"another process holds the lock {path}", fix="stop that process, then try again"
                ) from None
            await asyncio.sleep(0.002)


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    temporary.replace(path)
