"""Charts: axes, points, columns of many runs, requests with budget and compactions."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from critiqor.dashboard.render.chart_axes import MAX_DATES, MAX_STEPS, date_ticks, duration_ticks, number_ticks
from critiqor.dashboard.render.chart_drawing import (
    COLUMNS,
    COST,
    HEIGHT,
    TIME,
    TRUST,
    WIDTH,
    Chart,
    Measurement,
    draw_requests,
    draw_trend,
)
from critiqor.model import ms_from_iso
from critiqor.model.diagnosis import RequestSize

DAY = 86_400_000
START = 1_794_000_000_000


def moment(text: str) -> float:
    at = ms_from_iso(text)
    assert at is not None
    return at


def trend(*values: float | None, step: float = DAY) -> Chart | None:
    runs = [Measurement(START + n * step, value, f"run_{n}", f"/runs/run_{n}") for n, value in enumerate(values)]
    return draw_trend("Trust", TRUST, runs)


def request(tokens: int | None, budget: int | None = 1000, event_id: str = "evt_1") -> RequestSize:
    used = tokens / budget if tokens is not None and budget else None
    return RequestSize(event_id=event_id, input_tokens=tokens, budget_tokens=budget, saturation=used)


@pytest.mark.parametrize(
    ("highest", "labels"),
    [
        (206_000, ["0", "50k", "100k", "150k", "200k", "250k"]),
        (0.37, ["0", "0.1", "0.2", "0.3", "0.4"]),
        (7, ["0", "2", "4", "6", "8"]),
        (0.0003, ["0", "0.0001", "0.0002", "0.0003"]),
        (4_100_000, ["0", "1M", "2M", "3M", "4M", "5M"]),
    ],
)
def test_values_on_an_axis_are_round(highest: float, labels: list[str]) -> None:
    assert [tick.label for tick in number_ticks(highest)] == labels


@pytest.mark.parametrize(
    ("highest", "last"),
    [(37, "40 ms"), (900, "1000 ms"), (4_200, "5 s"), (50_000, "50 s"), (431_000, "8 min"), (20_000_000, "6 h")],
)
def test_durations_on_an_axis_are_round(highest: float, last: str) -> None:
    assert duration_ticks(highest)[-1].label == last


@given(st.floats(1e-6, 1e15))
def test_an_axis_reaches_the_highest_value_with_few_ticks(highest: float) -> None:
    for ticks in (number_ticks(highest), duration_ticks(highest)):
        assert ticks[0].at == 0 and ticks[-1].at >= highest * (1 - 1e-6)
        assert 2 <= len(ticks) <= MAX_STEPS + 2


@pytest.mark.parametrize(
    ("first", "last", "labels"),
    [
        ("2026-11-16T14:03:00Z", "2026-11-16T14:55:00Z", ["14:20", "14:40"]),
        ("2026-11-15T22:00:00Z", "2026-11-16T03:10:00Z", ["22:00", "16 Nov", "02:00"]),
        ("2026-11-01T09:00:00Z", "2026-11-09T09:00:00Z", ["3 Nov", "5 Nov", "7 Nov", "9 Nov"]),
        ("2026-10-14T00:00:00Z", "2026-11-16T00:00:00Z", ["19 Oct", "26 Oct", "2 Nov", "9 Nov", "16 Nov"]),
        ("2025-09-20T00:00:00Z", "2026-10-16T00:00:00Z", ["Oct", "2026", "Apr", "Jul", "Oct"]),
        ("2016-09-20T00:00:00Z", "2026-10-16T00:00:00Z", ["2018", "2020", "2022", "2024", "2026"]),
    ],
)
def test_dates_on_an_axis_are_round(first: str, last: str, labels: list[str]) -> None:
    assert [tick.label for tick in date_ticks(moment(first), moment(last))] == labels


@given(st.integers(0, 4_000_000_000_000), st.integers(1, 400 * 365 * DAY))
def test_an_axis_of_dates_has_few_ticks_within_its_range(first: int, span: int) -> None:
    ticks = date_ticks(first, first + span)
    assert len(ticks) <= MAX_DATES + 1
    assert all(first <= tick.at <= first + span for tick in ticks)


def test_each_run_is_a_point_that_leads_to_it() -> None:
    chart = trend(40, None, 90, 100)
    assert chart is not None
    assert [(point.y, point.href) for point in chart.points] == [
        (90, "/runs/run_0"),
        (15, "/runs/run_2"),
        (0, "/runs/run_3"),
    ]
    assert chart.points[0].text == "40, run_0, 2026-11-06 21:20"
    assert chart.note == "" and chart.shapes["band"] == ""
    assert chart.label == "Trust of 3 runs, 2026-11-06 to 2026-11-09 UTC: lowest 40, highest 100, latest 100."


def test_two_thousand_runs_are_drawn_as_columns_and_the_chart_says_so() -> None:
    chart = trend(*(number % 101 for number in range(2000)), step=DAY / 40)
    assert chart is not None
    assert len(chart.points) <= COLUMNS
    assert chart.note == "Line: median. Band: lowest to highest of up to 14 runs."
    assert re.fullmatch(r"median 3, 0 to 6, 7 runs, 2026-11-06 21:20 to .*", chart.points[0].text)
    assert chart.points[0].href is None
    assert len(max(chart.shapes.values(), key=len)) < 10_000


def test_runs_of_one_moment_are_one_column() -> None:
    chart = trend(10, 30, 80, step=0)
    assert chart is not None
    [point] = chart.points
    assert point.x == WIDTH / 2 and point.text.startswith("median 30, 10 to 80, 3 runs")
    assert chart.x_ticks == [] and chart.shapes["line"] == ""


def test_a_figure_that_no_run_has_is_not_drawn() -> None:
    assert trend(None, None) is None
    assert draw_requests([request(None)], [], lambda _: None) is None


def test_runs_without_cost_and_time_have_an_axis() -> None:
    runs = [Measurement(START + n * DAY, 0, f"run_{n}", "/") for n in range(2)]
    for unit in (COST, TIME):
        chart = draw_trend("Cost", unit, runs)
        assert chart is not None and all(point.y == HEIGHT for point in chart.points)
        assert chart.y_ticks[0].label.strip("$ms ") == "0"


def test_requests_over_the_budget_differ_and_the_budget_is_a_line_with_steps() -> None:
    requests = [request(500), request(1500), request(None), request(400, 2000), request(400, None)]
    chart = draw_requests(requests, [2, 2, 4], lambda event_id: f"/{event_id}")
    assert chart is not None
    assert chart.shapes["bars"].count("z") == 3 and chart.shapes["over"].count("z") == 1
    assert chart.shapes["budget"].count("M") == 1 and chart.shapes["budget"].count("V") == 3
    assert chart.shapes["compactions"] == f"M400.00 0V{HEIGHT}M800.00 0V{HEIGHT}"
    assert [point.text for point in chart.points][1:] == [
        "Request 2: 1,500 tokens, 150% of 1,000",
        "Request 4: 400 tokens, 20% of 2,000",
        "Request 5: 400 tokens",
    ]
    assert chart.points[0].href == "/evt_1"


@given(st.lists(st.tuples(st.none() | st.integers(0, 10**7), st.none() | st.integers(0, 10**6)), max_size=450))
def test_every_list_of_requests_stays_within_the_chart(sizes: list[tuple[int | None, int | None]]) -> None:
    chart = draw_requests([request(*size) for size in sizes], [0, len(sizes)], lambda _: None)
    if chart is None:
        assert all(tokens is None for tokens, _ in sizes)
        return
    assert all(0 <= point.x <= WIDTH and 0 <= point.y <= HEIGHT for point in chart.points)
    assert 1 <= len(chart.x_ticks) <= 12 and all(0 <= tick.at <= 100 for tick in chart.x_ticks)
