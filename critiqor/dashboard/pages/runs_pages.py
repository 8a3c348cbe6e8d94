"""The list of runs with its trend, their cost by day, and what can be done with several of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from critiqor.dashboard.data.run_catalog import SORTS, UNREADABLE, RunFilter, RunRow
from critiqor.dashboard.pages.paging import Pages, page_number
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.pages.sorting import Sorting
from critiqor.dashboard.render.chart_drawing import COST, TIME, TRUST, Chart, Measurement, Unit, draw_trend
from critiqor.dashboard.web.forms import read_fields
from critiqor.errors import UsageError
from critiqor.exporters.gathering import DEFAULT_OPTIONS, gather
from critiqor.exporters.zip import report
from critiqor.model import ms_from_iso
from critiqor.model.formatting import counted
from critiqor.model.report import Bundle
from critiqor.run.retention.pruning import remove_runs
from critiqor.run.view import RunView

ROWS = 50
MAX_CHOSEN = 200
"""Maximum number of runs that are exported or removed at once."""
MAX_PARTS = 6
"""Maximum number of agents, models or sessions whose cost is shown by day."""
MAX_DAYS = 92
FILTERS = ("q", "agent", "verdict", "model", "version", "tag", "type", "tenant", "since", "until", "sort")
"""Filters of the list, by their names in the address."""


class RunsPages:
    """The list of runs, what is done to several of them, and `/costs`; for the user only: a link shows one run."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self, request: Request) -> Response:
        """Show the list of runs, newest first, with search, filters and trend."""
        viewer = self._site.user(request)
        query_params = request.query_params
        wanted = _wanted(request)
        rows = self._site.catalog.rows(viewer)
        found = wanted.apply(rows)
        query = {name: query_params[name] for name in FILTERS if query_params.get(name)}
        pages = Pages(page_number(query_params.get("page")), ROWS, len(found), "/runs", urlencode(query)).within()
        return self._site.page(
            request,
            "runs.html",
            wanted=wanted,
            query=query,
            rows=found[pages.offset : pages.offset + ROWS],
            pages=pages,
            agents=sorted({row.agent_id for row in rows if row.status != UNREADABLE}),
            verdicts_found=list(dict.fromkeys(row.readiness or row.status.lower() for row in rows)),
            models=sorted({model for row in rows for model in row.models}),
            versions=sorted({version for row in rows for version in row.versions}),
            tags=sorted({tag for row in rows for tag in row.tags}),
            sorting=Sorting("/runs", query, tuple(SORTS)),
            tenants=sorted(viewer.tenants) if len(viewer.tenants) > 1 else [],
            problems=sorted({problem for row in rows for problem in row.problems or ("none",)}),
            trend=_trend([row for row in RunFilter(sort="-created").apply(found) if row.readiness is not None]),
        )

    def costs(self, request: Request) -> Response:
        """Show the cost of the runs of each day, by agent, model or session."""
        viewer = self._site.user(request)
        by = request.query_params.get("by", "")
        by = by if by in COST_PARTS else "agent"
        rows = _wanted(request).apply(self._site.catalog.rows(viewer))
        query = {name: request.query_params[name] for name in FILTERS if request.query_params.get(name)}
        links = {part: f"/costs?{urlencode({**query, 'by': part})}" for part in COST_PARTS}
        return self._site.page(request, "costs.html", by=by, links=links, query=query, **_daily_costs(rows, by))

    def export(self, request: Request) -> Response:
        """Return the chosen runs as one ZIP archive."""
        views = self._chosen(request, request.query_params.getlist("run"))
        bundles = [gather("bundle", view.run, DEFAULT_OPTIONS).material for view in views]
        files = [file._replace(name=f"{each.name}/{file.name}") for each in bundles for file in each.files]
        attachment = {"Content-Disposition": 'attachment; filename="critiqor-runs.zip"'}
        return StreamingResponse(
            report(Bundle("critiqor-runs", files)), media_type="application/zip", headers=attachment
        )

    def removal(self, request: Request) -> Response:
        """Ask whether the chosen runs are to be removed."""
        views = self._chosen(request, request.query_params.getlist("run"))
        chosen = {view.run_id for view in views}
        rows = [row for row in self._site.catalog.rows(self._site.user(request)) if row.run_id in chosen]
        return self._site.page(request, "remove.html", rows=rows, left=[])

    async def remove(self, request: Request) -> Response:
        """Remove the chosen runs after a confirmation."""
        self._site.user(request)
        fields = await read_fields(request)
        return await to_thread.run_sync(self._remove, request, fields)

    def _remove(self, request: Request, fields: dict[str, list[str]]) -> Response:
        views = self._chosen(request, fields.get("run", []))
        if fields.get("confirm") != ["remove"]:
            raise HTTPException(400, "Removing runs has to be confirmed: select them in the list of runs.")
        pruned = remove_runs(self._site.store, [view.run_id for view in views])
        if not pruned.not_sealed:
            return RedirectResponse("/runs", status_code=303)
        return self._site.page(request, "remove.html", rows=[], left=pruned.not_sealed)

    def _chosen(self, request: Request, run_ids: Sequence[str]) -> Sequence[RunView]:
        """Open the runs that were chosen in the list."""
        viewer = self._site.user(request)
        if not 0 < len(run_ids) <= MAX_CHOSEN:
            raise UsageError(f"Select up to {MAX_CHOSEN} runs.", fix="Go back to the list and select some of them.")
        return [self._site.catalog.open(run_id, viewer) for run_id in dict.fromkeys(run_ids)]


def _wanted(request: Request) -> RunFilter:
    query = request.query_params
    names = {field: field for field in RunFilter.__struct_fields__} | {"text": "q", "problem": "type"}
    return RunFilter(**{field: query.get(name, "") for field, name in names.items()})


class DayCost(NamedTuple):
    """What the runs of one day cost."""

    day: str
    runs: int
    total: float
    parts: list[float | None]
    """The cost of each shown agent, model or session; None if it has none."""


def _daily_costs(rows: Sequence[RunRow], by: str) -> dict[str, Any]:
    """Return the known costs of each day, the newest first, split among the most expensive parts."""
    spent: dict[str, dict[str, float]] = {}
    sums: dict[str, float] = {}
    runs: dict[str, int] = {}
    for row in rows:
        day = row.created_at[:10]
        for name, cost in COST_PARTS[by](row):
            spent.setdefault(day, {})[name] = spent.get(day, {}).get(name, 0.0) + cost
            sums[name] = sums.get(name, 0.0) + cost
        if row.cost_usd is not None:
            runs[day] = runs.get(day, 0) + 1
    names = sorted(sums, key=lambda name: (-sums[name], name))[:MAX_PARTS]
    days = [
        DayCost(day, runs.get(day, 0), sum(parts.values()), [parts.get(name) for name in names])
        for day, parts in sorted(spent.items(), reverse=True)[:MAX_DAYS]
    ]
    return {
        "days": days,
        "names": names,
        "sums": [sums[name] for name in names],
        "others": max(0, len(sums) - len(names)),
        "highest": max((each.total for each in days), default=0.0),
        "unknown": sum(row.readiness is not None and row.cost_usd is None for row in rows),
        "estimated": sum(row.cost_is_estimated for row in rows),
    }


COST_PARTS: dict[str, Callable[[RunRow], list[tuple[str, float]]]] = {
    "agent": lambda row: [] if row.cost_usd is None else [(row.agent_id, row.cost_usd)],
    "model": lambda row: list(row.model_costs),
    "session": lambda row: [(each.name, each.cost_usd) for each in row.judged_sessions if each.cost_usd is not None],
}
"""What the cost of a run can be split by."""


def _trend(rows: list[RunRow]) -> dict[str, Chart | None] | None:
    """Draw the figures of diagnosed runs over time; None if there are too few runs to compare."""
    dated = [(row, moment) for row in reversed(rows) if (moment := ms_from_iso(row.created_at)) is not None]
    if len(dated) < 2:
        return None

    def draw(name: str, unit: Unit, value: Callable[[RunRow], float | None]) -> Chart | None:
        figures = [
            Measurement(moment, value(row), row.run_id, f"/runs/{row.run_id}", row.agent_id) for row, moment in dated
        ]
        return draw_trend(name, unit, figures)

    cost = draw("Cost", COST, lambda row: row.cost_usd)
    estimated = sum(row.cost_is_estimated and row.cost_usd is not None for row, _ in dated)
    if cost is not None and estimated:
        note = f"{counted(estimated, 'cost is', 'costs are')} estimated from list prices."
        cost = cost._replace(note=f"{cost.note} {note}".strip(), label=f"{cost.label} {note}")
    return {
        "trust": draw("Trust", TRUST, lambda row: row.trust),
        "cost": cost,
        "time": draw("Time", TIME, lambda row: row.wall_ms),
    }
