"""Who may see a run can be changed at any time; the seal, the diagnosis and other writers do not suffer from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from dashboards import Dashboard, failing_tests
from support import Cli, Runs, exit_code_of, fork, recorded

from critiqor.errors import UnknownRunError, UsageError
from critiqor.model.record import Visibility
from critiqor.privacy.visibility import MEANINGS
from critiqor.run.store import Run
from critiqor.run.visibility import change_visibility, read_visibility
from critiqor.session import abort_session, append_event_to_run, diagnose_run
from critiqor.storage.run_record import HEAD_BYTES, MAX_VISIBILITY_CHANGES, load_head
from critiqor.storage.seals.evidence_seal import seal_evidence
from critiqor.storage.seals.verification import verify_run


def changes(runs: Runs, run_id: str) -> list[tuple[str, str]]:
    return [(change["from"], change["to"]) for change in runs.record(run_id)["visibility_changes"]]


def test_every_visibility_has_a_meaning() -> None:
    assert set(MEANINGS) == set(get_args(Visibility))


@pytest.mark.parametrize("to", ["shared", "anonymous", "public"])
def test_a_sealed_run_changes_its_visibility_and_nothing_else(runs: Runs, to: str) -> None:
    run_id = failing_tests(runs)
    before = runs.record(run_id)
    evidence = runs.evidence_bytes(run_id)
    standing = change_visibility(Run.load(run_id, runs.folder), to)
    assert (standing.visibility, standing.before) == (to, "private")
    after = runs.record(run_id)
    assert after["metadata"]["visibility"] == to
    assert changes(runs, run_id) == [("private", to)]
    before["metadata"]["visibility"], before["visibility_changes"] = to, after["visibility_changes"]
    assert after == before
    assert runs.evidence_bytes(run_id) == evidence
    assert verify_run(runs.paths, run_id).intact


def test_a_change_has_a_file_of_its_own_and_the_record_shows_it_too(runs: Runs) -> None:
    run_id = failing_tests(runs)
    assert not runs.paths.visibility_path(run_id).exists()
    change_visibility(Run.load(run_id, runs.folder), "public")
    stored = json.loads(runs.paths.visibility_path(run_id).read_bytes())
    assert (stored["visibility"], len(stored["visibility_changes"])) == ("public", 1)
    assert json.loads(runs.paths.run_path(run_id).read_bytes())["metadata"]["visibility"] == "public"


def test_a_change_that_was_killed_before_the_record_was_written_counts(runs: Runs) -> None:
    run_id = failing_tests(runs)
    before = runs.paths.run_path(run_id).read_bytes()
    change_visibility(Run.load(run_id, runs.folder), "public")
    runs.paths.run_path(run_id).write_bytes(before)
    assert read_visibility(Run.load(run_id, runs.folder)).visibility == "public"
    assert runs.record(run_id)["metadata"]["visibility"] == "public"
    assert verify_run(runs.paths, run_id).intact


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"visibility": "everybody", "visibility_changes": []}'])
def test_a_file_that_cannot_be_read_leaves_what_the_record_says(runs: Runs, content: bytes) -> None:
    run_id = failing_tests(runs)
    change_visibility(Run.load(run_id, runs.folder), "shared")
    runs.paths.visibility_path(run_id).write_bytes(content)
    assert read_visibility(Run.load(run_id, runs.folder)).visibility == "shared"
    assert changes(runs, run_id) == [("private", "shared")]


def test_a_diagnosis_made_again_keeps_it(runs: Runs) -> None:
    run_id = failing_tests(runs)
    change_visibility(Run.load(run_id, runs.folder), "public")
    diagnose_run(run_id, runs.folder)
    assert read_visibility(Run.load(run_id, runs.folder)).visibility == "public"
    assert changes(runs, run_id) == [("private", "public")]
    change_visibility(Run.load(run_id, runs.folder), "private")
    assert runs.record(run_id)["diagnosis"]["run_id"] == run_id
    assert verify_run(runs.paths, run_id).intact


def test_a_run_that_is_recorded_keeps_it_when_it_is_finalized(runs: Runs) -> None:
    run_id = runs.start()
    change_visibility(Run.load(run_id, runs.folder), "shared")
    append_event_to_run(run_id, {"event_type": "process_start"}, runs.folder)
    runs.write(run_id, recorded(1))
    runs.finalize(run_id)
    assert read_visibility(Run.load(run_id, runs.folder)).visibility == "shared"
    assert runs.lifecycle(run_id) == ["IDLE", "MONITORING", "FINALIZING", "COMPLETED"]
    assert verify_run(runs.paths, run_id).intact


@pytest.mark.parametrize("ending", ["completed", "aborted"])
def test_a_change_while_the_evidence_is_sealed_is_not_lost(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    run_id = runs.start()
    runs.write(run_id, recorded(1))
    seal = seal_evidence

    def slow_seal(*arguments: Any) -> Any:
        change_visibility(Run.load(run_id, runs.folder), "public")
        return seal(*arguments)

    monkeypatch.setattr("critiqor.run.finalization.seal_evidence", slow_seal)
    if ending == "aborted":
        abort_session(run_id, runs.folder)
        diagnose_run(run_id, runs.folder)
    else:
        runs.finalize(run_id)
    assert read_visibility(Run.load(run_id, runs.folder)).visibility == "public"
    assert changes(runs, run_id) == [("private", "public")]
    assert verify_run(runs.paths, run_id).intact


def test_writers_at_the_same_time_lose_nothing(runs: Runs) -> None:
    run_id = runs.start()
    rounds = 15

    def note() -> None:
        for number in range(rounds):
            append_event_to_run(run_id, {"event_type": "noted", "payload": {"number": number}}, runs.folder)

    def change() -> None:
        for number in range(rounds):
            change_visibility(Run.load(run_id, runs.folder), ("public", "private")[number % 2])

    assert [exit_code_of(pid) for pid in (fork(note), fork(change))] == [0, 0]
    assert len(runs.notes(run_id, "noted")) == rounds
    assert len(changes(runs, run_id)) == rounds
    assert read_visibility(Run.load(run_id, runs.folder)).visibility == "public"


def test_the_same_again_is_no_change(runs: Runs) -> None:
    run_id = failing_tests(runs, visibility="public")
    before = runs.paths.run_path(run_id).read_bytes()
    assert change_visibility(Run.load(run_id, runs.folder), "public").before is None
    assert runs.paths.run_path(run_id).read_bytes() == before


def test_very_many_changes_leave_the_head_of_the_record_small(runs: Runs) -> None:
    run_id = failing_tests(runs)
    for number in range(MAX_VISIBILITY_CHANGES + 5):
        change_visibility(Run.load(run_id, runs.folder), ("public", "private")[number % 2])
    assert len(changes(runs, run_id)) == MAX_VISIBILITY_CHANGES
    assert len(msgspec.json.encode(load_head(runs.paths, run_id))) < HEAD_BYTES
    assert verify_run(runs.paths, run_id).intact


def test_a_record_from_before_there_were_changes_is_read_and_changed(runs: Runs) -> None:
    run_id = failing_tests(runs)
    path = runs.paths.run_path(run_id)
    text = path.read_text()
    assert text.count('"visibility_changes":[],') == 1
    path.write_text(text.replace('"visibility_changes":[],', ""))
    assert read_visibility(Run.load(run_id, runs.folder)).changes == []
    change_visibility(Run.load(run_id, runs.folder), "shared")
    assert changes(runs, run_id) == [("private", "shared")]
    assert verify_run(runs.paths, run_id).intact


def test_what_cannot_be_is_refused(runs: Runs) -> None:
    run_id = failing_tests(runs)
    with pytest.raises(UsageError):
        change_visibility(Run.load(run_id, runs.folder), "everybody")
    with pytest.raises(UnknownRunError):
        change_visibility(Run.load("run_999", runs.folder), "public")
    with pytest.raises(UsageError):
        change_visibility(Run.load("../run_001", runs.folder), "public")
    assert not (runs.folder / "run_999.json").exists()


def test_the_verb_tells_and_changes(runs: Runs, cli: Cli) -> None:
    run_id = failing_tests(runs)
    assert cli("visibility", run_id).out.startswith(f"{run_id} is private: Only you")
    assert "it was private" in cli("visibility", run_id, "anonymous").out
    answer = cli("visibility", run_id, "--json").data
    assert (answer["visibility"], answer["before"]) == ("anonymous", None)
    assert [(change["from"], change["to"]) for change in answer["changes"]] == [("private", "anonymous")]
    assert cli("visibility", run_id, "everybody", "--json").code == 2
    assert cli("visibility", "run_999", "public", "--json").code == 1


def test_the_verb_is_not_moved_by_the_setting_for_new_runs(runs: Runs, cli: Cli, tmp_path: Path) -> None:
    run_id = failing_tests(runs)
    (tmp_path / "critiqor.toml").write_text('visibility = "public"')
    assert cli("visibility", run_id, "--json").data["visibility"] == "private"


def test_a_run_that_becomes_private_loses_its_links_for_good(runs: Runs, cli: Cli) -> None:
    run_id, other = failing_tests(runs, visibility="shared"), failing_tests(runs, visibility="shared")
    dashboard = Dashboard(runs)
    guest, others = dashboard.guest(run_id), dashboard.guest(other)
    assert guest.get(f"/runs/{run_id}").status_code == 200
    cli("visibility", run_id, "private")
    assert guest.get(f"/runs/{run_id}").status_code == 403
    cli("visibility", run_id, "shared")
    assert guest.get(f"/runs/{run_id}").status_code == 403
    assert others.get(f"/runs/{other}").status_code == 200


def test_the_page_changes_it_for_the_user_alone(runs: Runs) -> None:
    run_id = failing_tests(runs, tenant_id="ours", visibility="shared")
    dashboard = Dashboard(runs)
    ours = {"origin": dashboard.site.address}
    address = f"/runs/{run_id}/visibility"
    user = dashboard.user("ours")
    assert dashboard.guest(run_id).post(f"{address}/public", headers=ours).status_code == 403
    assert dashboard.stranger().post(f"{address}/public", headers=ours).status_code == 403
    assert dashboard.user("theirs").post(f"{address}/public", headers=ours).status_code == 404
    assert user.post(f"{address}/public").status_code == 403
    assert user.post(f"{address}/public", headers={"origin": "http://elsewhere.example"}).status_code == 403
    assert user.get(f"{address}/public").status_code == 405
    assert user.post(f"{address}/everybody", headers=ours).status_code == 400
    assert changes(runs, run_id) == []
    answer = user.post(f"{address}/anonymous", headers=ours)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/runs/{run_id}/trust#visibility")
    assert changes(runs, run_id) == [("shared", "anonymous")]
    page = user.get(f"/runs/{run_id}/trust").text
    assert "from shared to anonymous" in page
    assert f'formaction="{address}/private"' in page and f'formaction="{address}/anonymous"' not in page
    assert "formaction" not in dashboard.stranger().get(f"/runs/{run_id}/trust").text
