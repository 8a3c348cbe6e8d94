"""What was seen recently: of everything that a detector compares with, a bounded part is remembered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

MAX_REMEMBERED = 2048
"""Number of different calls, results or queries that a detector remembers at least: the latest ones. Until there are
more, nothing is forgotten."""
Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """A mapping that remembers the entries that were set last: at least `limit`, at most twice as many."""

    __slots__ = ("_limit", "_new", "_old")

    def __init__(self, limit: int = MAX_REMEMBERED) -> None:
        self._limit = limit
        self._new: dict[Key, Value] = {}
        # Two generations: forgetting the older one at once is cheaper than to remove entry by entry.
        self._old: dict[Key, Value] = {}

    def get(self, key: Key) -> Value | None:
        """Return a value; None if it is not remembered."""
        found = self._new.get(key)
        return self._old.get(key) if found is None and self._old else found

    def __contains__(self, key: Key) -> bool:
        return key in self._new or key in self._old

    def __setitem__(self, key: Key, value: Value) -> None:
        self._new[key] = value
        if len(self._new) > self._limit:
            self._new, self._old = {}, self._new

    def items(self) -> Iterator[tuple[Key, Value]]:
        """Iterate over the remembered entries, each once."""
        for key, value in self._old.items():
            if key not in self._new:
                yield key, value
        yield from self._new.items()

    def clear(self) -> None:
        """Forget everything."""
        self._new = {}
        self._old = {}

    def copy(self) -> Recent[Key, Value]:
        """Return a copy with the same values."""
        same: Recent[Key, Value] = Recent(self._limit)
        same._new, same._old = self._new.copy(), self._old.copy()
        return same
