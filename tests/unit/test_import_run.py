from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import Cli, Runs, attached, from_recorder, recorded

from critiqor.errors import ExitCode, UsageError
from critiqor.importers import ImportedTrace, read_traces
from critiqor.model import Event
from critiqor.model.event import place_of
from critiqor.session import create_session, diagnose_run, import_run, load_active_session, load_record
from critiqor.storage.seals.verification import verify_run

SECRET = "sk-ant-" + "api03-" + "Zx9" * 12
EVENTS: tuple[dict[str, Any], ...] = (
    {"i": 0, "type": "user", "text": "run the tests", "ts": "2025-03-19T16:32:08.575Z"},
    {"i": 3, "type": "tool_call", "tool": "exec", "args": {"command": "make test"}, "tool_call_id": "c1"},
    {"i": 4, "type": "tool_result", "tool": "exec", "text": "2 failed", "is_error": True, "tool_call_id": "c1"},
    {"i": 9, "type": "end", "text": f"All green, I used {SECRET}"},
)


def file_of(folder: Path, *traces: object, name: str = "traces.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(trace if isinstance(trace, str) else json.dumps(trace) + "\n" for trace in traces))
    return path


def trace_of(folder: Path, *events: dict[str, Any], trace_id: str = "t-1") -> ImportedTrace:
    [trace] = read_traces(file_of(folder, {"labels": {"trace_id": trace_id}, "events": list(events or EVENTS)}))
    return trace


def test_an_imported_run_is_sealed_diagnosed_and_can_be_verified(runs: Runs, tmp_path: Path) -> None:
    record = import_run(trace_of(tmp_path), runs.folder, agent_id="bench")
    run_id = record["run_id"]
    assert (record["status"], record["metadata"]["framework"], record["metadata"]["agent_id"]) == (
        "COMPLETED",
        "imported",
        "bench",
    )
    assert runs.lifecycle(run_id) == ["IDLE", "FINALIZING", "COMPLETED"]
    assert record["diagnosis"]["evidence_digest"] == record["seal"]["digest"]
    assert verify_run(runs.paths, run_id).intact
    evidence = runs.evidence(run_id)
    events = from_recorder(evidence)
    assert [event["event_type"] for event in events] == ["input", "tool_call", "tool_output", "agent_end"]
    places = [place_of(event["event_id"]) for event in events]
    assert [place.sequence - 1 for place in places if place] == [0, 3, 4, 9]
    assert [event["event_type"] for event in evidence["events"]][-2:] == ["run_imported", "state_transition"]
    assert diagnose_run(run_id, runs.folder)["run_id"] == run_id
    assert not runs.paths.redaction_key_path(run_id).exists()


def test_coverage_says_that_it_was_imported_and_what_is_not_known(runs: Runs, tmp_path: Path) -> None:
    run_id = import_run(trace_of(tmp_path), runs.folder)["run_id"]
    coverage = runs.evidence(run_id)["coverage"]
    assert coverage["imported_from"] == "neutral"
    assert coverage["recorder_attached"] is False
    assert coverage["agent_events"] == 4
    assert (coverage["missing_records"], coverage["missing_by_writer"], coverage["damaged_records"]) == (0, {}, 0)
    assert coverage["calls_without_results"] == 0
    assert coverage["notes"][0].startswith("Imported from a file of the format neutral: not recorded by Critiqor")
    assert "events without a time, placed at the time of the preceding event: 3" in coverage["notes"]
    assert load_record(run_id, runs.folder)["trust_score"] is not None


def test_a_recording_of_our_own_is_not_called_imported(runs: Runs) -> None:
    coverage = runs.seal(attached(), recorded(2), recorded(5, writer="import"))["coverage"]
    assert coverage["imported_from"] is None
    assert coverage["missing_by_writer"] == {"import": 4}


def test_secrets_are_in_no_file_of_an_imported_run(runs: Runs, tmp_path: Path) -> None:
    run_id = import_run(trace_of(tmp_path), runs.folder)["run_id"]
    for path in runs.folder.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()
    assert sum(runs.evidence(run_id)["coverage"]["secrets_redacted"].values()) == 1


def test_a_recording_that_goes_on_is_not_disturbed(runs: Runs, tmp_path: Path) -> None:
    active = create_session(runs.folder)["run_id"]
    slot = runs.paths.active_path.read_bytes()
    record = runs.record(active)
    imported = import_run(trace_of(tmp_path), runs.folder)
    assert imported["status"] == "COMPLETED"
    assert runs.paths.active_path.read_bytes() == slot
    assert runs.record(active) == record
    runs.write(active, attached(), recorded(2))
    assert runs.finalize()["run_id"] == active


def test_an_import_leaves_no_session_behind(runs: Runs, tmp_path: Path) -> None:
    import_run(trace_of(tmp_path), runs.folder)
    assert load_active_session(runs.folder) is None
    assert not runs.paths.active_path.exists()
    assert runs.start() == "run_002"


def test_an_import_that_was_killed_can_be_finished(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("critiqor.run.importing.finalize", dies)
        with pytest.raises(KeyboardInterrupt):
            import_run(trace_of(tmp_path), runs.folder)
    assert runs.status("run_001") == "FINALIZING"
    finished = runs.finalize("run_001")
    assert finished["status"] == "COMPLETED"
    assert runs.evidence("run_001")["coverage"]["imported_from"] == "neutral"


def test_a_trace_without_events_proves_nothing(runs: Runs) -> None:
    empty = ImportedTrace(trace_id="t", format="neutral", events=[], notes=["nothing could be read"])
    record = import_run(empty, runs.folder)
    assert record["trust_score"] is None
    assert runs.evidence("run_001")["coverage"]["notes"][-1] == "nothing could be read"


@pytest.mark.parametrize("metadata", [{"visibility": "everyone"}, {"agent_id": 7}, {"colour": "blue"}])
def test_metadata_that_a_run_does_not_take_is_refused(runs: Runs, metadata: dict[str, Any]) -> None:
    empty = ImportedTrace(trace_id="t", format="neutral", events=[Event(event_type="input")], notes=[])
    with pytest.raises(UsageError):
        import_run(empty, runs.folder, **metadata)
    assert runs.paths.run_ids() == []


def test_verb_makes_a_run_of_every_trace_and_tells_what_was_left_out(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    traces = [{"labels": {"trace_id": f"t-{n}"}, "events": list(EVENTS)} for n in range(2)]
    path = file_of(tmp_path, traces[0], "broken\n", traces[1])
    answer = cli("import", path)
    assert (answer.code, answer.err) == (ExitCode.OK, "")
    lines = answer.out.splitlines()
    assert lines[1].startswith("run_001  t-0  4 events  ")
    assert any(line.startswith("run_002  t-1  4 events  ") for line in lines)
    assert "left out  line-2  lines that could not be read: 1 (2: not JSON)" in lines
    assert lines[-1] == "Next: critiqor show run_001"
    shown = cli("show", "run_001")
    assert "Imported from a file of the format neutral" in shown.out
    assert cli("verify", "run_002").code == ExitCode.OK
    assert [row["agent_id"] for row in cli("runs", "--json").data] == ["imported_agent"] * 2


def test_verb_answers_as_json(cli: Cli, tmp_path: Path) -> None:
    path = file_of(tmp_path, {"labels": {"trace_id": "t"}, "events": list(EVENTS)}, "broken\n")
    answer = cli(
        "import", path, "--json", "--agent-id", "bench", "--tenant-id", "lab", "--runs-dir", tmp_path / "elsewhere"
    )
    assert (answer.document["verb"], answer.data["format"]) == ("import", "neutral")
    [run] = answer.data["runs"]
    assert (run["run_id"], run["trace_id"], run["events"]) == ("run_001", "t", 4)
    assert [trace["trace_id"] for trace in answer.data["left_out"]] == ["line-2"]
    metadata = load_record("run_001", tmp_path / "elsewhere")["metadata"]
    assert (metadata["agent_id"], metadata["tenant_id"]) == ("bench", "lab")


def test_tags_of_one_import_say_nothing_about_those_of_another(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    path = file_of(tmp_path, {"labels": {}, "events": list(EVENTS)})
    cli("import", path)
    cli("import", path)
    first, second = (from_recorder(runs.evidence(run))[-1]["payload"]["text"] for run in ("run_001", "run_002"))
    assert "[redacted:" in first
    assert first != second


def test_verb_refuses_what_it_does_not_understand(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    odd = tmp_path / "odd.txt"
    odd.write_text("hello\n")
    refused = cli("import", odd)
    assert (refused.code, refused.out) == (ExitCode.USAGE, "")
    assert "odd.txt is not in a format" in refused.err
    assert "OpenTelemetry" in refused.err
    assert cli("import", tmp_path / "nothing", "--json").error["exit_code"] == ExitCode.USAGE
    assert cli("import", tmp_path).code == ExitCode.USAGE
    assert runs.paths.run_ids() == []


def test_verb_says_when_nothing_could_be_imported(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    answer = cli("import", file_of(tmp_path, {"labels": {"trace_id": "t"}, "events": []}))
    assert answer.code == ExitCode.ERROR
    assert "left out  t  no events" in answer.out
    assert runs.paths.run_ids() == []


def test_names_from_a_file_cannot_paint_the_terminal(cli: Cli, tmp_path: Path) -> None:
    path = file_of(tmp_path, {"labels": {"trace_id": "t\nrun_999  \x1b[2J"}, "events": list(EVENTS)})
    answer = cli("import", path)
    assert "\x1b" not in answer.out
    assert not any(line.startswith("run_999") for line in answer.out.splitlines())


def test_an_imported_run_has_the_visibility_that_the_verb_is_given(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    file = file_of(tmp_path, {"labels": {"trace_id": "t-1"}, "events": list(EVENTS)})
    assert cli("import", str(file), "--visibility", "anonymous").code == 0
    assert cli("visibility", "run_001", "--json").data["visibility"] == "anonymous"
    assert "make test" not in cli("report", "run_001").out
    assert cli("import", str(file), "--visibility", "everybody").code == 2
