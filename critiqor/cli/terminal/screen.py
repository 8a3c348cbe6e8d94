"""The terminal that is drawn on, and texts of others as they may stand there."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from critiqor.cli.hints import pasted
from critiqor.cli.output import plain, wants_color
from critiqor.cli.terminal.palette import PALETTE
from critiqor.model.sanitize import Replacement, sanitize

MOST_CHARACTERS = 600
"""Of a text of others. Whoever wants the rest finds it with --json, or in a pipe."""
MOST_MARKS = 2
"""Accents on one letter; some scripts need two, and heaps of them run into the lines above and below."""
SEVERITIES = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan", "info": "dim"}
"""How findings are coloured."""
FAINT = "dim"
INDENT = 2
GUTTER = 3
"""Columns between words that stand side by side."""
LABEL = 12
"""Columns of labels."""


def screen(stream: TextIO) -> Console:
    """A console that takes no text for markup, whoever wrote it."""
    return Console(
        file=stream,
        theme=PALETTE,
        markup=False,
        emoji=False,
        highlight=False,
        no_color=not wants_color(),
        force_jupyter=False,
    )


def theirs(text: str, style: str = "", most: int = MOST_CHARACTERS) -> Text:
    """A text that came from an agent or a file: on one line, not endless, and nothing in it that a terminal obeys."""
    return styled(harmless(text, most), style)


def styled(text: str, style: str = "") -> Text:
    """A text of ours in a style of its own: what is appended to it does not take that over."""
    return Text().append(text, style)


def ours(text: str, style: str = "") -> Text:
    """A line of ours, in which a name of theirs may stand: spaces stay as they are."""
    text = text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"
    return Text(plain(text).replace("\n", " ").replace("\t", " "), style)


def harmless(text: str, most: int = MOST_CHARACTERS) -> str:
    """The same, as a string."""
    line = sanitize(text, max_length=most, collapse=True, replacement=Replacement.MARK)
    return line if line.isascii() else "".join(_even(line))


def _even(line: str) -> Iterable[str]:
    """Characters without those that make terminals disagree on how wide the others are."""
    marks = 0
    for character in line:
        kind = unicodedata.category(character)
        marks = marks + 1 if kind in ("Mn", "Me") else 0
        if marks <= MOST_MARKS and not _selects_variation(character):
            yield character


def _selects_variation(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def indented(renderable: RenderableType, columns: int = INDENT) -> Padding:
    """Something a little to the right."""
    return Padding(renderable, (0, 0, 0, columns))


def facts_grid(facts: Sequence[tuple[str, Text]]) -> Table:
    """Labels with what they are about, which is wrapped beside them."""
    grid = Table.grid()
    grid.add_column(style=FAINT, no_wrap=True, width=LABEL)
    grid.add_column(overflow="fold")
    for label, told in facts:
        grid.add_row(label, told)
    return grid


def side_by_side(words: Iterable[Text], width: int) -> Iterator[Text]:
    """Words on as few lines as have room for them, none of them torn."""
    line = Text()
    for word in words:
        if line.cell_len and line.cell_len + GUTTER + word.cell_len > width:
            yield line
            line = Text()
        line = line.append(" " * GUTTER).append_text(word) if line.cell_len else word.copy()
    if line.cell_len:
        yield line


def next_step(command: str) -> Text:
    """What to type next."""
    return unbroken(styled("\nNext: ", FAINT).append_text(theirs(pasted(command), "bold")))


def unbroken(line: Text) -> Text:
    """A line that only the terminal itself may wrap: a command with a line break in it cannot be pasted."""
    line.no_wrap, line.overflow = True, "ignore"
    return line
