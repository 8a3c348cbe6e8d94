"""The process that diagnoses a monitored run while it is recorded.

It is a process of its own with a low priority, so that neither the agent nor the monitor waits for it, and a failure of
it does not harm the recording. Its first line of input is a `WorkerTask`; a second line asks it to conclude, or only to
send the rest of the spans, and the end of its input to end at once. Each line of its output is a `WorkerMessage`.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from critiqor.errors import CritiqorError
from critiqor.live.announcements import Announcement
from critiqor.live.limits import is_recent
from critiqor.live.messages import SEND_REST, WorkerMessage, WorkerTask
from critiqor.live.recording import LiveRecording
from critiqor.live.verdict import STOP_REQUESTED
from critiqor.policy.contract import Contract
from critiqor.policy.limits import Limits
from critiqor.run.store import Run

if TYPE_CHECKING:
    from critiqor.live.span_stream import SpanStream

POLL_SECONDS = 0.2
"""How often the journal is checked for something new."""
MAX_FAILED_READS = 50
"""Reads in a row that may fail before the process gives up: a record is missing for a moment when it is replaced."""
NICENESS = 5
_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
"""Signals from the keyboard, which are for the agent."""


class Worker:
    """Follows one run until it is asked to conclude."""

    def __init__(self, task: WorkerTask, output: BinaryIO) -> None:
        limits = msgspec.json.decode(task.limits, type=Limits | None)
        contracts = msgspec.json.decode(task.contracts, type=list[Contract])
        run = Run.load(task.run_id, task.runs_dir)
        self._live = LiveRecording(run, limits, contracts)
        self._stream: SpanStream | None = None
        if task.stream is not None:
            from critiqor.live.span_stream import SpanStream, resume_streams

            self._stream = SpanStream(run, task.stream)
            self._stream.start()
            resume_streams(run.store, task.stream)
        self._output = output
        self._failed_reads = 0

    def step(self) -> None:
        """Read what is new, and report it."""
        now = time.monotonic()
        try:
            while self._live.read(now).more:
                self._report_limits()
            self._report_limits()
            self._report(self._live.publish(now))
            self._failed_reads = 0
        except (CritiqorError, OSError):
            self._failed_reads += 1
            if self._failed_reads > MAX_FAILED_READS:
                raise

    def conclude(self) -> None:
        """Write the verdict of the complete recording."""
        now = time.monotonic()
        while self._live.read(now).more:
            pass
        self._report_limits(is_over=True)
        self._report(self._live.finish(now))
        if self._stream is not None:
            self._stream.conclude(self._live.diagnosis)
        self.send_rest()
        self._send(WorkerMessage(done=True))

    def send_rest(self) -> None:
        """Wait until the spans of a run that is over were sent, and report what became of them."""
        if self._stream is not None:
            from critiqor.live.span_stream import FINISH_SECONDS

            self._send(WorkerMessage(stream=self._stream.finish(FINISH_SECONDS)))

    def _report_limits(self, *, is_over: bool = False) -> None:
        for limit in self._live.take_limits():
            if limit.action == "stop":
                is_late = is_over or not is_recent(limit)
                result = "not stopped: the agent had gone on or ended already" if is_late else STOP_REQUESTED
                limit = msgspec.structs.replace(limit, result=result)
            self._live.add_limit(limit)
            self._send(WorkerMessage(limit=limit))

    def _report(self, news: list[Announcement]) -> None:
        for announcement in news:
            self._send(WorkerMessage(announcement=announcement))

    def _send(self, message: WorkerMessage) -> None:
        self._output.write(msgspec.json.encode(message) + b"\n")
        self._output.flush()


def run_worker() -> None:
    """Do the task on standard input, until the input ends or asks for the conclusion."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    source = sys.stdin.buffer.raw if hasattr(sys.stdin.buffer, "raw") else sys.stdin.buffer
    task = _read_line(source.fileno())
    if not task:
        return
    worker = Worker(msgspec.json.decode(task, type=WorkerTask), sys.stdout.buffer)
    while not select.select([source], [], [], POLL_SECONDS)[0]:
        worker.step()
    request = _read_line(source.fileno())
    if request == SEND_REST:
        worker.send_rest()
    elif request:
        worker.conclude()


def _read_line(descriptor: int) -> bytes:
    """Read one line without reading ahead; empty at the end."""
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(descriptor, 1)
        if not data:
            return b""
        line += data
    return line
