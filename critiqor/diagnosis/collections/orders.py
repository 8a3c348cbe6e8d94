"""Sets of positions in a recording: one bit for each, because a finding can have a million calls."""

from __future__ import annotations

from collections.abc import Iterable

_BITS = 9
_MASK = (1 << _BITS) - 1


class Orders:
    """A set of calls, each given by its position in the recording (`ToolCall.order`)."""

    __slots__ = ("_blocks",)

    def __init__(self, orders: Iterable[int] = ()) -> None:
        self._blocks: dict[int, int] = {}
        for order in orders:
            self.add(order)

    def add(self, order: int) -> bool:
        """Add a position; return whether it is new."""
        number, bit = order >> _BITS, 1 << (order & _MASK)
        block = self._blocks.get(number, 0)
        if block & bit:
            return False
        self._blocks[number] = block | bit
        return True

    def update(self, other: Orders) -> None:
        """Add the positions of another set."""
        mine = self._blocks
        for number, block in other._blocks.items():
            mine[number] = mine.get(number, 0) | block

    def __contains__(self, order: int) -> bool:
        return bool(self._blocks.get(order >> _BITS, 0) >> (order & _MASK) & 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Orders) and self._blocks == other._blocks

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return sum(block.bit_count() for block in self._blocks.values())

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def count_in(self, others: Iterable[Orders]) -> int:
        """Return how many of these positions are in one of the others."""
        count = 0
        together = [other._blocks for other in others]
        for number, block in self._blocks.items():
            covered = 0
            for blocks in together:
                covered |= blocks.get(number, 0)
            count += (block & covered).bit_count()
        return count
