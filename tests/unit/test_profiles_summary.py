"""The summary of a profiles folder: every kind of file, damaged files, secrets and reports."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import CPU_NAME, HEAP_NAME, REPORT_NAME, SECRET, TRACE_NAME, call_frame, cpu_document, write_real_profiles

from critiqor.timeline.profiles import artifacts, profile_lines, profile_markdown, summarise_profiles

CPU = cpu_document({"(root)": ["main", "(idle)"]}, [("main", 0), ("(idle)", 600)], 1000)


ENDLESS_LINE = {**CPU, "nodes": [{"id": 1, "callFrame": {"lineNumber": 10**400}}]}


def site(name: str, size: int, *children: dict[str, Any]) -> dict[str, Any]:
    return {"callFrame": call_frame(name), "selfSize": size, "id": 1, "children": list(children)}


HEAP = {"head": site("(root)", 0, site("grow", 10, site("grow", 100), site("leaf", 5))), "samples": []}
REPORT = {
    "header": {
        "reportVersion": 5,
        "event": f"Error: {SECRET}",
        "trigger": "Exception",
        "dumpEventTime": "2026-11-16T10:00:05Z",
        "dumpEventTimeStamp": "1794823205000",
        "cwd": f"/home/{SECRET}",
        "commandLine": ["node", SECRET],
    },
    "javascriptHeap": {"usedMemory": 7, "totalMemory": 9, "memoryLimit": 90, "externalMemory": 2},
    "environmentVariables": {"PASSWORD": SECRET},
}


def write(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content, separators=(",", ":")).encode())
    return path


def troubles(folder: Path) -> dict[str, str]:
    return {problem.file: problem.trouble for problem in summarise_profiles(folder).problems}


def test_every_kind_of_file_is_counted_with_its_bytes(tmp_path: Path) -> None:
    files = {CPU_NAME: CPU, HEAP_NAME: HEAP, REPORT_NAME: REPORT, TRACE_NAME: {"traceEvents": []}}
    for name, content in files.items():
        write(tmp_path, name, content)
    write(tmp_path, "Heap.20261116.100000.4711.0.009.heapsnapshot", b"never looked at")
    write(tmp_path, "notes.txt", b"mine")
    summary = summarise_profiles(tmp_path)
    counts = {each.kind: (each.files, each.used) for each in summary.artifacts}
    assert counts == {
        "cpu_profile": (1, 1),
        "heap_profile": (1, 1),
        "trace_events": (1, 1),
        "diagnostic_report": (1, 1),
        "heap_snapshot": (1, 0),
        "other": (1, 0),
    }
    assert sum(each.bytes for each in summary.artifacts) == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert summary.problems == []


def test_allocating_functions_are_listed_once_with_their_callees(tmp_path: Path) -> None:
    write(tmp_path, HEAP_NAME, HEAP)
    write(tmp_path, HEAP_NAME.replace("4711", "4712"), HEAP)
    summary = summarise_profiles(tmp_path)
    sites = [(each.function.name, each.self_bytes, each.total_bytes) for each in summary.allocations]
    assert sites == [("grow", 220, 230), ("leaf", 10, 10)]
    assert summary.held_bytes == 230


def test_only_time_trigger_and_heap_of_a_report_are_read(tmp_path: Path) -> None:
    write(tmp_path, REPORT_NAME, REPORT)
    [report] = summarise_profiles(tmp_path).reports
    assert (report.pid, report.at, report.trigger) == (4711, "2026-11-16T10:00:05.000Z", "Exception")
    assert (report.heap_used_bytes, report.heap_total_bytes, report.heap_limit_bytes) == (7, 9, 90)
    assert report.external_bytes == 2


def test_trigger_that_is_not_a_word_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, REPORT_NAME, {**REPORT, "header": {"trigger": f"x={SECRET}", "dumpEventTimeStamp": "no time"}})
    [report] = summarise_profiles(tmp_path).reports
    assert (report.trigger, report.at) == (None, None)


def test_real_profiles_give_every_figure_and_nothing_of_the_machine(tmp_path: Path) -> None:
    write_real_profiles(tmp_path / "profiles", tmp_path)
    summary = summarise_profiles(tmp_path / "profiles")
    assert {each.kind for each in summary.artifacts if each.used} == {
        "cpu_profile",
        "heap_profile",
        "trace_events",
        "diagnostic_report",
    }
    assert summary.problems == []
    assert "keepMuch" in [each.function.name for each in summary.allocations]
    assert summary.peak_windows
    assert summary.trace_events > 0  # how many there are depends on how busy the machine is
    assert [report.trigger for report in summary.reports] == ["API"]
    text = msgspec.json.encode(summary).decode() + "\n".join(profile_lines(summary)) + profile_markdown(summary)
    for private in (SECRET, "a-label-of-mine", str(tmp_path), os.sep + tmp_path.name, "MY_PASSWORD"):
        assert private not in text


@pytest.mark.parametrize(
    ("name", "content", "trouble"),
    [
        (CPU_NAME, b"", "empty"),
        (CPU_NAME, b"\x00\xff\x00", "damaged"),
        (CPU_NAME, b"{\xff}", "damaged"),
        (CPU_NAME, b'{"nodes":[],,}', "damaged"),
        (CPU_NAME, b'{"a":1}', "foreign"),
        (HEAP_NAME, b'{"head":', "torn"),
        (HEAP_NAME, b'{"head":{}}', "foreign"),
        (HEAP_NAME, b'{"head":' * 50_000 + b"}", "foreign"),
        (HEAP_NAME, b'{"head":{"callFrame":{},"selfSize":-5}}', "foreign"),
        (HEAP_NAME, b'{"head":{"callFrame":{},"selfSize":1' + b"0" * 400 + b"}}", "foreign"),
        (CPU_NAME, json.dumps(ENDLESS_LINE).encode(), "foreign"),
        (REPORT_NAME, b'{"header":{}}', "foreign"),
        (REPORT_NAME, b'{"header":{"trigger":"Sig', "torn"),
        (TRACE_NAME, b'{"traceEv', "torn"),
        (TRACE_NAME, b"<html></html>", "foreign"),
    ],
)
def test_file_that_cannot_be_used_is_named_and_hides_no_other(
    tmp_path: Path, name: str, content: bytes, trouble: str
) -> None:
    write(tmp_path, name, content)
    write(tmp_path, "CPU.20261116.100000.4799.0.001.cpuprofile", CPU)
    summary = summarise_profiles(tmp_path)
    assert [(problem.file, problem.trouble, problem.bytes) for problem in summary.problems] == [
        (name, trouble, len(content))
    ]
    assert [thread.pid for thread in summary.threads] == [4799]
    assert any(name in line for line in profile_lines(summary))


def test_folders_links_and_pipes_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / CPU_NAME).mkdir()
    os.mkfifo(tmp_path / HEAP_NAME)
    (tmp_path / REPORT_NAME).symlink_to("/etc/hostname")
    assert troubles(tmp_path) == dict.fromkeys((CPU_NAME, HEAP_NAME, REPORT_NAME), "not_a_file")


def test_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, CPU_NAME, CPU)
    write(tmp_path, TRACE_NAME, {"traceEvents": []})

    def refuse(*_: object, **__: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert troubles(tmp_path) == dict.fromkeys((CPU_NAME, TRACE_NAME), "unreadable")


def test_profile_beyond_the_limits_is_reported_as_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, CPU_NAME, CPU)
    monkeypatch.setattr(artifacts, "MAX_OBJECTS", 2)
    assert troubles(tmp_path) == {CPU_NAME: "too_large"}
    with path.open("r+b") as file:
        file.truncate(artifacts.MAX_FILE_BYTES + 1)
    summary = summarise_profiles(tmp_path)
    assert troubles(tmp_path) == {CPU_NAME: "too_large"}
    assert any("too large" in line for line in profile_lines(summary))


def test_files_beyond_the_budget_of_their_kind_are_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = write(tmp_path, CPU_NAME.replace("4711", "4712"), CPU)
    write(tmp_path, CPU_NAME, CPU)
    write(tmp_path, TRACE_NAME, {"traceEvents": []})
    monkeypatch.setattr(artifacts, "MAX_BYTES_PER_KIND", other.stat().st_size)
    summary = summarise_profiles(tmp_path)
    assert [(problem.file, problem.trouble) for problem in summary.problems] == [(other.name, "over_budget")]
    assert {each.kind: each.used for each in summary.artifacts} == {"cpu_profile": 1, "trace_events": 1}


def test_many_bad_files_are_counted_and_only_the_first_named(tmp_path: Path) -> None:
    for number in range(50):
        write(tmp_path, f"CPU.20261116.100000.{number}.0.001.cpuprofile", b"x")
    summary = summarise_profiles(tmp_path)
    assert (summary.problems_total, len(summary.problems)) == (50, artifacts.MAX_PROBLEMS)
    assert "  and 30 more" in profile_lines(summary)


def test_name_of_a_file_becomes_neither_markup_nor_a_line(tmp_path: Path) -> None:
    write(tmp_path, "x`|\n# Title\x1b[31m.cpuprofile", b"x")
    text = profile_markdown(summarise_profiles(tmp_path))
    assert "\n# Title" not in text
    assert "\x1b" not in text
    assert "`x'\\| # Title [31m.cpuprofile`" in text


def test_run_without_profiles_says_why_there_are_none(tmp_path: Path) -> None:
    assert "--deep-profile" in profile_lines(summarise_profiles(tmp_path / "missing"))[1]
    assert "when it exits" in profile_lines(summarise_profiles(tmp_path))[1]


_NAMES = (CPU_NAME, HEAP_NAME, REPORT_NAME, TRACE_NAME)
_KEYS = st.sampled_from(
    [
        "nodes",
        "samples",
        "timeDeltas",
        "startTime",
        "endTime",
        "id",
        "callFrame",
        "children",
        "functionName",
        "url",
        "lineNumber",
        "head",
        "selfSize",
        "header",
        "trigger",
        "dumpEventTimeStamp",
        "javascriptHeap",
        "usedMemory",
        "traceEvents",
        "pid",
        "ph",
        "cat",
        "name",
        "ts",
        "dur",
        "tid",
    ]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=15,
)


@given(st.sampled_from(_NAMES), st.binary(max_size=60) | st.dictionaries(_KEYS, _VALUES))
def test_no_content_can_make_the_summary_fail(
    tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes | dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("profiles")
    write(folder, name, content)
    summary = summarise_profiles(folder)
    json.dumps(msgspec.to_builtins(summary), allow_nan=False)
    assert profile_lines(summary)
    assert summary.problems_total + sum(each.used for each in summary.artifacts) >= 1
