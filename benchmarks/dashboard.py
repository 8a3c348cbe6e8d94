"""What a run of 100,000 events costs in the dashboard: pages, searches against reading the file, and memory.

    python benchmarks/dashboard.py [EVENTS] [--json]

Pages are asked of the application itself, as a browser would ask them, in a process of their own whose memory is looked
at from outside. The first page is asked before there is an index, while it begins to be made.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
from finalize import write_run

from critiqor.session import complete_session

EVENTS = 100_000
ROUNDS = 5
SEARCHES = ("orders_4711", "discount", "PASS tests/unit/orders_99999.py", "nothing_of_that_name", "EUR total")
GOALS = {"first_page_s": 1.0, "slowest_search_ms": 300.0, "peak_memory_mb": 200.0}


def main() -> None:
    if "--child" in sys.argv:
        print(json.dumps(asked(Path(sys.argv[-1]))))
        return
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        write_run(runs, numbers[0] if numbers else EVENTS)
        complete_session(runs_dir=runs)
        figures = measured(runs)
    if "--json" in sys.argv:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        goal = f"  (goal: under {GOALS[name]:g})" if name in GOALS else ""
        print(f"{name:28} {value}{goal}")


def measured(runs: Path) -> dict[str, Any]:
    """Ask in a child process, and look at its memory from here."""
    child = subprocess.Popen([sys.executable, __file__, "--child", str(runs)], stdout=subprocess.PIPE, text=True)
    process, peak = psutil.Process(child.pid), [0]

    def look() -> None:
        while child.poll() is None:
            try:
                peak[0] = max(peak[0], process.memory_info().rss)
            except psutil.Error:
                return
            time.sleep(0.01)

    looking = threading.Thread(target=look)
    looking.start()
    out, _ = child.communicate()
    looking.join()
    return {**json.loads(out), "peak_memory_mb": round(peak[0] / (1 << 20), 1)}


def asked(runs: Path) -> dict[str, Any]:
    """Everything that is asked of one dashboard."""
    from starlette.testclient import TestClient

    from critiqor.dashboard.pages.site import Site
    from critiqor.dashboard.web.access import Viewer
    from critiqor.dashboard.web.application import application
    from critiqor.storage import paths_for

    site = Site(paths_for(runs), 4242)
    client = TestClient(application(site), base_url=site.address)
    client.get("/open", params={"token": site.access.admit("default")})
    memory = psutil.Process().memory_info().rss
    began = time.perf_counter()
    first = took(client, "/runs/run_001")
    evidence = took(client, "/runs/run_001/evidence")
    run = site.library.open("run_001", Viewer(tenants=frozenset({"default"})))
    while site.shelf.index_of(run, patience=1.0) is None:
        if problem := site.shelf.problem(run):
            raise SystemExit(problem)
    indexed = time.perf_counter() - began
    document = site.paths.evidence_summary_path("run_001")
    searches = {
        word: statistics.median(took(client, "/runs/run_001/evidence", q=word) for _ in range(ROUNDS))
        for word in SEARCHES
    }
    plain = statistics.median(read(document) for _ in range(3))
    slowest = max(searches.values())
    pages = {
        name: round(1000 * statistics.median(took(client, f"/runs/run_001{path}") for _ in range(3)), 1)
        for name, path in {
            "overview": "",
            "diagnosis": "/diagnosis",
            "timeline": "/timeline",
            "last_page": "/evidence?page=1000",
            "filtered": "/evidence?type=tool_output&status=ok",
        }.items()
    }
    return {
        "events": run.head["seal"]["events"],
        "evidence_mb": round(document.stat().st_size / (1 << 20), 1),
        "index_mb": round((document.parent / "events.sqlite").stat().st_size / (1 << 20), 1),
        "first_page_s": round(max(first, evidence), 3),
        "index_made_after_s": round(indexed, 1),
        "search_ms": {word: round(1000 * seconds, 1) for word, seconds in searches.items()},
        "slowest_search_ms": round(1000 * slowest, 1),
        "reading_the_file_ms": round(1000 * plain, 1),
        "search_to_reading": round(slowest / plain, 3),
        "page_ms": pages,
        "memory_before_mb": round(memory / (1 << 20), 1),
    }


def took(client: Any, path: str, **asked: str) -> float:
    began = time.perf_counter()
    answer = client.get(path, params=asked or None)
    if answer.status_code != 200:
        raise SystemExit(f"{path}: {answer.status_code}")
    return time.perf_counter() - began


def read(document: Path) -> float:
    """Reading the evidence from end to end, event by event: the least that a search without an index would do."""
    from critiqor.storage.session_document import read_sealed_events

    began = time.perf_counter()
    sum(1 for _ in read_sealed_events(document))
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
