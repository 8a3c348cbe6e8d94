"""The index in PostgreSQL, for many machines. Importing this module needs the extra `fleet`.

Hosts connect with the role of a tenant, which can read and add rows of that tenant only; see `schema.py`. Tables are
made and changed by their owner: whoever adds the first tenant. psycopg's pool replaces connections that broke, so an
index that was restarted is used again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar, get_args

import msgspec

from critiqor.fleet.errors import FleetError, FleetUnavailableError, missing_extra
from critiqor.fleet.index.base import RefusedRowsError, SealedRun, Supersession, TenantError, Transaction, not_a_text
from critiqor.fleet.index.postgres.migration import address_of, migrate, plain_reason
from critiqor.fleet.index.rows import IndexedCost, IndexedPart, IndexedRun, IndexedText
from critiqor.fleet.index.schema import SCHEMA
from critiqor.fleet.index.texts import word_query, word_vector

try:
    import psycopg
    from psycopg.types.string import TextLoader
    from psycopg_pool import ConnectionPool, PoolTimeout
except ImportError as error:
    raise missing_extra(error) from error

MAX_CONNECTIONS = 4
CONNECT_SECONDS = 5
ATTEMPTS = 5
"""Attempts of a transaction that another one makes fail."""
_CONFLICTS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
_Result = TypeVar("_Result")
_UUIDS = frozenset({"id", "run_id", "key", "current"})
_TYPES: dict[Any, str] = {str: "text", int: "bigint", float: "double precision", bool: "boolean"}


class PostgresBase:
    """A PostgreSQL database with the tables of the index."""

    text_position = "strpos"

    def __init__(self, url: str, tenant: str | None = None) -> None:
        self.address = address_of(url)
        self.notes: list[str] = []
        self._url = url
        with self._errors(), psycopg.connect(url, connect_timeout=CONNECT_SECONDS, autocommit=True) as connection:
            migrate(connection, self.address)
            self.tenant = self._own_tenant(connection, tenant)
        self.shown: tuple[str, ...] | None = None if self.tenant is None else (self.tenant,)
        self._pool = ConnectionPool(
            url,
            min_size=0,
            max_size=MAX_CONNECTIONS,
            timeout=CONNECT_SECONDS,
            reconnect_timeout=CONNECT_SECONDS,
            # Never prepared: the plan of a search depends on its words, which are no parameters of the statement.
            kwargs={"connect_timeout": CONNECT_SECONDS, "application_name": "critiqor", "prepare_threshold": None},
            configure=_configure,
            check=ConnectionPool.check_connection,
            num_workers=1,
            open=True,
        )

    def _own_tenant(self, connection: psycopg.Connection[Any], wanted: str | None) -> str | None:
        """Return the tenant of the role. Raise `TenantError` if it has none, or another one than is wanted."""
        found = connection.execute(
            "SELECT r.rolname, r.rolsuper OR r.rolbypassrls, "
            f"(SELECT own.tenant FROM {SCHEMA}.tenant_roles own WHERE own.role = current_user) "
            "FROM pg_catalog.pg_roles r WHERE r.rolname = current_user"
        ).fetchone()
        assert found is not None
        role, self._is_unrestricted, tenant = found
        if self._is_unrestricted:
            # Such a role sees every row, whatever the policies say, so a wanted tenant is only a filter.
            self.notes.append(
                f"the role {role} of the index bypasses row-level security and sees every tenant; use the role of a "
                f"tenant: critiqor fleet tenants add NAME --role ROLE"
            )
            return wanted
        if tenant is None:
            message = (
                f"the role {role} of the index {self.address} belongs to no tenant, and can neither read nor write"
            )
            raise TenantError(message, fix=f"critiqor fleet tenants add {wanted or 'default'} --role ROLE")
        if wanted is not None and wanted != tenant:
            message = f"the role {role} of the index {self.address} belongs to tenant {tenant!r}, not to {wanted!r}"
            raise TenantError(message, fix=f"critiqor fleet tenants add {wanted} --role ROLE")
        return str(tenant)

    def query(self, sql: str, parameters: Sequence[Any] = (), *, words: str | None = None) -> list[tuple[Any, ...]]:
        with self._errors(), self._pool.connection() as connection:
            if words is not None:
                connection.execute("SELECT set_config('critiqor.words', %s, true)", [word_query(words)])
            return connection.execute(_statement(sql), parameters).fetchall()

    def write(self, work: Callable[[Transaction], _Result]) -> _Result:
        for attempt in count(1):
            try:
                with self._errors(), self._pool.connection() as connection:
                    return work(_Transaction(connection))
            except FleetUnavailableError as error:
                if attempt == ATTEMPTS or not isinstance(error.__cause__, _CONFLICTS):
                    raise
                time.sleep(0.05 * 2**attempt * random.random())
        raise AssertionError

    def search_tables(self, words: str) -> tuple[str, str, list[Any]]:
        if self._is_unrestricted:  # no policy holds for this role, so the words must be a condition
            return "texts t", "t.words @@ CAST(? AS tsquery)", [word_query(words)]
        return "texts t", "true", []

    def close(self) -> None:
        self._pool.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        fix = "check index in the table [fleet], and that the server runs; critiqor fleet reindex adds what is missing"
        try:
            yield
        except (psycopg.DataError, psycopg.errors.ProgramLimitExceeded) as error:
            raise RefusedRowsError(f"the index {self.address} refuses it: {plain_reason(error, self._url)}") from error
        except (psycopg.OperationalError, PoolTimeout) as error:
            reason = plain_reason(error if not isinstance(error, PoolTimeout) else self._why_away(), self._url)
            raise FleetUnavailableError(f"the index {self.address} is away: {reason}", fix=fix) from error
        except psycopg.ProgrammingError as error:
            raise FleetError(f"the index {self.address} refuses: {plain_reason(error, self._url)}", fix=fix) from error
        except psycopg.Error as error:
            raise FleetError(f"the index {self.address} failed: {plain_reason(error, self._url)}", fix=fix) from error
        except UnicodeEncodeError as error:
            raise not_a_text(error) from error

    def _why_away(self) -> Exception:
        """Return why no connection can be made; the pool only says that none was made in time."""
        try:
            psycopg.connect(self._url, connect_timeout=CONNECT_SECONDS).close()
        except psycopg.Error as error:
            return error
        return TimeoutError("all connections are in use")


class _Transaction:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def take_newest(self, rows: Sequence[SealedRun]) -> dict[str, str]:
        self._connection.execute(
            _insert("sealed_runs", SealedRun) + " ON CONFLICT (tenant, key) DO UPDATE "
            "SET rule_order = excluded.rule_order, current = excluded.current "
            "WHERE sealed_runs.rule_order < excluded.rule_order",
            _arrays(rows, SealedRun),
        )
        found = self._connection.execute(
            "SELECT key, current FROM sealed_runs WHERE key = ANY (%s::uuid[])", [[row.key for row in rows]]
        )
        return dict(found.fetchall())

    def insert_runs(self, rows: Sequence[IndexedRun], current: frozenset[str]) -> set[str]:
        sql = _insert("runs", IndexedRun, is_current="boolean") + " ON CONFLICT DO NOTHING RETURNING id"
        arrays = [*_arrays(rows, IndexedRun), [row.id in current for row in rows]]
        return {key for [key] in self._connection.execute(sql, arrays).fetchall()}

    def insert(self, table: str, rows: Sequence[IndexedPart], current: frozenset[str]) -> None:
        if not rows:
            return
        kind, arrays = type(rows[0]), _arrays(rows, type(rows[0]))
        if kind is IndexedText:
            arrays.append([word_vector(row.text) for row in rows if isinstance(row, IndexedText)])
            self._connection.execute(_insert(table, kind, words="tsvector"), arrays)
        elif kind is IndexedCost:
            arrays.append([row.run_id in current for row in rows])
            self._connection.execute(_insert(table, kind, is_current="boolean"), arrays)
        else:
            self._connection.execute(_insert(table, kind), arrays)

    def supersede(self, rows: Sequence[Supersession]) -> None:
        if not rows:
            return
        names, arrays = Supersession.__struct_fields__, _arrays(rows, Supersession)
        others = (
            f"SELECT r.tenant, r.id FROM runs r JOIN unnest({_marks(Supersession)}) AS b ({', '.join(names)}) "
            "ON r.tenant = b.tenant AND r.host = b.host AND r.run = b.run AND r.seal = b.seal AND r.id <> b.id"
        )
        for table, key in (("runs", "id"), ("costs", "run_id")):
            sql = (
                f"UPDATE {table} SET is_current = false FROM ({others}) AS o "
                f"WHERE {table}.tenant = o.tenant AND {table}.{key} = o.id AND {table}.is_current"
            )
            self._connection.execute(_statement(sql), arrays)


def _configure(connection: psycopg.Connection[Any]) -> None:
    # Ids are texts everywhere else.
    connection.adapters.register_loader("uuid", TextLoader)
    # Compiling a statement takes longer than executing one of these.
    connection.execute(f"SET search_path = {SCHEMA}; SET jit = off")
    connection.commit()


def _statement(sql: str) -> str:
    """Return a statement of this package with the marks of psycopg; no other text contains a question mark."""
    return sql.replace("?", "%s")


def _insert(table: str, kind: type[Any], **more: str) -> str:
    """Return a statement that inserts many rows: one array for each column. COPY is refused by row-level security."""
    columns = (*kind.__struct_fields__, *more)
    casts = "".join(f", ?::text[]::{name}[]" if name == "tsvector" else f", ?::{name}[]" for name in more.values())
    return _statement(f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM unnest({_marks(kind)}{casts})")


def _marks(kind: type[Any]) -> str:
    return ", ".join(f"?::{_sql_type(field)}[]" for field in msgspec.structs.fields(kind))


def _sql_type(field: msgspec.structs.FieldInfo) -> str:
    if field.name in _UUIDS:
        return "uuid"
    kinds = [kind for kind in get_args(field.type) or [field.type] if kind is not type(None)]
    return _TYPES.get(kinds[0], "text")


def _arrays(rows: Sequence[msgspec.Struct], kind: type[Any]) -> list[list[Any]]:
    return [[getattr(row, name) for row in rows] for name in kind.__struct_fields__]
