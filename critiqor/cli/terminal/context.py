"""How the requests to the model grew, against what it can read."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from critiqor.cli.terminal.bars import sparkline
from critiqor.cli.terminal.screen import FAINT, styled
from critiqor.model import ContextAnalysis, RequestSize

SPARKS = 16
FULL, NEARLY = 1.0, 0.8


def context_growth(context: ContextAnalysis, width: int = SPARKS) -> Text | None:
    """A sparkline of request sizes with its first, last and largest figure; None where no size is known."""
    sizes, unit = _sizes(context.requests)
    if not sizes:
        return None
    budget = max((request.budget_tokens or 0 for request in context.requests), default=0)
    drawn = styled(sparkline(sizes, width, budget if unit == "tokens" else 0), _style(context.peak_saturation))
    told = f"  {sizes[0]:,} → {sizes[-1]:,} {unit}" if len(sizes) > 1 else f"  {sizes[0]:,} {unit}"
    if context.peak_saturation is not None and budget:
        told += f", at most {context.peak_saturation:.0%} of {budget:,}"
    drawn.append(told)
    if context.over_budget:
        drawn.append(f", {context.over_budget} over the budget", "red")
    if context.compactions:
        drawn.append(f", compacted {context.compactions}x", FAINT)
    return drawn


def _sizes(requests: Sequence[RequestSize]) -> tuple[list[int], str]:
    """In tokens where all requests tell them, else in bytes."""
    tokens = [request.input_tokens for request in requests if request.input_tokens is not None]
    if tokens and len(tokens) == len(requests):
        return tokens, "tokens"
    return [request.request_bytes for request in requests if request.request_bytes is not None], "bytes"


def _style(saturation: float | None) -> str:
    if saturation is None:
        return ""
    return "red" if saturation >= FULL else "yellow" if saturation >= NEARLY else "green"
