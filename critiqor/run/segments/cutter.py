"""Cuts a recording while it goes on: decides when, passes it on, and has earlier segments sealed by another process.

The process that cuts is a monitor or a guard, which lives as long as the recording. Sealing and diagnosing take memory
in proportion to a segment, so each is done by a `critiqor finalize` of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from critiqor.errors import CritiqorError
from critiqor.model import RunHead, ms_from_iso, now_ms
from critiqor.model.event import is_agent_activity
from critiqor.run.segments.handover import (
    Handover,
    Prepare,
    hand_over,
    have_recorders_left,
    passed_on,
    unfinished_before,
)
from critiqor.run.segments.rule import SegmentRule, parse_segment
from critiqor.run.store import Run
from critiqor.storage import open_regular_file

RETRY_SECONDS = 30.0
"""Time between two attempts to cut a recording or to finalize a segment, if one has failed."""
WAIT_SECONDS = 120.0
"""How long the end of a recording waits until its segments are sealed."""
_NICENESS = 10
_MAX_NICENESS = 19

Say = Callable[[str], None]


class SegmentCutter:
    """Cuts one recording, from the run that is recorded now on."""

    def __init__(self, run: Run, say: Say, arguments: Sequence[str] = ()) -> None:
        """`arguments` are options for `critiqor finalize`."""
        self.run = run
        self._say = say
        self._arguments = arguments
        self._rule = parse_segment(run.head().segment)
        self._left = unfinished_before(run)
        """Earlier segments that are not sealed, the oldest first."""
        self._process: subprocess.Popen[bytes] | None = None
        self._retry_at = 0.0

    @property
    def left(self) -> list[Run]:
        """Earlier segments that are not sealed yet, the oldest first."""
        return list(self._left)

    def is_due(self) -> bool:
        """Return whether the current segment is to be cut now."""
        return self._rule is not None and _is_due(self.run, self.run.head(), self._rule)

    def cut(self, prepare: Prepare) -> Handover | None:
        """Let the recording go on in a new run; None if it has ended."""
        try:
            done = hand_over(self.run, prepare) or passed_on(self.run)
        except (CritiqorError, OSError):
            if (done := passed_on(self.run)) is None:
                raise
        if done is not None:
            self._left.append(self.run)
            self._say(f"{self.run.id} has ended; the recording goes on in {done.run.id}")
            self.run = done.run
        return done

    def step(self) -> list[Run]:
        """Seal earlier segments that no recorder writes into any more. Return those that are sealed by now."""
        if self._process is not None and self._process.poll() is None:
            return []
        sealed = [run for run in self._left if _is_sealed(run)]
        self._left = [run for run in self._left if run not in sealed]
        if self._process is not None and not sealed:
            self._retry_later(self._left[0])
        self._process = None
        # One after the other, because what a segment carries over is needed for the next one.
        if self._left and time.monotonic() >= self._retry_at and have_recorders_left(self._left[0]):
            self._start_finalizing(self._left[0])
        return sealed

    def conclude(self) -> list[Run]:
        """Wait until all earlier segments are sealed, once the recorders have ended. Return those that were sealed."""
        until = time.monotonic() + WAIT_SECONDS
        sealed: list[Run] = []
        while self._left and time.monotonic() < until:
            sealed += self.step()
            time.sleep(0.1)
        return sealed

    def _retry_later(self, run: Run) -> None:
        self._retry_at = time.monotonic() + RETRY_SECONDS
        self._say(f"{run.id} could not be finalized: critiqor finalize {run.id}")

    def _start_finalizing(self, run: Run) -> None:
        # It must not look like a process of the recorded tree.
        environment = {name: value for name, value in os.environ.items() if name != "CRITIQOR_RUN_ID"}
        verb = ("finalize", run.id, "--runs-dir", str(run.paths.runs_dir), "--no-dashboard")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "critiqor", *verb, *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the agent
            )
        except OSError:  # there is no memory, or no process left
            self._retry_later(run)
            return
        with suppress(OSError):
            nice = os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS
            os.setpriority(os.PRIO_PROCESS, self._process.pid, min(nice, _MAX_NICENESS))


def _is_sealed(run: Run) -> bool:
    """Return whether nothing is left to do for a segment: it is sealed, aborted, or was removed."""
    try:
        return run.head().status not in ("MONITORING", "FINALIZING")
    except CritiqorError:
        return True
    except OSError:
        return False


def _is_due(run: Run, head: RunHead, rule: SegmentRule) -> bool:
    if head.status != "MONITORING":
        return False
    journal = run.paths.journal_path(run.id)
    try:
        found = journal.stat()
    except OSError:
        return False
    now = now_ms()
    began = ms_from_iso(head.timestamps.started_at or head.timestamps.created_at) or now
    is_due = rule.is_due(age_ms=now - began, size=found.st_size, idle_ms=now - found.st_mtime_ns // 1_000_000)
    return is_due and _has_agent_records(run)


def _has_agent_records(run: Run) -> bool:
    """Return whether an agent did anything: a gateway that nobody uses makes no segments."""
    import msgspec

    class Kind(msgspec.Struct):
        event_type: str

    with open_regular_file(run.paths.journal_path(run.id), buffering=1 << 16) as lines:
        for line in lines:
            try:
                if is_agent_activity(msgspec.json.decode(line, type=Kind).event_type):
                    return True
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
    return False
