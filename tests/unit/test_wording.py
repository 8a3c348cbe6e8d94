"""Formatting of money, numbers and cost."""

from __future__ import annotations

import pytest

from critiqor.cli.texts.show import cost_text
from critiqor.model.formatting import counted, format_money, format_number
from critiqor.model.usage import CostAnalysis


@pytest.mark.parametrize(
    ("usd", "expected"),
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
def test_amounts_below_a_dollar_have_more_decimals(usd: float, expected: str) -> None:
    assert format_money(usd) == expected


def test_thousands_are_separated_by_commas() -> None:
    assert (format_number(1234567), counted(1, "token"), counted(2000, "token")) == (
        "1,234,567",
        "1 token",
        "2,000 tokens",
    )


def test_waste_is_separate_from_the_output_tokens() -> None:
    spent = {"input_tokens": 150_000, "output_tokens": 3020, "cost_usd": 157.04, "model_calls": 150, "tool_calls": 150}
    cost = CostAnalysis(**spent, wasted_tokens=150_960, wasted_usd=156.0)  # type: ignore[arg-type]
    expected = "$157.04, 150,000 tokens in, 3,020 out, 150 model calls, 150 tool calls; wasted: 150,960 tokens, $156.00"
    assert cost_text(cost) == expected
