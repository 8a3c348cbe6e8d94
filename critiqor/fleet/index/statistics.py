"""Statistics over the runs of the index: by host, agent, day, model and failure type."""

from __future__ import annotations

from typing import Literal

from critiqor.fleet.index.base import Base, convert
from critiqor.fleet.index.query import RunQuery, cost_days, one_of, where
from critiqor.fleet.index.rows import DayCost, DaySummary, FailureType, HostSummary
from critiqor.model.diagnosis import READINESSES

_VERDICTS = ", ".join(f"sum(CASE WHEN r.verdict = '{name}' THEN 1 ELSE 0 END)" for name in READINESSES)
_FIGURES = f"count(*), {_VERDICTS}, sum(r.cost_usd), CAST(avg(r.trust) AS double precision)"
_CURRENT_FINDINGS = "findings f JOIN runs r ON r.tenant = f.tenant AND r.id = f.run_id"
_FIGURE_NAMES = ("runs", *READINESSES, "cost_usd", "trust")


def summaries(base: Base, query: RunQuery, column: Literal["host", "agent"]) -> list[HostSummary]:
    """Return the runs by host or agent."""
    chosen = where(base, query, by_day=True)
    sql = (
        f"SELECT r.{column}, {_FIGURES}, max(r.created_ms) FROM runs r WHERE {chosen.sql} "
        f"GROUP BY r.{column} ORDER BY r.{column}"
    )
    names = ("name", *_FIGURE_NAMES, "last_ms")
    return [convert(row, HostSummary, names) for row in base.query(sql, chosen.parameters)]


def days(base: Base, query: RunQuery) -> list[DaySummary]:
    """Return the runs by day."""
    chosen = where(base, query, by_day=True)
    sql = f"SELECT r.day, {_FIGURES} FROM runs r WHERE {chosen.sql} GROUP BY r.day ORDER BY r.day"
    return [convert(row, DaySummary, ("day", *_FIGURE_NAMES)) for row in base.query(sql, chosen.parameters)]


def costs_by_day(base: Base, query: RunQuery) -> list[DayCost]:
    """Return the cost by day and model."""
    plain = cost_days(base, query)
    chosen = plain or where(base, query, by_day=True)
    tables = "costs c" if plain else "costs c JOIN runs r ON r.tenant = c.tenant AND r.id = c.run_id"
    sql = (
        "SELECT c.day, c.provider, c.model, CAST(sum(c.model_calls) AS bigint), "
        "CAST(sum(c.input_tokens + c.output_tokens + c.cache_read_tokens + c.cache_write_tokens) AS bigint), "
        "sum(c.cost_usd), max(CASE WHEN c.cost_is_estimated THEN 1 ELSE 0 END), count(*) "
        f"FROM {tables} WHERE {chosen.sql} "
        "GROUP BY c.day, c.provider, c.model ORDER BY c.day, c.provider, c.model"
    )
    return [convert(row, DayCost) for row in base.query(sql, chosen.parameters)]


def versions(base: Base) -> dict[str, int]:
    """Return the versions of OpenClaw with the time of their first run, the newest first."""
    chosen = where(base, RunQuery())
    sql = (
        f"SELECT r.openclaw_version, min(r.created_ms) FROM runs r WHERE {chosen.sql} "
        "AND r.openclaw_version IS NOT NULL GROUP BY r.openclaw_version ORDER BY 2 DESC"
    )
    return dict(base.query(sql, chosen.parameters))


def new_failure_types(base: Base, since_ms: int) -> list[FailureType]:
    """Return the failure types whose first occurrence is not before a time, the newest first.

    There are few types and many findings. The types are found by one look at an index for each of them, and so are
    their first findings: the time does not grow with the number of runs.
    """
    own, parameters = _own_findings(base)
    first = f"SELECT min(f.type) FROM findings f WHERE true{own}"
    following = f"SELECT (SELECT min(f.type) FROM findings f WHERE f.type > types.type{own})"
    earliest = (
        f"SELECT f.run_id FROM {_CURRENT_FINDINGS} "
        f"WHERE f.type = types.type{own} AND r.is_current ORDER BY f.created_ms, f.run_id LIMIT 1"
    )
    sql = (
        f"WITH RECURSIVE types (type) AS ({first} UNION ALL {following} FROM types WHERE types.type IS NOT NULL) "
        f"SELECT types.type, ({earliest}) FROM types WHERE types.type IS NOT NULL"
    )
    found = [
        _failure_type(base, kind, run, since_ms) for kind, run in base.query(sql, parameters * 3) if run is not None
    ]
    return sorted((each for each in found if each is not None), key=lambda each: (-each.first_ms, each.type))


def _own_findings(base: Base) -> tuple[str, list[str]]:
    """Return the condition on findings of the tenants that are shown, and its parameters."""
    return ("", []) if base.shown is None else (f" AND {one_of('f.tenant', base.shown)}", [*base.shown])


def _failure_type(base: Base, kind: str, run_id: str, since_ms: int) -> FailureType | None:
    found = base.query(
        "SELECT f.type, f.created_ms, r.host, r.run, r.seal, r.agent, f.title "
        f"FROM {_CURRENT_FINDINGS} WHERE f.run_id = ? AND f.type = ? AND f.created_ms >= ? ORDER BY f.place LIMIT 1",
        [run_id, kind, since_ms],
    )
    if not found:
        return None
    own, parameters = _own_findings(base)
    [[runs]] = base.query(
        f"SELECT count(DISTINCT f.run_id) FROM {_CURRENT_FINDINGS} WHERE f.type = ? AND r.is_current{own}",
        [kind, *parameters],
    )
    result: FailureType = convert((*found[0], runs), FailureType)
    return result
