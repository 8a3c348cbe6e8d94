"""List prices of common models, from `list_prices.toml`, and the search for a model by the id that was recorded.

A model is found only if its id is in the table: a similar id may be a model with another price. Dates and other
suffixes that do not change the price are ignored.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

FILE = Path(__file__).with_name("list_prices.toml")
MAX_NAME = 300
"""Maximum length of the id of a model in characters: a longer one is not searched."""
_SUFFIX = re.compile(r"[-@]20\d{6}$|-20\d\d-\d\d-\d\d$|-latest$|:latest$|-v1$|-v\d:\d+$|\[1m\]$|:thinking$|:beta$")
"""Ends of ids that do not change the price: dates, versions of a platform, modes."""
_REGION = re.compile(r"^(?:us|eu|apac|global|jp|au|ca|us-gov)\.")
_POINT = re.compile(r"(?<=\d)\.(?=\d)")


class Rates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    """Like `input` if missing."""
    cache_write: float | None = None
    """Like `input` if missing."""

    def cost(self, tokens: Tokens) -> float:
        """Return the cost of a model call by the table of list prices, in US dollars."""
        read = self.input if self.cache_read is None else self.cache_read
        written = self.input if self.cache_write is None else self.cache_write
        parts = (self.input, self.output, read, written)
        return sum(rate * count for rate, count in zip(parts, tokens, strict=True)) / 1_000_000


class LongRates(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices of requests with many input tokens."""

    above: int
    """A request with more input tokens than this costs these prices, all of it."""


class _ModelRates(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices of one model."""

    aliases: tuple[str, ...] = ()
    long: LongRates | None = None

    def price(self, tokens: Tokens) -> float:
        """Return the cost of a model call in US dollars, by the length of its request."""
        if self.long is not None and tokens.request > self.long.above:
            return self.long.cost(tokens)
        return self.cost(tokens)


class Tokens(NamedTuple):
    """Tokens of a model call, by price."""

    input: int
    output: int
    cache_read: int
    cache_write: int

    @property
    def request(self) -> int:
        """Tokens of a request that are charged at list prices, cached or not."""
        return self.input + self.cache_read + self.cache_write


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider and its models."""

    page: str
    """Address of the page with its prices."""
    names: tuple[str, ...]
    models: dict[str, _ModelRates]
    resold: bool = False
    """Whether resellers sell its models at the same price."""


class PriceTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of `list_prices.toml`."""

    date: str
    """Day on which the prices were checked."""
    source: str
    local: frozenset[str]
    """Names of providers that run on the user's own hardware."""
    resellers: frozenset[str]
    """Names of providers that sell models of other providers."""
    providers: dict[str, Provider]


@cache
def price_table() -> PriceTable:
    """Return the table of list prices."""
    return msgspec.convert(tomllib.loads(FILE.read_text(encoding="utf-8")), PriceTable)


def is_local(provider: str | None, model: str | None) -> bool:
    """Return whether a model runs on the user's own hardware, so that its calls cost nothing."""
    if provider is None or _name(provider) not in price_table().local:
        return False
    # A model of Ollama's cloud is reached through the local Ollama, but is not free.
    return not (model or "").lower().endswith(("-cloud", ":cloud"))


@lru_cache(maxsize=256)
def list_rates(provider: str | None, model: str | None) -> _ModelRates | None:
    """Return the list prices of a model of a provider; None if they are not known for certain.

    Without a provider, the id must name one of the providers that sell only models of their own.
    """
    if not model or len(model) > MAX_NAME:
        return None
    index = _index()
    name = None if provider is None else _name(provider)
    ids = list(_spellings(model))
    if name in index.by_provider:
        models = index.by_provider[name]
        own = [id_.partition("/")[2] for id_ in ids if _name(id_.partition("/")[0]) == name]
        return next((models[id_] for id_ in [*ids, *own] if id_ in models), None)
    if name is not None and name not in price_table().resellers:
        return None
    return _resold(ids, index) or (_sold_by_one(ids, index) if name is None else None)


class _Index(NamedTuple):
    by_provider: dict[str, dict[str, _ModelRates]]
    """Prices by name of the provider and id of the model."""
    resold: dict[str, dict[str, _ModelRates]]
    """The same for providers whose models are resold at the same price."""


@cache
def _index() -> _Index:
    index = _Index({}, {})
    for provider in price_table().providers.values():
        models = {_id(id_): rates for name, rates in provider.models.items() for id_ in (name, *rates.aliases)}
        for name in provider.names:
            index.by_provider[name] = models
            if provider.resold:
                index.resold[name] = models
    return index


def _resold(ids: list[str], index: _Index) -> _ModelRates | None:
    """Return the prices of a model whose id begins with its provider: `anthropic/claude-…`, `us.anthropic.claude-…`."""
    for id_ in ids:
        *outer, rest = id_.split("/")
        if outer:
            maker = outer[-1]
        else:
            maker, _, rest = _REGION.sub("", id_).partition(".")
        if (rates := index.resold.get(maker, {}).get(rest)) is not None:
            return rates
    return None


def _sold_by_one(ids: list[str], index: _Index) -> _ModelRates | None:
    """Return the prices of a model that only its own provider and resellers sell."""
    return next((models[id_] for id_ in ids for models in index.resold.values() if id_ in models), None)


def _spellings(model: str) -> Iterator[str]:
    """Yield the id of a model, then without one suffix after the other."""
    id_ = _id(model)
    yield id_
    while (shorter := _SUFFIX.sub("", id_)) != id_:
        id_ = shorter
        yield id_


def _id(model: str) -> str:
    """Return an id in lower case with one spelling of versions: 4.5 is also written 4-5."""
    return _POINT.sub("-", model.strip().lower().removeprefix("models/"))


def _name(provider: str) -> str:
    return provider.strip().lower().replace("_", "-").replace(" ", "-").replace("llama.cpp", "llama-cpp")
