"""Requests with spans as other tools send them, made with OpenTelemetry's own messages, and a receiver for them."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple, Self

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from support import PATIENCE_SECONDS, Runs, critiqor_command, environment

START_NS = 1_794_000_000_000_000_000
OUTPUT = "FAILED test_a.py::test_b - assert 1 == 2\n1 failed, 3 passed in 0.12s"
PROTOBUF, JSON = "application/x-protobuf", "application/json"


def trace_id_of(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


def span_id_of(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8).digest()


class SentSpan(NamedTuple):
    """A span to send."""

    name: str
    parent: str | None
    attributes: dict[str, Any]
    trace: str = "trace"
    start: int = 0
    """Milliseconds since the first one."""
    end: int = 10
    error: str | None = None


def request_of(*spans: SentSpan, service: str = "assistant") -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    _add(resource.resource.attributes, {"service.name": service})
    scope = resource.scope_spans.add()
    for each in spans:
        span = scope.spans.add(name=each.name, trace_id=trace_id_of(each.trace), span_id=span_id_of(each.name), kind=1)
        if each.parent is not None:
            span.parent_span_id = span_id_of(each.parent)
        span.start_time_unix_nano = START_NS + each.start * 1_000_000
        span.end_time_unix_nano = START_NS + each.end * 1_000_000
        _add(span.attributes, each.attributes)
        if each.error is not None:
            span.status.code = Status.STATUS_CODE_ERROR
            _add(span.events.add(name="exception").attributes, {"exception.message": each.error})
    return request


def as_json(request: ExportTraceServiceRequest) -> bytes:
    """Return a request as OTLP/JSON, whose ids are hexadecimal."""
    document = json_format.MessageToDict(request)
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in span.keys() & {"traceId", "spanId", "parentSpanId"}:
                    span[name] = base64.b64decode(span[name]).hex()
    return json.dumps(document).encode()


def _add(attributes: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        _set(attributes.add(key=name).value, value)


def _set(target: AnyValue, value: Any) -> None:
    if isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int):
        target.int_value = value
    elif isinstance(value, float):
        target.double_value = value
    elif isinstance(value, bytes):
        target.bytes_value = value
    elif isinstance(value, list):
        target.array_value.SetInParent()
        for item in value:
            _set(target.array_value.values.add(), item)
    elif isinstance(value, dict):
        target.kvlist_value.SetInParent()
        _add(target.kvlist_value.values, value)
    else:
        target.string_value = value


def openinference(trace: str = "trace") -> list[SentSpan]:
    """An agent run as Phoenix's instrumentation reports it."""
    kind = "openinference.span.kind"
    asked = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "Run the tests."}
    said = {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "All tests pass.",
    }
    model = {"llm.model_name": "m", "llm.token_count.prompt": 900, "llm.token_count.completion": 30}
    command = {"tool.name": "exec", "input.value": '{"command": "pytest -q"}', "output.value": OUTPUT}
    return [
        SentSpan(f"{trace} first", f"{trace} agent", {kind: "LLM", **asked, **model}, trace, 10, 90),
        SentSpan(f"{trace} tool", f"{trace} agent", {kind: "TOOL", **command}, trace, 100, 200),
        SentSpan(f"{trace} model", f"{trace} agent", {kind: "LLM", **asked, **said, **model}, trace, 210, 300),
        SentSpan(f"{trace} agent", None, {kind: "AGENT", "input.value": "Run the tests."}, trace, 0, 310),
    ]


def gen_ai(trace: str = "trace") -> list[SentSpan]:
    """The same by OpenTelemetry's GenAI conventions."""
    name = "gen_ai.operation.name"
    messages = [{"role": "user", "parts": [{"type": "text", "content": "Run the tests."}]}]
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": "All tests pass."}], "finish_reason": "stop"}]
    model = {
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 900,
        "gen_ai.usage.output_tokens": 30,
        "gen_ai.input.messages": json.dumps(messages),
        "gen_ai.output.messages": json.dumps(answer),
    }
    command = {
        "gen_ai.tool.name": "exec",
        "gen_ai.tool.call.arguments": '{"command": "pytest -q"}',
        "gen_ai.tool.call.result": OUTPUT,
    }
    asked = {"gen_ai.input.messages": json.dumps(messages)}
    first = {key: value for key, value in model.items() if key != "gen_ai.output.messages"}
    return [
        SentSpan(f"{trace} first", f"{trace} agent", {name: "chat", **first}, trace, 10, 90),
        SentSpan(f"{trace} tool", f"{trace} agent", {name: "execute_tool", **command}, trace, 100, 200),
        SentSpan(f"{trace} model", f"{trace} agent", {name: "chat", **model}, trace, 210, 300),
        SentSpan(f"{trace} agent", None, {name: "invoke_agent", **asked}, trace, 0, 310),
    ]


def openllmetry(trace: str = "trace") -> list[SentSpan]:
    """The same as Traceloop's instrumentation reports it."""
    kind = "traceloop.span.kind"
    model = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.prompt_tokens": 900,
        "gen_ai.usage.completion_tokens": 30,
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Run the tests.",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "All tests pass.",
    }
    command = {
        "traceloop.entity.name": "exec",
        "traceloop.entity.input": '{"command": "pytest -q"}',
        "traceloop.entity.output": OUTPUT,
    }
    first = {key: value for key, value in model.items() if "completion.0" not in key}
    return [
        SentSpan(f"{trace} first", f"{trace} agent", first, trace, 10, 90),
        SentSpan(f"{trace} tool", f"{trace} agent", {kind: "tool", **command}, trace, 100, 200),
        SentSpan(f"{trace} model", f"{trace} agent", model, trace, 210, 300),
        SentSpan(f"{trace} agent", None, {kind: "workflow"}, trace, 0, 310),
    ]


class Reply(NamedTuple):
    """Answer of a receiver."""

    status: int
    headers: dict[str, str]
    body: bytes


def post(port: int, body: bytes, media_type: str = PROTOBUF, path: str = "/v1/traces", **headers: str) -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request("POST", path, body, {"Content-Type": media_type, **named})
        response = connection.getresponse()
        return Reply(
            response.status, {name.lower(): value for name, value in response.headers.items()}, response.read()
        )
    finally:
        connection.close()


class ReceiverProcess:
    """`critiqor receive` in a process of its own. As a context manager, it is killed at the end."""

    def __init__(self, runs: Runs, home: Path, *options: str, **variables: str) -> None:
        self.errors = home / "receiver.err"
        self.process = subprocess.Popen(
            critiqor_command("receive", "--json", "--port", "0", "--runs-dir", runs.folder, *options),
            cwd=home,
            env={**environment(home), **variables},
            stdout=subprocess.PIPE,
            stderr=self.errors.open("wb"),
            text=True,
        )
        self.port: int = self.line()["port"]
        self.url = f"http://127.0.0.1:{self.port}"

    def line(self) -> dict[str, Any]:
        """Return the next line that it prints."""
        assert self.process.stdout is not None
        data: dict[str, Any] = json.loads(self.process.stdout.readline())["data"]
        return data

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
