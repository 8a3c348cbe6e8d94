"""What the user says about a run: kept beside it, outside of every seal, and exported."""

from __future__ import annotations

import io
import json
import re
import zipfile
from shlex import quote

import pytest
from conversations import misreporting_run
from dashboards import Dashboard, failing_tests
from hostile import CONTROLS, MARKUP
from starlette.testclient import TestClient
from support import Cli, Runs

from critiqor.errors import BrokenRecordError, UsageError
from critiqor.storage.annotations import MAX_NOTE, Annotations, change_annotations, parse_tags, read_annotations


def save(dashboard: Dashboard, run_id: str, client: TestClient | None = None, **fields: str) -> int:
    headers = {"origin": dashboard.site.address}
    answer = (client or dashboard.user()).post(f"/runs/{run_id}/annotations", data=fields, headers=headers)
    return answer.status_code


def judge(dashboard: Dashboard, run_id: str, judgement: str, finding: str = "finding_001") -> int:
    address = f"/runs/{run_id}/findings/{finding}/{judgement}"
    return dashboard.user().post(address, headers={"origin": dashboard.site.address}).status_code


def test_tags_and_a_note_are_saved_beside_the_run_and_no_seal_breaks(cli: Cli, runs: Runs) -> None:
    run_id = failing_tests(runs)
    dashboard = Dashboard(runs)
    before = runs.evidence_bytes(run_id)
    assert save(dashboard, run_id, tags="shop,  release  7, shop", note="Look at this.\r\nAgain.") == 303
    assert read_annotations(runs.paths, run_id) == Annotations(tags=["release 7", "shop"], note="Look at this.\nAgain.")
    assert runs.evidence_bytes(run_id) == before
    assert cli("verify", run_id, "--runs-dir", runs.folder).code == 0
    page = dashboard.user().get(f"/runs/{run_id}").text
    assert 'value="release 7, shop"' in page
    assert "Look at this.\nAgain.</textarea>" in page


def test_the_list_shows_tags_and_notes_and_finds_runs_by_them(runs: Runs) -> None:
    first, second = failing_tests(runs), failing_tests(runs)
    dashboard = Dashboard(runs)
    user = dashboard.user()
    assert "run-tag" not in user.get("/runs").text
    save(dashboard, first, tags="shop", note="regression of Monday")
    for query in ("tag=shop", "q=shop", "q=monday"):
        page = user.get(f"/runs?{query}").text
        assert re.findall(r'<th scope="row"><a href="/runs/([^"]+)"', page) == [first], query
    assert second in user.get("/runs").text


def test_a_finding_that_is_called_wrong_is_noted_and_taken_back(runs: Runs) -> None:
    run_id = failing_tests(runs)
    dashboard = Dashboard(runs)
    assert judge(dashboard, run_id, "wrong") == 303
    assert judge(dashboard, run_id, "wrong") == 303
    [said] = read_annotations(runs.paths, run_id).feedback
    assert (said.finding_id, said.type) == ("finding_001", "false_success_claim")
    page = dashboard.user().get(f"/runs/{run_id}/diagnosis").text
    assert "You said that this finding is wrong." in page
    assert judge(dashboard, run_id, "right") == 303
    assert read_annotations(runs.paths, run_id).feedback == []


def test_an_unknown_finding_or_judgement_is_not_found(runs: Runs) -> None:
    run_id = failing_tests(runs)
    dashboard = Dashboard(runs)
    assert judge(dashboard, run_id, "wrong", "finding_999") == 404
    assert judge(dashboard, run_id, "maybe") == 404


def test_saving_tags_keeps_the_feedback_and_the_other_way_round(runs: Runs) -> None:
    run_id = failing_tests(runs)
    dashboard = Dashboard(runs)
    judge(dashboard, run_id, "wrong")
    save(dashboard, run_id, tags="a", note="b")
    judge(dashboard, run_id, "wrong")
    found = read_annotations(runs.paths, run_id)
    assert (found.tags, found.note, len(found.feedback)) == (["a"], "b", 1)


@pytest.mark.parametrize("visibility", ["shared", "public", "anonymous"])
def test_others_neither_see_nor_change_them(runs: Runs, visibility: str) -> None:
    run_id = misreporting_run(runs, visibility=visibility)
    dashboard = Dashboard(runs)
    save(dashboard, run_id, tags="secret_tag", note="secret_note")
    for client in (dashboard.guest(run_id), dashboard.stranger()):
        assert save(dashboard, run_id, client, tags="other") == 403
        for page in ("", "/diagnosis"):
            assert "secret_" not in client.get(f"/runs/{run_id}{page}").text
    assert read_annotations(runs.paths, run_id).tags == ["secret_tag"]


def test_too_much_is_refused_and_nothing_is_lost(runs: Runs) -> None:
    run_id = failing_tests(runs)
    dashboard = Dashboard(runs)
    save(dashboard, run_id, tags="kept")
    assert save(dashboard, run_id, tags="x" * 41) == 400
    assert save(dashboard, run_id, tags=",".join(map(str, range(21)))) == 400
    assert save(dashboard, run_id, note="x" * (MAX_NOTE + 1)) == 400
    assert save(dashboard, run_id, note="x" * 70_000) == 413
    headers = {"origin": dashboard.site.address}
    broken = dashboard.user().post(f"/runs/{run_id}/annotations", content=b"tags=%ff", headers=headers)
    assert broken.status_code == 400
    assert read_annotations(runs.paths, run_id).tags == ["kept"]


def test_a_damaged_file_is_reported_and_not_overwritten(runs: Runs) -> None:
    run_id = failing_tests(runs)
    path = runs.paths.annotations_path(run_id)
    path.write_bytes(b'{"tags": 7}')
    dashboard = Dashboard(runs)
    assert "cannot be read" in dashboard.user().get(f"/runs/{run_id}").text
    assert dashboard.user().get("/runs").status_code == 200
    assert save(dashboard, run_id, tags="a") == 422
    assert path.read_bytes() == b'{"tags": 7}'
    with pytest.raises(BrokenRecordError, match="annotations") as problem:
        change_annotations(runs.paths, run_id, lambda known: known)
    assert problem.value.fix == f"rm {quote(str(path))}"


def test_a_link_in_place_of_the_file_is_not_followed(runs: Runs) -> None:
    run_id = failing_tests(runs)
    secret = runs.folder.parent / "secret.json"
    secret.write_text('{"note": "of another file"}')
    runs.paths.annotations_path(run_id).symlink_to(secret)
    assert Dashboard(runs).user().get(f"/runs/{run_id}").status_code == 404
    with pytest.raises(BrokenRecordError):
        read_annotations(runs.paths, run_id)


def test_an_archive_of_the_run_has_them(cli: Cli, runs: Runs) -> None:
    run_id = failing_tests(runs)
    dashboard = Dashboard(runs)
    save(dashboard, run_id, tags="shop", note="Look.")
    judge(dashboard, run_id, "wrong")
    file = runs.folder.parent / "run.zip"
    assert cli("export", run_id, "--format", "zip", "--output", file, "--runs-dir", runs.folder).code == 0
    with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as archive:
        kept = json.loads(archive.read(f"{run_id}/annotations.json"))
    assert (kept["tags"], kept["note"], kept["feedback"][0]["type"]) == (["shop"], "Look.", "false_success_claim")


def test_hostile_tags_and_notes_are_text(runs: Runs) -> None:
    run_id = failing_tests(runs)
    dashboard = Dashboard(runs)
    for text in (*MARKUP.values(), *CONTROLS.values()):
        save(dashboard, run_id, tags=text[:40], note=f"</textarea>{text}")
        for path in ("/runs", f"/runs/{run_id}", "/runs?tag=" + "x"):
            page = dashboard.user().get(path).text
            assert "</textarea>" not in page.replace("</textarea></label>", "")
            assert not re.search(r"<(script|img|iframe|link) [^>]*zzmark|[\x1b\x9b\u202e\u2066]", page)


def test_tags_are_unique_and_sorted() -> None:
    assert parse_tags(" b, a ,,b") == ["a", "b"]
    with pytest.raises(UsageError):
        parse_tags("x" * 41)
