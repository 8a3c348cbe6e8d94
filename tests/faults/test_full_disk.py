"""A disk that is full from any write of a recording on: the agent is not disturbed, and every lost record is counted.

The number of writes that are tried is `CRITIQOR_FAULTS`; the default is for `make test`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import STANDIN, Runs, run_critiqor

from critiqor.agentloop.recording.journal_writer import JournalWriter

TRIES = int(os.environ.get("CRITIQOR_FAULTS", "12"))
PRELOADED = Path(__file__).parent / "full_disk.mjs"
WRITES = 60
"""About as many as a recording of the stand-in with three tool calls makes."""


@pytest.mark.parametrize("first", range(1, WRITES, max(1, WRITES // TRIES)))
def test_what_a_full_disk_refuses_is_counted_exactly(tmp_path: Path, first: int, figure: Callable[[str], None]) -> None:
    runs = Runs(tmp_path / "runs")
    home = tmp_path / "home"
    home.mkdir()
    openclaw = [
        "--no-live",
        "--openclaw-command",
        str(STANDIN),
        "--runs-dir",
        str(runs.folder),
        "--",
        "agent",
        "--tools",
        "3",
    ]
    extra = {"NODE_OPTIONS": f"--import={PRELOADED}", "FULL_DISK_FROM": str(first)}
    done = run_critiqor("monitor", "openclaw", *openclaw, home=home, extra=extra)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Done: the build is green")
    runs.finalize("run_001")
    coverage = runs.evidence("run_001")["coverage"]
    witness = coverage["witness"]
    counts = f"{witness['produced']} produced, {coverage['journal_lines']} kept, {witness['lost']} counted as lost"
    figure(f"stand-in, disk full from write {first} on: {counts}")
    assert witness["produced"] == coverage["journal_lines"] + witness["lost"]
    assert witness["lost"] == coverage["missing_records"] + coverage["damaged_records"]
    assert witness["produced"] >= 20
    assert not any(witness[name] for name in ("removed", "changed", "inserted", "irregular_reports", "altered"))


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
