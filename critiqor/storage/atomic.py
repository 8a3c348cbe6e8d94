"""Open regular files only, and replace files atomically: temporary file, fsync, rename, fsync of the folder.

Accepted trade-offs: a crash can leave a `.tmp` file behind, which the next write of the same file reuses; two
writers of one file wait for each other; and each write costs two fsyncs, which is negligible at the rate at which run
records change.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import struct
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import msgspec

from critiqor.storage.paths import FOLDER_MODE

FILE_MODE = 0o600
MIN_SHARED = 1 << 16
"""Bytes of a part of a file for which sharing its blocks is tried."""
_FICLONERANGE = 0x4020940D
_CLONE_RANGE = struct.Struct("qQQQ")


def open_regular_file(path: Path, *, buffering: int = 0, follow_links: bool = True) -> BinaryIO:
    """Open a file for reading. Raise `OSError` if it is anything else: opening or reading a pipe could never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow_links else os.O_NOFOLLOW))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "It is not a regular file", str(path))
    return os.fdopen(descriptor, "rb", buffering=buffering)


def read_regular_file(path: Path) -> bytes:
    """Return the content of a file. Raise `OSError` if it is anything else."""
    with open_regular_file(path) as file:
        return file.read()


class AtomicFile:
    """A file that is written in pieces and replaces the old one only when it is complete.

    It counts what is written. If the `with` block raises, the old file stays untouched.
    """

    def __init__(self, path: Path, *, mode: int = FILE_MODE, synced: bool = True) -> None:
        self._path = path
        self._synced = synced
        self._temporary = path.with_name(path.name + ".tmp")
        self._mode = mode
        self.size = 0
        """Bytes written so far."""

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        self._file = os.fdopen(self._claim(), "wb", buffering=1 << 17)
        return self

    def write(self, data: bytes | bytearray) -> None:
        self._file.write(data)
        self.size += len(data)

    def write_range(self, source: BinaryIO, start: int, end: int) -> int:
        """Write a part of another file, with spaces before it if that lets them share blocks. Return the bytes written.

        Fewer are written if the source ends earlier. Blocks are shared where the file system can, as Btrfs and XFS do.
        """
        shared = self._share_blocks(source, start, end)
        left = end - max(start, shared)
        source.seek(max(start, shared))
        while left > 0 and (chunk := source.read(min(left, 1 << 18))):
            self.write(chunk)
            left -= len(chunk)
        return end - start - left

    def _share_blocks(self, source: BinaryIO, start: int, end: int) -> int:
        """Share the whole blocks of a part of another file. Return the position in it up to which all is written."""
        block = os.fstat(source.fileno()).st_blksize
        first = -(-start // block) * block
        length = (end - first) // block * block
        if length < MIN_SHARED:
            return 0
        self._file.flush()
        lead = os.pread(source.fileno(), first - start, start)
        at = -(-(self.size + len(lead)) // block) * block
        if not clone_range(source.fileno(), first, length, self._file.fileno(), at):
            return 0
        self.write(b" " * (at - self.size - len(lead)) + lead)
        self._file.seek(at + length)
        self.size = at + length
        return first + length

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._replace_old()
            else:
                self._temporary.unlink(missing_ok=True)
        except OSError:
            self._temporary.unlink(missing_ok=True)
            raise
        finally:
            # Closing tries again to write what did not fit on a full disk.
            with contextlib.suppress(OSError):
                self._file.close()
        if kind is None and self._synced:
            sync_folder(self._path.parent)

    def _claim(self) -> int:
        """Open the temporary file and lock it until it is renamed or removed."""
        while True:
            try:
                descriptor = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, FILE_MODE)
            except PermissionError as error:
                if not os.path.lexists(self._temporary):
                    error.filename = str(self._path)  # the final path, which the caller knows
                    raise
                # Left behind read-only by a writer that was killed just before the rename.
                self._temporary.unlink()
                continue
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                # Following a symbolic link could overwrite another file.
                self._temporary.unlink()
                continue
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), self._temporary.stat()):
                    os.ftruncate(descriptor, 0)
                    return descriptor
            os.close(descriptor)

    def _replace_old(self) -> None:
        self._file.flush()
        os.fchmod(self._file.fileno(), self._mode)
        if self._synced:
            os.fsync(self._file.fileno())
        self._temporary.replace(self._path)


class DigestedFile(AtomicFile):
    """An atomic file that digests what is written."""

    def __init__(self, path: Path, *, mode: int = FILE_MODE) -> None:
        super().__init__(path, mode=mode)
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        """`sha256:` and the digest of what was written to this file so far."""
        return f"sha256:{self._digest.hexdigest()}"

    def write(self, data: bytes | bytearray) -> None:
        super().write(data)
        self._digest.update(data)


def clone_range(source: int, start: int, length: int, target: int, at: int) -> bool:
    """Let a file that is written share blocks of another one; return False if the file system cannot.

    All numbers are whole blocks.
    """
    try:
        fcntl.ioctl(target, _FICLONERANGE, _CLONE_RANGE.pack(source, start, length, at))
    except OSError:
        return False
    return True


def write_bytes(path: Path, data: bytes, *, synced: bool = True) -> None:
    """Replace a file with these bytes. One that is not synced can be lost, or be empty, after a power failure."""
    with AtomicFile(path, synced=synced) as file:
        file.write(data)


def write_json(path: str | Path, document: Any) -> None:
    """Replace a file with a document as indented JSON; a reader never sees half of it."""
    write_bytes(Path(path), json_document(document))


def json_document(document: Any) -> bytes:
    """Return a document as indented JSON, as it is written to files."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, for the user only, and durably: a file in it must survive a crash."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True, mode=FOLDER_MODE)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to disk: new and renamed files in it survive a crash of the system."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
