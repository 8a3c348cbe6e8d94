"""From a file to the summary of it."""

from __future__ import annotations

from pathlib import Path

from critiqor.model.event import iso_from_ms
from critiqor.model.timeline import OpenSpan, SlowSpan, SpanFigures, TimelineProcess, TimelineSummary, Turn
from critiqor.timeline.aggregator import Aggregator
from critiqor.timeline.reader.line_repair import Ledgers
from critiqor.timeline.reader.lines import LineReader
from critiqor.timeline.reader.problems import Problems
from critiqor.timeline.spans import closed_span
from critiqor.timeline.turns.processes import iso_of
from critiqor.timeline.turns.startup import startups_of
from critiqor.timeline.turns.timeline_turns import MOST_TURNS

BLOCK = 1 << 16
MOST_PROCESSES_TOLD = 50
MOST_NAMES_TOLD = 300
MOST_OPEN_TOLD = 20


def read_timeline(path: Path, limit: int | None = None) -> TimelineSummary:
    """The summary of a timeline file, or of its first `limit` bytes; never fails, whatever the file holds."""
    if path.exists() and not path.is_file():
        return TimelineSummary(present=False, unavailable="it is not a file")
    timeline = Timeline()
    left = limit
    try:
        with path.open("rb", buffering=0) as file:
            while data := file.read(BLOCK if left is None else min(BLOCK, left)):
                timeline.feed(data)
                left = None if left is None else left - len(data)
    except FileNotFoundError:
        return TimelineSummary(present=False, unavailable="OpenClaw wrote none")
    except OSError as error:
        return TimelineSummary(present=False, unavailable=error.strerror or str(error))
    return timeline.summary()


class Timeline:
    """A timeline, taken piece by piece, in memory that does not grow with its length."""

    def __init__(self) -> None:
        ledgers = Ledgers(Problems(), Problems())
        self._tally = Aggregator(ledgers.irregular)
        self._reader = LineReader(self._tally.take, ledgers)

    def feed(self, data: bytes) -> None:
        """The next bytes of the file, however they are cut."""
        self._reader.feed(data)

    def summary(self) -> TimelineSummary:
        """What it tells. To be asked once, at the end: what is left over is then taken for a torn last line."""
        self._reader.finish()
        self._tally.finish()
        reader, tally = self._reader, self._tally
        processes = tally.processes.values()
        open_spans = self._open_spans()
        figures = [span.told(name) for name, span in tally.spans.items()]
        return TimelineSummary(
            present=True,
            bytes=reader.bytes,
            lines=reader.lines,
            events=tally.events,
            events_by_type=tally.by_type(),
            parse_errors=reader.ledgers.unreadable.total,
            unreadable=reader.ledgers.unreadable.told(),
            irregular=reader.ledgers.irregular.told(),
            first_at=iso_of(min(process.first for process in processes)) if processes else None,
            last_at=iso_of(max(process.latest for process in processes)) if processes else None,
            processes=self._processes(),
            processes_total=len(processes),
            slowest_spans=self._slowest_spans(),
            span_figures=sorted(figures, key=_most_time_first)[:MOST_NAMES_TOLD],
            repeated_names=sum(each.count > 1 for each in figures),
            loop_samples=tally.stalls.samples,
            largest_loop_delay=tally.stalls.largest,
            stalls_total=tally.stalls.total,
            stalls=tally.stalls.told(),
            providers=tally.providers.told(),
            children=tally.children.told(),
            staging=tally.plugins.staging_told(),
            plugin_loads=tally.plugins.loads_told(),
            open_spans_total=sum(len(process.open) + process.evicted for process in processes),
            open_spans=open_spans[:MOST_OPEN_TOLD],
            startups=startups_of(processes),
            turns_total=sum(process.turns.over for process in processes),
            turns=self._turns(),
        )

    def _processes(self) -> list[TimelineProcess]:
        """In the order of their first lines; where there are very many, those that wrote the most."""
        told = sorted(
            (process.told() for process in self._tally.processes.values()),
            key=lambda told: (-told.events, told.pid or 0),
        )
        return sorted(told[:MOST_PROCESSES_TOLD], key=lambda told: (told.first_at, told.pid or 0))

    def _slowest_spans(self) -> list[SlowSpan]:
        return [
            SlowSpan(
                name=span.name,
                detail=span.detail,
                duration_ms=record.duration_ms or 0.0,
                self_ms=round(own, 3),
                started_at=iso_from_ms(int(span.start)),
                pid=record.pid,
                failed=span.failed,
            )
            for record, own in self._tally.slowest.items()
            for span in (closed_span(record),)
        ]

    def _turns(self) -> list[Turn]:
        """The slowest of all processes."""
        turns = [turn for process in self._tally.processes.values() for turn in process.turns.slowest.items()]
        turns.sort(key=lambda turn: (turn.start - turn.end, turn.start, turn.pid or 0, turn.name))
        return [turn.told() for turn in turns[:MOST_TURNS]]

    def _open_spans(self) -> list[OpenSpan]:
        """The oldest first."""
        processes = self._tally.processes.values()
        end = max((process.latest for process in processes), default=None)
        told = [span for process in processes for span in process.open_spans(end)] if end is not None else []
        return sorted(told, key=lambda span: (-span.age_ms, span.started_at, span.pid or 0, span.name))


def _most_time_first(figures: SpanFigures) -> tuple[float, str]:
    return (-figures.total_ms, figures.name)
