"""Formatting of values for people: the same text on a terminal, on a page and in a report.

Every module that counts something imports it, so it imports the modules that define cost, time and verdict only inside
the functions that need them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from critiqor.model.diagnosis import Impact, Readiness
    from critiqor.model.usage import Cost, Usage
    from critiqor.model.verdict import Verdict

UNKNOWN = "unknown"
MAX_NAMES = 5
"""Names in a sentence before the rest is counted."""


def format_money(usd: float | None) -> str:
    """Return an amount of money: two decimals from one dollar on, more for smaller amounts."""
    if usd is None:
        return UNKNOWN
    if usd == 0:
        return "$0"
    sign, amount = "-" if usd < 0 else "", abs(usd)
    if amount < 0.0001:
        return f"{sign}${amount:.6f}"
    # An amount that rounds to one dollar is formatted like one.
    return f"{sign}${amount:.4f}" if amount < 0.99995 else f"{sign}${amount:,.2f}"


def format_cost(cost: Cost | Usage) -> str:
    """Return a cost; a lower bound where a part of it is unknown."""
    from critiqor.model.usage import Cost

    cost = cost if isinstance(cost, Cost) else cost.cost
    if not cost.model_calls:
        return "no model calls"
    if cost.usd is None:
        return "no price known" if cost.tokens else UNKNOWN
    return f"at least {format_money(cost.usd)}" if cost.is_partial else format_money(cost.usd)


def format_duration(milliseconds: float | None) -> str:
    """Return a duration in the unit that people would use."""
    if milliseconds is None:
        return UNKNOWN
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms" if milliseconds else "0 ms"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.2f} s" if milliseconds < 600_000 else f"{milliseconds / 60_000:.0f} min"


def format_number(value: float | None) -> str:
    """Return a number with separated thousands."""
    return UNKNOWN if value is None else f"{value:,}"


def format_identifier(name: str) -> str:
    """Return an identifier as words: `tool_loop` is a tool loop."""
    return name.replace("_", " ")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: 1 call, 2,000 calls."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def list_names(names: Iterable[str]) -> str:
    """Return the first few names, and how many more there are."""
    every = list(names)
    rest = len(every) - MAX_NAMES
    return ", ".join(every[:MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def format_verdict(verdict: Verdict | Readiness) -> str:
    """Return the verdict in one word."""
    return verdict if isinstance(verdict, str) else verdict.readiness


def format_trust(verdict: Verdict) -> str:
    """Return the trust score, or why it is unknown."""
    return f"{UNKNOWN}: {verdict.unknown_trust}" if verdict.trust is None else f"{verdict.trust} of 100"


def format_lost_trust(impact: Impact) -> str:
    """Return the trust points that a finding cost."""
    return f"-{counted(impact.trust_points, 'point')}" if impact.trust_points else "no points lost"


def format_waste(impact: Impact) -> str:
    """Return the money, tokens and time that a finding wasted."""
    wasted = [
        format_money(impact.wasted_usd) if impact.wasted_usd else "",
        counted(impact.wasted_tokens, "token") if impact.wasted_tokens else "",
        format_duration(impact.wasted_ms) if impact.wasted_ms else "",
    ]
    return ", ".join(part for part in wasted if part) or "no waste measured"


def format_size(number: int | None) -> str:
    """Return a number of bytes in a suitable unit; a question mark if unknown."""
    if number is None:
        return "?"
    amount, unit = float(number), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{number} B" if unit == "B" else f"{amount:.1f} {unit}"
