"""Untrusted text in Markdown: it stays readable, and becomes no mention, reference or link, and no markup but code.

Reports are pasted into pull requests, where `@name` notifies a person and `#1` adds a reference to another issue. A
zero-width space separates the sign from what follows.
"""

from __future__ import annotations

import re
from itertools import accumulate, takewhile

from critiqor.model.sanitize import sanitize

_ZERO_WIDTH_SPACE = "&#8203;"
_UNITS = re.compile(r"`(?P<code>[^`|]+)`|(?P<sign>[@#]|\bGH-|:(?=//)|\bwww(?=\.)|^[+=-]|^\d+(?=[.)]))|.", re.IGNORECASE)
"""Code, signs that can start a mention, a reference, a link or a block, each as one unit, and single characters.

Code with a vertical bar stays text: in a table, the bar would end the cell."""
_ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", **{mark: f"\\{mark}" for mark in "\\`*_[]|~$"}}


def escape_markdown(text: str, max_length: int) -> str:
    """Escape a text for use within a sentence; the result, escapes included, has at most `max_length` characters."""
    units = [_escape_unit(found) for found in _UNITS.finditer(sanitize(text, max_length=max_length, collapse=True))]
    if sum(map(len, units)) > max_length:
        room = max_length - 1
        kept = list(takewhile(lambda end: end <= room, accumulate(map(len, units))))
        units = [*units[: len(kept)], "…"]
    return "".join(units)


def code_span(text: str, max_length: int = 200) -> str:
    """Return a name or an id as a code span."""
    flat = sanitize(text, max_length=max_length, collapse=True).replace("`", "'")
    return f"`{flat or '?'}`"


def _escape_unit(found: re.Match[str]) -> str:
    if found["code"]:
        return found[0]  # nothing inside of code is markup, a mention or a link
    return found[0] + _ZERO_WIDTH_SPACE if found["sign"] else _ESCAPED.get(found[0], found[0])
