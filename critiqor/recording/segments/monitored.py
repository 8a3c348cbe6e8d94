"""The segments of a monitored recording: a thread that cuts it when it is time, and what belongs to each segment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from critiqor.errors import CritiqorError
from critiqor.recording.live_worker import LiveWorker
from critiqor.recording.run_witness import RunWitness
from critiqor.run.segments.cutter import RETRY_SECONDS, SegmentCutter
from critiqor.run.store import Run
from critiqor.storage.atomic import write_json

POLL_SECONDS = 1.0
"""Time between two looks at the recording."""


class SegmentParts:
    """What observes one segment: its witness and its live diagnosis, if it has one."""

    def __init__(self, run: Run, witness: RunWitness) -> None:
        self.run = run
        self.witness = witness
        self.live: LiveWorker | None = None

    def end(self, say: Callable[[str], None]) -> None:
        """Stop observing: the segment is sealed. Say what became of its spans, if they are sent to a collector."""
        self.witness.close()
        if self.live is not None and (sent := self.live.stop()) is not None:
            say(sent)


class MonitoredSegments:
    """Cuts the recording of a monitor. `go_on` is called with the parts of each new segment, and returns the old ones.

    Both happen in a thread of its own; `is_of_tree` says whether a process belongs to the launched one.
    """

    def __init__(
        self,
        cutter: SegmentCutter,
        is_of_tree: Callable[[int], bool],
        go_on: Callable[[SegmentParts], SegmentParts],
        say: Callable[[str], None],
        configuration: Path | None = None,
    ) -> None:
        """`configuration` is the file by which OpenClaw loads the recorder."""
        self._cutter = cutter
        self._configuration = configuration
        self._is_of_tree = is_of_tree
        self._go_on = go_on
        self._say = say
        self.lock = threading.Lock()
        """Held while the recording is cut, and while the monitor writes a lifecycle event."""
        self._next: SegmentParts | None = None
        self._left: dict[Run, SegmentParts] = {}
        self._retry_at = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True, name="critiqor-segments")
        self._thread.start()

    def stop(self) -> None:
        """Cut no more."""
        self._stopped.set()
        self._thread.join()

    def conclude(self) -> None:
        """Wait until all earlier segments are sealed; the recorders have ended."""
        try:
            for run in self._cutter.conclude():
                self._end(run)
        except (CritiqorError, OSError) as error:  # the last segment must not be lost because of the ones before
            self._say(f"earlier segments could not be sealed: {error}")
        for parts in self._left.values():
            parts.end(self._say)

    def _follow(self) -> None:
        while not self._stopped.wait(POLL_SECONDS):
            try:
                for run in self._cutter.step():
                    self._end(run)
                if time.monotonic() >= self._retry_at and self._cutter.is_due():
                    with self.lock:
                        self._cut()
            except (CritiqorError, OSError, RuntimeError) as error:  # the last one: no thread can be started
                self._retry_at = time.monotonic() + RETRY_SECONDS
                self._say(f"the recording could not be cut: {error}")

    def _cut(self) -> None:
        done = None
        try:
            done = self._cutter.cut(self._prepare)
        finally:
            parts, self._next = self._next, None
            if done is None and parts is not None:
                parts.witness.discard()
        if done is None:
            return
        # An earlier attempt may have passed the recording on; what it has prepared is gone, so there is no witness.
        parts = parts or SegmentParts(done.run, RunWitness(done.run))
        parts.witness.add_lifecycle_event(done.started)
        left = self._go_on(parts)
        self._left[left.run] = left
        left.run.paths.guard_path(left.run.id).unlink(missing_ok=True)

    def _prepare(self, run: Run) -> Mapping[str, Any]:
        """Start the witness of a new segment, before a recorder writes into it."""
        self._next = SegmentParts(run, RunWitness(run))
        problem = self._next.witness.start(self._is_of_tree, self._configuration)
        if problem is not None:
            self._say(f"records of {run.id} that are lost or altered will not be noticed: {problem}")
        write_json(run.paths.guard_path(run.id), self._next.witness.facts)
        return self._next.witness.facts

    def _end(self, run: Run) -> None:
        parts = self._left.pop(run, None)
        if parts is not None:
            parts.end(self._say)
