"""Recording into one run by 20 processes at once: all 20,000 events must be kept, those of each process in order.

python benchmarks/writers.py [--json]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from critiqor.session import create_session, finalize_session, paths_for

WRITERS = 20
EVENTS = 1000
PLUGIN = Path(__file__).parent.parent / "critiqor" / "clawhub" / "critiqor-openclaw" / "index.js"
PROGRAM = """
const { default: plugin } = await import(process.argv[1]);
const handlers = new Map();
plugin.register({ registrationMode: "full", on: (name, handler) => handlers.set(name, handler), runtime: {} });
const writer = process.argv[2];
for (let number = 0; number < Number(process.argv[3]); number += 1) {
  handlers.get("message_received")({ content: `message ${number} of ${writer}`, sessionKey: writer }, {});
  if (number % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
}
process.stdout.write(String(globalThis[Symbol.for("critiqor.recorder")].records.handlerErrors));
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        run_id = create_session(runs_dir=name)["run_id"]
        environment = {**os.environ, "CRITIQOR_RUN_ID": run_id, "CRITIQOR_RUNS_DIR": name}
        node = [str(Path(sys.executable).parent / "node"), "--input-type=module", "--eval", PROGRAM]
        writers = [
            subprocess.Popen(
                [*node, PLUGIN.as_uri(), f"writer{index}", str(EVENTS)], env=environment, stdout=subprocess.PIPE
            )
            for index in range(WRITERS)
        ]
        errors = sum(int(writer.communicate()[0]) for writer in writers)
        finalize_session(runs_dir=name)
        sealed = json.loads(paths_for(name).evidence_summary_path(run_id).read_text())
    messages = [event for event in sealed["events"] if event["event_type"] == "message_received"]
    texts: dict[str, list[str]] = {}
    for event in messages:
        texts.setdefault(event["session_key"], []).append(event["payload"]["content"])
    expected = {
        f"writer{index}": [f"message {number} of writer{index}" for number in range(EVENTS)] for index in range(WRITERS)
    }
    report = {
        "kept": len(messages),
        "in_order": texts == expected,
        "sealed_metrics": sealed["metrics"]["by_event_type"]["message_received"],
        "handler_errors": errors,
        "missing_records": sealed["coverage"]["missing_records"],
    }
    if "--json" in sys.argv:
        print(json.dumps(report))
        return
    print(f"{WRITERS} processes, {EVENTS} events each: {report['kept']} kept (all {WRITERS * EVENTS})")
    print(f"those of each process in order: {report['in_order']}; lost: {report['missing_records']}")
    print(f"handler errors: {errors} (none)")


if __name__ == "__main__":
    main()
