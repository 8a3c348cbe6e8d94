"""Serving the dashboard until it is interrupted: on this machine alone, or at one address of it behind a token."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from shlex import quote
from typing import NamedTuple
from urllib.parse import urlencode

import uvicorn

from critiqor.dashboard.data.run_catalog import RunCatalog
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.web.access import Viewer
from critiqor.dashboard.web.application import application
from critiqor.dashboard.web.bind_address import LOOPBACK, Place, listener_at, place_of
from critiqor.dashboard.web.connections import LARGEST_HEAD, MOST_CONNECTIONS, Connection
from critiqor.errors import UsageError
from critiqor.storage import SessionPaths


class Opening(NamedTuple):
    """A dashboard that is about to answer."""

    link: str
    """Opens it; holds the token."""
    address: str
    tenants: list[str]
    """Whose runs it shows."""
    port: int
    requires_token: bool
    """Whether somebody without a token sees nothing, be a run public or not."""
    notes: list[str]
    """What is to be known of that address."""


def serve(
    paths: SessionPaths,
    opened: Callable[[Opening], None],
    *,
    run_id: str | None = None,
    tenants: Iterable[str] = (),
    host: str = LOOPBACK,
    port: int | None = None,
    requires_token: bool = False,
) -> None:
    """Serve the runs of some tenants until the process is interrupted; `opened` is told once it can be reached."""
    place = place_of(host)
    if not place.is_loopback and not requires_token:
        message = f"others can reach {host}, so that the dashboard listens there only if everybody needs a token"
        raise UsageError(message, fix=f"critiqor dashboard --host {quote(host)} --require-token")
    shown = tenants_of(paths, run_id, tenants)
    if run_id is not None:
        RunCatalog(paths).open(run_id, Viewer(tenants=frozenset(shown)))
    listener = listener_at(place, port)
    taken: int = listener.getsockname()[1]
    site = Site(paths, taken, place, is_token_required=requires_token)
    asked = {"token": site.access.admit(*shown), **({"run": run_id} if run_id else {})}
    link = f"{site.address}/open?{urlencode(asked)}"
    opening = Opening(link, site.address, shown, taken, requires_token, _notes(place))
    options = uvicorn.Config(
        application(site),
        http=Connection,
        ws="none",
        h11_max_incomplete_event_size=LARGEST_HEAD,
        limit_concurrency=MOST_CONNECTIONS,
        proxy_headers=False,
        log_level="critical",  # a trace would reach the terminal
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


def tenants_of(paths: SessionPaths, run_id: str | None, tenants: Iterable[str]) -> list[str]:
    """Whose runs are to be shown: as told, else those of the run, else those of the only tenant there is."""
    named = list(dict.fromkeys(tenants))
    if named:
        return named
    if run_id is not None:
        from critiqor.storage.run_record import load_head

        return [str(load_head(paths, run_id)["metadata"]["tenant_id"])]
    found = RunCatalog(paths).tenants()
    if len(found) > 1:
        each = [f"--tenant {quote(name)}".replace("\n", " ") for name in found]
        commands = [f"critiqor dashboard {option}" for option in (*each, " ".join(each))]
        raise UsageError("this runs folder has runs of several tenants", fix="\n    ".join(commands))
    return found or ["default"]


def _notes(place: Place) -> list[str]:
    if place.is_loopback:
        return []
    return [
        "This is plain HTTP: whoever can listen on the network can read along, the token included. "
        "Use a tunnel or a proxy with TLS; `ssh -L` needs no --host at all."
    ]
