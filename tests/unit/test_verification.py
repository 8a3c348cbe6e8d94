from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from support import Runs, attached, recorded

from critiqor.errors import NoActiveSessionError, UnknownRunError
from critiqor.run.diagnosis import diagnose_run
from critiqor.session import abort_session
from critiqor.storage.verification import Verification, verify_run

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
    assert verify(runs).problems == ["session.json was changed"]


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
