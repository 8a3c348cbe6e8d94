"""Figures as people read them, the same wherever they stand: on a terminal, on a page, in a report."""

from __future__ import annotations


def money(usd: float) -> str:
    """An amount with as many decimals as matter: cents from a dollar on, more only below."""
    if usd == 0:
        return "$0"
    sign, amount = "-" if usd < 0 else "", abs(usd)
    if amount < 0.0001:
        return f"{sign}${amount:.6f}"
    # What would be rounded to a dollar is written like one.
    return f"{sign}${amount:.4f}" if amount < 0.99995 else f"{sign}${amount:,.2f}"


def number(value: float) -> str:
    """A figure with its thousands apart."""
    return f"{value:,}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: 1 call, 2,000 calls."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
