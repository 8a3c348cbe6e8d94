"""A damaged line is counted and named with its number, and all other lines are read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from timelines import Line, data_of, end, line, problems, request, sample, span, summary_of, without_line_numbers

from critiqor.storage.journal import CHUNK_BYTES
from critiqor.timeline import timeline_lines
from critiqor.timeline.reader.lines import MAX_EXAMINED_LINES, MAX_LINE_BYTES

HEAD = '"schemaVersion":"openclaw.diagnostics.v1","timestamp":"2026-11-06T21:20:00.000Z"'


def written(rest: str) -> bytes:
    return f"{{{HEAD},{rest}}}\n".encode()


UNREADABLE = {
    "garbage": (b"this is no record\n", "invalid_json"),
    "binary": (b"\x00\x01\x02\n", "invalid_json"),
    "half a line": (b'{"schemaVersion":"openclaw.diagn\n', "invalid_json"),
    "two objects": (written('"type":"mark","name":"a"')[:-1] + b" {}\n", "invalid_json"),
    "nan": (written('"type":"span.end","name":"a","durationMs":NaN'), "invalid_json"),
    "number beyond floats": (written('"type":"span.end","name":"a","durationMs":1e999'), "number_out_of_range"),
    "invalid utf-8": (b'{"name":"\xff\xfe"}\n', "invalid_utf8"),
    "invalid utf-8 where nobody looks": (
        written('"type":"mark","name":"a","attributes":{"x":"?"}').replace(b"?", b"\xff"),
        "invalid_utf8",
    ),
    "10,000 levels": (
        written('"type":"mark","name":"a","attributes":{"x":' + "[" * 10_000 + "]" * 10_000 + "}"),
        "too_deep",
    ),
    "2 MB": (written('"type":"mark","name":"' + "a" * 2_000_000 + '"'), "too_long"),
    "a list": (b"[1, 2]\n", "not_an_object"),
    "a number": (b"42\n", "not_an_object"),
    "null": (b"null\n", "not_an_object"),
    "another schema": (data_of({**line("mark", "a", 0), "schemaVersion": "openclaw.diagnostics.v2"}), "other_schema"),
    "no schema": (b'{"type":"mark","name":"a","timestamp":"2026-11-06T21:20:00.000Z"}\n', "missing_field"),
    "no type": (written('"name":"a"'), "missing_field"),
    "no name": (written('"type":"mark"'), "missing_field"),
    "no time": (b'{"schemaVersion":"openclaw.diagnostics.v1","type":"mark","name":"a"}\n', "missing_field"),
    "a name that is a number": (written('"type":"mark","name":7'), "wrong_type"),
    "a type that is null": (written('"type":null,"name":"a"'), "wrong_type"),
    "no time at all": (data_of({**line("mark", "a", 0), "timestamp": "yesterday"}), "invalid_timestamp"),
}
AROUND = [*span("a", "1", 0, 40), sample(150, 50, "a"), request("run-a", 1, 60, 7)]


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_line_that_cannot_be_read_is_counted_and_the_rest_is_intact(name: str) -> None:
    bad, kind = UNREADABLE[name]
    summary = summary_of(*AROUND[:2], bad, *AROUND[2:])
    clean = summary_of(*AROUND)
    assert summary.parse_errors == 1
    (problem,) = summary.unreadable
    assert (problem.kind, problem.count, problem.lines) == (kind, 1, [3])
    assert (summary.events, summary.lines) == (clean.events, clean.lines + 1)
    for part in ("span_figures", "stalls", "turns"):
        assert without_line_numbers(getattr(summary, part)) == without_line_numbers(getattr(clean, part))


def test_every_kind_of_damage_is_counted_separately() -> None:
    bad = [data for data, _ in UNREADABLE.values()]
    summary = summary_of(*AROUND, *bad, *AROUND)
    assert summary.parse_errors == len(bad)
    assert {problem.kind for problem in summary.unreadable} == {kind for _, kind in UNREADABLE.values()}
    assert summary.events == 2 * len(AROUND)


def test_only_the_first_lines_of_a_problem_are_named() -> None:
    summary = summary_of(*[b"nonsense\n"] * 40)
    (problem,) = summary.unreadable
    assert (problem.count, problem.lines) == (40, [1, 2, 3, 4, 5])


def test_a_torn_last_line_is_reported_as_torn_tail() -> None:
    whole = data_of(*AROUND)
    summary = summary_of(whole + data_of(line("mark", "a", 99))[:60])
    assert problems(summary) == {"torn_tail": 1}
    assert summary.unreadable[0].lines == [5]
    assert summary.events == len(AROUND)


def test_a_last_line_that_lacks_only_its_line_break_is_whole() -> None:
    summary = summary_of(data_of(*AROUND)[:-1])
    assert (summary.events, summary.parse_errors) == (len(AROUND), 0)


def test_the_line_after_a_torn_line_of_a_killed_process_is_not_lost() -> None:
    torn = data_of(line("mark", "first", 0, pid=1))[:50]
    summary = summary_of(torn + data_of(line("mark", "second", 1, pid=2)))
    assert summary.events_by_type == {"mark": 1}
    assert problems(summary) == {"invalid_json": 1}
    assert [process.pid for process in summary.processes] == [2]


def test_line_numbers_count_empty_lines_as_an_editor_does() -> None:
    summary = summary_of(b"\n\n", data_of(line("mark", "a", 0)), b"   \n", b"nonsense\n")
    assert summary.unreadable[0].lines == [5]
    assert summary.lines == 2


def test_an_unknown_type_is_an_event_of_its_own_kind() -> None:
    summary = summary_of(line("gc.pause", "gc", 0, durationMs=4), line("gc.pause", "gc", 1), line("mark", "a", 2))
    assert summary.events_by_type == {"gc.pause": 2, "mark": 1}
    assert problems(summary) == {"unknown_type gc.pause": 2}
    assert summary.irregular[0].lines == [1, 2]
    assert summary.processes[0].events == 3


def test_an_unknown_field_is_counted_and_the_line_is_used() -> None:
    summary = summary_of(*span("a", "1", 0, 9, cpuMs=3, threadId=7))
    assert problems(summary) == {"unknown_field cpuMs": 2, "unknown_field threadId": 2}
    assert summary.span_figures[0].total_ms == 9


def test_a_field_of_another_type_of_line_is_ignored() -> None:
    summary = summary_of(line("mark", "a", 0, exitCode=3), line("mark", "b", 1, provider="lab"))
    assert (summary.events, problems(summary)) == (2, {})


@pytest.mark.parametrize("value", ["1e999", '"\\ud83d"', "[[[1]]]", "-0"])
def test_whatever_an_unknown_field_holds_its_line_is_used(value: str) -> None:
    summary = summary_of(written(f'"type":"mark","name":"a","load":{value}'), *AROUND)
    assert (summary.events, problems(summary)) == (5, {"unknown_field load": 1})


def test_unknown_fields_next_to_a_damaged_line_are_counted() -> None:
    summary = summary_of(*span("a", "1", 0, 9, cpuMs=3), b"nonsense\n", *span("b", "2", 10, 19, cpuMs=3))
    assert problems(summary) == {"invalid_json": 1, "unknown_field cpuMs": 4}


def test_a_timeline_full_of_unknown_fields_is_read_whole_and_says_that_not_all_of_them_were_counted() -> None:
    count = 8 * MAX_EXAMINED_LINES
    lines = (line("mark", "a", at, **({"cpuMs": 1} if at % 10 == 0 else {})) for at in range(count))
    summary = summary_of(*lines)
    assert (summary.events, summary.parse_errors) == (count, 0)
    (known,) = summary.irregular
    assert known.at_least and MAX_EXAMINED_LINES // 10 <= known.count < count // 10
    assert known.lines == [1, 11, 21, 31, 41]
    report = "\n".join(timeline_lines(summary))
    assert f"irregular: unknown field cpuMs, at least {known.count} times (lines 1, 11, 21, 31, 41, …)" in report


def test_unknown_fields_of_a_short_timeline_are_counted_exactly() -> None:
    summary = summary_of(*(line("mark", "a", at, cpuMs=1) for at in range(1000)))
    (problem,) = summary.irregular
    assert (problem.count, problem.at_least) == (1000, False)


def test_an_unknown_field_that_occurs_once_in_a_long_timeline_is_named_with_its_line() -> None:
    lines = [line("mark", "a", at) for at in range(5000)]
    summary = summary_of(*lines[:4000], {**lines[4000], "rare": True}, *lines[4001:])
    (problem,) = summary.irregular
    assert (problem.what, problem.count, problem.lines) == ("rare", 1, [4001])


def test_unknown_attributes_are_accepted() -> None:
    summary = summary_of(line("mark", "a", 0, attributes={"anything": [1, {"at": "all"}], "stage": None}))
    assert problems(summary) == {}


@pytest.mark.parametrize(
    "field", ["runId", "envName", "pid", "phase", "spanId", "parentSpanId", "durationMs", "attributes"]
)
def test_a_known_field_of_the_wrong_type_costs_only_itself(field: str) -> None:
    summary = summary_of({**line("span.end", "a", 5, spanId="1", durationMs=5), field: [1]})
    assert summary.events == 1
    assert problems(summary)[f"unusable_field {field}"] == 1
    assert summary.parse_errors == 0


def test_attributes_of_the_wrong_type_cost_only_themselves() -> None:
    attributes = {"pluginId": "browser", "dependencyCount": "many", "stage": 3}
    summary = summary_of(*span("runtimeDeps.stage", "1", 0, 9, attributes=attributes))
    assert [(each.plugin_id, each.dependencies) for each in summary.staging] == [("browser", None)]


@pytest.mark.parametrize("duration", [-1, 1e300])
def test_an_impossible_duration_is_replaced_by_what_the_times_say(duration: float) -> None:
    first, last = span("a", "1", 0, 30)
    summary = summary_of(first, {**last, "durationMs": duration})
    assert problems(summary) == {"unusable_field durationMs": 1}
    assert summary.span_figures[0].total_ms == 30
    assert summary_of(end("a", "1", 30, duration)).span_figures == []


def test_a_time_without_a_zone_is_taken_as_utc() -> None:
    summary = summary_of({**line("mark", "a", 0), "timestamp": "2026-11-06T21:20:00.000"})
    assert (summary.parse_errors, summary.first_at) == (0, "2026-11-06T21:20:00.000Z")


def test_a_text_that_was_cut_within_a_character_does_not_cost_its_line() -> None:
    whole = line("span.error", "a", 9, spanId="1", durationMs=9, errorName="Error", errorMessage="cut here \ud83d")
    summary = summary_of(json.dumps(whole).encode() + b"\n")
    assert (summary.events, summary.parse_errors) == (1, 0)
    assert summary.span_figures[0].failed == 1


def test_a_very_long_name_is_cut() -> None:
    summary = summary_of(*span("n" * 5000, "i" * 5000, 0, 9))
    assert (summary.parse_errors, problems(summary)) == (0, {})
    assert len(summary.span_figures[0].name) == 256


def test_a_line_is_too_long_wherever_the_blocks_are_cut() -> None:
    long = written('"type":"mark","name":"' + "a" * MAX_LINE_BYTES + '"')
    assert problems(summary_of(data_of(*AROUND), long, data_of(*AROUND))) == {"too_long": 1, "out_of_order": 1}


@pytest.mark.parametrize("after", [b"", b"\n", data_of(*AROUND)])
@pytest.mark.parametrize("before", [b"", data_of(*AROUND)])
@pytest.mark.parametrize(
    "length", [MAX_LINE_BYTES - 40, MAX_LINE_BYTES, 17 * CHUNK_BYTES, 18 * CHUNK_BYTES + 1, 3_000_000]
)
def test_a_line_of_any_length_costs_no_other_line(length: int, before: bytes, after: bytes) -> None:
    around = before + after
    long = written('"type":"mark","name":"long","padding":""')
    long = long.replace(b'""', b'"' + b"x" * (length - len(long)) + b'"')
    summary, clean = summary_of(before, long, after), summary_of(around)
    read = length <= MAX_LINE_BYTES
    assert (summary.events, summary.parse_errors) == (clean.events + read, 0 if read else 1)
    assert summary.lines == clean.lines + 1


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        *("schemaVersion", "type", "timestamp", "name", "pid", "runId", "spanId", "parentSpanId", "durationMs"),
        *("attributes", "maxMs", "ok", "exitCode", "command", "activeSpanName", "phase", "other"),
    ]
)


@given(st.sampled_from(AROUND), st.dictionaries(FIELDS, VALUES, max_size=4))
def test_whatever_a_field_holds_reading_goes_on(base: Line, changes: dict[str, Any]) -> None:
    summary = summary_of(*AROUND, json.dumps({**base, **changes}).encode() + b"\n", *AROUND)
    assert summary.lines == 2 * len(AROUND) + 1
    assert summary.events + summary.parse_errors == summary.lines
    assert summary.events >= 2 * len(AROUND)


@given(st.lists(st.binary(max_size=40) | st.sampled_from([data_of(each) for each in AROUND]), max_size=12))
def test_whatever_bytes_there_are_the_whole_lines_among_them_are_read(pieces: list[bytes]) -> None:
    data = b"\n".join(piece.rstrip(b"\n") for piece in pieces)
    summary = summary_of(data)
    known = {data_of(each).rstrip(b"\n") for each in AROUND}
    assert summary.events >= sum(each in known for each in data.split(b"\n"))
    assert summary.bytes == len(data)


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
def test_times_at_the_ends_of_the_calendar_are_read(day: str) -> None:
    lines: list[Line] = [
        line("mark", "gateway.ready", 0, durationMs=1e10),
        end("agent.turn", "1", 0, 1e11),
        request("run-a", 1, 0, 1e11),
        sample(1e11, 0),
        *span("config.load", "2", 0, 0),
    ]
    summary = summary_of(*({**each, "timestamp": f"{day}T23:59:59.999Z"} for each in lines))
    assert (summary.events, summary.parse_errors) == (len(lines), 0)
