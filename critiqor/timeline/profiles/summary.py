"""Summary of a folder of profiles."""

from __future__ import annotations

from pathlib import Path

from critiqor.model.profiles import ProfileSummary
from critiqor.timeline.profiles.artifacts import (
    Artifact,
    ArtifactLog,
    UnusableError,
    artifacts_of_kind,
    largest_artifacts,
    list_artifacts,
)
from critiqor.timeline.profiles.cpu_hotspots import Hotspots
from critiqor.timeline.profiles.cpu_reader import read_listed_cpu_profiles
from critiqor.timeline.profiles.heap import Allocations
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
    for profile in read_listed_cpu_profiles(artifacts, log):
        hotspots.add(profile)
    for _ in log.read_each(largest_artifacts(artifacts, "heap_profile"), allocations.add):
        pass
    traces = _trace_events(artifacts, log)
    reports = list(log.read_each(artifacts_of_kind(artifacts, "diagnostic_report"), read_node_report))
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


def _trace_events(artifacts: list[Artifact], log: ArtifactLog) -> TraceEvents:
    """Read the first file of every process before any second one: the first covers start-up."""
    events = TraceEvents()
    files = sorted(
        artifacts_of_kind(artifacts, "trace_events"), key=lambda artifact: (artifact.rotation, artifact.pid or 0)
    )
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
