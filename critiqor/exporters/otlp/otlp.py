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
        return _begin(self.recorded) + b",".join(_encode(_span(span)) for span in self.spans) + _END

    def protobuf(self) -> bytes:
        """Return the request as OTLP/Protobuf, which every receiver accepts."""
        return protobuf.request(_resource(self.recorded), (SCOPE, self.recorded.version), self.spans)


def report(recorded: Recorded) -> Iterator[bytes]:
    """Yield all spans as one OTLP document, in pieces."""
    yield _begin(recorded)
    between = b""
    for span in build_spans(recorded):
        yield between + _encode(_span(span))
        between = b","
    yield _END + b"\n"


def requests(recorded: Recorded) -> Iterator[Request]:
    """Yield all spans as requests of a size that collectors accept."""
    batch = Batch(recorded)
    for span in build_spans(recorded):
        batch.add(span)
        if batch.is_full:
            yield batch.take()
    if batch.spans:
        yield batch.take()


class Batch:
    """Spans that are to be sent in one request."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._characters = 0
        self.spans: list[OtlpSpan] = []

    @property
    def is_full(self) -> bool:
        """Whether a request with one more span might be too large for a collector."""
        return len(self.spans) >= MAX_SPANS or self._characters >= MAX_CHARACTERS

    def add(self, span: OtlpSpan) -> None:
        """Add a span."""
        self.spans.append(span)
        self._characters += sum(len(text) for text in span.attributes.values() if isinstance(text, str))

    def take(self) -> Request:
        """Remove all spans and return the request with them."""
        spans, self.spans, self._characters = self.spans, [], 0
        return Request(self._recorded, spans)


def _resource(recorded: Recorded) -> Attributes:
    return resource_of(recorded.run, trace_id_of(recorded.run))


def _begin(recorded: Recorded) -> bytes:
    resource = _encode({"attributes": _pairs(_resource(recorded))})
    scope = _encode({"name": SCOPE, "version": recorded.version})
    return b'{"resourceSpans":[{"resource":' + resource + b',"scopeSpans":[{"scope":' + scope + b',"spans":['


def _span(span: OtlpSpan) -> dict[str, Any]:
    fields: dict[str, Any] = {"traceId": span.trace_id, "spanId": span.id}
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
    if span.link is not None:
        fields["links"] = [{"traceId": span.link.trace_id, "spanId": span.link.span_id}]
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
