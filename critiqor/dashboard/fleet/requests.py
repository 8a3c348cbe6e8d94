"""What the address of a page about the fleet asks for."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import cast, get_args

from starlette.datastructures import QueryParams

from critiqor.fleet.index.query import RunOrder, RunQuery
from critiqor.model.diagnosis import READINESSES, Readiness
from critiqor.privacy.visibility import Viewer

FILTERS = ("host", "agent", "verdict", "model", "version", "tag", "type", "session", "tenant", "since", "until", "sort")
"""Filters of the list, by their names in the address."""
SORTS: tuple[str, ...] = get_args(RunOrder)
_ASCENDING = frozenset({"trust"})
"""Orders that begin with the lowest value; the others begin with the highest one."""


def filters_of(params: QueryParams) -> dict[str, str]:
    """Return the filters of a list that are not empty, by their names in the address."""
    return {name: value for name in FILTERS if (value := params.get(name, "").strip())}


def query_of(filters: dict[str, str], limit: int, offset: int = 0) -> RunQuery:
    """Return the runs that are asked for. What is not valid is left out, and the page shows it as it is."""
    sort = filters.get("sort", "")
    name = sort.removeprefix("-")
    is_known = name in SORTS
    return RunQuery(
        host=filters.get("host"),
        agent=filters.get("agent"),
        tenant=filters.get("tenant"),
        session=filters.get("session"),
        verdicts=(cast("Readiness", filters["verdict"]),) if filters.get("verdict") in READINESSES else (),
        tags=(filters["tag"],) if "tag" in filters else (),
        failure_type=filters.get("type"),
        model=filters.get("model"),
        version=filters.get("version"),
        since_ms=day_ms(filters.get("since")),
        until_ms=day_ms(filters.get("until"), days_later=1),
        sort=cast("RunOrder", name) if is_known else "created",
        reverse=is_known and sort.startswith("-") == (name in _ASCENDING),
        limit=limit,
        offset=offset,
    )


def day_ms(text: str | None, days_later: int = 0) -> int | None:
    """Return when the day that a request names begins in UTC, in milliseconds since 1970; None for any other text."""
    try:
        day = date.fromisoformat(text or "") + timedelta(days=days_later)
    except (ValueError, OverflowError):
        return None
    return round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)


def shown_tenants(viewer: Viewer) -> list[str]:
    """Return the tenants that a request about the fleet can choose from; empty if there is no choice."""
    return sorted(viewer.tenants) if len(viewer.tenants) > 1 else []
