"""Build the trace of a run from the recorder's events, OpenClaw's timeline and the diagnosis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from critiqor.diagnosis import FAILURE_TYPES
from critiqor.exporters.export_notes import diagnosis_or_note, unfinished_notes
from critiqor.exporters.trace.activity import activity
from critiqor.model import Event, EventType, Finding, ms_from_iso
from critiqor.model.event import place_of
from critiqor.model.timeline import Role
from critiqor.model.timestamps import us_of
from critiqor.model.trace import Instant, Part, Slice, Trace, TraceProcess, Track
from critiqor.privacy.trace import anonymous_parts
from critiqor.run.view import RunView
from critiqor.timeline import read_timeline
from critiqor.timeline.reader.citations import cited_moments
from critiqor.timeline.reader.trace_stream import read_trace_parts

MAX_PARTS = 250_000
"""Maximum number of parts from the events, and of parts from the timeline: viewers can hardly open more."""
FINDINGS = "findings"
_ROLES: dict[Role, str] = {"gateway": "OpenClaw gateway", "agent": "OpenClaw agent", "command": "OpenClaw command"}


def gather_trace(view: RunView) -> Trace:
    """Build the trace of a run from the recorder's events, OpenClaw's timeline and the diagnosis."""
    run_id = view.run_id
    trace = Trace(run_id=run_id, processes=[TraceProcess(None, f"run {run_id}")], notes=unfinished_notes(view))
    diagnosis = diagnosis_or_note(view, trace.notes)
    findings = diagnosis.failure_analysis.findings if diagnosis is not None else []
    event_notes = _EventNotes(finding.first_event for finding in findings)
    _add_parts(trace, _bounded(activity(event_notes.watch(view.events())), "events", trace.notes))
    path, limit = view.run.timeline_path, view.head.sealed_timeline_bytes
    timeline = read_timeline(path, limit)
    if timeline.present:
        parts: Iterable[Part] = read_trace_parts(path, limit)
        if view.is_anonymous:
            parts = anonymous_parts(parts)
        _add_parts(trace, _bounded(parts, "lines of the timeline", trace.notes))
    elif not event_notes.imported:
        trace.notes.append(f"The OpenClaw timeline is not included: {timeline.unavailable}.")
    if timeline.parse_errors:
        trace.notes.append(f"{timeline.parse_errors} lines of the timeline could not be read.")
    moments = event_notes.moments | cited_moments((finding.first_event for finding in findings), path)
    trace.instants[:0] = [_finding_instant(finding, moments, trace.start_us) for finding in findings]
    roles = {process.pid: _ROLES[process.role] for process in timeline.processes if process.role in _ROLES}
    names = event_notes.names | roles
    trace.processes += [TraceProcess(pid, names.get(pid, "OpenClaw")) for pid in _pids(trace) if pid is not None]
    return trace


class _EventNotes:
    """Notes the times of wanted events and the names of processes while events pass through."""

    def __init__(self, wanted: Iterable[str]) -> None:
        self._wanted = frozenset(wanted)
        self.moments: dict[str, int] = {}
        """Times of the wanted events; microseconds since 1970."""
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


def _finding_instant(finding: Finding, moments: dict[str, int], start_us: int) -> Instant:
    """Return a finding at its first event, or at the start of the trace if that has no time.

    It is named by its type, because its title quotes the recording.
    """
    step = finding.first_event
    place = place_of(step)
    default_us = us_of(place.milliseconds) if place is not None else start_us
    place_in = {"session": finding.session_key, "agent_run_id": finding.agent_run_id}
    return Instant(
        track=Track(None, FINDINGS),
        name=finding.type,
        category="finding",
        at_us=moments.get(step, default_us),
        facts={
            "type": finding.type,
            "meaning": FAILURE_TYPES.get(finding.type, finding.type),
            "severity": finding.severity,
            "finding": finding.id,
            "confidence": finding.confidence,
            "occurrences": finding.occurrences,
            "first_bad_step": step,
            **{name: value for name, value in place_in.items() if value is not None},
            **({} if finding.extension is None else {"extension": finding.extension.package}),
        },
    )


def _bounded(parts: Iterable[Part], what: str, notes: list[str]) -> Iterator[Part]:
    for number, part in enumerate(parts):
        if number == MAX_PARTS:
            notes.append(f"Only the first {MAX_PARTS} parts from the {what} are included.")
            return
        yield part


def _add_parts(trace: Trace, parts: Iterable[Part]) -> None:
    for part in parts:
        if isinstance(part, Slice):
            trace.slices.append(part)
        elif isinstance(part, Instant):
            trace.instants.append(part)
        else:
            trace.counters.append(part)


def _pids(trace: Trace) -> dict[int | None, None]:
    """Return the processes of a trace in the order in which they appear."""
    parts: list[Slice | Instant] = [*trace.slices, *trace.instants]
    return dict.fromkeys([*(part.track.pid for part in parts), *(counter.pid for counter in trace.counters)])
