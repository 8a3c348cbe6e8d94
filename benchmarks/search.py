"""Cost of the search in the content of all runs: index, searches, and how soon a new run is found.

    python benchmarks/search.py [RUNS] [EVENTS] [--json]

Every run has the given number of events of a busy gateway.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from generator import Gateway, write_run

from critiqor.run.store import RunStore
from critiqor.search.index import FILE_NAME, SearchIndex
from critiqor.session import complete_session

RUNS, EVENTS, ROUNDS = 2000, 500, 5
SEARCHES = ("invoice_217", "discount", "pytest src/order_17.py", "nothing_of_that_name", "注文", "the")
GOALS = {"slowest_search_ms": 300.0, "index_to_evidence": 0.4, "new_run_found_after_s": 5.0}


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    runs, events = [*numbers, *(RUNS, EVENTS)[len(numbers) :]][:2]
    with tempfile.TemporaryDirectory() as name:
        figures = measure(Path(name) / "runs", runs, events)
    if "--json" in sys.argv:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        goal = f"  (goal: at most {GOALS[name]:g})" if name in GOALS else ""
        print(f"{name:24} {value}{goal}")


def measure(folder: Path, runs: int, events: int) -> dict[str, Any]:
    """Make runs, index them, search them, and add another one."""
    for number in range(runs):
        make_run(folder, events, number)
    store = RunStore(folder)
    index = SearchIndex(store)
    began = time.perf_counter()
    index.update()
    indexed = time.perf_counter() - began
    searches = {word: statistics.median(seconds_of(index, word) for _ in range(ROUNDS)) for word in SEARCHES}
    evidence = sum(run.evidence_path.stat().st_size for run in store.runs())
    size = (folder / FILE_NAME).stat().st_size
    make_run(folder, events, runs)
    began = time.perf_counter()
    index.update()
    added = time.perf_counter() - began
    return {
        "runs": runs,
        "events": runs * events,
        "evidence_mb": round(evidence / (1 << 20), 1),
        "index_mb": round(size / (1 << 20), 1),
        "index_to_evidence": round(size / evidence, 3),
        "index_made_after_s": round(indexed, 1),
        "search_ms": {word: round(1000 * seconds, 1) for word, seconds in searches.items()},
        "slowest_search_ms": round(1000 * max(searches.values()), 1),
        "new_run_found_after_s": round(added, 2),
    }


def make_run(folder: Path, events: int, seed: int) -> None:
    """Make a sealed run that differs from the others."""

    class Seeded(Gateway):
        def __init__(self) -> None:
            super().__init__(seed + 1)

    write_run(folder, events, gateway=Seeded)
    complete_session(runs_dir=folder)


def seconds_of(index: SearchIndex, word: str) -> float:
    began = time.perf_counter()
    index.find(word)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
