"""The process that runs the detectors of one package: `python -m critiqor.extensions.detector_job`.

It gets its job as JSON on standard input. When a detector starts and when it ends, it appends a line of JSON to a file,
so that the parent knows which detector a process died in. Whatever a detector prints is discarded.
"""

from __future__ import annotations

import resource
import signal
import sys
from pathlib import Path

import msgspec

from critiqor.extensions.entry_points import Extension, describe_error
from critiqor.model import Finding

MAX_MEMORY_BYTES = 4 << 30
"""Maximum address space of the process."""
MAX_RESULT_BYTES = 64 << 20
"""Maximum size of a file that the process writes."""


class DetectorJob(msgspec.Struct, frozen=True):
    """The detectors to run, on which evidence."""

    evidence: str
    """A sealed session.json."""
    result: str
    """File for the outcomes."""
    path: list[str]
    """The parent's `sys.path`, where it found the package."""
    seconds: int
    """The process ends itself after this time, in case its parent is gone."""
    detectors: list[Extension]


class DetectorStart(msgspec.Struct, frozen=True, tag="start"):
    """A detector is about to be imported and run."""

    detector: str


class DetectorEnd(msgspec.Struct, frozen=True, tag="end"):
    """A detector has run."""

    detector: str
    findings: list[Finding] = []
    error: str | None = None


def main() -> None:
    """Run the detectors of the job one after the other."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=DetectorJob)
    signal.alarm(job.seconds)
    _limit(resource.RLIMIT_AS, MAX_MEMORY_BYTES)
    _limit(resource.RLIMIT_FSIZE, MAX_RESULT_BYTES)
    _limit(resource.RLIMIT_CORE, 0)
    sys.path += [folder for folder in job.path if folder not in sys.path]
    with Path(job.result).open("ab", buffering=0) as result:
        for extension in job.detectors:
            result.write(msgspec.json.encode(DetectorStart(extension.name)) + b"\n")
            try:
                end = DetectorEnd(extension.name, _run_detector(extension, Path(job.evidence)))
                line = _checked(end)
            except BaseException as error:  # a detector may also raise SystemExit
                line = msgspec.json.encode(DetectorEnd(extension.name, error=describe_error(error)))
            result.write(line + b"\n")


def _run_detector(extension: Extension, evidence: Path) -> list[Finding]:
    """Load a detector, register it like a built-in one, and return what it finds."""
    from critiqor.diagnosis.detectors import BUILT_IN
    from critiqor.diagnosis.diagnoser import diagnose_with
    from critiqor.diagnosis.recording import Recording
    from critiqor.diagnosis.registry import DetectorRegistry
    from critiqor.errors import RegistrationError
    from critiqor.storage.session_document import read_sealed_events

    detectors = DetectorRegistry(taken=BUILT_IN.meanings)
    detectors.register(extension.load())
    if extension.name not in detectors.meanings:
        raise RegistrationError(
            f"its TYPE is {next(iter(detectors.meanings))}, but its entry point is {extension.name}"
        )
    recording = Recording()
    for event in read_sealed_events(evidence):
        recording.observe(event)
    findings = diagnose_with(recording, detectors)
    if other := next((finding.type for finding in findings if finding.type != extension.name), None):
        raise RegistrationError(f"it returned a draft of type {other}")
    return findings


def _checked(end: DetectorEnd) -> bytes:
    """Serialize findings. Raise an error if a draft had values of wrong types, which structs do not check."""
    line = msgspec.json.encode(end)
    msgspec.json.decode(line, type=DetectorEnd)
    return line


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard == resource.RLIM_INFINITY or hard > value:
        resource.setrlimit(kind, (value, value))


if __name__ == "__main__":
    main()
