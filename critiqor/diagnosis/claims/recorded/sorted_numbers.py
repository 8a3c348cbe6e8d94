"""Sorted numbers, among which a number is found within a tolerance."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

SPREAD = 2.0
"""Numbers of one size differ by this factor at the most."""
MAX_CHANCE = 0.25
"""Maximum probability with which any number of a size is among the results of a computation."""


class Sorted:
    """Numbers in order, so that one is found without comparing all."""

    def __init__(self, numbers: Iterable[float]) -> None:
        self.numbers = sorted(set(numbers))
        self._size = len(self.numbers)

    def has(self, number: float, tolerance: float) -> bool:
        """Return whether one of the recorded or derived numbers is as near as the tolerance."""
        numbers = self.numbers
        place = bisect_left(numbers, number - tolerance)
        return place < self._size and numbers[place] <= number + tolerance

    def is_dense(self, number: float, tolerance: float) -> bool:
        """Return whether so many sorted numbers are of this size that nearly any number would be found among them."""
        low, high = sorted((number / SPREAD, number * SPREAD))
        near = bisect_left(self.numbers, high) - bisect_left(self.numbers, low)
        return near * 2 * tolerance > MAX_CHANCE * (high - low)

    def has_any(self, numbers: Iterable[float], tolerance: float) -> bool:
        """Return whether any of `numbers` is within the tolerance of one of the sorted numbers."""
        own, size = self.numbers, self._size
        for number in numbers:
            place = bisect_left(own, number - tolerance)
            if place < size and own[place] <= number + tolerance:
                return True
        return False
