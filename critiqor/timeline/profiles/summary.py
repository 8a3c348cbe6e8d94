"""Summary of a folder of profiles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from critiqor.model.profiles import ArtifactKind, CpuProfile, ProfileSummary
from critiqor.timeline.profiles.artifacts import TROUBLE_TEXTS, Artifact, ArtifactLog, UnusableError, list_artifacts
from critiqor.timeline.profiles.cpu import read_cpu_profile
from critiqor.timeline.profiles.heap import Allocations
from critiqor.timeline.profiles.hotspots import Hotspots
from critiqor.timeline.profiles.node_reports import read_node_report
from critiqor.timeline.profiles.trace_events import TraceEvents

MAX_REPORTS_LISTED = 20
NOT_PROFILED = "the run was not deeply profiled: record with critiqor monitor openclaw --deep-profile"
NOTHING_YET = "nothing written yet: Node writes its profiles when it exits"


def summarise_profiles(folder: Path) -> ProfileSummary:
    """Summarize the profiles in a folder, one file at a time; never fails, whatever the files contain."""
    if not folder.is_dir():
        return ProfileSummary(present=False, unavailable=NOT_PROFILED)
    artifacts = list_artifacts(folder)
    if not artifacts:
        return ProfileSummary(present=False, unavailable=NOTHING_YET)
    log = ArtifactLog()
    hotspots, allocations = Hotspots(), Allocations()
    for profile in _cpu_profiles(artifacts, log):
        hotspots.add(profile)
    for _ in log.read_each(_largest_first(artifacts, "heap_profile"), allocations.add):
        pass
    traces = _trace_events(artifacts, log)
    reports = list(log.read_each(_of_kind(artifacts, "diagnostic_report"), read_node_report))
    return ProfileSummary(
        present=True,
        artifacts=log.figures(artifacts),
        problems_total=log.problems_total,
        problems=log.problems,
        threads_total=hotspots.threads_total,
        threads=hotspots.threads(),
        busy_ms=hotspots.busy_ms,
        profiling_ms=hotspots.tracing_ms,
        by_self_time=hotspots.by_self_time(),
        by_total_time=hotspots.by_total_time(),
        program_by_total_time=hotspots.program_by_total_time(),
        peak_windows=hotspots.windows(),
        held_bytes=allocations.held_bytes,
        allocations=allocations.sites(),
        trace_events=traces.total,
        trace_categories=traces.categories(),
        trace_durations=traces.durations(),
        reports=sorted(reports, key=lambda report: report.at or "", reverse=True)[:MAX_REPORTS_LISTED],
    )


def read_cpu_profiles(folder: Path, notes: list[str] | None = None) -> Iterator[CpuProfile]:
    """Yield the readable CPU profiles of a folder, the largest first, one in memory at a time.

    At the end, a sentence about each unreadable one is appended to `notes`.
    """
    log = ArtifactLog()
    yield from _cpu_profiles(list_artifacts(folder), log)
    if notes is not None:
        notes += [f"{problem.file} is left out: {TROUBLE_TEXTS[problem.trouble]}." for problem in log.problems]


def _cpu_profiles(artifacts: list[Artifact], log: ArtifactLog) -> Iterator[CpuProfile]:
    return log.read_each(_largest_first(artifacts, "cpu_profile"), read_cpu_profile)


def _trace_events(artifacts: list[Artifact], log: ArtifactLog) -> TraceEvents:
    """Read the first file of every process before any second one: the first covers start-up."""
    events = TraceEvents()
    files = sorted(_of_kind(artifacts, "trace_events"), key=lambda artifact: (artifact.rotation, artifact.pid or 0))
    for artifact in log.readable(files, largest=None):
        try:
            trouble = events.add(artifact)
        except UnusableError as error:
            log.add_problem(artifact, error.trouble)
            continue
        log.add_used(artifact)
        if trouble is not None:
            log.add_problem(artifact, trouble)
    return events


def _of_kind(artifacts: list[Artifact], kind: ArtifactKind) -> list[Artifact]:
    return [artifact for artifact in artifacts if artifact.kind == kind]


def _largest_first(artifacts: list[Artifact], kind: ArtifactKind) -> list[Artifact]:
    return sorted(_of_kind(artifacts, kind), key=lambda artifact: -artifact.bytes)
