"""Styled text on a terminal: sanitized, indented, side by side, not broken."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from critiqor.cli.hints import add_runs_dir
from critiqor.model.sanitize import Replacement, sanitize, sanitize_for_terminal

MAX_CHARACTERS = 600
"""Maximum length of an untrusted text in characters; --json and piped output contain the rest."""
MAX_MARKS = 2
"""Maximum combining marks on one character: some scripts need two, more would run into the neighboring lines."""
SEVERITIES = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan", "info": "dim"}
"""Styles of findings."""
READINESSES = {"ready": "green", "review": "yellow", "unsafe": "red"}
"""Styles of verdicts."""
FAINT = "dim"
INDENT = 2
GUTTER = 3
"""Number of columns between texts that are side by side."""


def untrusted(text: str, style: str = "", max_length: int = MAX_CHARACTERS) -> Text:
    """Return text of an agent or a file, sanitized: one line of limited length without control characters."""
    return styled(_printable_line(text, max_length), style)


def styled(text: str, style: str = "") -> Text:
    """Return text in a style that text appended later does not inherit."""
    return Text().append(text, style)


def score_style(score: float) -> str:
    """Return the style of text or bars that show a score from 0 to 100."""
    return "green" if score >= 85 else "yellow" if score >= 60 else "red"


def preformatted(text: str, style: str = "") -> Text:
    """Return a line of our own that may quote untrusted names: sanitized, but spaces are kept."""
    text = text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"
    return Text(sanitize_for_terminal(text).replace("\n", " ").replace("\t", " "), style)


def _printable_line(text: str, max_length: int) -> str:
    """Return a text as one line of limited length, without characters that confuse terminals."""
    line = sanitize(text, max_length=max_length, collapse=True, replacement=Replacement.MARK)
    return line if line.isascii() else "".join(_even_width(line))


def _even_width(line: str) -> Iterable[str]:
    """Yield the characters without those whose display width differs between terminals."""
    marks = 0
    for character in line:
        kind = unicodedata.category(character)
        marks = marks + 1 if kind in ("Mn", "Me") else 0
        if marks <= MAX_MARKS and not _selects_variation(character):
            yield character


def _selects_variation(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def indented(renderable: RenderableType, columns: int = INDENT) -> Padding:
    """Indent a renderable."""
    return Padding(renderable, (0, 0, 0, columns))


def side_by_side(texts: Iterable[Text], width: int) -> Iterator[Text]:
    """Put texts on as few lines as possible without breaking any of them."""
    line = Text()
    for text in texts:
        if line.cell_len and line.cell_len + GUTTER + text.cell_len > width:
            yield line
            line = Text()
        line = line.append(" " * GUTTER).append_text(text) if line.cell_len else text.copy()
    if line.cell_len:
        yield line


def next_command(command: str) -> Text:
    """Return styled text for the last line of a drawing: `Next: ` and a command that can be copied."""
    return unbroken(styled("\nNext: ", FAINT).append_text(untrusted(add_runs_dir(command), "bold")))


def unbroken(line: Text) -> Text:
    """Leave wrapping of a line to the terminal, so that a command in it can be copied without a line break."""
    line.no_wrap, line.overflow = True, "ignore"
    return line
