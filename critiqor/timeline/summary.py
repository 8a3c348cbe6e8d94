"""Summary of a timeline file."""

from __future__ import annotations

from pathlib import Path

from critiqor.model.timeline import OpenSpan, SlowSpan, SpanFigures, TimelineProcess, TimelineSummary, Turn
from critiqor.model.timestamps import iso_from_datetime, iso_from_ms
from critiqor.storage.journal import read_chunks
from critiqor.timeline.reader.lines import LineReader
from critiqor.timeline.reader.problems import LineProblems
from critiqor.timeline.record_processor import RecordProcessor
from critiqor.timeline.spans import closed_span
from critiqor.timeline.turns.startup import build_startups
from critiqor.timeline.turns.timeline_turns import MAX_TURNS

MAX_PROCESSES_LISTED = 50
MAX_NAMES_LISTED = 300
MAX_OPEN_LISTED = 20


def read_timeline(path: Path, limit: int | None = None) -> TimelineSummary:
    """Summarize a timeline file, or its first `limit` bytes; never fails, whatever the file contains."""
    if path.exists() and not path.is_file():
        return TimelineSummary(present=False, unavailable="it is not a file")
    builder = SummaryBuilder()
    try:
        for data in read_chunks(path, limit):
            builder.feed(data)
    except FileNotFoundError:
        return TimelineSummary(present=False, unavailable="OpenClaw wrote no timeline")
    except OSError as error:
        return TimelineSummary(present=False, unavailable=error.strerror or str(error))
    return builder.summary()


class SummaryBuilder:
    """Builds the summary of a timeline from its bytes, in memory that does not grow with their number."""

    def __init__(self) -> None:
        problems = LineProblems.empty()
        self._aggregator = RecordProcessor(problems.irregular)
        self._reader = LineReader(self._aggregator.take, problems)

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the file; they may end anywhere."""
        self._reader.feed(data)

    def summary(self) -> TimelineSummary:
        """Return the summary. Call once, at the end: remaining bytes count as a torn last line."""
        self._reader.finish()
        self._aggregator.finish()
        reader, aggregator = self._reader, self._aggregator
        processes = aggregator.processes.values()
        open_spans = self._open_spans()
        figures = [span.summary(name) for name, span in aggregator.spans.items()]
        return TimelineSummary(
            present=True,
            bytes=reader.bytes,
            lines=reader.lines,
            events=aggregator.events,
            events_by_type=aggregator.by_type(),
            parse_errors=reader.problems.unreadable.total,
            unreadable=reader.problems.unreadable.summary(),
            irregular=reader.problems.irregular.summary(),
            first_at=iso_from_datetime(min(process.first for process in processes)) if processes else None,
            last_at=iso_from_datetime(max(process.latest for process in processes)) if processes else None,
            processes=self._processes(),
            processes_total=len(processes),
            slowest_spans=self._slowest_spans(),
            span_figures=sorted(figures, key=_most_time_first)[:MAX_NAMES_LISTED],
            repeated_names=sum(each.count > 1 for each in figures),
            loop_samples=aggregator.stalls.samples,
            largest_loop_delay=aggregator.stalls.largest,
            stalls_total=aggregator.stalls.total,
            stalls=aggregator.stalls.summary(),
            providers=aggregator.providers.summary(),
            children=aggregator.children.summary(),
            staging=aggregator.plugins.staging(),
            plugin_loads=aggregator.plugins.loads(),
            open_spans_total=sum(len(process.open) + process.evicted for process in processes),
            open_spans=open_spans[:MAX_OPEN_LISTED],
            startups=build_startups(processes),
            turns_total=sum(process.turns.total for process in processes),
            turns=self._turns(),
        )

    def _processes(self) -> list[TimelineProcess]:
        """Return the processes in the order of their first lines; if there are too many, those with the most events."""
        found = sorted(
            (process.summary() for process in self._aggregator.processes.values()),
            key=lambda process: (-process.events, process.pid or 0),
        )
        return sorted(found[:MAX_PROCESSES_LISTED], key=lambda process: (process.first_at, process.pid or 0))

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
            for record, own in self._aggregator.slowest.items()
            for span in (closed_span(record),)
        ]

    def _turns(self) -> list[Turn]:
        """Return the slowest turns of all processes."""
        turns = [turn for process in self._aggregator.processes.values() for turn in process.turns.slowest.items()]
        turns.sort(key=lambda turn: (turn.start - turn.end, turn.start, turn.pid or 0, turn.name))
        return [turn.summary() for turn in turns[:MAX_TURNS]]

    def _open_spans(self) -> list[OpenSpan]:
        """Return the open spans of all processes, oldest first."""
        processes = self._aggregator.processes.values()
        end = max((process.latest for process in processes), default=None)
        found = [span for process in processes for span in process.open_spans(end)] if end is not None else []
        return sorted(found, key=lambda span: (-span.age_ms, span.started_at, span.pid or 0, span.name))


def _most_time_first(figures: SpanFigures) -> tuple[float, str]:
    return (-figures.total_ms, figures.name)
