"""A disk that is full from any write of a recording on: the agent is not disturbed, and every lost record is counted.

The number of writes that are tried is `CRITIQOR_FAULTS`; the default is for `make test`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import STANDIN, Runs, run_critiqor

from critiqor.agentloop.recording.journal_writer import JournalWriter

TRIES = int(os.environ.get("CRITIQOR_FAULTS", "12"))
REAL_TRIES = int(os.environ.get("CRITIQOR_FAULTS", "2"))
PRELOADED = Path(__file__).parent / "full_disk.mjs"
REAL_TURNS = Path(__file__).parents[1] / "plugin" / "fixtures"
WRITES = 60
"""About as many as a recording of the stand-in with three tool calls makes."""
NEVER = 1_000_000


class Counts(NamedTuple):
    """What became of the records of a recording."""

    produced: int
    kept: int
    lost: int
    """Counted as lost."""

    def __str__(self) -> str:
        return f"{self.produced} produced, {self.kept} kept, {self.lost} counted as lost"


def record(folder: Path, first: int, *words: str) -> tuple[Counts, str]:
    """Record a run of the stand-in whose disk is full from a write on, and finalize it. Return what it printed, too."""
    folder.mkdir(exist_ok=True)
    runs = Runs(folder / "runs")
    home = folder / "home"
    home.mkdir()
    options = ("--no-live", "--openclaw-command", str(STANDIN), "--runs-dir", str(runs.folder))
    extra = {"NODE_OPTIONS": f"--import={PRELOADED}", "FULL_DISK_FROM": str(first)}
    extra["FULL_DISK_COUNT"] = str(folder / "writes")
    done = run_critiqor("monitor", "openclaw", *options, "--", "agent", *words, home=home, extra=extra)
    assert done.returncode == 0, done.stderr
    runs.finalize("run_001")
    coverage = runs.evidence("run_001")["coverage"]
    witness = coverage["witness"]
    kept = coverage["journal_lines"] - coverage["damaged_records"]
    counts = Counts(witness["produced"], kept, witness["lost"])
    assert counts.produced == counts.kept + counts.lost
    assert counts.lost == coverage["missing_records"] + coverage["damaged_records"]
    assert not any(witness[name] for name in ("removed", "changed", "inserted", "irregular_reports", "altered"))
    return counts, done.stdout


@pytest.mark.parametrize("first", range(1, WRITES, max(1, WRITES // TRIES)))
def test_what_a_full_disk_refuses_is_counted_exactly(tmp_path: Path, first: int, figure: Callable[[str], None]) -> None:
    counts, printed = record(tmp_path, first, "--tools", "3")
    figure(f"stand-in, disk full from write {first} on: {counts}")
    assert printed.startswith("Done: the build is green")
    assert counts.produced >= 20


@pytest.mark.parametrize("turn", ["2026.9.6-local", "2026.6.1-local"])
def test_every_record_of_the_events_of_a_real_openclaw_is_kept_or_counted_as_lost(
    tmp_path: Path, turn: str, figure: Callable[[str], None]
) -> None:
    replayed = ("--replay", str(REAL_TURNS / f"{turn}.jsonl"))
    whole, _ = record(tmp_path / "whole", NEVER, *replayed)
    assert whole.lost == 0
    writes = int((tmp_path / "whole" / "writes").read_text())
    tried = range(1, writes + 1, max(1, writes // REAL_TRIES))
    for first in tried:
        counts, printed = record(tmp_path / str(first), first, *replayed)
        assert printed == "replayed\n"
        assert counts.produced == whole.produced
        assert counts.kept == 0 or first > 1
    counted = f"{whole.produced} records, each kept or counted"
    figure(f"events of {turn}, disk full from each of {len(tried)} of {writes} writes on: {counted}")


class FullDisk:
    """Refuses every write from one on."""

    def __init__(self, first: int) -> None:
        self.left = first - 1
        self._write = os.write

    def write(self, descriptor: int, data: bytes) -> int:
        if self.left <= 0:
            raise OSError(errno.ENOSPC, "no space left on device")
        self.left -= 1
        return self._write(descriptor, data)


@pytest.mark.parametrize("first", range(1, 12))
def test_the_embedded_recorder_counts_them_too(runs: Runs, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    run_id = runs.start()
    disk = FullDisk(first)
    writer = JournalWriter(runs.paths, run_id)
    monkeypatch.setattr(os, "write", disk.write)
    empty = dict.fromkeys(("event_id", "timestamp", "tool_name", "tool_call_id", "error"))
    record: dict[str, Any] = {
        **empty,
        "event_type": "message_received",
        "raw_event_type": "message_received",
        "source_layer": "extension_api",
        "payload": {"text": "hello"},
    }
    kept = [writer.append(dict(record), writer.now()) for _ in range(10)]
    writer.close()
    monkeypatch.undo()
    assert kept == [number < first for number in range(1, 11)]
    runs.finalize(run_id)
    coverage = runs.evidence(run_id)["coverage"]
    assert coverage["journal_lines"] + coverage["missing_records"] == 10
    assert coverage["recorders_not_closed"] == 0
