"""The lane chart of a run as a drawing: bars in lanes for a window of time."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.dashboard.data.time_chart import KINDS, Bar, ChartWindow
from critiqor.dashboard.render.chart_axes import Tick, round_step
from critiqor.model import Diagnosis, ms_from_iso
from critiqor.model.formatting import format_duration, format_place
from critiqor.model.timeline import line_id
from critiqor.model.timestamps import us_of

WIDTH, GUTTER, LANE, TOP = 1000, 132, 20, 40
"""Sizes in pixels: width of the time axis, width of the lane names, height of a lane, height of the axis."""
GAP = 8
"""Space between two kinds of lanes in pixels."""
MAX_TICKS = 8
MAX_MARKS = 50
_CHARACTER = 6.6
"""Width of a character on a bar, in pixels."""
_GENERIC_NAMES = ("agent run", "turn", "model call", "compaction", "process")
"""Names that repeat the name of the lane."""


class Detail(NamedTuple):
    """Level of detail of a drawing."""

    buckets: int
    """Bars shorter than the window divided by this number are merged with their neighbours."""
    max_bars: int
    kinds: tuple[str, ...]


WHOLE = Detail(250, 1500, tuple(KINDS))
SMALL = Detail(120, 200, ("agent", "retry", "model", "tool", "memory", "compaction", "stall"))
"""For the overview page."""


class DrawnBar(NamedTuple):
    """A bar with its position, in pixels."""

    x: float
    y: int
    width: float
    css: str
    title: str
    href: str | None
    label: str = ""
    """The name, as far as it fits on the bar."""


class Row(NamedTuple):
    """The lanes of one kind."""

    name: str
    y: int
    height: int


class Drawing(NamedTuple):
    """A lane chart."""

    window: ChartWindow
    bars: list[DrawnBar]
    rows: list[Row]
    ticks: list[Tick]
    marks: list[DrawnBar]
    """Starts of findings."""
    height: int
    joined: bool
    """Whether short bars were merged."""
    width: int = WIDTH
    gutter: int = GUTTER


def draw(data: RunPageData, window: ChartWindow, detail: Detail = WHOLE) -> Drawing:
    """Draw a window of the lane chart of a run."""
    index = data.index()
    lanes = dict(index.lanes()) if index is not None else {}
    least = max(1, (window.end - window.start) // detail.buckets)
    bars = data.bars(window.start, window.end, least, detail.max_bars)
    stalls = list(_stalls(data.diagnosis))
    if stalls:
        lanes["stall"] = 1
        bars += [bar for bar in stalls if bar.end_us >= window.start and bar.start_us <= window.end]
    rows, tops, y = [], {}, TOP
    for kind in detail.kinds:
        if kind in lanes:
            tops[kind] = y
            rows.append(Row(KINDS[kind], y, lanes[kind] * LANE))
            y += lanes[kind] * LANE + GAP
    # Longer bars first: the bars inside them are painted over them.
    shown = sorted((bar for bar in bars if bar.kind in tops), key=lambda bar: bar.start_us - bar.end_us)
    covered = _covered(shown)
    drawn = [_place_bar(data, window, bar, tops[bar.kind], labelled=bar not in covered) for bar in shown]
    joined = any(bar.times > 1 for bar in shown)
    return Drawing(window, drawn, rows, _ticks(window), _marks(data, window), y, joined)


def _covered(bars: list[Bar]) -> set[Bar]:
    """Return the bars that another bar is painted over: their names would be unreadable."""
    lanes: dict[tuple[str, int], list[Bar]] = {}
    for bar in sorted(bars, key=lambda bar: (bar.start_us, -bar.end_us)):
        lanes.setdefault((bar.kind, bar.lane), []).append(bar)
    return {bar for lane in lanes.values() for bar, behind in pairwise(lane) if behind.start_us < bar.end_us}


def _place_bar(data: RunPageData, window: ChartWindow, bar: Bar, top: int, *, labelled: bool) -> DrawnBar:
    x = _x(window, bar.start_us)
    width = max(2.0, round(_x(window, bar.end_us) - x, 2))
    title = f"{KINDS[bar.kind]}: {_bar_name(bar)}, {format_duration((bar.end_us - bar.start_us) / 1000)}"
    return DrawnBar(
        x,
        top + (bar.lane - 1) * LANE,
        width,
        f"bar {bar.kind}" + " failed" * bool(bar.failed),
        title + ", failed" * bool(bar.failed),
        None if bar.event_id is None else data.addresses.event(bar.event_id),
        _shorten(_bar_name(bar), width) if labelled and bar.name not in (KINDS[bar.kind], *_GENERIC_NAMES) else "",
    )


def _bar_name(bar: Bar) -> str:
    if bar.times == 1:
        return bar.name
    return f"{bar.times} short spans" + f", including {bar.name}" * (bar.name != KINDS[bar.kind])


def _shorten(name: str, width: float) -> str:
    """Shorten a name to the width of a bar; empty if the rest would be unreadable."""
    room = int((width - 8) / _CHARACTER)
    if len(name) <= room:
        return name
    return f"{name[: room - 1]}…" if room >= 8 else ""


def _x(window: ChartWindow, moment: int) -> float:
    within = min(max(moment, window.start), window.end) - window.start
    return round(GUTTER + WIDTH * within / (window.end - window.start), 2)


def _ticks(window: ChartWindow) -> list[Tick]:
    """Return round times since the start of the run, few enough to be readable."""
    step = round(round_step(max(1, (window.end - window.start) / MAX_TICKS)))
    first = -(-(window.start - window.first) // step) * step
    moments = range(window.first + first, window.end + 1, step)
    return [Tick(_x(window, at), format_duration((at - window.first) / 1000)) for at in moments]


def _marks(data: RunPageData, window: ChartWindow) -> list[DrawnBar]:
    """Return a mark at the start of each finding."""
    index = data.index()
    if data.diagnosis is None or index is None:
        return []
    marks = []
    for finding in data.diagnosis.failure_analysis.findings[:MAX_MARKS]:
        at = index.moment(finding.first_event)
        if at is not None and window.start <= at <= window.end:
            place = format_place(finding, data.diagnosis)
            title = f"{finding.severity}: {finding.title}" + (f" ({place})" if place else "")
            css = f"mark {finding.severity}"
            marks.append(DrawnBar(_x(window, at), TOP - 18, 2, css, title, data.addresses.finding(finding.id)))
    return marks


def _stalls(diagnosis: Diagnosis | None) -> Iterable[Bar]:
    """Yield the event-loop stalls, which end when they were measured."""
    for stall in diagnosis.timeline.stalls if diagnosis is not None and diagnosis.timeline is not None else ():
        end = ms_from_iso(stall.at)
        if end is not None:
            name = stall.cause or stall.active or "event loop"
            yield Bar("stall", 1, us_of(end - stall.delay_ms), us_of(end), name, False, line_id(stall.line))
