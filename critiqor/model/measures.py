"""The definitions of cost and wall time of a run that all outputs use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from critiqor.model.diagnosis import CostAnalysis, Diagnosis, Usage

MAX_NAMES = 5
"""Names in a sentence before the rest is counted."""


class Cost(NamedTuple):
    """Money spent on model calls."""

    usd: float | None
    """Null where no price is known."""
    is_partial: bool
    """Whether a part of it is unknown, so that `usd` is a lower bound."""
    model_calls: int
    tokens: int
    """Tokens read and written, as far as they are known."""


def cost_of(usage: Usage) -> Cost:
    """Return the cost of a run, of one of its models or of one of its agent runs."""
    tokens = total_tokens(usage)
    # OpenClaw reports a price of 0 where none is configured for the model.
    usd = None if usage.cost_usd == 0 and tokens else usage.cost_usd
    return Cost(usd, unknown_cost(usage) is not None, usage.model_calls, tokens)


def wall_time_ms(diagnosis: Diagnosis) -> int | None:
    """Return the time from launch to end in milliseconds; None if unknown.

    Uses launch and end of the process if it was supervised, else the first and last event of the agent.
    """
    return diagnosis.latency_analysis.wall_ms


def total_tokens(usage: Usage) -> int:
    """Return all tokens, cached or not; a lower bound where a model call reported no usage."""
    return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def unknown_usage(usage: Usage) -> str | None:
    """Return why a part of the tokens is unknown, or None where all are known."""
    missing = usage.model_calls_without_usage
    return f"{missing:,} model {'call' if missing == 1 else 'calls'} reported no usage" if missing else None


def unknown_cost(usage: Usage) -> str | None:
    """Return why a part of the cost is unknown, or None where all of it is known."""
    if reason := unknown_usage(usage):
        return reason
    if usage.cost_usd is None:
        return "no price is known"
    models = usage.per_model if isinstance(usage, CostAnalysis) else []
    unpriced = [model.model or "a model" for model in models if model.cost_usd is None and total_tokens(model)]
    return f"no price is known for {list_names(unpriced)}" if unpriced else None


def list_names(names: Iterable[str]) -> str:
    """Return the first few names, and how many more there are."""
    every = list(names)
    rest = len(every) - MAX_NAMES
    return ", ".join(every[:MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")
