"""OTLP/Protobuf: the fields of a message, and a request with spans in the form of OTLP/JSON.

Only the part of Protobuf that is needed is implemented. Whatever the bytes are, the result is not much larger than they
are, nesting is bounded, and `ValueError` is the only error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 32
"""Levels of nesting in the value of an attribute; what is deeper is left out."""
_NUMBER, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}
Field = tuple[int, int | bytes]
"""The number of a field and its content: a number, or the bytes of a text or of another message."""


def fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a message in order. Raise `ValueError` if it is truncated or no Protobuf."""
    position, end = 0, len(data)
    while position < end:
        key, position = _varint(data, position)
        number, kind = key >> 3, key & 7
        if kind == _BYTES:
            size, position = _varint(data, position)
            if size > end - position:
                raise ValueError("a field is longer than its message")
            yield number, data[position : position + size]
            position += size
        elif kind == _NUMBER:
            content, position = _varint(data, position)
            yield number, content
        elif kind in _SIZES:
            size = _SIZES[kind]
            if size > end - position:
                raise ValueError("the message is truncated")
            yield number, int.from_bytes(data[position : position + size], "little")
            position += size
        else:
            raise ValueError("the message is not Protobuf")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number with seven bits per byte, the lowest first, and the position behind it."""
    try:
        byte = data[position]
        if byte < 0x80:
            return byte, position + 1
        number, shift = byte & 0x7F, 7
        while shift < 70:
            position += 1
            byte = data[position]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number, position + 1
            shift += 7
    except IndexError:
        raise ValueError("the message is truncated") from None
    raise ValueError("a number is longer than ten bytes")


def parse_request(data: bytes) -> dict[str, Any]:
    """Return an ExportTraceServiceRequest in the form of OTLP/JSON, with attributes as objects."""
    return {"resourceSpans": [_resource_spans(item) for item in _messages(data, 1)]}


def resource_attributes(data: bytes) -> dict[str, Any]:
    """Return the attributes of a Resource."""
    return _attributes(_messages(data, 1))


def _resource_spans(data: bytes) -> dict[str, Any]:
    resource: dict[str, Any] = {}
    scopes = []
    for number, content in fields(data):
        if isinstance(content, bytes):
            if number == 1:
                resource = resource_attributes(content)
            elif number == 2:
                scopes.append({"spans": [_span(item) for item in _messages(content, 2)]})
    return {"resource": {"attributes": resource}, "scopeSpans": scopes}


_IDS = {1: "traceId", 2: "spanId", 4: "parentSpanId"}
_TIMES = {7: "startTimeUnixNano", 8: "endTimeUnixNano"}


def _span(data: bytes) -> dict[str, Any]:
    span: dict[str, Any] = {}
    attributes: list[bytes] = []
    events: list[dict[str, Any]] = []
    for number, content in fields(data):
        if isinstance(content, int):
            if number in _TIMES:
                span[_TIMES[number]] = content
        elif number in _IDS:
            span[_IDS[number]] = content.hex()
        elif number == 5:
            span["name"] = _text(content)
        elif number == 9:
            attributes.append(content)
        elif number == 11:
            events.append({"attributes": _attributes(_messages(content, 3))})
        elif number == 15:
            span["status"] = _status(content)
    return {**span, "attributes": _attributes(attributes), "events": events}


def _status(data: bytes) -> dict[str, Any]:
    status: dict[str, Any] = {}
    for number, content in fields(data):
        if number == 2 and isinstance(content, bytes):
            status["message"] = _text(content)
        elif number == 3 and isinstance(content, int):
            status["code"] = content
    return status


def _attributes(pairs: list[bytes], depth: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        name, value = "", None
        for number, content in fields(pair):
            if isinstance(content, bytes):
                if number == 1:
                    name = _text(content)
                elif number == 2:
                    value = _value(content, depth)
        found[name] = value
    return found


def _value(data: bytes, depth: int) -> Any:
    for number, content in fields(data):
        if isinstance(content, int):
            if number == 2:
                return bool(content)
            if number == 3:
                return content - (1 << 64) if content >= 1 << 63 else content
            if number == 4:
                return struct.unpack("<d", content.to_bytes(8, "little"))[0]
        elif number == 1:
            return _text(content)
        elif number == 7:
            return content.hex()
        elif number == 5 and depth < MAX_DEPTH:
            return [_value(item, depth + 1) for item in _messages(content, 1)]
        elif number == 6 and depth < MAX_DEPTH:
            return _attributes(_messages(content, 1), depth + 1)
    return None


def _messages(data: bytes, field: int) -> list[bytes]:
    return [content for number, content in fields(data) if number == field and isinstance(content, bytes)]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
