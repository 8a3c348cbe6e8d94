"""Slips: numbers that differ from each other by one digit, or by the order of digits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, combinations
from operator import ne


def is_slip(claimed: str, recorded: str) -> bool:
    """Return whether two numbers differ by one digit, by a missing one, or only by the order of their digits."""
    size, other = len(claimed), len(recorded)
    if size < 2 or other < 2 or claimed == recorded:
        return False
    if size == other:
        different = sum(map(ne, claimed, recorded))
        return different == 1 or (different <= 3 and sorted(claimed) == sorted(recorded))
    shorter, longer = (claimed, recorded) if size < other else (recorded, claimed)
    return len(shorter) >= 3 and len(longer) == len(shorter) + 1 and shorter in (longer[1:], longer[:-1])


MIN_VARIED = 3
MAX_VARIED = 9
"""Minimum and maximum number of digits of a number that is compared by its digits."""


def variants(digits: str) -> Iterator[int]:
    """Return the numbers from which a number differs by a slip, and itself; those with fewer digits are left out."""
    number = int(digits)
    power = 10 ** len(digits)
    found: list[Iterable[int]] = [
        range(number + power, number + 10 * power, power),  # one more digit in front
        range(10 * number, 10 * number + 10),  # or behind
    ]
    swapped: list[int] = []
    places: list[tuple[int, int]] = []
    for char in digits:
        power //= 10
        digit = int(char)
        first = number - digit * power
        found.append(range(first if places else first + power, first + 10 * power, power))
        for other, place in places:
            if other != digit and (digit or place is not places[0][1]):
                swapped.append(number + (digit - other) * (place - power))
        places.append((digit, power))
    found += [swapped, _rotated(digits)]
    return chain.from_iterable(found)


def _rotated(digits: str) -> Iterator[int]:
    """Return the numbers with three digits in another order: 1016 for 1160."""
    for one, other, third in combinations(range(len(digits)), 3):
        first, second, last = digits[one], digits[other], digits[third]
        if first != second != last != first or (first, second, last).count(first) == 2 or second == last:
            for new in ((second, last, first), (last, first, second)):
                changed = list(digits)
                changed[one], changed[other], changed[third] = new
                if changed[0] != "0":
                    yield int("".join(changed))
