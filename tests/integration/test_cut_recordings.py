"""A recording is cut into segments while OpenClaw goes on: nothing is lost or doubled, each is diagnosed alone."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support import (
    PATIENCE_SECONDS,
    STANDIN,
    Runs,
    critiqor_command,
    environment,
    kill_tree,
    let_time_pass,
    run_critiqor,
    wait_until,
)

from critiqor.recording.attach import AttachOptions, attach_openclaw
from critiqor.run.store import Run, RunStore


class Gateway:
    """A stand-in gateway, and what records and cuts it."""

    def __init__(self, folder: Path, runs: Runs) -> None:
        self.runs = runs
        self.store = RunStore(runs.folder)
        self.home = folder / "home"
        (self.home / ".openclaw").mkdir(parents=True)
        (self.home / ".openclaw" / "openclaw.json").write_text("{}")
        self.environment = environment(self.home)
        self.started: list[subprocess.Popen[str]] = []

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        errors = (self.home / f"{len(self.started)}.err").open("w")
        process = subprocess.Popen(
            command, env=self.environment, cwd=self.home, stdin=pipe, stdout=pipe, stderr=errors, text=True
        )
        self.started.append(process)
        return process

    def monitor(self, *options: str, work: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        launch = (
            "monitor",
            "openclaw",
            "--runs-dir",
            str(self.runs.folder),
            "--openclaw-command",
            str(STANDIN),
            *options,
        )
        process = self.start(critiqor_command(*launch, "--", "gateway", "run", "--slow", "150", *work))
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        return process

    def guard(self) -> subprocess.Popen[str]:
        return self.start(critiqor_command("guard", "--runs-dir", self.runs.folder, "--openclaw-command", STANDIN))

    def turn(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("turn\n")
        process.stdin.flush()
        assert "Done" in process.stdout.readline()

    def turns_until(self, process: subprocess.Popen[str], segments: int) -> int:
        """Play turns until there are so many runs. Return the number of turns."""
        turns = 0
        while len(self.store.runs()) < segments:
            self.turn(process)
            turns += 1
        return turns

    def end(self) -> None:
        for process in self.started:
            kill_tree(process.pid)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
        self.started = []


@pytest.fixture
def gateway(tmp_path: Path, runs: Runs) -> Iterator[Gateway]:
    made = Gateway(tmp_path, runs)
    yield made
    made.end()


def events_of(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run.evidence_path.read_bytes())["events"]
    return [event for event in found if event["source_layer"] != "supervisor"]


def check_whole(segments: list[Run], turns: int) -> None:
    """Check that every event of each turn is in one segment, once, and that every segment is sound."""
    per_turn: dict[str, Counter[str]] = {}
    homes: dict[str, set[str]] = {}
    ids: Counter[str] = Counter()
    for before, run in zip([None, *segments], segments, strict=False):
        head = run.head()
        assert head.continues == (None if before is None else before.id)
        assert run.verify().intact, run.verify().problems
        coverage = run.coverage()
        assert coverage.recorder_attached and not coverage.missing_records and not coverage.damaged_records
        assert not coverage.calls_without_results and not coverage.results_without_calls
        assert coverage.witness is None or not (coverage.witness.is_tampered or coverage.witness.lost), coverage.witness
        for event in events_of(run):
            ids[event["event_id"]] += 1
            if (turn := event["agent_run_id"]) is not None:
                per_turn.setdefault(turn, Counter())[event["event_type"]] += 1
                homes.setdefault(turn, set()).add(run.id)
    assert set(ids.values()) == {1}
    assert len(per_turn) == turns
    assert all(len(each) == 1 for each in homes.values()), homes
    kinds = [dict(each) for each in per_turn.values()]
    assert all(each == kinds[0] for each in kinds), kinds


def test_a_monitored_gateway_is_cut_while_it_works_and_every_event_is_recorded_once(gateway: Gateway) -> None:
    monitor = gateway.monitor("--segment", "2KB")
    turns = gateway.turns_until(monitor, 4)
    assert monitor.stdin is not None
    monitor.stdin.close()
    assert monitor.wait(PATIENCE_SECONDS) == 0
    segments = gateway.store.runs()
    assert [run.head().status for run in segments] == [*["COMPLETED"] * (len(segments) - 1), "MONITORING"]
    gateway.runs.finalize()
    check_whole(segments, turns)
    assert gateway.store.all_active() == []
    witnesses = [run.coverage().witness for run in segments]
    assert all(witness is not None and not witness.is_missing for witness in witnesses)


def test_a_recording_goes_on_in_segments_after_its_monitor_was_killed(gateway: Gateway) -> None:
    monitor = gateway.monitor("--segment", "2KB")
    turns = gateway.turns_until(monitor, 2)
    monitor.send_signal(signal.SIGKILL)
    monitor.wait()
    gateway.guard()
    turns += gateway.turns_until(monitor, 4)
    guard = gateway.started[-1]
    guard.send_signal(signal.SIGKILL)
    guard.wait()
    gateway.turn(monitor)
    gateway.guard()
    turns += 1 + gateway.turns_until(monitor, 6)
    gateway.end()
    gateway.runs.finalize()
    segments = gateway.store.runs()
    assert {run.head().status for run in segments} == {"COMPLETED"}
    check_whole(segments, turns)


def test_an_attached_gateway_is_cut_by_the_guard_in_its_own_slot(gateway: Gateway) -> None:
    options = AttachOptions(
        runs_dir=gateway.runs.folder, openclaw_command=str(STANDIN), timeout=0.0, slot="work", segment="2KB"
    )
    attach_openclaw(options, say=lambda text: None, environment=gateway.environment)
    process = gateway.start([str(STANDIN), "gateway", "run", "--slow", "150"])
    assert process.stdout is not None and "ready" in process.stdout.readline()
    gateway.guard()
    turns = gateway.turns_until(process, 3)
    assert not gateway.runs.paths.active_path.exists()
    again = attach_openclaw(options, say=lambda text: None, environment=gateway.environment)
    assert again.run_id == gateway.store.runs()[-1].id
    answer = run_critiqor(
        "finalize", "--slot", "work", "--no-dashboard", "--runs-dir", gateway.runs.folder, home=gateway.home
    )
    assert answer.returncode == 0, answer.stderr
    check_whole(gateway.store.runs(), turns)
    assert gateway.store.all_active() == []


def test_a_segment_has_the_same_diagnosis_when_its_predecessors_are_removed(gateway: Gateway) -> None:
    monitor = gateway.monitor("--segment", "2KB", "--no-live")
    gateway.turns_until(monitor, 3)
    assert monitor.stdin is not None
    monitor.stdin.close()
    monitor.wait(PATIENCE_SECONDS)
    gateway.runs.finalize()
    *earlier, last = gateway.store.runs()
    assert last.coverage().carried is not None
    for run in earlier:
        shutil.rmtree(run.folder)
        run.record_path.unlink()
    assert last.verify(rediagnose=True).intact
    carried = last.paths.carried_path(last.id)
    carried.write_bytes(carried.read_bytes().replace(b"npm test", b"npm best"))
    assert not last.verify().intact


def test_a_recorder_that_does_not_leave_a_segment_delays_its_seal(gateway: Gateway) -> None:
    monitor = gateway.monitor("--segment", "2KB")
    gateway.turn(monitor)
    import psutil

    [child] = [each for each in psutil.Process(monitor.pid).children() if "node" in each.name()]
    child.suspend()
    first = gateway.store.runs()[0]
    wait_until(lambda: first.head().status == "FINALIZING")
    let_time_pass()
    assert first.head().cut is None
    child.resume()
    wait_until(lambda: first.head().status == "COMPLETED")
    gateway.turn(monitor)
    assert monitor.stdin is not None
    monitor.stdin.close()
    monitor.wait(PATIENCE_SECONDS)
    gateway.runs.finalize()
    check_whole(gateway.store.runs(), 2)
