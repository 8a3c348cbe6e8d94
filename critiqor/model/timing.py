"""Structs of timing across runs: two runs compared, or repeated runs aggregated.

All durations are milliseconds, unless a field says otherwise.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from critiqor.model.timeline import SpanFigures

TimingVerdict = Literal["slower", "faster", "noise", "too_few"]
ComparedKind = Literal["span", "provider"]
RepeatedKind = Literal["startup", "turn", "turn_part", "provider", "span"]


class SpanComparison(msgspec.Struct, frozen=True, kw_only=True):
    """All spans of one name, or all requests to providers, in two runs."""

    name: str
    kind: ComparedKind
    before: SpanFigures
    after: SpanFigures
    p50_ratio: float | None
    """Median after ÷ median before; null if the latter is 0."""
    p95_ratio: float | None
    least_ratio: float | None
    """Smallest significant factor by which the median can change; null with too few spans."""
    verdict: TimingVerdict
    """`noise` if the difference may be random, `too_few` if a run has too few spans."""


class TimingComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What became slower and what faster between two runs."""

    summary: str
    """One sentence; the reason if the runs cannot be compared."""
    comparable: bool
    profiled_before: bool
    profiled_after: bool
    """Whether a run was deeply profiled; such a run is compared only with another profiled one."""
    spans: list[SpanComparison] = msgspec.field(default_factory=list)
    """Slower ones first, then faster ones, then the rest; each by time spent."""
    only_before: list[str] = msgspec.field(default_factory=list)
    """Names that only one run has, by time spent."""
    only_after: list[str] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)


class RepeatedFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of repeated runs: one value per run, and their distribution."""

    kind: RepeatedKind
    name: str
    runs: int
    """Runs that have a value."""
    median_ms: float
    p95_ms: float
    """Nearest rank: the maximum with fewer than twenty runs."""
    max_ms: float
    variance_ms2: float | None
    """Sample variance in square milliseconds; null for a single run."""


class RepeatedTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Timings of repeated runs."""

    runs: list[str]
    """Ids of the runs that are counted."""
    profiled: bool
    """Whether all of them were deeply profiled, or none."""
    figures: list[RepeatedFigures]
    notes: list[str] = msgspec.field(default_factory=list)
