from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from critiqor.importers import ImportedTrace, detect_format, read_traces
from critiqor.model import Event

START = 1_742_401_928_000_000_000
SECOND = 1_000_000_000


def value_of(value: Any) -> dict[str, Any]:
    """Return a value in the typed form of OTLP/JSON."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [value_of(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": name, "value": value_of(item)} for name, item in value.items()]}}
    return {"stringValue": value}


def otlp(span_id: str, parent: str | None, start: float, end: float | None, **fields: Any) -> dict[str, Any]:
    """Return a span in OTLP/JSON; times are seconds after the start."""
    attributes = fields.pop("attributes", {})
    span = {
        "traceId": fields.pop("trace", "t1"),
        "spanId": span_id,
        "parentSpanId": parent or "",
        "name": fields.pop("name", span_id),
        "startTimeUnixNano": str(START + int(start * SECOND)),
        "attributes": [{"key": name, "value": value_of(value)} for name, value in attributes.items()],
        **fields,
    }
    return span if end is None else {**span, "endTimeUnixNano": str(START + int(end * SECOND))}


def envelope(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "x"}, "spans": list(spans)}]}]}


def read(folder: Path, document: Any, name: str = "spans.json") -> list[ImportedTrace]:
    path = folder / name
    path.write_text(json.dumps(document))
    return list(read_traces(path))


def read_one(folder: Path, *spans: dict[str, Any]) -> ImportedTrace:
    [trace] = read(folder, envelope(*spans))
    return trace


def kinds(trace: ImportedTrace) -> list[str]:
    return [event.event_type for event in trace.events]


def of(trace: ImportedTrace, kind: str) -> list[Event]:
    return [event for event in trace.events if event.event_type == kind]


def kind(name: str, **attributes: Any) -> dict[str, Any]:
    return {"openinference.span.kind": name, **attributes}


TASK = {"role": "user", "parts": [{"type": "text", "content": "what is the weather?"}]}
ANSWER = {
    "role": "assistant",
    "parts": [{"type": "text", "content": "I look."}, {"type": "tool_call", "id": "c1", "name": "weather"}],
    "finish_reason": "tool_call",
}


def genai() -> list[dict[str, Any]]:
    """Return an agent run with model calls and a tool call, by the GenAI conventions."""
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "gen_ai.input.messages": json.dumps([TASK]),
        "gen_ai.output.messages": json.dumps([ANSWER]),
    }
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.arguments": '{"city": "Kiel"}',
        "gen_ai.tool.call.result": "rain",
    }
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper", "gen_ai.conversation.id": "talk-9"}
    return [
        otlp("tool", "agent", 2, 2.5, name="execute_tool weather", attributes=tool),
        otlp("agent", None, 0, 4, name="invoke_agent helper", attributes=agent),
        otlp("chat", "agent", 0.5, 1.5, name="chat gpt-x", attributes=chat),
    ]


def openinference() -> list[dict[str, Any]]:
    """Return the same as Phoenix exports it, with attributes both nested and with dots."""
    base: dict[str, Any] = {"status_code": "OK", "status_message": "", "events": []}

    def span(span_id: str, parent: str | None, start: str, end: str, **fields: Any) -> dict[str, Any]:
        times = {"start_time": f"2025-03-19T16:32:{start}+00:00", "end_time": f"2025-03-19T16:32:{end}+00:00"}
        return {**base, "context": {"trace_id": "t1", "span_id": span_id}, "parent_id": parent, **times, **fields}

    message = {"role": "assistant", "content": "I look."}
    called = {"tool_call": {"id": "c1", "function": {"name": "weather", "arguments": "{}"}}}
    model = {
        "llm.model_name": "gpt-x",
        "llm.provider": "openai",
        "llm.token_count.prompt": 100,
        "llm.token_count.completion": 7,
        "llm.token_count.prompt_details.cache_read": 40,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "I look.",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "weather",
    }
    nested = {
        "openinference": {"span": {"kind": "LLM"}},
        "llm": {
            "model_name": "gpt-x",
            "provider": "openai",
            "token_count": {"prompt": 100, "completion": 7, "prompt_details": {"cache_read": 40}},
            "output_messages": [{"message": {**message, "tool_calls": [called]}}],
        },
    }
    tool = {"tool": {"name": "weather"}, "input": {"value": '{"city": "Kiel"}'}, "output": {"value": "rain"}}
    return [
        span("agent", None, "08.000000", "12.000000", name="helper", span_kind="AGENT",
             attributes={"input.value": '{"task": "what is the weather?"}', "output.value": "rain, all day"}),
        span("chat", "agent", "08.500000", "09.500000", name="chat", attributes=kind("LLM", **model)),
        span("chat2", "agent", "09.600000", "09.700000", name="chat", attributes=nested),
        span("tool", "agent", "10.000000", "10.500000", name="run", span_kind="TOOL", attributes=tool),
    ]  # fmt: skip


def test_genai_conventions_in_otlp(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(envelope(*genai()), indent=2))
    assert detect_format(path) == "otel_spans"
    [trace] = read_traces(path)
    assert (trace.trace_id, trace.notes) == ("t1", [])
    assert kinds(trace) == [
        "agent_start",
        "input",
        "before_provider_request",
        "token_usage",
        "message_end",
        "tool_call",
        "tool_output",
        "agent_end",
    ]
    [asked] = of(trace, "input")
    assert asked.payload["text"] == "what is the weather?"
    [usage] = of(trace, "token_usage")
    assert usage.payload["usage"] == {"input": 60, "output": 7, "cacheRead": 40}
    assert (usage.payload["model"], usage.payload["provider"], usage.duration_ms) == ("gpt-x", "openai", 1000)
    [said] = of(trace, "message_end")
    assert (said.payload["text"], said.payload["stop_reason"]) == ("I look.", "tool_call")
    assert said.payload["tool_calls"] == [{"id": "c1", "name": "weather"}]
    [call], [result] = of(trace, "tool_call"), of(trace, "tool_output")
    assert (call.tool_name, call.tool_call_id, call.payload["arguments"]) == ("weather", "c1", {"city": "Kiel"})
    assert (result.tool_name, result.tool_call_id, result.payload["result"]) == ("weather", "c1", "rain")
    assert (call.duration_ms, result.duration_ms) == (None, 500)
    assert call.timestamp == "2025-03-19T16:32:10.000Z"
    assert {event.agent_run_id for event in trace.events} == {"agent"}
    assert {event.session_key for event in trace.events} == {"talk-9"}


@pytest.mark.parametrize("shape", ["list", "wrapped", "lines"])
def test_openinference_as_phoenix_exports_it(tmp_path: Path, shape: str) -> None:
    spans = openinference()
    path = tmp_path / "spans.json"
    if shape == "lines":
        path.write_text("".join(json.dumps(span) + "\n" for span in spans))
    else:
        path.write_text(json.dumps(spans if shape == "list" else {"data": spans, "next_cursor": None}))
    [trace] = read_traces(path)
    assert kinds(trace) == [
        "agent_start",
        "input",
        *["before_provider_request", "token_usage", "message_end"] * 2,
        "tool_call",
        "tool_output",
        "agent_end",
    ]
    usages = [event.payload["usage"] for event in of(trace, "token_usage")]
    assert usages == [{"input": 60, "output": 7, "cacheRead": 40}] * 2
    assert [event.payload["text"] for event in of(trace, "message_end")] == ["I look."] * 2
    calls = [event.payload["tool_calls"] for event in of(trace, "message_end")]
    assert calls == [[{"id": "c1", "name": "weather"}]] * 2
    assert of(trace, "input")[0].payload["text"] == "what is the weather?"
    assert of(trace, "agent_end")[0].payload["text"] == "rain, all day"
    assert of(trace, "tool_call")[0].payload["arguments"] == {"city": "Kiel"}


def test_spans_of_a_table_and_spans_that_hold_their_children(tmp_path: Path) -> None:
    flat = {
        "name": "run",
        "context.span_id": "s1",
        "context.trace_id": "t1",
        "attributes.openinference.span.kind": "TOOL",
        "attributes.tool.name": "weather",
        "attributes.input.value": '{"city": "Kiel"}',
        "start_time": "2025-03-19T16:32:08Z",
        "end_time": "2025-03-19T16:32:09Z",
    }
    [table] = read(tmp_path, [flat])
    child = {
        "span_name": "run",
        "span_id": "s2",
        "timestamp": "2025-03-19T16:32:08Z",
        "duration": "PT1S",
        "span_attributes": {
            "openinference.span.kind": "TOOL",
            "tool.name": "weather",
            "input.value": '{"city": "Kiel"}',
        },
    }
    nested = {"trace_id": "t1", "spans": [{"trace_id": "t1", "span_id": "s1", "span_name": "main",
              "timestamp": "2025-03-19T16:32:07Z", "duration": "PT3S",
              "span_attributes": {"openinference.span.kind": "AGENT"}, "child_spans": [child]}]}  # fmt: skip
    [held] = read(tmp_path, nested)
    for trace in (table, held):
        [call], [result] = of(trace, "tool_call"), of(trace, "tool_output")
        assert (call.tool_name, call.payload["arguments"], result.duration_ms) == ("weather", {"city": "Kiel"}, 1000)
    assert of(held, "tool_call")[0].agent_run_id == "s1"


def test_a_failed_span_says_what_went_wrong(tmp_path: Path) -> None:
    exception = {
        "name": "exception",
        "attributes": [
            {"key": "exception.type", "value": {"stringValue": "TimeoutError"}},
            {"key": "exception.message", "value": {"stringValue": "no answer"}},
        ],
    }
    trace = read_one(
        tmp_path,
        otlp("agent", None, 0, 9, attributes=kind("AGENT"), status={"code": "STATUS_CODE_ERROR"}),
        otlp("step", "agent", 1, 8, attributes=kind("CHAIN"), status={"code": 2, "message": "same again"}),
        otlp("tool", "step", 2, 3, attributes=kind("TOOL"), status={"code": 2, "message": "short"}, events=[exception]),
        otlp("llm", "agent", 4, 5, attributes=kind("LLM"), status={"code": 2, "message": "overloaded"}),
        otlp("other", "agent", 6, 7, attributes=kind("CHAIN"), status={"code": 2, "message": "parse error"}),
    )
    failed = [(event.event_type, event.error) for event in trace.events if event.status == "error"]
    # A failure in the tool is not reported again by the enclosing span.
    assert failed == [
        ("tool_output", "TimeoutError: no answer"),
        ("token_usage", "overloaded"),
        ("error", "parse error"),
        ("agent_end", "no error message was given"),
    ]


def test_a_retriever_is_a_lookup(tmp_path: Path) -> None:
    found = {f"retrieval.documents.{n}.document.content": f"page {n}" for n in range(2)}
    trace = read_one(
        tmp_path,
        otlp("a", None, 0, 1, name="search", attributes=kind("RETRIEVER", **{"input.value": "fence", **found})),
        otlp("b", None, 2, 3, name="search", attributes=kind("RETRIEVER", **{"retrieval.documents": []})),
    )
    lookups = [(event.payload["lookup"], event.payload.get("query")) for event in of(trace, "memory_event")]
    assert lookups == [("pending", "fence"), ("found", "fence"), ("pending", None), ("empty", None)]
    assert of(trace, "tool_output")[0].payload["result"]["results"] == [{"content": "page 0"}, {"content": "page 1"}]


def test_spans_below_an_agent_belong_to_that_agent(tmp_path: Path) -> None:
    trace = read_one(
        tmp_path,
        otlp("boss", None, 0, 9, attributes=kind("AGENT")),
        otlp("step", "boss", 1, 8, attributes=kind("CHAIN")),
        otlp("helper", "step", 2, 7, attributes=kind("AGENT")),
        otlp("t1", "helper", 3, 4, attributes=kind("TOOL")),
        otlp("t2", "step", 7, 8, attributes=kind("TOOL")),
        otlp("t3", None, 10, 11, attributes=kind("TOOL")),
    )
    assert {event.tool_name: event.agent_run_id for event in of(trace, "tool_call")} == {
        "t1": "helper",
        "t2": "boss",
        "t3": "main",
    }
    assert "spans that belong to no agent, model or tool, left out: 1 (step)" in trace.notes


def test_a_chain_around_everything_is_the_agent(tmp_path: Path) -> None:
    trace = read_one(
        tmp_path,
        otlp("graph", None, 0, 9, attributes=kind("CHAIN", **{"input.value": "do it", "output.value": "did it"})),
        otlp("t1", "graph", 3, 4, attributes=kind("TOOL")),
    )
    assert kinds(trace) == ["agent_start", "input", "tool_call", "tool_output", "agent_end"]


def test_a_model_call_reported_twice_counts_once(tmp_path: Path) -> None:
    usage = {"llm.token_count.prompt": 10, "llm.token_count.completion": 1}
    trace = read_one(
        tmp_path,
        otlp("framework", None, 0, 9, attributes=kind("LLM")),
        otlp("glue", "framework", 1, 8, attributes=kind("CHAIN")),
        otlp("client", "glue", 2, 7, attributes=kind("LLM", **usage)),
    )
    [response] = of(trace, "token_usage")
    assert response.payload["usage"] == {"input": 10, "output": 1}
    assert any("counted once" in note for note in trace.notes)


def test_spans_of_openclaws_own_exporter(tmp_path: Path) -> None:
    chat = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "exec"}
    trace = read_one(
        tmp_path,
        otlp("run", None, 0, 9, name="openclaw.run"),
        otlp("call", "run", 1, 2, name="openclaw.model.call", attributes=chat),
        otlp("sum", "run", 8, 8, name="openclaw.model.usage", attributes=chat),
        otlp("tool", "run", 3, 4, name="openclaw.tool.execution", attributes=tool),
        otlp("exec", "tool", 3, 4, name="openclaw.exec", attributes={"openclaw.exec.exit_code": 3}),
    )
    assert len(of(trace, "token_usage")) == 1
    assert {event.agent_run_id for event in trace.events} == {"run"}
    assert [event.error for event in of(trace, "tool_output")] == ["exit code 3"]


def test_each_trace_of_a_file_is_a_separate_run(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    lines = [
        json.dumps(envelope(otlp("a", None, 0, 1, trace="t1", attributes=kind("TOOL")))),
        "broken",
        json.dumps({"unrelated": True}),
        json.dumps(envelope(otlp("b", None, 0, 1, trace="t2", attributes=kind("TOOL")))),
        json.dumps(envelope(otlp("c", None, 2, 3, trace="t1", attributes=kind("TOOL")))),
    ]
    path.write_text("\n".join(lines))
    traces = {trace.trace_id: trace for trace in read_traces(path)}
    assert {name: len(trace.events) for name, trace in traces.items()} == {"t1": 4, "t2": 2}
    for trace in traces.values():
        assert trace.notes == ["lines that could not be read: 2 (2: not JSON, 3: no span)"]


def test_spans_that_are_out_of_order_in_every_way(tmp_path: Path) -> None:
    tool = kind("TOOL")
    backwards = otlp("backwards", None, 5, 4, attributes=tool)
    timeless = otlp("timeless", "backwards", 0, None, attributes=tool)
    del timeless["startTimeUnixNano"]
    circle = [otlp("x", "y", 6, 7, attributes=tool), otlp("y", "x", 6, 7, attributes=tool)]
    itself = otlp("itself", "itself", 8, 9, attributes=tool)
    twice = otlp("twice", None, 1, 2, attributes=tool)
    trace = read_one(
        tmp_path,
        backwards,
        timeless,
        *circle,
        itself,
        twice,
        twice,
        {**twice, "name": "other"},
        otlp("orphan", "nobody", 3, 4, attributes=tool),
        otlp("unfinished", None, 9, None, attributes=tool),
        {**otlp("nowhere", None, 3, 4, attributes=tool), "traceId": "t1", "parentSpanId": "0000000000000000"},
    )
    assert sorted(event.tool_name or "" for event in of(trace, "tool_call")) == sorted(
        ["backwards", "timeless", "x", "y", "itself", "twice", "other", "orphan", "unfinished", "nowhere"]
    )
    assert "unfinished" not in {event.tool_name for event in of(trace, "tool_output")}
    assert [event.event_id for event in trace.events] == sorted({event.event_id for event in trace.events})
    notes = " ".join(trace.notes)
    for problem in (
        "occur twice: 2",
        "parent is missing: 1",
        "own ancestors: 2",
        "before they began: 1",
        "never ended: 2",
    ):
        assert problem in notes


def test_a_span_of_no_time_begins_before_it_ends(tmp_path: Path) -> None:
    trace = read_one(
        tmp_path,
        otlp("agent", None, 0, 1, attributes=kind("AGENT")),
        otlp("t1", "agent", 0, 0, attributes=kind("TOOL")),
        otlp("t2", "agent", 0, 1, attributes=kind("TOOL")),
        otlp("t3", "agent", 1, 1, attributes=kind("TOOL")),
    )
    steps = [(event.event_type, event.tool_name) for event in trace.events]
    assert steps == [
        ("agent_start", None),
        ("tool_call", "t1"),
        ("tool_output", "t1"),
        ("tool_call", "t2"),
        ("tool_output", "t2"),
        ("tool_call", "t3"),
        ("tool_output", "t3"),
        ("agent_end", None),
    ]


def test_a_very_deep_trace_is_read(tmp_path: Path) -> None:
    spans = [otlp(f"s{n}", f"s{n - 1}" if n else None, n, 10_000, attributes=kind("TOOL")) for n in range(5000)]
    trace = read_one(tmp_path, *spans)
    assert len(trace.events) == 10_000


def test_spans_without_a_trace_id_are_taken_together(tmp_path: Path) -> None:
    spans = [otlp(f"s{n}", None, n, n + 1, attributes=kind("TOOL")) for n in range(2)]
    for span in spans:
        del span["traceId"]
    [trace] = read(tmp_path, envelope(*spans), name="run7.json")
    assert trace.trace_id == "run7"
    assert any("without a trace id" in note for note in trace.notes)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))
ATTRIBUTES = st.dictionaries(
    st.sampled_from(
        ["openinference.span.kind", "gen_ai.operation.name", "gen_ai.output.messages", "llm.output_messages",
         "llm.output_messages.0.message.content", "llm.output_messages.0", "retrieval.documents", "input.value",
         "output.value", "tool.name", "llm.token_count.prompt", "gen_ai.tool.call.arguments", "llm"]
    ),
    st.sampled_from(["LLM", "TOOL", "AGENT", "RETRIEVER", "CHAIN", "chat", "execute_tool", '[{"role": 1}]']) | VALUES,
)  # fmt: skip
IDS = st.sampled_from(["a", "b", "c"]) | VALUES
SPANS = st.fixed_dictionaries(
    {"span_id": IDS, "name": VALUES},
    optional={
        "trace_id": st.just("t1") | VALUES,
        "parent_id": IDS,
        "start_time": VALUES,
        "end_time": VALUES,
        "attributes": ATTRIBUTES | VALUES,
        "status": st.fixed_dictionaries({"code": st.just(2) | VALUES}, optional={"message": VALUES}) | VALUES,
        "events": VALUES,
        "children": st.lists(VALUES, max_size=2),
    },
)


@given(spans=st.lists(SPANS | VALUES, max_size=6))
def test_good_spans_are_kept_whatever_else_is_in_the_file(spans: list[Any]) -> None:
    good = otlp("good", None, 0, 1, trace="good", attributes=kind("TOOL", **{"tool.name": "good"}))
    with tempfile.TemporaryDirectory() as folder:
        traces = read(Path(folder), [*spans, good])
    [kept] = [trace for trace in traces if trace.trace_id == "good"]
    assert [event.event_type for event in kept.events if event.tool_name == "good"] == ["tool_call", "tool_output"]
    for trace in traces:
        assert [event.event_id for event in trace.events] == sorted({event.event_id for event in trace.events})
        for event in trace.events:
            assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event
