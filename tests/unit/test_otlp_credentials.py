"""Keys for a collector: read from OpenTelemetry's variables, and sent only to the address that they are for."""

from __future__ import annotations

import pytest
from collectors import answering, collector
from support import Cli, Runs, attached, recorded

from critiqor.errors import ExitCode, UsageError
from critiqor.exporters.otlp.credentials import credentials_for

URL = "https://collector.example/v1/traces"
COMMON = "OTEL_EXPORTER_OTLP_HEADERS"


def test_a_collector_gets_the_headers_of_the_variable(cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.seal(attached(), recorded(2), recorded(3, "agent_end"))
    monkeypatch.setenv(COMMON, "Authorization=Basic%20a2V5, x-project=one,content-type=text/html")
    with collector() as made:
        answer = cli("export", "run_001", "--format", "otlp", "--endpoint", made.url)
    [(_, headers, _)] = made.requests
    assert (headers["authorization"], headers["x-project"]) == ("Basic a2V5", "one")
    assert headers["content-type"] == "application/json"
    assert "a2V5" not in answer.out + answer.err


def test_the_error_of_a_collector_that_requires_a_key_names_the_variable(cli: Cli, runs: Runs) -> None:
    runs.seal(attached(), recorded(2), recorded(3, "agent_end"))
    with collector(answering(401, b"who are you")) as made:
        answer = cli("export", "run_001", "--format", "otlp", "--endpoint", made.url)
    assert answer.code == ExitCode.ERROR
    assert "answered 401: who are you" in answer.err
    assert f"{COMMON}='Authorization=Bearer" in answer.err


def test_headers_for_traces_override_the_common_headers() -> None:
    variables = {COMMON: "a=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "b=2"}
    assert credentials_for(URL, variables) == ({"b": "2"}, [])
    assert credentials_for(URL, {COMMON: "a=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": " "}) == ({"a": "1"}, [])
    assert credentials_for(URL, {}) == ({}, [])


@pytest.mark.parametrize(
    ("meant_for", "sent"),
    [
        ("https://collector.example", True),
        ("https://collector.example:443/other/path", True),
        ("https://another.example", False),
        ("http://collector.example", False),
        ("https://collector.example:4318", False),
        ("https://collector.example:a", False),
    ],
)
def test_a_key_is_sent_only_to_the_address_that_it_was_set_for(meant_for: str, sent: bool) -> None:
    headers, notes = credentials_for(URL, {COMMON: "a=1", "OTEL_EXPORTER_OTLP_ENDPOINT": meant_for})
    assert headers == ({"a": "1"} if sent else {})
    assert bool(notes) is not sent


def test_a_note_warns_of_a_key_that_is_sent_unencrypted() -> None:
    assert "unencrypted" in credentials_for("http://collector.example/v1/traces", {COMMON: "a=1"}).notes[0]
    for address in ("http://localhost:4318", "http://127.0.0.1:4318", "http://[::1]:4318"):
        assert credentials_for(address, {COMMON: "a=1"}).notes == []


@pytest.mark.parametrize(
    "text", ["secretkey", "a b=secretkey", "a=secretkey%0d%0aHost: x", "=secretkey", "a=secretkéy"]
)
def test_headers_that_cannot_be_sent_are_refused_without_printing_them(text: str) -> None:
    with pytest.raises(UsageError) as error:
        credentials_for(URL, {COMMON: text})
    assert COMMON in str(error.value)
    assert "secretk" not in str(error.value)
