"""Drawing primitives: bars, sparklines, lanes, tables, sanitized text."""

from __future__ import annotations

import io
import re
import unicodedata
from pathlib import Path
from typing import Any

import msgspec
import pytest
from diagnosed import finding
from hypothesis import given
from hypothesis import strategies as st
from rich._palettes import EIGHT_BIT_PALETTE
from rich.console import Console, RenderableType
from rich.text import Text
from wcwidth import wcswidth

from critiqor.cli import drawings, terminal
from critiqor.cli.drawings.timeline import turn_lines
from critiqor.cli.terminal.axis import Axis, Interval
from critiqor.cli.terminal.bars import LEVELS, bar, cells, context_growth, sparkline, trust_bar
from critiqor.cli.terminal.lane_chart import build_lanes, chart_lines
from critiqor.cli.terminal.live_table import _table
from critiqor.cli.terminal.screen import COLORS
from critiqor.cli.terminal.styled_text import untrusted
from critiqor.cli.terminal.tables import FittingTable
from critiqor.lab.batch import ScenarioResult
from critiqor.lab.verdict import Seen, Verdict
from critiqor.model import ContextAnalysis, RequestSize, event_id_for
from critiqor.model.timeline import SpanNode, Stall, Turn, TurnSplit
from critiqor.model.trace import Counter, Instant, Part, Slice, Track

SECOND = 1_000_000
TRACK = Track(1, "session main")


def drawn(renderable: RenderableType, width: int) -> list[str]:
    """Print at a width in columns, without colors."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, markup=False, emoji=False).print(renderable)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def slice_(category: Any, start: float, end: float | None, **fields: Any) -> Slice:
    ends = None if end is None else round(end * SECOND)
    named = {"track": TRACK, "name": "x", "category": category, "start_us": round(start * SECOND), "end_us": ends}
    return Slice(**{**named, **fields})


def rows(chart: list[Text]) -> dict[str, str]:
    """Return the columns of each lane by its name; further rows of a lane have a `+` appended."""
    columns: dict[str, str] = {}
    for line in chart:
        name = line.plain[:11].strip() or f"{[*columns][-1]}+"
        columns[name] = line.plain[11:].rstrip()
    return columns


@given(st.floats(0, 1), st.integers(2, 40))
def test_a_bar_is_full_only_for_the_whole_and_empty_only_for_nothing(share: float, width: int) -> None:
    filled = cells(share, width)
    assert bar(share, width).cell_len == width
    assert (filled == width) == (share == 1)
    assert (filled == 0) == (share == 0)


@given(st.lists(st.integers(0, 60), max_size=8), st.integers(4, 30))
def test_a_trust_bar_always_has_the_full_width(points: list[int], width: int) -> None:
    trust = max(0, 100 - sum(points))
    lost = [finding(points=each) for each in points]
    assert trust_bar(trust, lost, width).cell_len == width
    assert trust_bar(trust, lost, width).plain.count("█") == cells(trust / 100, width)


def test_lost_trust_has_the_colors_of_the_findings_that_cost_it() -> None:
    lost = trust_bar(40, [finding(severity="high", points=30), finding(severity="low", points=30)], 20)
    styles = [(span.start, span.end, span.style) for span in lost.spans]
    assert styles == [(0, 8, "red"), (8, 14, "red"), (14, 20, "cyan")]


def test_a_sparkline_is_scaled_to_the_top_and_keeps_every_peak() -> None:
    assert sparkline([0, 50, 100], 10, 100) == f"{LEVELS[0]}{LEVELS[4]}{LEVELS[7]}"
    assert sparkline([1, 2, 3], 10, 100) == LEVELS[0] * 3
    assert sparkline([0, 0], 10) == LEVELS[0] * 2
    assert sparkline([], 10) == ""
    many = [1.0] * 1000
    many[617] = 100.0
    assert len(sparkline(many, 20)) == 20
    assert sparkline(many, 20).count(LEVELS[7]) == 1


def request(tokens: int | None, size: int | None = None) -> RequestSize:
    saturation = None if tokens is None else tokens / 1000
    return RequestSize(event_id="e", input_tokens=tokens, request_bytes=size, budget_tokens=1000, saturation=saturation)


def test_context_growth_is_scaled_to_the_budget() -> None:
    requests = [request(100), request(500), request(990)]
    grown = context_growth(ContextAnalysis(requests=requests, peak_saturation=0.99, compactions=2))
    assert grown is not None
    assert grown.plain == "▁▅█  100 → 990 tokens, at most 99% of 1,000, compacted 2x"


def test_context_growth_is_in_bytes_without_tokens() -> None:
    grown = context_growth(ContextAnalysis(requests=[request(None, 2048), request(None, 4096)]))
    assert grown is not None
    assert grown.plain == "▅█  2,048 → 4,096 bytes"
    assert context_growth(ContextAnalysis(requests=[request(None)])) is None
    assert context_growth(ContextAnalysis()) is None


def test_lanes_show_what_was_active_when() -> None:
    run = [
        slice_("agent", 0, 40),
        slice_("turn", 0, 20),
        slice_("turn", 20, 40),
        slice_("model", 0, 10),
        slice_("tool", 10, 20),
    ]
    chart = rows(chart_lines(build_lanes(run), 51))
    assert chart["agent runs"] == "█" * 40
    assert set(chart["turns"][:20]) == {"█"} and set(chart["turns"][21:]) == {"▓"}
    assert chart["model"] == "█" * 11
    assert chart["tools"] == " " * 10 + "█" * 11
    assert chart["tools+"].endswith(" 40.00 s")
    assert chart["tools++"] == "█ ▓ alternate from one bar to the next"


def test_a_failure_is_never_covered() -> None:
    busy = [slice_("tool", 0.001 * place, 0.001 * place + 0.0005, failed=place == 13) for place in range(2000)]
    chart = chart_lines(build_lanes(busy), 40)
    assert chart[0].plain.count("✗") == 1
    assert "✗ failed" in chart[-1].plain


def test_overlapping_bars_take_up_to_three_rows() -> None:
    apart = {"family": "a"}
    two = [slice_("tool", 0, 10, **apart), slice_("tool", 5, 15, **apart)]
    assert [lane.rows for lane in build_lanes(two)] == [2]
    many = [slice_("tool", place, 50 + place, depth=2) for place in range(20)]
    [lane] = build_lanes(many)
    assert lane.rows == 3
    assert len(chart_lines([lane], 60)) == 5  # and the axis, and what the signs mean


@pytest.mark.parametrize("width", [60, 80, 120])
def test_counts_beside_the_lanes_fit_however_long_they_are(width: int) -> None:
    busy = [slice_("tool", place, place + 0.5, failed=place < 1100) for place in range(1234)]
    chart = chart_lines(build_lanes(busy), width)
    assert chart[0].plain.endswith("  1,234, 1,100 failed")
    assert {line.cell_len for line in chart if line.cell_len > width} == set()


def test_findings_retries_compactions_and_stalls_have_lanes() -> None:
    run: list[Part] = [
        slice_("agent", 0, 4, facts={"attempt": 1}),
        slice_("agent", 4, 10, facts={"attempt": 2}),
        slice_("compaction", 6, 7),
        slice_("memory", 8, 9),
        slice_("span", 0, 90),
        Instant(track=TRACK, name="provider_retry", category="event", at_us=5 * SECOND),
        Instant(track=TRACK, name="input", category="event", at_us=5 * SECOND),
        Counter(pid=1, name="memory", unit="MiB", at_us=0, figures={}),
    ]
    stalls = [Stall(delay_ms=500, at="1970-01-01T00:00:09.000Z", pid=1, line=1, active=None, cause=None, suspects=[])]
    began = finding(first_bad_step=event_id_for(3000, "w", 1))
    lanes = {lane.name: lane for lane in build_lanes(run, [began, finding(first_bad_step="timeline_0000007")], stalls)}
    assert [*lanes] == ["findings", "agent runs", "memory", "compaction", "retries", "stalls"]
    assert [(bar.start_us, bar.style) for bar in lanes["findings"].bars] == [(3 * SECOND, "red")]
    assert [bar.start_us for bar in lanes["retries"].bars] == [4 * SECOND, 5 * SECOND]
    assert (lanes["stalls"].bars[0].start_us, lanes["stalls"].bars[0].end_us) == (8_500_000, 9 * SECOND)


def test_a_run_in_which_nothing_took_time_has_no_chart() -> None:
    assert build_lanes([], [finding(first_bad_step=event_id_for(3000, "w", 1))]) == []
    assert chart_lines([], 80) == []
    assert chart_lines(build_lanes([slice_("tool", 0, 1)]), 5) == []


def test_a_long_idle_time_takes_one_column() -> None:
    run = [slice_("turn", 0, 10), slice_("turn", 7200, 7210), slice_("turn", 7210, 7220)]
    chart = rows(chart_lines(build_lanes(run), 51))
    turns = chart["turns"]
    assert turns.count("┊") == 1
    assert abs(turns.index("┊") - 13) <= 1  # a third of the time before it, two thirds behind it
    assert "┊ idle for up to 120 min" in "".join(chart.values())


intervals = st.lists(
    st.tuples(st.integers(0, 10**9), st.integers(0, 10**7)).map(lambda one: Interval(one[0], one[0] + one[1])),
    max_size=40,
)


@given(intervals, st.integers(1, 200))
def test_columns_are_in_order_of_time_and_inside_the_axis(busy: list[Interval], width: int) -> None:
    axis = Axis(busy, width)
    moments = sorted({moment for interval in busy for moment in interval})
    columns = [axis.column(moment) for moment in moments]
    assert columns == sorted(columns)
    assert all(0 <= column < width for column in columns)
    assert all(0 <= column < width for column in axis.gap_columns())
    assert 0 <= axis.column(-5) <= axis.column(10**12) < width


@given(st.lists(st.floats(0, 1e6), min_size=7, max_size=7), st.integers(10, 200))
def test_the_parts_of_a_turn_fill_the_width(parts: list[float], width: int) -> None:
    names = ("before_provider", "with_provider", "in_tools", "retrying", "between", "after", "unattributed")
    split = msgspec.convert({f"{name}_ms": part for name, part in zip(names, parts, strict=True)}, TurnSplit)
    tree = SpanNode(name="turn", start_ms=0, duration_ms=1, self_ms=0)
    turn = Turn(
        agent_run_id=None,
        pid=None,
        started_at="",
        duration_ms=sum(parts),
        ended=True,
        sources=["recorder"],
        requests=0,
        failed_requests=0,
        split=split,
        tree=tree,
    )
    bar, *legend = turn_lines(turn, width)
    assert bar.cell_len == (width if sum(parts) else 0)
    text = "".join(line.plain for line in legend)
    assert all(
        (f" {label}" in text) == bool(part) for label, part in zip(("before the", "with the"), parts, strict=False)
    )


def test_a_table_that_does_not_fit_becomes_a_list() -> None:
    table = FittingTable(["name", "took", "pid"], [[Text("plugins.load"), Text("12 ms"), Text("4711")]])
    assert drawn(table, 40) == ["name          took   pid", "plugins.load  12 ms  4711"]
    assert drawn(table, 20) == ["plugins.load", "  took 12 ms · pid", "  4711"]


def test_a_text_in_the_last_column_is_wrapped_beside_the_others() -> None:
    words = "one two three four five six seven eight"
    table = FittingTable(["", ""], [[Text("new"), Text(words)]], wrapped=True)
    assert drawn(table, 30) == ["new  one two three four five", "     six seven eight"]


HOSTILE = {
    "escape": "\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "eight bit": "\x9b31m",
    "bidi": "\u202egnp.exe\u202c \u2066x\u2069 \u200f",
    "lines": "one\r\ntwo\x85three\u2028four\x0bfive",
    "unseen": "a\u200bb\ufeffc\u00add\U000e0041",
    "backspace": "safe\b\b\b\bevil",
    "surrogate": "\ud800",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_untrusted_text_has_no_control_characters(text: str) -> None:
    assert untrusted(text).plain.isprintable()


@given(st.text(max_size=300))
def test_untrusted_text_is_one_printable_line_of_well_defined_width(text: str) -> None:
    line = untrusted(text).plain
    assert line.isprintable()
    assert not any(unicodedata.bidirectional(character) in {"LRE", "RLE", "LRO", "RLO"} for character in line)
    assert wcswidth(line) >= 0


def test_wide_characters_keep_their_place_and_emoji_lose_what_terminals_disagree_on() -> None:
    assert untrusted("漢字 ok").plain == "漢字 ok"
    assert untrusted("❤\ufe0f").plain == "❤"
    assert untrusted("a" + "\u0301" * 50).plain == "a\u0301\u0301"


def test_a_megabyte_is_cut_with_an_ellipsis() -> None:
    line = untrusted("x" * (1 << 20)).plain
    assert len(line) == 600 and line.endswith("x…")
    assert untrusted("short").plain == "short"
    assert untrusted("[bold red]not markup[/]").plain == "[bold red]not markup[/]"


def _luminance(number: int) -> float:
    """Return the relative luminance of a color of the 256-color palette, as defined by WCAG."""
    parts = (part / 255 for part in EIGHT_BIT_PALETTE[number])
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("name", COLORS)
def test_every_color_is_readable_on_white_and_on_black(name: str) -> None:
    luminance = _luminance(COLORS[name])
    assert 1.05 / (luminance + 0.05) > 3.9, "on white"
    assert (luminance + 0.05) / 0.05 > 3.9, "on black"


def test_every_style_of_a_drawing_has_such_a_color() -> None:
    folders = [Path(package.__file__ or "").parent for package in (terminal, drawings)]
    sources = "".join(file.read_text("utf-8") for folder in folders for file in folder.glob("*.py"))
    named = re.findall(r'"(?:bold )?((?:bright_)?(?:red|green|yellow|blue|magenta|cyan|white|black)|dim)"', sources)
    assert set(named) <= COLORS.keys()


def _played(name: str, *, passed: bool) -> ScenarioResult:
    seen = Seen(
        primary=None,
        severity=None,
        findings=["tool_loop"] * 4,
        trust=70,
        outcome="completed",
        readiness="unsafe",
        task="unknown",
        headline="",
    )
    verdict = Verdict(scenario=name, on="embedded", passed=passed, missed=[], seen=seen, seconds=12.5)
    return ScenarioResult(
        scenario=name,
        passed=passed,
        plays=[verdict],
        description="",
        expected="repeated_tool_failure",
        same_diagnosis=True,
        timings=[],
    )


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_scenario_table_keeps_verdict_and_numbers_at_any_width(width: int) -> None:
    long = "a_scenario_with_a_name_that_is_long_enough_to_fill_a_terminal"
    shown = {long: _played(long, passed=False), "short": _played("short", passed=True), "now": None}
    title, heads, *lines = drawn(_table("2 of 3", shown), width)
    assert heads.split()[-2:] == ["trust", "seconds"]
    assert [line.split()[0] for line in lines] == ["FAILED", "ok", "running"]
    assert [line.split()[-2:] for line in lines[:2]] == [["70", "12.5"]] * 2
    assert max(map(wcswidth, (title, heads, *lines))) <= width
