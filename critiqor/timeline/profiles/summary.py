"""From a folder of profiles to the summary of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from critiqor.model.profiles import ArtifactKind, CpuProfile, NodeReport, ProfileSummary
from critiqor.timeline.profiles.artifacts import TROUBLES, Artifact, Ledger, UnusableError, artifacts_in
from critiqor.timeline.profiles.cpu import read_cpu_profile
from critiqor.timeline.profiles.heap import Allocations
from critiqor.timeline.profiles.hotspots import Hotspots
from critiqor.timeline.profiles.node_reports import read_node_report
from critiqor.timeline.profiles.trace_events import TraceEvents

TOLD_REPORTS = 20
NOT_PROFILED = "the run was not profiled deeply: critiqor monitor openclaw --deep-profile"
NOTHING_YET = "nothing was written so far: Node writes its profiles when it exits"


def summarise_profiles(folder: Path) -> ProfileSummary:
    """The summary of the profiles in a folder; never fails, whatever they hold. One file is in memory at a time."""
    if not folder.is_dir():
        return ProfileSummary(present=False, unavailable=NOT_PROFILED)
    artifacts = artifacts_in(folder)
    if not artifacts:
        return ProfileSummary(present=False, unavailable=NOTHING_YET)
    ledger = Ledger()
    hotspots, allocations = Hotspots(), Allocations()
    for profile in _cpu_profiles(artifacts, ledger):
        hotspots.add(profile)
    for artifact in ledger.readable(_largest_first(artifacts, "heap_profile")):
        try:
            allocations.add(artifact)
        except UnusableError as error:
            ledger.problem(artifact, error.trouble)
        else:
            ledger.used(artifact)
    traces = _trace_events(artifacts, ledger)
    reports = list(_reports(artifacts, ledger))
    return ProfileSummary(
        present=True,
        artifacts=ledger.figures(artifacts),
        problems_total=ledger.problems_total,
        problems=ledger.problems,
        threads_total=hotspots.threads_total,
        threads=hotspots.threads(),
        busy_ms=hotspots.busy_ms,
        profiling_ms=hotspots.tracing_ms,
        by_self_time=hotspots.by_self_time(),
        by_total_time=hotspots.by_total_time(),
        program_by_total_time=hotspots.program_by_total_time(),
        peak_windows=hotspots.windows(),
        held_bytes=allocations.held_bytes,
        allocations=allocations.told(),
        trace_events=traces.total,
        trace_categories=traces.categories(),
        trace_durations=traces.durations(),
        reports=sorted(reports, key=lambda report: report.at or "", reverse=True)[:TOLD_REPORTS],
    )


def read_cpu_profiles(folder: Path, notes: list[str] | None = None) -> Iterator[CpuProfile]:
    """The CPU profiles of a folder that can be read, the largest first, one in memory at a time.

    At the end, `notes` gets a sentence about each of those that cannot.
    """
    ledger = Ledger()
    yield from _cpu_profiles(artifacts_in(folder), ledger)
    if notes is not None:
        notes += [f"{problem.file} is left out: {TROUBLES[problem.trouble]}." for problem in ledger.problems]


def _cpu_profiles(artifacts: list[Artifact], ledger: Ledger) -> Iterator[CpuProfile]:
    for artifact in ledger.readable(_largest_first(artifacts, "cpu_profile")):
        try:
            profile = read_cpu_profile(artifact)
        except UnusableError as error:
            ledger.problem(artifact, error.trouble)
            continue
        ledger.used(artifact)
        yield profile


def _trace_events(artifacts: list[Artifact], ledger: Ledger) -> TraceEvents:
    """The first file of every process before the second of any: start-up is where most of the time goes."""
    events = TraceEvents()
    files = sorted(_of(artifacts, "trace_events"), key=lambda artifact: (artifact.rotation, artifact.pid or 0))
    for artifact in ledger.readable(files, largest=None):
        try:
            trouble = events.add(artifact)
        except UnusableError as error:
            ledger.problem(artifact, error.trouble)
            continue
        ledger.used(artifact)
        if trouble is not None:
            ledger.problem(artifact, trouble)
    return events


def _reports(artifacts: list[Artifact], ledger: Ledger) -> Iterator[NodeReport]:
    for artifact in ledger.readable(_of(artifacts, "diagnostic_report")):
        try:
            report = read_node_report(artifact)
        except UnusableError as error:
            ledger.problem(artifact, error.trouble)
            continue
        ledger.used(artifact)
        yield report


def _of(artifacts: list[Artifact], kind: ArtifactKind) -> list[Artifact]:
    return [artifact for artifact in artifacts if artifact.kind == kind]


def _largest_first(artifacts: list[Artifact], kind: ArtifactKind) -> list[Artifact]:
    return sorted(_of(artifacts, kind), key=lambda artifact: -artifact.bytes)
