"""Pages of many runs: the list with its trend, and the comparison of two runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from critiqor.comparison.compare import Comparison, compare
from critiqor.comparison.figures import FIGURE_LABELS, format_difference, format_figure
from critiqor.dashboard.data.run_catalog import SORTS, UNREADABLE, RunFilter, RunRow
from critiqor.dashboard.pages.paging import Pages, page_number
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.pages.sorting import Sorting
from critiqor.dashboard.render.chart_drawing import COST, TIME, TRUST, Chart, Measurement, Unit, draw_trend
from critiqor.errors import UsageError
from critiqor.model import ms_from_iso
from critiqor.model.formatting import counted
from critiqor.run.timing import compare_timings

ROWS = 50
FILTERS = ("q", "agent", "verdict", "model", "tag", "type", "tenant", "since", "until", "sort")
"""Filters of the list, by their names in the address."""
BETTER = {"trust": 1, "findings": -1, "cost_usd": -1, "tokens": -1, "wall_ms": -1}
"""1 if more is better, -1 if less is better; other figures are neither."""


class FigureRow(NamedTuple):
    """One figure of two compared runs."""

    label: str
    before: str
    after: str
    difference: str
    judgement: str
    """`better`, `worse` or empty."""


class RunsPages:
    """The list and the comparison, for the user only: a shared link gives access to one run, not to the list."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def list(self, request: Request) -> Response:
        """Show the list of runs, newest first, with search, filters and trend."""
        viewer = self._site.user(request)
        query_params = request.query_params
        wanted = RunFilter(
            text=query_params.get("q", ""),
            agent=query_params.get("agent", ""),
            verdict=query_params.get("verdict", ""),
            model=query_params.get("model", ""),
            tag=query_params.get("tag", ""),
            sort=query_params.get("sort", ""),
            problem=query_params.get("type", ""),
            tenant=query_params.get("tenant", ""),
            since=query_params.get("since", ""),
            until=query_params.get("until", ""),
        )
        rows = self._site.catalog.rows(viewer)
        found = wanted.apply(rows)
        query = {name: query_params[name] for name in FILTERS if query_params.get(name)}
        pages = Pages(page_number(query_params.get("page")), ROWS, len(found), "/runs", urlencode(query)).within()
        return self._site.page(
            request,
            "runs.html",
            wanted=wanted,
            rows=found[pages.offset : pages.offset + ROWS],
            pages=pages,
            agents=sorted({row.agent_id for row in rows if row.status != UNREADABLE}),
            verdicts_found=list(dict.fromkeys(row.readiness or row.status.lower() for row in rows)),
            models=sorted({model for row in rows for model in row.models}),
            tags=sorted({tag for row in rows for tag in row.tags}),
            sorting=Sorting("/runs", query, tuple(SORTS)),
            tenants=sorted(viewer.tenants) if len(viewer.tenants) > 1 else [],
            problems=sorted({problem for row in rows for problem in row.problems or ("none",)}),
            trend=_trend([row for row in RunFilter(sort="-created").apply(found) if row.readiness is not None]),
        )

    def compare(self, request: Request) -> Response:
        """Show two runs side by side, the older one first."""
        viewer = self._site.user(request)
        named = request.query_params.getlist("run")
        if len(named) != 2 or named[0] == named[1]:
            raise UsageError("Pick two runs to compare.", fix="Go back to the list and select two of them.")
        views = [self._site.catalog.open(run_id, viewer) for run_id in named]
        before, after = sorted(views, key=lambda view: view.head.timestamps.created_at)
        first, second = before.require_diagnosis(), after.require_diagnosis()
        unproven = [view.unproven.message for view in (before, after) if view.unproven is not None]
        timing = compare_timings(before.run, after.run)
        result = compare(first, second, unproven)
        rows = _figure_rows(result, before.figure_texts(), after.figure_texts())
        return self._site.page(request, "compare.html", result=result, timing=timing, figures=rows)


def _figure_rows(result: Comparison, before: dict[str, str], after: dict[str, str]) -> list[FigureRow]:
    """Return every figure of two runs; `before` and `after` have trust, cost and time of each."""
    rows = []
    for name, label in FIGURE_LABELS.items():
        change = getattr(result.figures, name)
        difference, judgement = change.difference, ""
        if difference and name in BETTER:
            judgement = "better" if (difference > 0) == (BETTER[name] > 0) else "worse"
        rows.append(
            FigureRow(
                label.capitalize(),
                before.get(name, format_figure(name, change.before)),
                after.get(name, format_figure(name, change.after)),
                format_difference(name, difference),
                judgement,
            )
        )
    return rows


def _trend(rows: list[RunRow]) -> dict[str, Chart | None] | None:
    """Draw the figures of diagnosed runs over time; None if there are too few runs to compare."""
    dated = [(row, moment) for row in reversed(rows) if (moment := ms_from_iso(row.created_at)) is not None]
    if len(dated) < 2:
        return None

    def draw(name: str, unit: Unit, value: Callable[[RunRow], float | None]) -> Chart | None:
        figures = [Measurement(moment, value(row), row.run_id, f"/runs/{row.run_id}") for row, moment in dated]
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
