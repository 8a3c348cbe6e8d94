"""Several recordings at once in one runs folder: started, cut, finalized, aborted and killed at random.

    python benchmarks/slots.py [--rounds N] [--seed N] [--json]

Each of five threads has a slot and a real recorder process of its own (`slots.mjs`). A round is one random
operation; agent runs are often under way while another operation is made. Every agent run that a recorder has reported
as done before its recording was ended must be in exactly one run, complete. At the end all slots must be free, and no
run may be left that is neither sealed nor aborted.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

from critiqor.model import Metadata
from critiqor.run.finalization import finalize
from critiqor.run.lifecycle import abort, start_session
from critiqor.run.segments.handover import hand_over
from critiqor.run.store import Run, RunStore

SLOTS = (None, "one", "two", "three", "four")
OPERATIONS = ("turn", "turn", "turn", "cut", "cut", "cut during a turn", "finalize", "abort", "kill")
RECORDER = Path(__file__).with_name("slots.mjs")


class Recording:
    """The recordings of one slot, one after the other."""

    def __init__(self, store: RunStore, slot: str | None, seed: int, rounds: int) -> None:
        self._store = store
        self._slot = slot
        self._chance = random.Random(seed)
        self._rounds = rounds
        self._recorder: subprocess.Popen[str] | None = None
        self.done: list[str] = []
        """Agent runs that were recorded to their end."""
        self.operations: Counter[str] = Counter()
        self.problem: BaseException | None = None

    def play(self) -> None:
        try:
            for _ in range(self._rounds):
                self._round()
            if self._recorder is not None:
                self._end("finalize")
        except BaseException as error:
            self.problem = error
            raise

    def _round(self) -> None:
        if self._recorder is None:
            self._start()
            return
        operation = self._chance.choice(OPERATIONS)
        self.operations[operation] += 1
        if operation == "turn":
            self._turn()
        elif operation == "cut":
            self._cut()
        elif operation == "cut during a turn":
            self._ask(milliseconds=1500)
            self._cut()
            self._answer()
        else:
            self._end(operation)

    def _start(self) -> None:
        self.operations["start"] += 1
        record = start_session(self._store, Metadata(), slot=self._slot, segment="24h")
        paths = self._store.paths
        named = {
            "CRITIQOR_RUN_ID": record.run_id,
            "CRITIQOR_RUNS_DIR": str(paths.runs_dir),
            "CRITIQOR_SLOT_FILE": str(paths.slot_path(self._slot)),
        }
        pipe = subprocess.PIPE
        environment = {**os.environ, **named}
        self._recorder = subprocess.Popen(["node", str(RECORDER)], stdin=pipe, stdout=pipe, text=True, env=environment)
        self._turn()

    def _current(self) -> Run:
        run = self._store.active(self._slot)
        assert run is not None
        return run

    def _cut(self) -> None:
        assert hand_over(self._current(), lambda run: {}) is not None

    def _ask(self, milliseconds: int) -> None:
        assert self._recorder is not None and self._recorder.stdin is not None
        self._recorder.stdin.write(f"{milliseconds}\n")
        self._recorder.stdin.flush()

    def _answer(self) -> None:
        assert self._recorder is not None and self._recorder.stdout is not None
        self.done.append(self._recorder.stdout.readline().strip())

    def _turn(self) -> None:
        self._ask(milliseconds=self._chance.choice((0, 5, 300)))
        self._answer()

    def _end(self, how: str) -> None:
        """End a recording: of one that is killed, the recorder goes first."""
        assert self._recorder is not None
        run = self._current()
        if how == "kill":
            self._recorder.kill()
        if how == "abort":
            abort(run, self._store, "at random")
            self._finalize_before(run)
        else:
            finalize(None, self._store, slot=self._slot)
        self._recorder.kill()
        self._recorder.communicate()
        self._recorder = None

    def _finalize_before(self, run: Run) -> None:
        """Finalize the segments before an aborted one, as a monitor or a guard does."""
        from critiqor.run.segments.handover import unfinished_before

        for earlier in unfinished_before(run):
            finalize(earlier, self._store)


def count_facts(store: RunStore) -> tuple[dict[str, Counter[str]], dict[str, set[str]]]:
    """Return the events of each agent run by type, and the runs that they are in."""
    facts: dict[str, Counter[str]] = {}
    homes: dict[str, set[str]] = {}
    for run in store.runs():
        for event in run.events():
            if event.agent_run_id is not None:
                facts.setdefault(event.agent_run_id, Counter())[event.event_type] += 1
                homes.setdefault(event.agent_run_id, set()).add(run.id)
    return facts, homes


def main() -> None:
    rounds = int(sys.argv[sys.argv.index("--rounds") + 1]) if "--rounds" in sys.argv else 200
    seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 1
    with tempfile.TemporaryDirectory() as name:
        store = RunStore(name)
        recordings = [Recording(store, slot, seed + n, rounds // len(SLOTS)) for n, slot in enumerate(SLOTS)]
        threads = [threading.Thread(target=recording.play) for recording in recordings]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        facts, homes = count_facts(store)
        done = [agent_run for recording in recordings for agent_run in recording.done]
        complete = max(
            Counter(tuple(sorted(facts[each].items())) for each in done if each in facts).items(),
            key=lambda item: item[1],
        )[0]
        lost = sum(max(0, count - facts.get(each, Counter())[kind]) for each in done for kind, count in complete)
        doubled = sum(max(0, facts.get(each, Counter())[kind] - count) for each in done for kind, count in complete)
        statuses = Counter(run.head().status for run in store.runs())
        wedged = len(store.all_active()) + sum(statuses[each] for each in ("IDLE", "MONITORING", "FINALIZING"))
        report = {
            "rounds": rounds,
            "runs": sum(statuses.values()),
            "agent_runs": len(done),
            "operations": dict(sum((recording.operations for recording in recordings), Counter())),
            "failed_threads": sum(recording.problem is not None for recording in recordings),
            "events_lost": lost,
            "events_twice": doubled,
            "agent_runs_in_two_runs": sum(len(homes.get(each, ())) > 1 for each in done),
            "wedged_slots": wedged,
        }
    if "--json" in sys.argv:
        print(json.dumps(report))
        return
    print(f"{rounds} rounds, {report['runs']} runs, {len(done)} agent runs: {report['operations']}")
    for key in ("failed_threads", "events_lost", "events_twice", "agent_runs_in_two_runs", "wedged_slots"):
        print(f"{key.replace('_', ' ')}: {report[key]} (0)")


if __name__ == "__main__":
    main()
