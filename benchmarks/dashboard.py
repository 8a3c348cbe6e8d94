"""Cost of a run of 100,000 events in the dashboard: pages, searches compared with reading the file, and memory.

    python benchmarks/dashboard.py [EVENTS] [--json]

Pages are requested from the application like by a browser, in a separate process whose memory is sampled from outside.
The first page is requested before the index exists, while it is being built. The same is done with a run in which a
single session has all events, for its conversation.
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
from urllib.parse import quote

import psutil
from generator import SingleSession, write_run

from critiqor.session import complete_session

EVENTS = 100_000
ROUNDS = 5
SEARCHES = ("invoice_217", "discount", "pytest src/order_17.py", "nothing_of_that_name", "注文", "HTTP 404")
GOALS = {
    "first_page_s": 1.0,
    "slowest_search_ms": 300.0,
    "peak_memory_mb": 200.0,
    "conversation_first_page_s": 1.0,
    "conversation_slowest_page_ms": 1000.0,
    "conversation_peak_memory_mb": 200.0,
}


def main() -> None:
    if "--child" in sys.argv:
        print(json.dumps(request_pages(Path(sys.argv[-1]))))
        return
    if "--conversation" in sys.argv:
        print(json.dumps(request_conversation(Path(sys.argv[-1]))))
        return
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        events = numbers[0] if numbers else EVENTS
        write_run(runs, events)
        complete_session(runs_dir=runs)
        figures = measure(runs, "--child")
        single = Path(folder) / "single"
        write_run(single, events, gateway=SingleSession)
        complete_session(runs_dir=single)
        figures |= {f"conversation_{name}": value for name, value in measure(single, "--conversation").items()}
    if "--json" in sys.argv:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        goal = f"  (goal: under {GOALS[name]:g})" if name in GOALS else ""
        print(f"{name:28} {value}{goal}")


def measure(runs: Path, task: str) -> dict[str, Any]:
    """Request pages in a child process, and sample its memory."""
    child = subprocess.Popen([sys.executable, __file__, task, str(runs)], stdout=subprocess.PIPE, text=True)
    process, peak = psutil.Process(child.pid), [0]

    def sample_memory() -> None:
        while child.poll() is None:
            try:
                peak[0] = max(peak[0], process.memory_info().rss)
            except psutil.Error:
                return
            time.sleep(0.01)

    sampler = threading.Thread(target=sample_memory)
    sampler.start()
    out, _ = child.communicate()
    sampler.join()
    return {**json.loads(out), "peak_memory_mb": round(peak[0] / (1 << 20), 1)}


def open_dashboard(runs: Path) -> tuple[Any, Any]:
    """Return the site of a runs folder, and a client that its user has."""
    from starlette.testclient import TestClient

    from critiqor.dashboard.pages.site import Site
    from critiqor.dashboard.web.application import application
    from critiqor.run.store import RunStore

    site = Site(RunStore(runs), 4242)
    client = TestClient(application(site), base_url=site.address)
    client.get("/open", params={"token": site.access.admit("default")})
    return site, client


def wait_for_index(site: Any) -> Any:
    """Wait for the index of the run, and return the run."""
    from critiqor.privacy.visibility import Viewer

    run = site.catalog.open("run_001", Viewer(is_user=True, tenants=frozenset({"default"})))
    while site.indexes.index_of(run, timeout=1.0) is None:
        if problem := site.indexes.problem(run):
            raise SystemExit(problem)
    return run


def request_conversation(runs: Path) -> dict[str, Any]:
    """Request pages of the conversation of the only session: first, last, searched, and at an event."""
    site, client = open_dashboard(runs)
    first = request_seconds(client, "/runs/run_001/conversation")
    run = wait_for_index(site)
    index = site.indexes.index_of(run)
    with index.query() as base:
        [key, entries] = base.execute("SELECT key, entries FROM sessions ORDER BY entries DESC LIMIT 1").fetchone()
        [event] = base.execute("SELECT event_id FROM events ORDER BY number DESC LIMIT 1 OFFSET 5000").fetchone()
    queries: dict[str, dict[str, str]] = {
        "first": {},
        "last": {"page": "100000"},
        "messages": {"show": "messages"},
        "problems": {"show": "problems"},
        "search": {"q": "discount"},
        "event": {"event": event},
    }
    path = f"/runs/run_001/sessions/{quote(key, safe='')}"
    pages = {
        name: round(1000 * statistics.median(request_seconds(client, path, **query) for _ in range(3)), 1)
        for name, query in queries.items()
    }
    return {
        "events": run.head.seal.events if run.head.seal else 0,
        "entries": entries,
        "first_page_s": round(first, 3),
        "page_ms": pages,
        "slowest_page_ms": max(pages.values()),
    }


def request_pages(runs: Path) -> dict[str, Any]:
    """Request all pages and searches, and return the figures."""
    site, client = open_dashboard(runs)
    memory = psutil.Process().memory_info().rss
    began = time.perf_counter()
    first = request_seconds(client, "/runs/run_001")
    evidence = request_seconds(client, "/runs/run_001/evidence")
    run = wait_for_index(site)
    indexed = time.perf_counter() - began
    document = site.store.paths.evidence_summary_path("run_001")
    searches = {
        word: statistics.median(request_seconds(client, "/runs/run_001/evidence", q=word) for _ in range(ROUNDS))
        for word in SEARCHES
    }
    plain = statistics.median(read_seconds(document) for _ in range(3))
    slowest = max(searches.values())
    pages = {
        name: round(1000 * statistics.median(request_seconds(client, f"/runs/run_001{path}") for _ in range(3)), 1)
        for name, path in {
            "overview": "",
            "diagnosis": "/diagnosis",
            "timeline": "/timeline",
            "last_page": "/evidence?page=1000",
            "filtered": "/evidence?type=tool_output&status=ok",
        }.items()
    }
    return {
        "events": run.head.seal.events if run.head.seal else 0,
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


def request_seconds(client: Any, path: str, **query: str) -> float:
    began = time.perf_counter()
    response = client.get(path, params=query or None)
    if response.status_code != 200:
        raise SystemExit(f"{path}: {response.status_code}")
    return time.perf_counter() - began


def read_seconds(document: Path) -> float:
    """Return the seconds to read the evidence event by event: the minimum work of a search without an index."""
    from critiqor.storage.session_document import read_sealed_events

    began = time.perf_counter()
    sum(1 for _ in read_sealed_events(document))
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
