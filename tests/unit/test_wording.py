"""Figures as people read them."""

from __future__ import annotations

import pytest

from critiqor.cli.texts.show import cost_text
from critiqor.model.formatting import counted, format_money, format_number
from critiqor.model.usage import CostAnalysis


@pytest.mark.parametrize(
    ("usd", "told"),
    [
        (0, "$0"),
        (0.00002, "$0.000020"),
        (0.007, "$0.0070"),
        (0.5, "$0.5000"),
        (0.99999, "$1.00"),
        (157.04, "$157.04"),
        (1234.5, "$1,234.50"),
        (-0.25, "-$0.2500"),
    ],
)
def test_money_has_cents_from_a_dollar_on_and_more_decimals_only_below(usd: float, told: str) -> None:
    assert format_money(usd) == told


def test_thousands_stand_apart() -> None:
    assert (format_number(1234567), counted(1, "token"), counted(2000, "token")) == (
        "1,234,567",
        "1 token",
        "2,000 tokens",
    )


def test_what_was_wasted_is_not_told_as_a_part_of_what_was_written() -> None:
    spent = {"input_tokens": 150_000, "output_tokens": 3020, "cost_usd": 157.04, "model_calls": 150, "tool_calls": 150}
    cost = CostAnalysis(**spent, wasted_tokens=150_960, wasted_usd=156.0)  # type: ignore[arg-type]
    told = "$157.04, 150,000 tokens in, 3,020 out, 150 model calls, 150 tool calls; wasted: 150,960 tokens, $156.00"
    assert cost_text(cost) == told
