"""Anonymized traces, CPU profiles and summaries of timelines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from critiqor.model.profiles import CodeFrame, CpuProfile
from critiqor.model.timeline import TimelineSummary
from critiqor.model.trace import Counter, Instant, Part, Slice, Track

_OF_V8 = frozenset({"(root)", "(program)", "(idle)", "(garbage collector)"})


def anonymous_parts(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield the parts of a trace, named by their category; counters keep their names, which Critiqor chose."""
    for part in parts:
        if isinstance(part, Slice):
            yield Slice(
                track=_track(part),
                name=part.category,
                category=part.category,
                start_us=part.start_us,
                end_us=part.end_us,
                depth=part.depth,
                finished=part.finished,
                failed=part.failed,
            )
        elif isinstance(part, Instant):
            yield Instant(track=_track(part), name=part.category, category=part.category, at_us=part.at_us)
        else:
            yield Counter(pid=part.pid, name=part.name, unit=part.unit, at_us=part.at_us, figures=part.figures)


def anonymous_profile(profile: CpuProfile) -> CpuProfile:
    """Return a CPU profile with functions replaced by numbers; the call tree and the times are kept."""
    frames = [
        CodeFrame(frame.name if frame.name in _OF_V8 else f"function {number}")
        for number, frame in enumerate(profile.frames, 1)
    ]
    return msgspec.structs.replace(profile, frames=frames)


def anonymous_timing(summary: TimelineSummary) -> TimelineSummary:
    """Return the figures of a timeline that reports show, with spans, plugins, providers and programs unnamed."""
    delay, slowest, child = summary.largest_loop_delay, summary.providers.slowest, summary.children.slowest
    replace = msgspec.structs.replace
    names: dict[str, str] = {}

    def span_name(name: str) -> str:
        return names.setdefault(name, f"span {len(names) + 1}")

    return TimelineSummary(
        present=summary.present,
        unavailable=summary.unavailable and "the reason is left out",
        profiled=summary.profiled,
        events=summary.events,
        parse_errors=summary.parse_errors,
        processes_total=summary.processes_total,
        slowest_spans=[replace(each, name=span_name(each.name), detail=None) for each in summary.slowest_spans],
        span_figures=[replace(each, name=span_name(each.name)) for each in summary.span_figures],
        loop_samples=summary.loop_samples,
        largest_loop_delay=replace(delay, active=None) if delay is not None else None,
        providers=replace(
            summary.providers,
            slowest=slowest and replace(slowest, provider="a provider", operation=None, model=None),
        ),
        children=replace(summary.children, slowest=child and replace(child, command="a program"), failures=[]),
        staging=[replace(each, plugin_id=f"plugin {number}") for number, each in enumerate(summary.staging, 1)],
    )


def _track(part: Slice | Instant) -> Track:
    return Track(part.track.pid, f"OpenClaw: {part.category}")
