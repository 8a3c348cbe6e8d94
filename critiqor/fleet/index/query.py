"""Which runs of the index a list or a statistic is about, as conditions in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from critiqor.fleet.index.base import Base
from critiqor.model.diagnosis import Readiness
from critiqor.model.timestamps import iso_from_ms

RunOrder = Literal["created", "trust", "cost", "events"]
"""The newest, the lowest trust, the highest cost or the most events first."""
_NEWEST = "r.created_ms DESC, r.id"
_ORDERS: dict[RunOrder, tuple[str, str]] = {
    "created": (_NEWEST, "r.created_ms, r.id DESC"),
    "trust": (f"r.trust IS NULL, r.trust, {_NEWEST}", f"r.trust IS NULL, r.trust DESC, {_NEWEST}"),
    "cost": (f"r.cost_usd IS NULL, r.cost_usd DESC, {_NEWEST}", f"r.cost_usd IS NULL, r.cost_usd, {_NEWEST}"),
    "events": (f"r.events DESC, {_NEWEST}", f"r.events, {_NEWEST}"),
}
"""Each order and its opposite; what is unknown comes last in both."""
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
    model: str | None = None
    """A model that a run must have called."""
    version: str | None = None
    """The version of OpenClaw."""
    sort: RunOrder = "created"
    reverse: bool = False
    """Whether the opposite order is wanted."""
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
    if base.shown is not None:
        conditions.append(one_of("r.tenant", base.shown))
        parameters += base.shown
    exact = (("r.tenant", query.tenant), ("r.agent", query.agent_id), ("r.openclaw_version", query.version))
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
        conditions.append(one_of("r.verdict", query.verdicts))
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
    if query.model is not None:
        conditions.append(f"EXISTS (SELECT 1 FROM costs m WHERE {_same_run('m')} AND m.model = ?)")
        parameters.append(query.model)
    return Where(" AND ".join(conditions), parameters)


def _same_run(table: str) -> str:
    return f"{table}.tenant = r.tenant AND {table}.run_id = r.id"


def one_of(column: str, values: Sequence[str]) -> str:
    """Return the condition that a column has one of some values."""
    return f"{column} = ?" if len(values) == 1 else f"{column} IN ({', '.join('?' * len(values))})"


def order(query: RunQuery) -> str:
    """Return the order of a list."""
    return _ORDERS[query.sort][query.reverse]
