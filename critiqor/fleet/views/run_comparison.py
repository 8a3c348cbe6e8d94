"""Comparison of two runs of a store by their newest diagnoses."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from critiqor.comparison.compare import Comparison, compare
from critiqor.comparison.figures import format_figures
from critiqor.fleet.reference import find_run, parse_reference
from critiqor.fleet.store.diagnoses import read_latest_diagnosis
from critiqor.fleet.store.object_store import FleetStore
from critiqor.model.timeline import TimelineSummary, TimingComparison
from critiqor.model.verdict import fresh_verdict
from critiqor.timeline.comparison import compare_timelines


class FleetComparison(NamedTuple):
    """Two runs compared, with trust, cost and time of both as text."""

    result: Comparison
    timing: TimingComparison
    texts: tuple[dict[str, str], dict[str, str]]
    hosts: tuple[str, str]


def compare_in_fleet(store: FleetStore, before: str, after: str) -> FleetComparison:
    """Compare two runs that are named `HOST/RUN`. Raise an error if one is missing or its bundle is damaged."""
    references = [parse_reference(name) for name in (before, after)]
    manifests = [find_run(store, reference) for reference in references]
    first, second = (
        msgspec.structs.replace(read_latest_diagnosis(store, manifest), run_id=str(reference))
        for manifest, reference in zip(manifests, references, strict=True)
    )
    timings = [each.timeline or TimelineSummary(present=False) for each in (first, second)]
    timing = compare_timelines(*timings, profiled_before=timings[0].profiled, profiled_after=timings[1].profiled)
    texts = format_figures(first, fresh_verdict(first)), format_figures(second, fresh_verdict(second))
    return FleetComparison(compare(first, second), timing, texts, (references[0].host, references[1].host))
