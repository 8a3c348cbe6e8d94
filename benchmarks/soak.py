"""Eight recorded agents and a million events: memory, descriptors and the cost of an event stay the same.

    python benchmarks/soak.py [--events N] [--json]

Each agent is a process with the recorder plugin, a run of its own and a witness, as under the monitor. It emits tool
calls and their results, and reports the CPU time, the used heap and the open descriptors of each tenth. The figures are
the last tenth divided by the second one: the first has the start-up of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil

from critiqor.recording.witness import Witness
from critiqor.session import create_session, finalize_session

AGENTS = 8
TENTHS = 10
PLUGIN = Path(__file__).parent.parent / "critiqor" / "clawhub" / "critiqor-openclaw" / "index.js"
PROGRAM = """
import fs from "node:fs";
const { default: plugin } = await import(process.argv[1]);
const handlers = new Map();
plugin.register({ registrationMode: "full", on: (name, handler) => handlers.set(name, handler), runtime: {} });
const tenth = Number(process.argv[2]) / 20; // two events a call
let before = process.cpuUsage();
for (let part = 0; part < 10; part += 1) {
  for (let number = 0; number < tenth; number += 1) {
    const call = { toolName: "exec", toolCallId: `call_${part}_${number}`, params: { command: `make step-${number}` } };
    const context = { runId: `run-${part}-${Math.floor(number / 50)}`, sessionKey: "agent:main:main" };
    handlers.get("before_tool_call")(call, context);
    const result = { content: [{ type: "text", text: `step ${number} done\\n`.repeat(20) }], details: { exitCode: 0 } };
    handlers.get("after_tool_call")({ ...call, result, durationMs: 5 }, context);
    if (number % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  const used = process.cpuUsage(before);
  before = process.cpuUsage();
  const files = fs.readdirSync("/proc/self/fd").length;
  globalThis.gc();
  const { heapUsed: memory, rss } = process.memoryUsage();
  const figures = { cpu: used.user + used.system, memory, rss, files };
  process.stdout.write(`${JSON.stringify(figures)}\\n`);
}
"""


def main() -> None:
    options = parse_options()
    monitor = psutil.Process()
    with tempfile.TemporaryDirectory() as name:
        witnesses = [Witness(lambda _pid: True) for _ in range(AGENTS)]
        started = [
            start(Path(name, str(number)), options.events // AGENTS, one) for number, one in enumerate(witnesses)
        ]
        memory = [monitor.memory_info().rss]
        parts: list[list[dict[str, Any]]] = [[] for _ in started]
        for _ in range(TENTHS):
            for agent, figures in zip(started, parts, strict=True):
                assert agent.stdout is not None
                figures.append(json.loads(agent.stdout.readline()))
            memory.append(monitor.memory_info().rss)
        for agent in started:
            agent.wait()
        produced = sum(one.produced for witness in witnesses for one in witness.statement().recorders)
        for witness in witnesses:
            witness.close()
        finalize_session(runs_dir=Path(name, "0"))
        coverage = json.loads(Path(name, "0", "run_001", "session.json").read_bytes())["coverage"]
    report = {
        "produced": produced,
        **{
            figure: statistics.median(figures[-1][figure] / figures[1][figure] for figures in parts)
            for figure in ("cpu", "memory", "files")
        },
        "witness_bytes_per_event": (memory[-1] - memory[1]) / max(1, produced),
        "resident_mb": statistics.median(figures[-1]["rss"] for figures in parts) / 1e6,
        "lost_of_first_agent": coverage["missing_records"],
    }
    if "--json" in sys.argv:
        print(json.dumps(report))
        return
    print(f"{AGENTS} agents, {produced:,} records, {report['lost_of_first_agent']} lost in the first of them")
    ratios = ", ".join(f"{name} {report[name]:.2f}" for name in ("cpu", "memory", "files"))
    print(f"last tenth ÷ second (at most 1.2): {ratios}")
    print(f"resident memory of an agent at the end: {report['resident_mb']:.0f} MB")
    print(f"memory of the witness: {report['witness_bytes_per_event']:.0f} bytes per event")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def start(folder: Path, events: int, witness: Witness) -> subprocess.Popen[bytes]:
    run_id = create_session(runs_dir=folder)["run_id"]
    named = {"CRITIQOR_RUN_ID": run_id, "CRITIQOR_RUNS_DIR": str(folder), "CRITIQOR_WITNESS": str(witness.address)}
    node = [str(Path(sys.executable).parent / "node"), "--expose-gc", "--input-type=module", "--eval", PROGRAM]
    return subprocess.Popen([*node, PLUGIN.as_uri(), str(events)], env={**os.environ, **named}, stdout=subprocess.PIPE)


if __name__ == "__main__":
    main()
