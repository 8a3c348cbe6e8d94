"""The timeline page: a lane chart. The server draws the window that the address names, so zooming is a link."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from critiqor.dashboard.data.time_chart import ChartWindow
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.render.lane_drawing import draw

SPLIT = {
    "before_provider_ms": "before the first model call",
    "with_provider_ms": "with the provider",
    "in_tools_ms": "in tools",
    "retrying_ms": "retrying",
    "between_ms": "between",
    "after_ms": "after",
    "unattributed_ms": "unattributed",
}
"""The parts of a turn, in drawing order."""


class TimelinePage:
    """`/runs/{run}/timeline?from=…&to=…`, milliseconds since the start of the run."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self, request: Request) -> Response:
        data = self._site.run_data(request)
        whole = data.whole_window()
        query = request.query_params
        return self._site.page(
            request,
            "timeline.html",
            run_data=data,
            current="timeline",
            diagnosis=data.diagnosis,
            drawing=draw(data, _window(whole, query.get("from"), query.get("to"))) if whole is not None else None,
            is_indexed=data.index() is not None,
            split=SPLIT,
        )


def _window(whole: ChartWindow, start: str | None, end: str | None) -> ChartWindow:
    """Return the requested window of a run; a bound that is missing or invalid is that of the whole run."""
    begin = whole.first + round(_milliseconds(start, 0.0) * 1000)
    until = whole.first + round(_milliseconds(end, (whole.last - whole.first) / 1000) * 1000)
    begin = max(whole.first, min(begin, whole.last - 1))
    return whole._replace(start=begin, end=min(whole.last, max(until, begin + 1)))


def _milliseconds(text: str | None, default: float) -> float:
    try:
        value = float(text) if text else default
    except ValueError:
        return default
    return value if 0 <= value < 1e12 else default
