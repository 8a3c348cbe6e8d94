"""Sortable columns of tables: the order is a part of the address, so sorting is a link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode


class Sorting(NamedTuple):
    """The order of a table, and the addresses of other orders."""

    path: str
    query: Mapping[str, str]
    names: Sequence[str]
    """What the table can be sorted by."""

    @property
    def current(self) -> str:
        """The column that the table is sorted by; empty if it is none of its columns."""
        name = self.query.get("sort", "").removeprefix("-")
        return name if name in self.names else ""

    @property
    def is_descending(self) -> bool:
        return bool(self.current) and self.query["sort"].startswith("-")

    def state(self, name: str) -> str:
        """Return the state of a column for `aria-sort`."""
        if name != self.current:
            return "none"
        return "descending" if self.is_descending else "ascending"

    def address(self, name: str) -> str:
        """Return the address of the table sorted by a column; the opposite order if it is sorted by it already."""
        sort = f"-{name}" if name == self.current and not self.is_descending else name
        return f"{self.path}?{urlencode({**self.query, 'sort': sort})}"
