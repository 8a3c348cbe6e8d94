"""Pages of a long list."""

from __future__ import annotations

from typing import NamedTuple


class Pages(NamedTuple):
    """Where somebody is in a list, and where the other pages are."""

    page: int
    """From 1."""
    size: int
    total: int
    path: str
    query: str
    """What else the address asks for."""

    @property
    def offset(self) -> int:
        return (self.page - 1) * self.size

    @property
    def last(self) -> int:
        return max(1, -(-self.total // self.size))

    @property
    def first_shown(self) -> int:
        return min(self.offset + 1, self.total)

    @property
    def last_shown(self) -> int:
        return min(self.offset + self.size, self.total)

    def address(self, page: int) -> str:
        """Where a page is."""
        return f"{self.path}?{self.query}&page={page}" if self.query else f"{self.path}?page={page}"

    def within(self) -> Pages:
        """The same, or the last page where somebody is behind that: the list has become shorter."""
        return self._replace(page=min(self.page, self.last))


def page_number(text: str | None) -> int:
    """The page that an address asks for; the first one where it asks for none that there can be."""
    return int(text) if text and text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text) else 1
