"""1,000 runs, pruned by size and verdict: which runs are kept, whether the dry run said the same, and what is left.

    python benchmarks/retention.py [RUNS] [--json]

Every tenth run is unsafe. Three further runs are being recorded, in slots of their own, one of them as the last segment
of a recording. The rules keep about half of the size. What should be removed is computed from the sizes by a second,
plain implementation of the rule: the oldest runs first, unsafe ones only when no others are left.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import verb

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support import attached, line_of, recorded

from critiqor.model import Metadata
from critiqor.run.finalization import finalize
from critiqor.run.lifecycle import start_session
from critiqor.run.retention.pruning import size_on_disk
from critiqor.run.segments.handover import hand_over
from critiqor.run.store import Run, RunStore
from critiqor.run.view import RunView


def record_run(store: RunStore, number: int, slot: str | None = None, segment: str | None = None) -> Run:
    """Record a run without sealing it; every tenth claims a success that it did not have."""
    run = store.run(start_session(store, Metadata(), owned=False, slot=slot, segment=segment).run_id)
    fails = number % 10 == 0
    scope: dict[str, Any] = {"session_key": "agent:main:main", "agent_run_id": f"r{number}"}
    call = {**scope, "tool_name": "exec", "tool_call_id": "c1"}
    result = {"result": {"content": "2 failed, 3 passed" if fails else "5 passed", "details": {"exitCode": int(fails)}}}
    failed: dict[str, Any] = {"status": "error", "error": "exit code 1"} if fails else {}
    with run.paths.journal_path(run.id).open("wb") as journal:
        for record in (
            attached(),
            recorded(2, "agent_start", **scope),
            recorded(3, "input", payload={"role": "user", "text": f"run the tests of word{number}"}, **scope),
            recorded(4, "tool_call", payload={"arguments": {"command": "pytest"}}, **call),
            recorded(5, "tool_result", payload=result, **failed, **call),
            recorded(6, "message_end", payload={"role": "assistant", "text": "Done: all tests pass."}, **scope),
            recorded(7, "agent_end", **scope),
        ):
            journal.write(line_of(record))
    return run


def expected_removals(runs: list[Run], max_bytes: int) -> list[str]:
    sizes = {run.id: size_on_disk(run) for run in runs}
    unsafe = {run.id for run in runs if (brief := RunView(run).brief) and brief.verdict.readiness == "unsafe"}
    left, removed = sum(sizes.values()), []
    ordered = [run.id for run in runs]
    newest = ordered[-1]
    for run_id in [*(each for each in ordered if each not in unsafe), *(each for each in ordered if each in unsafe)]:
        if left <= max_bytes:
            break
        if run_id != newest:
            removed.append(run_id)
            left -= sizes[run_id]
    return removed


def prune(store: RunStore, *options: str) -> list[str]:
    command = [verb.CRITIQOR, "prune", "--runs-dir", str(store.runs_dir), "--json", *options]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return [each["run_id"] for each in json.loads(answer.stdout)["data"]["removed"]]


def found_runs(store: RunStore, word: str) -> list[str]:
    command = [verb.CRITIQOR, "search", word, "--runs-dir", str(store.runs_dir), "--json"]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    return sorted({each["run_id"] for each in json.loads(answer.stdout)["data"]})


def main() -> None:
    number = int(sys.argv[1]) if sys.argv[1:2] and sys.argv[1].isdigit() else 1_000
    with tempfile.TemporaryDirectory() as name:
        store = RunStore(name)
        for count in range(number):
            finalize(record_run(store, count), store)
        sealed = store.runs()
        active = [record_run(store, 1), record_run(store, 2, "second"), record_run(store, 3, "third", "24h")]
        going_on = hand_over(active[2], lambda run: {})
        assert going_on is not None
        found_runs(store, "word5")  # makes the index
        unsafe = sum(brief.verdict.readiness == "unsafe" for run in sealed if (brief := RunView(run).brief) is not None)
        limit = sum(map(size_on_disk, sealed)) // 2
        option = ("--max-size", f"{limit // 1000}KB")
        wanted = expected_removals(sealed, limit // 1000 * 1000)
        said = prune(store, *option, "--dry-run")
        began = time.perf_counter()
        removed = prune(store, *option)
        seconds = time.perf_counter() - began
        left = {run.id for run in store.runs()}
        kept = {run.id for run in [*sealed, *active, going_on.run]} - set(wanted)
        hits = found_runs(store, "word5")
        report = {
            "runs": number,
            "removed": len(removed),
            "seconds": round(seconds, 1),
            "wrongly_removed_or_kept": len(set(wanted) ^ set(removed)) + len(left ^ kept),
            "said_otherwise_by_dry_run": len(set(said) ^ set(removed)),
            "active_runs_touched": sum(run.id not in left for run in [*active, going_on.run]),
            "folders_left_behind": sum(store.paths.run_folder(run_id).exists() for run_id in removed),
            "removed_runs_in_the_index": len(set(hits) - left),
        }
    if "--json" in sys.argv:
        print(json.dumps(report))
        return
    print(f"{number} runs, {unsafe} of them unsafe, {len(removed)} removed in {seconds:.1f} s")
    for key in list(report)[3:]:
        print(f"{key.replace('_', ' ')}: {report[key]} (0)")


if __name__ == "__main__":
    main()
