"""The hits of searches: read from an output only if another search may have returned the same ones."""

from __future__ import annotations

from collections import deque
from weakref import ref

from critiqor.diagnosis.signals.noise import items_of
from critiqor.spans.calls import Listing, ToolCall

MAX_UNREAD = 1 << 20
"""Maximum number of characters of outputs whose hits are not read yet; beyond it, the oldest are read."""


def hits_of(call: ToolCall) -> tuple[int, ...]:
    """Return the hits, rows or entries of the output of a search, as hashes."""
    return () if call.listing is None else _read(call.listing)


def _read(listing: Listing) -> tuple[int, ...]:
    if listing.text:
        listing.hits, listing.text = items_of(listing.text), ""
    return listing.hits


class UnreadHits:
    """Bounds the memory that outputs take until their hits are read; most calls are forgotten before that."""

    def __init__(self) -> None:
        self._listings: deque[tuple[ref[Listing], int]] = deque()
        self._size = 0

    def add(self, listing: Listing) -> None:
        """Add an output whose hits are not read yet."""
        size = len(listing.text)
        self._listings.append((ref(listing), size))
        self._size += size
        while self._size > MAX_UNREAD:
            known, size = self._listings.popleft()
            self._size -= size
            if (oldest := known()) is not None:
                _read(oldest)
