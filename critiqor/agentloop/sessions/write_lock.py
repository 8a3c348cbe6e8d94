"""The write lock of a session: one logical writer of a transcript at a time, across processes.

The lock is a file beside the transcript that names its owner: process id, when that process started, and for which run
it writes. Whoever finds the file waits; whoever finds that its owner is dead takes it away. The start time tells a
living owner from a stranger who was given the same process id.

Accepted: owners are compared on one machine, so a folder that several machines share is not protected between them.
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
"""A lock file without an owner is being written this very moment, or its writer died doing so."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.05


class SessionBusyError(CritiqorError):
    """Somebody else writes to this session."""


class NestedLockError(CritiqorError):
    """A writer asked for a lock that it holds already, without saying that it means to."""


class LostLockError(CritiqorError):
    """A writer went on after its lock was taken away."""


class LockOwner(msgspec.Struct, frozen=True, rename="camel"):
    """Who holds a lock, as it stands in the lock file."""

    pid: int
    started_at: float
    """When the process began, in seconds since 1970."""
    token: str
    holder: str
    """The logical writer: a run id."""
    created_at: int
    """Milliseconds since 1970."""

    def is_alive(self) -> bool:
        """Whether the process that wrote this is still there."""
        try:
            process = psutil.Process(self.pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            return abs(process.create_time() - self.started_at) < 1.0
        except psutil.NoSuchProcess:
            return False
        except psutil.Error:
            return True  # somebody else's process, which cannot be asked


class _Identity(NamedTuple):
    """Which file it is; the time as well, because numbers of files are given again."""

    device: int
    inode: int
    modified: int


class WriteLock:
    """A lock that is held, until `release` or the death of the process."""

    def __init__(self, path: Path, owner: LockOwner, identity: _Identity) -> None:
        self.path = path
        self.owner = owner
        self._identity = identity
        self._depth = 1
        self._is_revoked = False

    @property
    def is_held(self) -> bool:
        """Whether writing under it is still right."""
        return self._depth > 0 and not self._is_revoked

    def check(self) -> None:
        """Raise `LostLockError` unless the lock file is still this one's."""
        # Asked before every line of a transcript, so the file is only looked at and not read.
        if not self.is_held or _identity_of(self.path) != self._identity:
            raise LostLockError(
                f"the write lock {self.path.name} is not held any more, so nothing was written",
                fix="send the message again",
            )

    def release(self) -> None:
        """Give it up; a lock that was taken several times, as often as it was taken."""
        if self._depth == 0:
            return
        self._depth -= 1
        if self._depth == 0:
            self._remove()

    def revoke(self) -> None:
        """Take it from a writer that does not come to an end: what it still tries to write is refused."""
        if not self._is_revoked:
            self._is_revoked = True
            self._remove()

    def _take_again(self) -> WriteLock:
        self._depth += 1
        return self

    def _remove(self) -> None:
        if _HELD.get(self.path) is self:
            del _HELD[self.path]
        # Nobody but its owner replaces the file of a living owner, so what is ours now is ours a moment later. A child
        # of a fork has a copy of this lock, and holds nothing.
        if self.owner.pid == os.getpid() and _identity_of(self.path) == self._identity:
            self.path.unlink(missing_ok=True)


_HELD: dict[Path, WriteLock] = {}
"""What this process holds."""


def lock_path(transcript: Path) -> Path:
    """The lock file of a transcript."""
    return transcript.with_name(transcript.name + ".lock")


async def acquire(
    transcript: Path, holder: str, *, timeout: float = DEFAULT_TIMEOUT_SECONDS, allow_reentrant: bool = False
) -> WriteLock:
    """Hold the lock of a transcript for a logical writer; raises `SessionBusyError` after `timeout` seconds.

    The same holder does not get it twice, unless it says `allow_reentrant`: then each one has to be released.
    """
    path = lock_path(transcript)
    held = _HELD.get(path)
    if held is not None and held.is_held and held.owner.holder == holder and held.owner.pid == os.getpid():
        if allow_reentrant:
            return held._take_again()
        raise NestedLockError(f"{holder} holds {path.name} already", fix="release it first, or pass allow_reentrant")
    path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    owner = LockOwner(os.getpid(), _own_start(), token_hex(8), holder, now_ms())
    deadline = time.monotonic() + timeout
    pause = _FIRST_PAUSE
    while (identity := _create(path, owner)) is None:
        if _recover(path):
            continue
        if time.monotonic() >= deadline:
            raise SessionBusyError(
                f"another writer holds the session: {_describe(_read_owner(path))}",
                fix="wait until it has ended, or cancel it",
            )
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
    lock = _HELD[path] = WriteLock(path, owner, identity)
    return lock


def _create(path: Path, owner: LockOwner) -> _Identity | None:
    """Make the lock file; None where there is one."""
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


def _recover(path: Path) -> bool:
    """Take away a lock whose owner is dead; True where there is none any more.

    The file itself is locked for that moment: of several who find the same dead owner one removes its file, and none
    removes the file of whoever came next.
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


def _read_owner(path: Path) -> LockOwner | None:
    try:
        return _decode(path.read_bytes())
    except OSError:
        return None


def _decode(data: bytes) -> LockOwner | None:
    try:
        return msgspec.json.decode(data, type=LockOwner)
    except (msgspec.DecodeError, ValueError):
        return None


def _describe(owner: LockOwner | None) -> str:
    if owner is None:
        return "its lock file names no owner"
    seconds = max(0, now_ms() - owner.created_at) // 1000
    return f"process {owner.pid} with run {owner.holder}, for {seconds} seconds"


_OWN_START: dict[int, float] = {}


def _own_start() -> float:
    pid = os.getpid()
    if pid not in _OWN_START:
        _OWN_START[pid] = psutil.Process(pid).create_time()
    return _OWN_START[pid]
