"""Pages of a long list."""

from __future__ import annotations

from typing import NamedTuple


class Pages(NamedTuple):
    """The current page of a list, and the addresses of the others."""

    page: int
    """Starts at 1."""
    size: int
    total: int
    path: str
    query: str
    """The rest of the query."""

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
        """Return the address of a page."""
        return f"{self.path}?{self.query}&page={page}" if self.query else f"{self.path}?page={page}"

    def within(self) -> Pages:
        """Return this page, or the last one if the list has become shorter."""
        return self._replace(page=min(self.page, self.last))


def page_number(text: str | None) -> int:
    """Return the requested page number; 1 if the request is invalid."""
    return int(text) if text and text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text) else 1
