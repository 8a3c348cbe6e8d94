"""Serving the dashboard: on this machine alone, until it is interrupted."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlencode

import uvicorn

from critiqor.dashboard.access import Viewer
from critiqor.dashboard.application import application
from critiqor.dashboard.library import Library
from critiqor.dashboard.site import Site
from critiqor.errors import CritiqorError, UsageError
from critiqor.storage import SessionPaths

LOOPBACK = "127.0.0.1"


class Opening(NamedTuple):
    """A dashboard that is about to answer."""

    link: str
    """Opens it; holds the token."""
    address: str
    tenant_id: str
    port: int


def serve(
    paths: SessionPaths, run_id: str | None, tenant_id: str | None, port: int, opened: Callable[[Opening], None]
) -> None:
    """Serve the runs of one tenant until the process is interrupted; `opened` is told once it can be reached."""
    tenant = tenant_of(paths, run_id, tenant_id)
    if run_id is not None:
        Library(paths).open(run_id, Viewer(tenant_id=tenant))
    listener = _listener(port)
    port = listener.getsockname()[1]
    site = Site(paths, port)
    asked = {"token": site.access.admit(tenant), **({"run": run_id} if run_id else {})}
    opening = Opening(f"{site.address}/open?{urlencode(asked)}", site.address, tenant, port)
    options = uvicorn.Config(
        application(site),
        log_level="error",
        access_log=False,  # addresses hold tokens
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    # Interrupting it is how it is ended, and nothing went wrong.
    with listener, suppress(KeyboardInterrupt):
        # Connections wait in the queue of the system until the server takes them.
        opened(opening)
        uvicorn.Server(options).run(sockets=[listener])


def tenant_of(paths: SessionPaths, run_id: str | None, tenant_id: str | None) -> str:
    """Whose runs are to be shown: as told, else those of the run, else those of the only tenant there is."""
    if tenant_id is not None:
        return tenant_id
    if run_id is not None:
        from critiqor.records import load_head

        return str(load_head(paths, run_id)["metadata"]["tenant_id"])
    tenants = Library(paths).tenants()
    if len(tenants) > 1:
        from shlex import quote

        commands = [f"critiqor dashboard --tenant {quote(name)}".replace("\n", " ") for name in tenants]
        raise UsageError("this runs folder has runs of several tenants", fix="\n    ".join(commands))
    return tenants[0] if tenants else "default"


def _listener(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        message = f"port {port} cannot be used: {error.strerror}"
        raise CritiqorError(message, fix="critiqor dashboard   without --port takes a free one") from error
    return listener
