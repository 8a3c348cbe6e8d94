"""Roles of tenants in a PostgreSQL index, made by the owner of its tables.

The role of a tenant owns nothing. It can read and add the rows of its tenant, which the table `tenant_roles` names, and
cannot write to that table. Importing this module needs the extra `fleet`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import msgspec

from critiqor.errors import UsageError
from critiqor.fleet.errors import FleetError, FleetUnavailableError, missing_extra
from critiqor.fleet.index.postgres.migration import address_of, migrate, plain_reason
from critiqor.fleet.index.schema import GRANTS, SCHEMA

try:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise missing_extra(error) from error

_PASSWORD_BYTES = 24
_CONNECT_SECONDS = 10


class TenantRole(msgspec.Struct, frozen=True, kw_only=True):
    """The role of a tenant."""

    tenant: str
    role: str
    url: str | None = None
    """What belongs into the settings of the tenant's hosts, with the password; null if the role existed before."""


def add_tenant(owner_url: str, tenant: str, role: str) -> TenantRole:
    """Make a role for a tenant, or give an existing one to it; also make or update the tables.

    Raises `UsageError` if the role belongs to another tenant, owns something, or could see every row.
    """
    with _administration(owner_url) as connection, connection.transaction():
        password = secrets.token_urlsafe(_PASSWORD_BYTES)
        is_new = not _exists(connection, role)
        if is_new:
            made = sql.SQL("CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD {}")
            connection.execute(made.format(sql.Identifier(role), sql.Literal(password)))
        else:
            _check(connection, role, tenant)
        for statement in GRANTS.strip().splitlines():
            connection.execute(sql.SQL(statement).format(role=sql.Identifier(role)))
        connection.execute(
            f"INSERT INTO {SCHEMA}.tenant_roles (role, tenant) VALUES (%s, %s) ON CONFLICT DO NOTHING", [role, tenant]
        )
    return TenantRole(tenant=tenant, role=role, url=_host_url(owner_url, role, password) if is_new else None)


def list_tenants(owner_url: str) -> list[TenantRole]:
    """Return the roles of all tenants, by tenant."""
    with _administration(owner_url) as connection:
        found = connection.execute(f"SELECT tenant, role FROM {SCHEMA}.tenant_roles ORDER BY tenant, role").fetchall()
    return [TenantRole(tenant=tenant, role=role) for tenant, role in found]


def remove_role(owner_url: str, role: str) -> bool:
    """Take everything from a role that it may do in the index; return whether it was the role of a tenant."""
    with _administration(owner_url) as connection, connection.transaction():
        found = connection.execute(f"DELETE FROM {SCHEMA}.tenant_roles WHERE role = %s", [role])
        if _exists(connection, role):
            name = sql.Identifier(role)
            for what in (f"ALL TABLES IN SCHEMA {SCHEMA}", f"SCHEMA {SCHEMA}"):
                connection.execute(sql.SQL(f"REVOKE ALL ON {what} FROM {{}}").format(name))
        return found.rowcount > 0


@contextmanager
def _administration(url: str) -> Iterator[psycopg.Connection[Any]]:
    address = address_of(url)
    try:
        with psycopg.connect(url, connect_timeout=_CONNECT_SECONDS, autocommit=True) as connection:
            migrate(connection, address)
            yield connection
    except psycopg.errors.InsufficientPrivilege as error:
        message = f"this role may not administer the index {address}: {plain_reason(error, url)}"
        raise FleetError(message, fix="use the role that owns the database, with --index URL") from error
    except psycopg.OperationalError as error:
        raise FleetUnavailableError(f"the index {address} is away: {plain_reason(error, url)}") from error
    except psycopg.Error as error:
        raise FleetError(f"the index {address} refuses: {plain_reason(error, url)}") from error


def _exists(connection: psycopg.Connection[Any], role: str) -> bool:
    return connection.execute("SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = %s", [role]).fetchone() is not None


def _check(connection: psycopg.Connection[Any], role: str, tenant: str) -> None:
    """Raise `UsageError` if an existing role must not become that of a tenant."""
    [is_unrestricted, is_owner, is_member] = connection.execute(
        "SELECT r.rolsuper OR r.rolbypassrls OR r.rolcreaterole, "
        "EXISTS (SELECT 1 FROM pg_catalog.pg_shdepend d WHERE d.refobjid = r.oid AND d.deptype = 'o' "
        "AND d.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass), "
        "EXISTS (SELECT 1 FROM pg_catalog.pg_auth_members m WHERE m.member = r.oid) "
        "FROM pg_catalog.pg_roles r WHERE r.rolname = %s",
        [role],
    ).fetchone() or (False, False, False)
    if is_unrestricted:
        raise UsageError(f"the role {role} can see the rows of every tenant", fix="name a role that does not exist yet")
    if is_member:
        message = f"the role {role} is a member of another role, whose rows it could see"
        raise UsageError(message, fix="name a role that does not exist yet")
    if is_owner:
        message = f"the role {role} owns something in this server, and the role of a tenant must own nothing"
        raise UsageError(message, fix="name a role that does not exist yet")
    found = connection.execute(f"SELECT tenant FROM {SCHEMA}.tenant_roles WHERE role = %s", [role]).fetchone()
    if found is not None and found[0] != tenant:
        message = f"the role {role} belongs to tenant {found[0]!r}"
        raise UsageError(message, fix=f"critiqor fleet tenants add {tenant} --role OTHER_ROLE")


def _host_url(owner_url: str, role: str, password: str) -> str:
    """Return the address of the index with another role."""
    parts = conninfo_to_dict(owner_url)
    host, port = str(parts.get("host") or "localhost"), parts.get("port")
    place = f"{quote(host, safe='[]:,.-')}{f':{port}' if port else ''}"
    if host.startswith("/"):
        return f"postgresql://{quote(role)}:{password}@/{parts.get('dbname') or ''}?host={quote(host, safe='/')}"
    return f"postgresql://{quote(role)}:{password}@{place}/{parts.get('dbname') or ''}"
