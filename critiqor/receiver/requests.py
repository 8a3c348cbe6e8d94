"""Requests with spans, OTLP/Protobuf or OTLP/JSON: unpacked, bounded, and split by trace without decoding the spans.

Everything but ids is decoded when a trace is imported, so that receiving is fast.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from critiqor.exporters.otlp.protobuf import bytes_field
from critiqor.importers.otel.attributes import attributes_of
from critiqor.importers.otel.protobuf import fields, parse_request, resource_attributes
from critiqor.importers.otel.records import Span, find_spans
from critiqor.importers.otel.traces import OWN_TRACES
from critiqor.importers.values import as_object

MAX_BODY_BYTES = 16 << 20
"""Maximum size of a request, compressed and uncompressed; the batches of usual exporters are far smaller."""
Form = Literal["json", "protobuf"]
MEDIA_TYPES: dict[str, Form] = {"application/json": "json", "application/x-protobuf": "protobuf"}
_TRACE_ID, _SPAN_ID = 16, 8
_UNPACK_BYTES = 1 << 16


class RefusedRequestError(Exception):
    """A request that cannot be accepted, with the status of the response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Piece(NamedTuple):
    """The spans of one trace in one request: a request of its own, in the form in which they came."""

    trace_id: str
    """That of the trace; for an export of Critiqor, of the run."""
    form: Form
    spans: int
    has_root: bool
    """Whether one of them is the root of the trace, after which usually nothing follows."""
    is_own: bool
    """Whether Critiqor exported them: the traces of a run can be hours apart."""
    data: bytes


class Split(NamedTuple):
    """A request, split by trace."""

    pieces: list[Piece]
    rejected: int
    """Spans without valid ids."""


def unpack(body: bytes, encoding: str) -> bytes:
    """Return a body without its compression. Raise `RefusedRequestError` if it cannot be unpacked or is too large."""
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise RefusedRequestError(415, f"the content encoding {encoding[:40]!r} is not supported; use gzip or none")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    unpacked = bytearray()
    try:
        while body and not unpacker.eof:
            unpacked += unpacker.decompress(body, _UNPACK_BYTES)
            body = unpacker.unconsumed_tail
            if len(unpacked) > MAX_BODY_BYTES:
                raise RefusedRequestError(413, f"the request has more than {MAX_BODY_BYTES} bytes when it is unpacked")
    except zlib.error as error:
        raise RefusedRequestError(400, f"the body is not valid gzip: {error}") from error
    if not unpacker.eof:
        raise RefusedRequestError(400, "the body is not valid gzip: it is truncated")
    return bytes(unpacked)


def split_request(body: bytes, form: Form) -> Split:
    """Split a request by trace. Raise `RefusedRequestError` if it is malformed."""
    try:
        found = list(_split_protobuf(body) if form == "protobuf" else _split_json(body))
    except (ValueError, RecursionError) as error:
        name = "OTLP/Protobuf" if form == "protobuf" else "OTLP/JSON"
        raise RefusedRequestError(400, f"the body is not valid {name}: {error or 'it is nested too deeply'}") from error
    pieces = []
    rejected = 0
    for resource in found:
        groups: dict[str, list[_Span]] = {}
        for span in resource.spans:
            if span.trace_id is None:
                rejected += 1
            else:
                groups.setdefault(resource.own or span.trace_id, []).append(span)
        for trace_id, spans in groups.items():
            has_root = any(span.is_root and span.trace_id == trace_id for span in spans)
            data = resource.join([span.data for span in spans])
            pieces.append(Piece(trace_id, form, len(spans), has_root, resource.own is not None, data))
    return Split(pieces, rejected)


def spans_of(data: bytes, form: str) -> Iterator[Span]:
    """Yield the spans of a request, or of a piece of it. Raise `ValueError` if it cannot be decoded."""
    yield from find_spans(parse_request(data) if form == "protobuf" else msgspec.json.decode(data))


class _Span(NamedTuple):
    trace_id: str | None
    """None if its ids are not valid."""
    is_root: bool
    data: bytes


class _Resource(NamedTuple):
    """The spans of one resource."""

    form: Form
    resource: bytes
    own: str | None
    """The trace id of the run, if Critiqor exported them."""
    spans: list[_Span]

    def join(self, spans: list[bytes]) -> bytes:
        """Return a request with some of the spans."""
        if self.form == "json":
            resource, spans_ = self.resource or b"{}", b",".join(spans)
            return b'{"resourceSpans":[{"resource":' + resource + b',"scopeSpans":[{"spans":[' + spans_ + b"]}]}]}"
        scope = b"".join(bytes_field(2, span) for span in spans)
        return bytes_field(1, bytes_field(1, self.resource) + bytes_field(2, scope))


def _split_protobuf(body: bytes) -> Iterator[_Resource]:
    for number, content in fields(body):
        if number != 1 or not isinstance(content, bytes):
            continue
        resource, spans = b"", []
        for inner, part in fields(content):
            if isinstance(part, bytes):
                if inner == 1:
                    resource = part
                elif inner == 2:
                    spans += [_span(item) for field, item in fields(part) if field == 2 and isinstance(item, bytes)]
        yield _Resource("protobuf", resource, _own_run(resource_attributes(resource)), spans)


def _span(data: bytes) -> _Span:
    ids: dict[int, bytes] = {}
    for number, content in fields(data):
        if number in (1, 2, 4) and isinstance(content, bytes):
            ids[number] = content
    trace, span = ids.get(1, b""), ids.get(2, b"")
    is_valid = len(trace) == _TRACE_ID and len(span) == _SPAN_ID and any(trace) and any(span)
    return _Span(trace.hex() if is_valid else None, not any(ids.get(4, b"")), data)


class _JsonSpan(msgspec.Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str | None = None


class _JsonScope(msgspec.Struct, rename="camel"):
    spans: list[msgspec.Raw] = []


class _JsonResource(msgspec.Struct, rename="camel"):
    resource: msgspec.Raw = msgspec.Raw(b"{}")
    scope_spans: list[_JsonScope] = []


class _JsonRequest(msgspec.Struct, rename="camel"):
    resource_spans: list[_JsonResource] = []


_decode_request = msgspec.json.Decoder(_JsonRequest).decode
_decode_span = msgspec.json.Decoder(_JsonSpan).decode


def _split_json(body: bytes) -> Iterator[_Resource]:
    for each in _decode_request(body).resource_spans:
        resource = bytes(each.resource)
        known = attributes_of(as_object(msgspec.json.decode(resource)))
        spans = [_json_span(bytes(data)) for scope in each.scope_spans for data in scope.spans]
        yield _Resource("json", resource, _own_run(known), spans)


def _json_span(data: bytes) -> _Span:
    span = _decode_span(data)
    is_valid = _is_id(span.trace_id, _TRACE_ID) and _is_id(span.span_id, _SPAN_ID)
    return _Span(span.trace_id.lower() if is_valid else None, not (span.parent_span_id or "").strip("0"), data)


def _is_id(text: str, size: int) -> bool:
    try:
        return len(text) == 2 * size and any(bytes.fromhex(text))
    except ValueError:
        return False


def _own_run(attributes: dict[str, object]) -> str | None:
    trace_id = attributes.get(OWN_TRACES)
    return trace_id.lower() if isinstance(trace_id, str) and _is_id(trace_id, _TRACE_ID) else None
