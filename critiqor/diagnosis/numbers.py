"""Numbers that others report: a provider tells what it likes, and sums must stay numbers."""

from __future__ import annotations

from typing import TypeGuard

TOO_LARGE = 1 << 53
"""No count of tokens, bytes or milliseconds gets here; beyond it, a float can no longer count."""


def is_plausible(value: object) -> TypeGuard[int | float]:
    """Whether somebody can have meant this as an amount of something."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < TOO_LARGE


def amount(value: object) -> int | None:
    """A whole amount; None where there is none."""
    return int(value) if is_plausible(value) else None
