"""Spans as OTLP/Protobuf, for receivers that do not accept JSON, such as Phoenix.

Only the part of Protobuf that is needed is implemented: a field is its number and wire type, followed by a number or by
bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from critiqor.exporters.otlp.span import Attributes, OtlpSpan, SpanEvent, Value
from critiqor.importers.otel.protobuf import fields

KINDS = {"internal": 1, "client": 3}
ERROR = 2
_NUMBER, _FIXED64, _BYTES = 0, 1, 2


def request(resource: Attributes, scope: tuple[str, str], spans: Iterable[OtlpSpan]) -> bytes:
    """Return an ExportTraceServiceRequest; `scope` is the name and the version of the instrumentation."""
    name, version = scope
    scope_spans = bytes_field(1, _text(1, name) + _text(2, version))
    scope_spans += b"".join(bytes_field(2, _span(span)) for span in spans)
    return bytes_field(1, bytes_field(1, _attributes(1, resource)) + bytes_field(2, scope_spans))


def partial_success(answer: bytes) -> tuple[int, str]:
    """Return the number of rejected spans and the reason in an ExportTraceServiceResponse.

    Raises `ValueError` if it cannot be parsed.
    """
    rejected, message = 0, ""
    for field, content in fields(answer):
        if field == 1 and isinstance(content, bytes):
            for number, value in fields(content):
                if number == 1 and isinstance(value, int):
                    rejected = value
                elif number == 2 and isinstance(value, bytes):
                    message = value.decode("utf-8", "replace")
    return rejected, message


def clamp_int64(number: int) -> int:
    """Return the nearest number that an `int64` of Protobuf can hold."""
    return max(-(1 << 63), min(number, (1 << 63) - 1))


def _span(span: OtlpSpan) -> bytes:
    message = bytes_field(1, bytes.fromhex(span.trace_id)) + bytes_field(2, bytes.fromhex(span.id))
    if span.parent is not None:
        message += bytes_field(4, bytes.fromhex(span.parent))
    message += _text(5, span.name) + number_field(6, KINDS[span.kind])
    message += _time(7, span.start_us) + _time(8, span.end_us) + _attributes(9, span.attributes)
    message += b"".join(bytes_field(11, _event(event)) for event in span.events)
    if span.link is not None:
        message += bytes_field(
            13, bytes_field(1, bytes.fromhex(span.link.trace_id)) + bytes_field(2, bytes.fromhex(span.link.span_id))
        )
    if span.failed:
        message += bytes_field(15, (_text(2, span.message) if span.message else b"") + number_field(3, ERROR))
    return message


def _event(event: SpanEvent) -> bytes:
    return _time(1, event.at_us) + _text(2, event.name) + _attributes(3, event.attributes)


def _attributes(field: int, attributes: Attributes) -> bytes:
    pairs = (_text(1, name) + bytes_field(2, _value(value)) for name, value in attributes.items())
    return b"".join(bytes_field(field, pair) for pair in pairs)


def _value(value: Value) -> bytes:
    if isinstance(value, bool):
        return number_field(2, int(value))
    if isinstance(value, int):
        return number_field(3, clamp_int64(value))
    if isinstance(value, float):
        return _key(4, _FIXED64) + struct.pack("<d", value)
    if isinstance(value, list):
        return bytes_field(5, b"".join(bytes_field(1, _value(item)) for item in value))
    return _text(1, value)


def _time(field: int, microseconds: int) -> bytes:
    return _key(field, _FIXED64) + struct.pack("<Q", microseconds * 1000)


def _text(field: int, text: str) -> bytes:
    return bytes_field(field, text.encode())


def bytes_field(field: int, content: bytes) -> bytes:
    """Return a field with a text or another message."""
    return _key(field, _BYTES) + _varint(len(content)) + content


def number_field(field: int, number: int) -> bytes:
    """Return a field with a number."""
    return _key(field, _NUMBER) + _varint(number & (1 << 64) - 1)


def _key(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(number: int) -> bytes:
    """Encode a number with seven bits per byte, the lowest first."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)
