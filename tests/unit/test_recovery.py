"""`critiqor recover` rebuilds the record of a run from its other files, which keep their bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dashboards import failing_tests
from support import Cli, Runs, attached, recorded

from critiqor.lab.doctor import run_checks
from critiqor.run.diagnosis import diagnose
from critiqor.run.recovery import DAMAGED_EVIDENCE, DAMAGED_RECORD
from critiqor.run.store import Run


def files_of(runs: Runs, run_id: str) -> dict[str, bytes]:
    """The evidence and the diagnosis of a run."""
    names = ("session.json", "journal.jsonl", "diagnosis.json")
    folder = runs.paths.run_folder(run_id)
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


def test_a_completed_run_is_as_it_was(runs: Runs, cli: Cli) -> None:
    run_id = failing_tests(runs)
    shown, record, files = cli("show", run_id, "--json").data, runs.record(run_id), files_of(runs, run_id)
    runs.paths.run_path(run_id).unlink()
    answer = cli("recover", run_id)
    assert answer.code == 0
    assert f"{run_id} is COMPLETED again" in answer.out
    assert "the digest that diagnosis.json names" in answer.out
    assert files_of(runs, run_id) == files
    assert cli("verify", run_id).code == 0
    again = cli("show", run_id, "--json").data
    same = ("status", "seal", "diagnosis", "headline", "trust_score", "confidence_score", "evidence")
    assert again["cut"]["journal_bytes"] == shown["cut"]["journal_bytes"]
    assert {name: again[name] for name in same if name != "seal"} == {
        name: shown[name] for name in same if name != "seal"
    }
    assert [again["seal"][name] for name in ("digest", "bytes", "events")] == [
        shown["seal"][name] for name in ("digest", "bytes", "events")
    ]
    assert runs.record(run_id)["event_log"][:-1] == record["event_log"][:-1]
    assert [step["state"] for step in again["lifecycle"]] == [step["state"] for step in shown["lifecycle"]]
    for verb in ("explain", "timeline", "report", "diagnose", "check", "benchmark"):
        assert cli(verb, run_id).code in (0, 3)


def test_a_run_that_was_being_recorded_can_be_finalized(runs: Runs, cli: Cli) -> None:
    run_id = runs.start(agent_id="bot", tenant_id="ours", visibility="public")
    runs.write(run_id, attached(), recorded(2), recorded(3, "agent_end"))
    runs.paths.run_path(run_id).unlink()
    assert cli("show", run_id).code == cli("finalize", run_id).code == 1
    answer = cli("recover", "--agent-id", "bot", "--json")
    assert (answer.data["run_id"], answer.data["status"], answer.data["events"]) == (run_id, "MONITORING", 3)
    assert any("lifecycle events" in sentence for sentence in answer.data["lost"])
    assert any("--tenant-id, --visibility" in sentence for sentence in answer.data["lost"])
    metadata = runs.record(run_id)["metadata"]
    assert (metadata["agent_id"], metadata["tenant_id"], metadata["visibility"]) == ("bot", "default", "private")
    assert cli("finalize", "--no-dashboard").code == 0
    assert len([event for event in runs.evidence(run_id)["events"] if event["source_layer"] != "supervisor"]) == 3
    assert cli("verify", run_id).code == 0


def test_what_can_be_read_of_a_damaged_record_is_used_and_the_rest_is_kept(runs: Runs, cli: Cli) -> None:
    run_id = runs.start(agent_id="MARK", tenant_id="ours", visibility="shared")
    runs.write(run_id, attached(), recorded(2), recorded(3, "agent_end"))
    record = runs.paths.run_path(run_id)
    damaged = record.read_bytes().replace(b"MARK", rb"bot \ud800")
    record.write_bytes(damaged)
    refused = cli("finalize", run_id, "--json").error
    assert refused["fix"].startswith(f"critiqor recover {run_id}")
    answer = cli("recover", run_id)
    assert answer.code == 0 and "lifecycle events from the damaged record" in answer.out
    assert (runs.paths.run_folder(run_id) / DAMAGED_RECORD).read_bytes() == damaged
    metadata = runs.record(run_id)["metadata"]
    assert (metadata["agent_id"], metadata["tenant_id"], metadata["visibility"]) == ("bot ?", "ours", "shared")
    assert cli("finalize", "--no-dashboard").code == 0
    record.write_bytes(b"")
    assert cli("recover", run_id).code == 0
    assert (runs.paths.run_folder(run_id) / DAMAGED_RECORD).read_bytes() == damaged, "the first one is still there"
    assert (runs.paths.run_folder(run_id) / "record.damaged-2.json").read_bytes() == b""


def test_an_aborted_run_stays_aborted(runs: Runs, cli: Cli) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2), recorded(3, "agent_end"))
    assert cli("abort", run_id).code == 0
    diagnose(Run(run_id, runs.paths))
    files = files_of(runs, run_id)
    runs.paths.run_path(run_id).unlink()
    assert cli("recover").code == 0
    assert runs.status(run_id) == "ABORTED"
    assert cli("verify", run_id).code == cli("show", run_id).code == 0
    assert files_of(runs, run_id) == files


def test_a_seal_without_a_diagnosis_cannot_be_checked_and_says_so(runs: Runs, cli: Cli) -> None:
    run_id = failing_tests(runs)
    runs.paths.run_path(run_id).unlink()
    runs.paths.diagnosis_path(run_id).unlink()
    lost = cli("recover", run_id, "--json").data["lost"]
    assert any("was not checked" in sentence for sentence in lost)
    assert cli("diagnose", run_id).code == 0
    assert cli("verify", run_id).code == 0


@pytest.mark.parametrize("end", [b"", b'\n],\n"metrics":{}}'])
def test_evidence_that_was_changed_is_not_made_whole(end: bytes, runs: Runs, cli: Cli) -> None:
    run_id = failing_tests(runs)
    document = runs.paths.evidence_summary_path(run_id)
    document.chmod(0o600)
    document.write_bytes(document.read_bytes().replace(b"npm test", b"npm tset")[: -200 if end else None] + end)
    changed = document.read_bytes()
    runs.paths.run_path(run_id).unlink()
    lost = cli("recover", run_id, "--json").data["lost"]
    assert any("it was changed" in sentence for sentence in lost)
    assert document.read_bytes() == changed
    assert "BROKEN" in cli("verify", run_id).out
    assert cli("show", run_id, "--json").data["evidence"]["state"] == "changed"


def test_sealed_evidence_that_cannot_be_read_is_copied_before_the_journal_is_sealed_again(runs: Runs, cli: Cli) -> None:
    run_id = failing_tests(runs)
    document = runs.paths.evidence_summary_path(run_id)
    document.chmod(0o600)
    document.write_bytes(document.read_bytes()[:500])
    torn = document.read_bytes()
    runs.paths.run_path(run_id).unlink()
    runs.paths.diagnosis_path(run_id).unlink()
    assert cli("recover", run_id, "--json").data["status"] == "MONITORING"
    assert cli("finalize", run_id, "--no-dashboard").code == 0
    assert (runs.paths.run_folder(run_id) / DAMAGED_EVIDENCE).read_bytes() == torn
    assert runs.status(run_id) == "COMPLETED"


def test_runs_show_and_doctor_name_a_lost_record_and_the_command(runs: Runs, cli: Cli, tmp_path: Path) -> None:
    whole, run_id = failing_tests(runs), failing_tests(runs)
    runs.paths.run_path(run_id).unlink()
    command = f"critiqor recover {run_id}"
    assert command in cli("runs").out
    assert {row["run_id"]: row["status"] for row in cli("runs", "--json").data} == {whole: "COMPLETED", run_id: "LOST"}
    assert cli("show", run_id, "--json").error["fix"] == command
    checks = {
        check.name: check for check in run_checks(runs.folder, "no-openclaw", {"PATH": "", "HOME": str(tmp_path)})
    }
    assert (checks[run_id].detail, checks[run_id].fix) == ("its record is missing", command)
    assert whole not in checks


def test_nothing_to_recover_is_an_error_that_says_why(runs: Runs, cli: Cli) -> None:
    first, second = failing_tests(runs), failing_tests(runs)
    assert "every run in this folder has a record" in cli("recover").err
    assert f"critiqor show {first}" in cli("recover", first).err
    assert cli("recover", "run_999").code == 1
    for run_id in (first, second):
        runs.paths.run_path(run_id).unlink()
    several = cli("recover")
    assert several.code == 2
    assert f"critiqor recover {first}" in several.err and f"critiqor recover {second}" in several.err
    runs.paths.run_folder("run_007").mkdir()
    assert "no journal and no evidence" in cli("recover", "run_007").err
    broken = runs.start()
    runs.paths.journal_path(broken).unlink(missing_ok=True)
    runs.paths.run_path(broken).write_text(json.dumps({"run_id": broken}))
    assert cli("recover", broken).code == 1
    assert runs.paths.run_path(broken).exists(), "it is not moved if nothing replaces it"


def test_an_imported_run_stays_imported(runs: Runs, cli: Cli, tmp_path: Path) -> None:
    said = [{"type": "user", "text": "What is two and two?"}, {"type": "assistant", "text": "Four."}]
    (tmp_path / "traces.jsonl").write_text(json.dumps({"events": said}) + "\n")
    run_id = cli("import", "traces.jsonl", "--json").data["runs"][0]["run_id"]
    before = runs.record(run_id)
    runs.paths.run_path(run_id).unlink()
    assert cli("recover", run_id).code == 0
    after = runs.record(run_id)
    assert (after["metadata"], after["status"]) == (before["metadata"], "COMPLETED")
    assert [step["state"] for step in after["lifecycle"]] == [step["state"] for step in before["lifecycle"]]
    assert cli("verify", run_id).code == 0
