"""Requests of exporters: read as OpenTelemetry's own messages read them, split by trace, and refused if malformed."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress
from typing import Any

import pytest
from exporting_tools import SentSpan, as_json, openinference, request_of, trace_id_of
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from critiqor.importers.otel.protobuf import MAX_DEPTH, fields, parse_request
from critiqor.importers.otel.records import find_spans
from critiqor.receiver import requests
from critiqor.receiver.requests import Form, RefusedRequestError, spans_of, split_request, unpack

VALUES: dict[str, Any] = {
    "text": "ä€\x00",
    "number": -(1 << 63),
    "large": (1 << 63) - 1,
    "part": 0.25,
    "yes": True,
    "list": ["a", 1, [2.5, False], {"b": "c"}],
    "object": {"a": {"b": [1, {"c": "d"}]}},
    "bytes": b"\x00\xff",
    "empty": "",
    "nothing": [],
}


@pytest.mark.parametrize("form", ["protobuf", "json"])
def test_both_forms_are_read_with_the_same_spans(form: Form) -> None:
    request = request_of(*openinference("a"), SentSpan("x", None, VALUES, "b", 5, 9, error="it broke"))
    data = request.SerializeToString() if form == "protobuf" else as_json(request)
    split = split_request(data, form)
    assert [(piece.trace_id, piece.spans, piece.has_root) for piece in split.pieces] == [
        (trace_id_of("a").hex(), 4, True),
        (trace_id_of("b").hex(), 1, True),
    ]
    spans = [span for piece in split.pieces for span in spans_of(piece.data, form)]
    assert [span.name for span in spans] == ["a first", "a tool", "a model", "a agent", "x"]
    assert {span.resource["service.name"] for span in spans} == {"assistant"}
    [last] = spans[4:]
    assert last.error == "it broke"
    assert last.end is not None and last.start is not None and last.end - last.start == 4_000_000
    assert {name: last.attributes[name] for name in ("text", "number", "large", "part", "yes", "empty", "nothing")} == {
        name: VALUES[name] for name in ("text", "number", "large", "part", "yes", "empty", "nothing")
    }
    assert last.attributes["list"] == VALUES["list"]
    assert spans[0].parent_id == spans[3].span_id


def test_protobuf_is_read_as_the_json_of_the_same_request() -> None:
    request = request_of(*openinference())
    read = list(find_spans(parse_request(request.SerializeToString())))
    [piece] = split_request(as_json(request), "json").pieces
    for one, other in zip(read, spans_of(piece.data, "json"), strict=True):
        assert (one.attributes, one.start, one.end) == (other.attributes, other.start, other.end)


def test_a_value_that_is_nested_too_deeply_is_cut() -> None:
    value: Any = "x"
    for _ in range(60):
        value = [value]
    [span] = find_spans(parse_request(request_of(SentSpan("x", None, {"deep": value})).SerializeToString()))
    depth, value = 0, span.attributes["deep"]
    while isinstance(value, list) and value:
        depth, value = depth + 1, value[0]
    assert depth == MAX_DEPTH and value is None


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused(data: bytes) -> None:
    for form in requests.MEDIA_TYPES.values():
        try:
            pieces = split_request(data, form).pieces
        except RefusedRequestError as error:
            assert error.status == 400
        else:
            for piece in pieces:
                list(spans_of(piece.data, form))


@given(st.data())
def test_damaged_requests_are_read_or_refused(data: st.DataObject) -> None:
    body = bytearray(request_of(*openinference(), SentSpan("x", None, VALUES)).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        pieces = split_request(bytes(body), "protobuf").pieces
    except RefusedRequestError:
        return
    for piece in pieces:
        with suppress(ValueError):
            list(spans_of(piece.data, "protobuf"))


@pytest.mark.parametrize("data", [b"\x0a\xff", b"\xff" * 11, b"\x0a\x05abc", b"\x0b", b"\x09abc", b"\x0d\x00", b"\x80"])
def test_a_message_that_is_truncated_or_no_protobuf_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        list(fields(data))


def test_spans_without_valid_ids_are_rejected_and_the_others_accepted() -> None:
    request = request_of(*openinference())
    [scope] = request.resource_spans[0].scope_spans
    scope.spans.add(trace_id=b"short", span_id=b"12345678", name="a")
    scope.spans.add(trace_id=bytes(16), span_id=b"12345678", name="b")
    scope.spans.add(trace_id=trace_id_of("x"), name="c")
    for body, form in ((request.SerializeToString(), "protobuf"), (as_json(request), "json")):
        split = split_request(body, form)  # type: ignore[arg-type]
        assert (sum(piece.spans for piece in split.pieces), split.rejected) == (4, 3)


def test_the_traces_of_a_run_of_critiqor_belong_together() -> None:
    run = trace_id_of("run").hex()
    request = request_of(*openinference("a"), *openinference("b"))
    request.resource_spans[0].resource.attributes.add(key="critiqor.run_trace_id").value.string_value = run
    for body, form in ((request.SerializeToString(), "protobuf"), (as_json(request), "json")):
        [piece] = split_request(body, form).pieces  # type: ignore[arg-type]
        assert (piece.trace_id, piece.spans, piece.is_own, piece.has_root) == (run, 8, True, False)


def test_an_empty_request_is_accepted() -> None:
    assert split_request(b"", "protobuf") == ([], 0)
    assert split_request(ExportTraceServiceRequest().SerializeToString(), "protobuf") == ([], 0)
    assert split_request(b"{}", "json") == ([], 0)


def test_a_compressed_request_is_unpacked_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unpack(gzip.compress(b"abc"), "gzip") == b"abc"
    assert unpack(b"abc", "identity") == unpack(b"abc", "") == b"abc"
    monkeypatch.setattr(requests, "MAX_BODY_BYTES", 1 << 20)
    bomb = gzip.compress(bytes(64 << 20))
    cases = {
        413: [(bomb, "gzip")],
        400: [(b"abc", "gzip"), (gzip.compress(b"abc")[:-3], "gzip"), (b"", "gzip"), (zlib.compress(b"abc"), "gzip")],
        415: [(b"abc", "br"), (b"abc", "zstd" * 100)],
    }
    for status, bodies in cases.items():
        for body, encoding in bodies:
            with pytest.raises(RefusedRequestError) as error:
                unpack(body, encoding)
            assert error.value.status == status
            assert len(error.value.message) < 200
