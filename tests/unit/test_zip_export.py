"""A run as an archive: all its files, with checksums, and always the same bytes."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

from support import Cli, Runs, attached, recorded
from timelines import data_of, span

from critiqor.exporters import zip as archive
from critiqor.model.report import Bundle, BundledFile

START = 1_794_000_000_000
RECORDS = [attached(at=START), recorded(2, at=START + 1), recorded(3, "agent_end", at=START + 9)]
FILES = ["diagnosis.json", "report.html", "report.md", "run.json", "session.json", "timeline.jsonl", "SHA256SUMS"]


def sealed(runs: Runs, *, timeline: bool = True) -> str:
    run_id = runs.start()
    runs.write(run_id, *RECORDS)
    if timeline:
        path = runs.paths.timeline_path(run_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data_of(*span("gateway.ready", "1", 0, 50)))
    runs.finalize(run_id)
    return run_id


def test_the_archive_contains_evidence_diagnosis_timeline_and_report(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    run_id = sealed(runs)
    answer = cli("export", run_id, "--format", "zip", "--json")
    assert answer.code == 0
    with zipfile.ZipFile(tmp_path / "run_001.zip") as packed:
        assert packed.testzip() is None
        assert packed.namelist() == [f"run_001/{name}" for name in FILES]
        assert packed.read("run_001/session.json") == runs.evidence_bytes(run_id)
        assert packed.read("run_001/diagnosis.json") == runs.paths.diagnosis_path(run_id).read_bytes()
        assert packed.read("run_001/timeline.jsonl") == runs.paths.timeline_path(run_id).read_bytes()
        assert packed.read("run_001/report.md").startswith(b"## `run_001`")
        assert packed.read("run_001/report.html").decode() == cli("report", run_id, "--format", "html", "-o", "-").out
        head = json.loads(packed.read("run_001/run.json"))
        assert head["seal"]["digest"] == f"sha256:{hashlib.sha256(runs.evidence_bytes(run_id)).hexdigest()}"
        assert {entry.date_time for entry in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.external_attr >> 16 for entry in packed.infolist()} == {0o100600}
    [note] = answer.data["notes"]
    assert "redacted" in note


def test_sha256sum_accepts_the_checksums(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    cli("export", sealed(runs), "--format", "zip")
    with zipfile.ZipFile(tmp_path / "run_001.zip") as packed:
        packed.extractall(tmp_path / "out")
    folder = tmp_path / "out" / "run_001"
    check = subprocess.run(
        ["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert check.stdout.count(": OK") == len(FILES) - 1
    assert cli("diagnose", folder / "session.json", "--json").data["run_id"] == "run_001"


def test_packing_again_gives_the_same_bytes(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    run_id = sealed(runs)
    for name in ("one.zip", "two.zip"):
        cli("export", run_id, "--format", "zip", "-o", name)
        # Times and modes of the files do not matter.
        (runs.paths.diagnosis_path(run_id)).chmod(0o640)
        shutil.copystat(tmp_path, runs.paths.diagnosis_path(run_id))
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_lines_that_openclaw_wrote_after_the_seal_are_left_out(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    run_id = sealed(runs)
    before = runs.paths.timeline_path(run_id).read_bytes()
    with runs.paths.timeline_path(run_id).open("ab") as file:
        file.write(data_of(*span("later", "2", 60, 70)))
    cli("export", run_id, "--format", "zip")
    with zipfile.ZipFile(tmp_path / "run_001.zip") as packed:
        assert packed.read("run_001/timeline.jsonl") == before


def test_a_timeline_changed_after_sealing_is_left_out_with_a_note(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    run_id = sealed(runs)
    path = runs.paths.timeline_path(run_id)
    path.write_bytes(path.read_bytes().replace(b"gateway", b"gatexay"))
    notes = cli("export", run_id, "--format", "zip", "--json").data["notes"]
    assert any("was changed after sealing" in note for note in notes)
    with zipfile.ZipFile(tmp_path / "run_001.zip") as packed:
        assert "run_001/timeline.jsonl" not in packed.namelist()


def test_a_note_says_that_a_run_has_no_timeline(cli: Cli, runs: Runs) -> None:
    assert cli("export", sealed(runs, timeline=False), "--format", "zip", "--json").data["notes"] == [
        "The OpenClaw timeline is not included: this run has none."
    ]


def test_evidence_that_was_changed_is_refused_and_the_old_archive_stays(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    run_id = sealed(runs)
    document = runs.paths.evidence_summary_path(run_id)
    changed = document.read_bytes().replace(b"agent_end", b"agent_eni")
    document.unlink()
    document.write_bytes(changed)
    (tmp_path / "run_001.zip").write_text("of before")
    answer = cli("export", run_id, "--format", "zip", "--json")
    assert (answer.code, answer.error["fix"]) == (1, "critiqor verify run_001")
    assert (tmp_path / "run_001.zip").read_text() == "of before"


def test_a_run_that_is_not_finalized_cannot_be_packed(cli: Cli, runs: Runs) -> None:
    run_id = runs.start()
    answer = cli("export", run_id, "--format", "zip")
    assert (answer.code, f"critiqor finalize {run_id}" in answer.err) == (1, True)


def test_a_large_file_is_streamed() -> None:
    asked = 0

    def pieces() -> Iterator[bytes]:
        nonlocal asked
        for number in range(200):
            asked += 1
            # What cannot be packed well, so that something comes out for each of them.
            yield hashlib.shake_128(str(number).encode()).digest(1 << 16)

    size = 200 << 16
    out = archive.report(Bundle("run_001", [BundledFile("session.json", size, pieces)]))
    received = [next(out) for _ in range(50)]
    assert asked < 60, "it does not wait for all of it"
    assert max(map(len, received)) < 1 << 20
    received += out
    with zipfile.ZipFile(io.BytesIO(b"".join(received))) as packed:
        assert packed.read("run_001/session.json") == b"".join(pieces())


def test_files_are_packed_in_the_order_of_their_names() -> None:
    files = [BundledFile(name, 1, lambda: [b"x"]) for name in ("c", "a", "b")]
    with zipfile.ZipFile(io.BytesIO(b"".join(archive.report(Bundle("r", files))))) as packed:
        assert packed.namelist() == ["r/a", "r/b", "r/c", "r/SHA256SUMS"]
