"""Bars and sparklines: figures that can be seen at a glance, with or without colours."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich.text import Text

from critiqor.cli.terminal.screen import FAINT, SEVERITIES, styled
from critiqor.model import Finding

FULL, EMPTY = "█", "░"
LEVELS = "▁▂▃▄▅▆▇█"
BAR_WIDTH = 16
"""With its label and its figure it fits into 40 columns."""


def cells(share: float, width: int) -> int:
    """How many of `width` cells a share fills: all of them only for the whole, and none only for nothing."""
    if share <= 0:
        return 0
    return width if share >= 1 else min(max(1, round(share * width)), width - 1)


def bar(share: float, width: int = BAR_WIDTH, style: str = "") -> Text:
    """A share of a whole."""
    filled = cells(share, width)
    return Text.assemble((FULL * filled, style), (EMPTY * (width - filled), FAINT))


def score_style(score: float) -> str:
    """The colour of a score of 100."""
    return "green" if score >= 85 else "yellow" if score >= 60 else "red"


def trust_bar(trust: int, findings: Sequence[Finding], width: int = BAR_WIDTH) -> Text:
    """Trust, and behind it what is missing, in the colours of the findings that it was lost to."""
    filled = cells(trust / 100, width)
    drawn = styled(FULL * filled, score_style(trust))
    costly = [finding for finding in findings if finding.impact.trust_points > 0]
    lost = sum(finding.impact.trust_points for finding in costly)
    reached, begun = 0, 0
    for finding in costly:
        reached += finding.impact.trust_points
        end = round((width - filled) * reached / lost)
        drawn.append(EMPTY * (end - begun), SEVERITIES[finding.severity])
        begun = end
    return drawn.append(EMPTY * (width - len(drawn)), FAINT)


def sparkline(values: Sequence[float], width: int, top: float = 0) -> str:
    """Values over time, from nothing to `top` or to the largest; of more than fit, the largest of each few."""
    if not values or width < 1:
        return ""
    few = min(width, len(values))
    edges = [place * len(values) // few for place in range(few + 1)]
    peaks = [max(values[start:end]) for start, end in pairwise(edges)]
    whole = max(top, *peaks)
    if whole <= 0:
        return LEVELS[0] * few
    return "".join(LEVELS[min(len(LEVELS) - 1, int(max(0.0, peak) / whole * len(LEVELS)))] for peak in peaks)
