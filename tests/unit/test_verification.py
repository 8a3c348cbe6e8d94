from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from support import Runs, attached, recorded

from critiqor.errors import BrokenRecordError, NoActiveSessionError, UnknownRunError
from critiqor.run.store import Run
from critiqor.session import abort_session, diagnose_run
from critiqor.storage.seals.verification import Verification, verify_run

Change = Callable[[bytes], bytes]


@pytest.fixture
def sealed(runs: Runs) -> Runs:
    """A runs folder with run_001 sealed: three events of a recorder, long ago, and two transitions."""
    runs.seal(attached(at=1), recorded(2, at=1, payload={"text": "hello"}), recorded(3, "agent_end", at=1))
    return runs


def verify(runs: Runs, run_id: str = "run_001") -> Verification:
    return verify_run(runs.paths, run_id)


def change_evidence(runs: Runs, change: Change, run_id: str = "run_001") -> None:
    path = runs.paths.evidence_summary_path(run_id)
    path.chmod(0o600)
    path.write_bytes(change(path.read_bytes()))


def change_record(runs: Runs, change: Change) -> None:
    path = runs.paths.run_path("run_001")
    path.write_bytes(change(path.read_bytes()))


def without_line(content: bytes, number: int) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(lines[:number] + lines[number + 1 :])


def test_untouched_seal_is_intact(sealed: Runs) -> None:
    result = verify(sealed)
    assert result.intact
    assert result.events == 5
    assert result.found == result.digest == sealed.record("run_001")["seal"]["digest"]
    assert result.problems == []


def test_changed_byte_in_an_event_is_found(sealed: Runs) -> None:
    before = sealed.evidence_bytes("run_001")
    change_evidence(sealed, lambda content: content.replace(b"hello", b"hallo"))
    result = verify(sealed)
    assert not result.intact
    event = sealed.evidence("run_001")["events"][1]
    line_start = before.rindex(b"\n", 0, before.index(b"hello")) + 1
    assert result.problems == [f"session.json was changed: event 2 ({event['event_id']}) differs, at byte {line_start}"]


EVIDENCE_CHANGES: dict[str, tuple[Change, str]] = {
    "metrics": (lambda content: content.replace(b'"total_events":5', b'"total_events":6'), "other parts of the file"),
    "coverage": (
        lambda content: content.replace(b'"journal_present":true', b'"journal_present":null'),
        "other parts of the file",
    ),
    "head": (
        lambda content: content.replace(b'"session_id":"run_001"', b'"session_id":"run_002"'),
        "other parts of the file",
    ),
    "event removed": (lambda content: without_line(content, 3), "event 3 ("),
    "last event removed": (lambda content: without_line(content, 5), "event 5 ("),
    "event added": (
        lambda content: content.replace(b"\n],", b',\n{"event_id":"evt_x"}\n],'),
        "event 6 (evt_x) was added",
    ),
    "event emptied": (lambda content: content.replace(content.splitlines()[3], b"null"), "event 3 ("),
    "cut off": (lambda content: content[: content.index(b"agent_end")], "event 3 ("),
    "emptied": (lambda _: b"", "event 1 ("),
    "not text": (lambda content: content.replace(b"hello", b"\xff\xff\xff\xff\xff"), "event 2 ("),
}


@pytest.mark.parametrize(("change", "where"), EVIDENCE_CHANGES.values(), ids=EVIDENCE_CHANGES.keys())
def test_changed_evidence_is_found_and_the_place_is_said(sealed: Runs, change: Change, where: str) -> None:
    change_evidence(sealed, change)
    result = verify(sealed)
    assert not result.intact
    assert result.problems[0].startswith("session.json was changed: ")
    assert where in result.problems[0]


def test_missing_evidence_is_said(sealed: Runs) -> None:
    sealed.paths.evidence_summary_path("run_001").unlink()
    result = verify(sealed)
    assert (result.intact, result.found) == (False, None)
    assert result.problems == ["session.json is gone; the sealed events are still in run_001.json"]


RECORD_CHANGES: dict[str, tuple[Change, str]] = {
    "event changed": (lambda content: content.replace(b"hello", b"hallo"), "event 2 ("),
    "event removed": (lambda content: without_line(content, 2), "event 2 ("),
    "event added": (
        lambda content: content.replace(b"\n]}", b',\n{"event_id":"evt_x"}\n]}'),
        "event 7 (evt_x) was added",
    ),
    "event inserted": (
        lambda content: content.replace(b',\n{"event_id', b',\n{"event_id":"evt_x"},\n{"event_id', 1),
        "event 2 (",
    ),
}


@pytest.mark.parametrize(("change", "where"), RECORD_CHANGES.values(), ids=RECORD_CHANGES.keys())
def test_changed_copy_in_the_record_is_found(sealed: Runs, change: Change, where: str) -> None:
    change_record(sealed, change)
    problems = verify(sealed).problems
    assert len(problems) == 1
    assert problems[0].startswith("the copy in run_001.json was changed: ")
    assert where in problems[0]


@pytest.mark.parametrize("content", [None, b"", b"[]", b"{}", b"\xff", b"[" * 20_000])
def test_missing_or_unreadable_diagnosis_is_said(sealed: Runs, content: bytes | None) -> None:
    path = sealed.paths.diagnosis_path("run_001")
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert verify(sealed).problems == ["the diagnosis is missing or does not match the sealed evidence"]


def test_diagnosis_of_another_run_is_found(sealed: Runs) -> None:
    sealed.seal(attached(), recorded(2, "tool_call"))
    other = sealed.paths.diagnosis_path("run_002").read_bytes()
    sealed.paths.diagnosis_path("run_001").write_bytes(other)
    assert "does not match the sealed evidence" in verify(sealed).problems[0]
    assert verify(sealed, "run_002").intact


def test_new_digest_in_the_record_does_not_hide_a_change(sealed: Runs) -> None:
    change_evidence(sealed, lambda content: content.replace(b"hello", b"hallo"))
    found = verify(sealed).found
    assert found is not None
    old = sealed.record("run_001")["seal"]["digest"].encode()
    change_record(sealed, lambda content: content.replace(old, found.encode()))
    assert any("event 2" in problem for problem in verify(sealed).problems)


def test_an_event_that_was_changed_in_both_files_is_located_by_the_journal(sealed: Runs) -> None:
    change_evidence(sealed, lambda content: content.replace(b"hello", b"hallo"))
    change_record(sealed, lambda content: content.replace(b"hello", b"hallo"))
    event = sealed.evidence("run_001")["events"][1]["event_id"]
    problem = verify(sealed).problems[0]
    assert problem.startswith(f"session.json was changed: event 2 ({event}) differs, at byte ")
    assert problem.endswith("(compared with journal.jsonl)")


def test_a_change_beside_the_events_is_not_blamed_on_redacted_secrets(runs: Runs) -> None:
    runs.seal(
        attached(at=1), recorded(2, at=1, payload={"text": "api_key=sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123"})
    )
    assert "[redacted:" in runs.evidence_bytes("run_001").decode()
    change_evidence(runs, lambda content: content.replace(b'"total_events":', b'"total_events":1'))
    assert verify(runs).problems[0].endswith("the events are unchanged; other parts of the file were changed")


def test_aborted_run_can_be_verified_once_it_is_sealed(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2, payload={"text": "hello"}))
    abort_session(runs_dir=runs.folder)
    with pytest.raises(NoActiveSessionError, match="not sealed") as error:
        verify(runs)
    assert "critiqor diagnose run_001" in str(error.value)
    diagnose_run(run_id, runs_dir=runs.folder)
    assert verify(runs).intact
    change_evidence(runs, lambda content: content.replace(b"hello", b"hallo"))
    # The end of the session may have the same millisecond, and is then before the records of the recorder.
    events = runs.evidence(run_id)["events"]
    number, event = next((at, each) for at, each in enumerate(events, 1) if each["payload"].get("text") == "hallo")
    where = f"event {number} ({event['event_id']}) differs, at byte "
    assert verify(runs).problems[0].startswith(f"session.json was changed: {where}")
    assert verify(runs).problems[0].endswith("(compared with journal.jsonl)")


def test_what_is_not_sealed_cannot_be_verified(runs: Runs) -> None:
    runs.start()
    with pytest.raises(NoActiveSessionError, match="MONITORING"):
        verify(runs)
    with pytest.raises(UnknownRunError):
        verify(runs, "run_404")


def test_diagnosing_again_keeps_the_seal_intact(sealed: Runs) -> None:
    diagnose_run("run_001", runs_dir=sealed.folder)
    assert verify(sealed).intact
    assert json.loads(sealed.paths.diagnosis_path("run_001").read_bytes())["run_id"] == "run_001"


HEAD_CHANGES: dict[str, Change] = {
    "agent": lambda content: content.replace(b'"agent_id":"openclaw_agent"', b'"agent_id":"someone"', 1),
    "tenant": lambda content: content.replace(b'"tenant_id":"default"', b'"tenant_id":"theirs"', 1),
    "start": lambda content: re.sub(rb'"started_at":"....', b'"started_at":"1999', content, count=1),
    "lifecycle": lambda content: content.replace(b'"state":"FINALIZING"', b'"state":"ABORTED"', 1),
    "cut": lambda content: re.sub(rb'"journal_bytes":\d+', b'"journal_bytes":1', content, count=1),
    "number of events": lambda content: re.sub(rb'"events":5', b'"events":6', content, count=1),
    "owner": lambda content: re.sub(rb'"pid":\d+', b'"pid":1', content, count=1),
}


@pytest.mark.parametrize("change", HEAD_CHANGES.values(), ids=HEAD_CHANGES.keys())
def test_a_change_of_what_is_fixed_in_the_record_is_found(sealed: Runs, change: Change) -> None:
    before = sealed.paths.run_path("run_001").read_bytes()
    change_record(sealed, change)
    assert sealed.paths.run_path("run_001").read_bytes() != before
    assert state_of(sealed, "record") == "failed"
    assert "run_001.json was changed" in " ".join(verify(sealed).problems)


def state_of(runs: Runs, name: str) -> str:
    return next(check.state for check in verify(runs).checks if check.name == name)


def test_what_was_checked_is_listed(sealed: Runs) -> None:
    assert [(check.name, check.state) for check in verify(sealed).checks] == [
        ("evidence", "passed"),
        ("record", "passed"),
        ("diagnosis", "passed"),
        ("evidence_signature", "not checked"),
        ("diagnosis_signature", "not checked"),
    ]


@pytest.mark.parametrize("member", ["headline", "trust_score", "diagnosis"])
def test_a_copy_of_the_diagnosis_in_the_record_that_differs_is_found(sealed: Runs, member: str) -> None:
    record = sealed.record("run_001")
    if member == "diagnosis":
        record["diagnosis"]["readiness"] = "unsafe"
    else:
        record[member] = "forged" if member == "headline" else 1
    head, _, events = sealed.paths.run_path("run_001").read_bytes().partition(b'"event_log":')
    changed = json.dumps({**record, "event_log": []}, separators=(",", ":")).encode().removesuffix(b"[]}")
    sealed.paths.run_path("run_001").write_bytes(changed + events)
    assert head != changed
    assert verify(sealed).problems == [f"run_001.json does not contain the same {member} as diagnosis.json"]
    diagnose_run("run_001", runs_dir=sealed.folder)
    assert verify(sealed).intact


def test_a_changed_diagnosis_is_found_and_made_again(sealed: Runs) -> None:
    path = sealed.paths.diagnosis_path("run_001")
    content = path.read_bytes()
    for changed in (
        content.replace(b'"readiness": "', b'"readiness":  "', 1),
        json.dumps(json.loads(content)).encode(),
        content.replace(b'"seal"', b'"Seal"'),
        content.replace(b'"digest": "sha256:', b'"digest": "sha256:0', 1),
    ):
        assert changed != content
        path.write_bytes(changed)
        assert state_of(sealed, "diagnosis") == "failed"
        assert "diagnosis.json was changed" in verify(sealed).problems[0]
    with pytest.raises(BrokenRecordError, match=r"diagnosis\.json was changed"):
        _ = Run.load("run_001", sealed.folder).diagnosis
    diagnose_run("run_001", runs_dir=sealed.folder)
    assert verify(sealed).intact


def test_a_run_of_an_older_version_is_intact_and_what_cannot_be_checked_is_said(sealed: Runs) -> None:
    change_record(sealed, lambda content: re.sub(rb',"record":"[^"]*","signature":null,"unsigned":null', b"", content))
    path = sealed.paths.diagnosis_path("run_001")
    document = json.loads(path.read_bytes())
    del document["seal"]
    path.write_text(json.dumps(document, indent=2))
    assert verify(sealed).intact
    assert (state_of(sealed, "record"), state_of(sealed, "diagnosis")) == ("not checked", "not checked")
    assert Run.load("run_001", sealed.folder).diagnosis.run_id == "run_001"
    diagnose_run("run_001", runs_dir=sealed.folder)
    assert state_of(sealed, "diagnosis") == "passed"
