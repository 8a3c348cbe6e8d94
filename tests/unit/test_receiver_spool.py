"""Received traces wait on disk until they are complete or idle, and become runs."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from io import BytesIO
from pathlib import Path

import pytest
from exporting_tools import SentSpan, as_json, gen_ai, openinference, openllmetry, request_of, trace_id_of
from support import Cli, Runs

from critiqor.errors import CritiqorError
from critiqor.importers import ImportedTrace
from critiqor.importers.otel.records import Span
from critiqor.importers.otel.traces import read_trace
from critiqor.receiver import spool
from critiqor.receiver.importing import ImportTask, TraceImporter, import_all
from critiqor.receiver.requests import split_request
from critiqor.receiver.spool import (
    COMPLETE_SECONDS,
    IDLE_SECONDS,
    KEEP_SECONDS,
    MAX_ATTEMPTS,
    OWN_IDLE_SECONDS,
    Spool,
)

A, B = trace_id_of("a").hex(), trace_id_of("b").hex()
LONG_AGO = 1.0


def received(path: Path, *spans: SentSpan, now: float = LONG_AGO, service: str = "assistant") -> Spool:
    stored = Spool(path)
    stored.add(split_request(request_of(*spans, service=service).SerializeToString(), "protobuf").pieces, now)
    return stored


def importer(runs: Runs, **metadata: str) -> TraceImporter:
    return TraceImporter(ImportTask(runs_dir=str(runs.folder), idle=60.0, metadata=metadata))


def test_a_trace_with_a_root_is_due_soon_and_another_when_it_is_idle(tmp_path: Path) -> None:
    *parts, root = openinference("a")
    stored = received(tmp_path / "s", *parts, now=1000)
    assert stored.due(now=1000 + IDLE_SECONDS - 1) == []
    assert stored.due(now=1000 + IDLE_SECONDS) == [A]
    received(tmp_path / "s", root, now=1010)
    assert stored.due(now=1010 + COMPLETE_SECONDS - 1) == []
    assert stored.due(now=1010 + COMPLETE_SECONDS) == [A]
    received(tmp_path / "s", *openinference("b"), now=1012)
    assert stored.due(now=1012 + COMPLETE_SECONDS) == [A, B]
    assert stored.waiting()[:2] == (2, 8)


def test_a_run_that_critiqor_streams_may_pause_for_longer(tmp_path: Path) -> None:
    request = request_of(*openinference("a"))
    request.resource_spans[0].resource.attributes.add(key="critiqor.run_trace_id").value.string_value = B
    stored = Spool(tmp_path / "s")
    stored.add(split_request(request.SerializeToString(), "protobuf").pieces, 1000)
    assert stored.due(now=1000 + OWN_IDLE_SECONDS - 1) == []
    assert stored.due(now=1000 + OWN_IDLE_SECONDS) == [B]


def test_a_trace_that_is_too_large_is_imported_in_parts(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = runs.paths.received_path
    stored = received(path, *openinference("a"))
    size = stored.waiting().bytes
    monkeypatch.setattr(spool, "MAX_TRACE_BYTES", 2 * size)
    received(path, *openinference("a"), now=9e12)
    received(path, *openinference("a"), now=9e12)
    [first] = importer(runs).step()
    assert (first.run_id, first.spans) == ("run_001", 8)
    assert stored.waiting().spans == 4
    assert stored.due() == []


def test_a_trace_of_each_convention_becomes_a_run_with_the_same_events(runs: Runs) -> None:
    facts = []
    for number, make in enumerate((openinference, gen_ai, openllmetry), 1):
        received(runs.paths.received_path, *make(f"t{number}"), service=f"service {number}")
        [result] = importer(runs).step()
        assert (result.run_id, result.problem, result.notes) == (f"run_00{number}", None, [])
        assert runs.record(f"run_00{number}")["metadata"]["agent_id"] == f"service {number}"
        events = runs.evidence(f"run_00{number}")["events"]
        kinds = Counter(one["event_type"] for one in events if one["source_layer"] != "supervisor")
        diagnosis = json.loads(runs.paths.diagnosis_path(f"run_00{number}").read_text())
        cost = diagnosis["cost_analysis"]
        found = [one["type"] for one in diagnosis["failure_analysis"]["findings"]]
        facts.append((kinds, cost["input_tokens"], cost["output_tokens"], found))
    assert facts[0] == facts[1] == facts[2]
    assert facts[0][0]["tool_call"] == facts[0][0]["token_usage"] - 1 == 1
    assert facts[0][1:] == (1800, 60, ["false_success_claim"])


def test_a_received_trace_is_the_same_as_an_imported_file(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    request = request_of(*openinference("a"))
    (tmp_path / "file.json").write_bytes(as_json(request))
    assert cli("import", "file.json").code == 0
    received(runs.paths.received_path, *openinference("a"))
    importer(runs).step()

    def content(run_id: str) -> list[tuple[str, object]]:
        events = runs.evidence(run_id)["events"]
        return [(one["event_type"], one["payload"]) for one in events if one["source_layer"] != "supervisor"]

    assert content("run_001") == content("run_002")


def test_a_trace_without_an_agent_is_left_out(runs: Runs) -> None:
    received(runs.paths.received_path, SentSpan("GET /", None, {"http.request.method": "GET"}))
    [result] = importer(runs).step()
    assert (result.run_id, result.spans, result.problem) == (None, 1, None)
    assert importer(runs).step() == []
    assert runs.paths.run_ids() == []


def test_spans_that_cannot_be_decoded_are_counted_and_the_others_imported(runs: Runs) -> None:
    broken = request_of(SentSpan("broken", None, {"a": "b"}, "a")).SerializeToString()
    [piece] = split_request(broken, "protobuf").pieces
    stored = received(runs.paths.received_path, *openinference("a"))
    stored.add([piece._replace(data=piece.data[:-1])], LONG_AGO)
    [result] = importer(runs).step()
    assert (result.run_id, result.spans) == ("run_001", 4)
    assert result.notes[0] == "requests whose spans could not be read: 1"


def test_a_trace_that_cannot_be_imported_is_given_up_and_the_others_are_imported(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fragile(trace_id: str, spans: list[Span], key: bytes) -> ImportedTrace:
        if trace_id == A:
            raise RuntimeError("boom")
        return read_trace(trace_id, spans, key)

    monkeypatch.setattr("critiqor.receiver.importing.read_trace", fragile)
    stored = received(runs.paths.received_path, *openinference("a"), *openinference("b"))
    working = importer(runs)
    results = [result for _ in range(5) for result in working.step()]
    assert [(each.trace_id, each.problem is None, each.is_given_up) for each in results] == [
        (A, False, False),
        (B, True, False),
        (A, False, False),
        (A, False, True),
    ]
    assert stored.waiting()._replace(bytes=0) == (1, 4, 0, 1)
    received(runs.paths.received_path, *openinference("c"))
    assert [result.run_id for result in working.step()] == ["run_002"]


@pytest.mark.parametrize("failing", ["critiqor.receiver.spool.Spool.end", "critiqor.run.importing.finalize"])
def test_a_trace_is_imported_once_whatever_fails_after_its_run_was_created(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    stored = received(runs.paths.received_path, *openinference("a"), *openinference("b"))
    with monkeypatch.context() as patch:
        patch.setattr(failing, fail)
        assert [result.problem is None for result in importer(runs).step()] == [False, False]
    received(runs.paths.received_path, *gen_ai("a"))
    working = importer(runs)
    results = [result for _ in range(3) for result in working.step()]
    assert sorted((each.trace_id, each.run_id, each.spans, each.problem) for each in results) == sorted(
        [(A, "run_001", 4, None), (B, "run_002", 4, None), (A, "run_003", 4, None)]
    )
    assert {runs.record(run_id)["status"] for run_id in runs.paths.run_ids()} == {"COMPLETED"}
    assert len(runs.paths.run_ids()) == 3
    assert stored.waiting() == (0, 0, 0, 0)


@pytest.mark.parametrize("content", [b"nonsense" * 1000, b"SQLite format 3\0" + b"\xff" * 5000], ids=["text", "header"])
def test_a_damaged_spool_is_named_with_what_to_do(cli: Cli, runs: Runs, content: bytes) -> None:
    runs.folder.mkdir(parents=True, exist_ok=True)
    path = runs.paths.received_path
    path.write_bytes(content)
    answer = cli("receive", "--port", "0")
    assert answer.code == CritiqorError.exit_code
    assert str(path) in answer.err and f"mv {path} " in answer.err
    assert path.read_bytes() == content


def test_a_spool_that_is_damaged_later_is_reported_once(cli: Cli, runs: Runs) -> None:
    path = runs.paths.received_path
    stored = received(path, *openinference("a"))
    stored.shrink()
    stored.close()
    working, output = importer(runs), BytesIO()
    with path.open("r+b") as file:
        file.seek(4096)  # after the page with the names of the tables
        file.write(b"\xff" * (path.stat().st_size - 4096))
    assert f"mv {path} " in cli("receive", "--port", "0").err
    reading, writing = os.pipe()
    os.close(writing)
    with os.fdopen(reading, "rb") as source:
        import_all(working, source, output)
    [result] = [json.loads(line) for line in output.getvalue().splitlines()]
    assert result["trace_id"] is None
    assert "malformed" in result["problem"] and f"mv {path} " in result["problem"]


def test_a_trace_that_is_given_up_is_deleted_after_some_days(runs: Runs) -> None:
    path = runs.paths.received_path
    stored = received(path, *openinference("a"), *openinference("b"))
    for _ in range(MAX_ATTEMPTS):
        stored.begin(A, 1000)
    stored.drop_failed(now=1000 + KEEP_SECONDS - 1)
    assert stored.waiting()[0] == 2
    stored.drop_failed(now=1000 + KEEP_SECONDS)
    assert stored.waiting()[:2] == (1, 4)
    assert stored.begin(A) == [] and stored.begin(B) != []
    for _ in range(MAX_ATTEMPTS):
        stored.begin(B, 1000)
    assert importer(runs).step() == []
    assert stored.waiting() == (0, 0, 0, 0)


def test_options_name_the_runs(runs: Runs) -> None:
    received(runs.paths.received_path, *openinference("a"))
    importer(runs, agent_id="mine", tenant_id="ours", visibility="shared").step()
    metadata = runs.record("run_001")["metadata"]
    assert (metadata["agent_id"], metadata["tenant_id"], metadata["visibility"]) == ("mine", "ours", "shared")


def test_the_spool_is_only_for_the_user_and_gives_space_back(runs: Runs) -> None:
    path = runs.paths.received_path
    stored = received(path, *[span for number in range(300) for span in openinference(f"t{number}")])
    assert path.stat().st_mode & 0o077 == 0
    for trace in stored.due(count=1000):
        stored.end(trace, stored.begin(trace), 4)
    before = path.stat().st_size
    stored.shrink()
    assert stored.waiting() == (0, 0, 0, 0)
    assert path.stat().st_size < before / 4
