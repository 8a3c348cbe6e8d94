"""Which runs of the index a list or a statistic is about, as conditions in SQL."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from critiqor.fleet.index.base import Base
from critiqor.model.diagnosis import Readiness
from critiqor.model.timestamps import iso_from_ms

RunOrder = Literal["created", "trust", "cost", "events"]
"""The newest, the lowest trust, the highest cost or the most events first."""
_ORDERS: dict[RunOrder, str] = {
    "created": "r.created_ms DESC, r.id",
    "trust": "r.trust NULLS LAST, r.created_ms DESC, r.id",
    "cost": "r.cost_usd DESC NULLS LAST, r.created_ms DESC, r.id",
    "events": "r.events DESC, r.created_ms DESC, r.id",
}
_GLOB = frozenset("*?[")


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are listed. What is empty or None lists all. Only the current row of a run is ever listed."""

    host: str | None = None
    """A pattern of hosts, such as `build-*`."""
    agent: str | None = None
    """A pattern of agents, such as `release-*`."""
    agent_id: str | None = None
    """The name of an agent, which is no pattern."""
    tenant: str | None = None
    session: str | None = None
    """A part of a session key."""
    verdicts: tuple[Readiness, ...] = ()
    tags: tuple[str, ...] = ()
    """Tags that a run must have, all of them."""
    since_ms: int | None = None
    """The earliest beginning of a run, in milliseconds since 1970. Statistics count whole days."""
    until_ms: int | None = None
    """The latest beginning of a run, in milliseconds since 1970, exclusive. Statistics count whole days."""
    failure_type: str | None = None
    """A failure type that a run must have."""
    sort: RunOrder = "created"
    limit: int = 100
    offset: int = 0


class Where(NamedTuple):
    """A condition on the rows `r` of `runs`."""

    sql: str
    parameters: list[Any]


def where(base: Base, query: RunQuery, *, by_day: bool = False) -> Where:
    """Return the condition of a query; `by_day` uses an index that has the day, but not the time."""
    conditions: list[str] = ["r.is_current"]
    parameters: list[Any] = []
    exact = (("r.tenant", base.tenant), ("r.tenant", query.tenant), ("r.agent", query.agent_id))
    for column, wanted in exact:
        if wanted is not None:
            conditions.append(f"{column} = ?")
            parameters.append(wanted)
    for column, pattern in (("r.host", query.host), ("r.agent", query.agent)):
        if pattern is not None:
            condition, parameter = base.glob(column, pattern) if _GLOB & set(pattern) else (f"{column} = ?", pattern)
            conditions.append(condition)
            parameters.append(parameter)
    if query.verdicts:
        conditions.append(f"r.verdict IN ({', '.join('?' * len(query.verdicts))})")
        parameters += query.verdicts
    for sign, moment in ((">=", query.since_ms), ("<", query.until_ms)):
        if moment is not None:
            # The last day is counted, too.
            sign_of_day = ">=" if sign == ">=" else "<="
            conditions.append(f"r.day {sign_of_day} ?" if by_day else f"r.created_ms {sign} ?")
            parameters.append(iso_from_ms(moment)[:10] if by_day else moment)
    if query.session is not None:
        found = f"{base.text_position}(s.session_key, ?) > 0"
        conditions.append(f"EXISTS (SELECT 1 FROM sessions s WHERE {_same_run('s')} AND {found})")
        parameters.append(query.session)
    for tag in query.tags:
        conditions.append(f"EXISTS (SELECT 1 FROM tags g WHERE {_same_run('g')} AND g.tag = ?)")
        parameters.append(tag)
    if query.failure_type is not None:
        conditions.append(f"EXISTS (SELECT 1 FROM findings f WHERE {_same_run('f')} AND f.type = ?)")
        parameters.append(query.failure_type)
    return Where(" AND ".join(conditions), parameters)


def _same_run(table: str) -> str:
    return f"{table}.tenant = r.tenant AND {table}.run_id = r.id"


def order(sort: RunOrder) -> str:
    """Return the order of a list."""
    return _ORDERS[sort]
