"""The index of the fleet: what is written to it, and the lists and statistics that are read from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from itertools import islice
from types import TracebackType
from typing import Self

from critiqor.fleet.index import statistics
from critiqor.fleet.index.base import (
    TABLES,
    Base,
    SealedRun,
    Supersession,
    TenantError,
    Transaction,
    columns_of,
    convert,
)
from critiqor.fleet.index.entry import EntryRows, IndexEntry, rows_of
from critiqor.fleet.index.query import RunQuery, order, where
from critiqor.fleet.index.rows import (
    DayCost,
    DaySummary,
    FailureType,
    HostSummary,
    IndexedClaim,
    IndexedFinding,
    IndexedRun,
    IndexedSession,
    IndexedText,
    TextHits,
)
from critiqor.fleet.index.standing import RunStanding, standing_of
from critiqor.fleet.manifest import Manifest
from critiqor.search.terms import Search

BATCH = 500
"""Number of runs that are written in one transaction."""
MAX_MATCHES = 1000
"""Maximum number of matching texts that a search looks at, the newest first."""
HITS = 3
"""Number of texts that are shown of each run."""
_EVERYTHING = RunQuery()


class FleetIndex:
    """An index. Open it with `open_index`, and close it or use it as a context manager."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._base.close()

    @property
    def address(self) -> str:
        """Where the index is, without a password."""
        return self._base.address

    @property
    def tenant(self) -> str | None:
        """The only tenant whose runs it shows and takes; None if it takes those of every tenant."""
        return self._base.tenant

    def showing(self, tenants: Collection[str]) -> Self:
        """Return this index with the rows of some tenants only. Close only the one that was opened.

        Raises `TenantError` if it shows the rows of none of them.
        """
        allowed = tuple(sorted(set(tenants) if self._base.shown is None else set(tenants) & set(self._base.shown)))
        if not allowed:
            message = (
                f"the index {self.address} has no rows of {', '.join(sorted(tenants)) or 'no tenant'} for its role"
            )
            raise TenantError(message, fix="critiqor fleet tenants list")
        base = copy(self._base)  # with the same connections
        base.shown = allowed
        return type(self)(base)

    @property
    def notes(self) -> list[str]:
        """What a user should know about the connection."""
        return self._base.notes

    def takes(self, manifest: Manifest) -> bool:
        """Return whether a run belongs to a tenant whose runs it takes."""
        return self.tenant in (None, manifest.metadata.tenant_id)

    def add(self, entries: Iterable[IndexEntry]) -> int:
        """Add entries that are not there yet, in batches; return how many were added.

        Raises `TenantError` if an entry belongs to another tenant than the index takes, `ValueError` if a diagnosis is
        one of other evidence, `RefusedRowsError` if the database does not take a batch. Batches before that stay.
        """
        added = 0
        entries = iter(entries)
        while batch := list(islice(entries, BATCH)):
            added += self._add_batch(batch)
        return added

    def _add_batch(self, batch: Sequence[IndexEntry]) -> int:
        every = {entry.key: rows_of(entry) for entry in batch}
        self._refuse_other_tenants(every.values())
        newest: dict[str, SealedRun] = {}
        for entry in batch:
            run = every[entry.key].run
            key = entry.sealed_key
            if key not in newest or newest[key].rule_order < run.rule_order:
                newest[key] = SealedRun(key=key, tenant=run.tenant, rule_order=run.rule_order, current=run.id)
        # In the same order in every writer: none waits for a row whose writer waits for this one.
        ordered = sorted(newest.values(), key=lambda row: (row.tenant, row.key))

        def write(transaction: Transaction) -> int:
            current = frozenset(transaction.take_newest(ordered).values())
            runs = [rows.run for rows in every.values()]
            added = transaction.insert_runs(sorted(runs, key=lambda run: (run.tenant, run.id)), current)
            transaction.supersede(
                [
                    Supersession(id=run.id, tenant=run.tenant, host=run.host, run=run.run, seal=run.seal)
                    for run in runs
                    if run.id in added & current
                ]
            )
            for table in list(TABLES)[1:]:
                rows = [row for key, parts in every.items() if key in added for row in getattr(parts, table)]
                transaction.insert(table, rows, current)
            return len(added)

        return self._base.write(write)

    def _refuse_other_tenants(self, every: Iterable[EntryRows]) -> None:
        for rows in every:
            if self.tenant not in (None, rows.run.tenant):
                message = f"{rows.run.name} belongs to tenant {rows.run.tenant!r}, and the index {self.address} takes "
                raise TenantError(
                    f"{message}runs of {self.tenant!r}", fix=f"critiqor fleet tenants add {rows.run.tenant} --role ROLE"
                )

    def known(self, keys: Sequence[str]) -> set[str]:
        """Return which of these keys of entries (`IndexEntry.key`) are in the index."""
        if not keys:
            return set()
        rows = self._base.query(f"SELECT r.id FROM runs r WHERE r.id IN ({', '.join('?' * len(keys))})", list(keys))
        return {key for [key] in rows}

    def runs(self, query: RunQuery = _EVERYTHING) -> list[IndexedRun]:
        """Return a page of the list of runs."""
        chosen = where(self._base, query)
        sql = (
            f"SELECT {columns_of(IndexedRun, 'r')} FROM runs r WHERE {chosen.sql} "
            f"ORDER BY {order(query)} LIMIT ? OFFSET ?"
        )
        rows = self._base.query(sql, [*chosen.parameters, query.limit, query.offset])
        return [convert(row, IndexedRun) for row in rows]

    def count(self, query: RunQuery = _EVERYTHING) -> int:
        """Return the number of runs that a query lists on all pages."""
        chosen = where(self._base, query)
        [[number]] = self._base.query(f"SELECT count(*) FROM runs r WHERE {chosen.sql}", chosen.parameters)
        return int(number)

    def find(self, host: str, run: str, digits: str = "") -> list[IndexedRun]:
        """Return the current rows of a run of a host, the newest first: several if the host has several runs folders.

        `digits` are the first hexadecimal digits of its seal.
        """
        chosen = where(self._base, RunQuery())
        sql = (
            f"SELECT {columns_of(IndexedRun, 'r')} FROM runs r WHERE {chosen.sql} AND r.host = ? AND r.run = ? "
            "AND r.seal >= ? AND r.seal < ? ORDER BY r.created_ms DESC, r.id"
        )
        rows = self._base.query(sql, [*chosen.parameters, host, run, f"sha256:{digits}", f"sha256:{digits}g"])
        return [convert(row, IndexedRun) for row in rows]

    def sessions(self, run: IndexedRun) -> list[IndexedSession]:
        """Return the sessions of a run, the worst first."""
        return [convert(row, IndexedSession) for row in self._rows_of("sessions", run)]

    def findings(self, run: IndexedRun) -> list[IndexedFinding]:
        """Return the findings of a run, the worst first."""
        return [convert(row, IndexedFinding) for row in self._rows_of("findings", run)]

    def claims(self, run: IndexedRun) -> list[IndexedClaim]:
        """Return the claims of a run, in order."""
        return [convert(row, IndexedClaim) for row in self._rows_of("claims", run)]

    def _rows_of(self, table: str, run: IndexedRun) -> list[tuple[object, ...]]:
        columns = columns_of(TABLES[table], "c")
        sql = f"SELECT {columns} FROM {table} c WHERE c.tenant = ? AND c.run_id = ? ORDER BY c.place"
        return self._base.query(sql, [run.tenant, run.id])

    def hosts(self, query: RunQuery = _EVERYTHING) -> list[HostSummary]:
        """Return the hosts with the runs that a query lists on all pages, by name."""
        return statistics.summaries(self._base, query, "host")

    def agents(self, query: RunQuery = _EVERYTHING) -> list[HostSummary]:
        """Return the agents with the runs that a query lists on all pages, by name."""
        return statistics.summaries(self._base, query, "agent")

    def days(self, query: RunQuery = _EVERYTHING) -> list[DaySummary]:
        """Return verdicts, cost and trust by day, the first day first."""
        return statistics.days(self._base, query)

    def costs_by_day(self, query: RunQuery = _EVERYTHING) -> list[DayCost]:
        """Return the cost by day and model, the first day first."""
        return statistics.costs_by_day(self._base, query)

    def versions(self) -> dict[str, int]:
        """Return the versions of OpenClaw in the fleet with the time of their first run, the newest version first."""
        return statistics.versions(self._base)

    def new_failure_types(self, since_ms: int) -> list[FailureType]:
        """Return the failure types that no run before a time has, the newest first; `versions` has the times."""
        return statistics.new_failure_types(self._base, since_ms)

    def standing(self, run: IndexedRun) -> RunStanding:
        """Return how a run compares with the others of its tenant, benchmark, difficulty and rule set."""
        return standing_of(self._base, run)

    def findings_of(self, runs: Sequence[IndexedRun]) -> dict[str, list[IndexedFinding]]:
        """Return the findings of Critiqor's own detectors in many runs, by the ids of their rows."""
        found: dict[str, list[IndexedFinding]] = {}
        if runs:
            sql = (
                f"SELECT {columns_of(IndexedFinding, 'f')} FROM findings f "
                f"WHERE f.run_id IN ({', '.join('?' * len(runs))}) AND f.extension IS NULL ORDER BY f.run_id, f.place"
            )
            for row in self._base.query(sql, [run.id for run in runs]):
                finding: IndexedFinding = convert(row, IndexedFinding)
                found.setdefault(finding.run_id, []).append(finding)
        return found

    def tenants(self, agent: str | None = None) -> list[str]:
        """Return the tenants that have runs, or runs of an agent, by name."""
        chosen = where(self._base, RunQuery(agent_id=agent))
        sql = f"SELECT DISTINCT r.tenant FROM runs r WHERE {chosen.sql} ORDER BY r.tenant"
        return [tenant for [tenant] in self._base.query(sql, chosen.parameters)]

    def search(self, words: str, limit: int = 100) -> list[TextHits]:
        """Return the runs with a text that contains all words, the newest first, by the rules of `critiqor search`."""
        if not Search(words):
            return []
        tables, condition, parameters = self._base.search_tables(words)
        chosen = where(self._base, _EVERYTHING)
        sql = (
            f"SELECT {columns_of(IndexedText, 't')} FROM {tables} "
            "JOIN runs r ON r.tenant = t.tenant AND r.id = t.run_id "
            f"WHERE {condition} AND {chosen.sql} ORDER BY t.created_ms DESC, t.run_id, t.place LIMIT ?"
        )
        rows = self._base.query(sql, [*parameters, *chosen.parameters, MAX_MATCHES], words=words)
        found: dict[str, list[IndexedText]] = {}
        for row in rows:
            text: IndexedText = convert(row, IndexedText)
            found.setdefault(text.run_id, []).append(text)
        runs = self._runs_by_id(list(found)[:limit])
        return [
            TextHits(run=runs[key], matches=len(texts), texts=texts[:HITS])
            for key, texts in found.items()
            if key in runs
        ]

    def _runs_by_id(self, keys: Sequence[str]) -> dict[str, IndexedRun]:
        if not keys:
            return {}
        sql = f"SELECT {columns_of(IndexedRun, 'r')} FROM runs r WHERE r.id IN ({', '.join('?' * len(keys))})"
        runs = (convert(row, IndexedRun) for row in self._base.query(sql, keys))
        return {run.id: run for run in runs}
