"""Report of the comparison of two timelines: a summary and a table of the span names."""

from __future__ import annotations

from collections.abc import Iterable

from critiqor.model.timeline import SpanComparison, TimingComparison
from critiqor.timeline.comparison import VERDICT_TEXTS
from critiqor.timeline.reports.formatting import join_names, ms
from critiqor.timeline.reports.layout import Item, Name, Part, Piece, Table

MAX_ROWS = 12
MAX_NAMES = 8


def comparison_parts(comparison: TimingComparison) -> list[Part]:
    """Return the sections of the report that compares the timelines of two runs."""
    items = [Item(0, [comparison.summary])]
    shown = comparison.spans[:MAX_ROWS]
    for label, names in (("only before", comparison.only_before), ("only after", comparison.only_after)):
        if names:
            more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
            items.append(Item(0, [f"{label}: ", *join_names(map(Name, names[:MAX_NAMES])), more]))
    items += [Item(0, [note]) for note in comparison.notes]
    if len(comparison.spans) > len(shown):
        items.append(Item(0, [f"the first {len(shown)} of {len(comparison.spans)} names (--json has all):"]))
    return [Part("Timing", items, _table(shown) if shown else None)]


def _table(spans: Iterable[SpanComparison]) -> Table:
    rows: list[list[Piece]] = []
    for span in spans:
        before, after = span.before, span.after
        rows.append(
            [
                Name(span.name),
                f"{before.count} → {after.count}",
                f"{ms(before.p50_ms)} → {ms(after.p50_ms)}",
                f"{ms(before.p95_ms)} → {ms(after.p95_ms)}",
                "" if span.p50_ratio is None else f"x{span.p50_ratio:.2f}",
                "" if span.least_ratio is None else f"x{span.least_ratio:.2f}",
                VERDICT_TEXTS[span.verdict],
            ]
        )
    return Table(["name", "times", "p50", "p95", "ratio", "noise up to", ""], rows)
