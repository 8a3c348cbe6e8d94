"""Our own evidence can be imported: session.json, sealed or not, and the record of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import Cli, Runs, attached, recorded

from critiqor.api import diagnose
from critiqor.errors import ExitCode, UsageError
from critiqor.importers import detect_format, read_traces
from critiqor.storage.seals.verification import verify_run


def recording() -> list[dict[str, Any]]:
    call: dict[str, Any] = {"tool_name": "exec", "tool_call_id": "c1"}
    return [
        attached(),
        recorded(2, "input", payload={"role": "user", "text": "Run the tests."}),
        recorded(3, "tool_call", **call, payload={"arguments": {"command": "make test"}}),
        recorded(4, "tool_output", **call, status="error", error="exit code 1", payload={"result": "2 failed"}),
        recorded(5, "message_end", payload={"role": "assistant", "text": "All tests pass."}),
        recorded(6, "agent_end", payload={"success": True}),
    ]


def sealed(runs: Runs, *records: dict[str, Any]) -> dict[str, Any]:
    return runs.seal(*(records or recording()))


def written(folder: Path, document: object, **layout: Any) -> Path:
    path = folder / "session.json"
    path.write_text(json.dumps(document, **layout))
    return path


def imported(cli: Cli, runs: Runs, path: Path) -> dict[str, Any]:
    """The record of the run that a file becomes."""
    answer = cli("import", path, "--json")
    assert (answer.code, answer.data["format"]) == (ExitCode.OK, "critiqor_session")
    [row] = answer.data["runs"]
    return runs.record(row["run_id"])


def test_a_sealed_session_becomes_a_run_with_the_same_events_and_the_same_diagnosis(cli: Cli, runs: Runs) -> None:
    evidence = sealed(runs)
    record = imported(cli, runs, runs.paths.evidence_summary_path("run_001"))
    events = runs.evidence(record["run_id"])["events"]
    assert events[: len(evidence["events"])] == evidence["events"]
    assert [event["event_type"] for event in events[len(evidence["events"]) :]] == ["run_imported", "state_transition"]
    original = runs.record("run_001")
    for score in ("trust_score", "confidence_score", "headline"):
        assert record[score] == original[score]
    assert record["diagnosis"]["primary_diagnosis"]["type"] == "false_success_claim"
    assert verify_run(runs.paths, record["run_id"]).intact


def test_coverage_says_where_it_was_recorded(cli: Cli, runs: Runs) -> None:
    sealed(runs)
    record = imported(cli, runs, runs.paths.evidence_summary_path("run_001"))
    coverage = runs.evidence(record["run_id"])["coverage"]
    assert (coverage["imported_from"], coverage["recorder_attached"]) == ("critiqor_session", True)
    assert coverage["notes"][0].startswith(
        "Imported from a file of the format critiqor_session: recorded by Critiqor elsewhere"
    )


def test_losses_of_the_original_recording_are_still_known(cli: Cli, runs: Runs) -> None:
    run_id = runs.start()
    first, *others, last = recording()
    runs.write(run_id, first, b'{"torn": \n', *others[:1], *others[2:], last)
    runs.finalize(run_id)
    record = imported(cli, runs, runs.paths.evidence_summary_path(run_id))
    before, after = runs.evidence(run_id)["coverage"], runs.evidence(record["run_id"])["coverage"]
    assert before["damaged_records"] == after["damaged_records"] == 1
    assert before["missing_records"] == after["missing_records"]
    assert record["confidence_score"] == runs.record(run_id)["confidence_score"] < 100


@pytest.mark.parametrize("layout", [{"indent": 2}, {"sort_keys": True}, {"separators": (",", ":")}])
def test_the_layout_of_the_file_does_not_matter(runs: Runs, tmp_path: Path, layout: dict[str, Any]) -> None:
    evidence = sealed(runs)
    path = written(tmp_path, evidence, **layout)
    assert detect_format(path) == "critiqor_session"
    assert diagnose(path).trust_score == runs.record("run_001")["trust_score"]


def test_a_session_that_is_not_sealed_is_imported(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    events = recording()
    live = {"schema_version": "critiqor.session.v1", "run_id": "run_9", "session_id": "run_9", "events": events}
    record = imported(cli, runs, written(tmp_path, {**live, "metrics": {}}))
    stored = [event for event in runs.evidence(record["run_id"])["events"] if event["source_layer"] != "supervisor"]
    assert [event["event_id"] for event in stored] == [event["event_id"] for event in events]
    assert record["diagnosis"]["primary_diagnosis"]["type"] == "false_success_claim"


def test_fields_of_a_newer_version_are_left_out(runs: Runs, tmp_path: Path) -> None:
    evidence = sealed(runs)
    newer = {**evidence, "weather": "fine", "coverage": {**evidence["coverage"], "weather": 1}}
    newer["events"] = [{**event, "mood": "good"} for event in evidence["events"]]
    [trace] = read_traces(written(tmp_path, newer))
    [original] = read_traces(runs.paths.evidence_summary_path("run_001"))
    assert trace == original
    assert trace.not_understood == 0


def test_a_schema_of_a_newer_version_is_refused(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    path = written(tmp_path, {**sealed(runs), "schema_version": "critiqor.session.v2"})
    with pytest.raises(UsageError, match=r"critiqor\.session\.v2"):
        diagnose(path)
    assert cli("import", path).code == cli("diagnose", path).code == ExitCode.USAGE


def test_a_coverage_that_its_events_contradict_is_not_believed(runs: Runs, tmp_path: Path) -> None:
    path = written(tmp_path, {**sealed(runs), "events": [{"a": 1}]})
    diagnosis = diagnose(path)
    assert (diagnosis.trust_score, diagnosis.readiness) == (None, "unknown")


def test_events_that_cannot_be_read_are_counted_and_the_others_used(runs: Runs, tmp_path: Path) -> None:
    evidence = sealed(runs)
    broken = [7, {"a": 1}, {**evidence["events"][2], "duration_ms": True, "event_id": "x"}]
    [trace] = read_traces(written(tmp_path, {**evidence, "events": [*evidence["events"], *broken]}))
    assert trace.events[: len(evidence["events"])] == next(iter(read_traces(written(tmp_path, evidence)))).events
    assert trace.not_understood == 3
    assert trace.notes == ["events that could not be read: 3 (9: not an object, 10: no type, 11: wrong type)"]


def test_a_file_that_is_cut_off_is_refused(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    sealed(runs)
    path = tmp_path / "session.json"
    path.write_bytes(runs.evidence_bytes("run_001")[:-400])
    answer = cli("import", path)
    assert (answer.code, answer.out) == (ExitCode.USAGE, "")
    assert "session.json is not the evidence of a run" in answer.err


def test_the_record_of_a_run_holds_the_same_events(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    sealed(runs)
    path = tmp_path / "run_001.json"
    path.write_bytes(runs.paths.run_path("run_001").read_bytes())
    record = imported(cli, runs, path)
    assert record["diagnosis"]["primary_diagnosis"]["type"] == "false_success_claim"
    assert diagnose(path).trust_score == record["trust_score"] == runs.record("run_001")["trust_score"]


def test_an_imported_run_can_be_imported_again(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    neutral = tmp_path / "trace.jsonl"
    neutral.write_text(
        json.dumps({"events": [{"type": "user", "text": "Hi"}, {"type": "assistant", "text": "Hello."}, 7]})
    )
    cli("import", neutral)
    record = imported(cli, runs, runs.paths.evidence_summary_path("run_001"))
    original = runs.record("run_001")
    assert record["confidence_score"] == original["confidence_score"]
    assert runs.evidence(record["run_id"])["coverage"]["entries_not_understood"] == 1
