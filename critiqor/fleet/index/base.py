"""What the index needs of a database: statements, typed rows, and inserts in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from critiqor.errors import UsageError
from critiqor.fleet.errors import FleetError
from critiqor.fleet.index.rows import (
    IndexedClaim,
    IndexedCost,
    IndexedFinding,
    IndexedPart,
    IndexedRow,
    IndexedRun,
    IndexedSession,
    IndexedTag,
    IndexedText,
)

_Result = TypeVar("_Result")
TABLES: dict[str, type[IndexedRow]] = {
    "runs": IndexedRun,
    "sessions": IndexedSession,
    "findings": IndexedFinding,
    "claims": IndexedClaim,
    "costs": IndexedCost,
    "tags": IndexedTag,
    "texts": IndexedText,
}
"""The struct of the rows of each table. The first one is written first, and decides which of the others are."""


class NewerIndexError(FleetError):
    """The index was made by a newer version of Critiqor."""


class TenantError(FleetError):
    """The role of the index belongs to no tenant, or to another one."""


class RefusedRowsError(FleetError):
    """A database does not take rows: a number or a text of them is too large for it."""


class Supersession(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a sealed run that its newest rule set made. Other rows of that run are not current any more."""

    id: str
    tenant: str
    host: str
    run: str
    seal: str


class SealedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Which row is the current one of a sealed run: a row of the table `sealed_runs`."""

    key: str
    tenant: str
    rule_order: str
    current: str


class Transaction(Protocol):
    """One transaction of a writer. Every method can be called several times."""

    def take_newest(self, rows: Sequence[SealedRun]) -> dict[str, str]:
        """Keep the newest rule set of each sealed run, and lock it until the end; return the current rows by key."""

    def insert_runs(self, rows: Sequence[IndexedRun], current: frozenset[str]) -> set[str]:
        """Insert runs that are not there yet; return their ids."""

    def insert(self, table: str, rows: Sequence[IndexedPart], current: frozenset[str]) -> None:
        """Insert rows of runs that this transaction has inserted."""

    def supersede(self, rows: Sequence[Supersession]) -> None:
        """Mark other rows of these sealed runs, and their costs, as not current."""


class Base(Protocol):
    """A database with the tables of the index."""

    address: str
    """Where it is, without a password."""
    tenant: str | None
    """The only tenant whose rows it shows and takes; None if there is no such restriction."""
    shown: tuple[str, ...] | None
    """The tenants whose rows it shows, at least one; None if it shows those of all."""
    notes: list[str]
    """What a user should know about this connection."""
    text_position: str
    """Name of the function that finds a text in another: its position from 1, or 0."""

    def query(self, sql: str, parameters: Sequence[Any] = (), *, words: str | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT; `?` stands for a parameter. `words` are those that texts are searched for."""

    def write(self, work: Callable[[Transaction], _Result]) -> _Result:
        """Call a function with a transaction, and commit it; repeat that if other writers make it fail."""

    def search_tables(self, words: str) -> tuple[str, str, list[Any]]:
        """Return the tables, the condition and the parameters with which the rows `t` of `texts` contain all words."""

    def close(self) -> None:
        """Close all connections."""


def convert(row: Sequence[Any], kind: type[Any], columns: Sequence[str] | None = None) -> Any:
    """Return a result of the database as a struct."""
    names = columns if columns is not None else kind.__struct_fields__
    try:
        # Not strict: SQLite has numbers for booleans.
        return msgspec.convert(dict(zip(names, row, strict=True)), kind, strict=False)
    except msgspec.ValidationError as error:
        raise FleetError(f"the index has a row that no version writes: {error}", fix="critiqor fleet status") from error


def columns_of(kind: type[Any], prefix: str) -> str:
    """Return the columns of a database for a struct, as a SELECT names them."""
    return ", ".join(f"{prefix}.{name}" for name in kind.__struct_fields__)


def check_version(version: int, known: int, address: str) -> None:
    """Raise `NewerIndexError` if a database has more migrations than this version of Critiqor knows."""
    if version > known:
        message = f"the index {address} was made by a newer version of Critiqor: its tables are of version {version}"
        raise NewerIndexError(f"{message}, and this one knows version {known}", fix="update Critiqor on this machine")


def not_a_text(error: UnicodeEncodeError) -> UsageError:
    """Return the error for a parameter that no database can compare with: a user typed bytes that are no text."""
    return UsageError(f"{ascii(error.object)[:200]} is not a valid text", fix="type it in UTF-8")
