"""Read OTLP/JSON with OpenTelemetry's own protobuf messages."""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

IDS = ("traceId", "spanId", "parentSpanId")


class ReadSpan(NamedTuple):
    """A span as a collector knows it."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    events: list[tuple[str, int, dict[str, Any]]]
    status: int
    message: str
    links: list[tuple[str, str]]

    def of(self, name: str) -> list[dict[str, Any]]:
        """What its events of that name tell."""
        return [attributes for event, _, attributes in self.events if event == name]


class ReadTrace:
    """All spans of some documents."""

    def __init__(self, *documents: bytes, is_binary: bool = False) -> None:
        self.spans: list[ReadSpan] = []
        self.resource: dict[str, Any] = {}
        self.scope = ("", "")
        for document in documents:
            self._take(_in_binary(document) if is_binary else _as_json(document))

    def named(self, name: str) -> ReadSpan:
        [span] = self.all(name)
        return span

    def all(self, name: str) -> list[ReadSpan]:
        return [span for span in self.spans if span.name == name]

    def parent_of(self, span: ReadSpan) -> ReadSpan:
        [parent] = [each for each in self.spans if each.span_id == span.parent_id]
        return parent

    def tree(self, span: ReadSpan | None = None) -> list[Any]:
        """Names with those of their children, in the order of time."""
        parent_id = "" if span is None else span.span_id
        children = sorted((each for each in self.spans if each.parent_id == parent_id), key=lambda each: each.start_ns)
        return [[each.name, *self.tree(each)] for each in children]

    def _take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            self.resource = _attributes(resource.resource.attributes)
            for scope in resource.scope_spans:
                self.scope = (scope.scope.name, scope.scope.version)
                self.spans += map(_span, scope.spans)


def _as_json(document: bytes) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    # The protocol writes ids in hexadecimal digits, where Protobuf's own JSON has base64; unknown names are errors.
    json_format.ParseDict(_with_base64(json.loads(document)), request)
    return request


def _in_binary(data: bytes) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest.FromString(data)
    # What was not understood is kept, and would be written again.
    assert request.SerializeToString(deterministic=True) == data
    known = ExportTraceServiceRequest()
    known.CopyFrom(request)
    known.DiscardUnknownFields()
    assert known == request
    return request


def _with_base64(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_base64(item) for item in value]
    if not isinstance(value, dict):
        return value
    converted = {name: _with_base64(item) for name, item in value.items()}
    for name in IDS:
        if name in converted:
            converted[name] = base64.b64encode(bytes.fromhex(converted[name])).decode()
    return converted


def _span(span: Any) -> ReadSpan:
    assert (len(span.trace_id), len(span.span_id)) == (16, 8)
    assert len(span.parent_span_id) in (0, 8)
    assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
    return ReadSpan(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.kind,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _attributes(span.attributes),
        [(event.name, event.time_unix_nano, _attributes(event.attributes)) for event in span.events],
        span.status.code,
        span.status.message,
        [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    keys = [pair.key for pair in pairs]
    assert len(keys) == len(set(keys)), "each name occurs once"
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    content = getattr(value, kind)
    return [_value(item) for item in content.values] if kind == "array_value" else content
