"""Gathering of the input of each reporter from the files of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import resources
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from critiqor import __version__
from critiqor.diagnosis import FAILURE_TYPES
from critiqor.errors import BrokenRecordError, CritiqorError
from critiqor.exporters import markdown
from critiqor.exporters.export_notes import diagnosis_or_note, integrity_notes, unfinished_notes, visibility_notes
from critiqor.exporters.formats import Material
from critiqor.exporters.trace.trace_builder import gather_trace
from critiqor.exporters.zip import packed_file, packed_json, packed_text
from critiqor.model import Event, Seal
from critiqor.model.report import (
    Bundle,
    BundledFile,
    Citation,
    CitedReport,
    GateReport,
    Recorded,
    ReportedRun,
    Rule,
    RunReport,
    TimedReport,
)
from critiqor.model.timeline import line_of_id
from critiqor.policy.gate import apply_policy
from critiqor.policy.policy_file import DEFAULT_POLICY, Policy
from critiqor.privacy.trace import anonymous_profile, anonymous_timing
from critiqor.privacy.visibility import EXPORT
from critiqor.run.diagnosis import contract_results
from critiqor.run.store import Run
from critiqor.run.timing import timing_if_readable
from critiqor.run.view import RunView
from critiqor.storage.annotations import read_annotations
from critiqor.storage.atomic import open_regular_file
from critiqor.storage.seals.digests import file_digest
from critiqor.timeline.profiles import read_cpu_profiles
from critiqor.timeline.reader.citations import cited_moments

_ANONYMOUS = """\
This run is anonymous: names, paths, messages and payload texts were removed, structure and numbers kept.

events.jsonl was made for this archive. It is NOT the sealed evidence: the digest in run.json and diagnosis.json is that
of the original evidence, and no file in this archive has it. SHA256SUMS only shows that these files are unchanged since
they were packed.
"""
_ID_START = b'{"event_id":"'


Pages = Callable[[Run], Iterator[bytes]]
"""Renders the pages of a run as one file."""


class ExportOptions(NamedTuple):
    """Options of an export besides its format."""

    content: bool = False
    """Whether arguments, outputs and messages are included, in formats that can contain them."""
    policy: Policy = DEFAULT_POLICY
    """The policy that a run is checked against."""
    pages: Pages | None = None
    """Renders pages; passed in by the caller, because the dashboard is a higher layer than exports."""


DEFAULT_OPTIONS = ExportOptions()


class Gathered(NamedTuple):
    """The input of a reporter."""

    material: Any
    notes: list[str]
    """What the material lacks, and why; complete when the reporter has read all of it."""


def gather(takes: Material, run: Run, options: ExportOptions) -> Gathered:
    """Gather the input of a reporter from a run."""
    view = RunView(run, EXPORT)
    gathered = _GATHER[takes](view, options)
    # Changed in place: reading during the export adds further notes to the same list.
    gathered.notes[:0] = visibility_notes(view)
    return gathered


def load_report(run: Run) -> RunReport:
    """Gather what reports take of a run: its diagnosis, its integrity and the coverage of its evidence."""
    return _report(RunView(run, EXPORT))


def _report(view: RunView) -> RunReport:
    diagnosis = view.require_diagnosis()
    run = ReportedRun(**{name: getattr(view.head, name) for name in ReportedRun.__struct_fields__})
    return RunReport(evidence=view.integrity, run=run, coverage=view.coverage(), diagnosis=diagnosis)


def gather_recorded(view: RunView, options: ExportOptions) -> Gathered:
    """Return the events of a run, to be iterated once, with its diagnosis."""
    notes = [*integrity_notes(view), *unfinished_notes(view)]
    diagnosis = diagnosis_or_note(view, notes)
    if diagnosis is not None and not view.integrity.is_intact:
        # Left out, because a backend would show the score as an evaluation of the run.
        diagnosis = msgspec.structs.replace(diagnosis, trust_score=None)
    findings = diagnosis.failure_analysis.findings if diagnosis is not None else []
    moments = cited_moments((finding.first_event for finding in findings), view.run.timeline_path)
    content = options.content and not view.is_anonymous
    return Gathered(Recorded(view.head, view.events(), diagnosis, moments, FAILURE_TYPES, __version__, content), notes)


def _gather_trace(view: RunView, options: ExportOptions) -> Gathered:
    trace = gather_trace(view)
    trace.notes[:0] = integrity_notes(view)
    return Gathered(trace, trace.notes)


def _gather_cpu_profiles(view: RunView, options: ExportOptions) -> Gathered:
    notes: list[str] = []
    profiles = read_cpu_profiles(view.run.profiles_folder, notes)
    first = next(profiles, None)
    if first is None:
        message = f"{view.run_id} has no CPU profile that can be read"
        fix = "record with critiqor monitor openclaw --deep-profile and let OpenClaw exit: Node writes profiles on exit"
        raise CritiqorError(message, fix=fix)
    every = chain([first], profiles)
    return Gathered(map(anonymous_profile, every) if view.is_anonymous else every, notes)


def _gather_report(view: RunView, options: ExportOptions) -> Gathered:
    return Gathered(_report(view), integrity_notes(view))


def _gather_timed(view: RunView, options: ExportOptions) -> Gathered:
    return Gathered(_timed(view, _report(view)), integrity_notes(view))


def _timed(view: RunView, report: RunReport) -> TimedReport:
    timing = timing_if_readable(view.run)
    return TimedReport(report, anonymous_timing(timing) if view.is_anonymous else timing)


def _gather_gate(view: RunView, options: ExportOptions) -> Gathered:
    report = _report(view)
    contracts = contract_results(view.run, report.diagnosis, options.policy.contracts)
    gate = apply_policy(options.policy, report.diagnosis, view.verify(), contracts)
    return Gathered(GateReport(report, gate), integrity_notes(view))


def _gather_cited(view: RunView, options: ExportOptions) -> Gathered:
    report = _report(view)
    files = _Files(view.run, "runs" if view.is_anonymous else view.run.store.runs_dir.name)
    cited = CitedReport(
        report=report,
        rules=_rules(),
        citations=files.citations(_cited_by(report)),
        evidence=Citation(files.evidence, None),
        version=__version__,
    )
    return Gathered(cited, integrity_notes(view))


def _gather_bundle(view: RunView, options: ExportOptions) -> Gathered:
    run, report = view.run, _report(view)
    seal = report.run.seal
    if seal is None or file_digest(run.evidence_path) != seal.digest:
        message = f"the evidence of {run.id} was changed after sealing and is not exported"
        raise BrokenRecordError(message, fix=f"critiqor verify {run.id}")
    if view.integrity.state == "other" and view.unproven is not None:
        raise view.unproven
    files = [
        packed_json("run.json", report.run),
        packed_text("report.md", b"".join(markdown.report(_timed(view, report)))),
    ]
    if options.pages is not None:
        files.append(packed_text("report.html", b"".join(options.pages(run))))
    if view.is_anonymous:
        files += [packed_json("diagnosis.json", report.diagnosis), *anonymous_files(view, seal)]
        notes = ["The sealed evidence and the timeline are not included."]
        return Gathered(Bundle(run.id, files), [*integrity_notes(view), *notes])
    files += [packed_file("session.json", run.evidence_path), packed_file("diagnosis.json", run.diagnosis_path)]
    carried = report.coverage.carried if report.coverage is not None else None
    if carried is not None:
        files.append(packed_file("carried.jsonl", run.paths.carried_path(run.id), carried.bytes))
    unread = _add_annotations(run, files)
    sealed = report.coverage.timeline if report.coverage is not None else None
    if sealed is None:
        return Gathered(
            Bundle(run.id, files),
            [*integrity_notes(view), *unread, "The OpenClaw timeline is not included: this run has none."],
        )
    notes = ["timeline.jsonl is as OpenClaw wrote it: nothing in it was redacted."]
    if file_digest(run.timeline_path, sealed.bytes) != sealed.digest:
        notes = [f"The OpenClaw timeline is not included: it was changed after sealing (critiqor verify {run.id})."]
    else:
        files.append(packed_file("timeline.jsonl", run.timeline_path, view.head.sealed_timeline_bytes))
    return Gathered(Bundle(run.id, files), [*integrity_notes(view), *unread, *notes])


def anonymous_files(view: RunView, seal: Seal) -> list[BundledFile]:
    """Gather the files of an anonymous run for an export: its events, as far as strangers may see them, and a note."""
    events = BundledFile("events.jsonl", seal.bytes, lambda: _lines(view.events()))
    return [packed_text("README.txt", _ANONYMOUS.encode()), events]


def _add_annotations(run: Run, files: list[BundledFile]) -> list[str]:
    """Add what the user says about a run to the files of an archive; return a note if it cannot be read."""
    try:
        annotations = read_annotations(run.paths, run.id)
    except BrokenRecordError as error:
        return [f"The tags and notes are not included: {error.message}."]
    files += [packed_json("annotations.json", annotations)] if annotations else []
    return []


_GATHER: dict[Material, Callable[[RunView, ExportOptions], Gathered]] = {
    "trace": _gather_trace,
    "cpu_profiles": _gather_cpu_profiles,
    "recorded": gather_recorded,
    "report": _gather_report,
    "timed": _gather_timed,
    "gate": _gather_gate,
    "cited": _gather_cited,
    "bundle": _gather_bundle,
}
"""The function that gathers each kind of material."""


def _rules() -> dict[str, Rule]:
    text = resources.files("critiqor.exporters").joinpath("rules.json").read_bytes()
    help_texts = msgspec.json.decode(text, type=dict[str, str])
    return {type_: Rule(meaning, help_texts.get(type_, "")) for type_, meaning in FAILURE_TYPES.items()}


def _cited_by(report: RunReport) -> set[str]:
    findings = report.diagnosis.failure_analysis.findings
    steps = (step.event_id for finding in findings for step in finding.causal_chain)
    return {*(finding.first_event for finding in findings), *steps}


class _Files:
    """Locates the events of a run and the lines of its timeline in their files."""

    def __init__(self, run: Run, name: str) -> None:
        folder = run.store.runs_dir
        self._document = run.evidence_path
        # Relative to the name of the runs folder, so that the report does not reveal where it is on this machine.
        self.evidence = quote(f"{name}/{self._document.relative_to(folder).as_posix()}")
        self._timeline = quote(f"{name}/{run.timeline_path.relative_to(folder).as_posix()}")

    def citations(self, wanted: set[str]) -> dict[str, Citation]:
        """Return the file and line of each wanted id; sealed evidence has one event per line."""
        cited = {name: number for name in wanted if (number := line_of_id(name)) is not None}
        found = {name: Citation(self._timeline, number) for name, number in cited.items()}
        try:
            with open_regular_file(self._document, buffering=1 << 18) as file:
                for number, line in enumerate(file, 1):
                    if line.startswith(_ID_START):
                        name = line[len(_ID_START) :].partition(b'"')[0].decode("utf-8", "replace")
                        if name in wanted:
                            found[name] = Citation(self.evidence, number)
        except OSError:
            pass
        return found


def _lines(events: Iterator[Event]) -> Iterator[bytes]:
    return (msgspec.json.encode(event) + b"\n" for event in events)
