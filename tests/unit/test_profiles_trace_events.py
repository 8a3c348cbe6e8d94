"""Trace events: counts by category, ranking by name, and reading as a stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import TRACE_NAME

from critiqor.model.profiles import ProfileSummary
from critiqor.timeline.profiles import summarise_profiles, trace_events

PROMISES = "node,node.async_hooks"


def event(phase: str, name: str, moment: float, **fields: Any) -> dict[str, Any]:
    """Return an event as Node writes it; times in microseconds."""
    head = {"pid": 4711, "tid": 1, "ts": moment, "tts": 0, "ph": phase, "cat": "v8", "name": name, "dur": 0, "tdur": 0}
    return {**head, **fields, "args": {}}


def text_of(*events: dict[str, Any]) -> bytes:
    return json.dumps({"traceEvents": events}, separators=(",", ":")).encode()


def read(folder: Path, *contents: bytes) -> ProfileSummary:
    for rotation, content in enumerate(contents, 1):
        (folder / f"node-trace-4711-{rotation}.json").write_bytes(content)
    return summarise_profiles(folder)


def durations(summary: ProfileSummary) -> dict[str, tuple[int, float, float]]:
    return {each.name: (each.count, each.total_ms, each.max_ms) for each in summary.trace_durations}


def test_events_are_counted_by_category_and_the_longest_come_first(tmp_path: Path) -> None:
    summary = read(
        tmp_path,
        text_of(
            event("X", "MinorGC", 0, dur=2000),
            event("X", "MinorGC", 9, dur=1000),
            event("X", "RunTimers", 9, dur=5000, cat="node,node.environment"),
            event("b", "PROMISE", 1, id="0x1", cat=PROMISES),
            event("M", "process_name", 1, cat="__metadata"),
        ),
    )
    assert summary.trace_events == 5
    assert {each.category: each.events for each in summary.trace_categories} == {
        "v8": 2,
        "node,node.environment": 1,
        "node,node.async_hooks": 1,
        "__metadata": 1,
    }
    assert list(durations(summary).items()) == [("RunTimers", (1, 5.0, 5.0)), ("MinorGC", (2, 3.0, 2.0))]


def test_begin_and_end_are_joined_within_a_thread_and_over_files(tmp_path: Path) -> None:
    first = text_of(event("B", "open", 0), event("B", "open", 1000, tid=2), event("B", "open", 2000))
    second = text_of(event("E", "open", 3000), event("E", "open", 5000), event("E", "open", 9000, tid=2))
    assert durations(read(tmp_path, first, second)) == {"open": (3, 14.0, 8.0)}


def test_events_that_need_not_end_in_their_thread_are_joined_by_their_number(tmp_path: Path) -> None:
    named = "require('/home/anna/node_modules/openclaw/dist/x.js')"
    summary = read(
        tmp_path,
        text_of(
            event("b", named, 0, id="0x1"),
            event("b", named, 1000, id="0x2"),
            event("e", named, 3000, id="0x1"),
            event("e", named, 9000, id="0x3"),
        ),
    )
    assert durations(summary) == {"require('openclaw/dist/x.js')": (1, 3.0, 3.0)}


def test_promises_are_counted_and_not_ranked(tmp_path: Path) -> None:
    promise = [event("b", "PROMISE", 0, id="0x1", cat=PROMISES), event("X", "GC", 5, dur=1)]
    summary = read(tmp_path, text_of(*promise, *promise, promise[0]))
    assert {each.category: each.events for each in summary.trace_categories} == {PROMISES: 3, "v8": 2}
    assert list(durations(summary)) == ["GC"]


def test_labels_chosen_by_the_program_are_left_out(tmp_path: Path) -> None:
    events = [
        event("b", "my password is x", 0, cat="node,node.console"),
        event("X", "y", 0, cat="node,node.perf.usertiming"),
    ]
    ended = event("e", "my password is x", 7000, cat="node,node.console")
    assert list(durations(read(tmp_path, text_of(*events, ended)))) == [trace_events.LABEL]
    assert "password" not in str(read(tmp_path, text_of(*events, ended)))


def test_file_without_its_end_is_reported_as_torn_and_its_events_are_used(tmp_path: Path) -> None:
    whole = text_of(event("X", "GC", 0, dur=1000), event("X", "GC", 5, dur=3000), event("X", "Other", 9, dur=5))
    summary = read(tmp_path, whole[:-40])
    assert [(problem.file, problem.trouble) for problem in summary.problems] == [(TRACE_NAME, "torn")]
    assert durations(summary) == {"GC": (2, 4.0, 3.0)}


def test_damaged_event_does_not_affect_others(tmp_path: Path) -> None:
    whole = text_of(event("X", "A", 0, dur=1000), event("X", "B", 5, dur=3000), event("X", "C", 9, dur=5000))
    summary = read(tmp_path, whole.replace(b'"B"', b'"B'))
    assert [problem.trouble for problem in summary.problems] == ["damaged"]
    assert set(durations(summary)) == {"A", "C"}


def test_event_beyond_all_bounds_costs_only_itself_and_its_neighbour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_events, "BLOCK", 256)
    monkeypatch.setattr(trace_events, "MAX_EVENT_BYTES", 1024)
    long = event("X", "B" * 5000, 5, dur=3000)
    summary = read(tmp_path, text_of(event("X", "A", 0, dur=1000), long, *[event("X", "C", 9, dur=5000)] * 9))
    assert [problem.trouble for problem in summary.problems] == ["damaged"]
    assert durations(summary)["C"][0] >= 8


def test_impossible_duration_is_limited(tmp_path: Path) -> None:
    events = [
        event("X", "A", 0, dur=1e308),
        event("X", "A", 0, dur=1e308),
        event("B", "C", -1e308),
        event("E", "C", 1e308),
    ]
    assert durations(read(tmp_path, text_of(*events))) == {"A": (2, 2e10, 1e10), "C": (1, 1e10, 1e10)}


def test_the_number_of_names_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_events, "MAX_NAMES", 10)
    events = [event("X", f"name {n}", n, dur=n, cat=f"category {n}") for n in range(100)]
    summary = read(tmp_path, text_of(*events))
    assert summary.trace_events == 100
    assert {each.category: each.events for each in summary.trace_categories}[trace_events.OTHERS] == 90
    assert durations(summary)[trace_events.OTHERS][0] == 90


@given(
    st.lists(
        st.tuples(st.sampled_from("XBEbeIM"), st.sampled_from(["A", "B,{}", '"}']), st.integers(0, 9)), max_size=30
    ),
    st.integers(1, 400),
)
def test_size_of_the_blocks_makes_no_difference(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[str, str, int]], block: int
) -> None:
    folder = tmp_path_factory.mktemp("trace")
    events = [event(phase, name, moment, dur=moment, id="0x1") for phase, name, moment in made]
    events += [event("b", "PROMISE", 1, cat=PROMISES)] * 2
    whole = read(folder, text_of(*events))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_events, "BLOCK", block)
        assert read(folder, text_of(*events)) == whole
    assert whole.trace_events == len(events)
    assert whole.problems == []
