"""Timing of several runs: two of them compared, or many of the same kind taken together.

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
    """Median after ÷ median before; null where there is nothing to divide by."""
    p95_ratio: float | None
    least_ratio: float | None
    """By which factor the median had to change at least, to either side, to be believed; null where too few."""
    verdict: TimingVerdict
    """`noise` where the difference may be chance, `too_few` where one run cannot tell."""


class TimingComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What took longer, and what shorter, in one run than in another."""

    summary: str
    """In one sentence; why there is no comparison where there is none."""
    comparable: bool
    profiled_before: bool
    profiled_after: bool
    """Whether a run was deeply profiled. Its figures are never compared with those of a run that was not."""
    spans: list[SpanComparison] = msgspec.field(default_factory=list)
    """Slower ones first, then faster ones, then the rest; among them those that took the most time first."""
    only_before: list[str] = msgspec.field(default_factory=list)
    """Names that only one run has figures of, those that took the most time first."""
    only_after: list[str] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)


class RepeatedFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of a run that was repeated: one value a run, and how these vary."""

    kind: RepeatedKind
    name: str
    runs: int
    """Runs that have a value."""
    median_ms: float
    p95_ms: float
    """The nearest rank: the maximum where there are fewer than twenty runs."""
    max_ms: float
    variance_ms2: float | None
    """Of the sample, in square milliseconds; null for a single run."""


class RepeatedTimings(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was repeated."""

    runs: list[str]
    """Those that are counted."""
    profiled: bool
    """Whether all of them were deeply profiled, or none."""
    figures: list[RepeatedFigures]
    notes: list[str] = msgspec.field(default_factory=list)
