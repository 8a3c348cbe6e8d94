"""The verb `export`."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import Cli, Runs, attached, recorded
from timelines import data_of, sample, span, start
from trace_events import TraceFile, checked

from critiqor.cli import progress
from critiqor.diagnosis import FAILURE_TYPES
from critiqor.errors import BrokenRecordError
from critiqor.exporters.formats import FORMATS
from critiqor.exporters.trace import trace_builder as traces
from critiqor.importers import read_traces
from critiqor.run.diagnosis import diagnose_trace
from critiqor.session import abort_session, append_event_to_run, import_run

START = 1_794_000_000_000
FAILING = {"tool_name": "exec", "tool_call_id": "c"}
RECORDS: list[dict[str, Any]] = [
    attached(at=START),
    recorded(2, "agent_start", at=START + 10),
    recorded(3, "input", at=START + 11, payload={"role": "user", "text": "the secret words"}),
    *(
        record
        for n in range(4, 16, 2)
        for record in (
            recorded(n, "tool_call", at=START + n * 10, **FAILING, payload={"arguments": {"command": "make"}}),
            recorded(n + 1, "tool_result", at=START + n * 10 + 5, **FAILING, status="error", error="exit code 2"),
        )
    ),
    recorded(16, "agent_end", at=START + 300),
]


def write_timeline(runs: Runs, run_id: str, data: bytes) -> None:
    path = runs.paths.timeline_path(run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def exported(path: Path) -> TraceFile:
    return checked(path.read_bytes())


def test_a_run_is_written_beside_the_user_who_learns_where_to_open_it(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    run_id = runs.start()
    runs.write(run_id, *RECORDS)
    write_timeline(runs, run_id, data_of(*span("gateway.ready", "1", 0, 50, pid=7), sample(9.5, 60, pid=7)))
    runs.finalize(run_id)
    answer = cli("export", run_id, "--format", "perfetto")
    assert (answer.code, answer.out) == (0, "")
    assert "run_001.perfetto.json" in answer.err
    assert "ui.perfetto.dev" in answer.err
    file = exported(tmp_path / "run_001.perfetto.json")
    assert len(file.slices("tool")) == 6
    assert [event["name"] for event in file.slices("span")] == ["gateway.ready"]
    assert file.processes[7] == "OpenClaw gateway"
    assert file.of("C")[0]["args"] == {"ms": 9.5}
    assert "secret" not in str(file.document)
    assert (tmp_path / "run_001.perfetto.json").stat().st_mode & 0o777 == 0o600


def test_findings_stand_where_they_began_to_go_wrong(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    runs.seal(*RECORDS)
    finding = cli("show", "run_001", "--json").data["diagnosis"]["failure_analysis"]["findings"][0]
    cli("export", "run_001", "--format", "perfetto", "--output", "out.json")
    file = exported(tmp_path / "out.json")
    marked = [event for event in file.of("i") if event["cat"] == "finding"]
    [first] = [event for event in marked if event["args"]["finding"] == finding["id"]]
    assert first["name"] == first["args"]["type"] == finding["type"]
    assert first["args"]["meaning"] == FAILURE_TYPES[finding["type"]]
    assert first["args"]["severity"] == finding["severity"]
    [step] = [record for record in RECORDS if record["event_id"] == finding["first_bad_step"]]
    begin = file.document["otherData"]["started_at"]
    assert begin == RECORDS[0]["timestamp"]
    assert step["timestamp"] == f"2026-11-06T21:20:00.{first['ts'] // 1000:03d}Z"


@pytest.mark.parametrize(("step", "milliseconds"), [("timeline_0000002", 50), ("timeline_0000009", 0), ("gone", 0)])
def test_a_finding_can_name_a_line_of_the_timeline_and_one_that_names_nothing_stands_at_the_start(
    step: str, milliseconds: int, cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    run_id = runs.start()
    runs.write(run_id, *RECORDS)
    write_timeline(runs, run_id, data_of(*span("slow", "1", 0, 50)))
    runs.finalize(run_id)
    path = runs.paths.diagnosis_path(run_id)
    diagnosis = json.loads(path.read_text())
    diagnosis["failure_analysis"]["findings"][0]["first_bad_step"] = step
    path.write_text(json.dumps(diagnosis))
    cli("export", run_id, "--format", "perfetto")
    file = exported(tmp_path / "run_001.perfetto.json")
    [finding] = [event for event in file.of("i") if event["args"].get("finding") == "finding_001"]
    assert finding["ts"] == milliseconds * 1000
    assert file.document["otherData"]["started_at"] == RECORDS[0]["timestamp"]


def test_answers_as_json_and_writes_to_standard_output_but_not_both(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    runs.seal(*RECORDS)
    result = cli("export", "run_001", "--format", "perfetto", "-o", "a.json", "--json").data
    assert result["file"] == str(tmp_path / "a.json")
    assert result["bytes"] == (tmp_path / "a.json").stat().st_size
    assert result["notes"] == ["The OpenClaw timeline is not included: OpenClaw wrote no timeline."]
    streamed = cli("export", "run_001", "--format", "perfetto", "-o", "-")
    assert streamed.out == (tmp_path / "a.json").read_text()
    assert cli("export", "run_001", "--format", "perfetto", "-o", "-", "--json").error["exit_code"] == 2


def test_exporting_again_replaces_the_file_with_the_same_bytes(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    runs.seal(*RECORDS)
    file = tmp_path / "run_001.perfetto.json"
    file.write_text("of before")
    contents = []
    for _ in range(2):
        assert cli("export", "run_001", "--format", "perfetto").code == 0
        contents.append(file.read_bytes())
    assert contents[0] == contents[1]
    assert checked(contents[0])


def test_a_run_that_is_still_recorded_is_exported_as_far_as_it_has_come(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    run_id = runs.start()
    append_event_to_run(run_id, {"event_type": "process_start", "pid": 99}, runs_dir=runs.folder)
    runs.write(run_id, *RECORDS[:4])
    write_timeline(runs, run_id, data_of(start("agent.prepare", "1", 5)) + b'{"schemaVersion":"open')
    answer = cli("export", run_id, "--format", "perfetto")
    assert answer.code == 0
    assert "not finalized" in answer.err
    assert f"critiqor finalize {run_id}" in answer.err
    file = exported(tmp_path / "run_001.perfetto.json")
    for category in ("agent", "tool", "span", "process"):
        assert [event["args"]["unfinished"] for event in file.slices(category)] == [True]
    assert runs.status(run_id) == "MONITORING"


def test_an_aborted_run_is_exported_without_findings(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    run_id = runs.start()
    runs.write(run_id, *RECORDS)
    abort_session(run_id, runs_dir=runs.folder)
    answer = cli("export", run_id, "--format", "perfetto")
    assert answer.code == 0
    assert f"critiqor diagnose {run_id}" in answer.err
    file = exported(tmp_path / "run_001.perfetto.json")
    assert len(file.slices("tool")) == 6
    assert f"critiqor diagnose {run_id}" in file.document["otherData"]["notes"]


def test_an_imported_run_spans_its_own_time_and_not_that_of_the_import(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    call = {"tool": "exec", "tool_call_id": "c"}
    events = [
        {"i": 0, "type": "user", "text": "go", "ts": "2025-03-19T16:32:08.000Z"},
        {"i": 1, "type": "tool_call", "args": {}, "ts": "2025-03-19T16:32:09.000Z", **call},
        {"i": 2, "type": "tool_result", "text": "", "ts": "2025-03-19T16:32:10.000Z", **call},
    ]
    source = tmp_path / "traces.jsonl"
    source.write_text(json.dumps({"labels": {"trace_id": "t"}, "events": events}) + "\n")
    [trace] = read_traces(source)
    import_run(trace, runs.folder)
    answer = cli("export", "run_001", "--format", "perfetto")
    assert answer.code == 0
    assert "timeline" not in answer.err
    file = exported(tmp_path / "run_001.perfetto.json")
    [tool] = file.slices("tool")
    assert (tool["ts"], tool["dur"]) == (1_000_000, 1_000_000)
    assert max(event["ts"] for event in file.events) < 10_000_000


def test_what_openclaw_wrote_after_the_seal_is_not_exported(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    run_id = runs.start()
    runs.write(run_id, *RECORDS)
    write_timeline(runs, run_id, data_of(*span("before", "1", 0, 50)))
    runs.finalize(run_id)
    with runs.paths.timeline_path(run_id).open("ab") as file:
        file.write(data_of(*span("after", "2", 60, 70)))
    cli("export", run_id, "--format", "perfetto")
    assert [event["name"] for event in exported(tmp_path / "run_001.perfetto.json").slices("span")] == ["before"]


def test_what_is_no_run_is_refused_with_what_to_type_instead(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "timeline.jsonl").write_text("{}\n")
    missing = cli("export", "run_404", "--format", "perfetto")
    assert (missing.code, "critiqor runs" in missing.err) == (1, True)
    a_file = cli("export", "timeline.jsonl", "--format", "perfetto")
    assert (a_file.code, "critiqor timeline timeline.jsonl" in a_file.err) == (2, True)
    unknown = cli("export", "run_001", "--format", "docx")
    assert (unknown.code, "perfetto" in unknown.err) == (2, True)


@pytest.mark.parametrize("output", ["runs/run_001/session.json", "runs/run_002.json", ".", "pipe"])
def test_nothing_but_a_plain_file_elsewhere_is_overwritten(output: str, cli: Cli, runs: Runs, tmp_path: Path) -> None:
    runs.seal(*RECORDS)
    os.mkfifo(tmp_path / "pipe")
    evidence = runs.evidence_bytes("run_001")
    answer = cli("export", "run_001", "--format", "perfetto", "--output", output)
    assert answer.code == 2
    assert "--output" in answer.err
    assert runs.evidence_bytes("run_001") == evidence
    assert (tmp_path / "pipe").is_fifo()


def test_evidence_that_cannot_be_read_is_an_error_and_leaves_the_old_file(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    runs.seal(*RECORDS)
    document = runs.paths.evidence_summary_path("run_001")
    damaged = document.read_bytes().replace(b'"tool_call_id":"c"', b'"tool_call_id":c', 1)
    document.unlink()
    document.write_bytes(damaged)
    (tmp_path / "run_001.perfetto.json").write_text("of before")
    answer = cli("export", "run_001", "--format", "perfetto", "--json")
    assert answer.error["type"] == BrokenRecordError.__name__
    assert answer.error["fix"] == "critiqor verify run_001"
    assert (tmp_path / "run_001.perfetto.json").read_text() == "of before"


def test_parts_that_are_too_many_for_any_viewer_are_left_out_with_a_note(
    cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.seal(*RECORDS)
    monkeypatch.setattr(traces, "MAX_PARTS", 4)
    notes = cli("export", "run_001", "--format", "perfetto", "--json").data["notes"]
    assert "Only the first 4 parts from the events are included." in notes


@pytest.mark.parametrize("name", [name for name, format_ in FORMATS.items() if format_.takes != "pages"])
def test_every_format_has_a_reporter_in_the_module_of_its_name(name: str) -> None:
    assert callable(importlib.import_module(f"critiqor.exporters.{name}").report)


def test_spans_of_a_run_come_back_as_the_same_run(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    """With their content, they lead to the same findings as the evidence."""
    runs.seal(*RECORDS)
    assert cli("export", "run_001", "--format", "otlp", "--content").code == 0
    [trace] = read_traces(tmp_path / "run_001.otlp.json")
    found = diagnose_trace(trace)
    types = {
        finding["type"]
        for finding in cli("show", "run_001", "--json").data["diagnosis"]["failure_analysis"]["findings"]
    }
    assert types
    assert types <= {finding.type for finding in found.failure_analysis.findings}
    assert found.cost_analysis.tool_calls == 6


@pytest.mark.parametrize(("options", "shown"), [((), ["writing run_001 as otlp"]), (("--output", "-"), [])])
def test_the_writing_of_a_large_run_is_shown_but_not_beside_a_stream(
    options: tuple[str, ...], shown: list[str], cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.seal(*RECORDS)
    seen: list[str] = []
    monkeypatch.setattr(progress, "shows_progress", lambda: True)

    @contextmanager
    def wait(description: str) -> Iterator[None]:
        seen.append(description)
        yield

    monkeypatch.setattr(progress, "_wait", wait)
    assert cli("export", "run_001", "--format", "otlp", *options).code == 0
    assert seen == [], "a small one is written in a moment"
    monkeypatch.setattr(progress, "MIN_BYTES", 0)
    assert cli("export", "run_001", "--format", "otlp", *options).code == 0
    assert seen == shown
