"""What a model call costs: the reported price, the list price of its model, nothing on a local provider, or unknown."""

from __future__ import annotations

from datetime import date

import pytest
from diagnosed import diagnosis
from reports import INTACT, report
from story import Story

from critiqor.cli.terminal.event_lines import format_event
from critiqor.cli.texts.show import cost_text
from critiqor.comparison.compare import compare
from critiqor.diagnosis.prices.list_prices import LongRates, Rates, Tokens, is_local, list_rates, price_table
from critiqor.diagnosis.prices.price import Price, price_of
from critiqor.exporters.markdown import document
from critiqor.exporters.trace.event_facts import facts_of
from critiqor.model import CostAnalysis, ModelUsage, ToolUsage, Usage
from critiqor.model.diagnosis import SessionDiagnosis
from critiqor.model.formatting import format_cost, format_money, format_session_cost, format_waste
from critiqor.policy.gate import apply_policy
from critiqor.policy.policy_file import Policy
from critiqor.privacy.diagnosis import anonymous_diagnosis

SONNET = ("anthropic", "claude-sonnet-4-5")
"""3 and 15 dollars per million tokens."""


def usage(**fields: object) -> dict[str, object]:
    return {"input": 1_000_000, "output": 100_000, **fields}


def input_rate(provider: str | None, model: str) -> float | None:
    rates = list_rates(provider, model)
    return None if rates is None else rates.input


# The table.


def test_the_table_has_a_date_a_source_and_plausible_prices() -> None:
    table = price_table()
    assert date.fromisoformat(table.date) >= date(2026, 11, 17)
    assert "genai-prices" in table.source
    for provider in table.providers.values():
        assert provider.page.startswith("https://")
        assert provider.models
        for name, rates in provider.models.items():
            priced: list[Rates] = [rates, *([rates.long] if rates.long else [])]
            for each in priced:
                assert 0 < each.input <= each.output <= 1000, name
                assert each.cache_read is None or 0 < each.cache_read <= each.input, name
                assert each.cache_write is None or 0 < each.cache_write <= 2 * each.input, name
            if isinstance(rates.long, LongRates):
                assert rates.long.above >= 100_000, name
                assert rates.input < rates.long.input, name


def test_no_name_of_a_provider_or_id_of_a_model_is_in_the_table_twice() -> None:
    table = price_table()
    names = [*table.local, *table.resellers, *(name for each in table.providers.values() for name in each.names)]
    assert len(names) == len(set(names))
    for provider in table.providers.values():
        ids = [id_ for name, rates in provider.models.items() for id_ in (name, *rates.aliases)]
        assert len(ids) == len({id_.lower().replace(".", "-") for id_ in ids})


# Which model is meant.


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", "claude-sonnet-4-5-20250929"),
        ("anthropic", "claude-sonnet-4.5"),
        ("Anthropic", "Claude-Sonnet-4-5-latest"),
        ("anthropic", "anthropic/claude-sonnet-4-5"),
        ("anthropic", "claude-sonnet-4-5[1m]"),
        ("openrouter", "anthropic/claude-sonnet-4.5"),
        ("openrouter", "anthropic/claude-sonnet-4.5:thinking"),
        ("openrouter", "openrouter/anthropic/claude-sonnet-4.5"),
        ("amazon-bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("amazon-bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("anthropic-vertex", "claude-sonnet-4-5@20250929"),
        (None, "anthropic/claude-sonnet-4-5"),
        (None, "claude-sonnet-4-5-20250929"),
    ],
)
def test_a_model_is_found_with_prefixes_dates_and_suffixes(provider: str | None, model: str) -> None:
    assert input_rate(provider, model) == 3


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-5-mini-custom"),  # not gpt-5-mini
        ("openai", "gpt-5-min"),
        ("openai", "claude-sonnet-4-5"),  # of another provider
        ("my-proxy", "claude-sonnet-4-5"),  # may be a subscription
        ("github-copilot", "gpt-5"),
        ("volcengine-plan", "kimi-k2.5"),
        ("openrouter", "openai/gpt-oss-120b"),  # an open model costs something else at every host
        ("openrouter", "openrouter/auto"),
        ("openrouter", "anthropic/claude-sonnet-4.5:online"),
        (None, "kimi-k2.5"),
        (None, "scripted"),
        ("anthropic", ""),
        ("anthropic", "claude-sonnet-4-5" + "-latest" * 1000),
    ],
)
def test_a_model_is_not_guessed(provider: str | None, model: str) -> None:
    assert list_rates(provider, model) is None


def test_a_dated_id_with_a_price_of_its_own_is_not_shortened() -> None:
    assert input_rate("openai", "gpt-4o-2024-05-13") == 5
    assert input_rate("openai", "gpt-4o-2024-08-06") == 2.5


def test_a_host_of_open_models_has_its_own_prices() -> None:
    assert input_rate("groq", "openai/gpt-oss-120b") != input_rate("cerebras", "gpt-oss-120b") is not None


# The price of a call.


def test_a_reported_price_is_never_replaced() -> None:
    assert price_of(usage(cost={"total": 0.5}), *SONNET) == Price(0.5)
    assert price_of(usage(cost={"total": 0.5}), "ollama", "qwen3:32b") == Price(0.5)


@pytest.mark.parametrize("cost", [None, {"total": 0}, {"total": None}, {}])
def test_without_a_reported_price_the_list_price_is_an_estimate(cost: object) -> None:
    known = {"input": 100_000, "output": 10_000, "cacheRead": 50_000, "cacheWrite": 10_000, "cost": cost}
    price = price_of(known, *SONNET)
    assert price is not None
    assert price.is_estimated
    assert price.usd == pytest.approx(0.3 + 0.15 + 0.015 + 0.0375)


def test_a_long_request_costs_the_prices_of_long_requests() -> None:
    rates = list_rates(*SONNET)
    assert rates is not None
    assert rates.price(Tokens(200_000, 0, 0, 0)) == pytest.approx(0.6)
    assert rates.price(Tokens(150_000, 0, 50_001, 0)) == pytest.approx(0.9 + 50_001 * 0.6e-6)


def test_cached_tokens_without_a_price_of_their_own_cost_as_much_as_others() -> None:
    assert Rates(input=2, output=4).cost(Tokens(0, 0, 500_000, 500_000)) == 2


@pytest.mark.parametrize("provider", ["ollama", "LMStudio", "lm_studio", "llama.cpp", "vllm"])
def test_a_local_provider_is_free(provider: str) -> None:
    assert price_of(usage(cost={"total": 0}), provider, "qwen3:32b") == Price(0.0)


def test_a_cloud_model_behind_a_local_provider_is_not_free() -> None:
    assert not is_local("ollama", "gpt-oss:120b-cloud")
    assert price_of(usage(cost={"total": 0}), "ollama", "gpt-oss:120b-cloud") is None


def test_a_price_of_0_of_a_paid_provider_is_unknown() -> None:
    assert price_of(usage(cost={"total": 0}), "somebody", "large") is None
    assert price_of(usage(cost={"total": 0}), None, None) is None
    assert price_of({"cost": {"total": 0}}, "somebody", "large") == Price(0.0)


# What is said about it.


def spent(provider: str, model: str, cost: float | None = 0.0) -> Story:
    story = Story().user("Look.").model(provider=provider, model=model, cost=cost, input=100_000, output=10_000)
    return story.calls("read", {"path": "a"}, "b").says("Hello.").finishes()


def test_an_estimate_is_marked_in_every_part_of_the_cost_analysis() -> None:
    judged = spent(*SONNET).diagnosis()
    cost = judged.cost_analysis
    assert cost.cost_usd == 0.45
    assert cost.list_prices_date == price_table().date
    parts: list[Usage | ToolUsage | SessionDiagnosis] = [cost, *cost.per_model, *cost.per_turn, *cost.per_tool]
    for part in [*parts, *judged.sessions]:
        assert part.cost_usd is not None
        assert part.cost_is_estimated
    assert format_cost(cost) == "$0.4500 (estimated)"
    assert cost_text(cost).startswith("$0.4500 (estimated), 100,000 tokens in")
    assert format_session_cost(judged.sessions[0]) == "$0.4500 (estimated)"
    assert anonymous_diagnosis(judged).cost_analysis.cost_is_estimated
    assert "0.4500 (estimated)" in document(report(judged))


def test_a_reported_cost_and_a_free_one_are_not_marked() -> None:
    for story, text in ((spent(*SONNET, cost=0.5), "$0.5000"), (spent("ollama", "qwen3:32b"), "$0")):
        cost = story.diagnosis().cost_analysis
        assert format_cost(cost) == text
        assert (cost.cost_is_estimated, cost.list_prices_date, cost.unknown_cost) == (False, None, None)


def test_a_sum_of_reported_and_estimated_costs_is_marked() -> None:
    story = Story().model(provider="x", model="y", cost=1.0).model(provider="anthropic", model=SONNET[1], cost=0.0)
    story.model(provider="x", model="z", cost=0.0)
    cost = story.says("Hello.").finishes().diagnosis().cost_analysis
    assert format_cost(cost).startswith("at least $1.0")
    assert format_cost(cost).endswith(" (estimated)")
    assert [(each.model, each.cost_is_estimated) for each in cost.per_model] == [
        (SONNET[1], True),
        ("y", False),
        ("z", False),
    ]


def test_usage_that_arrives_at_the_end_is_priced_like_any_other() -> None:
    late = [{"turn": 1, "usage": {"input": 100_000, "output": 10_000}}]
    story = Story().starts().user("Look.")
    story.event(
        "token_usage", status="ok", payload={"provider": SONNET[0], "model": SONNET[1], "turn": 1, "usage": None}
    )
    story.event("agent_end", payload={"success": True, "recovered_usage": late})
    cost = story.diagnosis().cost_analysis
    assert (cost.cost_usd, cost.cost_is_estimated) == (0.45, True)


def test_wasted_money_is_marked_if_it_is_estimated() -> None:
    story = Story().user("Find it.")
    for _ in range(12):
        story.model(provider=SONNET[0], model=SONNET[1], cost=0.0, input=100_000)
        story.calls("web_search", {"query": "a"}, "the same answer")
    judged = story.says("Nothing.").finishes().diagnosis()
    impacts = [each.impact for each in judged.failure_analysis.findings if each.impact.wasted_usd]
    assert impacts
    assert all(impact.wasted_usd_is_estimated for impact in impacts)
    assert "(estimated)" in format_waste(impacts[0])
    assert judged.cost_analysis.wasted_usd_is_estimated
    assert cost_text(judged.cost_analysis).endswith("(estimated)")


def test_an_event_line_and_a_trace_mark_an_estimated_price() -> None:
    [event] = [event for event in spent(*SONNET).events if event.event_type == "token_usage"]
    assert "$0.4500 (estimated)" in format_event(event).text
    facts = facts_of(event)
    assert (facts["cost_usd"], facts["cost_is_estimated"]) == (0.45, True)
    [unknown] = [event for event in spent("somebody", "large").events if event.event_type == "token_usage"]
    assert "cost_usd" not in facts_of(unknown)


def test_a_policy_counts_an_estimated_cost_and_says_so() -> None:
    judged = spent(*SONNET).diagnosis()
    for limit, passed in ((0.5, True), (0.4, False)):
        results = apply_policy(Policy(max_cost_usd=limit), judged, INTACT).rules
        [rule] = [result for result in results if result.rule == "max_cost_usd"]
        assert (rule.passed, rule.is_estimated) == (passed, True)
        assert rule.explanation.endswith(f"estimated from list prices of {price_table().date}")


def test_a_comparison_names_the_run_whose_cost_is_estimated() -> None:
    estimated = diagnosis("run_002", cost_usd=0.5, cost_is_estimated=True, list_prices_date="2026-11-17")
    notes = compare(diagnosis("run_001", cost_usd=0.4), estimated).notes
    assert notes == ["run_002: cost is estimated from list prices of 2026-11-17"]


def test_an_estimate_of_nothing_and_a_missing_price_read_well() -> None:
    assert format_money(None, is_estimated=True) == "unknown"
    cost = CostAnalysis(model_calls=1, input_tokens=5, per_model=[ModelUsage(provider="a", model="b", input_tokens=5)])
    assert format_cost(cost) == "no price known"
