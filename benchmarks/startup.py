"""Start-up time of the command line: `critiqor --help` against bare Python, and a list of 200 finished runs.

    python benchmarks/startup.py [--json]

Ratios of wall-clock medians, interleaved in one run. A run is read when it is listed first, and again when one of its
files changed: the list that reads all of them is measured as well.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from generator import write_run

from critiqor.session import finalize_session
from critiqor.storage import paths_for

ROUNDS = 25
RUNS = 200
EVENTS_PER_RUN = 100


SETTLED_SECONDS = 3.0
"""After this time, a run that was listed is not read again."""


def elapsed(command: list[str], folder: str) -> float:
    """Return the seconds that a command takes in a folder without settings."""
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=variables, cwd=folder)
    return time.perf_counter() - began


def main() -> None:
    critiqor = str(Path(sys.executable).parent / "critiqor")
    with tempfile.TemporaryDirectory() as name:
        for _ in range(RUNS):
            write_run(Path(name), EVENTS_PER_RUN)
            finalize_session(runs_dir=name)
        commands = {
            "pass": [sys.executable, "-c", "pass"],
            "help": [critiqor, "--help"],
            "runs": [critiqor, "runs", "--runs-dir", name],
        }
        times: dict[str, list[float]] = {label: [] for label in (*commands, "first")}
        time.sleep(SETTLED_SECONDS)
        for _ in range(ROUNDS):
            paths_for(name).run_list_path.unlink(missing_ok=True)
            times["first"].append(elapsed(commands["runs"], name))
            for label, command in commands.items():
                times[label].append(elapsed(command, name))
    median = {label: statistics.median(values) for label, values in times.items()}
    report = {"help_over_pass": median["help"] / median["pass"], "runs_over_help": median["runs"] / median["help"]}
    report["first_over_help"] = median["first"] / median["help"]
    if "--json" in sys.argv:
        print(json.dumps(report))
        return
    print(f"critiqor --help ÷ python -c pass: {report['help_over_pass']:.1f} (at most 5)")
    print(
        f"critiqor runs over {RUNS} finished runs ÷ critiqor --help: {report['runs_over_help']:.2f} (at most 2), "
        f"{report['first_over_help']:.2f} if all of them are read"
    )


if __name__ == "__main__":
    main()
