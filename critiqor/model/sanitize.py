"""Texts that are safe to print: they are quoted from tools and models, and end up in terminals and prompts."""

from __future__ import annotations

import re

LONGEST = 1000
EXCERPT = 400
"""Characters of a text that are kept for an explanation."""
# Colours, links, titles: from the escape character to the end of its sequence.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
# Control characters, signs that turn the direction of writing or end a line, and what nobody can see. Named one by one,
# because every version of Python knows other characters.
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]+"
)


def plain_line(text: str) -> str:
    """A text on one line, without control characters, and not endless."""
    if len(text) <= LONGEST and text.isprintable():
        return text
    text = _CONTROL.sub(" ", _ESCAPE.sub("", text[: 2 * LONGEST]))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def excerpt(text: str, length: int = EXCERPT) -> str:
    """The beginning of a text on one line."""
    flat = " ".join(text[: length * 2].split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"
