"""Migrations of a PostgreSQL index: each is applied once, however many hosts start at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from critiqor.errors import UsageError
from critiqor.fleet.errors import FleetError
from critiqor.fleet.index.base import TenantError, check_version
from critiqor.fleet.index.schema import POSTGRES_MIGRATIONS, SCHEMA
from critiqor.model.sanitize import collapse_whitespace

if TYPE_CHECKING:
    import psycopg

_LOCK = 0x43524954
"""The advisory lock that the process holds which changes the tables."""
_ADD_TENANT = "critiqor fleet tenants add NAME --role ROLE --index URL   (as the owner of the database)"


def migrate(connection: psycopg.Connection[Any], address: str) -> None:
    """Bring the tables up to date. Raise an error that names the next command if the role may not do that."""
    from psycopg import errors

    try:
        version = _version(connection)
    except errors.InsufficientPrivilege as error:
        raise TenantError(f"the role of the index {address} belongs to no tenant", fix=_ADD_TENANT) from error
    check_version(version, len(POSTGRES_MIGRATIONS), address)
    if version == len(POSTGRES_MIGRATIONS):
        return
    try:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            _apply(connection, address)
    except errors.InsufficientPrivilege as error:
        what = "has no tables yet" if version == 0 else f"has tables of version {version}, which are outdated"
        message = f"the index {address} {what}, and this role may not make them"
        raise FleetError(message, fix=_ADD_TENANT) from error


def _apply(connection: psycopg.Connection[Any], address: str) -> None:
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {SCHEMA}.migrations (version integer PRIMARY KEY, "
        "applied_at timestamptz NOT NULL DEFAULT now())"
    )
    # Another process may have applied some while this one waited for the lock.
    version = _version(connection)
    check_version(version, len(POSTGRES_MIGRATIONS), address)
    for number, statements in enumerate(POSTGRES_MIGRATIONS[version:], start=version + 1):
        connection.execute(statements)
        connection.execute(f"INSERT INTO {SCHEMA}.migrations (version) VALUES (%s)", [number])


def _version(connection: psycopg.Connection[Any]) -> int:
    """Return the number of the last migration that was applied; 0 if there are no tables."""
    found = connection.execute(
        "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = 'migrations'", [SCHEMA]
    ).fetchone()
    if found is None:
        return 0
    row = connection.execute(f"SELECT coalesce(max(version), 0) FROM {SCHEMA}.migrations").fetchone()
    return int(row[0]) if row is not None else 0


def address_of(url: str) -> str:
    """Return the address of a database to migrate, without its password. Raise `UsageError` if it is invalid."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError as error:
        # Its message repeats the URL.
        message = "the address of the index is not valid"
        raise UsageError(message, fix="use postgresql://ROLE:PASSWORD@HOST:PORT/DATABASE") from error
    user = f"{quote(str(parts['user']))}@" if parts.get("user") else ""
    host = str(parts.get("host") or "")
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{host}{port}/{parts.get('dbname') or ''}"


def plain_reason(error: Exception, url: str) -> str:
    """Return why PostgreSQL refused a migration or a query, on one line and without the password."""
    from psycopg.conninfo import conninfo_to_dict

    password = conninfo_to_dict(url).get("password")
    text = collapse_whitespace(str(error)) or type(error).__name__
    return (text.replace(str(password), "***") if password else text)[:400]
