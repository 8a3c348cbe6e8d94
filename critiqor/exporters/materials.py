"""What reporters take, gathered from the files of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from critiqor import __version__
from critiqor.diagnosis import FAILURE_TYPES
from critiqor.diagnosis.integrity import as_proven
from critiqor.errors import BrokenRecordError, CritiqorError
from critiqor.exporters import markdown
from critiqor.exporters.findings import first_step
from critiqor.exporters.formats import Material
from critiqor.exporters.sources import (
    diagnosis_of,
    events_of,
    head_of,
    is_anonymous,
    leaving_notes,
    load_report,
    moments_of,
    sealed_bytes,
    unfinished_notes,
    unproven_notes,
)
from critiqor.exporters.trace.gather import gather_trace
from critiqor.model import Event
from critiqor.model.report import (
    Bundle,
    BundledFile,
    Citation,
    CitedReport,
    GateReport,
    Recorded,
    Rule,
    RunReport,
)
from critiqor.model.timeline import cited_line
from critiqor.policy.gate import DEFAULT_POLICY, Policy, apply_policy
from critiqor.privacy import anonymous_profile
from critiqor.run.diagnosis import load_proof
from critiqor.storage import SessionPaths, paths_for
from critiqor.storage.seal import file_digest
from critiqor.timeline.profiles import read_cpu_profiles

_PIECE = 1 << 18
"""Bytes of a file that are read at a time."""
_ANONYMOUS = """\
This run is anonymous: names, paths, messages and payload texts were removed, structure and figures kept.

events.jsonl was made for this archive. It is NOT the sealed evidence: the digest in run.json and diagnosis.json is
that of the evidence that stayed at home, and no file in here has it. SHA256SUMS only says that these files are as they
were packed.
"""
_ID_START = b'{"event_id":"'


Pages = Callable[[str, str | Path], Iterator[bytes]]
"""Draws the pages of a run as one file; takes the run and its folder."""


class Wishes(NamedTuple):
    """What a user can choose beside the format, and what the caller can do."""

    content: bool = False
    """Whether arguments, outputs and messages are told, in formats that can."""
    policy: Policy = DEFAULT_POLICY
    """What a run is held against."""
    pages: Pages | None = None
    """Who draws pages: the dashboard, which is no part of exports."""


USUAL = Wishes()
"""What is done where nothing is wished for."""


class Gathered(NamedTuple):
    """What a reporter takes."""

    material: Any
    notes: list[str]
    """What is missing in it, and why; complete once the reporter has taken everything."""


def gather(takes: Material, run_id: str, runs_dir: str | Path, wishes: Wishes) -> Gathered:
    """What a reporter takes, from a run."""
    gathered = _GATHER[takes](run_id, runs_dir, wishes)
    # Into the same list: what is read while it is written is noted there as well.
    gathered.notes[:0] = leaving_notes(head_of(run_id, paths_for(runs_dir)))
    return gathered


def gather_recorded(run_id: str, runs_dir: str | Path, wishes: Wishes) -> Gathered:
    """The events of a run, to be looked at once, with what was concluded from them."""
    paths = paths_for(runs_dir)
    head = head_of(run_id, paths)
    proof = load_proof(run_id, runs_dir)
    notes = [*unproven_notes(run_id, proof), *unfinished_notes(head)]
    diagnosis = diagnosis_of(run_id, runs_dir, notes)
    if diagnosis is not None:
        diagnosis = as_proven(diagnosis, proof)
    findings = diagnosis.failure_analysis.findings if diagnosis is not None else []
    moments = moments_of(map(first_step, findings), paths.timeline_path(run_id))
    events = events_of(run_id, runs_dir)
    content = wishes.content and not is_anonymous(head)
    return Gathered(Recorded(head, events, diagnosis, moments, FAILURE_TYPES, __version__, content), notes)


def _gather_trace(run_id: str, runs_dir: str | Path, wishes: Wishes) -> Gathered:
    trace = gather_trace(run_id, runs_dir)
    trace.notes[:0] = unproven_notes(run_id, load_proof(run_id, runs_dir))
    return Gathered(trace, trace.notes)


def _gather_cpu_profiles(run_id: str, runs_dir: str | Path, wishes: Wishes) -> Gathered:
    notes: list[str] = []
    profiles = read_cpu_profiles(paths_for(runs_dir).profiles_folder(run_id), notes)
    first = next(profiles, None)
    if first is None:
        message = f"{run_id} has no CPU profile that can be read"
        fix = "critiqor monitor openclaw --deep-profile   and let it end: Node writes profiles when it exits"
        raise CritiqorError(message, fix=fix)
    told = chain([first], profiles)
    hidden = is_anonymous(head_of(run_id, paths_for(runs_dir)))
    return Gathered(map(anonymous_profile, told) if hidden else told, notes)


def _gather_report(run_id: str, runs_dir: str | Path, wishes: Wishes) -> Gathered:
    report = load_report(run_id, runs_dir)
    return Gathered(report, unproven_notes(run_id, report.evidence))


def _gather_gate(run_id: str, runs_dir: str | Path, wishes: Wishes) -> Gathered:
    report = load_report(run_id, runs_dir)
    gate = apply_policy(wishes.policy, report.diagnosis, report.evidence)
    return Gathered(GateReport(report, gate), unproven_notes(run_id, report.evidence))


def _gather_cited(run_id: str, runs_dir: str | Path, wishes: Wishes) -> Gathered:
    paths = paths_for(runs_dir)
    report = load_report(run_id, runs_dir)
    files = _Files(paths, run_id, "runs" if is_anonymous(report.run) else paths.runs_dir.name)
    cited = CitedReport(
        report=report,
        rules=_rules(),
        citations=files.citations(_cited_by(report)),
        evidence=Citation(files.evidence, None),
        version=__version__,
    )
    return Gathered(cited, unproven_notes(run_id, report.evidence))


def _gather_bundle(run_id: str, runs_dir: str | Path, wishes: Wishes) -> Gathered:
    paths = paths_for(runs_dir)
    report = load_report(run_id, runs_dir)
    evidence = paths.evidence_summary_path(run_id)
    seal = report.run.seal
    if seal is None or file_digest(evidence) != seal.digest:
        message = f"the evidence of {run_id} is not what was sealed, and proves nothing"
        raise BrokenRecordError(message, fix=f"critiqor verify {run_id}")
    hidden = is_anonymous(report.run)
    files = [
        _json("run.json", report.run),
        _text("report.md", b"".join(markdown.report(report))),
    ]
    if wishes.pages is not None:
        files.append(_text("report.html", b"".join(wishes.pages(run_id, runs_dir))))
    if hidden:
        files += [_json("diagnosis.json", report.diagnosis), _text("README.txt", _ANONYMOUS.encode())]
        files.append(BundledFile("events.jsonl", seal.bytes, lambda: _lines(events_of(run_id, runs_dir))))
        return Gathered(Bundle(run_id, files), ["The sealed evidence and the timeline are not in it."])
    files += [_file("session.json", evidence), _file("diagnosis.json", paths.diagnosis_path(run_id))]
    timeline, sealed = paths.timeline_path(run_id), report.coverage.timeline if report.coverage is not None else None
    if sealed is None:
        return Gathered(Bundle(run_id, files), ["No timeline of OpenClaw: none was sealed."])
    notes = ["timeline.jsonl is as OpenClaw wrote it: nothing in it was redacted."]
    if file_digest(timeline, sealed.bytes) != sealed.digest:
        notes = [f"No timeline of OpenClaw: it is not what was sealed (critiqor verify {run_id})."]
    else:
        files.append(_file("timeline.jsonl", timeline, sealed_bytes(report.run)))
    return Gathered(Bundle(run_id, files), notes)


_GATHER: dict[Material, Callable[[str, str | Path, Wishes], Gathered]] = {
    "trace": _gather_trace,
    "cpu_profiles": _gather_cpu_profiles,
    "recorded": gather_recorded,
    "report": _gather_report,
    "gate": _gather_gate,
    "cited": _gather_cited,
    "bundle": _gather_bundle,
}
"""How what reporters take is gathered."""


def _rules() -> dict[str, Rule]:
    text = resources.files("critiqor.exporters").joinpath("rules.json").read_bytes()
    told = msgspec.json.decode(text, type=dict[str, str])
    return {type_: Rule(meaning, told.get(type_, "")) for type_, meaning in FAILURE_TYPES.items()}


def _cited_by(report: RunReport) -> set[str]:
    findings = report.diagnosis.failure_analysis.findings
    steps = (step.event_id for finding in findings for step in finding.causal_chain)
    return {*map(first_step, findings), *steps}


class _Files:
    """Where the events of a run, and the lines of its timeline, are written down."""

    def __init__(self, paths: SessionPaths, run_id: str, name: str) -> None:
        folder = paths.runs_dir
        self._document = paths.evidence_summary_path(run_id)
        # Below the name of the runs folder: where that is on this machine is nobody's business.
        self.evidence = quote(f"{name}/{self._document.relative_to(folder).as_posix()}")
        self._timeline = quote(f"{name}/{paths.timeline_path(run_id).relative_to(folder).as_posix()}")

    def citations(self, wanted: set[str]) -> dict[str, Citation]:
        """The places of those that are wanted; sealed evidence has one event a line."""
        cited = {name: number for name in wanted if (number := cited_line(name)) is not None}
        found = {name: Citation(self._timeline, number) for name, number in cited.items()}
        try:
            with self._document.open("rb") as file:
                for number, line in enumerate(file, 1):
                    if line.startswith(_ID_START):
                        name = line[len(_ID_START) :].partition(b'"')[0].decode("utf-8", "replace")
                        if name in wanted:
                            found[name] = Citation(self.evidence, number)
        except FileNotFoundError:
            pass
        return found


def _file(name: str, path: Path, limit: int | None = None) -> BundledFile:
    size = path.stat().st_size if limit is None else limit
    return BundledFile(name, size, lambda: _pieces(path, size))


def _json(name: str, document: object) -> BundledFile:
    return _text(name, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def _lines(events: Iterator[Event]) -> Iterator[bytes]:
    return (msgspec.json.encode(event) + b"\n" for event in events)


def _text(name: str, content: bytes) -> BundledFile:
    return BundledFile(name, len(content), lambda: [content])


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        while size > 0 and (piece := file.read(min(_PIECE, size))):
            size -= len(piece)
            yield piece
