"""The end of a process that recorded 10 events: in a run of 1,000,000 events ÷ in an empty run.

python benchmarks/exit.py [--json]

Measured from the call of `process.exit` to the end of the process; medians, alternately. `at once` exits after the last
event, `later` half a second after it, while session.json is being rewritten.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from critiqor.model import event_id_for, iso_from_ms, now_ms
from critiqor.session import paths_for

EVENTS = 1_000_000
ROUNDS = 9
MAX_RATIO = 2.0
PAUSES = {"at once": 0, "later": 500}
"""Milliseconds between the last event and the exit."""
PLUGIN = Path(__file__).parent.parent / "critiqor" / "clawhub" / "critiqor-openclaw" / "index.js"
PROGRAM = """
const { writeSync } = await import("node:fs");
const { default: plugin } = await import(process.argv[1]);
const handlers = new Map();
plugin.register({ registrationMode: "full", on: (name, handler) => handlers.set(name, handler), runtime: {} });
for (let number = 0; number < 10; number += 1) {
  handlers.get("message_received")({ content: `message ${number}`, sessionKey: "s" }, {});
}
await new Promise((resolve) => setTimeout(resolve, Number(process.argv[2])));
writeSync(1, String(performance.timeOrigin + performance.now()));
process.exit(0);
"""


def main() -> None:
    figures = {name: {"empty": list[float](), "long": list[float]()} for name in PAUSES}
    # The command `node` of a virtual environment is a Python program around the real one.
    wrapper = str(Path(sys.executable).parent / "node")
    node = subprocess.run([wrapper, "-p", "process.execPath"], capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_journal(folder, "long")
        for number in range(ROUNDS):
            for when, pause in PAUSES.items():
                empty = f"empty_{when.replace(' ', '_')}_{number}"
                figures[when]["empty"].append(_exit_ms(node.strip(), folder, empty, pause))
                figures[when]["long"].append(_exit_ms(node.strip(), folder, "long", pause))
    report = {
        when: {
            "empty_ms": round(median(times["empty"]), 2),
            "long_ms": round(median(times["long"]), 2),
            "ratio": round(median(times["long"]) / median(times["empty"]), 2),
        }
        for when, times in figures.items()
    }
    if "--json" in sys.argv:
        print(json.dumps(report))
        return
    for when, row in report.items():
        print(f"exit {when}: empty run {row['empty_ms']} ms, run of {EVENTS:,} events {row['long_ms']} ms")
        exceeded = ": EXCEEDED" if row["ratio"] > MAX_RATIO else ""
        print(f"  long ÷ empty: {row['ratio']:.2f} (at most {MAX_RATIO:g}{exceeded})")


def _write_journal(folder: Path, run_id: str) -> None:
    journal = paths_for(folder).journal_path(run_id)
    journal.parent.mkdir(parents=True)
    with journal.open("wb") as file:
        file.writelines(_records())


def _records() -> Iterator[bytes]:
    began = now_ms() - EVENTS
    for number in range(1, EVENTS + 1):
        moment = began + number
        record = {
            "event_id": event_id_for(moment, "bench", number),
            "event_type": "message_received",
            "raw_event_type": "message_received",
            "timestamp": iso_from_ms(moment),
            "source_layer": "extension_api",
            "session_key": "s",
            **dict.fromkeys(("agent_run_id", "tool_name", "tool_call_id")),
            "status": "ok",
            **dict.fromkeys(("error", "duration_ms")),
            "payload": {"content": "message", "sessionKey": "s"},
        }
        yield json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _exit_ms(node: str, folder: Path, run_id: str, pause: int) -> float:
    """Return how many milliseconds a process takes from its call of `process.exit` to its end."""
    environment = {**os.environ, "CRITIQOR_RUN_ID": run_id, "CRITIQOR_RUNS_DIR": str(folder)}
    process = subprocess.Popen(
        [node, "--input-type=module", "--eval", PROGRAM, PLUGIN.as_uri(), str(pause)],
        env=environment,
        stdout=subprocess.PIPE,
    )
    process.wait()
    ended = time.time() * 1000
    assert process.stdout is not None
    with process.stdout as output:
        return ended - float(output.read())


if __name__ == "__main__":
    main()
