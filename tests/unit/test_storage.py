from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import pytest
from support import PATIENCE_SECONDS, start_python

from critiqor.session import write_json
from critiqor.storage import AtomicFile, read_journal, take_permanent_lock
from critiqor.storage.atomic import DigestedFile
from critiqor.storage.journal import MAX_LINE


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.suffix == ".tmp"]


def test_write_json_makes_folders_and_private_files(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.json"
    write_json(str(path), {"ä": [1, None]})
    assert json.loads(path.read_text("utf-8")) == {"ä": [1, None]}
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert leftovers(path.parent) == []


def test_failed_write_leaves_the_old_file_and_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), AtomicFile(path) as file:
        file.write(b"new")
        raise RuntimeError
    with pytest.raises(TypeError):
        write_json(path, {"unknown": object()})
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("step", ["fsync", "fchmod"])
def test_full_disk_leaves_the_old_file_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "file"
    path.write_bytes(b"old")
    with monkeypatch.context() as context:
        context.setattr(os, step, full)
        with pytest.raises(OSError, match="No space"), AtomicFile(path) as file:
            file.write(b"new")
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == []
    with AtomicFile(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


WRITES_WITHOUT_RIGHTS = """
import os, sys
from pathlib import Path
from critiqor.storage.atomic import write_bytes
if os.geteuid() == 0:
    os.setuid(65534)
try:
    write_bytes(Path("report.md"), b"new")
except PermissionError as error:
    print(error.filename)
"""


def test_error_of_a_read_only_folder_names_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    process = start_python(WRITES_WITHOUT_RIGHTS, cwd=folder)
    assert process.communicate(timeout=PATIENCE_SECONDS)[0] == "report.md\n"


def test_second_writer_of_a_file_waits_for_the_first(tmp_path: Path) -> None:
    path = tmp_path / "file"
    inside = threading.Event()

    def second() -> None:
        inside.wait()
        with AtomicFile(path) as file:
            file.write(b"second")

    thread = threading.Thread(target=second)
    thread.start()
    with AtomicFile(path) as file:
        inside.set()
        thread.join(0.1)
        assert thread.is_alive()
        file.write(b"first")
    thread.join()
    assert path.read_bytes() == b"second"
    assert leftovers(tmp_path) == []


def test_size_and_digest_are_those_of_the_written_bytes(tmp_path: Path) -> None:
    with DigestedFile(tmp_path / "file", mode=0o400) as file:
        file.write(b"ab")
        file.write(b"c")
    assert file.size == 3
    assert file.digest == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o400


def test_journal_is_read_line_by_line_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b"one\n\n two \r\nthree")
    lines = list(read_journal(path, 1000))
    assert [(line.number, line.offset, line.data, line.terminated) for line in lines] == [
        (1, 0, b"one\n", True),
        (3, 5, b" two \r\n", True),
        (4, 12, b"three", False),
    ]
    assert [line.data for line in read_journal(path, 6)] == [b"one\n"]
    assert [line.data for line in read_journal(path, 2)] == [b"on"]
    assert list(read_journal(path, 0)) == []
    assert list(read_journal(tmp_path / "none", 10)) == []


@pytest.mark.parametrize("length", [MAX_LINE, MAX_LINE + 1, 2 * MAX_LINE, 2 * MAX_LINE + 5])
def test_line_that_is_too_long_is_skipped_completely(tmp_path: Path, length: int) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b"a" * (length - 1) + b"\nnext\n")
    lines = list(read_journal(path, path.stat().st_size))
    assert [(line.number, line.offset, line.length, line.data) for line in lines] == [
        (1, 0, length, None),
        (2, length, 5, b"next\n"),
    ]


def test_document_is_held_for_good_and_by_several_attempts(tmp_path: Path) -> None:
    lock = tmp_path / "run" / "session.json.lock"
    take_permanent_lock(lock)
    take_permanent_lock(lock)
    assert lock.read_bytes() == b"sealed"


def test_document_is_held_once_the_recorder_lets_go(tmp_path: Path) -> None:
    lock = tmp_path / "session.json.lock"
    lock.write_text("4711")
    timer = threading.Timer(0.05, lock.unlink)
    timer.start()
    take_permanent_lock(lock)
    timer.join()
    assert lock.read_bytes() == b"sealed"
