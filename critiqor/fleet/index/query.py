"""Which runs of the index a list or a statistic is about, as conditions in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
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
MAX_LOOKED_UP = 2000
"""Maximum number of runs that are looked up by session, tag or failure type before they are listed."""


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

    def and_(self, sql: str, *parameters: Any) -> Where:
        """Return this condition and another one, whose parameters are single values or one list of them."""
        flat = [each for value in parameters for each in (value if isinstance(value, list) else [value])]
        return Where(f"{self.sql} AND {sql}", [*self.parameters, *flat])


def where(base: Base, query: RunQuery, *, by_day: bool = False) -> Where:
    """Return the condition of a query; `by_day` uses an index that has the day, but not the time.

    Patterns are compared here with the few names that there are, and rare sessions and tags are looked up first. The
    database evaluates conditions that are no plain comparisons for every row, and cannot know how many match.
    """
    found = Where("r.is_current", [])
    if base.shown is not None:
        found = found.and_(*_one_of("r.tenant", base.shown))
    exact = (("r.tenant", query.tenant), ("r.agent", query.agent_id), ("r.openclaw_version", query.version))
    for column, wanted in exact:
        if wanted is not None:
            found = found.and_(f"{column} = ?", wanted)
    for column, pattern in (("host", query.host), ("agent", query.agent)):
        if pattern is not None:
            is_name = not _GLOB & set(pattern)
            names = [pattern] if is_name else [each for each in _names(base, column) if fnmatchcase(each, pattern)]
            found = found.and_(*_one_of(f"r.{column}", names))
    if query.verdicts:
        found = found.and_(*_one_of("r.verdict", query.verdicts))
    return found.and_(*_times(query, by_day=by_day)).and_(*_parts(base, query))


def _times(query: RunQuery, *, by_day: bool, table: str = "r") -> Where:
    found = Where("true", [])
    for moment, sign, day_sign in ((query.since_ms, ">=", ">="), (query.until_ms, "<", "<=")):
        if moment is not None and by_day:
            found = found.and_(f"{table}.day {day_sign} ?", iso_from_ms(moment)[:10])  # the last day is counted, too
        elif moment is not None:
            found = found.and_(f"{table}.created_ms {sign} ?", moment)
    return found


def cost_days(base: Base, query: RunQuery) -> Where | None:
    """Return the condition of a query on the rows `c` of `costs`; None if it is about more than tenant and time."""
    if query != RunQuery(tenant=query.tenant, since_ms=query.since_ms, until_ms=query.until_ms):
        return None
    found = Where("c.is_current", [])
    if base.shown is not None:
        found = found.and_(*_one_of("c.tenant", base.shown))
    if query.tenant is not None:
        found = found.and_("c.tenant = ?", query.tenant)
    return found.and_(*_times(query, by_day=True, table="c"))


def _parts(base: Base, query: RunQuery) -> Where:
    """Return the condition on the sessions, tags, findings and models of a run."""
    found = Where("true", [])
    if query.session is not None:
        found = found.and_(*_with_part(base, "sessions", f"{base.text_position}(p.session_key, ?) > 0", query.session))
    for tag in query.tags:
        found = found.and_(*_with_part(base, "tags", "p.tag = ?", tag))
    if query.failure_type is not None:
        found = found.and_(*_with_part(base, "findings", "p.type = ?", query.failure_type))
    if query.model is not None:
        found = found.and_(*_with_part(base, "costs", "p.model = ?", query.model))
    return found


def _with_part(base: Base, table: str, condition: str, value: str) -> Where:
    """Return the condition that a run has a row in a table: the ids of the runs, if there are few."""
    own, parameters = _of_tenants(base, "p")
    sql = f"SELECT p.run_id FROM {table} p WHERE {condition}{own} LIMIT ?"
    ids = [each for [each] in base.query(sql, [value, *parameters, MAX_LOOKED_UP + 1])]
    if len(ids) <= MAX_LOOKED_UP:
        return _one_of("r.id", list(dict.fromkeys(ids)))
    # So frequent that a list soon has enough of them.
    same = "p.tenant = r.tenant AND p.run_id = r.id"
    return Where(f"EXISTS (SELECT 1 FROM {table} p WHERE {same} AND {condition})", [value])


def _of_tenants(base: Base, table: str) -> Where:
    """Return what is added to a condition, so that a table shows the rows of the tenants that may be seen."""
    if base.shown is None:
        return Where("", [])
    return Where(f" AND {one_of(f'{table}.tenant', base.shown)}", list(base.shown))


def one_of(column: str, values: Sequence[str]) -> str:
    """Return the condition that a column has one of some values."""
    return f"{column} IN ({', '.join('?' * len(values))})" if values else "false"


def _one_of(column: str, values: Sequence[str]) -> Where:
    return Where(one_of(column, values), list(values))


def _names(base: Base, column: str) -> list[str]:
    """Return all hosts or agents. There are few of them, and an index is looked at once for each."""
    own, parameters = _of_tenants(base, "r")
    first = f"SELECT min(r.{column}) FROM runs r WHERE r.is_current{own}"
    following = f"SELECT (SELECT min(r.{column}) FROM runs r WHERE r.is_current AND r.{column} > names.name{own})"
    sql = (
        f"WITH RECURSIVE names (name) AS ({first} UNION ALL {following} FROM names WHERE names.name IS NOT NULL) "
        "SELECT names.name FROM names WHERE names.name IS NOT NULL"
    )
    return [name for [name] in base.query(sql, parameters * 2)]


def order(query: RunQuery) -> str:
    """Return the order of a list."""
    return _ORDERS[query.sort][query.reverse]
