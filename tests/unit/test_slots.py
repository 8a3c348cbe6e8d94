"""Several recordings at once in one runs folder: each holds a slot of its own."""

from __future__ import annotations

import json

import pytest
from support import Cli, Runs, attached, recorded

from critiqor.errors import ActiveSessionError, UsageError
from critiqor.policy.retention import Retention
from critiqor.run.active_slot import active_run_ids
from critiqor.run.retention.pruning import prune
from critiqor.run.store import RunStore
from critiqor.session import abort_session, create_session, finalize_session, load_active_session
from critiqor.storage.paths import checked_slot


def start(runs: Runs, slot: str | None = None) -> str:
    run_id: str = create_session(runs_dir=runs.folder, slot=slot)["run_id"]
    runs.write(run_id, attached(), recorded(2))
    return run_id


def test_each_slot_has_one_active_run_and_the_default_one_is_the_documented_file(runs: Runs) -> None:
    assert [start(runs), start(runs, "work"), start(runs, "night")] == ["run_001", "run_002", "run_003"]
    assert json.loads(runs.paths.active_path.read_text())["run_id"] == "run_001"
    assert json.loads(runs.paths.slot_path("work").read_text())["run_id"] == "run_002"
    assert active_run_ids(runs.paths) == ["run_001", "run_003", "run_002"]
    with pytest.raises(ActiveSessionError, match=r"slot work .* run_002 is MONITORING"):
        start(runs, "work")
    assert runs.paths.run_ids() == ["run_001", "run_002", "run_003"]


def test_finalizing_and_aborting_a_slot_leaves_the_others_alone(runs: Runs) -> None:
    start(runs)
    start(runs, "work")
    start(runs, "night")
    assert finalize_session(runs_dir=runs.folder, slot="work")["run_id"] == "run_002"
    assert abort_session(runs_dir=runs.folder, slot="night")["run_id"] == "run_003"
    assert active_run_ids(runs.paths) == ["run_001"]
    assert finalize_session("run_001", runs_dir=runs.folder)["slot"] is None
    assert active_run_ids(runs.paths) == []
    assert start(runs, "work") == "run_004"


def test_a_named_run_frees_its_own_slot(runs: Runs) -> None:
    start(runs)
    start(runs, "work")
    finalize_session("run_002", runs_dir=runs.folder)
    assert not runs.paths.slot_path("work").exists()
    assert load_active_session(runs.folder) is not None


def test_a_run_whose_slot_was_lost_is_found_by_the_slot_in_its_record(runs: Runs) -> None:
    start(runs)
    start(runs, "work")
    runs.paths.slot_path("work").write_text("{")
    assert load_active_session(runs.folder, "work") is None
    assert finalize_session(runs_dir=runs.folder, slot="work")["run_id"] == "run_002"


def test_an_empty_slot_names_the_one_that_is_probably_meant(cli: Cli, runs: Runs) -> None:
    start(runs, "work")
    for verb in ("finalize", "abort", "watch"):
        answer = cli(verb)
        assert answer.code == 1
        assert f"critiqor {verb} --slot work" in answer.err
    assert cli("finalize", "--slot", "work", "--no-dashboard").code == 0


def test_the_list_of_runs_and_the_doctor_know_all_slots(cli: Cli, runs: Runs) -> None:
    start(runs)
    start(runs, "work")
    listed = {each["run_id"]: each["slot"] for each in cli("runs", "--json").data}
    assert listed == {"run_001": None, "run_002": "work"}
    assert all(run_id in cli("doctor").out for run_id in listed)


def test_the_slot_is_part_of_the_seal(runs: Runs) -> None:
    start(runs, "work")
    finalize_session(runs_dir=runs.folder, slot="work")
    run = RunStore(runs.folder).run("run_001")
    assert run.verify().intact
    text = run.record_path.read_text()
    run.record_path.chmod(0o600)
    run.record_path.write_text(text.replace('"slot":"work"', '"slot":"home"'))
    assert not run.verify().intact


def test_no_run_of_any_slot_is_pruned_while_it_is_recorded(runs: Runs) -> None:
    start(runs, "work")
    start(runs, "night")
    for _ in range(3):
        start(runs)
        runs.finalize()
    removed = prune(RunStore(runs.folder), Retention(max_runs=1)).removed
    assert {each.run_id for each in removed} == {"run_003", "run_004"}


@pytest.mark.parametrize("slot", ["../../outside", "/outside", ".hidden"])
@pytest.mark.parametrize("verb", ["finalize", "abort"])
def test_a_slot_in_a_run_record_names_no_file_outside_the_folder_of_slots(runs: Runs, slot: str, verb: str) -> None:
    run_id = start(runs)
    outside = (runs.folder.parent / "outside.json", runs.folder / ".slots" / ".hidden.json")
    for path in outside:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"run_id": run_id}))
    record = runs.paths.run_path(run_id)
    named = f"{runs.folder.parent}/outside" if slot == "/outside" else slot
    record.write_text(json.dumps({**json.loads(record.read_text()), "slot": named}))
    if verb == "finalize":
        assert finalize_session(run_id, runs_dir=runs.folder)["status"] == "COMPLETED"
    else:
        assert abort_session(run_id, runs_dir=runs.folder)["status"] == "ABORTED"
    assert all(json.loads(path.read_text()) == {"run_id": run_id} for path in outside)
    with pytest.raises(UsageError, match="no name of a slot"):
        runs.paths.slot_path(slot)


def test_a_slot_that_is_no_name_is_not_recovered(cli: Cli, runs: Runs) -> None:
    run_id = start(runs)
    record = runs.paths.run_path(run_id)
    record.write_text(json.dumps({**json.loads(record.read_text()), "slot": "../x", "status": "?"}))
    assert cli("recover", run_id).code == 0
    assert runs.record(run_id)["slot"] is None


@pytest.mark.parametrize("name", ["../x", "", "a b", "x" * 65, ".hidden", "a/b"])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no name of a slot"):
        checked_slot(name)


def test_the_default_slot_has_a_name() -> None:
    assert (checked_slot(None), checked_slot("default"), checked_slot("work-2")) == (None, None, "work-2")
