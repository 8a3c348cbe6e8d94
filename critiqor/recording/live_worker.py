"""The live diagnosis of a monitored run: starts its process, receives what it reports, and lets it conclude."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from critiqor.live.announcements import Announcement
from critiqor.live.messages import CONCLUDE, SEND_REST, StreamReport, StreamTarget, WorkerMessage, WorkerTask
from critiqor.live.verdict import STOP_REQUESTED, LiveLimit
from critiqor.run.store import Run

if TYPE_CHECKING:
    from critiqor.policy.policy_file import Policy

CONCLUDE_SECONDS = 20.0
"""How long the conclusion may take; a verdict that takes longer is left to `critiqor finalize`."""
MAX_STARTS = 3
"""How often the process is started, if it fails."""

Announce = Callable[[Announcement | LiveLimit], None]
Stop = Callable[[LiveLimit], None]


class LiveWorker:
    """The process that diagnoses one run while it is recorded. Nothing that it does is waited for, except at the end.

    `announce` is called with news about findings and with exceeded limits, `stop` with those that are to be stopped,
    both in a thread.
    """

    def __init__(
        self, run: Run, policy: Policy | None, announce: Announce, stop: Stop, stream: StreamTarget | None = None
    ) -> None:
        limits, contracts = (policy.limits, policy.contracts) if policy is not None else (None, ())
        task = WorkerTask(
            runs_dir=str(run.paths.runs_dir),
            run_id=run.id,
            limits=msgspec.Raw(msgspec.json.encode(limits)),
            contracts=msgspec.Raw(msgspec.json.encode(contracts)),
            stream=stream,
        )
        self._task = msgspec.json.encode(task) + b"\n"
        self._run_id = run.id
        self._target = stream
        self._announce = announce
        self._stop = stop
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_concluding = False
        self.is_concluded = False
        """Whether the verdict of the complete recording was written."""
        self.stream = StreamReport()
        """What became of the spans, if they are sent to a collector."""

    def start(self) -> None:
        """Start the process. A failure to start it is not an error of the recording."""
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def conclude(self) -> None:
        """Let the process write the verdict of the complete recording, and end it."""
        self._end(CONCLUDE)

    def stop(self) -> str | None:
        """End the process without a verdict: the run is sealed and has a diagnosis.

        Return what became of its spans, if they are sent to a collector.
        """
        self._end(None if self._target is None else SEND_REST)
        return None if self._target is None else self.stream.describe(self._run_id, self._target.url)

    def _end(self, request: bytes | None) -> None:
        """End the process, after it has done what is requested."""
        with self._lock:
            self._is_concluding = True
            process = self._process
        if process is None or self._thread is None:
            return
        if request is not None:
            with contextlib.suppress(OSError, ValueError):
                assert process.stdin is not None
                process.stdin.write(request)
                process.stdin.close()
            self._thread.join(CONCLUDE_SECONDS)
        with contextlib.suppress(OSError):
            process.kill()

    def _follow(self) -> None:
        for _ in range(MAX_STARTS):
            try:
                process = self._start()
            except OSError:
                return
            if process is None:
                return
            with process:
                self._receive(process)
            if self.is_concluded or self._is_concluding:
                return

    def _start(self) -> subprocess.Popen[bytes] | None:
        # It must not look like a process of the recorded tree.
        environment = {name: value for name, value in os.environ.items() if name != "CRITIQOR_RUN_ID"}
        with self._lock:
            if self._is_concluding:
                return None
            self._process = process = subprocess.Popen(
                [sys.executable, "-P", "-m", "critiqor.live"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.write(self._task)
            process.stdin.flush()
        return process

    def _receive(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                message = msgspec.json.decode(line, type=WorkerMessage)
            except msgspec.DecodeError:
                continue
            news = message.limit or message.announcement
            if news is not None:
                self._announce(news)
            if message.limit is not None and message.limit.result == STOP_REQUESTED:
                self._stop(message.limit)
            self.stream = message.stream or self.stream
            self.is_concluded = self.is_concluded or message.done
