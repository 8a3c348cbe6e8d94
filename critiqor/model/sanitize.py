"""Make text from agents, tools, models and files safe to print.

This is the only definition of unsafe characters. Escaping for a format (HTML, Markdown, XML, GitHub commands) belongs
to the code that writes that format and is applied to sanitized text.
"""

from __future__ import annotations

import enum
import re
from functools import cache

MAX_LINE = 1000
"""Characters of one sanitized line of a finding."""
MAX_EXCERPT = 400
"""Characters of an excerpt in an explanation."""

# Control characters, line and paragraph separators, bidirectional controls, invisible characters, surrogates and what
# XML forbids. They are listed because the Unicode database differs between Python versions.
_UNSAFE_BUT_LINE_BREAKS_AND_TABS = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\ufffe\uffff\U000e0000-\U000e007f"
)
# Colours, links, titles: from the escape character to the end of the sequence.
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")


# Compiled when it is first needed, which takes a millisecond: almost every text is printable.
@cache
def _unsafe(multiline: bool, repeated: str = "") -> re.Pattern[str]:
    """Return the pattern of an unsafe character, or of a run of them if `repeated` is a plus sign."""
    breaks = "" if multiline else r"\t\n"
    return re.compile(rf"[{breaks}{_UNSAFE_BUT_LINE_BREAKS_AND_TABS}]{repeated}")


class Replacement(enum.Enum):
    """How unsafe characters are replaced."""

    SPACE = enum.auto()
    """One space for a run of them."""
    MARK = enum.auto()
    """`�` for each of them, for terminals: a reader sees that something was there.

    Also for private, unassigned and unusual white-space characters, on whose width terminals do not agree.
    """
    CODE = enum.auto()
    """A visible symbol or code point for each of them, such as `␛` or `⟨U+202E⟩`, for pages that show raw data."""


def sanitize(
    text: str,
    *,
    max_length: int | None = None,
    multiline: bool = False,
    collapse: bool = False,
    replacement: Replacement = Replacement.SPACE,
) -> str:
    """Return a text in which every unsafe character is replaced.

    `multiline` keeps line breaks and tabs; `collapse` leaves single spaces between words. A text longer than
    `max_length` characters is cut and ends with `…`; of a very long text only the beginning is looked at.
    """
    start = text if max_length is None else text[: 2 * max_length]
    clean = collapse_whitespace(start) if collapse and replacement is not Replacement.SPACE else start
    # A printable text contains no unsafe character, and almost every text is printable.
    if not clean.isprintable():
        clean = _replace(clean, multiline, replacement)
    if collapse and replacement is Replacement.SPACE:
        clean = collapse_whitespace(clean)
    if max_length is None or (len(clean) <= max_length and len(start) == len(text)):
        return clean
    return clean[: max_length - 1] + "…"


def sanitize_line(text: str, max_length: int = MAX_LINE) -> str:
    """Return a text on one line without unsafe characters and escape sequences, cut at `max_length` characters."""
    if len(text) <= max_length and text.isprintable():
        return text
    return sanitize(remove_escape_sequences(text[: 2 * max_length]), max_length=max_length)


def sanitize_for_terminal(text: str) -> str:
    """Return text for a terminal, which would interpret control characters; line breaks and tabs stay."""
    return sanitize(text, multiline=True, replacement=Replacement.MARK)


def sanitize_for_page(text: str) -> str:
    """Return text for a page of raw data: invisible characters become visible, line breaks and tabs stay."""
    return sanitize(text, multiline=True, replacement=Replacement.CODE)


def excerpt(text: str, max_length: int = MAX_EXCERPT) -> str:
    """Return the beginning of an untrusted text on one line. It is not sanitized: do that before printing it.

    Characters other than whitespace are unchanged, so that detectors can match them.
    """
    line = collapse_whitespace(text[: max_length * 2])
    return line if len(line) <= max_length else line[: max_length - 1] + "…"


def quotation(text: str, max_length: int = MAX_EXCERPT) -> str:
    """Return the beginning of a text in quotation marks, without its full stop: the sentence around it has its own."""
    line = excerpt(text, max_length)
    return f"“{line if line.endswith('..') else line.removesuffix('.')}”"


def collapse_whitespace(text: str) -> str:
    """Return a text on one line with single spaces between words."""
    return " ".join(text.split())


def remove_escape_sequences(text: str) -> str:
    """Return a text without the terminal's escape sequences: colours, links, titles, cursor movements."""
    return _ESCAPE_SEQUENCE.sub("", text)


def replace_lone_surrogates(text: str) -> str:
    """Return a text that can be encoded as UTF-8: halves of surrogate pairs become `�`, pairs become characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _replace(text: str, multiline: bool, replacement: Replacement) -> str:
    if replacement is Replacement.SPACE:
        return _unsafe(multiline, "+").sub(" ", text)
    if replacement is Replacement.MARK:
        kept = "\n\t" if multiline else ""
        if (text.replace("\n", "").replace("\t", "") if multiline else text).isprintable():
            return text
        return "".join(character if character.isprintable() or character in kept else "�" for character in text)
    return _unsafe(multiline).sub(_visible_code, text)


def _visible_code(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"
