"""What a person computes from recorded numbers: only numbers that belong together are combined.

Sums, differences, shares and changes are formed within a column or within a record, and of totals. With free
combinations of all numbers, almost every number would follow from some of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, islice, permutations
from typing import NamedTuple

from critiqor.diagnosis.claims.recorded.facts import Fact
from critiqor.diagnosis.claims.recorded.sorted_numbers import Sorted
from critiqor.diagnosis.claims.recorded.units import is_money

MAX_SERIES = 40
"""Maximum number of numbers of a series that are combined in pairs."""
MAX_SUBSET = 10
"""Maximum number of numbers of a series of which every subset is added up."""
MAX_RUN = 12
"""Maximum number of neighbouring numbers of a longer series that are added up."""
MAX_RESULTS = 60_000
FEW = 6
"""With at most so many numbers, any two of them are combined."""
MAX_OPERANDS = 40
"""Maximum number of operands that are combined with numbers from elsewhere."""


class Rate(NamedTuple):
    """What one thing is for another."""

    number: float
    measure: str
    """What it measures: money for 100 g is money."""


class Derivations:
    """The results of computations with facts."""

    def __init__(self, facts: list[Fact]) -> None:
        series: dict[str, list[float]] = {}
        records: dict[int, list[float]] = {}
        groups: dict[tuple[str, str], list[float]] = {}
        for fact in facts:
            series.setdefault(fact.series, []).append(fact.number)
            records.setdefault(fact.record, []).append(fact.number)
            if fact.is_structured:
                for name in dict.fromkeys(fact.names[:4]):
                    groups.setdefault((fact.series, name), []).append(fact.number)
        self._series = list(series.values())
        self._records = list(records.values())
        self._groups = [group for group in groups.values() if len(group) > 1]
        self._numbers = list(dict.fromkeys(fact.number for fact in facts))
        self.totals = list(
            dict.fromkeys(
                result
                for group in (*self._series, *self._groups)
                if len(group) > 1
                for result in (sum(group), sum(group) / len(group))
            )
        )
        self.rates = list(_rates(facts))
        """What one thing is for another of the same record: a price for each 100 g."""
        self._rates: dict[str, Sorted] = {}
        self.counts = [float(len(group)) for group in (*self._series, *self._groups)] + [float(len(self._records))]
        self._exact: Sorted | None = None
        self._amounts: Sorted | None = None
        self._shares: Sorted | None = None
        self.is_complete = True
        """Whether everything was computed; of too many numbers, only a part is."""

    def has_total(self, number: float, tolerance: float) -> bool:
        """Return whether a number is the sum or the average of a series or of a group of it."""
        if self._exact is None:
            self._exact = Sorted(self.totals)
        return self._exact.has(number, tolerance)

    def has_rate(self, number: float, tolerance: float, measure: str) -> bool:
        """Return whether a number of a measure is a rate."""
        if measure not in self._rates:
            measures = ("", measure) if is_money(measure) else (measure,)
            self._rates[measure] = Sorted(rate.number for rate in self.rates if rate.measure in measures)
        return self._rates[measure].has(number, tolerance)

    def has_amount(self, number: float, tolerance: float) -> bool:
        """Return whether a number is a sum, a difference or a product of what belongs together, or an average."""
        if self._amounts is None:
            self._amounts = self._sorted(self._all_amounts())
        if self.has_total(number, tolerance):
            return True
        return self._amounts.has(number, tolerance) and not self._amounts.is_dense(number, tolerance)

    def is_by_chance(self, number: float, tolerance: float) -> bool:
        """Return whether nearly every ratio of a size follows."""
        return self._shares is not None and self._shares.is_dense(number, tolerance)

    def has_share(self, number: float, tolerance: float) -> bool:
        """Return whether a number is a ratio of what belongs together; 100 times as much is a percentage."""
        if self._shares is None:
            self._shares = self._sorted(self._all_shares())
        return self._shares.has(number, tolerance) and not self._shares.is_dense(number, tolerance)

    def _sorted(self, results: Iterator[float]) -> Sorted:
        found = Sorted(islice(results, MAX_RESULTS))
        self.is_complete = self.is_complete and next(results, None) is None
        return found

    def _all_amounts(self) -> Iterator[float]:
        yield from self.totals
        yield from self.counts
        for numbers in (*self._series, *self._groups):
            yield from _sums(numbers)
        for one, other in self._pairs():
            yield abs(one - other)
            yield one + other
        products: list[float] = []
        for record in self._records:
            for one, other in combinations(record[:MAX_SUBSET], 2):
                yield one + other
                yield one * other
            if len(record) > 1:
                yield sum(record)
                products.append(record[0] * record[1])
        yield sum(products)

    def _all_shares(self) -> Iterator[float]:
        counts = list(dict.fromkeys(self.counts))[:MAX_OPERANDS]
        for one, other in chain(self._pairs(), combinations(counts, 2)):
            if one and other:
                yield from (one / other, other / one, abs(one - other) / abs(one), abs(one - other) / abs(other))

    def _pairs(self) -> Iterator[tuple[float, float]]:
        """Yield the numbers that belong together, two at a time."""
        for numbers in (*self._series, *self._records, *self._groups):
            members = list(dict.fromkeys((*numbers[:MAX_SERIES], *([sum(numbers)] if len(numbers) > 1 else ()))))
            yield from combinations(members, 2)
        yield from combinations(self.totals[:MAX_OPERANDS], 2)
        if len(self._numbers) <= FEW:
            yield from combinations(self._numbers, 2)


def _rates(facts: list[Fact]) -> Iterator[Rate]:
    records: dict[int, list[Fact]] = {}
    for fact in facts:
        if fact.is_structured:
            records.setdefault(fact.record, []).append(fact)
    for record in list(records.values())[:MAX_OPERANDS]:
        for one, other in permutations(record[:FEW], 2):
            if other.number and one.series != other.series and (not one.unit.measure or one.unit != other.unit):
                for factor in (1.0, 100.0, 1000.0):
                    yield Rate(factor * one.number / other.number, one.unit.measure)


def _sums(numbers: list[float]) -> Iterator[float]:
    if 2 < len(numbers) <= MAX_SUBSET:
        for size in range(2, len(numbers) + 1):
            for chosen in combinations(numbers, size):
                yield sum(chosen)
        return
    for start, first in enumerate(numbers):
        total = first
        for number in numbers[start + 1 : start + MAX_RUN]:
            total += number
            yield total


MAX_SCALED = 24
"""Maximum number of recorded numbers of which one is a proportion."""
PERIODS = Sorted((7.0, 12.0, 24.0, 28.0, 30.0, 31.0, 52.0, 60.0, 365.0))
"""Numbers that everybody knows: days of a week, months of a year."""


def adds_up(claimed: float, margin: float, own: list[float], others: Sorted) -> bool:
    """Return whether a claimed number is the sum or difference of two numbers: a text's own and another one."""
    has = others.has
    return any(has(claimed - one, margin) or has(one - claimed, margin) or has(one + claimed, margin) for one in own)


def multiplies(claimed: float, margin: float, own: list[float], others: Sorted, *, is_share: bool = False) -> bool:
    """Return whether a claimed number is the product, ratio or share of two numbers: a text's own and another one."""
    if not claimed:
        return False
    relative = margin / abs(claimed)
    has, share = others.has, claimed / 100
    for one in filter(None, own):
        # Products, quotients, and so many percent of something.
        for other in (claimed / one, one / claimed, claimed * one, claimed / (one / 100)):
            slack = abs(other) * relative + 1e-9
            if has(other, slack) or PERIODS.has(other, slack):
                return True
        for change in (1 + one / 100, 1 - one / 100):
            if change > 0 and has(claimed / change, margin / change):
                return True
        for factor in (share, 1 + share, 1 - share) if is_share else ():
            slack = abs(one) * margin / 100 + 1e-9
            if factor > 0 and (has(one * factor, slack) or has(one / factor, slack / factor**2)):
                return True
    return False


def scales(claimed: float, asked: list[float], others: Sorted) -> bool:
    """Return whether a claimed number is a recorded one in the ratio of a number that was asked for and another one."""
    amounts = others.numbers[:MAX_SCALED]
    return any(others.has_any([claimed * amount / one for amount in amounts], 1e-9) for one in filter(None, asked))
