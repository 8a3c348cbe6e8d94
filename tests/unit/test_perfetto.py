"""A run as trace events: every part is in the file once, and slices of one thread are nested or apart."""

from __future__ import annotations

from collections import Counter as Count
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Fields, attached, recorded
from timelines import START, Line, data_of, end, line, real_events, real_timeline, request, sample, span, start
from trace_events import TraceFile, checked

from critiqor.exporters import perfetto
from critiqor.exporters.trace.activity import activity
from critiqor.exporters.trace.lanes import GRAIN_US, NESTING_LANES, Placed, lay_out
from critiqor.model import Event, EventType, iso_from_ms
from critiqor.model.sanitize import sanitize
from critiqor.model.trace import Counter, Instant, Part, Slice, Trace, TraceProcess, Track
from critiqor.timeline.reader.trace_stream import REQUESTS, SPANS, read_trace_parts

TRACK = Track(1, "work")
REAL = ["2026.6.1-gateway", "2026.9.6-chat", "2026.9.6-gateway-chat", "2026.9.6-killed", "2026.9.6-retry"]


def slice_of(start_us: int, end_us: int | None, **fields: Any) -> Slice:
    return Slice(**{"track": TRACK, "name": "s", "category": "span", "start_us": start_us, "end_us": end_us, **fields})


def trace_of(*parts: Part, notes: list[str] | None = None) -> Trace:
    trace = Trace(run_id="run_001", processes=[], notes=notes or [])
    for part in parts:
        {Slice: trace.slices, Instant: trace.instants, Counter: trace.counters}[type(part)].append(part)  # type: ignore[attr-defined]
    pids = dict.fromkeys([None, *(part.pid if isinstance(part, Counter) else part.track.pid for part in parts)])
    trace.processes = [TraceProcess(pid, "OpenClaw") for pid in pids]
    return trace


def file_of(trace: Trace) -> TraceFile:
    return checked(b"".join(perfetto.report(trace)))


def parts_of(*lines: Line | bytes, folder: Path) -> list[Part]:
    path = folder / "timeline.jsonl"
    path.write_bytes(data_of(*lines))
    return list(read_trace_parts(path))


def seen(*records: dict[str, Any]) -> list[Part]:
    """Return the trace parts of a recorder's records; each is one millisecond later, unless it has a time."""
    names = {"tool_result": EventType.TOOL_OUTPUT, "after_provider_response": EventType.TOKEN_USAGE}
    events = [msgspec.convert(record, Event) for record in records]
    return list(
        activity(
            msgspec.structs.replace(event, event_type=names.get(event.event_type, event.event_type)) for event in events
        )
    )


def at(milliseconds: int) -> int:
    return START + milliseconds


def bounds(part: Part) -> tuple[float, float | None]:
    """When a slice was, in milliseconds after the beginning."""
    assert isinstance(part, Slice)
    last = None if part.end_us is None else part.end_us / 1000 - START
    return part.start_us / 1000 - START, last


def slices_of(parts: list[Part], category: str) -> list[Slice]:
    return [part for part in parts if isinstance(part, Slice) and part.category == category]


# Lanes


def shown(placed: list[Placed]) -> list[tuple[int, int, int]]:
    return [(each.lane, each.start_us, each.end_us) for each in placed]


def test_slices_inside_and_after_each_other_share_a_lane() -> None:
    inner, outer, later = slice_of(2000, 5000), slice_of(0, 9000), slice_of(9000, 12000)
    assert shown(lay_out([inner, outer, later], 12000)) == [(1, 0, 9000), (1, 2000, 5000), (1, 9000, 12000)]


def test_overlapping_slices_go_to_the_first_lane_with_room() -> None:
    slices = [slice_of(0, 9000), slice_of(5000, 14000), slice_of(7000, 20000), slice_of(10000, 30000)]
    assert [each.lane for each in lay_out(slices, 30000)] == [1, 2, 3, 1]


def test_overlaps_within_clock_resolution_are_cut_and_larger_ones_get_another_lane() -> None:
    inside_out = lay_out([slice_of(0, 9000), slice_of(5000, 9000 + GRAIN_US)], 0)
    assert shown(inside_out) == [(1, 0, 9000), (1, 5000, 9000)]
    too_early = lay_out([slice_of(4900, 7000), slice_of(5000, 90000)], 0)
    assert shown(too_early) == [(1, 5000, 90000), (1, 5000, 7000)]
    next_one = lay_out([slice_of(0, 5300), slice_of(5000, 90000)], 0)
    assert shown(next_one) == [(1, 0, 5000), (1, 5000, 90000)]
    too_much = lay_out([slice_of(0, 9000), slice_of(5000, 9001 + GRAIN_US)], 0)
    assert [each.lane for each in too_much] == [1, 2]


def test_calls_of_the_same_depth_are_beside_each_other_even_if_one_took_longer() -> None:
    slices = [slice_of(0, 9000, depth=2), slice_of(1500, 5000, depth=2), slice_of(1500, 4000, depth=3)]
    assert [each.lane for each in lay_out(slices, 0)] == [1, 2, 1]


def test_slices_of_different_families_are_never_nested() -> None:
    slices = [slice_of(0, 9000, family="a"), slice_of(2000, 5000, family="b"), slice_of(3000, 4000, family="b")]
    assert [each.lane for each in lay_out(slices, 0)] == [1, 2, 2]


def test_of_two_slices_with_the_same_bounds_the_last_one_to_end_is_the_outer_one() -> None:
    inner, outer = slice_of(0, 9000, name="inner"), slice_of(0, 9000, name="outer")
    assert [each.slice.name for each in lay_out([inner, outer], 0)] == ["outer", "inner"]


def test_slices_without_an_end_last_to_the_end_of_the_trace() -> None:
    assert shown(lay_out([slice_of(3000, None), slice_of(0, None)], 7000)) == [(1, 0, 7000), (1, 3000, 7000)]


def test_a_thousand_slices_that_all_overlap_get_lanes_of_their_own() -> None:
    placed = lay_out([slice_of(number * 2000, 4_000_000 + number * 2000) for number in range(1000)], 0)
    assert [each.lane for each in placed] == list(range(1, 1001))


def test_further_lanes_are_used_again_once_they_are_free() -> None:
    """All of one depth, so that none can be inside another one."""
    long_ones = [slice_of(number, 10**9, depth=1) for number in range(NESTING_LANES)]
    short_ones = [slice_of(begin, begin + 6000, depth=1) for begin in (10_000, 12_000, 16_000)]
    placed = lay_out([*long_ones, *short_ones], 0)
    assert [each.lane for each in placed[NESTING_LANES:]] == [65, 66, 65]


MOMENTS = st.integers(0, 12_000) | st.integers(0, 40).map(lambda number: number * 500)
SLICES = st.builds(
    lambda begin, took, depth, family, is_open: slice_of(
        begin, None if is_open else begin + took, depth=depth, family=family
    ),
    MOMENTS,
    MOMENTS,
    st.none() | st.integers(0, 3),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([False] * 9 + [True]),
)


@given(st.lists(SLICES, max_size=40))
def test_in_every_lane_slices_are_inside_each_other_or_apart(slices: list[Slice]) -> None:
    placed = lay_out(slices, 30_000)
    assert Count(id(each.slice) for each in placed) == Count(map(id, slices))
    assert {each.lane for each in placed} == set(range(1, max((each.lane for each in placed), default=0) + 1))
    for number, one in enumerate(placed):
        assert one.start_us <= one.end_us
        expected_end = 30_000 if one.slice.end_us is None else one.slice.end_us
        assert 0 <= one.start_us - one.slice.start_us <= GRAIN_US
        assert 0 <= max(expected_end, one.slice.start_us) - one.end_us <= 2 * GRAIN_US
        for other in placed[number + 1 :]:
            assert other.start_us >= one.start_us
            if other.lane == one.lane and other.start_us < one.end_us:
                assert other.end_us <= one.end_us
                if one.slice.family and other.slice.family:
                    assert one.slice.family == other.slice.family


@given(st.lists(SLICES, max_size=20))
def test_the_same_slices_always_get_the_same_lanes(slices: list[Slice]) -> None:
    assert shown(lay_out(slices, 30_000)) == shown(lay_out(list(slices), 30_000))


# The file

TEXTS = st.text(max_size=8) | st.sampled_from(["😀…", "\ud83d", '"\\', "\x00\x1b[2J\x9b", "x" * 1000, "\u2028\u202e"])
FACTS = st.dictionaries(st.sampled_from(["a", "b"]), TEXTS | st.integers() | st.floats(-1e9, 1e9) | st.booleans())
TRACKS = st.builds(Track, st.sampled_from([None, 1, 2, 7, -1, 0, 1 << 40]), TEXTS)
PARTS = (
    st.builds(
        lambda slice_, track, name, facts, failed: msgspec.structs.replace(
            slice_, track=track, name=name, facts=facts, failed=failed
        ),
        SLICES,
        TRACKS,
        TEXTS,
        FACTS,
        st.booleans(),
    )
    | st.builds(Instant, track=TRACKS, name=TEXTS, category=st.just("mark"), at_us=MOMENTS, facts=FACTS)
    | st.builds(
        Counter,
        pid=st.sampled_from([None, 1, 7]),
        name=st.just("delay"),
        unit=st.just("ms"),
        at_us=MOMENTS,
        figures=st.dictionaries(st.sampled_from(["", "max"]), st.floats(0, 1e6)),
    )
)


@given(st.lists(PARTS, max_size=25), st.lists(TEXTS, max_size=2))
def test_every_file_is_valid_and_contains_every_part_once(parts: list[Part], notes: list[str]) -> None:
    file = file_of(trace_of(*parts, notes=notes))
    slices = [part for part in parts if isinstance(part, Slice)]
    assert Count(event["cat"] for event in file.of("X")) == Count(part.category for part in slices)
    assert sum("failed" in event["args"] for event in file.of("X")) == sum(part.failed for part in slices)
    assert len(file.of("i")) == sum(isinstance(part, Instant) for part in parts)
    assert len(file.of("C")) == sum(len(part.figures) for part in parts if isinstance(part, Counter))


def test_times_are_relative_to_the_first_millisecond_which_the_file_names() -> None:
    begin = START * 1000
    mark = Instant(track=TRACK, name="m", category="mark", at_us=begin + 30)
    file = file_of(trace_of(slice_of(begin + 500, begin + 1750), mark))
    assert [(event["ts"], event["dur"]) for event in file.of("X")] == [(500, 1250)]
    assert [event["ts"] for event in file.of("i")] == [30]
    assert file.document["otherData"]["started_at"] == iso_from_ms(START)


def test_further_lanes_are_named_threads_of_the_same_process() -> None:
    file = file_of(trace_of(slice_of(0, 9000), slice_of(5000, 14000), slice_of(0, 9, track=Track(7, "work"))))
    assert sorted(file.threads.values()) == ["work", "work", "work, lane 2"]
    assert {event["pid"] for event in file.of("X")} == {1, 7}


def test_unfinished_slices_are_marked() -> None:
    file = file_of(trace_of(slice_of(0, None, finished=False), slice_of(0, 9000)))
    assert sorted((event["dur"], "unfinished" in event["args"]) for event in file.of("X")) == [
        (9000, False),
        (9000, True),
    ]


def test_processes_without_a_usable_pid_get_one_that_is_free() -> None:
    tracks = [Track(pid, "t") for pid in (1, 2, None, -5, 1 << 40)]
    file = file_of(trace_of(*(slice_of(0, 10, track=track) for track in tracks)))
    assert len(file.processes) == 5
    assert {1, 2} < file.processes.keys()


def test_names_are_bounded_and_have_no_control_characters() -> None:
    file = file_of(trace_of(slice_of(0, 1, name="😀\ud83d\x1b[2J" + "x" * 1000)))
    [event] = file.of("X")
    assert event["name"].startswith("😀 [2Jx")
    assert len(event["name"]) == 256


def test_a_backslash_at_the_end_of_a_name_does_not_damage_the_file() -> None:
    file = file_of(trace_of(slice_of(0, 1, name="C:\\dir\\", facts={"path": '"\\'}), notes=["\\"]))
    [event] = file.of("X")
    looks_like_it = perfetto.BACKSLASH
    assert event["name"] == f"C:{looks_like_it}dir{looks_like_it}"
    assert event["args"]["path"] == f'"{looks_like_it}'


def test_an_empty_trace_is_a_file_without_events() -> None:
    assert file_of(Trace(run_id="run_001", processes=[])).events == []


# The timeline


def test_the_start_of_a_span_is_its_end_minus_its_duration(tmp_path: Path) -> None:
    lines = [start("load", "1", 900), end("load", "1", 900, 250.5, attributes={"stage": "deep"})]
    [part] = parts_of(*lines, folder=tmp_path)
    assert bounds(part) == (649.5, 900)
    assert isinstance(part, Slice)
    assert (part.name, part.track, part.facts["span_id"]) == ("load (deep)", Track(1, SPANS), "1")


def test_a_request_begins_at_its_time(tmp_path: Path) -> None:
    [part] = parts_of(request("agent-1", 1, 500, 80, ok=False, attributes={"model": "m"}), folder=tmp_path)
    assert bounds(part) == (500, 580)
    assert isinstance(part, Slice)
    assert (part.track, part.category, part.failed) == (Track(1, REQUESTS), "provider", True)


def test_short_spans_that_ended_in_one_millisecond_follow_each_other_inside_their_parent(tmp_path: Path) -> None:
    parent = {"parentSpanId": "p"}
    lines = [start("p", "p", 10)]
    for name in "abc":
        lines += [start(name, name, 12, **parent), end(name, name, 12, 0.2, **parent)]
    lines += [end("p", "p", 12, 2.1)]
    file = file_of(trace_of(*parts_of(*lines, folder=tmp_path)))
    outer, *inner = file.on(SPANS)
    assert [event["name"] for event in (outer, *inner)] == ["p", "a", "b", "c"]
    for one, other in pairwise(inner):
        assert one["ts"] + one["dur"] <= other["ts"]


def test_delays_of_the_event_loop_are_counters_of_their_process(tmp_path: Path) -> None:
    parts = parts_of(sample(42.5, 10, pid=7, p99Ms=40), folder=tmp_path)
    file = file_of(trace_of(*parts))
    assert {(event["name"], event["args"]["ms"], event["pid"]) for event in file.of("C")} == {
        ("event loop delay max", 42.5, 7),
        ("event loop delay p99", 40, 7),
    }


def test_open_spans_come_last_and_repeated_starts_end_the_one_before(tmp_path: Path) -> None:
    parts = parts_of(start("a", "1", 0), start("b", "2", 5), start("a", "1", 9), folder=tmp_path)
    assert [(bounds(part), isinstance(part, Slice) and part.finished) for part in parts] == [
        ((0, 9), False),
        ((5, None), False),
        ((9, None), False),
    ]


def test_a_child_process_is_named_by_its_program_without_arguments(tmp_path: Path) -> None:
    child = line("childProcess.exit", "childProcess.exit", 900, durationMs=340, command="/x/mcp --token s", exitCode=1)
    [part] = parts_of(child, folder=tmp_path)
    assert bounds(part) == (560, 900)
    assert isinstance(part, Slice)
    assert (part.name, part.failed, part.facts) == ("mcp", True, {"exit_code": 1})


@pytest.mark.parametrize("took", [-5, 1e300, None])
def test_an_impossible_duration_is_replaced_by_the_time_since_the_start(took: float | None, tmp_path: Path) -> None:
    [part] = parts_of(start("a", "1", 100), end("a", "1", 130, took), folder=tmp_path)
    assert bounds(part) == (100, 130)


@pytest.mark.parametrize("took", [-5, 1e300])
def test_a_request_with_an_impossible_duration_gets_none(took: float, tmp_path: Path) -> None:
    [part] = parts_of(request("agent-1", 1, 500, took), folder=tmp_path)
    assert bounds(part) == (500, 500)


def test_timestamps_far_in_the_past_or_future_do_not_overflow(tmp_path: Path) -> None:
    lines = [{**start("a", "1", 0), "timestamp": "0001-01-01T00:00:00Z"}, end("b", "2", 10, 5.0)]
    lines += [{**end("c", "3", 0, 5.0), "timestamp": "9999-01-01T00:00:00Z"}]
    assert len(file_of(trace_of(*parts_of(*lines, folder=tmp_path))).of("X")) == 3


def test_error_messages_are_not_exported(tmp_path: Path) -> None:
    failed = line("span.error", "a", 10, spanId="1", durationMs=5, errorName="TypeError", errorMessage="my secret")
    [part] = parts_of(failed, folder=tmp_path)
    assert isinstance(part, Slice)
    assert (part.failed, part.facts["error"]) == (True, "TypeError")
    assert "secret" not in str(part)


def test_only_the_first_bytes_of_a_timeline_are_read_if_there_is_a_limit(tmp_path: Path) -> None:
    first = data_of(*span("a", "1", 0, 5))
    path = tmp_path / "timeline.jsonl"
    path.write_bytes(first + data_of(*span("b", "2", 5, 9)))
    assert [part.name for part in read_trace_parts(path, len(first))] == ["a"]


# Events of the recorder


def test_runs_turns_calls_and_tools_are_inside_each_other() -> None:
    tool: Fields = {"tool_name": "exec", "tool_call_id": "c1"}
    model: Fields = {"payload": {"provider": "lab", "model": "m", "callId": "run-1:model:1"}}
    parts = seen(
        attached(at=at(0)),
        recorded(2, "agent_start", at=at(10)),
        recorded(3, "turn_start", at=at(20), payload={"turn": 1}),
        recorded(4, "before_provider_request", at=at(20), **model),
        recorded(5, "after_provider_response", at=at(80), duration_ms=63, **model),
        recorded(6, "tool_call", at=at(85), **tool, payload={"arguments": {"command": "cat secret"}}),
        recorded(7, "tool_result", at=at(95), duration_ms=12, **tool, payload={"result": "secret", "exit_code": 3}),
        recorded(8, "turn_end", at=at(95), payload={"turn": 1}),
        recorded(9, "agent_end", at=at(100), duration_ms=95),
    )
    file = file_of(trace_of(*parts))
    slices = [(event["name"], event["ts"] / 1000, event["dur"] / 1000) for event in file.on("session agent:main:main")]
    # The request and the turn began before they were reported; the tool did not begin before the response.
    assert slices == [("agent run", 5, 95), ("turn 1", 17, 78), ("lab/m", 17, 63), ("exec", 83, 12)]
    assert file.processes[4711]
    assert "secret" not in str(file.document)
    [exec_event] = file.slices("tool")
    assert exec_event["args"]["exit_code"] == 3
    assert exec_event["args"]["tool_call_id"] == "c1"


def test_a_tool_did_not_begin_before_the_response_that_asked_for_it() -> None:
    parts = seen(
        recorded(1, "before_provider_request", at=at(0)),
        recorded(2, "after_provider_response", at=at(50), duration_ms=50),
        recorded(3, "tool_call", at=at(53), tool_name="exec", tool_call_id="c"),
        recorded(4, "tool_result", at=at(100), tool_name="exec", tool_call_id="c", duration_ms=56),
    )
    [tool] = slices_of(parts, "tool")
    assert bounds(tool) == (50, 100)


def test_tools_at_the_same_time_are_on_two_lanes() -> None:
    parts = seen(
        *(recorded(n, "tool_call", at=at(n * 5), tool_name="read", tool_call_id=f"c{n}") for n in (1, 2)),
        recorded(3, "tool_result", at=at(20), tool_name="read", tool_call_id="c2"),
        recorded(4, "tool_result", at=at(30), tool_name="read", tool_call_id="c1"),
    )
    file = file_of(trace_of(*parts))
    assert sorted(file.threads.values()) == ["session agent:main:main", "session agent:main:main, lane 2"]


def test_ids_that_repeat_belong_to_calls_in_their_order() -> None:
    call = {"tool_name": "exec", "tool_call_id": "call_0"}
    parts = seen(
        recorded(1, "tool_call", at=at(0), **call),
        recorded(2, "tool_result", at=at(10), **call),
        recorded(3, "tool_call", at=at(20), **call),
        recorded(4, "tool_result", at=at(40), **call),
    )
    assert [bounds(part) for part in parts] == [(0, 10), (20, 40)]
    both = seen(*(recorded(n, "tool_call", at=at(n), **call) for n in (0, 5)), *(
        recorded(n, "tool_result", at=at(n), **call) for n in (10, 40)
    ))  # fmt: skip
    assert [bounds(part) for part in both] == [(0, 10), (5, 40)]


def test_a_response_without_an_id_belongs_to_the_oldest_request() -> None:
    parts = seen(
        *(recorded(n, "before_provider_request", at=at(n), payload={"callId": f"x:{n}"}) for n in (1, 5)),
        recorded(6, "after_provider_response", at=at(10), payload={"callId": "x:5"}),
        recorded(7, "after_provider_response", at=at(30)),
    )
    assert [bounds(part) for part in parts] == [(5, 10), (1, 30)]


def test_attempts_and_turns_without_recorded_ends_end_where_the_next_one_begins() -> None:
    parts = seen(
        recorded(1, "agent_start", at=at(0)),
        recorded(2, "turn_start", at=at(5)),
        recorded(3, "turn_start", at=at(15)),
        recorded(4, "agent_start", at=at(20), payload={"attempt": 2}),
        recorded(5, "turn_start", at=at(25)),
        recorded(6, "agent_end", at=at(50), duration_ms=45, payload={"attempt": 2}),
    )
    assert [(part.category, bounds(part), part.finished) for part in parts if isinstance(part, Slice)] == [
        ("turn", (5, 15), False),
        ("turn", (15, 20), False),
        ("agent", (0, 20), False),
        ("turn", (25, 50), False),
        ("agent", (20, 50), True),
    ]


def test_calls_without_recorded_ends_last_to_the_end_of_their_run_or_of_the_trace() -> None:
    parts = seen(
        recorded(1, "agent_start", at=at(0)),
        recorded(2, "tool_call", at=at(5), tool_name="a", tool_call_id="1"),
        recorded(3, "agent_end", at=at(10)),
        recorded(4, "agent_start", at=at(20), agent_run_id="run-2"),
        recorded(5, "before_provider_request", at=at(21), agent_run_id="run-2"),
        recorded(6, "agent_start", at=at(30), agent_run_id="run-3"),
        recorded(7, "tool_call", at=at(35), tool_name="b", tool_call_id="1", agent_run_id="run-3"),
        recorded(8, "tool_call", at=at(36), tool_name="late", tool_call_id="2"),
    )
    unfinished = {part.name: bounds(part) for part in parts if isinstance(part, Slice) and not part.finished}
    assert {name: unfinished[name] for name in ("a", "model call")} == {"a": (5, 10), "model call": (21, 30)}
    assert {name: unfinished[name] for name in ("agent run", "b", "late")} == {
        "agent run": (30, None),
        "b": (35, None),
        "late": (36, None),
    }
    assert all(event["args"]["unfinished"] for event in file_of(trace_of(*parts)).slices("tool"))


def test_a_result_without_its_call_has_its_reported_duration() -> None:
    [part] = seen(recorded(1, "tool_result", at=at(50), tool_name="exec", tool_call_id="x", duration_ms=20))
    assert bounds(part) == (30, 50)
    assert isinstance(part, Slice)
    assert part.facts["beginning_seen"] is False


def test_attempts_retries_compactions_and_lookups_are_exported() -> None:
    memory = {"tool_name": "memory_search", "tool_call_id": "m1"}
    parts = seen(
        recorded(1, "agent_start", at=at(0), payload={"attempt": 1}),
        recorded(2, "agent_end", at=at(10), status="error", payload={"attempt": 1}),
        recorded(3, "provider_retry", at=at(12), payload={"delayMs": 1389, "message": "secret words"}),
        recorded(4, "agent_start", at=at(20), payload={"attempt": 2}),
        recorded(5, "compaction_start", at=at(21)),
        recorded(6, "compaction_end", at=at(25), payload={"compactedCount": 4}),
        recorded(7, "tool_call", at=at(30), **memory),
        recorded(8, "memory_event", at=at(30), **memory, payload={"lookup": "pending", "query": "secret"}),
        recorded(9, "tool_result", at=at(40), **memory),
        recorded(10, "memory_event", at=at(41), **memory, payload={"lookup": "found", "query": "secret"}),
        recorded(11, "agent_end", at=at(50), payload={"attempt": 2}),
    )
    file = file_of(trace_of(*parts))
    names = [event["name"] for event in file.on("session agent:main:main")]
    assert names == ["agent run", "agent run, attempt 2", "compaction", "memory_search", "memory lookup"]
    assert [event["args"]["delay_ms"] for event in file.of("i")] == [1389]
    assert file.slices("memory")[0]["args"]["lookup"] == "found"
    assert "secret" not in str(file.document)


def test_agent_runs_of_one_session_that_overlap_do_not_mix() -> None:
    parts = seen(
        recorded(1, "agent_start", at=at(0), agent_run_id="outer"),
        recorded(2, "agent_start", at=at(10), agent_run_id="inner"),
        recorded(3, "tool_call", at=at(20), tool_name="t", tool_call_id="1", agent_run_id="inner"),
        recorded(4, "tool_result", at=at(30), tool_name="t", tool_call_id="1", agent_run_id="inner"),
        recorded(5, "agent_end", at=at(40), agent_run_id="inner"),
        recorded(6, "agent_end", at=at(60), agent_run_id="outer"),
    )
    file = file_of(trace_of(*parts))
    assert [event["name"] for event in file.on("session agent:main:main, lane 2")] == ["agent run", "t"]


def supervised(sequence: int, event_type: str, milliseconds: int, **payload: Any) -> dict[str, Any]:
    alone = {"session_key": None, "agent_run_id": None, "source_layer": "supervisor"}
    return recorded(sequence, event_type, writer="0supervisor", at=at(milliseconds), payload=payload, **alone)


def test_memory_of_the_process_tree_is_a_counter_from_its_first_sample_on() -> None:
    usage = {
        "interval_seconds": 2.0,
        "samples": 2,
        "overhead_seconds": 0.0,
        "peak_rss_bytes": 3 << 20,
        "cpu_seconds": 1.0,
        "roles": [],
        "series": [[0.0, 1 << 20, 0.5], [2.0, 3 << 20, 1.0]],
    }
    parts = seen(
        supervised(1, "state_transition", -5000),
        supervised(2, "process_start", 0, pid=99),
        supervised(3, "resource_usage", 3000, **usage),
        supervised(4, "process_end", 3001, exit_code=1),
        supervised(5, "state_transition", 86_400_000),
    )
    file = file_of(trace_of(*parts))
    assert [(event["ts"], event["args"]) for event in file.of("C")] == [
        (500_000, {"MiB": 1.0}),
        (2_500_000, {"MiB": 3.0}),
    ]
    [process] = file.slices("process")
    assert (process["pid"], process["dur"], process["args"]["failed"]) == (99, 3_001_000, True)


# Real runs


@pytest.mark.parametrize("name", REAL)
def test_everything_in_a_real_run_is_exported_once(name: str) -> None:
    path, events = real_timeline(name), real_events(name)
    file = file_of(trace_of(*read_trace_parts(path), *activity(events)))
    lines = [msgspec.json.decode(each) for each in path.read_bytes().splitlines()]
    types = Count(each["type"] for each in lines)
    ended = Count((each["pid"], each["spanId"]) for each in lines if each["type"] in ("span.end", "span.error"))
    exported = Count((event["pid"], event["args"]["span_id"]) for event in file.slices("span") if len(event["args"]))
    assert exported == ended | Count((each["pid"], each["spanId"]) for each in lines if each["type"] == "span.start")
    assert len(file.slices("provider")) == types["provider.request"]
    kinds = Count(event.event_type for event in events)
    assert len(file.slices("tool")) == kinds[EventType.TOOL_CALL]
    assert len(file.slices("model")) == kinds["before_provider_request"]
    assert len(file.slices("agent")) == kinds["agent_start"]
    calls = Count(event.event_id for event in events if event.event_type == EventType.TOOL_CALL)
    assert Count(event["args"]["event_id"] for event in file.slices("tool")) == calls


@pytest.mark.parametrize("name", REAL)
def test_the_same_run_is_the_same_file_every_time(name: str) -> None:
    path, events = real_timeline(name), real_events(name)
    files = [b"".join(perfetto.report(trace_of(*read_trace_parts(path), *activity(events)))) for _ in range(2)]
    assert files[0] == files[1]


LINES = st.builds(
    lambda kind, name, moment, pid, fields: line(kind, name, moment, pid=pid, **fields),
    st.sampled_from(
        ["span.start", "span.start", "span.end", "span.end", "span.error", "mark", "provider.request", "other"]
    ),
    st.sampled_from(["a", "b", "c"]),
    st.integers(0, 50),
    st.sampled_from([None, 1, 2]),
    st.fixed_dictionaries(
        {},
        optional={
            "spanId": st.sampled_from(["1", "2", "3"]),
            "parentSpanId": st.sampled_from(["1", "2", "3"]),
            "durationMs": st.sampled_from([0, 0.1, 0.4, 7, 30.25, -1, 1e200]),
        },
    ),
)


@given(st.lists(LINES, max_size=30))
def test_any_timeline_gives_a_valid_file_without_losses(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Line]
) -> None:
    parts = parts_of(*lines, folder=tmp_path_factory.mktemp("timeline"))
    file = file_of(trace_of(*parts))
    types = Count(each["type"] for each in lines)
    ends = types["span.end"] + types["span.error"]
    finished = sum("unfinished" not in event["args"] for event in file.slices("span"))
    assert finished == ends
    assert len(file.slices("span")) >= max(ends, types["span.start"])
    assert len(file.slices("span")) <= ends + types["span.start"]
    assert len(file.slices("provider")) == types["provider.request"]
    assert len(file.of("i")) == types["mark"] + types["other"]


KINDS = st.sampled_from(
    [
        *("agent_start", "agent_end", "turn_start", "turn_end", "before_provider_request", "token_usage"),
        *("tool_call", "tool_output", "memory_event", "compaction_start", "compaction_end", "input", "provider_retry"),
    ]
)
EVENTS = st.tuples(
    KINDS,
    st.integers(0, 30),
    st.sampled_from(["run-1", "run-2", None]),
    st.sampled_from(["c1", "c2", None]),
    st.none() | st.sampled_from([0, 3, 40, -7, 1e200]),
    st.sampled_from([{}, {"lookup": "pending"}, {"turn": 1, "callId": "x"}, {"attempt": "odd", "usage": {"input": 1}}]),
)


@given(st.lists(EVENTS, max_size=30))
def test_any_events_give_a_valid_file_with_every_call_once(steps: list[Any]) -> None:
    records = [
        recorded(n, kind, at=START + sum(each[1] for each in steps[: n + 1]), agent_run_id=run, tool_call_id=call,
                 duration_ms=took, payload=payload)
        for n, (kind, _, run, call, took, payload) in enumerate(steps)
    ]  # fmt: skip
    file = file_of(trace_of(*seen(*records)))
    for begin, finish, category in (
        ("tool_call", "tool_output", "tool"),
        ("before_provider_request", "token_usage", "model"),
        ("compaction_start", "compaction_end", "compaction"),
        ("agent_start", "agent_end", "agent"),
        ("turn_start", "turn_end", "turn"),
    ):
        ids = [event["args"]["event_id"] for event in file.slices(category)]
        begun = {record["event_id"] for record in records if record["event_type"] == begin}
        assert len(set(ids)) == len(ids)
        assert begun <= set(ids)
        finished = [event for event in file.slices(category) if "unfinished" not in event["args"]]
        assert len(finished) == sum(record["event_type"] == finish for record in records)
    assert len(file.of("i")) == sum(record["event_type"] in ("input", "provider_retry") for record in records)


def test_sanitizing_does_not_change_normal_text() -> None:
    assert sanitize("naïve 文字 😀 “quoted”") == "naïve 文字 😀 “quoted”"
    assert sanitize("a\x00b\ud800c\u202ed") == "a b c d"
