"""A run in a format of others: what is known of it is gathered, handed to a reporter, and written down."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from critiqor import records
from critiqor.diagnoses import load_diagnosed
from critiqor.errors import BrokenRecordError, CritiqorError, UsageError
from critiqor.model import Event, EventType, Finding, ms_from_iso
from critiqor.model.event import place_of
from critiqor.model.timeline import Role, cited_line, line_id
from critiqor.model.trace import Instant, Part, Slice, Trace, TraceProcess, Track, us_of
from critiqor.reporters import FORMATS, Material
from critiqor.reporters.activity import activity
from critiqor.session import DEFAULT_RUNS_DIR, evidence_events
from critiqor.storage import AtomicFile, SessionPaths, paths_for
from critiqor.timeline import read_timeline
from critiqor.timeline.citations import cited_lines
from critiqor.timeline.passages import passages
from critiqor.timeline.profiles import read_cpu_profiles

MOST_PARTS = 250_000
"""Parts of a trace that are taken from the events, and as many from the timeline: viewers hardly open more."""
FINDINGS = "findings"
_ROLES: dict[Role, str] = {"gateway": "OpenClaw gateway", "agent": "OpenClaw agent", "command": "OpenClaw command"}


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    run_id: str
    format: str
    file: str | None
    """Null for what went into a stream."""
    bytes: int
    opens_in: str
    notes: list[str]
    """What is missing, and why."""


class Gathered(NamedTuple):
    """What a reporter takes."""

    material: Any
    notes: list[str]
    """What is missing in it, and why."""


def export_run(
    run_id: str, format_name: str, output: Path | BinaryIO | None = None, runs_dir: str | Path = DEFAULT_RUNS_DIR
) -> Export:
    """Write a run in one of `FORMATS`: into a file, into a stream, or into `<run><suffix>` in the current folder."""
    format_ = FORMATS[format_name]
    paths = paths_for(runs_dir)
    records.load_head(paths, run_id)
    target = Path(f"{run_id}{format_.suffix}") if output is None else output
    if isinstance(target, Path):
        target = _checked(target, paths)
    gathered = _GATHER[format_.takes](run_id, runs_dir)
    report: Callable[[Any], Iterator[bytes]] = importlib.import_module(f"critiqor.reporters.{format_name}").report
    return Export(
        run_id=run_id,
        format=format_name,
        file=str(target) if isinstance(target, Path) else None,
        bytes=_written(report(gathered.material), target),
        opens_in=format_.opens_in,
        notes=gathered.notes,
    )


def gather_trace(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> Trace:
    """A run as slices of time, from the recorder's events, OpenClaw's timeline and the diagnosis."""
    paths = paths_for(runs_dir)
    head = records.load_head(paths, run_id)
    trace = Trace(run_id=run_id, processes=[TraceProcess(None, f"run {run_id}")])
    if head["status"] == "MONITORING":
        trace.notes.append("The run is not finalized: this goes as far as it was recorded by now.")
    findings = _findings(run_id, runs_dir, trace.notes)
    witness = _Witness(map(_first_bad_step, findings))
    _take(trace, _bounded(activity(witness.watch(_events(run_id, runs_dir))), "events", trace.notes))
    path = paths.timeline_path(run_id)
    # What OpenClaw wrote after the evidence was sealed belongs to it no more than what it did then.
    limit = head["cut"].get("timeline_bytes") if head["seal"] and head["cut"] else None
    timeline = read_timeline(path, limit)
    if timeline.present:
        _take(trace, _bounded(passages(path, limit), "lines of the timeline", trace.notes))
    elif not witness.imported:
        trace.notes.append(f"No timeline of OpenClaw: {timeline.unavailable}.")
    if timeline.parse_errors:
        trace.notes.append(f"{timeline.parse_errors} lines of the timeline could not be read.")
    witness.look_up(path)
    trace.instants[:0] = [_marked(finding, witness.moments, trace.start_us) for finding in findings]
    roles = {process.pid: _ROLES[process.role] for process in timeline.processes if process.role in _ROLES}
    names = witness.names | roles
    trace.processes += [TraceProcess(pid, names.get(pid, "OpenClaw")) for pid in _pids(trace) if pid is not None]
    return trace


def _gather_trace(run_id: str, runs_dir: str | Path) -> Gathered:
    trace = gather_trace(run_id, runs_dir)
    return Gathered(trace, trace.notes)


def _gather_cpu_profiles(run_id: str, runs_dir: str | Path) -> Gathered:
    notes: list[str] = []
    profiles = read_cpu_profiles(paths_for(runs_dir).profiles_folder(run_id), notes)
    first = next(profiles, None)
    if first is None:
        message = f"{run_id} has no CPU profile that can be read"
        fix = "critiqor monitor openclaw --deep-profile   and let it end: Node writes profiles when it exits"
        raise CritiqorError(message, fix=fix)
    return Gathered(chain([first], profiles), notes)


_GATHER: dict[Material, Callable[[str, str | Path], Gathered]] = {
    "trace": _gather_trace,
    "cpu_profiles": _gather_cpu_profiles,
}
"""How what reporters take is gathered."""


class _Witness:
    """Looks at events on their way: when those were that findings name, and what the processes are."""

    def __init__(self, wanted: Iterable[str]) -> None:
        self._wanted = frozenset(wanted)
        self.moments: dict[str, int] = {}
        """When the wanted events and lines of the timeline were; microseconds since 1970."""
        self.names: dict[int | None, str] = {}
        self.imported = False

    def watch(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            if event.event_id in self._wanted and (moment := ms_from_iso(event.timestamp)) is not None:
                self.moments[event.event_id] = us_of(moment)
            if event.event_type == EventType.RUN_IMPORTED:
                self.imported = True
            elif event.event_type in (EventType.PROCESS_START, EventType.RECORDER_ATTACHED):
                pid = event.payload.get("pid")
                if isinstance(pid, int):
                    launched = event.event_type == EventType.PROCESS_START
                    self.names[pid] = "OpenClaw, as launched" if launched else "OpenClaw, recorded"
            yield event

    def look_up(self, timeline: Path) -> None:
        """Find those lines of the timeline that findings name."""
        numbers = {number for name in self._wanted if (number := cited_line(name)) is not None}
        for number, line in cited_lines(timeline, numbers).items():
            if (moment := ms_from_iso(str(line.get("timestamp")))) is not None:
                self.moments[line_id(number)] = us_of(moment)


def _events(run_id: str, runs_dir: str | Path) -> Iterator[Event]:
    try:
        yield from evidence_events(run_id, runs_dir)
    except (msgspec.DecodeError, UnicodeDecodeError, FileNotFoundError) as error:
        raise BrokenRecordError(
            f"the evidence of {run_id} cannot be read: {error}", fix=f"critiqor verify {run_id}"
        ) from error


def _findings(run_id: str, runs_dir: str | Path, notes: list[str]) -> list[Finding]:
    try:
        return load_diagnosed(run_id, runs_dir).failure_analysis.findings
    except CritiqorError as error:
        notes.append(f"No findings: {error.message} ({error.fix}).")
        return []


def _first_bad_step(finding: Finding) -> str:
    return finding.first_bad_step or next(iter(finding.evidence), "")


def _marked(finding: Finding, moments: dict[str, int], start_us: int) -> Instant:
    """A finding where it began to go wrong; where that is not known, it stands at the start of the trace."""
    step = _first_bad_step(finding)
    place = place_of(step)
    told = us_of(place.milliseconds) if place is not None else start_us
    scope = {"session": finding.scope.session_key, "agent_run_id": finding.scope.agent_run_id}
    return Instant(
        track=Track(None, FINDINGS),
        name=finding.title,
        category="finding",
        at_us=moments.get(step, told),
        facts={
            "title": finding.title,
            "severity": finding.severity,
            "type": finding.type,
            "finding": finding.id,
            "confidence": finding.confidence,
            "occurrences": finding.occurrences,
            "first_bad_step": step,
            **{name: value for name, value in scope.items() if value is not None},
        },
    )


def _bounded(parts: Iterable[Part], what: str, notes: list[str]) -> Iterator[Part]:
    for number, part in enumerate(parts):
        if number == MOST_PARTS:
            notes.append(f"Only the first {MOST_PARTS} things that the {what} tell are in here.")
            return
        yield part


def _take(trace: Trace, parts: Iterable[Part]) -> None:
    for part in parts:
        if isinstance(part, Slice):
            trace.slices.append(part)
        elif isinstance(part, Instant):
            trace.instants.append(part)
        else:
            trace.counters.append(part)


def _pids(trace: Trace) -> dict[int | None, None]:
    """The processes of a trace, in the order in which they come."""
    parts: list[Slice | Instant] = [*trace.slices, *trace.instants]
    return dict.fromkeys([*(part.track.pid for part in parts), *(counter.pid for counter in trace.counters)])


def _checked(output: Path, paths: SessionPaths) -> Path:
    """Where to write, if nothing gets lost there."""
    file = output.resolve()
    if file.is_relative_to(paths.runs_dir.resolve()):
        message = f"{output} is in the runs folder, where it could be taken for a run"
        raise UsageError(message, fix="--output FILE   with a file elsewhere")
    if file.exists() and not file.is_file():
        raise UsageError(f"{output} is not a file", fix="--output FILE, or --output - for standard output")
    return file


def _written(pieces: Iterable[bytes], target: Path | BinaryIO) -> int:
    if isinstance(target, Path):
        with AtomicFile(target) as file:
            for piece in pieces:
                file.write(piece)
        return file.size
    size = 0
    for piece in pieces:
        target.write(piece)
        size += len(piece)
    target.flush()
    return size
