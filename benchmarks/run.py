"""Run all benchmarks in order.

python benchmarks/run.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NODE = Path(sys.executable).parent / "node"


def main() -> None:
    for name in (
        "plugin_cost.mjs",
        "writers.py",
        "redaction.py",
        "exit.py",
        "finalize.py",
        "diagnosis.py",
        "contracts.py",
        "live.py",
        "live_verdicts.py",
        "limits.py",
        "alerts.py",
        "receiver.py",
        "streaming.py",
        "timeline.py",
        "determinism.py",
        "startup.py",
        "embedded_loop.py",
        "gateway_turns.py",
        "attribution.py",
        "dashboard.py",
        "drawings.py",
    ):
        print(f"── {name}", flush=True)
        program = NODE if name.endswith(".mjs") else sys.executable
        environment = {**os.environ, "PYTHON": sys.executable}
        subprocess.run([str(program), str(HERE / name)], check=True, env=environment)


if __name__ == "__main__":
    main()
