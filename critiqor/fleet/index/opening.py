"""Opening of the index that the settings name."""

from __future__ import annotations

from pathlib import Path

from critiqor.errors import UsageError
from critiqor.fleet.index.fleet_index import FleetIndex
from critiqor.fleet.index.sqlite_base import SqliteBase, default_file

_POSTGRES = ("postgresql://", "postgres://")
_FILE = "sqlite://"


def is_postgres(url: str) -> bool:
    """Return whether the address of an index is one of PostgreSQL."""
    return url.startswith(_POSTGRES)


def open_index(url: str | None, tenant: str | None = None) -> FleetIndex:
    """Open the index at `postgresql://…` or `sqlite:///FILE`, or without a URL the one in the user's data folder.

    Its tables are made or brought up to date. With a tenant, only the runs of that tenant are shown and taken; in
    PostgreSQL the role decides, and it is an error if it is that of another tenant. Raises an error that names the next
    command if the index cannot be used.
    """
    if url is None or url.startswith(_FILE):
        file = default_file() if url is None else Path(url.removeprefix(_FILE)).expanduser()
        return FleetIndex(SqliteBase(file, tenant))
    if is_postgres(url):
        from critiqor.fleet.index.postgres.database import PostgresBase

        return FleetIndex(PostgresBase(url, tenant))
    raise UsageError("the index must be postgresql://… or sqlite:///FILE", fix="correct index in the table [fleet]")
