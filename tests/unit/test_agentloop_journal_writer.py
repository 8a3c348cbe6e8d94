"""The journal of the embedded loop: one line per record, and a gap in the numbers for every lost one."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from recordings import BEGIN, RUN, Recording, sequences
from support import exit_code_of, fork

from critiqor.agentloop.recording.journal_writer import CHECK_INTERVAL_MS, JournalWriter
from critiqor.model.event import is_event_id
from critiqor.storage import paths_for


def record(text: str = "hello", **fields: Any) -> dict[str, Any]:
    return {
        "event_id": None,
        "event_type": "message_received",
        "raw_event_type": "message_received",
        "timestamp": None,
        "source_layer": "extension_api",
        "tool_name": None,
        "tool_call_id": None,
        "error": None,
        "payload": {"text": text},
        **fields,
    }


class Clock:
    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def journal(tmp_path: Path, clock: Clock) -> JournalWriter:
    return JournalWriter(paths_for(tmp_path / "not" / "yet"), RUN, clock)


def write(journal: JournalWriter, count: int) -> list[bool]:
    return [journal.append(record(), journal.now()) for _ in range(count)]


def file_of(journal: JournalWriter) -> Path:
    return journal._paths.journal_path(RUN)


def names(folder: Path) -> list[str]:
    """Return the names of the files of a run, without those of closing records."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("recorder-"))


def lines_of(journal: JournalWriter) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file_of(journal).read_bytes().splitlines()]


def test_a_missing_folder_is_created_with_private_files(journal: JournalWriter) -> None:
    assert write(journal, 2) == [True, True]
    folder = file_of(journal).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert names(folder) == ["journal.jsonl", "redaction.key"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_an_existing_key_is_used(journal: JournalWriter) -> None:
    key = journal._paths.redaction_key_path(RUN)
    key.parent.mkdir(parents=True)
    key.write_text("0" * 64)
    assert write(journal, 1) == [True]
    assert key.read_text() == "0" * 64


def test_ids_sort_in_the_order_of_writing_even_when_the_clock_steps_back(journal: JournalWriter, clock: Clock) -> None:
    for step in (0, 5, -100_000, 6):
        clock.now = BEGIN + step
        write(journal, 1)
    ids = [line["event_id"] for line in lines_of(journal)]
    assert ids == sorted(ids) and sequences(lines_of(journal)) == [1, 2, 3, 4]
    times = [line["timestamp"] for line in lines_of(journal)]
    assert times == sorted(times)


@pytest.mark.parametrize("wrong", [-5_000_000_000, -500, 8_600_000_000_000_000])
def test_a_wrong_clock_loses_no_record_and_ids_stay_valid_and_in_order(
    journal: JournalWriter, clock: Clock, wrong: int
) -> None:
    clock.now = wrong
    assert write(journal, 2) == [True, True]
    clock.now = BEGIN
    assert write(journal, 1) == [True]
    ids = [line["event_id"] for line in lines_of(journal)]
    assert ids == sorted(ids)
    assert all(is_event_id(each) for each in ids)


def test_a_full_disk_loses_records_and_leaves_a_gap(journal: JournalWriter, clock: Clock) -> None:
    file = file_of(journal)
    file.parent.mkdir(parents=True)
    file.symlink_to("/dev/full")
    assert write(journal, 4) == [False] * 4
    assert (journal.written, journal.lost) == (0, 4)
    file.unlink()
    clock.now += CHECK_INTERVAL_MS + 1
    assert write(journal, 2) == [True, True]
    assert sequences(lines_of(journal)) == [5, 6]


def test_an_incomplete_write_loses_only_that_record(journal: JournalWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    write(journal, 1)
    whole = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: whole(descriptor, data[:40]))
    assert write(journal, 1) == [False]
    monkeypatch.undo()
    write(journal, 2)
    lines = file_of(journal).read_bytes().splitlines()
    assert len(lines) == 4
    assert sequences([json.loads(line) for line in (lines[0], *lines[2:])]) == [1, 3, 4]


def test_a_record_that_cannot_be_serialised_leaves_a_gap_and_no_line(journal: JournalWriter) -> None:
    write(journal, 1)
    assert journal.append({"payload": {}}, journal.now()) is False
    write(journal, 1)
    assert sequences(lines_of(journal)) == [1, 3]


def test_a_folder_that_cannot_be_created_is_tried_again_later(journal: JournalWriter, clock: Clock) -> None:
    blocker = journal._paths.runs_dir
    blocker.parent.mkdir()
    blocker.write_text("a file")
    assert write(journal, 2) == [False, False]
    blocker.unlink()
    assert write(journal, 1) == [False], "not tried again on every record"
    clock.now += CHECK_INTERVAL_MS + 1
    assert write(journal, 1) == [True]
    assert sequences(lines_of(journal)) == [4]


def test_a_removed_journal_is_created_again(journal: JournalWriter, clock: Clock) -> None:
    write(journal, 3)
    file_of(journal).unlink()
    write(journal, 1)
    clock.now += CHECK_INTERVAL_MS + 1
    write(journal, 2)
    assert sequences(lines_of(journal)) == [5, 6]


def test_nothing_is_written_into_a_run_that_is_sealed(journal: JournalWriter, clock: Clock) -> None:
    write(journal, 2)
    journal._paths.session_lock_path(RUN).write_bytes(b"sealed")
    clock.now += CHECK_INTERVAL_MS + 1
    assert write(journal, 3) == [False] * 3
    assert (journal.is_sealed, journal.lost) == (True, 0)
    late = JournalWriter(journal._paths, RUN, clock)
    journal._paths.redaction_key_path(RUN).unlink()
    assert write(late, 1) == [False]
    assert not journal._paths.redaction_key_path(RUN).exists()
    assert len(lines_of(journal)) == 2


def test_processes_that_start_together_share_one_key_and_lose_nothing(tmp_path: Path) -> None:
    paths = paths_for(tmp_path)

    def work() -> None:
        mine = JournalWriter(paths, RUN)
        for _ in range(300):
            assert mine.append(record("token=abcd1234efgh5678"), mine.now())

    assert [exit_code_of(pid) for pid in [fork(work) for _ in range(4)]] == [0] * 4
    lines = [json.loads(line) for line in paths.journal_path(RUN).read_bytes().splitlines()]
    assert len({line["event_id"] for line in lines}) == 1200
    assert len({line["payload"]["text"] for line in lines}) == 1
    assert names(paths.run_folder(RUN)) == ["journal.jsonl", "redaction.key"]


def test_a_file_system_without_hard_links_gets_one_key_and_no_other_file(
    journal: JournalWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert write(journal, 1) == [True]
    assert names(file_of(journal).parent) == ["journal.jsonl", "redaction.key"]


def test_a_recorder_on_a_full_disk_disturbs_no_turn(tmp_path: Path) -> None:
    file = paths_for(tmp_path).journal_path(RUN)
    file.parent.mkdir(parents=True)
    file.symlink_to("/dev/full")
    made = Recording(tmp_path)
    made.run.attempt_started("main")
    made.answer()
    made.tool("c", result={})
    made.ended()
    made.recorder.close()
    assert made.journal.written == 0
    assert made.journal.lost == 10


def test_records_of_several_threads_are_whole_lines(tmp_path: Path) -> None:
    writers = [JournalWriter(paths_for(tmp_path), RUN) for _ in range(4)]
    threads = [threading.Thread(target=write, args=(writer, 200)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines_of(writers[0])) == 800
