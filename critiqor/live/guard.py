"""The guard: one process that diagnoses attached recordings of runs folders, acts on limits, and is their witness.

A run that `critiqor monitor` records is diagnosed by its monitor. A recording of an OpenClaw that runs as a service has
no such process: the guard follows the run that is being recorded in each folder, and the next one after it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from critiqor.errors import CritiqorError
from critiqor.live.announcements import Announcement
from critiqor.live.limits import is_recent
from critiqor.live.messages import StreamTarget
from critiqor.live.recording import LiveRecording
from critiqor.live.verdict import STOP_REQUESTED, LiveLimit, limit_facts, stop_result
from critiqor.policy.policy_file import Policy
from critiqor.run.lifecycle import append_lifecycle_event
from critiqor.run.owner import is_owner_alive
from critiqor.run.segments.cutter import SegmentCutter
from critiqor.run.store import Run, RunStore

if TYPE_CHECKING:
    from critiqor.live.span_stream import SpanStream

SCAN_SECONDS = 1.0
"""How often a folder is checked for a new recording."""
MAX_FAILURES = 20
"""Failures in a row after which a recording is not followed any more."""

Announce = Callable[[Run, Announcement | LiveLimit], None]
Abort = Callable[[str | None, str | None], str | None]
"""Aborts an agent run, given by session key and id; returns why it failed."""
Say = Callable[[str], None]


class GuardWitness(Protocol):
    """Counts what the recorders of a run write, while the guard follows it."""

    problem: CritiqorError | OSError | None
    """Why nothing is counted."""

    def append(self, event: Mapping[str, Any]) -> None:
        """Write a lifecycle event into the run record."""

    def end(self) -> None:
        """Leave a statement about what was counted."""


class Guard:
    """Follows the recordings of runs folders."""

    def __init__(
        self,
        stores: Sequence[RunStore],
        policy: Policy | None,
        *,
        announce: Announce,
        abort: Abort,
        say: Say,
        witness: Callable[[Run], GuardWitness],
        stream: StreamTarget | None = None,
        finalize_options: Sequence[str] = (),
    ) -> None:
        """`finalize_options` are options for `critiqor finalize`, which seals the segments of recordings."""
        self._stores = stores
        self._policy = policy
        self._announce = announce
        self._abort = abort
        self._say = say
        self._witness = witness
        self._witnesses: dict[Run, GuardWitness] = {}
        self._live: dict[Run, LiveRecording] = {}
        self._failures: dict[Run, int] = {}
        self._left: set[Run] = set()
        """Runs that are not followed any more."""
        self._next_scan = 0.0
        self._target = stream
        self._streams: dict[Run, SpanStream] = {}
        """Spans on their way to a collector, also of runs that are not followed any more."""
        self._held_up: set[Run] = set()
        """Runs whose spans the collector does not accept at the moment."""
        if stream is not None:
            from critiqor.live.span_stream import resume_streams

            self._streams = {each.run: each for store in stores for each in resume_streams(store, stream)}
        self._finalize_options = finalize_options
        self._cutters: dict[str, SegmentCutter] = {}
        """Recordings that are cut, by folder and first run."""

    @property
    def followed(self) -> list[Run]:
        """The runs that are followed now."""
        return list(self._live)

    def step(self) -> None:
        """Look for new recordings, read what is new in all of them, and act on it."""
        now = time.monotonic()
        if now >= self._next_scan:
            self._next_scan = now + SCAN_SECONDS
            for store in self._stores:
                self._find(store)
            self._cut_recordings()
        for run, live in list(self._live.items()):
            try:
                self._follow(run, live, now)
                self._failures.pop(run, None)
            # Whatever is wrong with one recording, the others are still followed.
            except Exception as error:
                self._failures[run] = self._failures.get(run, 0) + 1
                if self._failures[run] > MAX_FAILURES:
                    self._leave(run)
                    self._say(f"{run.id} is not followed any more: {error}")
        self._watch_streams()

    def _watch_streams(self) -> None:
        """Say when a collector does not accept the spans of a run, and when all were sent."""
        for run, stream in list(self._streams.items()):
            if stream.is_over:
                self._say(stream.report.describe(run.id, stream.target.url))
                del self._streams[run]
            elif stream.report.reason is None:
                self._held_up.discard(run)
            elif run not in self._held_up:
                self._held_up.add(run)
                self._say(f"the spans of {run.id} wait in its recording: {stream.report.reason}")

    def _find(self, store: RunStore) -> None:
        """Follow the runs that are being recorded in a folder, unless their monitors do."""
        for run in store.all_active():
            self._find_run(store, run)

    def _find_run(self, store: RunStore, run: Run) -> None:
        try:
            if run in self._live or run in self._left:
                return
            head = run.head()
            if head.status != "MONITORING" or is_owner_alive(head):
                return
            recording = str(run.paths.run_path(head.recording or run.id))
            if head.segment is not None and recording not in self._cutters:
                self._cutters[recording] = SegmentCutter(run, self._say, self._finalize_options)
            if head.owner is not None:
                return  # its monitor was killed; what it launched goes on, and so do the segments
            limits, contracts = (self._policy.limits, self._policy.contracts) if self._policy else (None, ())
            live = LiveRecording(run, limits, contracts)
            witness = self._witness(run)
        except (CritiqorError, OSError):
            return  # its record is being written, or cannot be read: the next scan tries again
        self._live[run], self._witnesses[run] = live, witness
        if self._target is not None:
            from critiqor.live.span_stream import SpanStream

            self._streams[run] = SpanStream(run, self._target)
            self._streams[run].start()
        self._say(f"following {run.id} in {store.runs_dir}")
        if witness.problem is not None:
            self._say(f"records of {run.id} that are lost or altered will not be noticed: {witness.problem}")

    def _cut_recordings(self) -> None:
        """Cut the recordings for which it is time, and have earlier segments sealed."""
        for recording, cutter in list(self._cutters.items()):
            try:
                cutter.step()
                if cutter.is_due() and (done := cutter.cut(lambda run: {})) is not None:
                    self._find_run(done.run.store, done.run)
                is_over = not cutter.left and cutter.run.head().status != "MONITORING"
            except (CritiqorError, OSError) as error:
                self._say(f"the recording of {cutter.run.id} could not be cut: {error}")
                is_over = not cutter.run.record_path.exists()
            if is_over:
                del self._cutters[recording]

    def _follow(self, run: Run, live: LiveRecording, now: float) -> None:
        update = live.read(now)
        for limit in live.take_limits():
            self._act(run, live, limit)
        is_over = update.over is not None and not update.more
        for news in live.finish(now) if is_over else live.publish(now):
            self._announce(run, news)
        if is_over:
            if run in self._streams:
                self._streams[run].conclude(live.diagnosis)
            self._leave(run)
            self._say(f"{run.id} is not followed any more: {update.over}")

    def close(self) -> None:
        """Stop to follow all recordings."""
        for run in self.followed:
            self._leave(run)
        for stream in self._streams.values():
            stream.stop()

    def _leave(self, run: Run) -> None:
        self._live.pop(run, None)
        if (witness := self._witnesses.pop(run, None)) is not None:
            witness.end()
        self._failures.pop(run, None)
        self._left.add(run)

    def _act(self, run: Run, live: LiveRecording, limit: LiveLimit) -> None:
        """Announce an exceeded limit, and have the agent run aborted if the policy says so."""
        if limit.action == "stop":
            is_late = not is_recent(limit)
            limit = replace(limit, result="not stopped: it was exceeded earlier" if is_late else STOP_REQUESTED)
            if not is_late:
                # OpenClaw takes seconds to start its command, and other recordings are not to wait for it.
                threading.Thread(target=self._stop, args=(run, limit), daemon=True).start()
        live.add_limit(limit)
        self._announce(run, limit)

    def _stop(self, run: Run, limit: LiveLimit) -> None:
        try:
            failure = self._abort(limit.session_key, limit.agent_run_id)
        except CritiqorError as error:
            failure = error.message
        done = stop_result(failure)
        event = {"event_type": "limit_exceeded", "error": limit.text, "payload": {"result": done, **limit_facts(limit)}}
        try:
            witness = self._witnesses.get(run)
            append = partial(append_lifecycle_event, run) if witness is None else witness.append
            append(event)
        except (CritiqorError, OSError) as error:
            self._say(f"what became of the limit could not be recorded: {error}")
        self._say(f"{run.id}: {limit.text}: {done}")
