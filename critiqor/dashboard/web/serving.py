"""Serve the dashboard until it is interrupted: on the loopback address, or on another address with a token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from shlex import quote
from signal import SIGTERM, signal
from sys import exit as exit_process
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

import uvicorn

from critiqor.dashboard.data.run_catalog import RunCatalog
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.web.application import application
from critiqor.dashboard.web.bind_address import LOOPBACK, BindAddress, listen, resolve_host
from critiqor.dashboard.web.connections import server_configuration
from critiqor.errors import CritiqorError, UsageError
from critiqor.privacy.visibility import Viewer
from critiqor.run.store import RunStore

if TYPE_CHECKING:
    from critiqor.dashboard.fleet.source import Fleet


class ServedDashboard(NamedTuple):
    """A dashboard that is ready for requests."""

    link: str
    """Address with the token of the user."""
    address: str
    tenants: list[str]
    """Tenants whose runs are shown."""
    port: int
    requires_token: bool
    """Whether requests without a token are refused, even for public runs."""
    notes: list[str]
    """Warnings about the address."""


def serve(
    store: RunStore,
    opened: Callable[[ServedDashboard], None],
    *,
    run_id: str | None = None,
    tenants: Iterable[str] = (),
    host: str = LOOPBACK,
    port: int | None = None,
    requires_token: bool = False,
    fleet: Fleet | None = None,
) -> None:
    """Serve the runs of some tenants until the process is interrupted; `opened` is called once it listens.

    With a fleet, its runs are shown too, and `run_id` may be `HOST/RUN`. The fleet is closed at the end.
    """
    bind = resolve_host(host)
    if not bind.is_loopback and not requires_token:
        message = f"other machines can reach {host}, so the dashboard needs --require-token there"
        raise UsageError(message, fix=f"critiqor dashboard --host {quote(host)} --require-token")
    notes = _notes(bind)
    if fleet is None:
        shown = _tenants_to_show(store, run_id, tenants)
        if run_id is not None:
            RunCatalog(store).open(run_id, Viewer(is_user=True, tenants=frozenset(shown)))
    else:
        shown = _tenants_of_fleet(fleet, run_id, tenants)
        notes += _notes_on_index(fleet)
    listener = listen(bind, port)
    bound_port: int = listener.getsockname()[1]
    site = Site(store, bound_port, bind, is_token_required=requires_token, fleet=fleet)
    query = {"token": site.access.admit(*shown), **({"run": run_id} if run_id else {})}
    link = f"{site.address}/open?{urlencode(query)}"
    served = ServedDashboard(link, site.address, shown, bound_port, requires_token, notes)
    # An interrupt is the normal way to end it.
    with listener, _closed_at_end(fleet), suppress(KeyboardInterrupt):
        # Early connections wait in the backlog until the server accepts them.
        opened(served)
        uvicorn.Server(server_configuration(application(site))).run(sockets=[listener])


def _tenants_to_show(store: RunStore, run_id: str | None, tenants: Iterable[str]) -> list[str]:
    """Return the tenants to show: the given ones, else that of the run, else the only one in the folder."""
    named = list(dict.fromkeys(tenants))
    if named:
        return named
    if run_id is not None:
        return [store.run(run_id).head().metadata.tenant_id]
    return _only_tenant(RunCatalog(store).tenants(), "the runs in this folder", "critiqor dashboard")


def _tenants_of_fleet(fleet: Fleet, run_id: str | None, tenants: Iterable[str]) -> list[str]:
    """Return the tenants to show: the given ones, else that of the run, else the only one in the index."""
    named = list(dict.fromkeys(tenants))
    if named:
        return named
    index = fleet.whole_index()
    if run_id is not None:
        from critiqor.fleet.views.run_names import find_indexed

        return [find_indexed(index, run_id).tenant]
    found = [index.tenant] if index.tenant is not None else index.tenants()
    return _only_tenant(found, "the runs of the fleet", "critiqor dashboard --fleet")


def _only_tenant(found: list[str], what: str, command: str) -> list[str]:
    if len(found) > 1:
        each = [f"--tenant {quote(name)}".replace("\n", " ") for name in found]
        commands = [f"{command} {option}" for option in (*each, " ".join(each))]
        raise UsageError(f"{what} belong to several tenants; choose one with --tenant", fix="\n    ".join(commands))
    return found or ["default"]


def _notes_on_index(fleet: Fleet) -> list[str]:
    """Return what a user should know about the index. One that is away is no reason not to start."""
    try:
        return fleet.whole_index().notes
    except CritiqorError as error:
        return [f"{error.message}. The pages of the fleet say so until it can be used."]


@contextmanager
def _closed_at_end(fleet: Fleet | None) -> Iterator[None]:
    """Remove what was fetched from the store when the dashboard ends, also if it is terminated."""
    if fleet is None:
        yield
        return
    # The server hands on the signal that ended it.
    before = signal(SIGTERM, lambda *_: exit_process(128 + SIGTERM))
    try:
        yield
    finally:
        fleet.close()
        signal(SIGTERM, before)


def _notes(bind: BindAddress) -> list[str]:
    if bind.is_loopback:
        return []
    return [
        "This is plain HTTP: everyone on the network path can read the pages and the token. "
        "Use a tunnel or a proxy with TLS; with `ssh -L` no --host is needed."
    ]
