"""Recording into one run by two processes at once: all 2,000 events must be kept.

python benchmarks/two_writers.py [--json]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from critiqor.session import create_session, finalize_session, paths_for

WRITERS = 2
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
process.stdout.write(String(globalThis[Symbol.for("critiqor.recorder")].recorder.handlerErrors));
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
        live = json.loads(paths_for(name).evidence_summary_path(run_id).read_text())
        finalize_session(runs_dir=name)
        sealed = json.loads(paths_for(name).evidence_summary_path(run_id).read_text())
    report = {
        "kept": sum(event["event_type"] == "message_received" for event in sealed["events"]),
        "live_metrics": live["metrics"]["by_event_type"]["message_received"],
        "sealed_metrics": sealed["metrics"]["by_event_type"]["message_received"],
        "handler_errors": errors,
        "missing_records": sealed["coverage"]["missing_records"],
    }
    if "--json" in sys.argv:
        print(json.dumps(report))
        return
    print(f"{WRITERS} processes, {EVENTS} events each: {report['kept']} kept (all {WRITERS * EVENTS})")
    print(f"metrics while it ran: {report['live_metrics']}, sealed: {report['sealed_metrics']}")
    print(f"handler errors: {errors} (none)")


if __name__ == "__main__":
    main()
