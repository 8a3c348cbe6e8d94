"""The run as a lane chart. The server draws it for the window that the address names, so that zooming is a link."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.render.lane_drawing import Window, draw, whole_run

SPLIT = {
    "before_provider_ms": "before the provider",
    "with_provider_ms": "with the provider",
    "in_tools_ms": "in tools",
    "retrying_ms": "retrying",
    "between_ms": "between",
    "after_ms": "after",
    "unattributed_ms": "unattributed",
}
"""The parts of a turn, in the order in which they are drawn."""


class TimelinePage:
    """`/runs/{run}/timeline?from=…&to=…`, milliseconds from the beginning of the run."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self, request: Request) -> Response:
        showing = self._site.showing(request)
        whole = whole_run(showing)
        asked = request.query_params
        return self._site.page(
            request,
            "timeline.html",
            showing=showing,
            current="timeline",
            diagnosis=showing.diagnosis,
            drawing=draw(showing, part_of(whole, asked.get("from"), asked.get("to"))) if whole is not None else None,
            is_indexed=showing.index() is not None,
            split=SPLIT,
        )


def part_of(whole: Window, start: str | None, end: str | None) -> Window:
    """The part of a run that an address asks for; all of it where it asks for none that there is."""
    begin = whole.first + round(_milliseconds(start, 0.0) * 1000)
    until = whole.first + round(_milliseconds(end, (whole.last - whole.first) / 1000) * 1000)
    begin = max(whole.first, min(begin, whole.last - 1))
    return whole._replace(start=begin, end=min(whole.last, max(until, begin + 1)))


def _milliseconds(text: str | None, otherwise: float) -> float:
    try:
        value = float(text) if text else otherwise
    except ValueError:
        return otherwise
    return value if 0 <= value < 1e12 else otherwise
