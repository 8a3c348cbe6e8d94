"""Anonymized traces and CPU profiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from critiqor.model.profiles import CodeFrame, CpuProfile
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


def _track(part: Slice | Instant) -> Track:
    return Track(part.track.pid, f"OpenClaw: {part.category}")
