"""The index in a SQLite file of the user: the default, for one machine."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from threading import RLock
from typing import Any, TypeVar

from critiqor.errors import BrokenRecordError
from critiqor.fleet.errors import FleetUnavailableError
from critiqor.fleet.index.base import RefusedRowsError, SealedRun, Supersession, Transaction, check_version, not_a_text
from critiqor.fleet.index.rows import IndexedPart, IndexedRun
from critiqor.fleet.index.schema import SQLITE_MIGRATIONS
from critiqor.model.timestamps import iso_from_ms, now_ms
from critiqor.search.terms import Search
from critiqor.storage.paths import FOLDER_MODE

FILE_NAME = "fleet.sqlite"
_Result = TypeVar("_Result")
_BUSY_SECONDS = 60
"""How long a writer waits for the others."""


def default_file() -> Path:
    """Return the path of the SQLite file in the user's data folder, whether it exists or not."""
    base = os.environ.get("XDG_DATA_HOME") or Path("~/.local/share").expanduser()
    return Path(base) / "critiqor" / FILE_NAME


class SqliteBase:
    """A SQLite file with the tables of the index. A file has no roles: whoever can read it sees every tenant."""

    text_position = "instr"

    def __init__(self, file: Path, tenant: str | None = None) -> None:
        self.address = str(file)
        self.tenant = tenant
        self.shown: tuple[str, ...] | None = None if tenant is None else (tenant,)
        self.notes: list[str] = []
        self._lock = RLock()  # the dashboard asks from several threads
        with self._errors():
            file.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
            # Other users must not be able to read it at any moment.
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
            self._base = sqlite3.connect(file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute("PRAGMA synchronous = NORMAL")
            self._migrate()

    def _migrate(self) -> None:
        self._base.execute("BEGIN IMMEDIATE")
        try:
            self._base.execute("CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, applied_at TEXT)")
            [version] = self._base.execute("SELECT coalesce(max(version), 0) FROM migrations").fetchone()
            check_version(version, len(SQLITE_MIGRATIONS), self.address)
            for number, statements in enumerate(SQLITE_MIGRATIONS[version:], start=version + 1):
                for statement in statements.split(";"):
                    self._base.execute(statement)
                self._base.execute("INSERT INTO migrations VALUES (?, ?)", [number, iso_from_ms(now_ms())])
            self._base.execute("COMMIT")
        except BaseException:
            self._base.execute("ROLLBACK")
            raise

    def query(self, sql: str, parameters: Sequence[Any] = (), *, words: str | None = None) -> list[tuple[Any, ...]]:
        with self._errors(), self._lock:
            return self._base.execute(sql, parameters).fetchall()

    def write(self, work: Callable[[Transaction], _Result]) -> _Result:
        with self._errors(), self._lock:
            self._base.execute("BEGIN IMMEDIATE")
            try:
                result = work(_Transaction(self._base))
                self._base.execute("COMMIT")
            except BaseException:
                self._base.execute("ROLLBACK")
                raise
            return result

    def search_tables(self, words: str) -> tuple[str, str, list[Any]]:
        tables = "words w JOIN texts t ON t.number = w.rowid"
        return tables, "w.words MATCH ?", [Search(words).expression]

    def close(self) -> None:
        self._base.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OverflowError, sqlite3.DataError) as error:
            raise RefusedRowsError(f"the index {self.address} refuses it: {error}") from error
        except sqlite3.OperationalError as error:
            raise FleetUnavailableError(
                f"the index {self.address} cannot be used: {error}", fix="try again in a moment"
            ) from error
        except sqlite3.DatabaseError as error:
            fix = f"rm {quote(self.address)} && critiqor fleet reindex"
            raise BrokenRecordError(f"the index {self.address} is damaged: {error}", fix=fix) from error
        except UnicodeEncodeError as error:
            raise not_a_text(error) from error
        except OSError as error:
            message = f"the index {self.address} cannot be used: {error.strerror}"
            raise FleetUnavailableError(message, fix="make its folder writable, or set XDG_DATA_HOME") from error


class _Transaction:
    def __init__(self, base: sqlite3.Connection) -> None:
        self._base = base

    def take_newest(self, rows: Sequence[SealedRun]) -> dict[str, str]:
        self._base.executemany(
            "INSERT INTO sealed_runs (tenant, key, rule_order, current) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (tenant, key) DO UPDATE SET rule_order = excluded.rule_order, current = excluded.current "
            "WHERE sealed_runs.rule_order < excluded.rule_order",
            [(row.tenant, row.key, row.rule_order, row.current) for row in rows],
        )
        sql = "SELECT current FROM sealed_runs WHERE tenant = ? AND key = ?"
        return {row.key: self._base.execute(sql, [row.tenant, row.key]).fetchone()[0] for row in rows}

    def insert_runs(self, rows: Sequence[IndexedRun], current: frozenset[str]) -> set[str]:
        columns = IndexedRun.__struct_fields__
        sql = f"{_insert('runs', (*columns, 'is_current'))} ON CONFLICT DO NOTHING RETURNING id"
        found: set[str] = set()
        for row in rows:
            values = [*(getattr(row, name) for name in columns), row.id in current]
            found.update(each for [each] in self._base.execute(sql, values).fetchall())
        return found

    def insert(self, table: str, rows: Sequence[IndexedPart], current: frozenset[str]) -> None:
        if not rows:
            return
        columns = rows[0].__struct_fields__
        values = [[getattr(row, name) for name in columns] for row in rows]
        if table == "costs":
            columns = (*columns, "is_current")
            values = [[*cells, row.run_id in current] for cells, row in zip(values, rows, strict=True)]
        self._base.executemany(_insert(table, columns), values)
        if table == "texts":
            keys = {(row.tenant, row.run_id): None for row in rows}
            sql = "INSERT INTO words (rowid, text) SELECT number, text FROM texts WHERE tenant = ? AND run_id = ?"
            self._base.executemany(sql, list(keys))

    def supersede(self, rows: Sequence[Supersession]) -> None:
        others = "SELECT id FROM runs WHERE tenant = ? AND host = ? AND run = ? AND seal = ? AND id <> ?"
        values = [(row.tenant, row.tenant, row.host, row.run, row.seal, row.id) for row in rows]
        for table, key in (("runs", "id"), ("costs", "run_id")):
            sql = f"UPDATE {table} SET is_current = 0 WHERE tenant = ? AND {key} IN ({others}) AND is_current"
            self._base.executemany(sql, values)


def _insert(table: str, columns: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
