"""The width of texts in drawings, and texts wrapped to a width."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_NARROW, _WIDE = frozenset("fijlrtI.,:;'|!()[]{}/\\` -"), frozenset("mwMWGOQ@%&#")


def wrap(text: str, width: float, max_lines: int) -> list[str]:
    """Wrap text to a width in pixels, between words if possible, and shorten it to `max_lines` lines.

    A line that ends between words ends with a space, so that the joined lines are the text.
    """
    lines, line = [], ""
    for word in text.split():
        rest = word
        while rest:
            joined = f"{line} {rest}" if line else rest
            if text_width(joined) <= width:
                line, rest = joined, ""
            elif line:
                lines.append(f"{line} ")
                line = ""
            else:
                count = 1
                while text_width(rest[: count + 1]) <= width:
                    count += 1
                lines.append(rest[:count])
                rest = rest[count:]
    lines += [line] if line else []
    if len(lines) <= max_lines:
        return lines
    last = lines[max_lines - 1]
    while text_width(f"{last}…") > width:
        last = last[:-1]
    return [*lines[: max_lines - 1], f"{last.rstrip()}…"]


def text_width(text: str) -> float:
    """Estimate the width of a text of 12 pixels, for the widest of the usual fonts."""
    return sum(map(_character_width, text))


@lru_cache(1 << 12)
def _character_width(character: str) -> float:
    if character in _NARROW:
        return 4.7
    if character in _WIDE:
        return 10.4
    if not character.isascii() and unicodedata.east_asian_width(character) in "WF":
        return 12.5
    return 8.2 if character.isupper() or not character.isascii() else 7.2
