"""The run as a lane chart. The server draws it for the window that the address names, so that zooming is a link."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from critiqor.dashboard.showing import Showing
from critiqor.dashboard.site import Site
from critiqor.dashboard.time_chart import KINDS, Bar
from critiqor.dashboard.wording import duration, segment
from critiqor.model import Diagnosis, ms_from_iso
from critiqor.model.timeline import line_id

WIDTH, GUTTER, LANE, TOP = 1000, 150, 16, 34
"""Of the picture: the part with time, the names before it, the height of a lane, the axis above."""
BUCKETS = 250
"""What is shorter than that part of the window is joined with its neighbours."""
MOST_BARS = 1500
TICKS = 6


class DrawnBar(NamedTuple):
    """A bar where it is in the picture."""

    x: float
    y: int
    width: float
    css: str
    title: str
    href: str | None


class Row(NamedTuple):
    """One kind of bars."""

    name: str
    y: int
    height: int


class Tick(NamedTuple):
    x: float
    label: str


class Window(NamedTuple):
    """The part of a run that is drawn; microseconds since 1970."""

    start: int
    end: int
    first: int
    last: int
    """Where the run itself begins and ends."""

    @property
    def address(self) -> str:
        """As it stands in an address: milliseconds since the beginning of the run."""
        return f"?from={(self.start - self.first) / 1000:g}&to={(self.end - self.first) / 1000:g}"

    @property
    def is_whole(self) -> bool:
        return (self.start, self.end) == (self.first, self.last)

    def moved(self, left: float, right: float) -> Window:
        """Another part, whose edges are that many lengths of this one further right, within the run."""
        length = self.end - self.start
        start = max(self.first, min(round(self.start + left * length), self.last - 1))
        end = min(self.last, max(round(self.end + right * length), start + 1))
        return self._replace(start=start, end=end)


class Drawing(NamedTuple):
    """The whole picture."""

    bars: list[DrawnBar]
    rows: list[Row]
    ticks: list[Tick]
    marks: list[DrawnBar]
    """Where findings began."""
    height: int
    joined: bool
    """Whether something was too short to be drawn alone."""


class TimelinePage:
    """`/runs/{run}/timeline?from=…&to=…`, milliseconds from the beginning of the run."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self, request: Request) -> Response:
        showing = self._site.showing(request)
        index = showing.index()
        extent = index.extent() if index is not None else None
        told: dict[str, Any] = {"drawing": None, "window": None, "is_indexed": index is not None}
        if index is not None and extent is not None:
            asked = request.query_params
            window = _window(extent, asked.get("from"), asked.get("to"))
            lanes = dict(index.lanes())
            moments = _finding_moments(showing)
            told |= {"drawing": _drawing(showing, window, lanes, moments), "window": window}
        return self._site.page(
            request,
            "timeline.html",
            showing=showing,
            current="timeline",
            diagnosis=showing.diagnosis,
            width=WIDTH,
            gutter=GUTTER,
            **told,
        )


def _window(extent: tuple[int, int], start: str | None, end: str | None) -> Window:
    first, last = extent
    last = max(last, first + 1)
    begin = first + round(_milliseconds(start, 0.0) * 1000)
    until = first + round(_milliseconds(end, (last - first) / 1000) * 1000)
    begin = max(first, min(begin, last - 1))
    return Window(begin, min(last, max(until, begin + 1)), first, last)


def _milliseconds(text: str | None, otherwise: float) -> float:
    try:
        value = float(text) if text else otherwise
    except ValueError:
        return otherwise
    return value if 0 <= value < 1e12 else otherwise


def _drawing(showing: Showing, window: Window, lanes: dict[str, int], moments: dict[str, tuple[str, int]]) -> Drawing:
    length = window.end - window.start
    least = max(1, length // BUCKETS)
    bars = showing.bars(window.start, window.end, least, MOST_BARS)
    stalls = list(_stalls(showing.diagnosis))
    if stalls:
        lanes = {**lanes, "stall": 1}
        bars += [bar for bar in stalls if bar.end_us >= window.start and bar.start_us <= window.end]
    rows, tops, y = [], {}, TOP
    for kind, name in KINDS.items():
        if kind in lanes:
            tops[kind] = y
            rows.append(Row(name, y, lanes[kind] * LANE))
            y += lanes[kind] * LANE + 6

    def x_of(moment: int) -> float:
        return round(GUTTER + WIDTH * (min(max(moment, window.start), window.end) - window.start) / length, 2)

    drawn = []
    # Those that are around others come first, and are painted over.
    for bar in sorted(bars, key=lambda bar: bar.start_us - bar.end_us):
        x = x_of(bar.start_us)
        title = f"{KINDS[bar.kind]}: {bar.name}, {duration((bar.end_us - bar.start_us) / 1000)}"
        css = f"bar {bar.kind}" + " failed" * bool(bar.failed)
        y_of_bar = tops[bar.kind] + (bar.lane - 1) * LANE
        href = None if bar.event_id is None else f"/runs/{showing.run_id}/events/{segment(bar.event_id)}"
        said = title + ", failed" * bool(bar.failed)
        drawn.append(DrawnBar(x, y_of_bar, max(1.5, round(x_of(bar.end_us) - x, 2)), css, said, href))
    marks = [
        DrawnBar(x_of(at), TOP - 12, 2, "mark", title, f"/runs/{showing.run_id}/diagnosis#{finding_id}")
        for finding_id, (title, at) in moments.items()
        if window.start <= at <= window.end
    ]
    ticks = []
    for number in range(TICKS + 1):
        at = window.start + length * number // TICKS
        ticks.append(Tick(x_of(at), duration((at - window.first) / 1000)))
    return Drawing(drawn, rows, ticks, marks, y, any("short ones" in bar.name for bar in bars))


def _stalls(diagnosis: Diagnosis | None) -> Iterable[Bar]:
    """Moments in which an event loop stood still, at the time at which that was measured."""
    for stall in diagnosis.timeline.stalls if diagnosis is not None and diagnosis.timeline is not None else ():
        end = ms_from_iso(stall.at)
        if end is not None:
            name = stall.cause or stall.active or "event loop"
            yield Bar("stall", 1, round((end - stall.delay_ms) * 1000), end * 1000, name, False, line_id(stall.line))


def _finding_moments(showing: Showing) -> dict[str, tuple[str, int]]:
    """Where findings began, by their ids: title and time."""
    index = showing.index()
    moments: dict[str, tuple[str, int]] = {}
    if showing.diagnosis is None or index is None:
        return moments
    for finding in showing.diagnosis.failure_analysis.findings[:50]:
        step = finding.first_bad_step or next(iter(finding.evidence), "")
        at = index.moment(step)
        if at is not None:
            moments[finding.id] = (f"{finding.severity}: {finding.title}", at)
    return moments
