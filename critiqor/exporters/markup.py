"""Texts of others in Markdown: they can be read and never become markup, a mention, a reference or a link.

A report ends up in pull requests, where a name behind an @ calls somebody, and a number behind a # leaves a trace in
another issue. A space that nobody sees takes them apart.
"""

from __future__ import annotations

import re
from itertools import accumulate, takewhile

from critiqor.exporters.texts import one_line

_APART = "&#8203;"
"""A space without any width."""
_UNITS = re.compile(r"([@#]|\bGH-|:(?=//)|\bwww(?=\.)|^[+=-]|^\d+(?=[.)]))|.", re.IGNORECASE)
"""What can call, refer, link or begin a block, each as a whole, and single characters."""
_MARKED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", **{mark: f"\\{mark}" for mark in "\\`*_[]|~$"}}


def prose(text: str, longest: int) -> str:
    """A text as a part of a sentence or a paragraph of its own; it gets no longer than `longest`, marks included."""
    units = [_unit(found) for found in _UNITS.finditer(one_line(text, longest))]
    if sum(map(len, units)) > longest:
        room = longest - 1
        kept = list(takewhile(lambda end: end <= room, accumulate(map(len, units))))
        units = [*units[: len(kept)], "…"]
    return "".join(units)


def code(text: str, longest: int = 200) -> str:
    """A name or an id, as it is."""
    flat = one_line(text, longest).replace("`", "'")
    return f"`{flat or '?'}`"


def _unit(found: re.Match[str]) -> str:
    return found[0] + _APART if found[1] else _MARKED.get(found[0], found[0])
