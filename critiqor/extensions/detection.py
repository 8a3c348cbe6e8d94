"""Runs the detectors of installed extensions: one process per package, with a time limit.

A detector that raises, exits, hangs, prints or crashes is reported by name, and affects nothing else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from critiqor.extensions.detector_job import DetectorEnd, DetectorJob, DetectorStart
from critiqor.extensions.entry_points import Extension, describe_error
from critiqor.model import DetectorRun, Finding

LIMIT_SECONDS = 10.0
"""Time limit of the detectors of one package."""
LIMIT_SECONDS_PER_EVENT = 0.001
"""Added to the time limit for each event."""
_ALARM_SECONDS = 5
"""How much longer a process lives whose parent was killed."""
_DECODER = msgspec.json.Decoder(DetectorStart | DetectorEnd)


class DetectorResult(NamedTuple):
    """What became of one detector, and what it found."""

    run: DetectorRun
    findings: list[Finding]


def run_detectors(extensions: list[Extension], evidence: Path, events: int) -> list[DetectorResult]:
    """Run detectors of extensions, ordered by package, on a sealed session.json with so many events."""
    try:
        return _run_processes(extensions, evidence, LIMIT_SECONDS + LIMIT_SECONDS_PER_EVENT * events)
    except OSError as error:  # no process or temporary file can be created
        return [DetectorResult(_failed(each, describe_error(error)), []) for each in extensions]


def _run_processes(extensions: list[Extension], evidence: Path, seconds: float) -> list[DetectorResult]:
    with tempfile.TemporaryDirectory(prefix="critiqor-detectors-") as folder:
        jobs: list[_Job] = []
        try:
            for number, (_, group) in enumerate(groupby(extensions, key=lambda each: each[:2])):
                jobs.append(_Job(list(group), evidence, Path(folder, f"{number}.jsonl"), seconds))
            return _without_taken([result for job in jobs for result in job.results()])
        finally:
            for job in jobs:
                job.kill()


class _Job:
    """The process for one package."""

    def __init__(self, extensions: list[Extension], evidence: Path, result: Path, seconds: float) -> None:
        self._extensions = extensions
        self._result = result
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._is_killed = False
        path = [os.path.abspath(folder) for folder in sys.path]  # noqa: PTH100 - "" is the current folder
        alarm = int(seconds) + _ALARM_SECONDS
        job = DetectorJob(str(evidence.absolute()), str(result), path, alarm, extensions)
        self._process = subprocess.Popen(
            # -P: a module in the current folder must not replace one of ours.
            [sys.executable, "-P", "-m", "critiqor.extensions.detector_job"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        # If it could not start, its exit code says so.
        with suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(msgspec.json.encode(job))

    def kill(self) -> None:
        """Kill the process and everything that it started."""
        if not self._is_killed:
            self._is_killed = True
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def results(self) -> list[DetectorResult]:
        """Wait for the process until its time is over. Return what became of each detector."""
        try:
            code: int | None = self._process.wait(max(0.0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = None
        self.kill()
        started, ended = self._read()
        stopped_in = next((name for name in reversed(started) if name not in ended), None)
        return [self._outcome(each, ended.get(each.name), stopped_in, code) for each in self._extensions]

    def _read(self) -> tuple[list[str], dict[str, DetectorEnd]]:
        started: list[str] = []
        ended: dict[str, DetectorEnd] = {}
        lines = self._result.read_bytes().splitlines() if self._result.exists() else []
        for line in lines:
            try:
                record = _DECODER.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # cut off when the process was killed; the detector has no end
            if isinstance(record, DetectorStart):
                started.append(record.detector)
            else:
                ended[record.detector] = record
        return started, ended

    def _outcome(
        self, extension: Extension, end: DetectorEnd | None, stopped_in: str | None, code: int | None
    ) -> DetectorResult:
        if end is not None and end.error is None:
            run = msgspec.structs.replace(_failed(extension, None), state="ok", findings=len(end.findings))
            return DetectorResult(run, end.findings)
        if end is not None:
            return DetectorResult(_failed(extension, end.error), [])
        if stopped_in not in (extension.name, None):
            return DetectorResult(_failed(extension, f"not run: the process ended in {stopped_in}"), [])
        if code is None:
            late = _failed(extension, f"it had not ended after {self._seconds:.0f} s")
            return DetectorResult(msgspec.structs.replace(late, state="timed out"), [])
        return DetectorResult(_failed(extension, _describe_exit(code)), [])


def _failed(extension: Extension, reason: str | None) -> DetectorRun:
    package, version, name, _ = extension
    return DetectorRun(package=package, version=version, detector=name, state="failed", reason=reason)


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"its process exited with code {code}"
    try:
        return f"its process was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"its process was killed by signal {-code}"


def _without_taken(results: list[DetectorResult]) -> list[DetectorResult]:
    """Return the results; of several detectors with one name only the first counts, because a type has one meaning."""
    owners: dict[str, str] = {}
    kept = []
    for result in results:
        owner = owners.setdefault(result.run.detector, result.run.package)
        if owner != result.run.package:
            reason = f"the type {result.run.detector} is taken by {owner}"
            run = msgspec.structs.replace(result.run, state="failed", reason=reason, findings=0)
            result = DetectorResult(run, [])
        kept.append(result)
    return kept
