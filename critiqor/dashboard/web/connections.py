"""Connections to the dashboard, as far as the server itself is too patient with them."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE_SECONDS = 10.0
"""Until a request must have come whole, from its first byte or from the moment of connecting."""
MOST_CONNECTIONS = 200
LARGEST_HEAD = 1 << 16
"""Bytes of the address and the headers of one request."""


class Connection(H11Protocol):
    """One connection. Whoever connects and says nothing, or begins a request and never ends it, is hung up on."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._waiting is None and self._is_asked_for_nothing():
            self._waiting = self.loop.call_later(PATIENCE_SECONDS, self._hang_up)
        elif self._waiting is not None and not self._is_asked_for_nothing():
            self._waiting.cancel()
            self._waiting = None

    def _is_asked_for_nothing(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _hang_up(self) -> None:
        self._waiting = None
        if self._is_asked_for_nothing():
            self.transport.close()
