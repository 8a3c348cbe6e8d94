"""Token usage and cost of a run, of its models, tools and agent runs, and what of it is unknown."""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

import msgspec

from critiqor.model.event import Scope
from critiqor.model.formatting import counted, list_names


class Cost(NamedTuple):
    """Money spent on model calls."""

    usd: float | None
    """Null where no price is known."""
    is_partial: bool
    """Whether a part of it is unknown, so that `usd` is a lower bound."""
    model_calls: int
    """Model calls, as far as they are known; each agent run whose calls were not visible counts as one."""
    tokens: int
    """Tokens read and written, as far as they are known."""
    is_estimated: bool = False
    """Whether a part of it was computed from list prices."""


class Usage(msgspec.Struct, kw_only=True):
    """Tokens and cost of model calls, as reported by the provider."""

    model_calls: int = 0
    failed_model_calls: int = 0
    model_calls_without_usage: int = 0
    """Answered calls without reported usage: the sums below do not include them."""
    agent_runs_with_hidden_calls: int = 0
    """Agent runs of a backend that makes its model calls itself, such as `claude-cli`: their number is unknown, and of
    their usage only what the backend reported at the end is included."""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    """US dollars; null if no price is known. A reported price of 0 counts only for a local provider."""
    cost_is_estimated: bool = False
    """Whether a part of `cost_usd` was computed from list prices, because no price was reported."""

    @property
    def total_tokens(self) -> int:
        """All tokens, cached or not; a lower bound where a model call reported no usage."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def unknown_usage(self) -> str | None:
        """Why a part of the tokens is unknown; None where all are known."""
        missing, hidden = self.model_calls_without_usage, self.agent_runs_with_hidden_calls
        if hidden and not missing:
            return f"the model calls of {counted(hidden, 'agent run')} were not visible"
        return f"{counted(missing, 'model call')} reported no usage" if missing else None

    @property
    def unknown_cost(self) -> str | None:
        """Why the usage does not give the whole cost; None where it does."""
        return self.unknown_usage or ("no price is known" if self.cost_usd is None else None)

    @property
    def cost(self) -> Cost:
        """The cost as every output shows it."""
        is_partial = self.unknown_cost is not None
        calls = self.model_calls + self.agent_runs_with_hidden_calls
        return Cost(self.cost_usd, is_partial, calls, self.total_tokens, self.cost_is_estimated)


class ModelUsage(Usage, kw_only=True):
    """Usage of one model."""

    provider: str | None
    model: str | None


class TurnUsage(Usage, kw_only=True):
    """Usage of one agent run."""

    scope: Scope
    tool_calls: int = 0


class ToolUsage(msgspec.Struct, kw_only=True):
    """Calls of one tool."""

    tool: str
    calls: int = 0
    failed: int = 0
    repeated: int = 0
    """Calls with the same arguments as an earlier one in the same agent run."""
    duration_ms: int = 0
    tokens: int | None = None
    """Tokens of the model calls that requested the tool, split evenly if a call requested several; null if unknown."""
    cost_usd: float | None = None
    """The same in US dollars."""
    cost_is_estimated: bool = False
    """Whether a part of `cost_usd` was computed from list prices."""


class CostAnalysis(Usage, kw_only=True):
    """Cost of the run, and how much of it was wasted."""

    tool_calls: int = 0
    failed_tool_calls: int = 0
    repeated_tool_calls: int = 0
    provider_retries: int = 0
    wasted_tokens: int | None = None
    """Tokens that findings count as wasted, each counted once."""
    wasted_usd: float | None = None
    wasted_usd_is_estimated: bool = False
    """Whether a part of `wasted_usd` was computed from list prices."""
    list_prices_date: str | None = None
    """Day of the list prices from which a part of the cost was computed; null if none was."""
    per_model: list[ModelUsage] = msgspec.field(default_factory=list)
    per_tool: list[ToolUsage] = msgspec.field(default_factory=list)
    per_turn: list[TurnUsage] = msgspec.field(default_factory=list)
    """One entry per agent run, the most expensive first, at most a hundred."""

    @property
    def unknown_cost(self) -> str | None:
        """Why the usage of the models does not give the whole cost; None where it does."""
        if reason := super().unknown_cost:
            return reason
        unpriced = [used.model or "a model" for used in self.per_model if used.cost_usd is None and used.total_tokens]
        return f"no price is known for {list_names(unpriced)}" if unpriced else None


MAX_AMOUNT = 1 << 53
"""Exclusive upper limit for numbers of tokens, bytes or milliseconds; above it, a float loses integer precision."""


_NUMBERS = (int, float)


def is_plausible(value: object) -> TypeGuard[int | float]:
    """Return whether a reported value is a plausible number: not negative, infinite or too large."""
    return isinstance(value, _NUMBERS) and not isinstance(value, bool) and 0 <= value < MAX_AMOUNT


def amount(value: object) -> int | None:
    """Return a reported value as a whole number; None if it is not a plausible number."""
    if type(value) is int:  # nearly always
        return value if 0 <= value < MAX_AMOUNT else None
    return int(value) if is_plausible(value) else None
