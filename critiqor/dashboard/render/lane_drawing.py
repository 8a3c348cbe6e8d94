"""The lane chart of a run as a drawing: bars in lanes for a window of time, session by session if there are several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.dashboard.data.time_chart import KINDS, SESSION_KINDS, Bar, ChartWindow
from critiqor.dashboard.render.chart_axes import Tick, round_step
from critiqor.dashboard.render.formatting import offset
from critiqor.model import Diagnosis, ms_from_iso
from critiqor.model.formatting import counted, format_duration, format_place, format_session
from critiqor.model.timeline import line_id
from critiqor.model.timestamps import us_of

WIDTH, GUTTER, LANE, TOP = 1000, 132, 20, 40
"""Sizes in pixels: width of the time axis, width of the lane names, height of a lane, height of the axis."""
GAP = 8
"""Space between two kinds of lanes in pixels."""
MAX_TICKS = 8
MAX_MARKS = 50
MAX_SESSIONS = 12
"""Maximum number of sessions with lanes of their own, the worst ones."""
MAX_SESSION_LANES = 3
"""Maximum number of lanes of one kind, if sessions have lanes of their own."""
MIN_NAMED = 60
"""Minimum width in pixels of an agent run that is named by its message."""
_DOUBLED = ("turn", "provider")
"""Kinds that say nearly the same as model calls."""
MAX_ROW_NAME = 19
"""Number of characters of a row's name that fit beside the lanes."""
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
    has_sessions: bool = True
    """Whether sessions have lanes of their own if there are several."""
    session: int | None = None
    """The only session that is drawn."""
    has_all: bool = False
    """Whether turns and OpenClaw's own record of requests are drawn beside model calls."""


WHOLE = Detail(250, 1500, tuple(KINDS))
SMALL = Detail(120, 200, ("agent", "retry", "model", "tool", "memory", "compaction", "stall"), has_sessions=False)
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


class LaneMark(NamedTuple):
    """The start of a finding in the chart."""

    x: float
    y: int
    severity: str
    when: str
    """Since the start of the run."""
    text: str
    place: str
    """Session and agent run; empty if there are not several."""
    href: str

    @property
    def title(self) -> str:
        """What a mark on the lanes is, in one line without formatting."""
        return f"{self.severity}: {self.text}" + (f" ({self.place})" if self.place else "")


class Row(NamedTuple):
    """The lanes of one kind, or of one session."""

    name: str
    y: int
    height: int
    href: str | None = None
    title: str = ""
    """The whole name, if only a part of it fits."""


class Drawing(NamedTuple):
    """A lane chart."""

    window: ChartWindow
    bars: list[DrawnBar]
    rows: list[Row]
    ticks: list[Tick]
    marks: list[LaneMark]
    """Starts of findings."""
    height: int
    joined: bool
    """Whether short bars were merged."""
    kinds: dict[str, str]
    """Labels of the kinds of bars, if the rows are not named by them."""
    has_failures: bool = False
    """Whether a bar is one that failed."""
    width: int = WIDTH
    gutter: int = GUTTER


class _Layout:
    """Rows from top to bottom, and where the lanes of each session and kind begin."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.tops: dict[tuple[int, str], tuple[int, int]] = {}
        """The position of the first lane, and the number of lanes."""
        self.height = TOP
        self.has_sessions = False
        """Whether sessions have rows of their own."""

    def add(self, name: str, groups: Mapping[tuple[int, str], int], href: str | None = None) -> None:
        """Add a row with the lanes of some sessions and kinds."""
        start = self.height
        for group, lanes in groups.items():
            self.tops[group] = (self.height, lanes)
            self.height += lanes * LANE
        if self.height > start:
            shown = name if len(name) <= MAX_ROW_NAME else f"…{name[1 - MAX_ROW_NAME :]}"
            self.rows.append(Row(shown, start, self.height - start, href, name if shown != name else ""))
            self.height += GAP


def draw(data: RunPageData, window: ChartWindow, detail: Detail = WHOLE) -> Drawing:
    """Draw a window of the lane chart of a run."""
    index = data.index()
    lanes = index.lanes() if index is not None else {}
    least = max(1, (window.end - window.start) // detail.buckets)
    bars = data.bars(window.start, window.end, least, detail.max_bars)
    stalls = list(_stalls(data.diagnosis))
    if stalls:
        lanes[0, "stall"] = 1
        bars += [bar for bar in stalls if bar.end_us >= window.start and bar.start_us <= window.end]
    if detail.session is not None:
        lanes = {group: count for group, count in lanes.items() if group[0] == detail.session}
    hidden = _DOUBLED if not detail.has_all and any(kind == "model" for _, kind in lanes) else ()
    lanes = {group: count for group, count in lanes.items() if group[1] in detail.kinds and group[1] not in hidden}
    layout = _laid_out(data, detail, lanes)
    # Longer bars first: the bars inside them are painted over them.
    shown = sorted(
        (bar for bar in bars if (bar.session, bar.kind) in layout.tops), key=lambda bar: bar.start_us - bar.end_us
    )
    covered = _covered(shown)
    messages = _messages(data, window, shown)
    drawn = [
        _place_bar(
            data,
            window,
            bar._replace(name=messages.get(bar.message or 0, bar.name)),
            layout,
            labelled=bar not in covered,
        )
        for bar in shown
    ]
    joined = any(bar.times > 1 for bar in shown)
    kinds = {
        kind: KINDS[kind] for kind in SESSION_KINDS if layout.has_sessions and any(kind == bar.kind for bar in shown)
    }
    marks, has_failures = _marks(data, window), any(bar.failed for bar in shown)
    return Drawing(window, drawn, layout.rows, _ticks(window), marks, layout.height, joined, kinds, has_failures)


def _laid_out(data: RunPageData, detail: Detail, lanes: Mapping[tuple[int, str], int]) -> _Layout:
    layout = _Layout()
    names = _session_names(data, {session for session, kind in lanes if session and kind in SESSION_KINDS})
    several = detail.has_sessions and len(names) > 1
    layout.has_sessions = several
    if several:
        layout.add(KINDS["process"], {group: lanes[group] for group in lanes if group[1] == "process"})
        for session, name in list(names.items())[:MAX_SESSIONS]:
            own = {(session, kind): lanes[session, kind] for kind in SESSION_KINDS if (session, kind) in lanes}
            bounded = {group: min(count, MAX_SESSION_LANES) for group, count in own.items()}
            layout.add(format_session(name), bounded, data.addresses.session_part("timeline", name))
        others = list(names)[MAX_SESSIONS:]
        if others:
            layout.add(f"{counted(len(others), 'other session')}", {(others[0], "agent"): 1})
            layout.tops |= {(session, "agent"): layout.tops[others[0], "agent"] for session in others}
    for kind in detail.kinds:
        found = {group: lanes[group] for group in lanes if group[1] == kind and group not in layout.tops}
        if several:
            found = {group: count for group, count in found.items() if not group[0]}
        layout.add(KINDS[kind], found)
    return layout


def _session_names(data: RunPageData, numbers: set[int]) -> dict[int, str | None]:
    """Return the names of sessions as the viewer sees them, the worst session first."""
    choices = data.session_choices()
    names = {each: choices.get(each) for each in numbers}
    ranks = {each.session_key: rank for rank, each in enumerate(data.diagnosis.sessions if data.diagnosis else ())}
    return dict(sorted(names.items(), key=lambda item: (ranks.get(item[1], len(ranks)), item[0])))


def _messages(data: RunPageData, window: ChartWindow, bars: Iterable[Bar]) -> dict[int, str]:
    """Return the messages of the agent runs that are wide enough to be named."""

    def numbers() -> Iterator[int]:
        for bar in bars:
            is_wide = _x(window, bar.end_us) - _x(window, bar.start_us) >= MIN_NAMED
            if bar.message is not None and bar.times == 1 and is_wide:
                yield bar.message

    return data.message_texts(numbers())


def _covered(bars: list[Bar]) -> set[Bar]:
    """Return the bars that another bar is painted over: their names would be unreadable."""
    lanes: dict[tuple[int, str, int], list[Bar]] = {}
    for bar in sorted(bars, key=lambda bar: (bar.start_us, -bar.end_us)):
        lanes.setdefault((bar.session, bar.kind, bar.lane), []).append(bar)
    return {bar for lane in lanes.values() for bar, behind in pairwise(lane) if behind.start_us < bar.end_us}


def _place_bar(data: RunPageData, window: ChartWindow, bar: Bar, layout: _Layout, *, labelled: bool) -> DrawnBar:
    x = _x(window, bar.start_us)
    top, lanes = layout.tops[bar.session, bar.kind]
    width = max(2.0, round(_x(window, bar.end_us) - x, 2))
    title = f"{KINDS[bar.kind]}: {_bar_name(bar)}, {format_duration((bar.end_us - bar.start_us) / 1000)}"
    return DrawnBar(
        x,
        top + (min(bar.lane, lanes) - 1) * LANE,
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


def _marks(data: RunPageData, window: ChartWindow) -> list[LaneMark]:
    """Return a mark at the start of each finding."""
    index = data.index()
    if data.diagnosis is None or index is None:
        return []
    marks = []
    for finding in data.diagnosis.failure_analysis.findings[:MAX_MARKS]:
        at = index.moment(finding.first_event)
        if at is not None and window.start <= at <= window.end:
            marks.append(
                LaneMark(
                    _x(window, at),
                    TOP - 18,
                    finding.severity,
                    offset((at - window.first) / 1000),
                    finding.title,
                    format_place(finding, data.diagnosis),
                    data.addresses.finding(finding.id),
                )
            )
    return marks


def _stalls(diagnosis: Diagnosis | None) -> Iterable[Bar]:
    """Yield the event-loop stalls, which end when they were measured."""
    for stall in diagnosis.timeline.stalls if diagnosis is not None and diagnosis.timeline is not None else ():
        end = ms_from_iso(stall.at)
        if end is not None:
            name = stall.cause or stall.active or "event loop"
            yield Bar("stall", 1, us_of(end - stall.delay_ms), us_of(end), name, False, line_id(stall.line))
