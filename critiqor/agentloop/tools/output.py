"""What a command writes, kept within bounds: the beginning, the end, and how much is missing between them."""

from __future__ import annotations

import codecs

from critiqor.agentloop.tools.results import left_out

HEAD_CHARS = 10_000
TAIL_CHARS = 20_000
LATEST_CHARS = 2_000
# Terminals obey these, a model and a transcript have no use for them; line ends and tabs stay.
_DROPPED = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(127, 160)])


class Output:
    """Collects bytes as they come."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = ""
        self._tail = ""
        self._left_out = 0

    def add(self, data: bytes, *, final: bool = False) -> None:
        """More of it; with `final` the last of it."""
        text = self._decoder.decode(data, final).translate(_DROPPED)
        room = HEAD_CHARS - len(self._head)
        if room > 0:
            self._head += text[:room]
            text = text[room:]
        self._tail += text
        # Cut only now and then: cutting at every piece would cost the tail each time.
        if len(self._tail) > 2 * TAIL_CHARS:
            self._cut()

    def _cut(self) -> None:
        surplus = max(0, len(self._tail) - TAIL_CHARS)
        self._left_out += surplus
        self._tail = self._tail[surplus:]

    @property
    def text(self) -> str:
        """All that was kept, without the white space at its end."""
        self._cut()
        between = left_out(self._left_out) if self._left_out else ""
        return (self._head + between + self._tail).rstrip()

    @property
    def latest(self) -> str:
        """The last of it, for whoever watches."""
        return (self._head + self._tail)[-LATEST_CHARS:].rstrip()
