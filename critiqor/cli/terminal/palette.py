"""Colours that can be read on a light background and on a dark one, because nobody tells which of them is there.

The yellow of a terminal is hard to see on white, its blue on black, and how faint its faint letters are is anybody's
guess. These have a contrast of nearly 4 to 1 or more against both; where a terminal has fewer colours, the nearest is
taken.
"""

from __future__ import annotations

from rich.theme import Theme

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
"""What the styles of drawings are drawn in: numbers of the palette of 256 colours that terminals share."""

PALETTE = Theme(
    {
        **{name: f"color({number})" for name, number in COLORS.items()},
        **{f"bold {name}": f"bold color({number})" for name, number in COLORS.items()},
    }
)
