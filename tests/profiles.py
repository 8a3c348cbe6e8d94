"""Profiles for tests: real ones that Node writes in a moment, and small ones made by hand."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from support import PATIENCE_SECONDS, environment

from critiqor.model.profiles import CpuProfile
from critiqor.openclaw import profiling_environment
from critiqor.timeline.profiles.artifacts import read_artifact
from critiqor.timeline.profiles.cpu_reader import read_cpu_profile

SECRET = "correct-horse-battery-staple"
CPU_NAME = "CPU.20261116.100000.4711.0.001.cpuprofile"
HEAP_NAME = "Heap.20261116.100000.4711.0.002.heapprofile"
REPORT_NAME = "report.20261116.100000.4711.0.003.json"
TRACE_NAME = "node-trace-4711-1.json"
BURNS_AND_KEEPS = """
const kept = [];
function keepMuch() { for (let i = 0; i < 30000; i += 1) kept.push({ i, text: "a" + i, list: new Array(20).fill(i) }); }
function burnTime(until) { let sum = 0; while (performance.now() < until) sum += Math.sqrt(sum + 1); return sum; }
keepMuch();
console.time("a-label-of-mine");
burnTime(performance.now() + 150);
console.timeEnd("a-label-of-mine");
process.report.writeReport();
setTimeout(() => process.exit(kept.length ? 0 : 1), 60);
"""


def write_real_profiles(folder: Path, home: Path) -> None:
    """Let a Node under the options of a deep profile write one artifact of each kind but a snapshot."""
    folder.mkdir(parents=True, exist_ok=True)
    package = home / "node_modules" / "@scope" / "burner" / "dist"
    package.mkdir(parents=True)
    program = package / "burner.cjs"
    program.write_text(BURNS_AND_KEEPS)
    extra = {**profiling_environment({}, folder), "MY_PASSWORD": SECRET}
    subprocess.run(
        ["node", str(program), f"--token={SECRET}"],
        env=environment(home, **extra),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )


def call_frame(name: str, url: str = "", line: int = -1) -> dict[str, Any]:
    return {"functionName": name, "scriptId": "0", "url": url, "lineNumber": line, "columnNumber": -1}


def cpu_document(calls: dict[str, list[str]], samples: list[tuple[str, int]], end: int) -> dict[str, Any]:
    """A .cpuprofile: who calls whom, from `(root)` on, and which node was seen at which microsecond.

    A node is called by its function, and by `function#anything` where there are several of one function.
    """
    names = list(dict.fromkeys(["(root)", *calls, *(name for called in calls.values() for name in called)]))
    numbers = {name: number for number, name in enumerate(names, 1)}
    nodes = [
        {
            "id": numbers[name],
            "callFrame": call_frame(name.partition("#")[0]),
            "children": [numbers[child] for child in calls.get(name, [])],
        }
        for name in names
    ]
    moments = [moment for _, moment in samples]
    deltas = [moment - before for before, moment in zip([0, *moments], moments, strict=False)]
    seen = [numbers[name] for name, _ in samples]
    return {"nodes": nodes, "startTime": 5000, "endTime": 5000 + end, "samples": seen, "timeDeltas": deltas}


def read_document(folder: Path, document: object, name: str = CPU_NAME, *, written_at: float = 0.0) -> CpuProfile:
    """A CPU profile through its file."""
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document, separators=(",", ":")))
    os.utime(path, (written_at, written_at))
    artifact = read_artifact(path)
    assert artifact is not None
    return read_cpu_profile(artifact)
