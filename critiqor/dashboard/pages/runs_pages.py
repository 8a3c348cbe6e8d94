"""Pages about many runs: the list with its trend, and two of them compared."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from critiqor.comparison.compare import compare
from critiqor.dashboard.data.run_catalog import UNREADABLE, RunFilter, RunRow
from critiqor.dashboard.pages.paging import Pages, page_number
from critiqor.dashboard.pages.site import Site
from critiqor.errors import UsageError
from critiqor.model import ms_from_iso
from critiqor.run.diagnosis import load_diagnosed
from critiqor.run.timing import compare_timings

ROWS = 50
TREND = 200
"""Runs in the picture of the trend, the newest ones."""
FIGURES = {
    "trust": "Trust",
    "confidence": "Confidence",
    "findings": "Findings",
    "cost_usd": "Cost",
    "tokens": "Tokens",
    "model_calls": "Model calls",
    "tool_calls": "Tool calls",
    "wall_ms": "Time",
}
BETTER = {"trust": 1, "findings": -1, "cost_usd": -1, "tokens": -1, "wall_ms": -1}
"""Figures of which more is better, 1, or worse, -1; the others are neither."""


class RunsPages:
    """For the user alone: somebody with a shared link sees one run, and no list."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def list(self, request: Request) -> Response:
        """Runs, newest first: searched, filtered, drawn over time."""
        viewer = self._site.user(request)
        asked = request.query_params
        wanted = RunFilter(
            text=asked.get("q", ""),
            agent=asked.get("agent", ""),
            problem=asked.get("type", ""),
            tenant=asked.get("tenant", ""),
            since=asked.get("since", ""),
            until=asked.get("until", ""),
        )
        rows = self._site.library.rows(viewer)
        found = [row for row in rows if wanted.wants(row)]
        query = {name: asked[name] for name in ("q", "agent", "type", "tenant", "since", "until") if asked.get(name)}
        pages = Pages(page_number(asked.get("page")), ROWS, len(found), "/runs", urlencode(query)).within()
        return self._site.page(
            request,
            "runs.html",
            wanted=wanted,
            rows=found[pages.offset : pages.offset + ROWS],
            pages=pages,
            agents=sorted({row.agent_id for row in rows if row.status != UNREADABLE}),
            tenants=sorted(viewer.tenants) if len(viewer.tenants) > 1 else [],
            problems=sorted({problem for row in rows for problem in row.problems or ("none",)}),
            trend=_trend([row for row in found if row.status != UNREADABLE][:TREND]),
        )

    def compare(self, request: Request) -> Response:
        """Two runs side by side, the older one first."""
        viewer = self._site.user(request)
        named = request.query_params.getlist("run")
        if len(named) != 2 or named[0] == named[1]:
            raise UsageError("Pick two runs to compare.", fix="Go back to the list and mark two of them.")
        runs = [self._site.library.open(run_id, viewer) for run_id in named]
        before, after = sorted(runs, key=lambda run: str(run.head["timestamps"]["created_at"]))
        folder = self._site.paths.runs_dir
        first, second = (load_diagnosed(run.run_id, folder) for run in (before, after))
        timing = compare_timings(before.run_id, after.run_id, folder)
        result = compare(first, second)
        return self._site.page(request, "compare.html", result=result, timing=timing, figures=FIGURES, better=BETTER)


def _trend(rows: list[RunRow]) -> dict[str, list[float | int | str | None]]:
    """The figures of runs in order of time, as the chart takes them."""
    dated = [(row, moment) for row in reversed(rows) if (moment := ms_from_iso(row.created_at)) is not None]
    return {
        "runs": [row.run_id for row, _ in dated],
        "at": [moment / 1000 for _, moment in dated],
        "trust": [row.trust for row, _ in dated],
        "cost": [row.cost_usd for row, _ in dated],
        "seconds": [None if row.wall_ms is None else row.wall_ms / 1000 for row, _ in dated],
    }
