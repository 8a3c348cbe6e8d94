"""The verbs `diagnose` and `explain`: diagnosing again, and diagnosing files outside of the runs folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import Cli, Runs, attached, recorded

from critiqor.model import Diagnosis
from critiqor.run.store import Run, RunStore
from critiqor.run.view import summarize_runs
from critiqor.session import abort_session, diagnose_run
from critiqor.storage.seals.verification import verify_run


def failing(runs: Runs) -> str:
    """A completed run in which a test failed and the agent says otherwise."""
    result = {"content": [{"type": "text", "text": "1 failed"}]}
    runs.seal(
        attached(),
        recorded(2, "tool_call", tool_name="exec", tool_call_id="a", payload={"arguments": {"command": "pytest"}}),
        recorded(
            3,
            "tool_result",
            tool_name="exec",
            tool_call_id="a",
            status="error",
            error="exit code 1",
            payload={"result": result},
        ),
        recorded(4, "message_end", payload={"role": "assistant", "text": "All tests pass."}),
        recorded(5, "agent_end", payload={"success": True}),
    )
    return runs.paths.run_ids()[-1]


def made_by_older_rules(runs: Runs, run_id: str) -> None:
    """Replace the diagnosis by one that found something else."""
    known = Run.load(run_id, runs.folder).diagnosis
    finding = msgspec.structs.replace(known.failure_analysis.findings[0], cause="something:else")
    analysis = msgspec.structs.replace(known.failure_analysis, findings=[finding])
    old = msgspec.structs.replace(known, rule_set_version="0", failure_analysis=analysis, trust_score=12)
    runs.paths.diagnosis_path(run_id).write_bytes(msgspec.json.encode(old))


def test_diagnosing_again_prints_what_changed_and_the_rule_sets(runs: Runs, cli: Cli) -> None:
    run_id = failing(runs)
    made_by_older_rules(runs, run_id)
    output = cli("diagnose", run_id, "--runs-dir", runs.folder).out
    assert "rule set 0 → " in output
    assert "gone: something:else" in output
    assert "new:  false_success_claim:" in output
    assert "trust: 12 → 50" in output


def test_diagnosing_again_by_the_same_rules_changes_nothing(runs: Runs, cli: Cli) -> None:
    run_id = failing(runs)
    before = json.loads(runs.paths.diagnosis_path(run_id).read_bytes())
    assert "nothing changed" in cli("diagnose", run_id, "--runs-dir", runs.folder).out
    after = json.loads(runs.paths.diagnosis_path(run_id).read_bytes())
    moment = {"generated_at": None, "seal": None}
    assert {**after, **moment} == {**before, **moment}


def test_record_shows_the_last_diagnosis_and_keeps_its_events(runs: Runs) -> None:
    run_id = failing(runs)
    before = runs.record(run_id)
    made_by_older_rules(runs, run_id)
    runs.paths.run_path(run_id).write_bytes(
        runs.paths.run_path(run_id).read_bytes().replace(b'"trust_score":50', b'"trust_score":12')
    )
    diagnose_run(run_id, runs.folder)
    after = runs.record(run_id)
    assert after["trust_score"] == after["diagnosis"]["trust_score"] == 50
    assert after["event_log"] == before["event_log"]
    assert verify_run(runs.paths, run_id).intact


def test_event_that_looks_like_the_log_of_a_record_does_not_confuse_it(runs: Runs) -> None:
    text = '"event_log":[{"event_id":"evt_x"}]'
    runs.seal(attached(), recorded(2, "message_end", payload={"role": "assistant", "text": text}))
    before = runs.record("run_001")["event_log"]
    diagnose_run("run_001", runs.folder)
    assert runs.record("run_001")["event_log"] == before


def test_aborted_run_can_be_diagnosed_and_compared(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2, "agent_start"))
    abort_session(run_id, runs_dir=runs.folder)
    assert summarize_runs(RunStore(runs.folder))[0].diagnosis is None
    diagnose_run(run_id, runs.folder)
    assert isinstance(summarize_runs(RunStore(runs.folder))[0].diagnosis, Diagnosis)


def test_evidence_outside_of_the_runs_folder_is_diagnosed_without_writing(runs: Runs, cli: Cli, tmp_path: Path) -> None:
    run_id = failing(runs)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "session.json").write_bytes(runs.evidence_bytes(run_id))
    answer = cli("diagnose", elsewhere / "session.json", "--json", "--runs-dir", tmp_path / "none")
    data = json.loads(answer.out)["data"]
    assert data["primary_diagnosis"]["type"] == "false_success_claim"
    assert data["evidence_digest"] == runs.record(run_id)["seal"]["digest"]
    assert [path.name for path in elsewhere.iterdir()] == ["session.json"]


@pytest.mark.parametrize("form", ["indented", "live"])
def test_evidence_in_another_format_is_diagnosed_the_same_way(runs: Runs, cli: Cli, tmp_path: Path, form: str) -> None:
    document = runs.evidence(failing(runs))
    if form == "live":
        document = {name: document[name] for name in ("schema_version", "run_id", "session_id", "events", "metrics")}
    file = tmp_path / "other.json"
    file.write_text(json.dumps(document, indent=2))
    data = json.loads(cli("diagnose", file, "--json").out)["data"]
    assert data["primary_diagnosis"]["type"] == "false_success_claim"


def trace(trace_id: str, *events: dict[str, Any]) -> str:
    numbered = [{"i": number, **event} for number, event in enumerate(events)]
    return json.dumps({"labels": {"trace_id": trace_id}, "events": numbered})


def test_traces_are_answered_line_by_line_in_their_own_numbers(cli: Cli, tmp_path: Path) -> None:
    call = {"type": "tool_call", "tool": "fetch", "args": {"url": "x"}, "tool_call_id": "c"}
    failed = {"type": "tool_result", "tool": "fetch", "text": "boom", "is_error": True, "tool_call_id": "c"}
    said = {"type": "assistant", "text": "The address cannot be reached."}
    file = tmp_path / "traces.jsonl"
    clean = trace("clean", {"type": "user", "text": "hello"}, {"type": "assistant", "text": "Hello."}, {"type": "end"})
    file.write_text("\n".join([clean, trace("loop", call, failed, call, failed, call, failed, said)]) + "\n")
    lines = [json.loads(line) for line in cli("diagnose", file, "--json").out.splitlines()]
    assert [line["trace_id"] for line in lines] == ["clean", "loop"]
    assert lines[0].keys() == {
        *("trace_id", "outcome", "task", "trust_score", "confidence_score", "readiness", "findings", "claims", "notes"),
    }
    assert lines[0]["findings"] == []
    [finding] = lines[1]["findings"]
    assert finding["type"] == "repeated_tool_failure"
    assert finding["first_bad_step"] == 3
    assert finding["event_i"] == [1, 3, 5]


def test_file_of_an_unknown_format_is_an_error_that_names_it(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("buy milk\n")
    answer = cli("diagnose", file)
    assert answer.code == 2
    assert "notes.txt" in answer.err


def test_unknown_run_is_named(runs: Runs, cli: Cli) -> None:
    answer = cli("diagnose", "run_404", "--runs-dir", runs.folder)
    assert answer.code == 1
    assert "run_404" in answer.err


@pytest.mark.parametrize("name", ["finding_001", "false_success_claim"])
def test_finding_is_explained_with_its_events(runs: Runs, cli: Cli, name: str) -> None:
    output = cli("explain", failing(runs), name, "--runs-dir", runs.folder).out
    assert "contradicted → The agent wrote: All tests pass." in output
    assert "text: All tests pass." in output
    assert "error: exit code 1" in output


def test_explanation_as_json_contains_the_events(runs: Runs, cli: Cli) -> None:
    answer = cli("explain", failing(runs), "finding_001", "--json", "--runs-dir", runs.folder)
    data = json.loads(answer.out)["data"]
    assert [step["event"]["event_type"] for step in data["chain"]] == ["tool_output", "message_end"]
    assert data["finding"]["id"] == "finding_001"


def test_error_for_an_unknown_finding_lists_the_known_ones(runs: Runs, cli: Cli) -> None:
    answer = cli("explain", failing(runs), "tool_loop", "--runs-dir", runs.folder)
    assert answer.code == 2
    assert "finding_001 (false_success_claim)" in answer.err
