"""Charts of figures by day: a stack of bars for each day, or for several days where there are many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from itertools import groupby
from typing import NamedTuple

from critiqor.dashboard.render.chart_axes import Tick, date_ticks, number_ticks, value_scale
from critiqor.dashboard.render.chart_drawing import HEIGHT, WIDTH, Chart, Point, Unit
from critiqor.model.formatting import format_number

MAX_STACKS = 120
"""Maximum number of stacks; with more days, each is for several of them."""
_EPOCH, _DAY_MS = date(1970, 1, 1).toordinal(), 86_400_000
# At least 5, so that the ticks are whole numbers.
COUNT = Unit(lambda value: format_number(round(value)), lambda highest: number_ticks(max(highest, 5)))


class DayValues(NamedTuple):
    """Figures of one day that are drawn on top of each other."""

    day: str
    values: Mapping[str, float]
    """By their names, which are CSS classes; the first is drawn at the bottom."""


def draw_days(
    name: str, unit: Unit, days: Sequence[DayValues], address: Callable[[str, str], str | None]
) -> Chart | None:
    """Draw the sums of each day as a stack; None if there is nothing to draw. The days are in order of time.

    `address` returns the address of what a stack is about, from its first and its last day.
    """
    if not any(sum(day.values.values()) for day in days):
        return None
    first, last = (date.fromisoformat(days[place].day).toordinal() for place in (0, -1))
    length = -(-(last - first + 1) // MAX_STACKS)
    stacks = [
        (place, list(members))
        for place, members in groupby(days, lambda each: (date.fromisoformat(each.day).toordinal() - first) // length)
    ]
    sums = [{part: sum(day.values.get(part, 0) for day in each) for part in days[0].values} for _, each in stacks]
    ticks = unit.ticks(max(sum(values.values()) for values in sums))
    y, slot = value_scale(ticks, HEIGHT), WIDTH / ((last - first) // length + 1)
    shapes, points = dict.fromkeys(days[0].values, ""), []
    for (place, members), values in zip(stacks, sums, strict=True):
        left, right, below = (place + 0.1) * slot, (place + 0.9) * slot, 0.0
        for part, value in values.items():
            if value:
                shapes[part] += f"M{left:.2f} {y(below):g}V{y(below + value):g}H{right:.2f}V{y(below):g}z"
            below += value
        start, end = members[0].day, members[-1].day
        covered = start if start == end else f"{start} to {end}"
        known = [f"{unit.text(value)} {part}".strip() for part, value in values.items() if value]
        text = f"{covered}: {', '.join(known) if len(values) > 1 else unit.text(below)}"
        points.append(Point(round((place + 0.5) * slot, 1), y(below), text, address(start, end)))
    begin, end_of_days = ((each - _EPOCH) * _DAY_MS for each in (first, last + 1))
    covered = f"{days[0].day} UTC" if first == last else f"{days[0].day} to {days[-1].day} UTC"
    total, most = (unit.text(figure(sum(values.values()) for values in sums)) for figure in (sum, max))
    return Chart(
        label=f"{name}, {covered}: {total} together, at most {most} {'a day' if length == 1 else f'in {length} days'}.",
        range=covered,
        note="" if length == 1 else f"Each bar is for {length} days.",
        points=points,
        x_ticks=[
            Tick((tick.at - begin) / (end_of_days - begin) * 100, tick.label) for tick in date_ticks(begin, end_of_days)
        ]
        if last > first
        else [],
        y_ticks=[Tick(y(tick.at), tick.label) for tick in ticks],
        shapes=shapes,
    )
