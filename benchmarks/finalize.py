"""Cost of `critiqor finalize`: CPU time against a floor, bytes written, and memory.

    python benchmarks/finalize.py [--json]
    python benchmarks/finalize.py --space     only the bytes on disk
    python benchmarks/finalize.py --scale     a million events, with and without repeated commands: many minutes

The verb runs as a process of its own on the journal of a busy gateway (`generator.py`); its start-up, which is measured
with a run of one event, is subtracted. The floor is the minimum work of sealing: decode every record of the journal as
a stream, digest it, write it once and fsync it. All are CPU times, interleaved; the figure is the ratio of their
medians. What the checks of claims add is measured in the same way, against a verb whose checker does nothing; the texts
of the generator are full of numbers that are recorded nowhere, which is close to the worst case.
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
from typing import NamedTuple

import msgspec
import verb
from generator import Gateway, LoopingGateway, write_run

ROUNDS = 7
WITH_CLAIMS = "import critiqor.diagnosis.claims.claim_checker as checker"
WITHOUT_CLAIMS = f"""
{WITH_CLAIMS}
for name in ("add_message", "start_call", "end_call", "conclude"):
    setattr(checker.ClaimChecker, name, lambda *arguments, **options: None)
"""


def floor(journal: Path) -> float:
    began = time.process_time()
    decode = msgspec.json.Decoder().decode
    digest = hashlib.sha256()
    with journal.open("rb") as source, (journal.parent / "floor").open("wb") as target:
        for line in source:
            decode(line)
            digest.update(line)
            target.write(line)
        target.flush()
        os.fsync(target.fileno())
    return time.process_time() - began


def finalize(folder: str) -> tuple[str, ...]:
    return ("finalize", "--no-dashboard", "--runs-dir", folder)


def start_up() -> float:
    with tempfile.TemporaryDirectory() as name:
        write_run(Path(name), 1)
        return verb.cpu_seconds(*finalize(name))


def time_over_floor(events: int, redaction: str | None = None) -> float:
    start, floors, whole = [], [], []
    for _ in range(ROUNDS):
        start.append(start_up())
        with tempfile.TemporaryDirectory() as name:
            floors.append(floor(write_run(Path(name), events, redaction=redaction)))
            whole.append(verb.cpu_seconds(*finalize(name)))
    return (statistics.median(whole) - statistics.median(start)) / statistics.median(floors)


def time_of_claims(events: int) -> float:
    """Return the CPU time that the checks of claims add to the verb, as a share of the time without them."""
    times: dict[str, list[float]] = {WITH_CLAIMS: [], WITHOUT_CLAIMS: []}
    for _ in range(ROUNDS):
        for prelude, measured in times.items():
            with tempfile.TemporaryDirectory() as name:
                write_run(Path(name), events)
                measured.append(verb.cpu_seconds(*finalize(name), prelude=prelude))
    return statistics.median(times[WITH_CLAIMS]) / statistics.median(times[WITHOUT_CLAIMS]) - 1


class Size(NamedTuple):
    """Memory and space of one `critiqor finalize`."""

    megabytes: float
    """Peak memory."""
    written: float
    """Bytes that it writes ÷ size of the journal."""
    kept: float
    """Bytes on disk afterwards, with default settings ÷ size of the journal."""


def memory_and_bytes(events: int) -> Size:
    with tempfile.TemporaryDirectory() as name:
        # By another process, which has ended: the journal of a run whose monitor is alive is kept.
        script = f"from generator import write_run; from pathlib import Path; write_run(Path({name!r}), {events})"
        subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parent)
        size = Path(name, "run_001", "journal.jsonl").stat().st_size
        counted = verb.figures(*finalize(name))
        kept = sum(path.stat().st_blocks * 512 for path in Path(name).rglob("*") if path.is_file())
        return Size(counted["VmHWM"] / 1024, counted["wchar"] / size, kept / size)


def scale(gateway: type[Gateway]) -> tuple[float, float, float]:
    """Return the peak megabytes at 100,000 and 1,000,000 events, and the ratio of their CPU times per event."""
    counted = []
    for events in (100_000, 1_000_000):
        with tempfile.TemporaryDirectory() as name:
            write_run(Path(name), events, gateway=gateway)
            counted.append(verb.figures(*finalize(name)))
    small, large = counted
    return small["VmHWM"] / 1024, large["VmHWM"] / 1024, large["cpu_ms"] / small["cpu_ms"] / 10


def print_scale() -> None:
    for name, gateway in (("a busy gateway", Gateway), ("repeated commands", LoopingGateway)):
        small, large, ratio = scale(gateway)
        print(f"{name}: {small:.0f} MB at 100,000 events (at most 80), {large:.0f} MB at 1,000,000 (at most 200)")
        print(f"{name}: cost of an event at 1,000,000 ÷ at 100,000: {ratio:.2f} (at most 1.2)", flush=True)


def print_space(size: Size) -> None:
    print(f"bytes on disk after finalize ÷ journal bytes: {size.kept:.2f} (at most 2.1)")


def main() -> None:
    if "--scale" in sys.argv:
        print_scale()
        return
    if "--space" in sys.argv:
        print_space(memory_and_bytes(100_000))
        return
    ratio = time_over_floor(10_000)
    again = time_over_floor(10_000, "other rules")
    claims = time_of_claims(10_000)
    small, large = memory_and_bytes(10_000), memory_and_bytes(100_000)
    report = {
        "finalize_over_floor": ratio,
        "finalize_over_floor_redacting_again": again,
        "claims_over_verb_without_them": claims,
        "bytes_written_over_journal": small.written,
        "bytes_on_disk_over_journal": large.kept,
        "peak_mb_10000": small.megabytes,
        "peak_mb_100000": large.megabytes,
        "peak_growth": large.megabytes / small.megabytes,
    }
    if "--json" in sys.argv:
        print(json.dumps(report))
        return
    print(f"critiqor finalize of 10,000 events ÷ floor: {ratio:.1f} (at most 9)")
    print(f"the same if the recorder had other redaction rules: {again:.1f} (at most 12)")
    print(f"claims add {claims:.0%} (at most 30%)")
    print(f"bytes written ÷ journal bytes: {small.written:.2f} (at most 2.5)")
    print_space(large)
    print(f"peak memory at 100,000 events: {large.megabytes:.0f} MB (at most 80)")
    print(f"peak memory at 100,000 events ÷ at 10,000: {large.megabytes / small.megabytes:.2f} (at most 2)")


if __name__ == "__main__":
    main()
