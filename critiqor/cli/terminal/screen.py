"""The rich console and its colors."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.theme import Theme

from critiqor.cli.output import wants_color

COLORS = {
    "red": 196,
    "green": 28,
    "yellow": 130,
    "blue": 63,
    "magenta": 133,
    "cyan": 30,
    "bright_red": 161,
    "bright_blue": 31,
    "bright_magenta": 98,
    "dim": 243,
}
"""Colors of the styles, as numbers of the 256-color palette of terminals.

The background of a terminal is unknown. The usual yellow is hard to read on white, the usual blue on black, and faint
text varies. These colors have a contrast of nearly 4 to 1 or more on both; a terminal with fewer colors takes the
nearest ones.
"""
_THEME = Theme(
    {
        **{name: f"color({number})" for name, number in COLORS.items()},
        **{f"bold {name}": f"bold color({number})" for name, number in COLORS.items()},
    }
)


def screen(stream: TextIO) -> Console:
    """Return a console that prints text literally, without markup."""
    return Console(
        file=stream,
        theme=_THEME,
        markup=False,
        emoji=False,
        highlight=False,
        no_color=not wants_color(),
        force_jupyter=False,
    )
