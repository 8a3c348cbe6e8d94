from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from support import Runs, attached, from_recorder, recorded

from critiqor import session
from critiqor.errors import (
    ActiveSessionError,
    BrokenRecordError,
    NoActiveSessionError,
    UnknownRunError,
    UsageError,
)
from critiqor.model import Owner
from critiqor.run import finalization
from critiqor.run.active_slot import active_record
from critiqor.run.owner import is_owner_alive
from critiqor.session import (
    abort_session,
    append_event_to_run,
    complete_session,
    create_session,
    diagnose_run,
    finalize_session,
    load_active_session,
    load_session_evidence_events,
    refresh_live_evidence,
    request_finalize,
    write_json,
)
from critiqor.storage import run_record as records

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
UNTIL_COMPLETION = ("diagnosis", "trust_score", "confidence_score", "causal_graph", "failure_analysis", "cost_analysis")


def append(runs: Runs, run_id: str, **event: Any) -> dict[str, Any] | None:
    return append_event_to_run(run_id, event, runs_dir=runs.folder)


def test_every_documented_name_can_be_imported() -> None:
    documented = {
        "SessionPaths",
        "abort_session",
        "append_event_to_run",
        "create_session",
        "finalize_session",
        "load_active_session",
        "load_session_evidence_events",
        "normalize_plugin_event",
        "paths_for",
        "request_finalize",
        "write_json",
    }
    assert documented <= set(session.__all__)
    assert all(hasattr(session, name) for name in session.__all__)


def test_new_record_has_the_documented_shape_and_defaults(runs: Runs) -> None:
    returned = create_session(runs_dir=runs.folder)
    on_disk = json.loads((runs.folder / "run_001.json").read_text("utf-8"))
    assert returned == on_disk
    assert on_disk["run_id"] == "run_001"
    assert on_disk["status"] == "MONITORING"
    assert [step["state"] for step in on_disk["lifecycle"]] == ["IDLE", "MONITORING"]
    assert all(TIMESTAMP.fullmatch(step["timestamp"]) for step in on_disk["lifecycle"])
    assert on_disk["timestamps"].keys() == {"created_at", "started_at", "finalized_at"}
    assert on_disk["timestamps"]["finalized_at"] is None
    assert on_disk["metadata"] == {
        "agent_id": "openclaw_agent",
        "tenant_id": "default",
        "framework": "openclaw",
        "visibility": "private",
        "benchmark_id": "openclaw_runtime_v1",
        "difficulty_tier": "standard",
    }
    assert [(event["event_type"], event["payload"]["to"]) for event in on_disk["event_log"]] == [
        ("state_transition", "MONITORING")
    ]
    assert all(on_disk[name] is None for name in UNTIL_COMPLETION)


def test_paths_are_as_documented(runs: Runs) -> None:
    paths = session.paths_for(runs.folder)
    assert paths.run_path("run_001") == runs.folder / "run_001.json"
    assert paths.evidence_summary_path("run_001") == runs.folder / "run_001" / "session.json"
    assert paths.diagnosis_path("run_001") == runs.folder / "run_001" / "diagnosis.json"


def test_metadata_is_kept(runs: Runs) -> None:
    run_id = runs.start(agent_id="a", tenant_id="t", visibility="shared", benchmark_id="b", difficulty_tier="hard")
    metadata = runs.record(run_id)["metadata"]
    assert metadata == {
        "agent_id": "a",
        "tenant_id": "t",
        "framework": "openclaw",
        "visibility": "shared",
        "benchmark_id": "b",
        "difficulty_tier": "hard",
    }


@pytest.mark.parametrize("wrong", [{"visibility": "secret"}, {"agent_id": "\udcff"}])
def test_metadata_that_cannot_be_kept_is_a_usage_error_and_holds_no_slot(runs: Runs, wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        runs.start(**wrong)
    assert load_active_session(runs.folder) is None


def test_run_ids_count_up_and_are_never_given_twice(runs: Runs) -> None:
    for expected in ("run_001", "run_002"):
        assert runs.start() == expected
        runs.finalize()
    for path in sorted(runs.folder.glob("run_*/*")):
        path.chmod(0o600)
    for path in runs.folder.glob("run_*.json"):
        path.unlink()
    assert runs.start() == "run_003"


@pytest.mark.parametrize("last", [b"", b"abc", b"\xff\xfe", b"9" * 5000, b"-7"])
def test_damaged_run_counter_does_not_stop_numbering(runs: Runs, last: bytes) -> None:
    runs.start()
    runs.finalize()
    runs.paths.last_number_path.write_bytes(last)
    (runs.folder / ("run_" + "9" * 100)).mkdir()
    assert runs.start() == "run_002"


def test_only_one_session_holds_the_slot(runs: Runs) -> None:
    runs.start()
    with pytest.raises(ActiveSessionError, match="run_001 is MONITORING") as error:
        runs.start()
    assert "critiqor finalize" in str(error.value)
    request_finalize(runs_dir=runs.folder)
    with pytest.raises(ActiveSessionError, match="run_001 is FINALIZING"):
        runs.start()
    runs.finalize()
    assert runs.start() == "run_002"


def test_transitions_are_stamped_in_order_in_record_and_slot(runs: Runs) -> None:
    run_id = runs.start()
    assert json.loads(runs.paths.active_path.read_text())["status"] == "MONITORING"
    request_finalize(run_id, runs_dir=runs.folder)
    assert runs.lifecycle(run_id) == ["IDLE", "MONITORING", "FINALIZING"]
    assert json.loads(runs.paths.active_path.read_text())["status"] == "FINALIZING"
    runs.finalize(run_id)
    assert runs.lifecycle(run_id) == ["IDLE", "MONITORING", "FINALIZING", "COMPLETED"]
    assert not runs.paths.active_path.exists()
    record = runs.record(run_id)
    stamps = [step["timestamp"] for step in record["lifecycle"]]
    assert stamps == sorted(stamps)
    assert record["timestamps"]["finalized_at"] == stamps[-1]
    moves = [(event["payload"]["from"], event["payload"]["to"]) for event in runs.notes(run_id, "state_transition")]
    assert moves == [("IDLE", "MONITORING"), ("MONITORING", "FINALIZING"), ("FINALIZING", "COMPLETED")]


def test_active_session_is_the_one_in_the_slot_and_only_while_active(runs: Runs) -> None:
    assert load_active_session(runs.folder) is None
    run_id = runs.start()
    active = load_active_session(runs.folder)
    assert active is not None
    assert active["run_id"] == run_id
    request_finalize(run_id, runs_dir=runs.folder)
    active = load_active_session(runs.folder)
    assert active is not None
    assert active["status"] == "FINALIZING"
    slot = runs.paths.active_path.read_bytes()
    runs.finalize(run_id)
    runs.paths.active_path.write_bytes(slot)
    assert load_active_session(runs.folder) is None


BROKEN_SLOTS = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"{}",
    b'{"run_id": 5}',
    b'{"run_id": "../../etc/passwd"}',
    b'{"run_id": "run_404"}',
    b"\xff\xfe",
    b"[" * 20_000,
]


@pytest.mark.parametrize("slot", BROKEN_SLOTS, ids=lambda slot: slot[:12].decode("latin1") or "empty")
def test_broken_slot_is_as_good_as_none_and_wedges_nothing(runs: Runs, slot: bytes) -> None:
    first = runs.start()
    runs.paths.active_path.write_bytes(slot)
    assert load_active_session(runs.folder) is None
    assert runs.start() == "run_002"
    assert runs.finalize()["run_id"] == "run_002"
    assert runs.finalize()["run_id"] == first, "a session whose slot is gone is still found"
    with pytest.raises(NoActiveSessionError):
        runs.finalize()


BROKEN_RECORDS = [
    b"",
    b"{",
    b"[]",
    b'{"run_id": "run_001", "confidence_score": null, "diagnosis": null}',
    b'{"run_id": "run_001", "status": "LOST", "confidence_score": null, "diagnosis": null}',
    b"\xff\xfe",
    b"[" * 20_000,
    b'{"a":' * 20_000,
]


@pytest.mark.parametrize("content", BROKEN_RECORDS, ids=lambda content: content[:12].decode("latin1") or "empty")
def test_broken_record_is_named_and_wedges_nothing(runs: Runs, content: bytes) -> None:
    run_id = runs.start()
    runs.paths.run_path(run_id).write_bytes(content)
    assert load_active_session(runs.folder) is None
    for use in (runs.finalize, lambda run: abort_session(run, runs_dir=runs.folder), runs.record):
        with pytest.raises(BrokenRecordError, match=run_id):
            use(run_id)
    assert runs.start() == "run_002"


def test_record_under_another_name_is_refused(runs: Runs) -> None:
    runs.start()
    copy = runs.folder / "run_007.json"
    copy.write_bytes(runs.paths.run_path("run_001").read_bytes())
    with pytest.raises(BrokenRecordError, match="it contains the record of another run, run_001"):
        runs.finalize("run_007")


def test_unknown_run_and_path_in_a_run_id_are_refused(runs: Runs) -> None:
    with pytest.raises(UnknownRunError, match="run_404"):
        runs.finalize("run_404")
    for name in ("../run_001", "/etc/passwd", "", ".hidden", "a/b", "a\nb", "x" * 200):
        with pytest.raises((UsageError, NoActiveSessionError)):
            runs.finalize(name)


def test_leftovers_of_a_crash_wedge_nothing(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2))
    for path in (
        runs.paths.run_path(run_id),
        runs.paths.active_path,
        runs.paths.evidence_summary_path(run_id),
        runs.paths.diagnosis_path(run_id),
    ):
        leftover = path.with_name(path.name + ".tmp")
        leftover.write_text("half of")
        leftover.chmod(0o400)
    runs.paths.evidence_summary_path(run_id).chmod(0o400)
    assert runs.finalize()["status"] == "COMPLETED"
    assert not list(runs.folder.rglob("*.tmp"))


def test_missing_run_folder_costs_the_evidence_and_nothing_else(runs: Runs) -> None:
    run_id = runs.start()
    for path in runs.paths.run_folder(run_id).iterdir():
        path.unlink()
    runs.paths.run_folder(run_id).rmdir()
    assert runs.finalize()["trust_score"] is None
    assert runs.evidence(run_id)["coverage"]["journal_present"] is False


def test_slot_of_a_dead_owner_is_said_so_and_can_be_finalized_or_aborted(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for end in (finalize_session, abort_session):
        runs.start()
        with monkeypatch.context() as context:
            context.setattr(psutil.Process, "create_time", lambda _: 1.0)
            active = active_record(runs.paths)
            assert active is not None
            assert not is_owner_alive(active)
            with pytest.raises(ActiveSessionError, match="the process that started it is gone"):
                runs.start()
        end(runs_dir=runs.folder)
        assert load_active_session(runs.folder) is None


@pytest.mark.parametrize("pid", [-1, 0, 2**40, 2**80])
def test_owner_that_can_be_no_process_is_dead(runs: Runs, pid: int) -> None:
    runs.start()
    active = active_record(runs.paths)
    assert active is not None
    assert is_owner_alive(active)
    assert not is_owner_alive(msgspec.structs.replace(active, owner=Owner(pid, 0.0)))
    assert not is_owner_alive(msgspec.structs.replace(active, owner=None))


def test_lifecycle_event_gets_the_envelope_and_goes_into_the_record(runs: Runs) -> None:
    run_id = runs.start()
    written = append(runs, run_id, event_type="process_start", payload={"pid": 7}, cwd="x")
    assert written is not None
    assert runs.notes(run_id, "process_start") == [written]
    assert written["source_layer"] == "supervisor"
    assert written["raw_event_type"] == "process_start"
    assert written["payload"] == {"pid": 7, "cwd": "x"}
    assert TIMESTAMP.fullmatch(written["timestamp"])
    failed = append(runs, run_id, event_type="error_event", error="timeout")
    assert failed is not None
    assert (failed["status"], failed["error"]) == ("error", "timeout")
    assert written["event_id"] < failed["event_id"]


def test_lifecycle_events_end_with_the_cut(runs: Runs) -> None:
    run_id = runs.start()
    request_finalize(run_id, runs_dir=runs.folder)
    assert append(runs, run_id, event_type="process_end") is None
    runs.finalize(run_id)
    assert append(runs, run_id, event_type="process_end") is None
    with pytest.raises(UnknownRunError):
        append(runs, "run_404", event_type="process_end")


ODD_EVENTS: list[dict[str, Any]] = [
    {"event_type": "error_event", "error": {"message": "an object"}},
    {"event_type": "error_event", "error": OSError("no space")},
    {"event_type": "process_end", "duration_ms": "soon"},
    {"event_type": "process_start", "payload": ["a", "list"]},
    {"event_type": "process_start", "payload": {"command": ["openclaw", "\udcff\udcfe"]}},
    {"event_type": "process_start", "payload": {"cwd": Path("here"), "n": float("nan")}},
    {"type": "named_otherwise", "timestamp": "yesterday"},
    {"event_type": 5, "status": 6},
    {},
]


@pytest.mark.parametrize("event", ODD_EVENTS, ids=repr)
def test_odd_lifecycle_event_can_be_appended_and_finalized(runs: Runs, event: dict[str, Any]) -> None:
    run_id = runs.start()
    assert append(runs, run_id, **event) is not None
    runs.finalize(run_id)
    assert runs.evidence(run_id)["metrics"]["total_events"] == 3
    assert runs.evidence(run_id)["coverage"]["damaged_records"] == 0


def test_secrets_of_a_command_line_never_reach_the_record(runs: Runs) -> None:
    run_id = runs.start()
    key = "sk-ant-" + "a1" * 20
    command = ["openclaw", "gateway", "--token", "hunter22", f"--key={key}", "--message", f"use {key}", "--port", "80"]
    append(runs, run_id, event_type="process_start", payload={"command": command})
    append(runs, run_id, event_type="process_start", command=command)
    abort_session(reason=f"gave up on {key}", runs_dir=runs.folder)
    before = runs.paths.run_path(run_id).read_text("utf-8")
    assert key not in before
    assert "hunter22" not in before
    diagnose_run(run_id, runs_dir=runs.folder)
    kept = runs.notes(run_id, "process_start")[0]["payload"]["command"]
    assert [word for word in kept if "[redacted:" not in word] == [
        "openclaw",
        "gateway",
        "--token",
        "--message",
        "--port",
        "80",
    ]
    tags = re.findall(r"\[redacted:anthropic_key:\w+\]", before)
    assert len(tags) == 5
    assert len(set(tags)) == 1
    redacted = runs.evidence(run_id)["coverage"]["secrets_redacted"]
    assert redacted == {"anthropic_key": 5, "field": 2}


def test_damaged_lifecycle_entry_costs_itself(runs: Runs) -> None:
    run_id = runs.start()
    record = runs.record(run_id)
    record["event_log"] += [5, {"event_type": 7}, "text"]
    session.write_json(runs.paths.run_path(run_id), record)
    runs.finalize(run_id)
    coverage = runs.evidence(run_id)["coverage"]
    assert coverage["damage_by_kind"] == {"lifecycle": 3}
    assert [damage["line"] for damage in coverage["damage"]] == [2, 3, 4]


def test_lifecycle_events_come_out_in_true_order_when_the_clock_was_set_back(runs: Runs) -> None:
    run_id = runs.start()
    append(runs, run_id, event_type="process_start", timestamp="2031-01-01T00:00:00.000Z")
    append(runs, run_id, event_type="process_end", timestamp="2001-01-01T00:00:00.000Z")
    runs.finalize(run_id)
    ids = [event["event_id"] for event in runs.evidence(run_id)["events"]]
    assert ids == sorted(ids)
    assert len(ids) == 4


def test_finalizing_twice_gives_the_same_bytes(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2, payload={"text": "password=hunter2hunter2"}))
    first = runs.finalize()
    sealed = runs.evidence_bytes(run_id), runs.paths.run_path(run_id).read_bytes()
    runs.write(run_id, recorded(3))
    assert runs.finalize(run_id) == first
    assert (runs.evidence_bytes(run_id), runs.paths.run_path(run_id).read_bytes()) == sealed
    assert runs.paths.evidence_summary_path(run_id).stat().st_mode & 0o777 == 0o400


def test_completed_record_holds_diagnosis_and_merged_stream(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2))
    returned = runs.finalize()
    record = runs.record(run_id)
    assert returned == record
    assert {**complete_session(run_id, runs.folder), "event_log": record["event_log"]} == record
    assert record["event_log"][:-1] == runs.evidence(run_id)["events"]
    assert record["event_log"][-1]["payload"]["to"] == "COMPLETED"
    stored = json.loads(runs.paths.diagnosis_path(run_id).read_text("utf-8"))
    assert stored.pop("seal")["digest"].startswith("sha256:")
    assert record["diagnosis"] == stored == returned["diagnosis"]
    for name in ("trust_score", "confidence_score", "failure_analysis", "causal_graph", "cost_analysis"):
        assert record[name] == record["diagnosis"][name]
        assert record[name] is not None
    assert record["diagnosis"]["evidence_digest"] == record["seal"]["digest"]
    assert not runs.paths.redaction_key_path(run_id).exists()


def test_what_is_written_after_the_cut_never_changes_the_evidence(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2))
    request_finalize(run_id, runs_dir=runs.folder)
    runs.write(run_id, recorded(3), recorded(4))
    runs.finalize(run_id)
    assert len(from_recorder(runs.evidence(run_id))) == 2
    sealed = runs.evidence_bytes(run_id)
    refresh_live_evidence(run_id, runs_dir=runs.folder)
    assert runs.evidence_bytes(run_id) == sealed
    assert runs.paths.session_lock_path(run_id).read_bytes() == b"sealed"


def test_finalize_of_one_run_leaves_the_slot_of_another_alone(runs: Runs) -> None:
    first = runs.start()
    runs.paths.active_path.unlink()
    second = runs.start()
    runs.finalize(first)
    active = load_active_session(runs.folder)
    assert active is not None
    assert active["run_id"] == second


def test_finalize_killed_at_the_very_end_can_be_typed_again(runs: Runs) -> None:
    run_id = runs.start()
    slot, key = runs.paths.active_path.read_bytes(), runs.paths.redaction_key_path(run_id).read_bytes()
    runs.finalize()
    runs.paths.active_path.write_bytes(slot)
    runs.paths.redaction_key_path(run_id).write_bytes(key)
    assert runs.finalize()["run_id"] == run_id
    assert not runs.paths.active_path.exists()
    assert not runs.paths.redaction_key_path(run_id).exists()


def test_failed_finalize_stays_finalizing_and_can_be_repeated(runs: Runs) -> None:
    run_id = runs.start()
    document = runs.paths.evidence_summary_path(run_id)
    document.unlink()
    document.mkdir()
    with pytest.raises(OSError, match="directory"):
        runs.finalize()
    assert runs.status(run_id) == "FINALIZING"
    assert not list(runs.folder.rglob("*.tmp"))
    with pytest.raises(ActiveSessionError):
        runs.start()
    document.rmdir()
    assert runs.finalize()["status"] == "COMPLETED"


def test_aborted_run_keeps_its_evidence_frees_the_slot_and_can_be_diagnosed(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2))
    assert abort_session(reason="no longer needed", runs_dir=runs.folder)["status"] == "ABORTED"
    assert runs.lifecycle(run_id) == ["IDLE", "MONITORING", "ABORTED"]
    assert not runs.paths.active_path.exists()
    assert runs.paths.journal_path(run_id).exists()
    with pytest.raises(NoActiveSessionError, match="aborted"):
        runs.finalize(run_id)
    diagnosis = diagnose_run(run_id, runs_dir=runs.folder)
    assert diagnosis["trust_score"] == 100
    assert runs.status(run_id) == "ABORTED"
    sealed = runs.evidence_bytes(run_id)
    runs.write(run_id, recorded(3))
    assert diagnose_run(run_id, runs_dir=runs.folder)["evidence_digest"] == diagnosis["evidence_digest"]
    assert runs.evidence_bytes(run_id) == sealed
    assert not runs.paths.redaction_key_path(run_id).exists()


def test_abort_is_refused_once_completed_and_harmless_twice(runs: Runs) -> None:
    run_id = runs.start()
    abort_session(runs_dir=runs.folder)
    assert abort_session(run_id, runs_dir=runs.folder)["status"] == "ABORTED"
    assert runs.lifecycle(run_id).count("ABORTED") == 1
    done = runs.start()
    runs.finalize()
    with pytest.raises(NoActiveSessionError, match="completed"):
        abort_session(done, runs_dir=runs.folder)
    with pytest.raises(NoActiveSessionError, match="no run is active"):
        abort_session(runs_dir=runs.folder)


def test_abort_while_another_shell_finalizes_wins(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = runs.start()
    seal = finalization._seal_and_diagnose

    def seal_and_abort(*arguments: Any) -> Any:
        sealed = seal(*arguments)
        abort_session(run_id, runs_dir=runs.folder)
        return sealed

    monkeypatch.setattr(finalization, "_seal_and_diagnose", seal_and_abort)
    with pytest.raises(NoActiveSessionError, match="aborted"):
        runs.finalize()
    assert runs.status(run_id) == "ABORTED"
    assert runs.lifecycle(run_id) == ["IDLE", "MONITORING", "FINALIZING", "ABORTED"]
    monkeypatch.undo()
    sealed = runs.evidence_bytes(run_id)
    diagnose_run(run_id, runs_dir=runs.folder)
    assert runs.evidence_bytes(run_id) == sealed


def test_diagnosis_can_be_run_again_without_touching_the_evidence(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2, "tool_result", status="error", error="exit 1"))
    first = runs.finalize()["diagnosis"]
    sealed = runs.evidence_bytes(run_id)
    runs.paths.diagnosis_path(run_id).unlink()
    again = diagnose_run(run_id, runs_dir=runs.folder)
    assert {**again, "generated_at": None} == {**first, "generated_at": None}
    assert runs.evidence_bytes(run_id) == sealed


def test_changed_evidence_is_not_diagnosed_under_its_seal(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2))
    runs.finalize()
    path = runs.paths.evidence_summary_path(run_id)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes().replace(b'"agent_start"', b'"agent_START"'))
    with pytest.raises(BrokenRecordError, match="was changed after sealing"):
        diagnose_run(run_id, runs_dir=runs.folder)
    path.unlink()
    with pytest.raises(BrokenRecordError, match="was changed after sealing"):
        diagnose_run(run_id, runs_dir=runs.folder)


def test_active_run_is_not_diagnosed(runs: Runs) -> None:
    run_id = runs.start()
    with pytest.raises(NoActiveSessionError, match="not finalized yet"):
        diagnose_run(run_id, runs_dir=runs.folder)


DOCUMENT = {
    "schema_version": "critiqor.session.v1",
    "events": [
        {"event_type": "tool_call", "timestamp": "2026-01-01T00:00:00.000Z", "source_layer": "tool_hooks"},
        {
            "event_type": "tool_result",
            "timestamp": "2026-01-01T00:00:01.500Z",
            "source_layer": "tool_hooks",
            "status": "error",
            "duration_ms": 1500,
        },
    ],
}


def test_evidence_that_stands_in_the_document_alone_is_adopted(runs: Runs) -> None:
    run_id = runs.start()
    runs.paths.evidence_summary_path(run_id).write_text(json.dumps(DOCUMENT, indent=2), encoding="utf-8")
    record = runs.finalize()
    events = from_recorder(runs.evidence(run_id))
    assert [event["event_type"] for event in events] == ["tool_call", "tool_output"]
    assert [event["timestamp"] for event in events] == [event["timestamp"] for event in DOCUMENT["events"]]  # type: ignore[index]
    assert record["trust_score"] is not None
    assert "start event is missing" in runs.evidence(run_id)["coverage"]["notes"][0]


def test_unreadable_event_of_an_adopted_document_costs_itself(runs: Runs) -> None:
    run_id = runs.start()
    good = b'{"event_type": "agent_start", "timestamp": "2026-01-01T00:00:00Z"}'
    bad = [b'{"event_type": 5}', b'{"event_type": "a", "payload": {"n": ' + b"9" * 5000 + b"}}", b"17"]
    runs.paths.evidence_summary_path(run_id).write_bytes(b'{"events": [' + b",\n".join([*bad, good]) + b"]}")
    runs.finalize()
    evidence = runs.evidence(run_id)
    assert len(from_recorder(evidence)) == 1
    assert evidence["coverage"]["damaged_records"] == 3


def test_reading_a_document_that_is_still_written_does_not_freeze_it(runs: Runs) -> None:
    run_id = runs.start()
    document = runs.paths.evidence_summary_path(run_id)
    document.write_text(json.dumps({"events": DOCUMENT["events"][:1]}), encoding="utf-8")
    assert len(from_recorder({"events": load_session_evidence_events(run_id, runs_dir=runs.folder)})) == 1
    document.write_text(json.dumps(DOCUMENT), encoding="utf-8")
    runs.finalize()
    assert len(from_recorder(runs.evidence(run_id))) == 2


def test_events_can_be_read_before_and_after_the_seal(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2, "tool_result"))
    before = from_recorder({"events": load_session_evidence_events(run_id, runs_dir=runs.folder)})
    runs.finalize()
    after = load_session_evidence_events(run_id, runs_dir=runs.folder)
    assert from_recorder({"events": after}) == before
    assert after == runs.evidence(run_id)["events"]


def test_live_document_follows_the_journal_until_it_is_sealed(runs: Runs) -> None:
    run_id = runs.start()
    assert runs.evidence(run_id)["events"] == []
    runs.write(run_id, attached(), b"garbage\n", recorded(2, "tool_call", status="error"), b'{"torn')
    refresh_live_evidence(run_id, runs_dir=runs.folder)
    live = runs.evidence(run_id)
    assert [event["event_type"] for event in live["events"]] == ["recorder_attached", "tool_call"]
    assert live["metrics"] == {
        "total_events": 2,
        "by_event_type": {"recorder_attached": 1, "tool_call": 1},
        "by_source_layer": {"extension_api": 1, "tool_hooks": 1},
        "error_events": 1,
        "tool_calls": 1,
    }


def test_lock_that_a_dead_recorder_left_does_not_stop_the_seal(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = runs.start()
    lock = runs.paths.session_lock_path(run_id)
    lock.write_text("4711")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3600)
    assert runs.finalize()["status"] == "COMPLETED"
    assert lock.read_bytes() == b"sealed"


def test_lock_from_the_future_does_not_stop_the_seal(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = runs.start()
    runs.paths.session_lock_path(run_id).write_text("4711")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    assert runs.finalize()["status"] == "COMPLETED"


@pytest.mark.parametrize("length", [10, records.HEAD_BYTES - 700, records.HEAD_BYTES, 3 * records.HEAD_BYTES])
def test_head_is_read_right_however_long_the_metadata_is(runs: Runs, length: int) -> None:
    run_id = runs.start(agent_id="ä" * (length // 2))
    runs.write(run_id, attached(), recorded(2, "tool_result", status="error"))
    runs.finalize()
    head = session.load_record_head(run_id, runs_dir=runs.folder)
    whole = runs.record(run_id)
    assert head == {name: whole[name] for name in head}
    assert {"seal", "headline", "trust_score", "confidence_score"} <= head.keys()
    assert "event_log" not in head


def test_head_that_ends_within_a_number_is_not_taken_for_it(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2))
    runs.finalize()
    path = runs.paths.run_path(run_id)
    content = path.read_bytes()
    end = content.index(b'"confidence_score":100') + len(b'"confidence_score":1')
    padding = records.HEAD_BYTES - end
    path.write_bytes(content.replace(b"{", b"{" + b" " * padding, 1))
    assert session.load_record_head(run_id, runs_dir=runs.folder)["confidence_score"] == 100


def test_long_lifecycle_still_loads(runs: Runs) -> None:
    run_id = runs.start()
    record = runs.record(run_id)
    record["lifecycle"] += [{"state": "MONITORING", "timestamp": "2026-01-01T00:00:00.000Z"}] * 500
    session.write_json(runs.paths.run_path(run_id), record)
    assert len(session.load_record_head(run_id, runs_dir=runs.folder)["lifecycle"]) == 502
    active = load_active_session(runs.folder)
    assert active is not None
    assert runs.finalize()["status"] == "COMPLETED"


def test_run_can_be_named_by_its_id_or_its_record(runs: Runs) -> None:
    record = create_session(runs.folder)
    assert append_event_to_run(record, {"event_type": "process_start"}, runs.folder) is not None
    assert request_finalize(record, runs.folder)["status"] == "FINALIZING"
    assert finalize_session(record, runs.folder)["status"] == "COMPLETED"
    assert [event["event_type"] for event in load_session_evidence_events(record, runs.folder)][-2:] == [
        "process_start",
        "state_transition",
    ]


def test_evidence_without_a_record_can_be_read(runs: Runs) -> None:
    document = runs.paths.evidence_summary_path("run_007")
    write_json(document, {"events": [{"event_type": "tool_result", "timestamp": "2026-01-01T00:00:00Z"}]})
    (event,) = load_session_evidence_events("run_007", runs.folder)
    assert (event["event_type"], event["raw_event_type"]) == ("tool_output", "tool_result")
