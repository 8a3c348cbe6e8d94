"""Charts as drawings: figures of runs over time, and the sizes of requests.

A chart is as wide as its place: horizontal positions are parts of `WIDTH`, which the page stretches, and vertical ones
are pixels. Texts and strokes are not stretched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from statistics import median
from typing import Any, NamedTuple

from critiqor.dashboard.render.chart_axes import Tick, date_ticks, duration_ticks, number_ticks, value_scale
from critiqor.model.diagnosis import RequestSize
from critiqor.model.formatting import counted, format_duration, format_money, format_number
from critiqor.model.timestamps import iso_from_ms

WIDTH, HEIGHT = 1000, 150
"""Size of the area in which values are drawn."""
COLUMNS = 150
"""Number of columns; runs in the same one are drawn together. On a phone, a column is about two pixels wide."""
PAD = 10
"""Free space before the first point and after the last one."""
MAX_DOTS = 60
"""Maximum number of points that are marked; more would cover the line."""
MAX_SEPARATE_BARS = 120
MAX_NUMBERS = 12
"""Maximum number of requests that are all numbered."""


class Measurement(NamedTuple):
    """A figure of one run."""

    at: float
    """In milliseconds since 1970."""
    value: float | None
    """None if it is unknown."""
    name: str
    href: str
    group: str = ""
    """Whose run it is: a line connects only runs of one group."""


class Unit(NamedTuple):
    """How a figure is written."""

    text: Callable[[float], str]
    ticks: Callable[[float], list[Tick]]
    """Ticks of the axis by the highest value."""


TRUST = Unit(lambda value: f"{value:g}", lambda _: [Tick(part, str(part)) for part in (0, 25, 50, 75, 100)])
COST = Unit(format_money, lambda highest: number_ticks(highest, "$"))
TIME = Unit(format_duration, duration_ticks)


class Point(NamedTuple):
    """A place on a chart that can be read out."""

    x: float
    y: float
    text: str
    href: str | None


class Chart(NamedTuple):
    """A chart; the shapes are paths in SVG syntax and empty if there is nothing to draw."""

    label: str
    """What it shows, for those who do not see it."""
    range: str
    """The time or the number of requests that it covers."""
    note: str
    """What is not drawn one by one; empty if everything is."""
    points: list[Point]
    x_ticks: list[Tick]
    """Positions in percent."""
    y_ticks: list[Tick]
    """Positions in pixels from the top."""
    shapes: dict[str, str]
    """Paths by their CSS class, in the order in which they are drawn."""
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def read_out(self) -> dict[str, list[Any]]:
        """The points for the script of the page."""
        return {
            "x": [round(100 * point.x / WIDTH, 2) for point in self.points],
            "y": [point.y for point in self.points],
            "text": [point.text for point in self.points],
            "href": [point.href for point in self.points],
        }


class _Column(NamedTuple):
    """Measurements that are drawn together."""

    number: int
    x: float
    members: list[tuple[Measurement, float]]

    @property
    def values(self) -> list[float]:
        return [value for _, value in self.members]

    @property
    def middle(self) -> float:
        return median(self.values)


def draw_trend(name: str, unit: Unit, measurements: Sequence[Measurement]) -> Chart | None:
    """Draw a figure over time; None if it is unknown for all runs. The measurements are in order of time."""
    known = [(one, one.value) for one in measurements if one.value is not None]
    if not known:
        return None
    first, last = measurements[0].at, measurements[-1].at
    scale = (WIDTH - 2 * PAD) / (last - first) if last > first else 0.0

    def x(at: float) -> float:
        return round(PAD + (at - first) * scale, 1) if scale else WIDTH / 2

    ticks = unit.ticks(max(value for _, value in known))
    y = value_scale(ticks, HEIGHT)
    columns = _columns(known, x)
    low, high = min(value for _, value in known), max(value for _, value in known)
    is_joined = len(columns) < len(known)
    is_mixed = len({one.group for one, _ in known}) > 1
    line = _line([(column.x, y(column.middle)) for column in columns])
    shapes = {
        "area": "" if is_joined or is_mixed else _area(line, columns),
        "band": _band(columns, y),
        "line": line if len(columns) > 1 and not is_mixed else "",
        "dots": _dots(columns, y) if len(columns) <= MAX_DOTS or is_mixed else "",
    }
    start, end = _format_moment(first)[:10], _format_moment(last)[:10]
    covered = f"{start} UTC" if start == end else f"{start} to {end} UTC"
    summary = f"{name} of {counted(len(known), 'run')}, {covered}"
    return Chart(
        label=f"{summary}: lowest {unit.text(low)}, highest {unit.text(high)}, latest {unit.text(known[-1][1])}.",
        range=covered,
        note=_note(columns, is_joined=is_joined, is_mixed=is_mixed),
        points=[Point(column.x, y(column.middle), *_describe(column, unit)) for column in columns],
        x_ticks=[Tick(x(tick.at) / WIDTH * 100, tick.label) for tick in date_ticks(first, last)] if scale else [],
        y_ticks=[Tick(y(tick.at), tick.label) for tick in ticks],
        shapes=shapes,
    )


def _note(columns: list[_Column], *, is_joined: bool, is_mixed: bool) -> str:
    """Return what is not drawn one by one, and what is not connected."""
    most = max(len(column.members) for column in columns)
    median_by = "Dot" if is_mixed else "Line"
    joined = f"{median_by}: median. Band: lowest to highest of up to {most} runs." if is_joined else ""
    return f"{joined} Runs of different agents are not connected.".strip() if is_mixed else joined


def _columns(known: list[tuple[Measurement, float]], x: Callable[[float], float]) -> list[_Column]:
    columns = []
    for number, group in groupby(known, key=lambda one: int(x(one[0].at) * COLUMNS / WIDTH)):
        members = list(group)
        places = [x(one.at) for one, _ in members]
        columns.append(_Column(number, round(sum(places) / len(places), 1), members))
    return columns


def _describe(column: _Column, unit: Unit) -> tuple[str, str | None]:
    """Return the text of a point, and the address of its run if there is only one."""
    first, last = column.members[0][0], column.members[-1][0]
    if len(column.members) == 1:
        return f"{unit.text(column.middle)}, {first.name}, {_format_moment(first.at)}", first.href
    low, high = unit.text(min(column.values)), unit.text(max(column.values))
    spread = f"median {unit.text(column.middle)}, {low} to {high}" if low != high else low
    start, end = _format_moment(first.at), _format_moment(last.at)
    until = "" if start == end else f" to {end[11:] if start[:10] == end[:10] else end}"
    return f"{spread}, {counted(len(column.members), 'run')}, {start}{until}", None


def _format_moment(at: float) -> str:
    """Return a moment in UTC, to the minute."""
    return iso_from_ms(int(at))[:16].replace("T", " ")


def draw_requests(
    requests: Sequence[RequestSize], compactions: Sequence[int], address: Callable[[str], str | None]
) -> Chart | None:
    """Draw the size of each request as a bar, with the budget as a line and a mark before each compacted request.

    `compactions` has the number of requests before each compaction. None if no size is known.
    """
    sizes = [one.input_tokens for one in requests if one.input_tokens is not None]
    if not sizes:
        return None
    ticks = number_ticks(max([*sizes, *(one.budget_tokens or 0 for one in requests)]) or 1)
    y = value_scale(ticks, HEIGHT)
    slot = WIDTH / len(requests)
    half = slot / 2 * (0.75 if len(requests) <= MAX_SEPARATE_BARS else 1)
    shapes = {"bars": "", "over": "", "budget": "", "compactions": ""}
    points, previous = [], None
    for number, one in enumerate(requests):
        left, center, right = number * slot, (number + 0.5) * slot, (number + 1) * slot
        if one.input_tokens is not None:
            kind = "over" if one.budget_tokens and one.input_tokens > one.budget_tokens else "bars"
            top = min(y(one.input_tokens), HEIGHT - 1)
            shapes[kind] += f"M{center - half:.2f} {HEIGHT}V{top:g}H{center + half:.2f}V{HEIGHT}z"
            points.append(Point(round(center, 1), top, _describe_request(number, one), address(one.event_id)))
        if one.budget_tokens:
            # One line as long as the budget is known, with a step where it changes.
            start = f"V{y(one.budget_tokens):g}" if previous else f"M{left:.2f} {y(one.budget_tokens):g}"
            shapes["budget"] += f"{start}H{right:.2f}"
        previous = one.budget_tokens
    shapes["compactions"] = "".join(f"M{place * slot:.2f} 0V{HEIGHT}" for place in sorted(set(compactions)))
    step = 1 if len(requests) <= MAX_NUMBERS else int(number_ticks(len(requests))[1].at)
    numbers = range(1, len(requests) + 1) if step == 1 else [1, *range(step, len(requests) + 1, step)]
    total, most = counted(len(sizes), "request"), format_number(max(sizes))
    compacted = counted(len(compactions), "compaction")
    return Chart(
        label=f"Input tokens of {total}: largest {most}, last {format_number(sizes[-1])}. {compacted}.",
        range=total,
        note="",
        points=points,
        x_ticks=[Tick((number - 0.5) * slot / WIDTH * 100, format_number(number)) for number in numbers],
        y_ticks=[Tick(y(tick.at), tick.label) for tick in ticks],
        shapes=shapes,
    )


def _describe_request(number: int, one: RequestSize) -> str:
    text = f"Request {number + 1:,}: {counted(one.input_tokens or 0, 'token')}"
    return f"{text}, {one.saturation:.0%} of {format_number(one.budget_tokens)}" if one.saturation is not None else text


def _line(places: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in places)


def _area(line: str, columns: list[_Column]) -> str:
    return f"{line}V{HEIGHT}H{columns[0].x:g}z" if len(columns) > 1 else ""


def _band(columns: list[_Column], y: Callable[[float], float]) -> str:
    """Return a bar from the lowest to the highest value of each column; neighbours touch."""
    width = WIDTH / COLUMNS
    return "".join(
        f"M{column.number * width:.2f} {y(min(column.values)):g}V{y(max(column.values)):g}"
        f"H{(column.number + 1) * width:.2f}V{y(min(column.values)):g}z"
        for column in columns
        if len(column.members) > 1
    )


def _dots(columns: list[_Column], y: Callable[[float], float]) -> str:
    """Return lines of no length: with round ends they are dots that are not stretched."""
    return "".join(f"M{column.x:g} {y(column.middle):g}h0" for column in columns)
