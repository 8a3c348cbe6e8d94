"""The comparison of two runs: verdict, figures, answers, and each tool call beside the one that takes its place."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from critiqor.comparison.compare import Comparison, compare
from critiqor.comparison.figures import FIGURE_LABELS, format_difference, format_figure
from critiqor.dashboard.data.run_comparison import RunComparison, with_differences
from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.dashboard.pages.paging import Pages, page_number
from critiqor.dashboard.pages.site import Site
from critiqor.errors import BrokenRecordError, UsageError
from critiqor.run.timing import compare_timings

CALLS = 40
"""Number of tool calls on one page."""
BETTER = {"trust": 1, "findings": -1, "cost_usd": -1, "tokens": -1, "wall_ms": -1}
"""1 if more is better, -1 if less is better; other figures are neither."""


SPENT = ("cost_usd", "tokens", "wall_ms")
"""Figures that depend on the task."""


class FigureRow(NamedTuple):
    """One figure of two compared runs."""

    label: str
    before: str
    after: str
    difference: str
    judgement: str
    """`better`, `worse` or empty."""


class ComparisonPage:
    """`/compare?run=A&run=B&calls=all&page=N`, for the user only."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self, request: Request) -> Response:
        """Return the page that compares two runs, the older one first."""
        viewer = self._site.user(request)
        views = [self._site.catalog.open(run_id, viewer) for run_id in picked_runs(request)]
        return show_comparison(self._site, request, *(RunPageData(view, self._site.indexes) for view in views))


def picked_runs(request: Request) -> tuple[str, str]:
    """Return the names of the two runs in an address. Raise `UsageError` if there are not two."""
    named = request.query_params.getlist("run")
    if len(named) != 2 or named[0] == named[1]:
        raise UsageError("Pick two runs to compare.", fix="Go back to the list and select two of them.")
    return named[0], named[1]


def show_comparison(site: Site, request: Request, one: RunPageData, other: RunPageData) -> Response:
    """Return the page that compares two runs, the older one first."""
    sides = sorted((one, other), key=lambda side: side.view.head.timestamps.created_at)
    before, after = (side.view for side in sides)
    first, second = (msgspec.structs.replace(side.view.require_diagnosis(), run_id=_name(side)) for side in sides)
    unproven = [view.unproven.message for view in (before, after) if view.unproven is not None]
    result = compare(first, second, unproven)
    values = _conversation_values(request, *sides)
    return site.page(
        request,
        "compare.html",
        result=result,
        timing=compare_timings(before.run, after.run),
        figures=_figure_rows(
            result, before.figure_texts(), after.figure_texts(), is_same_task=not values["has_other_task"]
        ),
        sides=[side.addresses for side in sides],
        **values,
    )


def _name(side: RunPageData) -> str:
    return side.run_id if side.stored is None else side.stored.name


def _conversation_values(request: Request, before: RunPageData, after: RunPageData) -> dict[str, Any]:
    """Return answers and tool calls of both runs; what cannot be read is left out."""
    shows_all = request.query_params.get("calls") == "all"
    runs, path = [("run", _name(before)), ("run", _name(after))], request.url.path
    try:
        compared = RunComparison(before, after)
        answers, calls = compared.answers(), compared.calls()
    except BrokenRecordError as error:
        unread: dict[str, Any] = {
            "answers": [],
            "calls": [],
            "pages": None,
            "same": 0,
            "address": "",
            "has_other_task": False,
        }
        return {**unread, "unreadable": error.message}
    different = [row for row in calls if row.relation != "same"]
    found = calls if shows_all else different
    query = urlencode([*runs, *([("calls", "all")] if shows_all else [])])
    pages = Pages(page_number(request.query_params.get("page")), CALLS, len(found), path, query).within()
    return {
        "answers": answers,
        "has_other_task": any(row.is_of_other_task for row in answers),
        "calls": with_differences(found[pages.offset : pages.offset + CALLS]),
        "unreadable": None if compared.is_complete else "The evidence is being indexed: reload the page to see all.",
        "pages": pages,
        "same": len(calls) - len(different),
        "different": len(different),
        "shows_all": shows_all,
        "address": f"{path}?{urlencode(runs if shows_all else [*runs, ('calls', 'all')])}",
    }


def _figure_rows(
    result: Comparison, before: dict[str, str], after: dict[str, str], *, is_same_task: bool
) -> list[FigureRow]:
    """Return every figure of two runs; `before` and `after` have trust, cost and time of each.

    What another task costs is neither better nor worse.
    """
    rows = []
    for name, label in FIGURE_LABELS.items():
        change = getattr(result.figures, name)
        difference, judgement = change.difference, ""
        if difference and name in BETTER and (is_same_task or name not in SPENT):
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
