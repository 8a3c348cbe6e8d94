"""From bytes to records, in blocks of whole lines.

A block that is in order is decoded by one call. A block with anything odd in it is read again line by line, so that one
bad line costs only itself.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from critiqor.timeline.reader.line_repair import Ledgers, salvage
from critiqor.timeline.reader.records import Record, decoder

LONGEST_LINE = 1 << 20
"""Bytes; OpenClaw's own lines are a few hundred long."""

Sink = Callable[[list[Record], int], None]


class LineReader:
    """Takes bytes as they come and hands on records with the number of the line that the first of them stands in.

    Within one call of `sink` the records are those of consecutive lines.
    """

    def __init__(self, sink: Sink, ledgers: Ledgers) -> None:
        self._sink = sink
        self.ledgers = ledgers
        self._rest = b""
        self._skipping = False
        self._number = 0
        self.bytes = 0
        self.lines = 0
        """Lines that are not empty, without one that has not ended yet."""

    def feed(self, data: bytes) -> None:
        """The next bytes of the file, however they are cut."""
        self.bytes += len(data)
        end = data.rfind(b"\n") + 1
        if not end:
            self._keep(self._rest + data)
            return
        block, self._rest = self._rest + data[:end], b""
        if self._skipping:
            self._skipping = False
            block = block[block.index(b"\n") + 1 :]
        self._read(block)
        self._keep(data[end:])

    def finish(self) -> None:
        """There is no more: what is left is a last line without its end."""
        if self._rest:
            self._one_line(self._rest, terminated=False)
            self._rest = b""

    def _keep(self, rest: bytes) -> None:
        """Hold the beginning of a line until its end comes, unless it is too long to be one."""
        if self._skipping:
            return
        if len(rest) <= LONGEST_LINE:
            self._rest = rest
            return
        self._rest = b""
        self._skipping = True
        self._number += 1
        self.lines += 1
        self.ledgers.unreadable.note(self._number, "too_long")

    def _read(self, block: bytes) -> None:
        count = len(block) - len(block.replace(b"\n", b""))  # five times as fast as counting
        records = _decoded(block)
        if len(records) != count:
            for line in block.split(b"\n")[:-1]:
                self._one_line(line)
            return
        self._sink(records, self._number + 1)
        self._number += count
        self.lines += count

    def _one_line(self, line: bytes, *, terminated: bool = True) -> None:
        self._number += 1
        if not line or line.isspace():
            return
        self.lines += 1
        if len(line) > LONGEST_LINE:
            self.ledgers.unreadable.note(self._number, "too_long")
            return
        record = salvage(line, self._number, self.ledgers, terminated=terminated)
        if record is not None:
            self._sink([record], self._number)


def _decoded(block: bytes) -> list[Record]:
    """The records of a block in which every line is in order, and fewer than it has lines otherwise."""
    if len(block) > LONGEST_LINE and max(map(len, block.split(b"\n"))) > LONGEST_LINE:
        return []
    try:
        if not block.isascii():
            block.decode()  # the decoder does not look into values that it leaves out
        records: list[Record] = decoder.decode_lines(block)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return records
