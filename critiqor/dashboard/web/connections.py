"""Limits on connections that uvicorn does not enforce: idle clients are disconnected."""

from __future__ import annotations

import asyncio

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 10.0
"""Maximum time until a request is complete, from the connection or the end of the last response."""
MAX_CONNECTIONS = 200
MAX_HEAD_BYTES = 1 << 16
"""Maximum size of the request line and headers of one request."""


def server_configuration(app: ASGIApp) -> uvicorn.Config:
    """Return the configuration of a server that bounds connections, and prints nothing."""
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        limit_concurrency=MAX_CONNECTIONS,
        proxy_headers=False,
        log_level="critical",  # no tracebacks on the terminal
        access_log=False,  # addresses contain tokens
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )


class Connection(H11Protocol):
    """An HTTP connection that is closed if no complete request arrives in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._update_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _update_timer(self) -> None:
        if self._timer is None and self._is_idle():
            self._timer = self.loop.call_later(REQUEST_SECONDS, self._close)
        elif self._timer is not None and not self._is_idle():
            self._timer.cancel()
            self._timer = None

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _close(self) -> None:
        self._timer = None
        if self._is_idle():
            self.transport.close()
