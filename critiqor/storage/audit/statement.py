"""The statement of a monitor about the recorders of its run: what each of them produced, record by record."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from critiqor.storage.atomic import open_regular_file, write_bytes

DIGEST_BYTES = 8
"""Bytes of the digest of a record that are kept."""
RESERVED_BYTES = 1 << 15
"""Bytes that are reserved for a statement without the digests of records, which can be written on a full disk."""
MAX_BYTES = 1 << 28
"""Maximum size of a statement that is read."""


def digest_of(data: bytes) -> bytes:
    """Return the digest that a statement has of a record, given as its line of the journal without the line break."""
    return hashlib.sha256(data).digest()[:DIGEST_BYTES]


class RecorderStatement(msgspec.Struct, frozen=True, kw_only=True):
    """What a monitor knows about one recorder."""

    writer: str
    pid: int | None = None
    started_at: float | None = None
    """Start time of the process, in seconds since 1970."""
    program: str | None = None
    is_of_tree: bool = True
    """Whether the process was one of the launched OpenClaw."""
    produced: int
    lost: int = 0
    has_ended: bool = False
    """Whether it ended properly."""
    found_seal: bool = False
    """Whether it found the run sealed, and stopped writing."""
    irregular: int = 0
    """Reports that a recorder does not make: out of order, repeated, or from a second process."""
    digests: bytes | None = None
    """The digest of each record, `DIGEST_BYTES` each; zeros for one that was not written.

    Null if there was no space for them."""

    @property
    def written(self) -> int:
        """How many records had been written for certain: all but the last one, which may be under way."""
        return self.produced if self.has_ended else max(0, self.produced - 1)


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """What a monitor knows about the records of its run."""

    recorders: list[RecorderStatement] = msgspec.field(default_factory=list)
    lifecycle: dict[str, str] = msgspec.field(default_factory=dict)
    """The lifecycle events that the monitor wrote: event id and digest, in hexadecimal digits."""
    altered: list[str] = msgspec.field(default_factory=list)
    """Files beside the journal that the monitor found changed, in words."""
    is_open: bool = False
    """Whether recorders may have gone on without the monitor: their later records are not confirmed by it."""
    required: dict[str, int] | None = None
    """How many records of each recorder belong to the evidence of a run that was finalized while it was recorded; null
    for all of them."""

    since: int | None = None
    """When a guard began to count, in milliseconds since 1970; null for a monitor, which counts from the start."""
    until: int | None = None
    """When a guard ended before the recording did; null if it did not."""

    def covers(self, moment: int) -> bool:
        """Whether records of this time, in milliseconds since 1970, had to be reported."""
        return (self.since is None or moment >= self.since) and (self.until is None or moment <= self.until)

    @property
    def is_valid(self) -> bool:
        """Whether its numbers agree with each other; those of a damaged file do not."""
        required = self.required or {}
        return all(
            one.produced >= 0
            and one.lost >= 0
            and (one.digests is None or len(one.digests) == DIGEST_BYTES * one.produced)
            and 0 <= required.get(one.writer, 0) <= one.produced
            for one in self.recorders
        )


class StatementFile:
    """The file of a statement, for which space is reserved when the monitor starts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        write_bytes(path, b" " * RESERVED_BYTES)
        self._descriptor = path.open("r+b", buffering=0)

    def write(self, statement: Statement) -> None:
        """Write the statement; on a full disk, without the digests of records. Raise OSError if neither is possible."""
        try:
            write_bytes(self._path, msgspec.json.encode(statement))
        except OSError:
            brief = [msgspec.structs.replace(one, digests=None) for one in statement.recorders]
            data = msgspec.json.encode(msgspec.structs.replace(statement, recorders=brief, lifecycle={}))
            if len(data) > RESERVED_BYTES:
                raise
            self._descriptor.seek(0)
            self._descriptor.write(data.ljust(RESERVED_BYTES))
        finally:
            self._descriptor.close()


def read_statement(path: Path) -> Statement | None:
    """Return the statement of a monitor that has ended; None if it left none that can be read."""
    try:
        with open_regular_file(path) as file:
            statement = msgspec.json.decode(file.read(MAX_BYTES), type=Statement)
        return statement if statement.is_valid else None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
