"""CPU profiles: times of functions, busiest windows, and invalid files."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import CPU_NAME, call_frame, cpu_document, read_document, write_real_profiles

from critiqor.model import ms_from_iso
from critiqor.timeline.profiles import read_cpu_profiles, summarise_profiles
from critiqor.timeline.profiles.artifacts import UnusableError
from critiqor.timeline.profiles.cpu_hotspots import Hotspots, busiest_windows, frame_times

SECOND = 1_000_000
CALLS = {"(root)": ["main", "(idle)", "(garbage collector)"], "main": ["work"], "work": ["work#inner"]}


def hotspots(folder: Path, *documents: dict[str, Any]) -> Hotspots:
    added = Hotspots()
    for document in documents:
        added.add(read_document(folder, document))
    return added


def test_sample_lasts_until_the_next_one_and_the_last_until_the_end(tmp_path: Path) -> None:
    document = cpu_document(CALLS, [("work", 1000), ("(idle)", 4000), ("main", 9000)], 10_000)
    [work, main] = hotspots(tmp_path, document).by_self_time()
    assert (work.function.name, work.self_ms) == ("work", 3.0)
    assert (main.function.name, main.self_ms, main.total_ms) == ("main", 1.0, 4.0)


def test_function_that_calls_itself_counts_once(tmp_path: Path) -> None:
    document = cpu_document(CALLS, [("work", 0), ("work#inner", 1000), ("(idle)", 5000)], 10_000)
    added = hotspots(tmp_path, document)
    [work] = added.by_self_time()
    assert (work.self_ms, work.total_ms) == (5.0, 5.0)
    totals = {each.function.name: each.total_ms for each in added.by_total_time()}
    assert totals == {"main": 5.0, "work": 5.0}


def test_same_function_is_added_up_over_profiles(tmp_path: Path) -> None:
    document = cpu_document(CALLS, [("work", 0), ("(idle)", 2000)], 3000)
    added = hotspots(tmp_path, document, document)
    assert [(each.function.name, each.self_ms) for each in added.by_self_time()] == [("work", 4.0)]
    assert added.busy_ms == 4.0
    assert added.threads_total == 2


def test_idle_time_is_not_busy_and_garbage_collection_is(tmp_path: Path) -> None:
    document = cpu_document(CALLS, [("(garbage collector)", 0), ("(idle)", 3000)], 10_000)
    [thread] = hotspots(tmp_path, document).threads()
    assert (thread.duration_ms, thread.busy_ms, thread.collecting_ms) == (10.0, 3.0, 3.0)
    assert [share.function.name for share in thread.functions] == ["(garbage collector)"]


def test_time_stands_still_for_samples_that_are_out_of_order(tmp_path: Path) -> None:
    document = cpu_document(CALLS, [("main", 0), ("work", 5000), ("main", 4000), ("(idle)", 6000)], 6000)
    profile = read_document(tmp_path, document)
    assert list(profile.starts_us) == [0, 5000, 5000, 6000]
    assert sum(frame_times(profile).own) == 6000


def test_functions_of_the_program_are_separate_from_those_of_node(tmp_path: Path) -> None:
    document = cpu_document({"(root)": ["load"], "load": ["plugin"]}, [("plugin", 0)], 4000)
    document["nodes"][1]["callFrame"] = call_frame("load", "node:internal/loader", 9)
    document["nodes"][2]["callFrame"] = call_frame("plugin", "file:///home/anna/node_modules/openclaw/dist/p.mjs", 9)
    [plugin] = hotspots(tmp_path, document).program_by_total_time()
    assert (plugin.function.file, plugin.function.line) == ("openclaw/dist/p.mjs", 10)


def test_the_overhead_of_trace_events_is_shown(tmp_path: Path) -> None:
    document = cpu_document({"(root)": ["init"], "init": ["trace"]}, [("init", 0), ("trace", 1000)], 3000)
    document["nodes"][1]["callFrame"] = call_frame("init", "node:internal/trace_events_async_hooks", 43)
    assert hotspots(tmp_path, document).tracing_ms == 3.0


def test_busiest_window_comes_first_with_the_functions_that_filled_it(tmp_path: Path) -> None:
    seen = [
        ("(idle)", 0),
        ("main", 900_000),
        ("work", 1_200_000),
        ("main", 1_800_000),
        ("(idle)", 2_100_000),
        ("main", 2_900_000),
        ("(idle)", 2_950_000),
    ]
    first, second, third = busiest_windows(read_document(tmp_path, cpu_document(CALLS, seen, 3_500_000)))
    assert (first.offset_ms, first.duration_ms, first.busy_ms) == (1000.0, 1000.0, 1000.0)
    assert [(share.function.name, share.self_ms) for share in first.functions] == [("work", 600.0), ("main", 400.0)]
    assert (second.offset_ms, second.busy_ms) == (2000.0, 150.0)
    assert (third.offset_ms, third.busy_ms) == (0.0, 100.0)


def test_one_long_sample_fills_every_window_that_it_covers(tmp_path: Path) -> None:
    windows = busiest_windows(read_document(tmp_path, cpu_document(CALLS, [("main", 500_000)], 2_500_000)))
    assert [(window.offset_ms, window.busy_ms) for window in windows] == [(1000, 1000), (0, 500), (2000, 500)]
    assert windows[-1].duration_ms == 500


def test_idle_windows_are_not_listed(tmp_path: Path) -> None:
    assert busiest_windows(read_document(tmp_path, cpu_document(CALLS, [("(idle)", 0)], 5 * SECOND))) == []


@given(
    st.lists(
        st.tuples(st.sampled_from(["main", "work", "work#inner", "(idle)"]), st.integers(0, 3 * SECOND)), max_size=12
    )
)
def test_windows_and_functions_hold_the_same_time(
    tmp_path_factory: pytest.TempPathFactory, seen: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("profile")
    seen = sorted(seen, key=lambda sample: sample[1])
    profile = read_document(folder, cpu_document(CALLS, seen, 3 * SECOND))
    times = frame_times(profile)
    windows = busiest_windows(profile)
    assert sum(window.busy_ms for window in windows) == pytest.approx(times.busy / 1000)
    assert all(sum(each.self_ms for each in window.functions) == pytest.approx(window.busy_ms) for window in windows)
    assert all(own <= total for own, total in zip(times.own, times.total, strict=True))


@pytest.mark.parametrize("zone", [0, 3600, -34_200, 20_700])
def test_start_comes_from_the_time_of_writing_in_whatever_zone_the_name_is(tmp_path: Path, zone: int) -> None:
    named = (ms_from_iso("2026-11-16T10:00:00Z") or 0) / 1000
    document = cpu_document(CALLS, [("main", 0)], 2 * SECOND)
    profile = read_document(tmp_path, document, written_at=named + zone + 2.25)
    assert profile.started_ms == pytest.approx((named + zone + 0.25) * 1000)


def test_start_is_within_the_second_of_the_name_however_long_the_writing_took(tmp_path: Path) -> None:
    named = (ms_from_iso("2026-11-16T10:00:00Z") or 0) / 1000
    document = cpu_document(CALLS, [("main", 0)], 2 * SECOND)
    profile = read_document(tmp_path, document, written_at=named + 2 + 9)
    assert profile.started_ms == pytest.approx((named + 1) * 1000)


def test_file_that_was_written_at_another_time_than_its_name_says_has_no_start(tmp_path: Path) -> None:
    named = (ms_from_iso("2026-11-16T10:00:00Z") or 0) / 1000
    document = cpu_document(CALLS, [("main", 0)], 2 * SECOND)
    assert read_document(tmp_path, document, written_at=named + 300).started_ms is None
    assert read_document(tmp_path, document, "mine.cpuprofile", written_at=named + 2).started_ms is None


DEEP = [{"id": n, "callFrame": {}, "children": [n + 1] * (n < 9000)} for n in range(1, 9001)]


@pytest.mark.parametrize(
    "changes",
    [
        {"samples": [99]},
        {"samples": [1, 1]},
        {"samples": "none"},
        {"samples": [[1]]},
        {"samples": [1.5]},
        {"timeDeltas": [10**17]},
        {"timeDeltas": [10**30]},
        {"endTime": 0},
        {"endTime": 1e300},
        {"nodes": {}},
        {"nodes": [{"id": 1, "callFrame": {}, "children": [1]}]},
        {"nodes": DEEP},
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_document_that_is_not_a_profile_is_foreign(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(UnusableError) as error:
        read_document(tmp_path, {**cpu_document(CALLS, [("main", 0)], 1000), **changes})
    assert error.value.trouble == "foreign"


def test_nodes_that_call_each_other_in_a_circle_cannot_be_sampled(tmp_path: Path) -> None:
    document = cpu_document({"(root)": [], "a": ["b"], "b": ["a"]}, [("(root)", 0)], 1000)
    assert len(read_document(tmp_path, document).node_frames) == 1
    with pytest.raises(UnusableError):
        read_document(tmp_path, cpu_document({"(root)": [], "a": ["b"], "b": ["a"]}, [("a", 0)], 1000))


def test_profile_of_a_real_node_names_the_busy_function_by_its_package(tmp_path: Path) -> None:
    before = time.time()
    write_real_profiles(tmp_path / "profiles", tmp_path)
    [profile] = read_cpu_profiles(tmp_path / "profiles")
    assert profile.thread == 0
    assert profile.started_ms is not None
    assert before - 1.5 <= profile.started_ms / 1000 <= time.time()
    summary = summarise_profiles(tmp_path / "profiles")
    burner = summary.program_by_total_time[:4]
    assert ("burnTime", "@scope/burner/dist/burner.cjs", 4) in [
        (each.function.name, each.function.file, each.function.line) for each in burner
    ]
    assert summary.busy_ms >= 100
    [thread] = summary.threads
    assert thread.busy_ms < thread.duration_ms


@given(st.data())
def test_profile_that_is_cut_anywhere_is_reported_as_torn_and_does_not_hide_others(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("profiles")
    whole = json.dumps(cpu_document(CALLS, [("main", 0), ("work", 10), ("(idle)", 900)], 1000)).encode()
    (folder / CPU_NAME).write_bytes(whole)
    (folder / CPU_NAME.replace("4711", "4712")).write_bytes(whole[: data.draw(st.integers(1, len(whole) - 1))])
    summary = summarise_profiles(folder)
    assert [problem.kind for problem in summary.problems] == ["cpu_profile"]
    assert summary.problems[0].trouble in ("torn", "damaged")
    assert [thread.pid for thread in summary.threads] == [4711]
