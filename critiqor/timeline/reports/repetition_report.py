"""Report of a run that was repeated: how much its times vary."""

from __future__ import annotations

from critiqor.model.formatting import counted
from critiqor.model.timeline import RepeatedFigures, RepeatedKind, RepeatedTimings
from critiqor.timeline.reports.formatting import ms
from critiqor.timeline.reports.layout import Item, Name, Part, Piece, Table

MAX_ROWS = 20
_TITLES: dict[RepeatedKind, str] = {
    "startup": "Start-up",
    "turn": "Agent runs",
    "turn_part": "Parts of an agent run",
    "provider": "Requests to providers",
    "span": "Spans by name, longest median first",
}
"""In the order of the report."""


def repetition_parts(timings: RepeatedTimings) -> list[Part]:
    """Return the sections of the report on the times of repeated runs."""
    items = [Item(0, [f"{counted(len(timings.runs), 'run')}: ", Name(" ".join(timings.runs))])]
    if timings.profiled:
        items.append(Item(0, ["All of them were recorded with --deep-profile, which makes everything slower."]))
    items.append(Item(0, ["Each run counts as one value: the median, if something happened several times in it."]))
    items += [Item(0, [note]) for note in timings.notes]
    parts = [Part("Repeated runs", items)]
    for kind, title in _TITLES.items():
        rows = [_row(figures) for figures in timings.figures if figures.kind == kind]
        if rows:
            more = [Item(0, [f"the first {MAX_ROWS} of {len(rows)} (--json has all):"])] if len(rows) > MAX_ROWS else []
            heads = ["", "runs", "median", "p95", "max", "deviation", "variance"]
            parts.append(Part(title, more, Table(heads, rows[:MAX_ROWS])))
    return parts


def _row(figures: RepeatedFigures) -> list[Piece]:
    variance_ms2 = figures.variance_ms2
    deviation = "" if variance_ms2 is None else ms(variance_ms2**0.5)
    squared = "" if variance_ms2 is None else f"{variance_ms2:.3g} ms²"
    name = figures.name.replace("_", " ") if figures.kind == "turn_part" else figures.name
    durations = (figures.median_ms, figures.p95_ms, figures.max_ms)
    return [Name(name), str(figures.runs), *map(ms, durations), deviation, squared]
