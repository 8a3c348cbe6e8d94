"""Blocks of bytes to records.

A block without damage is decoded in one call, and once more if it has unknown fields, which a newer OpenClaw may write.
A block with a damaged line is read again line by line, so that only the damaged line is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from critiqor.timeline.reader.line_repair import repair_line, unknown_fields
from critiqor.timeline.reader.problems import LineProblems
from critiqor.timeline.reader.records import Record, decoder, strict_decoder

MAX_LINE_BYTES = 1 << 20
"""OpenClaw's lines have a few hundred bytes."""

MAX_EXAMINED_LINES = 1024
"""Lines of a file that are searched for all of their unknown fields; after that, one line of a block."""
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field .* - at `\$\[(\d+)\]`", re.DOTALL)

RecordHandler = Callable[[Sequence[Record], int], None]
"""Takes the records of consecutive lines, at least one, and the number of the first of these lines, counted from 1."""


class LineReader:
    """Decodes bytes as they arrive and passes the records to a handler."""

    def __init__(self, handle: RecordHandler, problems: LineProblems) -> None:
        self._handle = handle
        self.problems = problems
        self._rest = b""
        self._skipping = False
        self._number = 0
        self._examined = 0
        self.bytes = 0
        self.lines = 0
        """Lines that are not empty, without the one that has not ended yet."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the file; they may end anywhere."""
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
        """Read what is left as a last line without its line break."""
        if self._rest:
            self._read_line(self._rest, terminated=False)
            self._rest = b""

    def _keep(self, rest: bytes) -> None:
        """Keep the beginning of a line until its end arrives, unless it is too long for a line."""
        if self._skipping:
            return
        if len(rest) <= MAX_LINE_BYTES:
            self._rest = rest
            return
        self._rest = b""
        self._skipping = True
        self._number += 1
        self.lines += 1
        self.problems.unreadable.add(self._number, "too_long")

    def _read(self, block: bytes) -> None:
        if not block:
            return  # all of it belonged to a line that is too long
        count = len(block) - len(block.replace(b"\n", b""))  # five times as fast as bytes.count
        records = self._decode(block, count)
        if len(records) != count:
            for line in block.split(b"\n")[:-1]:
                self._read_line(line)
            return
        self._handle(records, self._number + 1)
        self._number += count
        self.lines += count

    def _decode(self, block: bytes, count: int) -> Sequence[Record]:
        """Return the records of a block of `count` lines; fewer if any line is damaged."""
        if len(block) > MAX_LINE_BYTES and max(map(len, block.split(b"\n"))) > MAX_LINE_BYTES:
            return []
        try:
            if not block.isascii():
                block.decode()  # the decoder does not validate values that it skips
            return strict_decoder.decode_lines(block)
        except msgspec.ValidationError as error:
            unknown = _UNKNOWN_FIELD.fullmatch(str(error))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return []
        if unknown is None:
            return []
        try:
            records = decoder.decode_lines(block)
        except (msgspec.DecodeError, RecursionError):
            return []
        if len(records) == count:
            self._note_unknown_fields(block, int(unknown[1]))
        return records

    def _note_unknown_fields(self, block: bytes, first: int) -> None:
        """Note the unknown fields of a block without damage, of which `first` is the first line that has any."""
        if self._examined < MAX_EXAMINED_LINES:
            lines = block.split(b"\n")[first:-1]
        else:
            lines = block.split(b"\n", first + 1)[first : first + 1]
            self.problems.irregular.mark_incomplete("unknown_field")
        self._examined += len(lines)
        for number, line in enumerate(lines, self._number + first + 1):
            for name in unknown_fields(line):
                self.problems.irregular.add(number, "unknown_field", name)

    def _read_line(self, line: bytes, *, terminated: bool = True) -> None:
        self._number += 1
        if not line or line.isspace():
            return
        self.lines += 1
        if len(line) > MAX_LINE_BYTES:
            self.problems.unreadable.add(self._number, "too_long")
            return
        record = repair_line(line, self._number, self.problems, terminated=terminated)
        if record is not None:
            self._handle([record], self._number)
