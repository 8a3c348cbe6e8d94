"""Time until a browser has drawn large pages of the dashboard: a causal graph of 300 nodes, and charts of 2,000 runs.

    python benchmarks/drawings.py [--json]

Measured by the browser, from the start of the navigation to the frame after the page was loaded and its scripts have
run. It uses the Chromium of the browser tests. The first visit of the list reads all runs; later ones only those that
changed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from browser.chromium import browser  # noqa: E402
from diagnosed import store  # noqa: E402
from large import large_diagnosis, many_runs  # noqa: E402
from served import Served  # noqa: E402
from support import BIN, Runs  # noqa: E402

RUNS = 2000
GOAL_MS = 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder) / "runs")
        many_runs(runs, RUNS)
        large = store(runs, large_diagnosis("run_9999"), day=20_000)
        pages = {"graph_300_nodes_ms": f"/runs/{large}/diagnosis", "charts_2000_runs_ms": "/runs"}
        figures = measure(runs, pages)
    if "--json" in sys.argv:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:28} {value}" + f"  (goal: under {GOAL_MS})" * (not name.startswith("first")))


def measure(runs: Runs, pages: dict[str, str]) -> dict[str, float]:
    """Serve a runs folder and open the pages."""
    with Served(runs, runs.folder.parent) as served:
        request = {**served.data, "browser": browser()._asdict(), "pages": pages}
        script = str(Path(__file__).with_suffix(".mjs"))
        out = subprocess.run([str(BIN / "node"), script, json.dumps(request)], check=True, stdout=subprocess.PIPE)
    figures: dict[str, float] = json.loads(out.stdout)
    return figures


if __name__ == "__main__":
    main()
