"""`critiqor receive` as a process: what other tools and Critiqor itself send becomes runs, and nothing else does."""

from __future__ import annotations

import gzip
import json
import signal
from collections import Counter
from pathlib import Path

import pytest
from exporting_tools import JSON, PROTOBUF, ReceiverProcess, as_json, gen_ai, openinference, post, request_of
from live_replay import records_of
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from story import Story
from support import Cli, Runs, attached

from critiqor.live.messages import StreamTarget
from critiqor.live.recording import LiveRecording
from critiqor.live.span_stream import SpanStream
from critiqor.model import now_ms
from critiqor.receiver.requests import MAX_BODY_BYTES
from critiqor.run.store import Run
from critiqor.storage import exclusive

TOKEN = "0123456789abcdef"
QUICK = ("--idle", "0.2")


def test_what_other_tools_send_becomes_runs(runs: Runs, tmp_path: Path) -> None:
    with ReceiverProcess(runs, tmp_path, *QUICK) as receiver:
        *parts, root = openinference("a")
        assert post(receiver.port, request_of(*parts).SerializeToString()).status == 200
        body = gzip.compress(request_of(root).SerializeToString())
        assert post(receiver.port, body, Content_Encoding="gzip").status == 200
        assert post(receiver.port, as_json(request_of(*gen_ai("b"))), JSON).body == b"{}"
        results = [receiver.line() for _ in range(2)]
        assert receiver.end() == 0
    assert sorted(each["run_id"] for each in results) == ["run_001", "run_002"]
    assert len({each["headline"] for each in results}) == 1
    assert "received 8 spans in 3 requests" in receiver.errors.read_text()


def recorded(session: str, answer: str, ago: int) -> Story:
    story = Story(session, f"run of {session}", start=now_ms() - ago).starts().user("Run the tests.")
    story.asks(model="m").model(model="m", input=900, output=30)
    story.fails("exec", {"command": "pytest -q"}, "exit code 1", "1 failed, 3 passed in 0.12s")
    return story.asks(model="m").model(model="m", input=950, output=10).says(answer).finishes()


def facts(runs: Runs, run_id: str) -> tuple[Counter[str], list[object], list[str], list[tuple[str, str]]]:
    events = [one for one in runs.evidence(run_id)["events"] if one["source_layer"] != "supervisor"]
    kinds = ("agent_start", "agent_end", "token_usage", "tool_call", "tool_output")
    counts = Counter(one["event_type"] for one in events if one["event_type"] in kinds)
    diagnosis = json.loads(runs.paths.diagnosis_path(run_id).read_text())
    cost = diagnosis["cost_analysis"]
    tokens = [cost[name] for name in ("model_calls", "input_tokens", "output_tokens")]
    causes = sorted(one["cause"] for one in diagnosis["failure_analysis"]["findings"])
    started = [one for one in events if one["event_type"] == "agent_start"]
    return counts, tokens, causes, sorted((one["session_key"], one["agent_run_id"]) for one in started)


def test_a_run_that_is_streamed_to_another_critiqor_has_the_same_turns_calls_tokens_and_findings(
    runs: Runs, tmp_path: Path
) -> None:
    there = Runs(tmp_path / "there")
    with ReceiverProcess(there, tmp_path, *QUICK) as receiver:
        run_id = runs.start()
        runs.write(run_id, attached(at=now_ms() - 200_000))
        # Events of one moment would have the same ids.
        for session, ago in (("agent:main:a", 100_000), ("agent:main:b", 50_000)):
            runs.write(run_id, *records_of(recorded(session, "All tests pass.", ago).events))
        stream = SpanStream(Run.load(run_id, runs.folder), StreamTarget(url=f"{receiver.url}/v1/traces", content=True))
        stream.start()
        live = LiveRecording(stream.run)
        live.finish(0.0)
        stream.conclude(live.diagnosis)
        assert stream.finish(60).is_complete
        assert receiver.line()["run_id"] == "run_001"
        assert receiver.end() == 0
    runs.finalize(run_id)
    before, after = facts(runs, run_id), facts(there, "run_001")
    assert before == after
    assert before[2] and len(before[3]) == 2


def test_malformed_and_foreign_requests_are_refused_with_a_reason(runs: Runs, tmp_path: Path) -> None:
    body = request_of(*openinference("a")).SerializeToString()
    with ReceiverProcess(runs, tmp_path) as receiver:
        port = receiver.port
        for expected, reply in (
            (400, post(port, b"\xff" * 30)),
            (400, post(port, body[:-3])),
            (400, post(port, b"[]", JSON)),
            (400, post(port, b"{" * 9999, JSON)),
            (400, post(port, body, Content_Encoding="gzip")),
            (413, post(port, bytes(MAX_BODY_BYTES + 1))),
            (413, post(port, gzip.compress(bytes(MAX_BODY_BYTES + 1)), Content_Encoding="gzip")),
            (415, post(port, body, "text/plain")),
            (415, post(port, body, Content_Encoding="br")),
            (403, post(port, body, Origin="http://example.com")),
            (403, post(port, body, Host=f"example.com:{port}")),
            (404, post(port, body, path="/v1/metrics")),
        ):
            assert reply.status == expected
            assert len(reply.body) > 10
        rejected = request_of(*openinference("a"))
        rejected.resource_spans[0].scope_spans[0].spans.add(name="no ids")
        reply = post(port, rejected.SerializeToString())
        assert (reply.status, reply.headers["content-type"]) == (200, PROTOBUF)
        answer = ExportTraceServiceResponse.FromString(reply.body)
        assert answer.partial_success.rejected_spans == 1
        assert "trace id" in answer.partial_success.error_message
        partial = json.loads(post(port, as_json(rejected), JSON).body)["partialSuccess"]
        assert partial["rejectedSpans"] == "1"


def test_a_receiver_that_is_killed_loses_nothing_that_it_accepted(runs: Runs, tmp_path: Path) -> None:
    with ReceiverProcess(runs, tmp_path) as receiver:
        for number in range(2):
            *parts, _ = openinference(f"t{number}")  # without a root, so that they wait
            assert post(receiver.port, request_of(*parts).SerializeToString()).status == 200
        receiver.process.send_signal(signal.SIGKILL)
        receiver.process.wait()
    with ReceiverProcess(runs, tmp_path, *QUICK) as receiver:
        assert sorted(receiver.line()["run_id"] for _ in range(2)) == ["run_001", "run_002"]
        assert receiver.end() == 0
    assert "2 traces of an earlier receiver wait" in receiver.errors.read_text()


def test_a_token_is_required_where_it_is_set(runs: Runs, tmp_path: Path) -> None:
    body = request_of(*openinference("a")).SerializeToString()
    with ReceiverProcess(runs, tmp_path, CRITIQOR_RECEIVE_TOKEN=TOKEN) as receiver:
        assert post(receiver.port, body).status == 401
        assert post(receiver.port, body, Authorization="Bearer wrong").status == 401
        assert post(receiver.port, body, Authorization=f"Bearer {TOKEN}", Host="collector.example").status == 200


@pytest.mark.parametrize(
    ("options", "variables", "text"),
    [
        (("--host", "0.0.0.0"), {}, "means all addresses"),
        (("--host", "192.0.2.1"), {}, "needs a token"),
        ((), {"CRITIQOR_RECEIVE_TOKEN": "short"}, "at least 16"),
        (("--idle", "0"), {}, "--idle"),
    ],
)
def test_an_address_that_others_can_reach_needs_a_token(
    options: tuple[str, ...], variables: dict[str, str], text: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    answer = cli("receive", "--port", "0", *options)
    assert (answer.code, text in answer.err) == (2, True)


def test_a_folder_has_one_receiver(cli: Cli, runs: Runs) -> None:
    runs.folder.mkdir()
    with exclusive(runs.paths.receiver_lock_path):
        answer = cli("receive", "--port", "0")
    assert (answer.code, "another receiver" in answer.err) == (1, True)
