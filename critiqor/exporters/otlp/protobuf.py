"""Spans as OTLP/Protobuf, for receivers that do not accept JSON, such as Phoenix.

Only the part of Protobuf that is needed is implemented: a field is its number and wire type, followed by a number or by
bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from critiqor.exporters.otlp.span import Attributes, OtlpSpan, SpanEvent, Value

KINDS = {"internal": 1, "client": 3}
ERROR = 2
_NUMBER, _FIXED64, _BYTES = 0, 1, 2


def request(resource: Attributes, scope: tuple[str, str], trace_id: str, spans: Iterable[OtlpSpan]) -> bytes:
    """Return an ExportTraceServiceRequest; `scope` is the name and the version of the instrumentation."""
    name, version = scope
    scope_spans = _message(1, _text(1, name) + _text(2, version))
    scope_spans += b"".join(_message(2, _span(span, trace_id)) for span in spans)
    return _message(1, _message(1, _attributes(1, resource)) + _message(2, scope_spans))


def partial_success(answer: bytes) -> tuple[int, str]:
    """Return the number of rejected spans and the reason in an ExportTraceServiceResponse.

    Raises `ValueError` if it cannot be parsed.
    """
    rejected, message = 0, ""
    for field, content in _fields(answer):
        if field == 1 and isinstance(content, bytes):
            for number, value in _fields(content):
                if number == 1 and isinstance(value, int):
                    rejected = value
                elif number == 2 and isinstance(value, bytes):
                    message = value.decode("utf-8", "replace")
    return rejected, message


def clamp_int64(number: int) -> int:
    """Return the nearest number that an `int64` of Protobuf can hold."""
    return max(-(1 << 63), min(number, (1 << 63) - 1))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0

    def varint() -> int:
        nonlocal position
        number = 0
        for shift in range(0, 70, 7):
            if position >= len(data):
                break
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise ValueError("the message is truncated or not Protobuf")

    while position < len(data):
        field, kind = divmod(varint(), 8)
        if kind == _NUMBER:
            yield field, varint()
        elif kind == _BYTES:
            size = varint()
            if size > len(data) - position:
                raise ValueError("the message is truncated")
            yield field, data[position : position + size]
            position += size
        else:
            raise ValueError("the response is not from an OTLP collector")


def _span(span: OtlpSpan, trace_id: str) -> bytes:
    message = _message(1, bytes.fromhex(trace_id)) + _message(2, bytes.fromhex(span.id))
    if span.parent is not None:
        message += _message(4, bytes.fromhex(span.parent))
    message += _text(5, span.name) + _number(6, KINDS[span.kind])
    message += _time(7, span.start_us) + _time(8, span.end_us) + _attributes(9, span.attributes)
    message += b"".join(_message(11, _event(event)) for event in span.events)
    if span.failed:
        message += _message(15, (_text(2, span.message) if span.message else b"") + _number(3, ERROR))
    return message


def _event(event: SpanEvent) -> bytes:
    return _time(1, event.at_us) + _text(2, event.name) + _attributes(3, event.attributes)


def _attributes(field: int, attributes: Attributes) -> bytes:
    return b"".join(_message(field, _text(1, name) + _message(2, _value(value))) for name, value in attributes.items())


def _value(value: Value) -> bytes:
    if isinstance(value, bool):
        return _number(2, int(value))
    if isinstance(value, int):
        return _number(3, clamp_int64(value))
    if isinstance(value, float):
        return _key(4, _FIXED64) + struct.pack("<d", value)
    if isinstance(value, list):
        return _message(5, b"".join(_message(1, _value(item)) for item in value))
    return _text(1, value)


def _time(field: int, microseconds: int) -> bytes:
    return _key(field, _FIXED64) + struct.pack("<Q", microseconds * 1000)


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _message(field: int, content: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(content)) + content


def _number(field: int, number: int) -> bytes:
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
