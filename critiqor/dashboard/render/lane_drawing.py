"""The picture of a run: what took time, as bars in lanes, for the window that is looked at."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from critiqor.dashboard.data.run_view import Showing
from critiqor.dashboard.data.time_chart import KINDS, Bar
from critiqor.dashboard.render.formatting import duration
from critiqor.exporters.findings import first_step
from critiqor.model import Diagnosis, ms_from_iso
from critiqor.model.timeline import line_id
from critiqor.model.trace import us_of

WIDTH, GUTTER, LANE, TOP = 1000, 132, 20, 40
"""Of the picture: the part with time, the names before it, the height of a lane, the axis above."""
GAP = 8
"""Between two kinds."""
MOST_TICKS = 8
MOST_MARKS = 50
_LETTER = 6.6
"""Width of a letter on a bar."""
_SAID_BY_LANE = ("agent run", "step", "model call", "compaction", "process")
"""Names that say no more than the lane does."""


class Detail(NamedTuple):
    """How much is drawn."""

    buckets: int
    """What is shorter than that part of the window is joined with its neighbours."""
    most_bars: int
    kinds: tuple[str, ...]


WHOLE = Detail(250, 1500, tuple(KINDS))
SMALL = Detail(120, 200, ("agent", "retry", "model", "tool", "memory", "compaction", "stall"))
"""For a page that is about something else."""


class DrawnBar(NamedTuple):
    """A bar where it is in the picture."""

    x: float
    y: int
    width: float
    css: str
    title: str
    href: str | None
    label: str = ""
    """What there is room for on it."""


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
        return f"?from={(self.start - self.first) / 1000}&to={(self.end - self.first) / 1000}"

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

    window: Window
    bars: list[DrawnBar]
    rows: list[Row]
    ticks: list[Tick]
    marks: list[DrawnBar]
    """Where findings began."""
    height: int
    joined: bool
    """Whether something was too short to be drawn alone."""
    width: int = WIDTH
    gutter: int = GUTTER


def whole_run(showing: Showing) -> Window | None:
    """All of a run; None while that is not known, and where nothing took time."""
    index = showing.index()
    extent = index.extent() if index is not None else None
    if extent is None:
        return None
    first, last = extent
    return Window(first, max(last, first + 1), first, max(last, first + 1))


def draw(showing: Showing, window: Window, detail: Detail = WHOLE) -> Drawing:
    """The picture of a window."""
    index = showing.index()
    lanes = dict(index.lanes()) if index is not None else {}
    least = max(1, (window.end - window.start) // detail.buckets)
    bars = showing.bars(window.start, window.end, least, detail.most_bars)
    stalls = list(_stalls(showing.diagnosis))
    if stalls:
        lanes["stall"] = 1
        bars += [bar for bar in stalls if bar.end_us >= window.start and bar.start_us <= window.end]
    rows, tops, y = [], {}, TOP
    for kind in detail.kinds:
        if kind in lanes:
            tops[kind] = y
            rows.append(Row(KINDS[kind], y, lanes[kind] * LANE))
            y += lanes[kind] * LANE + GAP
    # Those that are around others come first, and are painted over.
    shown = sorted((bar for bar in bars if bar.kind in tops), key=lambda bar: bar.start_us - bar.end_us)
    covered = _covered(shown)
    drawn = [_drawn(showing, window, bar, tops[bar.kind], labelled=bar not in covered) for bar in shown]
    joined = any(bar.times > 1 for bar in shown)
    return Drawing(window, drawn, rows, _ticks(window), _marks(showing, window), y, joined)


def _covered(bars: list[Bar]) -> set[Bar]:
    """Those with another one painted over them, under which no name could be read."""
    lanes: dict[tuple[str, int], list[Bar]] = {}
    for bar in sorted(bars, key=lambda bar: (bar.start_us, -bar.end_us)):
        lanes.setdefault((bar.kind, bar.lane), []).append(bar)
    return {bar for lane in lanes.values() for bar, behind in pairwise(lane) if behind.start_us < bar.end_us}


def _drawn(showing: Showing, window: Window, bar: Bar, top: int, *, labelled: bool) -> DrawnBar:
    x = _x(window, bar.start_us)
    width = max(2.0, round(_x(window, bar.end_us) - x, 2))
    title = f"{KINDS[bar.kind]}: {_named(bar)}, {duration((bar.end_us - bar.start_us) / 1000)}"
    return DrawnBar(
        x,
        top + (bar.lane - 1) * LANE,
        width,
        f"bar {bar.kind}" + " failed" * bool(bar.failed),
        title + ", failed" * bool(bar.failed),
        None if bar.event_id is None else showing.at.event(bar.event_id),
        _fitting(_named(bar), width) if labelled and bar.name not in (KINDS[bar.kind], *_SAID_BY_LANE) else "",
    )


def _named(bar: Bar) -> str:
    if bar.times == 1:
        return bar.name
    return f"{bar.times} short ones" + f", among them {bar.name}" * (bar.name != KINDS[bar.kind])


def _fitting(name: str, width: float) -> str:
    """A name as far as a bar has room for it; nothing where that would not be read."""
    room = int((width - 8) / _LETTER)
    if len(name) <= room:
        return name
    return f"{name[: room - 1]}…" if room >= 8 else ""


def _x(window: Window, moment: int) -> float:
    within = min(max(moment, window.start), window.end) - window.start
    return round(GUTTER + WIDTH * within / (window.end - window.start), 2)


def _ticks(window: Window) -> list[Tick]:
    """Round times from the beginning of the run on, as many as can be read beside each other."""
    least = (window.end - window.start) / MOST_TICKS
    power = 10 ** max(0, math.floor(math.log10(max(least, 1))))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= least)
    first = -(-(window.start - window.first) // step) * step
    moments = range(window.first + first, window.end + 1, step)
    return [Tick(_x(window, at), duration((at - window.first) / 1000)) for at in moments]


def _marks(showing: Showing, window: Window) -> list[DrawnBar]:
    """Where findings began."""
    index = showing.index()
    if showing.diagnosis is None or index is None:
        return []
    marks = []
    for finding in showing.diagnosis.failure_analysis.findings[:MOST_MARKS]:
        at = index.moment(first_step(finding))
        if at is not None and window.start <= at <= window.end:
            title = f"{finding.severity}: {finding.title}"
            css = f"mark {finding.severity}"
            marks.append(DrawnBar(_x(window, at), TOP - 18, 2, css, title, showing.at.finding(finding.id)))
    return marks


def _stalls(diagnosis: Diagnosis | None) -> Iterable[Bar]:
    """Moments in which an event loop stood still, at the time at which that was measured."""
    for stall in diagnosis.timeline.stalls if diagnosis is not None and diagnosis.timeline is not None else ():
        end = ms_from_iso(stall.at)
        if end is not None:
            name = stall.cause or stall.active or "event loop"
            yield Bar("stall", 1, us_of(end - stall.delay_ms), us_of(end), name, False, line_id(stall.line))
