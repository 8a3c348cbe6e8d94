"""Spans as OTLP/JSON: the format of `/v1/traces` and of the collector's file exporter, on one line.

Ids are hexadecimal and integers are strings, as the protocol requires.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from critiqor.exporters.otlp import protobuf
from critiqor.exporters.otlp.attributes import resource_of
from critiqor.exporters.otlp.span import Attributes, OtlpSpan, SpanEvent, Value
from critiqor.exporters.otlp.span_builder import build_spans, trace_id_of
from critiqor.model.report import Recorded

MAX_SPANS = 500
"""Maximum number of spans per request."""
MAX_CHARACTERS = 1 << 20
"""Maximum number of characters per request before its last span: collectors refuse much larger requests."""
SCOPE = "critiqor"
_END = b"]}]}]}"

_encode = msgspec.json.encode


class Request(NamedTuple):
    """One request to a collector, as JSON or Protobuf."""

    recorded: Recorded
    spans: list[OtlpSpan]

    def json(self) -> bytes:
        """Return the request as OTLP/JSON."""
        trace_id = trace_id_of(self.recorded.run)
        return _begin(self.recorded) + b",".join(_encode(_span(span, trace_id)) for span in self.spans) + _END

    def protobuf(self) -> bytes:
        """Return the request as OTLP/Protobuf, which every receiver accepts."""
        run = self.recorded.run
        return protobuf.request(resource_of(run), (SCOPE, self.recorded.version), trace_id_of(run), self.spans)


def report(recorded: Recorded) -> Iterator[bytes]:
    """Yield all spans as one OTLP document, in pieces."""
    yield _begin(recorded)
    trace_id = trace_id_of(recorded.run)
    between = b""
    for span in build_spans(recorded):
        yield between + _encode(_span(span, trace_id))
        between = b","
    yield _END + b"\n"


def requests(recorded: Recorded) -> Iterator[Request]:
    """Yield all spans as requests of a size that collectors accept."""
    waiting: list[OtlpSpan] = []
    size = 0
    for span in build_spans(recorded):
        waiting.append(span)
        size += sum(len(text) for text in span.attributes.values() if isinstance(text, str))
        if len(waiting) == MAX_SPANS or size >= MAX_CHARACTERS:
            yield Request(recorded, waiting)
            waiting, size = [], 0
    if waiting:
        yield Request(recorded, waiting)


def _begin(recorded: Recorded) -> bytes:
    resource = _encode({"attributes": _pairs(resource_of(recorded.run))})
    scope = _encode({"name": SCOPE, "version": recorded.version})
    return b'{"resourceSpans":[{"resource":' + resource + b',"scopeSpans":[{"scope":' + scope + b',"spans":['


def _span(span: OtlpSpan, trace_id: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"traceId": trace_id, "spanId": span.id}
    if span.parent is not None:
        fields["parentSpanId"] = span.parent
    fields |= {
        "name": span.name,
        "kind": protobuf.KINDS[span.kind],
        "startTimeUnixNano": str(span.start_us * 1000),
        "endTimeUnixNano": str(span.end_us * 1000),
        "attributes": _pairs(span.attributes),
        "events": list(map(_event, span.events)),
    }
    if span.failed:
        fields["status"] = {"code": protobuf.ERROR, **({"message": span.message} if span.message else {})}
    return fields


def _event(event: SpanEvent) -> dict[str, Any]:
    return {"timeUnixNano": str(event.at_us * 1000), "name": event.name, "attributes": _pairs(event.attributes)}


def _pairs(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items()]


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(protobuf.clamp_int64(value))}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": list(map(_value, value))}}
    return {"stringValue": value}
