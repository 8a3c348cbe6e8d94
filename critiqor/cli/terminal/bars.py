"""Bars and sparklines for scores, trust and context sizes, readable with and without colors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich.text import Text

from critiqor.cli.terminal.styled_text import FAINT, SEVERITIES, score_style, styled
from critiqor.model import ContextAnalysis, Finding, RequestSize

FULL, EMPTY = "█", "░"
LEVELS = "▁▂▃▄▅▆▇█"
BAR_WIDTH = 16
"""Width of a bar in columns; with label and number it fits into 40 columns."""
FULL_CONTEXT, NEARLY_FULL_CONTEXT = 1.0, 0.8
"""Shares of the context budget at which a request is drawn red or yellow."""


def cells(share: float, width: int) -> int:
    """Return how many of `width` cells a share fills: all only for 1 or more, none only for 0 or less."""
    if share <= 0:
        return 0
    return width if share >= 1 else min(max(1, round(share * width)), width - 1)


def bar(share: float, width: int = BAR_WIDTH, style: str = "") -> Text:
    """Draw a share of a whole."""
    filled = cells(share, width)
    return Text.assemble((FULL * filled, style), (EMPTY * (width - filled), FAINT))


def trust_bar(trust: int, findings: Sequence[Finding], width: int = BAR_WIDTH) -> Text:
    """Draw trust as a bar, and the lost points in the colors of the findings that cost them."""
    filled = cells(trust / 100, width)
    drawn = styled(FULL * filled, score_style(trust))
    costly = [finding for finding in findings if finding.impact.trust_points > 0]
    lost = sum(finding.impact.trust_points for finding in costly)
    total, start = 0, 0
    for finding in costly:
        total += finding.impact.trust_points
        end = round((width - filled) * total / lost)
        drawn.append(EMPTY * (end - start), SEVERITIES[finding.severity])
        start = end
    return drawn.append(EMPTY * (width - len(drawn)), FAINT)


def sparkline(values: Sequence[float], width: int, top: float = 0) -> str:
    """Draw values over time, scaled to the largest of them and `top`. Values that share a column show their maximum."""
    if not values or width < 1:
        return ""
    columns = min(width, len(values))
    edges = [column * len(values) // columns for column in range(columns + 1)]
    peaks = [max(values[start:end]) for start, end in pairwise(edges)]
    largest = max(top, *peaks)
    if largest <= 0:
        return LEVELS[0] * columns
    return "".join(LEVELS[min(len(LEVELS) - 1, int(max(0.0, peak) / largest * len(LEVELS)))] for peak in peaks)


def context_growth(context: ContextAnalysis, width: int = BAR_WIDTH) -> Text | None:
    """Draw the sizes of the requests to the model, with the first, last and largest; None if no size is known."""
    sizes, unit = _request_sizes(context.requests)
    if not sizes:
        return None
    budget = max((request.budget_tokens or 0 for request in context.requests), default=0)
    style = _saturation_style(context.peak_saturation)
    drawn = styled(sparkline(sizes, width, budget if unit == "tokens" else 0), style)
    summary = f"  {sizes[0]:,} → {sizes[-1]:,} {unit}" if len(sizes) > 1 else f"  {sizes[0]:,} {unit}"
    if context.peak_saturation is not None and budget:
        summary += f", at most {context.peak_saturation:.0%} of {budget:,}"
    drawn.append(summary)
    if context.over_budget:
        drawn.append(f", {context.over_budget} over the budget", "red")
    if context.compactions:
        drawn.append(f", compacted {context.compactions}x", FAINT)
    return drawn


def _request_sizes(requests: Sequence[RequestSize]) -> tuple[list[int], str]:
    """Return the sizes and their unit: tokens if they are known for every request, else bytes."""
    tokens = [request.input_tokens for request in requests if request.input_tokens is not None]
    if tokens and len(tokens) == len(requests):
        return tokens, "tokens"
    return [request.request_bytes for request in requests if request.request_bytes is not None], "bytes"


def _saturation_style(saturation: float | None) -> str:
    if saturation is None:
        return ""
    return "red" if saturation >= FULL_CONTEXT else "yellow" if saturation >= NEARLY_FULL_CONTEXT else "green"
