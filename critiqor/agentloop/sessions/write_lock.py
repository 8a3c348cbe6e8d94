"""The write lock of a session: one logical writer of a transcript at a time, across processes.

The lock is a file next to the transcript that names its owner: process id, start time of the process, and run id. Other
writers wait while the file exists, and remove it if its owner is dead. The start time distinguishes a living owner from
another process that got the same process id.

Known limitation: owners are checked on the local machine only, so a folder shared by several machines is not protected.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

import msgspec
import psutil

from critiqor.errors import CritiqorError
from critiqor.model import now_ms
from critiqor.storage.paths import FOLDER_MODE

DEFAULT_TIMEOUT_SECONDS = 60.0
UNREADABLE_AFTER_SECONDS = 10.0
"""Age after which a lock file without a readable owner counts as stale: its writer died while creating it."""
_FIRST_PAUSE, _MAX_PAUSE = 0.002, 0.05


class SessionBusyError(CritiqorError):
    """Another writer holds the lock of the session."""


class NestedLockError(CritiqorError):
    """A writer requested a lock that it already holds, without `allow_reentrant`."""


class LostLockError(CritiqorError):
    """A writer no longer holds its lock."""


class _LockOwner(msgspec.Struct, frozen=True, rename="camel"):
    """The owner of a lock, as stored in the lock file."""

    pid: int
    started_at: float
    """Start time of the process, in seconds since 1970."""
    token: str
    holder: str
    """The logical writer: a run id."""
    created_at: int
    """Milliseconds since 1970."""

    def is_alive(self) -> bool:
        """Whether the process of the owner still exists."""
        try:
            process = psutil.Process(self.pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            return abs(process.create_time() - self.started_at) < 1.0
        except psutil.NoSuchProcess:
            return False
        except psutil.Error:
            return True  # a process of another user, which cannot be inspected


class _Identity(NamedTuple):
    """Identity of a file. Includes the modification time because inode numbers are reused."""

    device: int
    inode: int
    modified: int


class WriteLock:
    """A held lock, until `release` or the end of the process."""

    def __init__(self, path: Path, owner: _LockOwner, identity: _Identity) -> None:
        self.path = path
        self.owner = owner
        self._identity = identity
        self._depth = 1
        self._is_revoked = False

    @property
    def is_held(self) -> bool:
        """Whether the lock is neither released nor revoked."""
        return self._depth > 0 and not self._is_revoked

    def check(self) -> None:
        """Raise `LostLockError` unless the lock file still belongs to this lock."""
        # Called before every line of a transcript, so it uses stat and does not read the file.
        if not self.is_held or _identity_of(self.path) != self._identity:
            raise LostLockError(
                f"the write lock {self.path.name} is no longer held, so nothing was written",
                fix="send the message again",
            )

    def release(self) -> None:
        """Release the lock. A lock that was acquired several times must be released as often."""
        if self._depth == 0:
            return
        self._depth -= 1
        if self._depth == 0:
            self._remove()

    def revoke(self) -> None:
        """Take the lock away from a writer that does not stop; its further writes are refused."""
        if not self._is_revoked:
            self._is_revoked = True
            self._remove()

    def _reacquire(self) -> WriteLock:
        self._depth += 1
        return self

    def _remove(self) -> None:
        if _HELD.get(self.path) is self:
            del _HELD[self.path]
        # While the owner lives, only the owner replaces the file, so there is no race between the check and the
        # removal. A forked child has a copy of this object, but does not hold the lock.
        if self.owner.pid == os.getpid() and _identity_of(self.path) == self._identity:
            self.path.unlink(missing_ok=True)


_HELD: dict[Path, WriteLock] = {}
"""Locks that this process holds."""


def lock_path(transcript: Path) -> Path:
    """Return the path of a transcript's lock file."""
    return transcript.with_name(transcript.name + ".lock")


async def acquire(
    transcript: Path, holder: str, *, timeout: float = DEFAULT_TIMEOUT_SECONDS, allow_reentrant: bool = False
) -> WriteLock:
    """Acquire the lock of a transcript for a logical writer. Raises `SessionBusyError` after `timeout` seconds.

    The same holder can acquire it again only with `allow_reentrant`; then each acquisition must be released.
    """
    path = lock_path(transcript)
    held = _HELD.get(path)
    if held is not None and held.is_held and held.owner.holder == holder and held.owner.pid == os.getpid():
        if allow_reentrant:
            return held._reacquire()
        raise NestedLockError(f"{holder} already holds {path.name}", fix="release it first, or pass allow_reentrant")
    path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    owner = _LockOwner(os.getpid(), _own_start_time(), token_hex(8), holder, now_ms())
    deadline = time.monotonic() + timeout
    pause = _FIRST_PAUSE
    while (identity := _create(path, owner)) is None:
        if _remove_stale(path):
            continue
        if time.monotonic() >= deadline:
            raise SessionBusyError(
                f"another writer holds the session: {_describe(_read_owner(path))}",
                fix="wait until that agent run has ended, or cancel it",
            )
        await asyncio.sleep(pause)
        pause = min(pause * 2, _MAX_PAUSE)
    lock = _HELD[path] = WriteLock(path, owner, identity)
    return lock


def _create(path: Path, owner: _LockOwner) -> _Identity | None:
    """Create the lock file. Return None if it already exists."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return None
    try:
        os.write(descriptor, msgspec.json.encode(owner))
        return _identity(os.fstat(descriptor))
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _identity(status: os.stat_result) -> _Identity:
    return _Identity(status.st_dev, status.st_ino, status.st_mtime_ns)


def _identity_of(path: Path) -> _Identity | None:
    try:
        return _identity(path.stat())
    except OSError:
        return None


def _remove_stale(path: Path) -> bool:
    """Remove the lock file of a dead owner. Return True if the file is gone.

    The file is locked meanwhile: if several processes find the same dead owner, one removes its file, and none removes
    the file of the next owner.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        owner = _decode(os.read(descriptor, 4096))
        status = os.fstat(descriptor)
        if owner is None:
            is_dead = abs(time.time() - status.st_mtime) > UNREADABLE_AFTER_SECONDS
        else:
            is_dead = not owner.is_alive()
        if not is_dead:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(status, path.stat()):
                path.unlink()
        return True
    finally:
        os.close(descriptor)


def _read_owner(path: Path) -> _LockOwner | None:
    try:
        return _decode(path.read_bytes())
    except OSError:
        return None


def _decode(data: bytes) -> _LockOwner | None:
    try:
        return msgspec.json.decode(data, type=_LockOwner)
    except (msgspec.DecodeError, ValueError):
        return None


def _describe(owner: _LockOwner | None) -> str:
    if owner is None:
        return "unknown (the lock file names no owner)"
    seconds = max(0, now_ms() - owner.created_at) // 1000
    return f"process {owner.pid}, agent run {owner.holder}, for {seconds} seconds"


_OWN_START_TIMES: dict[int, float] = {}


def _own_start_time() -> float:
    pid = os.getpid()
    if pid not in _OWN_START_TIMES:
        _OWN_START_TIMES[pid] = psutil.Process(pid).create_time()
    return _OWN_START_TIMES[pid]
