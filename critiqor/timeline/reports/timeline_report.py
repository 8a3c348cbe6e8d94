"""Report of a timeline for people: first the sections that the contract requires, then further ones.

A report never contains raw events: they stay in the file, and the JSON of the summary has all figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from critiqor.model.formatting import counted
from critiqor.model.resources import ResourceUsage
from critiqor.model.timeline import LineProblem, Role, SpanNode, Startup, TimelineSummary, Turn, TurnSplit
from critiqor.timeline.reports.formatting import format_pid, join_names, memory, ms, span_label
from critiqor.timeline.reports.layout import Item, Name, Part, Piece, Table, as_lines, as_markdown

MAX_ROWS = 12
MAX_STARTUPS = 2
MAX_TREES = 3
MAX_DEPTH = 4
SMALLEST_SHARE = 0.02
"""Share of a whole tree; shorter spans are not shown."""

_ROLE_NAMES: dict[Role, str] = {
    "gateway": "gateway",
    "agent": "agent process",
    "command": "command-line process",
    "unknown": "process",
}


def timeline_lines(summary: TimelineSummary) -> list[str]:
    """Return the report of a timeline as lines for a terminal."""
    return as_lines(timeline_parts(summary))


def timeline_markdown(summary: TimelineSummary) -> str:
    """Return the report of a timeline as Markdown with headings of level 2."""
    return as_markdown(timeline_parts(summary))


def timeline_parts(summary: TimelineSummary) -> Iterator[Part]:
    """Yield the sections of the report of a timeline in order."""
    yield from contract_parts(summary)
    if summary.present:
        yield from _further_diagnostics(summary)
    if summary.resources is not None:
        yield _resources(summary.resources)
    if summary.turns:
        total = max(summary.turns_total, len(summary.turns))
        yield Part(f"Agent runs ({_shown(len(summary.turns), total)})", _caveats(summary.turns), _turns(summary))
        for turn in summary.turns[:MAX_TREES]:
            yield _turn(turn)


def contract_parts(summary: TimelineSummary) -> Iterator[Part]:
    """Yield the sections about a timeline that every report of a run must have."""
    yield Part("Timeline", [*_warnings(summary), *(_counts(summary) if summary.present else _absence(summary))])
    if summary.present:
        yield Part("Slowest spans", *_or_none(_slowest(summary)))
        yield Part("Repeated span names", *_or_none(_repeated(summary)))
        yield Part("Event loop, providers, child processes", _singles(summary))
        if summary.staging:
            yield Part("Runtime dependencies staged, by plugin", table=_staging(summary))


def _warnings(summary: TimelineSummary) -> list[Item]:
    if not summary.profiled:
        return []
    return [
        Item(0, ["This run was deeply profiled, which makes everything slower."]),
        Item(0, ["Never compare these figures with those of a run that was not profiled."]),
    ]


def _absence(summary: TimelineSummary) -> list[Item]:
    items = [Item(0, [f"OpenClaw's diagnostics are unavailable: {summary.unavailable or 'reason unknown'}"])]
    if not summary.turns:
        items.append(Item(0, ["the recorder saw no agent run"]))
    return items


def _further_diagnostics(summary: TimelineSummary) -> Iterator[Part]:
    """Yield the other sections that only OpenClaw's diagnostics provide."""
    if summary.plugin_loads:
        yield Part("Plugins loaded by the gateway", table=_loads(summary))
    yield Part("Processes", table=_processes(summary))
    if summary.open_spans_total:
        yield Part(f"Spans that had not ended ({summary.open_spans_total})", table=_open(summary))
    if summary.stalls_total:
        yield Part(f"Stalls of the event loop ({summary.stalls_total})", _stalls(summary))
    for startup in summary.startups[:MAX_STARTUPS]:
        yield _startup(startup)


def _counts(summary: TimelineSummary) -> list[Item]:
    errors = counted(summary.parse_errors, "parse error") if summary.parse_errors else "no parse errors"
    processes = counted(summary.processes_total, "process", "processes")
    items = [Item(0, [f"present: {counted(summary.events, 'event')}, {errors}, {processes}"])]
    if summary.first_at is not None:
        items.append(Item(0, [f"from {summary.first_at} to {summary.last_at}"]))
    items += [Item(1, ["unreadable: ", *_problem(problem)]) for problem in summary.unreadable[:MAX_ROWS]]
    items += [Item(1, ["irregular: ", *_problem(problem)]) for problem in summary.irregular[:MAX_ROWS]]
    return items


def _problem(problem: LineProblem) -> list[Piece]:
    what: list[Piece] = [" ", Name(problem.what)] if problem.what else []
    lines = ", ".join(map(str, problem.lines)) + (", …" if problem.count > len(problem.lines) else "")
    noun = "line" if problem.count == 1 else "lines"
    times = f"at least {problem.count}" if problem.at_least else problem.count
    return [problem.kind.replace("_", " "), *what, f", {times} times ({noun} {lines})"]


def _slowest(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = [
        [
            span_label(span.name, span.detail),
            ms(span.duration_ms),
            ms(span.self_ms),
            format_pid(span.pid),
            _failed(span.failed),
        ]
        for span in summary.slowest_spans
    ]
    return Table(["span", "took", "self", "pid", ""], rows)


def _repeated(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = []
    for each in summary.span_figures:
        if each.count > 1:
            figures = (each.total_ms, each.self_ms, each.p50_ms, each.p95_ms, each.max_ms)
            rows.append([Name(each.name), str(each.count), *map(ms, figures)])
    return Table(["name", "times", "total", "self", "p50", "p95", "max"], rows[:MAX_ROWS])


def _singles(summary: TimelineSummary) -> list[Item]:
    delay, providers, children = summary.largest_loop_delay, summary.providers, summary.children
    loop: list[Piece] = ["event loop: not sampled" if not summary.loop_samples else "event loop: no delay measured"]
    if delay is not None:
        loop = [f"event loop: longest delay {ms(delay.max_ms)}"]
        loop += [", while ", Name(delay.active), " was active"] if delay.active else []
    requests: list[Piece] = ["providers: no requests"]
    if providers.slowest is not None:
        slowest = providers.slowest
        request = " ".join(filter(None, (slowest.provider, slowest.operation, slowest.model)))
        requests = [
            f"providers: {counted(providers.count, 'request')}, {providers.failed} failed; the slowest took ",
            f"{ms(slowest.duration_ms)}, ",
            Name(request),
        ]
    ended: list[Piece] = ["child processes: none ended"]
    if children.count:
        ended = [f"child processes: {children.count} ended, {children.failed} failed"]
        if children.slowest is not None:
            ended += [f"; the slowest took {ms(children.slowest.duration_ms)}, ", Name(children.slowest.command or "?")]
    return [Item(0, loop), Item(0, requests), Item(0, ended)]


def _staging(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = [
        [
            Name(each.plugin_id or "(unknown)"),
            str(each.count),
            str(each.failed),
            "" if each.dependencies is None else str(each.dependencies),
            ms(each.total_ms),
            ms(each.max_ms),
        ]
        for each in summary.staging[:MAX_ROWS]
    ]
    return Table(["plugin", "times", "failed", "dependencies", "total", "max"], rows)


def _loads(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = [
        [Name(each.plugin_id), ms(each.load_ms), ms(each.register_ms), format_pid(each.pid)]
        for each in summary.plugin_loads[:MAX_ROWS]
    ]
    return Table(["plugin", "load", "register", "pid"], rows)


def _processes(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = [
        [format_pid(each.pid), each.role, str(each.events), each.first_at, each.last_at]
        for each in summary.processes[:MAX_ROWS]
    ]
    return Table(["pid", "role", "events", "first", "last"], rows)


def _open(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = [
        [span_label(each.name, each.detail), ms(each.age_ms), ms(each.silent_ms), format_pid(each.pid)]
        for each in summary.open_spans[:MAX_ROWS]
    ]
    return Table(["span", "open for", "then silent", "pid"], rows)


def _stalls(summary: TimelineSummary) -> list[Item]:
    items = []
    for stall in summary.stalls[:MAX_ROWS]:
        cause: list[Piece] = ["cause unknown"]
        if stall.cause is not None:
            cause = ["blocked by ", Name(stall.cause)]
        elif stall.suspects:
            cause = ["blocked by one of ", *join_names(map(Name, stall.suspects))]
        items.append(Item(0, [f"{ms(stall.delay_ms)} at {stall.at}, ", *cause]))
    return items


def _startup(startup: Startup) -> Part:
    until = "until ready" if startup.ready else "until its first work or last span"
    process = f"{_ROLE_NAMES[startup.role]}, pid {format_pid(startup.pid)}"
    return Part(f"Start-up of the {process}, {until}: {ms(startup.path.duration_ms)}", list(_tree(startup.path)))


def _resources(usage: ResourceUsage) -> Part:
    sampling = f"sampled every {usage.interval_seconds:g} s, {counted(usage.samples, 'time')}"
    items = [
        Item(0, [f"peak memory {memory(usage.peak_rss_bytes)}, {usage.cpu_seconds:.1f} s of CPU"]),
        Item(
            0, [f"{sampling}; sampling took {usage.overhead_seconds:.2f} s of CPU and can miss short-lived processes"]
        ),
    ]
    rows: list[list[Piece]] = [
        [Name(each.role), str(each.processes), memory(each.peak_rss_bytes), f"{each.cpu_seconds:.1f} s"]
        for each in usage.roles[:MAX_ROWS]
    ]
    table = Table(["role", "processes", "peak memory", "CPU"], rows)
    return Part("Memory and CPU of all processes", items, table)


def _caveats(turns: Sequence[Turn]) -> list[Item]:
    if any(_is_recorder_only(turn) for turn in turns):
        return [Item(0, ["If the source is the recorder only, the time before the first model call is unknown."])]
    return []


def _is_recorder_only(turn: Turn) -> bool:
    return turn.sources == ["recorder"]


def _turns(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = [
        [Name(turn.agent_run_id or turn.started_at), ms(turn.duration_ms), *_split(turn.split), _sources(turn)]
        for turn in summary.turns
    ]
    heads = [
        "agent run",
        "took",
        "before provider",
        "provider",
        "tools",
        "between",
        "retrying",
        "after",
        "unattributed",
    ]
    return Table([*heads, "source"], rows)


def _sources(turn: Turn) -> str:
    return " and ".join(turn.sources) if len(turn.sources) > 1 else f"{turn.sources[0]} only"


def _split(split: TurnSplit) -> list[str]:
    parts = (split.before_provider_ms, split.with_provider_ms, split.in_tools_ms, split.between_ms, split.retrying_ms)
    return [ms(part) for part in (*parts, split.after_ms, split.unattributed_ms)]


def _turn(turn: Turn) -> Part:
    items = list(_tree(turn.tree))
    for gap in turn.split.gaps:
        if gap.duration_ms >= SMALLEST_SHARE * turn.duration_ms:
            pieces: list[Piece] = [
                f"unattributed: {ms(gap.duration_ms)} between ",
                Name(gap.after),
                " and ",
                Name(gap.before),
            ]
            items.append(Item(0, pieces))
    if turn.overlapped:
        items.append(
            Item(
                0, ["another agent run was prepared at the same time; some of this preparation may belong to that one"]
            )
        )
    if not turn.ended:
        items.append(Item(0, ["its end was not seen"]))
    return Part(f"Agent run started at {turn.started_at}: {ms(turn.duration_ms)}", items)


def _tree(root: SpanNode) -> Iterator[Item]:
    return _branch(root, root.start_ms, SMALLEST_SHARE * root.duration_ms, 0)


def _branch(node: SpanNode, begin: float, shortest: float, depth: int) -> Iterator[Item]:
    shown = [child for child in node.children if child.duration_ms >= shortest]
    for child in shown:
        failed = ", failed" if child.failed else ""
        inner = child.children and child.self_ms >= shortest
        own = f", {ms(child.self_ms)} self" if inner else ""
        when = f"+{ms(child.start_ms - begin)}"
        yield Item(
            depth, [f"{when}  ", span_label(child.name, child.detail), f"  {ms(child.duration_ms)}{own}{failed}"]
        )
        if depth < MAX_DEPTH:
            yield from _branch(child, begin, shortest, depth + 1)


def _or_none(table: Table) -> tuple[Sequence[Item], Table | None]:
    return ((), table) if table.rows else ([Item(0, ["none"])], None)


def _shown(shown: int, total: int) -> str:
    return str(total) if shown == total else f"the slowest {shown} of {total}"


def _failed(failed: bool) -> str:
    return "failed" if failed else ""
