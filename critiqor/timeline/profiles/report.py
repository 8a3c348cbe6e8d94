"""Report of deep profiles for people: figures and short names, no raw content of the profiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from critiqor.model.formatting import counted, format_size
from critiqor.model.profiles import (
    ArtifactKind,
    CodeFrame,
    FunctionShare,
    FunctionTime,
    ProfileSummary,
)
from critiqor.timeline.profiles.artifacts import TROUBLE_TEXTS
from critiqor.timeline.reports.formatting import format_pid, ms
from critiqor.timeline.reports.layout import Item, Name, Part, Piece, Table, as_lines, as_markdown

MAX_ROWS = 12

_KINDS: dict[ArtifactKind, str] = {
    "cpu_profile": "CPU profiles",
    "heap_profile": "heap profiles",
    "trace_events": "trace events",
    "diagnostic_report": "diagnostic reports",
    "heap_snapshot": "heap snapshots",
    "other": "other files",
}


def profile_lines(summary: ProfileSummary) -> list[str]:
    """Return the report of deep profiles as lines for a terminal."""
    return as_lines(_parts(summary))


def profile_markdown(summary: ProfileSummary) -> str:
    """Return the report of deep profiles as Markdown with headings of level 2."""
    return as_markdown(_parts(summary))


def _parts(summary: ProfileSummary) -> Iterator[Part]:
    if not summary.present:
        yield Part("Deep profiles", [Item(0, [f"none: {summary.unavailable or 'unavailable'}"])])
        return
    yield Part("Deep profiles", table=_artifacts(summary))
    if summary.problems_total:
        yield Part(f"Files with problems ({summary.problems_total})", _problems(summary))
    if summary.threads_total:
        yield Part(f"CPU time: {_busy(summary)}", table=_threads(summary))
    if summary.by_total_time:
        yield Part("Functions by self time", table=_functions(summary.by_self_time))
        yield Part("Functions by total time, callees included", table=_functions(summary.by_total_time))
    if summary.program_by_total_time:
        yield Part("Functions by total time, without Node's own", table=_functions(summary.program_by_total_time))
    if summary.peak_windows:
        yield Part("Busiest windows", _windows(summary))
    if summary.allocations:
        title = f"Memory still held when the profiles were written: about {format_size(summary.held_bytes)}"
        yield Part(title, table=_allocations(summary))
    if summary.trace_events:
        yield Part(f"Trace events ({summary.trace_events})", table=_categories(summary))
    if summary.trace_durations:
        yield Part("Longest trace events", table=_durations(summary))
    if summary.reports:
        yield Part("Diagnostic reports", table=_reports(summary))


def _artifacts(summary: ProfileSummary) -> Table:
    rows: list[list[Piece]] = [
        [_KINDS[each.kind], str(each.files), format_size(each.bytes), _used(each.kind, each.used)]
        for each in summary.artifacts
    ]
    return Table(["kind", "files", "size", "used"], rows)


def _used(kind: ArtifactKind, number: int) -> str:
    return "only counted" if kind in ("heap_snapshot", "other") else str(number)


def _problems(summary: ProfileSummary) -> list[Item]:
    items = [
        Item(0, [Name(each.file), f" ({format_size(each.bytes)}): {TROUBLE_TEXTS[each.trouble]}"])
        for each in summary.problems
    ]
    more = summary.problems_total - len(summary.problems)
    return [*items, Item(0, [f"and {more} more"])] if more else items


def _busy(summary: ProfileSummary) -> str:
    own = f", {ms(summary.profiling_ms)} of it for writing trace events" if summary.profiling_ms else ""
    return f"{ms(summary.busy_ms)} in {counted(summary.threads_total, 'thread')}{own}"


def _threads(summary: ProfileSummary) -> Table:
    rows: list[list[Piece]] = []
    for each in summary.threads[:MAX_ROWS]:
        most: Piece = _frame_label(each.functions[0].function) if each.functions else ""
        figures = (ms(each.duration_ms), ms(each.busy_ms), ms(each.collecting_ms))
        rows.append([_thread_label(each.pid, each.thread), each.started_at or "?", *figures, most])
    return Table(["pid", "started", "lasted", "busy", "garbage", "mostly in"], rows)


def _functions(times: Sequence[FunctionTime]) -> Table:
    rows: list[list[Piece]] = [
        [_frame_label(each.function), ms(each.self_ms), ms(each.total_ms)] for each in times[:MAX_ROWS]
    ]
    return Table(["function", "self", "total"], rows)


def _windows(summary: ProfileSummary) -> list[Item]:
    items = []
    for each in summary.peak_windows:
        share = f"{each.busy_ms / each.duration_ms:.0%}" if each.duration_ms else "?"
        when = f" ({each.at})" if each.at else ""
        thread = _thread_label(each.pid, each.thread)
        pieces: list[Piece] = [f"pid {thread}, +{ms(each.offset_ms)}{when}: {share} of {ms(each.duration_ms)} busy"]
        items.append(Item(0, [*pieces, *_dominated(each.functions)]))
    return items


def _dominated(functions: Sequence[FunctionShare]) -> list[Piece]:
    pieces: list[Piece] = []
    for each in functions:
        pieces += [", " if pieces else ": ", _frame_label(each.function), f" {ms(each.self_ms)}"]
    return pieces


def _allocations(summary: ProfileSummary) -> Table:
    rows: list[list[Piece]] = [
        [_frame_label(each.function), format_size(each.self_bytes), format_size(each.total_bytes)]
        for each in summary.allocations[:MAX_ROWS]
    ]
    return Table(["allocated by", "self", "total"], rows)


def _categories(summary: ProfileSummary) -> Table:
    rows: list[list[Piece]] = [[Name(each.category), str(each.events)] for each in summary.trace_categories[:MAX_ROWS]]
    return Table(["category", "events"], rows)


def _durations(summary: ProfileSummary) -> Table:
    rows: list[list[Piece]] = [
        [Name(each.name), str(each.count), ms(each.total_ms), ms(each.max_ms), Name(each.category)]
        for each in summary.trace_durations[:MAX_ROWS]
    ]
    return Table(["name", "times", "total", "max", "category"], rows)


def _reports(summary: ProfileSummary) -> Table:
    rows: list[list[Piece]] = []
    for each in summary.reports[:MAX_ROWS]:
        figures = (each.heap_used_bytes, each.heap_total_bytes, each.heap_limit_bytes, each.external_bytes)
        rows.append([each.at or "?", format_pid(each.pid), each.trigger or "?", *map(format_size, figures)])
    return Table(["at", "pid", "trigger", "heap used", "heap", "heap limit", "external"], rows)


def _frame_label(frame: CodeFrame) -> Name:
    if frame.file is None:
        return Name(frame.name)
    where = frame.file if frame.line is None else f"{frame.file}:{frame.line}"
    return Name(f"{frame.name} ({where})")


def _thread_label(pid: int | None, thread: int | None) -> str:
    return f"{format_pid(pid)} thread {thread}" if thread else format_pid(pid)
