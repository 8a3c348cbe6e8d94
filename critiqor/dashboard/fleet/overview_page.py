"""The fleet at a glance: verdicts and spend by day, hosts, agents, models, and failure types that are new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from critiqor.dashboard.fleet.requests import day_ms, shown_tenants
from critiqor.dashboard.fleet.source import Fleet
from critiqor.dashboard.fleet.stored_runs import stored_address
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.render.chart_drawing import COST
from critiqor.dashboard.render.day_drawing import COUNT, DayValues, draw_days
from critiqor.fleet.index.fleet_index import FleetIndex
from critiqor.fleet.index.query import RunQuery
from critiqor.fleet.index.rows import DayCost, DaySummary, HostSummary
from critiqor.model.diagnosis import READINESSES
from critiqor.model.timestamps import iso_from_ms, now_ms

PERIODS = {"7": "7 days", "30": "30 days", "90": "90 days", "all": "All"}
"""How far back statistics reach."""
DEFAULT_PERIOD = "30"
MAX_LISTED = 20
"""Number of hosts, agents and models that are listed."""
MAX_TYPES = 50
"""Number of new failure types that are listed."""
_DAY_MS = 86_400_000
_FILTERS = ("host", "agent", "tenant")


class ModelCost(NamedTuple):
    """What the calls of one model cost in a period."""

    name: str
    runs: int
    model_calls: int
    tokens: int
    cost_usd: float | None
    is_estimated: bool


class FleetOverviewPage:
    """`/fleet?days=7|30|90|all&host=…&agent=…&version=…&day=…`, for the user only."""

    def __init__(self, site: Site, fleet: Fleet) -> None:
        self._site = site
        self._fleet = fleet

    def page(self, request: Request) -> Response:
        """Show the statistics of a period, and the failure types that are new since a version or a day."""
        viewer = self._site.user(request)
        index = self._fleet.index(viewer)
        params = request.query_params
        days = params.get("days", "")
        days = days if days in PERIODS else DEFAULT_PERIOD
        filters = {name: value for name in _FILTERS if (value := params.get(name, "").strip())}
        query = _query(filters, days)
        since = {"since": iso_from_ms(query.since_ms)[:10]} if query.since_ms is not None else {}
        kept = {name: value for name in ("version", "day") if (value := params.get(name, "").strip())}
        by_day, hosts, agents = index.days(query), index.hosts(query), index.agents(query)
        return self._site.page(
            request,
            "fleet.html",
            current_part="overview",
            filters=filters,
            days=days,
            periods={
                name: (label, f"/fleet?{urlencode({**filters, **kept, 'days': name})}")
                for name, label in PERIODS.items()
            },
            tenants=shown_tenants(viewer),
            runs=f"/fleet/runs?{urlencode({**filters, **since})}",
            listed={**filters, **since},
            verdicts_found={name: sum(getattr(day, name) for day in by_day) for name in READINESSES},
            total=sum(day.runs for day in by_day),
            cost_usd=sum(day.cost_usd or 0.0 for day in by_day),
            by_day=by_day[::-1],
            hosts=_worst(hosts),
            hosts_total=len(hosts),
            agents=_worst(agents),
            agents_total=len(agents),
            **_model_values(index.costs_by_day(query)),
            **_charts(by_day, filters),
            **_new_types(index, query, kept),
        )


def _query(filters: dict[str, str], days: str) -> RunQuery:
    """Return the runs of a period; a clock that is a day ahead is no reason to leave out a run."""
    wanted = RunQuery(host=filters.get("host"), agent=filters.get("agent"), tenant=filters.get("tenant"))
    if days == "all":
        return wanted
    today = now_ms() // _DAY_MS * _DAY_MS
    return replace(wanted, since_ms=today - (int(days) - 1) * _DAY_MS, until_ms=today + _DAY_MS)


def _worst(rows: Sequence[HostSummary]) -> list[HostSummary]:
    """Return hosts or agents with the most runs that are unsafe or need a review."""
    return sorted(rows, key=lambda row: (-row.unsafe, -row.review, -row.runs, row.name))[:MAX_LISTED]


def _model_values(costs: Sequence[DayCost]) -> dict[str, Any]:
    found: dict[str, ModelCost] = {}
    for each in costs:
        name = each.model or "unknown"
        known = found.get(name, ModelCost(name, 0, 0, 0, None, is_estimated=False))
        found[name] = ModelCost(
            name,
            known.runs + each.runs,
            known.model_calls + each.model_calls,
            known.tokens + each.tokens,
            known.cost_usd if each.cost_usd is None else (known.cost_usd or 0.0) + each.cost_usd,
            known.is_estimated or each.cost_is_estimated,
        )
    models = sorted(found.values(), key=lambda each: (-(each.cost_usd or 0.0), each.name))
    return {"models": models[:MAX_LISTED], "models_total": len(models)}


def _charts(days: Sequence[DaySummary], filters: dict[str, str]) -> dict[str, Any]:
    def address(first: str, last: str) -> str:
        return f"/fleet/runs?{urlencode({**filters, 'since': first, 'until': last})}"

    verdicts = [DayValues(day.day, {name: getattr(day, name) for name in READINESSES}) for day in days]
    costs = [DayValues(day.day, {"bars": day.cost_usd or 0.0}) for day in days]
    return {
        "verdict_chart": draw_days("Runs by verdict", COUNT, verdicts, address),
        "cost_chart": draw_days("Cost", COST, costs, address),
    }


def _new_types(index: FleetIndex, query: RunQuery, kept: dict[str, str]) -> dict[str, Any]:
    """Return the failure types that are new since a day, a version, the newest version or the period."""
    versions = index.versions()
    version = kept.get("version", "")
    since = day_ms(kept.get("day"))
    if since is None and version not in versions and len(versions) > 1:
        version = next(iter(versions))
    if since is not None:
        version = ""
    elif version in versions:
        since = versions[version]
    else:
        since, version = query.since_ms or 0, ""
    types = index.new_failure_types(since)
    return {
        "versions": versions,
        "new_version": version,
        "new_day": kept.get("day", ""),
        "new_since": iso_from_ms(since)[:10],
        "new_types": types[:MAX_TYPES],
        "new_types_total": len(types),
        "first_runs": {each.type: stored_address(each) for each in types[:MAX_TYPES]},
    }
