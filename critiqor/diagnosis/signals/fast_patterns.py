"""Fast checks whether patterns match: literal characters that a text must contain are looked up first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

MAX_KNOWN = 5_000
"""Maximum number of pieces whose marks are remembered."""


_BEGINNING = re.compile(r"(?:[\w :='-]|\\[.\[{(])*(?![?*+{|])")
"""The literal characters with which a pattern begins."""


def literal_beginning(pattern: str) -> str:
    """Return the literal characters with which a pattern begins, so that they are in each text with a match."""
    found = _BEGINNING.match(pattern)
    return found[0].replace("\\", "") if found else ""


def pattern_check(*patterns: str) -> Callable[[str], bool]:
    """Return a fast check whether any of these patterns matches a text; literal beginnings are the fastest."""
    # `in` is several times as fast as a search, and most texts do not even contain the beginning of a pattern.
    begin = {pattern: _BEGINNING.match(pattern)[0] for pattern in patterns}  # type: ignore[index]
    literals = tuple(pattern for pattern in patterns if begin[pattern] == pattern)
    others = tuple(
        (begin[each].replace("\\", ""), re.compile(each).search) for each in patterns if each not in literals
    )

    def may_match(text: str) -> bool:
        for literal in literals:
            if literal in text:
                return True
        for beginning, search in others:  # noqa: SIM110 - a generator costs more than the check
            if beginning in text and search(text):
                return True
        return False

    return may_match


def folded(lowered: str) -> str:
    """Return a text in lower case so that what a pattern finds without regard to case is in it in small letters.

    To such a pattern, the Turkish letters I with and without a dot are an i, and the long s is an s.
    """
    if lowered.isascii():
        return lowered
    return lowered.replace("i\u0307", "i").replace("\u0131", "i").replace("\u017f", "s")


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
