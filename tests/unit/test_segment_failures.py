"""What becomes of a recording in segments if a cut, or the sealing of earlier segments, fails."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Runs, attached, recorded, wait_until

from critiqor.errors import CritiqorError
from critiqor.model import EventType, Metadata, SessionRecord
from critiqor.recording import monitor
from critiqor.recording.launch import MonitorOptions
from critiqor.recording.run_witness import RunWitness
from critiqor.recording.segments import monitored
from critiqor.recording.segments.monitored import MonitoredSegments, SegmentParts
from critiqor.run import tail
from critiqor.run.active_slot import write_slot
from critiqor.run.finalization import finalize
from critiqor.run.lifecycle import start_session
from critiqor.run.segments import cutter as cutting
from critiqor.run.segments import handover
from critiqor.run.segments.cutter import SegmentCutter
from critiqor.run.segments.handover import successor_of
from critiqor.run.store import Run, RunStore
from critiqor.storage import SessionPaths
from critiqor.storage import run_record as records


def start(runs: Runs) -> Run:
    store = RunStore(runs.folder)
    run = store.run(start_session(store, Metadata(), owned=False, segment="1KB").run_id)
    runs.write(run.id, attached(), *(recorded(number) for number in range(2, 6)))
    return run


def full_disk(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def fail_to_save(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the record of a run not be written once another one continues it."""
    save = records.save

    def save_others(paths: SessionPaths, record: SessionRecord) -> None:
        if record.run_id == run.id:
            full_disk()
        save(paths, record)

    monkeypatch.setattr(records, "save", save_others)


class Monitor:
    """The side of the monitor: which run it records, and what it was sent."""

    def __init__(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts = SegmentParts(run, RunWitness(run))
        self.said: list[str] = []
        self.witnesses: list[RunWitness] = []
        monkeypatch.setattr(monitored, "POLL_SECONDS", 0.01)
        monkeypatch.setattr(monitored, "RunWitness", self._witness)
        self.cutter = SegmentCutter(run, self.said.append)

    def _witness(self, run: Run) -> RunWitness:
        self.witnesses.append(RunWitness(run))
        return self.witnesses[-1]

    def go_on(self, parts: SegmentParts) -> SegmentParts:
        left, self.parts = self.parts, parts
        return left

    def follow(self, until: Callable[[], bool]) -> MonitoredSegments:
        segments = MonitoredSegments(self.cutter, lambda pid: True, self.go_on, self.said.append)
        try:
            wait_until(until)
        finally:
            segments.stop()
        return segments


def test_a_cut_that_fails_leaves_no_witness_and_is_not_repeated_at_once(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(runs)
    monkeypatch.setattr(handover, "write_slot", full_disk)
    cuts: list[Run] = []
    is_due = SegmentCutter.is_due

    def counted(self: SegmentCutter) -> bool:
        cuts.append(self.run)
        return is_due(self)

    monkeypatch.setattr(SegmentCutter, "is_due", counted)
    side = Monitor(run, monkeypatch)
    side.follow(lambda: any("could not be cut" in text for text in side.said))
    assert [witness.listener for witness in side.witnesses] == [None]
    assert side.parts.run == run
    assert len(cuts) == 1
    monkeypatch.setattr(handover, "write_slot", write_slot)
    side.follow(lambda: side.parts.run != run)
    assert RunStore(runs.folder).active() == side.parts.run
    side.witnesses[-1].discard()


def test_a_recording_whose_slot_was_passed_on_goes_on_there_although_the_cut_failed(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(runs)
    side = Monitor(run, monkeypatch)
    with monkeypatch.context() as patch:
        fail_to_save(run, patch)
        side.follow(lambda: side.parts.run != run)
    following = successor_of(run)
    assert following is not None and side.parts.run == side.cutter.run == following
    assert RunStore(runs.folder).active() == following
    assert side.cutter.left == [run]
    assert runs.notes(following.id, EventType.SEGMENT_STARTED)[0]["payload"]["continues"] == run.id
    side.parts.witness.discard()
    finalize(None, RunStore(runs.folder))
    assert {each.head().status for each in (run, following)} == {"COMPLETED"}


def test_a_cutter_finds_the_run_to_which_an_earlier_attempt_has_passed_the_recording_on(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(runs)
    cutter = SegmentCutter(run, lambda text: None)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(handover, "leave_segment", interrupted)
        cutter.cut(lambda new: {})
    done = cutter.cut(lambda new: {})
    assert done is not None and done.run == cutter.run == successor_of(run)


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_earlier_segments_that_cannot_be_sealed_do_not_end_the_monitor(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(runs)
    side = Monitor(run, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", full_disk)
        segments = side.follow(lambda: any("could not be finalized" in text for text in side.said))
        patch.setattr(cutting, "WAIT_SECONDS", 0.3)
        segments.conclude()
    assert any(f"critiqor finalize {run.id}" in text for text in side.said)
    assert side.cutter.left == [run]
    side.parts.witness.discard()


def test_earlier_segments_are_sealed_without_the_program_nice(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = start(runs)
    cutter = SegmentCutter(run, lambda text: None)
    assert cutter.cut(lambda new: {}) is not None
    monkeypatch.setenv("PATH", str(tmp_path))
    before = os.getpriority(os.PRIO_PROCESS, 0)
    assert cutter.conclude() == [run]
    assert run.head().status == "COMPLETED"
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_a_left_segment_is_followed_until_its_recorders_have_left_and_not_until_somebody_seals_it(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "LOOK_SECONDS", 0.0)
    run = start(runs)
    closing = runs.paths.closing_path(run.id, "w1")
    closing.write_text(f'{{"writer":"w1","pid":{os.getpid()}}}'.ljust(511) + "\n")
    follower = tail.Follower(run)
    assert SegmentCutter(run, lambda text: None).cut(lambda new: {}) is not None
    assert [follower.update().over for _ in range(3)] == [None] * 3
    runs.write(run.id, recorded(7))
    closing.write_text(f'{{"writer":"w1","pid":{os.getpid()},"produced":6,"lost":0}}'.ljust(511) + "\n")
    update = follower.update()
    assert (update.over, len(update.events)) == ("it waits to be sealed", 1)
    finalize(run, RunStore(runs.folder))
    assert follower.update().over == "it is COMPLETED"


def test_closing_records_of_a_left_segment_are_not_read_at_each_update(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Run] = []

    def count(run: Run) -> bool:
        looks.append(run)
        return False

    monkeypatch.setattr(tail, "have_recorders_left", count)
    monkeypatch.setattr(tail, "LOOK_SECONDS", 3600.0)
    run = start(runs)
    follower = tail.Follower(run)
    assert SegmentCutter(run, lambda text: None).cut(lambda new: {}) is not None
    for _ in range(10):
        assert follower.update().over is None
    assert looks == []


def test_an_error_of_the_monitor_names_the_current_segment(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Run("run_007", runs.paths)

    def lose_control(self: monitor._MonitoredRun) -> None:
        self._run = other
        raise OSError("no such process")

    monkeypatch.setattr(monitor, "prepare_launch", lambda *_: None)
    for name in ("launch", "give_up", "release"):
        monkeypatch.setattr(monitor._MonitoredRun, name, lambda *_: None)
    monkeypatch.setattr(monitor._MonitoredRun, "supervise", lose_control)
    with pytest.raises(CritiqorError) as raised:
        monitor.monitor_openclaw(MonitorOptions(runs_dir=runs.folder, segment="1KB"), say=lambda text: None)
    assert raised.value.fix == "critiqor diagnose run_007"
