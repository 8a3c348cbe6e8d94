"""Sending spans to a collector: a real server on loopback, and its possible failures."""

from __future__ import annotations

import json
import socket
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from collectors import Answer, answering, collector
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from otlp import ReadTrace
from support import Cli, Runs, attached, recorded

from critiqor.errors import CritiqorError, UsageError
from critiqor.exporters.otlp import endpoint, otlp
from critiqor.exporters.otlp.collector_address import traces_url
from critiqor.exporters.otlp.endpoint import Endpoint
from critiqor.exporters.otlp.otlp import Request
from critiqor.model import Metadata, Timestamps, iso_from_ms
from critiqor.model.record import RunHead
from critiqor.model.report import Recorded

START = 1_794_000_000_000
RECORDS = [
    attached(at=START),
    recorded(2, at=START + 1, payload={"agent_id": "main"}),
    recorded(3, "input", at=START + 2, payload={"role": "user", "text": "the secret words"}),
    recorded(4, "tool_call", at=START + 3, tool_name="exec", tool_call_id="c", payload={"arguments": {"a": 1}}),
    recorded(5, "tool_result", at=START + 9, tool_name="exec", tool_call_id="c", payload={"result": "fine"}),
    recorded(6, "agent_end", at=START + 10),
]
HEAD = RunHead(
    run_id="run_001",
    status="COMPLETED",
    lifecycle=[],
    timestamps=Timestamps(created_at=iso_from_ms(START)),
    metadata=Metadata(),
)
REQUEST = Request(Recorded(HEAD, [], None, {}, {}, "1"), [])


def refusal(url: str) -> str:
    with pytest.raises(CritiqorError) as error:
        Endpoint(url, "1", {}).send(REQUEST)
    return str(error.value)


def test_a_run_is_sent_to_the_traces_path_of_a_collector(cli: Cli, runs: Runs) -> None:
    runs.seal(*RECORDS)
    with collector() as made:
        answer = cli("export", "run_001", "--format", "otlp", "--endpoint", made.url)
    assert (answer.code, answer.out) == (0, "")
    assert f"sent 3 spans of run_001 to {made.url}/v1/traces" in answer.err
    [(path, headers, body)] = made.requests
    assert (path, headers["content-type"]) == ("/v1/traces", "application/json")
    assert ReadTrace(body).tree() == [["run run_001"], ["invoke_agent main", ["execute_tool exec"]]]
    assert b"secret" not in body


def test_requests_contain_the_same_spans_as_an_exported_file(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    runs.seal(*RECORDS)
    cli("export", "run_001", "--format", "otlp", "--content")
    with collector() as made:
        first = cli("export", "run_001", "--format", "otlp", "--content", "--endpoint", made.url, "--json").data
        again = cli(
            "export", "run_001", "--format", "otlp", "--content", "--endpoint", f"{made.url}/v1/traces", "--json"
        )
    written = (tmp_path / "run_001.otlp.json").read_bytes()
    assert b"the secret words" in written
    assert [ReadTrace(body).spans for body in made.bodies] == [ReadTrace(written).spans] * 2
    assert (
        again.data
        == first
        == {
            "run_id": "run_001",
            "format": "otlp",
            "endpoint": f"{made.url}/v1/traces",
            "spans": 3,
            "requests": 1,
            "bytes": len(made.bodies[0]),
            "rejected": 0,
            "notes": [],
        }
    )


def test_large_runs_are_sent_in_several_requests(cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.seal(*RECORDS)
    monkeypatch.setattr(otlp, "MAX_SPANS", 1)
    with collector() as made:
        result = cli("export", "run_001", "--format", "otlp", "--endpoint", made.url, "--json").data
    assert (result["spans"], result["requests"]) == (3, 3)
    assert len(ReadTrace(*made.bodies).spans) == 3


def test_spans_that_a_collector_rejects_are_reported(cli: Cli, runs: Runs) -> None:
    runs.seal(*RECORDS)
    partial = {"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too \x1b[31mold"}}
    with collector(answering(body=json.dumps(partial).encode())) as made:
        answer = cli("export", "run_001", "--format", "otlp", "--endpoint", made.url)
        result = cli("export", "run_001", "--format", "otlp", "--endpoint", made.url, "--json").data
    assert answer.code == 0
    assert "rejected 2 of them" in answer.err
    assert (result["rejected"], result["notes"]) == (2, ["The collector says: too [31mold"])


@pytest.mark.parametrize(
    "body", [b"", b"ok", b"[]", b'{"partialSuccess":{"rejectedSpans":"many"}}', b"\xff", b"{" * 9999]
)
def test_an_empty_or_unreadable_answer_counts_as_success(body: bytes) -> None:
    with collector(answering(body=body)) as made:
        assert Endpoint(made.url, "1", {}).send(REQUEST).taken == (0, "")


def binary_only(answer: bytes = b"") -> Answer:
    """A receiver that accepts no JSON, like Phoenix."""

    def answering_by_form(handler: BaseHTTPRequestHandler) -> None:
        is_binary = handler.headers["Content-Type"] == "application/x-protobuf"
        (answering(200, answer) if is_binary else answering(415, b"Unsupported content type"))(handler)

    return answering_by_form


def test_a_receiver_that_accepts_no_json_gets_protobuf(
    cli: Cli, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.seal(*RECORDS)
    monkeypatch.setattr(otlp, "MAX_SPANS", 1)
    cli("export", "run_001", "--format", "otlp", "--content")
    with collector(binary_only()) as made:
        result = cli("export", "run_001", "--format", "otlp", "--content", "--endpoint", made.url, "--json").data
    forms = [headers["content-type"] for _, headers, _ in made.requests]
    assert forms == ["application/json", *["application/x-protobuf"] * 3], "JSON is tried once"
    assert (result["spans"], result["requests"], result["bytes"]) == (3, 3, sum(map(len, made.bodies[1:])))
    sent = ReadTrace(*made.bodies[1:], is_binary=True)
    assert sent.spans == ReadTrace((tmp_path / "run_001.otlp.json").read_bytes()).spans


def test_spans_that_are_rejected_in_a_protobuf_answer_are_reported() -> None:
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = 300
    response.partial_success.error_message = "too old"
    with collector(binary_only(response.SerializeToString())) as made:
        assert Endpoint(made.url, "1", {}).send(REQUEST).taken == (300, "too old")


@pytest.mark.parametrize("answer", [b"\xff" * 20, b"\x0a\xff", b"{}", b"\x0d\x00", b"\x0a\x02\x08"])
def test_an_answer_that_is_no_protobuf_counts_as_success(answer: bytes) -> None:
    with collector(binary_only(answer)) as made:
        assert Endpoint(made.url, "1", {}).send(REQUEST).taken == (0, "")


def test_a_receiver_that_accepts_neither_json_nor_protobuf_is_an_error() -> None:
    with collector(answering(415, b"neither")) as made:
        assert "answered 415: neither" in refusal(made.url)
        assert len(made.requests) == 2


@pytest.mark.parametrize(("status", "text"), [(400, "bad \x1b[2J"), (404, ""), (429, "slow down"), (503, "x" * 99_999)])
def test_a_refusal_is_an_error_with_the_text_of_the_collector(status: int, text: str, cli: Cli, runs: Runs) -> None:
    runs.seal(*RECORDS)
    with collector(answering(status, text.encode())) as made:
        error = cli("export", "run_001", "--format", "otlp", "--endpoint", made.url, "--json").error
    assert error["exit_code"] == 1
    assert f"{made.url}/v1/traces answered {status}" in error["message"]
    assert error["message"].isprintable() and len(error["message"]) < 400
    assert ("4318" if status == 404 else "--output FILE") in error["fix"]


def test_spans_accepted_before_a_refusal_are_reported(cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.seal(*RECORDS)
    monkeypatch.setattr(otlp, "MAX_SPANS", 1)
    answers = iter([answering(), answering(), answering(500)])
    with collector(lambda handler: next(answers)(handler)) as made:
        answer = cli("export", "run_001", "--format", "otlp", "--endpoint", made.url)
    assert answer.code == 1
    assert "2 spans were accepted before" in answer.err


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_is_not_followed(status: int) -> None:
    with collector() as other, collector(answering(status, Location=f"{other.url}/v1/traces")) as made:
        assert "redirect" in refusal(made.url)
        assert len(made.requests) == 1
        assert other.requests == []


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as proxy, collector() as made:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        Endpoint(made.url, "1", {}).send(REQUEST)
        assert proxy.requests == []
        assert len(made.requests) == 1


def test_the_error_for_an_unreachable_collector_names_its_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        message = refusal(url)
    assert f"{url}/v1/traces cannot be reached" in message
    assert "refused" in message
    assert "--output FILE" in message


def test_a_collector_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "TIMEOUT_SECONDS", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert "no answer within 0.2 seconds" in refusal(f"http://127.0.0.1:{silent.getsockname()[1]}")


def test_a_server_that_speaks_no_http_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang_up(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"SSH-2.0-nothing\r\n")

    with collector(hang_up) as made:
        assert "cannot be reached" in refusal(made.url)


@pytest.mark.parametrize(
    "address",
    [
        *("", "localhost:4318", "file:///etc/passwd", "ftp://x", "http://", "http://h:99999", "http://h:0", "http://["),
        *("http://h/a b", "http://h/\r\nX: y", "http://hö", "http://h#a", "http://user:secret@h", "http://h?a=secret"),
    ],
)
def test_an_invalid_address_is_refused_without_printing_it(address: str, cli: Cli, runs: Runs) -> None:
    runs.seal(*RECORDS)
    answer = cli("export", "run_001", "--format", "otlp", "--endpoint", address)
    assert (answer.code, "secret" in answer.err) == (2, False)
    with pytest.raises(UsageError):
        traces_url(address)


def test_the_traces_path_is_added_once() -> None:
    for address in ("https://h:4318", "https://h:4318/", "https://h:4318/v1/traces", "https://h:4318/v1/traces/"):
        assert traces_url(address) == "https://h:4318/v1/traces"
    assert traces_url("https://h/otlp") == "https://h/otlp/v1/traces"


@pytest.mark.parametrize(
    "options",
    [
        ("--format", "perfetto", "--endpoint", "http://h"),
        ("--format", "zip", "--content"),
        ("--format", "otlp", "--endpoint", "http://h", "--output", "x"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(options: tuple[str, ...], cli: Cli, runs: Runs) -> None:
    runs.seal(*RECORDS)
    assert cli("export", "run_001", *options).code == 2


def test_the_events_so_far_of_a_run_in_progress_are_sent(cli: Cli, runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, *RECORDS[:4])
    with collector() as made:
        answer = cli("export", run_id, "--format", "otlp", "--endpoint", made.url)
    assert answer.code == 0
    assert "not finalized" in answer.err
    tool = ReadTrace(*made.bodies).named("execute_tool exec")
    assert tool.attributes["critiqor.unfinished"] is True
