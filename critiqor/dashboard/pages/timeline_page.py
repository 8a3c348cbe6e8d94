"""The timeline page: a lane chart. The server draws the window that the address names, so zooming is a link."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from critiqor.dashboard.data.conversations import Conversations
from critiqor.dashboard.data.page_values import slow_calls
from critiqor.dashboard.data.time_chart import ChartWindow
from critiqor.dashboard.pages.run_addresses import session_key_of
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.render.lane_drawing import WHOLE, draw

SPLIT = {
    "before_provider_ms": "before the first model call",
    "with_provider_ms": "waiting for the model",
    "in_tools_ms": "in tools",
    "retrying_ms": "waiting to retry",
    "between_ms": "OpenClaw's work between calls",
    "after_ms": "after the last call",
    "unattributed_ms": "not explained by the recording",
}
"""The parts of a turn, in drawing order."""


class TimelinePage:
    """`/runs/{run}/timeline?from=…&to=…&session=…&detail=all`, milliseconds since the start of the run."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self, request: Request) -> Response:
        """Show what took time, in lanes."""
        data = self._site.run_data(request)
        whole = data.whole_window()
        query = request.query_params
        kept = {name: query[name] for name in ("session", "detail") if query.get(name)}
        detail = WHOLE._replace(has_all=query.get("detail") == "all")
        if "session" in kept and whole is not None:
            session = Conversations(data).find(session_key_of(kept["session"]))
            if session is None:
                raise HTTPException(404, "There is no such session in this run.")
            detail = detail._replace(session=session.number)
        window = None if whole is None else _window(whole, query.get("from"), query.get("to"))
        turns = data.diagnosis.timeline.turns if data.diagnosis and data.diagnosis.timeline else []
        return self._site.page(
            request,
            "timeline.html",
            run_data=data,
            current="timeline",
            diagnosis=data.diagnosis,
            drawing=None if window is None else draw(data, window._replace(rest=urlencode(kept)), detail),
            session=kept.get("session"),
            toggled=data.addresses.page(
                "timeline", session=kept.get("session", ""), detail="" if detail.has_all else "all"
            ),
            has_all=detail.has_all,
            is_indexed=data.index() is not None,
            split=SPLIT,
            agent_runs=data.agent_runs(turn.agent_run_id for turn in turns if turn.agent_run_id),
            slowest=slow_calls(data),
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
