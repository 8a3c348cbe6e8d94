"""The price of one model call: as reported, or estimated from the list price of its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from critiqor.diagnosis.prices.list_prices import Tokens, is_local, list_rates
from critiqor.model.usage import amount, is_plausible


class Price(NamedTuple):
    """What a model call cost."""

    usd: float
    is_estimated: bool = False
    """Whether it was computed from a list price."""


def tokens_of(usage: Mapping[str, object]) -> Tokens:
    """Return the tokens by which a model call is priced, from its recorded usage; unknown ones are 0."""
    get = usage.get
    return Tokens(
        amount(get("input")) or 0,
        amount(get("output")) or 0,
        amount(get("cacheRead")) or 0,
        amount(get("cacheWrite")) or 0,
    )


def price_of(usage: Mapping[str, object], provider: object, model: object) -> Price | None:
    """Return what a model call cost, from its usage; None if unknown.

    OpenClaw reports a cost of 0 for a model without a configured price. For a call that used tokens, 0 is therefore
    the price only if the provider is local; otherwise the cost is estimated from the list price of the model.
    """
    cost = usage.get("cost")
    total = cost.get("total") if isinstance(cost, dict) else None
    if total and is_plausible(total):
        return Price(float(total))
    tokens = tokens_of(usage)
    has_tokens = any(tokens)
    if is_plausible(total) and not has_tokens:
        return Price(float(total))
    if not has_tokens:
        return None
    names = [name if isinstance(name, str) else None for name in (provider, model)]
    if is_local(*names):
        return Price(0.0)
    rates = list_rates(*names)
    return None if rates is None else Price(rates.price(tokens), is_estimated=True)
