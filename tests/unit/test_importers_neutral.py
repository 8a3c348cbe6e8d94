from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from critiqor.errors import UsageError
from critiqor.importers import FORMATS, ImportedTrace, detect_format, read_traces
from critiqor.model import Event, event_id_for
from critiqor.model.event import place_of
from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import Redactor

SECRET = "sk-ant-" + "api03-" + "Zx9" * 12
"""Put together when it runs, so that nothing which looks like a credential stands in a file."""


def write(folder: Path, *traces: object, name: str = "traces.jsonl") -> Path:
    path = folder / name
    lines = (trace if isinstance(trace, bytes) else json.dumps(trace).encode() for trace in traces)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def trace_of(*events: dict[str, Any], **labels: Any) -> dict[str, Any]:
    return {"labels": labels, "events": [{"i": number, **event} for number, event in enumerate(events)]}


def read_one(folder: Path, *events: dict[str, Any], **labels: Any) -> ImportedTrace:
    [trace] = read_traces(write(folder, trace_of(*events, **labels)))
    return trace


def numbers(trace: ImportedTrace) -> list[int]:
    places = [place_of(event.event_id) for event in trace.events]
    return [place.sequence - 1 for place in places if place]


def is_in_order(trace: ImportedTrace) -> bool:
    ids = [event.event_id for event in trace.events]
    return ids == sorted(set(ids))


def test_each_event_becomes_one_under_its_own_number(tmp_path: Path) -> None:
    trace = read_one(
        tmp_path,
        {"type": "user", "text": "fix it"},
        {"type": "assistant", "text": "I try.", "model": "m1", "tokens_in": "12", "tokens_out": 3},
        {"type": "tool_call", "tool": "exec", "args": {"command": "make"}, "tool_call_id": "c1"},
        {"type": "tool_result", "tool": "exec", "text": "no rule", "is_error": True, "tool_call_id": "c1"},
        {"type": "error", "text": "it broke"},
        {"type": "end", "text": "done"},
        trace_id="t-1",
    )
    assert (trace.trace_id, trace.format) == ("t-1", "neutral")
    assert numbers(trace) == [0, 1, 2, 3, 4, 5]
    assert is_in_order(trace)
    said, answered, call, result, error, end = trace.events
    assert (said.event_type, said.payload["text"]) == ("input", "fix it")
    assert answered.event_type == "message_end"
    assert answered.payload == {
        "text": "I try.",
        "role": "assistant",
        "model": "m1",
        "usage": {"input": 12, "output": 3},
    }
    assert (call.event_type, call.tool_name, call.tool_call_id) == ("tool_call", "exec", "c1")
    assert (call.payload["arguments"], call.source_layer) == ({"command": "make"}, "tool_hooks")
    assert (result.event_type, result.status, result.error) == ("tool_output", "error", "no rule")
    assert (result.payload["result"], result.raw_event_type) == ("no rule", "tool_result")
    assert (error.event_type, error.status, error.error) == ("error", "error", "it broke")
    assert (end.event_type, end.payload["text"], end.status) == ("agent_end", "done", "ok")
    assert {event.session_key for event in trace.events} == {"t-1"}


def test_labels_are_never_read(tmp_path: Path) -> None:
    labelled = trace_of({"type": "user", "text": "hello"}, trace_id="t", outcome="failure", failure_labels=["loop"])
    unlabelled = trace_of({"type": "user", "text": "hello"}, trace_id="t")
    [one], [other] = (list(read_traces(write(tmp_path, trace))) for trace in (labelled, unlabelled))
    assert one == other


def test_a_trace_without_a_name_is_called_after_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, trace_of({"type": "user"}, trace_id="first"), {"events": [{"i": 0, "type": "user"}]})
    assert [trace.trace_id for trace in read_traces(path)] == ["first", "line-2"]


def test_times_that_go_back_or_are_missing_change_no_order(tmp_path: Path) -> None:
    times = ["2025-03-19T16:32:08.575528Z", None, "2025-03-19T16:32:01Z", "nonsense", "2025-03-19T16:33:00Z"]
    trace = read_one(tmp_path, *({"type": "user", "ts": time} for time in times))
    assert is_in_order(trace)
    assert [event.timestamp for event in trace.events] == ["2025-03-19T16:32:08.575Z"] * 4 + [
        "2025-03-19T16:33:00.000Z"
    ]
    assert trace.events[2].payload["ts"] == times[2]
    assert trace.notes == [
        "events without a time, placed at the time of the preceding event: 2",
        "events with a time before the preceding event, placed at its time: 1",
    ]


def test_a_trace_without_times_is_visibly_in_no_real_time(tmp_path: Path) -> None:
    trace = read_one(tmp_path, {"type": "user"}, {"type": "assistant"}, {"type": "end"})
    assert [event.timestamp for event in trace.events] == [f"2000-01-01T00:00:00.00{i}Z" for i in range(3)]
    assert trace.notes == ["events without a time, placed in the year 2000, one millisecond apart: 3"]


def test_numbers_lead_back_even_with_holes_and_out_of_order(tmp_path: Path) -> None:
    path = write(tmp_path, {"events": [{"i": 7, "type": "end"}, {"i": 2, "type": "user", "text": "x"}]})
    [trace] = read_traces(path)
    assert numbers(trace) == [2, 7]
    assert [event.event_type for event in trace.events] == ["input", "agent_end"]
    assert is_in_order(trace)


@pytest.mark.parametrize("broken", [0, None, "1", -1, 10**30, 1.5, [1]])
def test_numbers_that_are_no_order_are_replaced_by_places(tmp_path: Path, broken: object) -> None:
    path = write(
        tmp_path, {"events": [{"i": 0, "type": "user"}, {"i": broken, "type": "user"}, {"i": 1, "type": "end"}]}
    )
    [trace] = read_traces(path)
    assert numbers(trace) == [0, 1, 2]
    assert any("event numbers" in note for note in trace.notes)


@pytest.mark.parametrize(
    ("duration", "milliseconds"),
    [("PT11.677201S", 11677.201), ("PT1M1.5S", 61500), ("P1DT2H", 93_600_000), (2, 2000), (0.25, 250), ("soon", None)],
)
def test_durations_have_several_forms(tmp_path: Path, duration: object, milliseconds: float | None) -> None:
    call = {"type": "tool_call", "tool": "t", "tool_call_id": "c", "duration": duration}
    trace = read_one(tmp_path, call, {**call, "type": "tool_result"})
    assert [event.duration_ms for event in trace.events] == [None, milliseconds]


def test_arguments_that_smolagents_wrapped_are_unwrapped(tmp_path: Path) -> None:
    wrapped = {"args": [], "sanitize_inputs_outputs": True, "kwargs": {"url": "x"}}
    in_order = {"args": ["42"], "sanitize_inputs_outputs": False, "kwargs": {}}
    own = {"args": [], "kwargs": {"url": "x"}}
    trace = read_one(tmp_path, *({"type": "tool_call", "args": args} for args in (wrapped, in_order, own)))
    assert [event.payload["arguments"] for event in trace.events] == [{"url": "x"}, {"args": ["42"]}, own]


def test_a_result_belongs_to_whom_its_call_belongs_to(tmp_path: Path) -> None:
    trace = read_one(
        tmp_path,
        {"type": "user"},
        {"type": "tool_call", "agent": "boss", "tool_call_id": "c"},
        {"type": "tool_call", "agent": "helper", "tool_call_id": "c"},
        {"type": "tool_result", "tool_call_id": "c"},
        {"type": "tool_result", "tool_call_id": "c"},
        {"type": "tool_result", "tool_call_id": "unknown"},
        {"type": "end", "agent_end": "helper"},
    )
    runs = [event.agent_run_id for event in trace.events]
    assert runs == ["boss", "boss", "helper", "boss", "helper", "boss", "helper"]
    assert read_one(tmp_path, {"type": "user"}).events[0].agent_run_id == "main"


def test_what_the_model_asked_for_is_kept(tmp_path: Path) -> None:
    asked = [{"tool": "web_search", "args": {"query": "x"}, "id": "c1"}]
    trace = read_one(
        tmp_path, {"type": "assistant", "requested_tool_calls": asked, "is_error": True, "error_text": "529"}
    )
    assert trace.events[0].payload["tool_calls"] == asked
    assert (trace.events[0].status, trace.events[0].error) == ("error", "529")


def test_an_unknown_type_is_kept_under_no_name_that_means_something(tmp_path: Path) -> None:
    trace = read_one(tmp_path, {"type": "recorder_attached", "text": "x"}, {"type": ["odd"]}, {"type": "end"})
    assert [event.event_type for event in trace.events] == ["unknown", "unknown", "agent_end"]
    assert trace.events[0].payload["text"] == "x"
    assert "events of an unknown type: 2 (recorder_attached, none)" in trace.notes


def test_a_broken_line_costs_only_itself(tmp_path: Path) -> None:
    good = trace_of({"type": "user", "text": "x"}, trace_id="good")
    deep = b'{"events": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    path = write(tmp_path, good, b"{broken", b"[1]", deep, b"", good)
    traces = list(read_traces(path))
    assert [trace.trace_id for trace in traces] == ["good", "line-2", "line-3", "line-4", "good"]
    assert [len(trace.events) for trace in traces] == [1, 0, 0, 0, 1]
    assert traces[1].notes == ["lines that could not be read: 1 (2: not JSON)"]
    assert traces[3].notes == ["lines that could not be read: 1 (4: too deep)"]


def test_one_bad_event_costs_only_itself(tmp_path: Path) -> None:
    path = write(tmp_path, {"events": [{"i": 0, "type": "user", "text": "a"}, "what", None, {"i": 1, "type": "end"}]})
    [trace] = read_traces(path)
    assert [event.event_type for event in trace.events] == ["input", "agent_end"]
    assert "entries that are not events: 2" in trace.notes


def test_what_strict_readers_refuse_is_made_readable(tmp_path: Path) -> None:
    line = (
        b'\xef\xbb\xbf{"events": [{"i": 0, "type": "user", "text": "half \\ud83d and \xff", '
        b'"msg": 1e999, "span_id": 99999999999999999999999}]}'
    )
    [trace] = read_traces(write(tmp_path, line))
    [event] = trace.events
    assert event.payload["text"] == "half � and �"
    assert event.payload["msg"] is None
    assert event.payload["span_id"] == {"cut": True, "reason": "size"}
    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


def test_large_values_are_cut_as_the_recorder_cuts_them(tmp_path: Path) -> None:
    trace = read_one(tmp_path, {"type": "user", "text": "ä" * 8193}, {"type": "user", "text": "ä" * 8192})
    cut = trace.events[0].payload["text"]
    assert (cut["cut"], cut["size"], len(cut["excerpt"])) == (True, 16386, 2048)
    assert cut["digest"].startswith("sha256:")
    assert trace.events[1].payload["text"] == "ä" * 8192


def test_gigantic_values_stay_small(tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = {"inner": [deep]}
    args = {
        "deep": deep,
        "wide": list(range(100_000)),
        "long": ["y" * 9000] * 300,
        "k" * 5000: {str(i): i for i in range(999)},
    }
    trace = read_one(tmp_path, {"type": "tool_call", "tool": "t" * 100_000, "args": args})
    assert len(msgspec.json.encode(trace.events[0])) < 100_000


def test_secrets_are_replaced_the_same_way_every_time(tmp_path: Path) -> None:
    events = (
        {"type": "user", "text": f"use {SECRET} please"},
        {
            "type": "tool_call",
            "tool": "curl",
            "args": {"api_key": "not-that-long-a-secret", "set-cookie": ["abcdefgh12345678"]},
        },
        {"type": "error", "text": f"refused {SECRET}"},
    )
    first, again = read_one(tmp_path, *events), read_one(tmp_path, *events)
    assert first == again
    [keyed] = read_traces(write(tmp_path, trace_of(*events)), key=b"another")
    assert keyed != first
    text = msgspec.json.encode(first.events).decode()
    assert SECRET not in text
    assert "not-that-long-a-secret" not in text
    assert "abcdefgh12345678" not in text
    assert text.count("[redacted:") == 5
    tags = {event.payload["text"].split("use ")[1].split(" ")[0] for event in first.events[:1]}
    assert tags.pop() in (first.events[2].error or "")


def test_a_secret_across_the_edge_of_an_excerpt_is_not_left_over() -> None:
    bounds = RecordFilter(Redactor(b"key"))
    for start in range(2048 - len(SECRET) - 2, 2050):
        cut = bounds.payload({"text": "x" * start + " " + SECRET + " " + "y" * 9000})["text"]
        assert SECRET[:12] not in cut["excerpt"]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "nothing"),
        (b"hello\n", "not JSON"),
        (b"[]\n", "a list"),
        (b"{}\n", "an empty object"),
        (b'{"a": 1, "b": 2}\n', "an object with a, b"),
        (b"17\n", "a plain value"),
    ],
)
def test_what_is_in_no_known_format_is_refused_with_what_was_found(tmp_path: Path, content: bytes, found: str) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"odd\.json") as refused:
        read_traces(path)
    assert refused.value.message.endswith(found)
    assert all(what in (refused.value.fix or "") for what in FORMATS.values())


@pytest.mark.parametrize(
    ("content", "fix"),
    [
        (b"SQLite format 3\0rest", "export-trajectory"),
        (b"\x28\xb5\x2f\xfdrest", "zstd -d odd"),
        (b"\x1f\x8brest", "gunzip odd"),
        (b"PK\x03\x04rest", "unzip odd"),
    ],
)
def test_what_is_packed_is_refused_with_how_to_unpack_it(tmp_path: Path, content: bytes, fix: str) -> None:
    path = tmp_path / "odd"
    path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        detect_format(path)
    assert fix in (refused.value.fix or "")


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(UsageError):
            detect_format(path)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800")
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
FIELDS = (
    "i",
    "type",
    "tool",
    "args",
    "text",
    "is_error",
    "tool_call_id",
    "ts",
    "tokens_in",
    "agent",
    "duration",
    "model",
)
HOSTILE = st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, VALUES)) | VALUES


@given(events=st.lists(HOSTILE, max_size=6), place=st.integers(0, 6))
def test_whatever_else_stands_in_a_trace_good_events_are_kept(events: list[Any], place: int) -> None:
    good = {"i": 4711, "type": "tool_call", "tool": "good", "args": {"a": 1}, "tool_call_id": "good"}
    events.insert(place, good)
    with tempfile.TemporaryDirectory() as folder:
        [trace] = read_traces(write(Path(folder), {"labels": None, "events": events}))
    kept = [event for event in trace.events if event.tool_name == "good"]
    assert [event.payload["arguments"] for event in kept] == [{"a": 1}]
    assert len(trace.events) == len([event for event in events if isinstance(event, dict)])
    assert is_in_order(trace)
    for event in trace.events:
        assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


@given(garbage=st.binary(max_size=60).filter(lambda data: b"\n" not in data and not data.isspace() and data != b""))
def test_whatever_else_stands_in_a_file_good_traces_are_kept(garbage: bytes) -> None:
    good = trace_of({"type": "user", "text": "x"}, trace_id="good")
    with tempfile.TemporaryDirectory() as folder:
        traces = list(read_traces(write(Path(folder), good, garbage, good)))
    assert [trace.trace_id for trace in traces if trace.events] == ["good", "good"]


@given(content=st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_whatever_a_file_holds_it_is_read_or_refused(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "anything"
        path.write_bytes(content)
        try:
            traces = list(read_traces(path))
        except UsageError as refused:
            assert refused.fix
        else:
            assert traces


def test_event_ids_are_as_the_recorder_makes_them(tmp_path: Path) -> None:
    trace = read_one(tmp_path, {"type": "user", "ts": "2025-03-19T16:32:08.575Z"})
    assert trace.events[0].event_id == event_id_for(1742401928575, "import", 1)


def test_compaction_is_read_with_its_summary(tmp_path: Path) -> None:
    trace = read_one(tmp_path, {"type": "user", "text": "go on"}, {"type": "compaction", "text": "Goal: go on."})
    assert trace.events[-1].event_type == "compaction_end"
    assert trace.events[-1].payload["summary"] == "Goal: go on."
