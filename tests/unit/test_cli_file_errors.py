"""File errors: the message names the cause and a fix that helps."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from diagnosed import diagnosis, finding, store
from support import Cli, Runs

from critiqor.cli.hints import file_error_hint
from critiqor.errors import ExitCode


@pytest.mark.parametrize(
    ("number", "name", "fix"),
    [
        (errno.ENOSPC, None, "free some space on that disk, then run the command again"),
        (errno.EROFS, "out.md", "choose a folder that is writable"),
        (errno.EACCES, "locked/out.md", "ls -ld {here}/locked   shows who may use it"),
        (errno.EPERM, "locked", "ls -ld {here}/locked   shows who may use it"),
        (errno.ENOENT, "not there/yet/out.md", "mkdir -p '{here}/not there/yet'"),
        (errno.ENOENT, "locked/missing.md", None),
        (errno.ENOTDIR, "file/out.md", None),
        (errno.EIO, None, None),
    ],
)
def test_the_fix_depends_on_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, name: str | None, fix: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "locked").mkdir()
    (tmp_path / "file").touch()
    error = OSError(number, os.strerror(number), name)
    assert file_error_hint(error) == (fix and fix.format(here=tmp_path))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["export", "run_001", "--format", "markdown", "-o", "file/out.md"], "file"),
        (["report", "run_001", "-o", "file/out.md"], "file"),
        (["lab", "run", "clean", "--report", "not/there.md"], "mkdir -p"),
    ],
    ids=["export", "report", "lab run"],
)
def test_a_write_error_names_the_file_and_not_doctor(
    cli: Cli, runs: Runs, tmp_path: Path, arguments: list[str], expected: str
) -> None:
    store(runs, diagnosis())
    (tmp_path / "file").touch()
    answer = cli(*arguments)
    assert (answer.code, answer.out) == (ExitCode.ERROR, "")
    assert expected in answer.err
    assert "doctor" not in answer.err


@pytest.mark.parametrize("verb", [("report", "run_001"), ("export", "run_001", "--format", "markdown")])
def test_a_missing_folder_is_named_and_not_created(cli: Cli, runs: Runs, tmp_path: Path, verb: tuple[str, ...]) -> None:
    store(runs, diagnosis())
    refused = cli(*verb, "--output", "not/there/out.md")
    assert refused.code == ExitCode.USAGE
    assert refused.err == "critiqor: there is no folder not/there\n  → mkdir -p not/there\n"
    assert not (tmp_path / "not").exists()


def test_a_read_only_file_system_is_reported_with_the_file_of_the_user(
    cli: Cli, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(runs, diagnosis())
    real = os.statvfs(tmp_path)
    read_only = os.statvfs_result((*real[:8], real.f_flag | os.ST_RDONLY, *real[9:]))
    monkeypatch.setattr("critiqor.cli.export_options.os.statvfs", lambda folder: read_only)
    refused = cli("report", "run_001", "-o", "out.md")
    assert refused.err.startswith("critiqor: Read-only file system: out.md\n  → ")
    assert not (tmp_path / "out.md").exists()


def test_missing_evidence_is_reported_with_verify(cli: Cli, runs: Runs) -> None:
    store(runs, diagnosis("run_001", finding("tool_loop", "high", id="finding_001")))
    runs.paths.evidence_summary_path("run_001").unlink(missing_ok=True)
    answer = cli("explain", "run_001", "finding_001")
    assert (answer.code, answer.out) == (ExitCode.ERROR, "")
    assert answer.err == "critiqor: the evidence of run_001 is gone\n  → critiqor verify run_001\n"
