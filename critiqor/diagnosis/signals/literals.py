"""Which of many literals can be in a text: one look at each of its pieces tells it for all of them."""

from __future__ import annotations

from collections.abc import Iterable

MAX_KNOWN = 5_000
"""Maximum number of pieces whose marks are remembered."""


class LiteralIndex:
    """Literals with their marks, searched together. Pieces of texts are often seen again, so they are remembered."""

    def __init__(self, literals: Iterable[tuple[str, int]]) -> None:
        # All parts of a literal are in a text that contains it; the longest one is the rarest.
        self._parts = [(max(literal.split(), key=len), mark) for literal, mark in literals]
        self._known: dict[str, int] = {}
        self._plain: set[str] = set()
        """Pieces without any mark, which are left out at once."""

    def marks(self, text: str) -> int:
        """Return the marks of the literals that can be in a text, combined; of all that are in it, and maybe others."""
        found = 0
        for piece in set(text.split()) - self._plain:
            mark = self._known.get(piece)
            found |= self._mark(piece) if mark is None else mark
        return found

    def _mark(self, piece: str) -> int:
        mark = 0
        for part, each in self._parts:
            if part in piece:
                mark |= each
        if len(self._known) + len(self._plain) >= MAX_KNOWN:
            self._known.clear()
            self._plain.clear()
        if mark:
            self._known[piece] = mark
        else:
            self._plain.add(piece)
        return mark
