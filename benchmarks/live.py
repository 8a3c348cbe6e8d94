"""Cost of the live diagnosis: CPU share and delay of announcements at 50 events a second, and memory of a long run.

    python benchmarks/live.py [--seconds N] [--events N] [--json]

The first part runs in real time: a busy gateway (`generator.py`) writes 50 events a second, every few seconds another
session begins a loop, and the process of the monitor follows. The delay is the time from the write of the event that
completes the finding to its announcement. The second part reads a long recording as fast as it can, with a verdict for
every ten seconds of it, and prints the memory at each tenth.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import generator
import msgspec
import psutil
from generator import Gateway, Record

from critiqor.diagnosis import Diagnoser
from critiqor.live.announcements import Announcement
from critiqor.live.recording import LiveRecording
from critiqor.live.verdict import LiveLimit
from critiqor.model import Coverage, Event, event_id_for, iso_from_ms, now_ms
from critiqor.recording.live_worker import LiveWorker
from critiqor.run.store import Run
from critiqor.session import append_event_to_run, create_session, paths_for
from critiqor.storage.redaction import rules_digest

RATE = 50
"""Events a second."""
TICK = 0.1
LOOP_EVERY_SECONDS = 7.0
VERDICT_SECONDS = 10
"""Seconds of a long recording between two verdicts."""
PATIENCE_SECONDS = 120.0
"""How long the process may take to start, and to announce the last finding, on a machine that does much else."""
MAX_SHARE, MAX_DELAY, MAX_GROWTH = 5.0, 3.0, 1.5
encode = msgspec.json.Encoder().encode


def started_run(folder: Path) -> Run:
    run_id = create_session(runs_dir=folder)["run_id"]
    append_event_to_run(run_id, {"event_type": "process_start", "pid": 1, "command": ["openclaw"]}, runs_dir=folder)
    return Run.load(run_id, folder)


def gateway_records() -> Iterator[Record]:
    """Yield the records of a busy gateway, beginning now."""
    generator.START = now_ms()
    return Gateway().records(rules_digest())


def loop_records(number: int) -> list[Record]:
    """Return the records of a session in a loop, up to the one that completes the finding."""
    records: list[Record] = []
    diagnoser = Diagnoser()
    seen = Coverage(agent_events=1, recorder_attached=True, sources={"hooks": True})
    for call in range(20):
        arguments = {"payload": {"arguments": {"path": "a.txt"}}}
        result = {"payload": {"result": {"content": [{"type": "text", "text": "apples"}]}}}
        for kind, fields in (("tool_call", arguments), ("tool_output", result)):
            records.append(_loop_record(number, len(records) + 1, kind, f"call_{call}", fields))
            diagnoser.observe(msgspec.convert(records[-1], Event))
        if any(finding.severity in ("medium", "high") for finding in diagnoser.findings(seen)):
            return records
    raise SystemExit("no loop was found")


def _loop_record(number: int, sequence: int, kind: str, call: str, fields: Record) -> Record:
    envelope = {"event_type": kind, "raw_event_type": kind, "source_layer": "tool_hooks", "tool_name": "read"}
    place = {"session_key": f"agent:main:loop:{number}", "agent_run_id": f"loop-{number}", "tool_call_id": call}
    ended: Record = {"status": "ok", "error": None, "duration_ms": 5}
    stamp = {"event_id": event_id_for(now_ms(), f"loop{number}", sequence), "timestamp": iso_from_ms(now_ms())}
    return {**stamp, **envelope, **place, **ended, **fields}


def in_real_time(seconds: float) -> dict[str, Any]:
    """Return the CPU share in percent and the delays of announcements in seconds."""
    announced: dict[str, float] = {}

    def announce(news: Announcement | LiveLimit) -> None:
        if isinstance(news, Announcement) and news.kind == "new" and news.finding.session_key is not None:
            announced.setdefault(news.finding.session_key, time.monotonic())

    with tempfile.TemporaryDirectory() as name:
        run = started_run(Path(name))
        worker = LiveWorker(run, None, announce, lambda _: None)
        worker.start()
        _wait_for(run.paths.live_path(run.id).exists)
        assert worker._process is not None
        process = psutil.Process(worker._process.pid)
        began, spent = time.monotonic(), sum(process.cpu_times()[:2])
        completed = _write(run, seconds)
        share = 100 * (sum(process.cpu_times()[:2]) - spent) / (time.monotonic() - began)
        _wait_for(lambda: len(announced) >= len(completed))
        peak = process.memory_info().rss / 2**20
        worker.conclude()
    delays = [announced[session] - at for session, at in completed.items() if session in announced]
    return {"cpu_percent": share, "delays": delays, "missed": len(completed) - len(delays), "rss_mb": peak}


def _wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition() and time.monotonic() < until:
        time.sleep(TICK)


def _write(run: Run, seconds: float) -> dict[str, float]:
    """Write events in real time. Return when the finding of each loop was complete, by session."""
    records = gateway_records()
    completed: dict[str, float] = {}
    began = next_loop = time.monotonic()
    written = 0
    with paths_for(run.paths.runs_dir).journal_path(run.id).open("ab", buffering=0) as journal:
        while (passed := time.monotonic() - began) < seconds:
            due = int(passed * RATE) - written
            written += due
            journal.write(b"".join(encode(_now(record)) + b"\n" for record in islice(records, due)))
            if time.monotonic() >= next_loop and passed < seconds - MAX_DELAY:
                next_loop += LOOP_EVERY_SECONDS
                number = len(completed)
                journal.write(b"".join(encode(record) + b"\n" for record in loop_records(number)))
                completed[f"agent:main:loop:{number}"] = time.monotonic()
            time.sleep(TICK)
    return completed


def _now(record: Record) -> Record:
    """Return a record of this moment: those of the generator follow each other faster."""
    sequence = int(record["event_id"].rpartition("_")[2], 36)
    return {**record, "event_id": event_id_for(now_ms(), "bench01", sequence), "timestamp": iso_from_ms(now_ms())}


def memory(events: int) -> list[float]:
    """Return the megabytes of a process that follows this many events, at each tenth."""
    sizes = []
    with tempfile.TemporaryDirectory() as name:
        run = started_run(Path(name))
        live, records, now = LiveRecording(run), gateway_records(), 0.0
        step = RATE * VERDICT_SECONDS
        with run.paths.journal_path(run.id).open("ab", buffering=0) as journal:
            for number in range(step, events + 1, step):
                journal.write(b"".join(encode(record) + b"\n" for record in islice(records, step)))
                now += VERDICT_SECONDS
                live.read(now)
                live.read(now + 0.5)
                live.publish(now + 0.5)
                if number % (events // 10) < step:
                    sizes.append(psutil.Process().memory_info().rss / 2**20)
                    print(f"{number:,} events: {sizes[-1]:.0f} MB", file=sys.stderr, flush=True)
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--memory-only", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.memory_only:
        print(json.dumps(memory(options.events)))
        return
    figures = in_real_time(options.seconds)
    # In a process of its own, without what the first part has loaded.
    command = [sys.executable, __file__, "--memory-only", "--events", str(options.events)]
    sizes = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    growth = sizes[-1] / sizes[1]
    if options.json:
        print(json.dumps({**figures, "memory_mb": sizes, "growth": growth}))
        return
    delays = figures["delays"] or [float("inf")]
    print(
        f"at {RATE} events a second for {options.seconds:g} s: {figures['cpu_percent']:.1f}% of one core "
        f"(at most {MAX_SHARE:g}), {figures['rss_mb']:.0f} MB"
    )
    print(
        f"from the event that completes a finding to its announcement: median {statistics.median(delays):.1f} s, "
        f"longest {max(delays):.1f} s (at most {MAX_DELAY:g}), {figures['missed']} missed of "
        f"{len(figures['delays']) + figures['missed']}"
    )
    tenths = ", ".join(f"{size:.0f}" for size in sizes)
    print(f"{options.events:,} events, MB at each tenth: {tenths}; last ÷ second {growth:.2f} (at most {MAX_GROWTH:g})")


if __name__ == "__main__":
    main()
