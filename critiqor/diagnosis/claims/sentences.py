"""Split an agent's text into statements with their places: sentences, list items, table rows; and what it quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

MAX_CHARACTERS = 20_000
"""Maximum number of characters of a text that are examined."""
_FENCE = re.compile(r"^[ \t]*(```|~~~)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"[^\n]+")
_END = re.compile(
    r"(?<=[.!?;])[\"'”’»)\]*_]*\s+(?=\S)|(?<=[。！？；])|(?<=[.!?])(?=[\"“«„]?[A-Z]\w+ [a-z])|\s[—–]\s"
    r"|(?<=\w)\s?[\u2600-\u27bf\U0001f300-\U0001faff]\ufe0f?\s+(?=[^\W\da-z_])"
)
_MAY_END = re.compile(r"[.!?;。！？；—–](?:(?<=[。！？；—–])|[\"'”’»)\]*_]*\s|[\"“«„]?[A-Z])")
"""What every end of a sentence within a line has: most lines of outputs have none."""
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|no|nr|dr|mr|mrs|ms|st|ca|approx|fig|al|z\.b|d\.h|bzw|usw|p\.ej|sr|sra|ul|godz|tel|max|min)"
    # A letter behind a number is a unit, and digits behind a point are decimals: both can end a sentence.
    r"|(?<!°)(?<!\d )\b[A-Za-z]|(?<![\w:,.])\d{1,2})\.$",
    re.IGNORECASE,
)
_ROW = re.compile(r"^\s*\|?(?:[^|\n]*\|){2,}[^|\n]*$|^\s*\|.*\|\s*$")
_RULE = re.compile(r"^[\s|:+=_*-]+$")
_QUOTED = re.compile(r"\s*(?:>\s*)+")
_BULLET = re.compile(r"^\s*(?:[-*+•‣·]|\d{1,3}[.)]|#{1,6})\s+")
_QUOTE = re.compile(
    r"“([^”\n]{2,600})”|«\s?([^»\n]{2,600}?)\s?»|„([^“”\n]{2,600})[“”]|「([^」\n]{2,300})」|『([^』\n]{2,300})』|(?<![\w\"])\"([^\"\n]{2,600})\"(?![A-Za-z0-9_])"
)


class Statement(msgspec.Struct, frozen=True, gc=False):
    """A sentence, a list item or a row of a table."""

    start: int
    end: int
    text: str
    cells: tuple[str, ...] = ()
    """The cells of a row; empty if it is no row."""
    is_quoted: bool = False
    """Whether it is in a quoted block: the words of somebody else, or a draft."""


class Quotation(msgspec.Struct, frozen=True, gc=False):
    """Text that the agent presents as somebody's words or as an output."""

    start: int
    end: int
    text: str
    is_block: bool
    """Whether it is a fenced block."""


def statements(text: str) -> list[Statement]:
    """Return the statements of a text in order, without fenced blocks."""
    return list(_statements(text[:MAX_CHARACTERS]))


def _statements(text: str) -> Iterator[Statement]:
    plain = text
    if "```" in text or "~~~" in text:
        plain = _FENCE.sub(lambda match: " " * len(match[0]) if "\n" not in match[0] else _blank(match[0]), text)
    header: tuple[str, ...] = ()
    for line in _LINE.finditer(plain):
        content = line[0]
        if not content.strip():
            continue
        if quoted := _QUOTED.match(content):
            for statement in _sentences(plain, line.start() + quoted.end(), line.end()):
                yield msgspec.structs.replace(statement, is_quoted=True)
            continue
        if "|" in content and _ROW.match(content):
            if _RULE.match(content):
                continue
            cells = tuple(cell.strip() for cell in content.strip().strip("|").split("|"))
            if not header:
                header = cells
            yield Statement(line.start(), line.end(), content, cells)
            continue
        header = ()
        bullet = _BULLET.match(content)
        begin = line.start() + (bullet.end() if bullet else 0)
        yield from _sentences(plain, begin, line.end())


def _blank(text: str) -> str:
    return "".join("\n" if char == "\n" else " " for char in text)


def _sentences(text: str, start: int, end: int) -> Iterator[Statement]:
    for match in _END.finditer(text, start, end) if _MAY_END.search(text, start, end) else ():
        piece = text[start : match.start()]
        if _ABBREVIATION.search(piece) or not piece.strip():
            continue
        yield Statement(start, match.start(), piece)
        start = match.end()
    if text[start:end].strip():
        yield Statement(start, end, text[start:end])


def quoted_passages(text: str) -> list[Quotation]:
    """Return the parts of a text that are no sentences of its author: fenced blocks and quoted passages."""
    text = text[:MAX_CHARACTERS]
    found = [Quotation(match.start(2), match.end(2), match[2], True) for match in _FENCE.finditer(text)]
    plain = _FENCE.sub(lambda match: _blank(match[0]), text)
    for match in _QUOTE.finditer(plain):
        group = match.lastindex or 0
        found.append(Quotation(match.start(group), match.end(group), match[group], False))
    return found
