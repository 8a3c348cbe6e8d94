"""Cost of finalizing: time against a floor, memory, and bytes written.

    python benchmarks/finalize.py [--json]

The floor is the minimum work of sealing: decode every record of the journal as a stream, digest it, write it once and
fsync it. Both are measured in the same process, interleaved; the figure is the median of the ratios.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from critiqor.model import event_id_for, iso_from_ms
from critiqor.session import append_event_to_run, complete_session, create_session, paths_for
from critiqor.storage.redaction import rules_digest

ROUNDS = 7
START = 1_794_000_000_000


def write_run(folder: Path, events: int, *, redaction: str = rules_digest()) -> Path:
    """Create a monitored run whose journal has `events` records of about 1 KB, calls and results alternately.

    Its recorder announces the redaction rules that it applied, like the real one.
    """
    run_id = create_session(runs_dir=folder)["run_id"]
    append_event_to_run(run_id, {"event_type": "process_start", "pid": 1, "command": ["openclaw"]}, runs_dir=folder)
    path = paths_for(folder).journal_path(run_id)
    with path.open("wb") as journal:
        for number in range(events):
            journal.write(msgspec.json.encode(record(number, redaction)) + b"\n")
    return path


def record(number: int, redaction: str) -> dict[str, object]:
    kind = "recorder_attached" if number == 0 else "tool_call" if number % 2 else "tool_result"
    text = f"PASS tests/unit/orders_{number}.py: total 41.20 EUR after the discount was applied\n" * 7
    result = {"content": [{"type": "text", "text": text}], "details": {"exitCode": 0}}
    return {
        "event_id": event_id_for(START + number, "bench01", number + 1),
        "event_type": kind,
        "raw_event_type": kind,
        "timestamp": iso_from_ms(START + number),
        "source_layer": "tool_hooks",
        "session_key": "agent:main:main",
        "agent_run_id": "4fa9998d-17e9-4eae-aa31-4563de369839",
        "tool_name": "exec",
        "tool_call_id": f"call_{(number + 1) // 2}",
        "status": "ok",
        "error": None,
        "duration_ms": 12 if kind == "tool_result" else None,
        "payload": {"result": result} if number else {"redaction": redaction},
    }


def floor(journal: Path) -> float:
    began = time.perf_counter()
    decode = msgspec.json.Decoder().decode
    digest = hashlib.sha256()
    lines = []
    with journal.open("rb") as source:
        for line in source:
            decode(line)
            digest.update(line)
            lines.append(line)
    with (journal.parent / "floor").open("wb") as target:
        target.write(b"".join(lines))
        target.flush()
        os.fsync(target.fileno())
    return time.perf_counter() - began


def written_bytes() -> int:
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    raise SystemExit("this system does not count written bytes")


def time_and_bytes(events: int, redaction: str) -> tuple[float, float]:
    ratios, written = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as name:
            journal = write_run(Path(name), events, redaction=redaction)
            minimum = floor(journal)
            before, began = written_bytes(), time.perf_counter()
            complete_session(runs_dir=name)
            ratios.append((time.perf_counter() - began) / minimum)
            written.append((written_bytes() - before) / journal.stat().st_size)
    return statistics.median(ratios), statistics.median(written)


# VmHWM is the peak since exec. The peak of a child in getrusage would include its parent's.
MEASURED = """
import re, sys
from critiqor.cli import main
try:
    main()
finally:
    print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
"""


def peak_memory(events: int) -> float:
    """Return the peak megabytes of `critiqor finalize`."""
    with tempfile.TemporaryDirectory() as name:
        write_run(Path(name), events)
        command = [sys.executable, "-c", MEASURED, "finalize", "--no-dashboard", "--runs-dir", name]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
        return int(done.stderr.split()[-1]) / 1024


def main() -> None:
    ratio, written = time_and_bytes(10_000, rules_digest())
    again, _ = time_and_bytes(10_000, "other rules")
    small, large = peak_memory(10_000), peak_memory(100_000)
    report = {
        "finalize_over_floor": ratio,
        "finalize_over_floor_redacting_again": again,
        "bytes_written_over_journal": written,
        "peak_mb_10000": small,
        "peak_mb_100000": large,
        "peak_growth": large / small,
    }
    if "--json" in sys.argv:
        print(json.dumps(report))
        return
    print(f"finalize of 10,000 events ÷ floor: {ratio:.1f} (at most 8)")
    print(f"the same if the recorder had other redaction rules: {again:.1f} (at most 8)")
    print(f"bytes written ÷ journal bytes: {written:.2f} (at most 2.5)")
    print(f"peak memory at 100,000 events: {large:.0f} MB (at most 150)")
    print(f"peak memory at 100,000 events ÷ at 10,000: {large / small:.2f} (at most 2)")


if __name__ == "__main__":
    main()
