"""`sessions.json`: one small document for all sessions of an agent, shared by processes."""

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
LARGEST_STORE = 64 << 20
"""Bytes; a larger file is none of ours."""


class SessionEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is remembered of a session."""

    session_id: str
    session_started_at: int = 0
    """Milliseconds since 1970, as all times here."""
    last_interaction_at: int = 0
    updated_at: int = 0
    thinking_level: str | None = None
    verbose_level: str | None = None
    trace_level: str | None = None
    model_provider: str | None = None
    """Of the model that answered last."""
    model: str | None = None
    auth_profile: str | None = None
    """Whose key was used."""
    context_tokens: int | None = None
    """Tokens of the last request and its answer."""
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    compaction_count: int = 0
    aborted_last_run: bool = False
    """Whether the last run did not come to its own end."""


class _Signature(NamedTuple):
    inode: int
    modified: int
    size: int


class SessionStore:
    """The sessions of one agent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, dict[str, Any]] = {}
        self._changed: set[str] = set()
        self._unwritten: set[str] = set()
        self._signature: _Signature | None = None
        self._commit: asyncio.Task[None] | None = None
        self._flush: asyncio.TimerHandle | None = None
        self._writing = asyncio.Lock()
        self._read()

    def get(self, key: str) -> SessionEntry | None:
        """What is remembered of a session."""
        self._read()
        return _entry(self._known.get(key))

    def key_of(self, session_id: str) -> str | None:
        """The session that goes on in this transcript."""
        self._read()
        return next((key for key, saved in self._known.items() if saved.get("sessionId") == session_id), None)

    def is_unwritten(self, key: str) -> bool:
        """Whether a session is known here and not on disk yet."""
        return key in self._unwritten

    async def put(self, key: str, entry: SessionEntry) -> None:
        """Remember this, and return when it is written. Whoever comes at the same time shares one write."""
        self._change(key, entry)
        self._unwritten.add(key)
        if self._commit is None:
            self._commit = asyncio.create_task(self._commit_soon())
        await asyncio.shield(self._commit)

    def put_later(self, key: str, entry: SessionEntry) -> None:
        """Remember this, and write it in a moment."""
        self._change(key, entry)
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(FLUSH_AFTER_SECONDS, self._flush_now)

    async def flush(self) -> None:
        """Write everything that was changed."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if self._commit is not None:
            await asyncio.shield(self._commit)
        if self._changed:
            await self._write()

    def _change(self, key: str, entry: SessionEntry) -> None:
        # What others have added to an entry stays in it.
        merged = self._known.get(key, {}) | msgspec.to_builtins(entry)
        self._known[key] = {name: value for name, value in merged.items() if value is not None}
        self._changed.add(key)

    def _flush_now(self) -> None:
        self._flush = None
        if self._commit is None and self._changed:
            self._commit = asyncio.create_task(self._commit_soon())
            self._commit.add_done_callback(_looked_at)

    async def _commit_soon(self) -> None:
        await asyncio.sleep(0)  # whoever is about to change something as well, does it now
        self._commit = None
        await self._write()

    async def _write(self) -> None:
        async with self._writing:
            if not self._changed:
                return
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
            descriptor = await _locked(self._path.with_name(self._path.name + ".lock"))
            try:
                self._read()
                _replace(self._path, msgspec.json.encode(self._known))
                self._changed.clear()
                self._unwritten.clear()
                self._signature = _signature_of(self._path)
            finally:
                os.close(descriptor)

    def _read(self) -> None:
        """Take over what another process has written; what was changed here and is not written yet stays."""
        signature = _signature_of(self._path)
        if signature is None or signature == self._signature:
            return
        self._signature = signature
        read = self._decode() if signature.size <= LARGEST_STORE else None
        if read is None:
            # Set aside, not lost: the transcripts are still there, and the next write would replace it.
            with contextlib.suppress(OSError):
                self._path.rename(self._path.with_name(f"{self._path.name}.broken-{now_ms()}"))
            return
        self._known = read | {key: self._known[key] for key in self._changed if key in self._known}

    def _decode(self) -> dict[str, dict[str, Any]] | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, dict[str, Any]])
        except FileNotFoundError:
            return {}
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None


def _looked_at(commit: asyncio.Task[None]) -> None:
    """A write that nobody waits for has failed: what has changed is still known, and the next write takes it along."""
    if not commit.cancelled():
        commit.exception()


def _entry(saved: dict[str, Any] | None) -> SessionEntry | None:
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


async def _locked(path: Path) -> int:
    """A descriptor that holds the lock until it is closed; another process that holds it does not stop this one."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = asyncio.get_running_loop().time() + LOCK_TIMEOUT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if asyncio.get_running_loop().time() >= deadline:
                os.close(descriptor)
                raise CritiqorError(f"another process holds {path}", fix="end it, then try again") from None
            await asyncio.sleep(0.002)


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    temporary.replace(path)
