"""The summary of a timeline for people: first what the contract wants in every report, then what goes beyond it.

Events themselves never get in here: they stay in the file, and all figures in the JSON of the summary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from critiqor.model.resources import ResourceUsage
from critiqor.model.timeline import LineProblem, Role, SpanNode, Startup, TimelineSummary, Turn, TurnSplit
from critiqor.timeline.formatting import count_of, listed, memory, ms, named, pid_of
from critiqor.timeline.layout import Item, Name, Part, Piece, Table, as_lines, as_markdown

MOST_ROWS = 12
MOST_STARTUPS = 2
MOST_TREES = 3
DEEPEST = 4
SMALLEST_SHARE = 0.02
"""Of a whole tree; what took less is not shown."""

_KINDS: dict[Role, str] = {
    "gateway": "gateway",
    "agent": "agent's process",
    "command": "command-line process",
    "unknown": "process",
}


def timeline_lines(summary: TimelineSummary) -> list[str]:
    """For a terminal."""
    return as_lines(timeline_parts(summary))


def timeline_markdown(summary: TimelineSummary) -> str:
    """As Markdown, to be put under a title of the first level."""
    return as_markdown(timeline_parts(summary))


def timeline_parts(summary: TimelineSummary) -> Iterator[Part]:
    """What stands in a report, in its order."""
    yield Part("Timeline", [*_warnings(summary), *(_counts(summary) if summary.present else _absence(summary))])
    if summary.present:
        yield from _diagnostics(summary)
    if summary.resources is not None:
        yield _resources(summary.resources)
    if summary.turns:
        total = max(summary.turns_total, len(summary.turns))
        yield Part(f"Turns ({_shown(len(summary.turns), total)})", _caveats(summary.turns), _turns(summary))
        for turn in summary.turns[:MOST_TREES]:
            yield _turn(turn)


def _warnings(summary: TimelineSummary) -> list[Item]:
    if not summary.profiled:
        return []
    return [
        Item(0, ["This run was deeply profiled: everything took longer than it does otherwise."]),
        Item(0, ["Never compare these figures with those of a run that was not profiled."]),
    ]


def _absence(summary: TimelineSummary) -> list[Item]:
    items = [Item(0, [f"OpenClaw's diagnostics are unavailable: {summary.unavailable or 'nobody knows why'}"])]
    if not summary.turns:
        items.append(Item(0, ["and the recorder saw no turn"]))
    return items


def _diagnostics(summary: TimelineSummary) -> Iterator[Part]:
    """What only OpenClaw itself tells."""
    yield Part("Slowest spans", *_or_none(_slowest(summary)))
    yield Part("Repeated span names", *_or_none(_repeated(summary)))
    yield Part("Event loop, providers, child processes", _singles(summary))
    if summary.staging:
        yield Part("Runtime dependencies staged, by plugin", table=_staging(summary))
    if summary.plugin_loads:
        yield Part("Plugins loaded by the gateway", table=_loads(summary))
    yield Part("Processes", table=_processes(summary))
    if summary.open_spans_total:
        yield Part(f"Spans that had not ended ({summary.open_spans_total})", table=_open(summary))
    if summary.stalls_total:
        yield Part(f"Stalls of the event loop ({summary.stalls_total})", _stalls(summary))
    for startup in summary.startups[:MOST_STARTUPS]:
        yield _startup(startup)


def _counts(summary: TimelineSummary) -> list[Item]:
    errors = count_of(summary.parse_errors, "parse error") if summary.parse_errors else "no parse errors"
    processes = count_of(summary.processes_total, "process", "processes")
    items = [Item(0, [f"present: {count_of(summary.events, 'event')}, {errors}, {processes}"])]
    if summary.first_at is not None:
        items.append(Item(0, [f"from {summary.first_at} to {summary.last_at}"]))
    items += [Item(1, ["not readable: ", *_problem(problem)]) for problem in summary.unreadable[:MOST_ROWS]]
    items += [Item(1, ["odd: ", *_problem(problem)]) for problem in summary.irregular[:MOST_ROWS]]
    return items


def _problem(problem: LineProblem) -> list[Piece]:
    what: list[Piece] = [" ", Name(problem.what)] if problem.what else []
    lines = ", ".join(map(str, problem.lines)) + (", …" if problem.count > len(problem.lines) else "")
    noun = "line" if problem.count == 1 else "lines"
    return [problem.kind.replace("_", " "), *what, f", {problem.count} times ({noun} {lines})"]


def _slowest(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = [
        [named(span.name, span.detail), ms(span.duration_ms), ms(span.self_ms), pid_of(span.pid), _failed(span.failed)]
        for span in summary.slowest_spans
    ]
    return Table(["span", "took", "itself", "pid", ""], rows)


def _repeated(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = []
    for each in summary.span_figures:
        if each.count > 1:
            figures = (each.total_ms, each.self_ms, each.p50_ms, each.p95_ms, each.max_ms)
            rows.append([Name(each.name), str(each.count), *map(ms, figures)])
    return Table(["name", "times", "total", "itself", "p50", "p95", "max"], rows[:MOST_ROWS])


def _singles(summary: TimelineSummary) -> list[Item]:
    delay, providers, children = summary.largest_loop_delay, summary.providers, summary.children
    loop: list[Piece] = ["event loop: not sampled" if not summary.loop_samples else "event loop: no delay was measured"]
    if delay is not None:
        loop = [f"event loop: {ms(delay.max_ms)} at most"]
        loop += [", when ", Name(delay.active), " was active"] if delay.active else []
    asked: list[Piece] = ["providers: no request"]
    if providers.slowest is not None:
        slowest = providers.slowest
        told = " ".join(filter(None, (slowest.provider, slowest.operation, slowest.model)))
        asked = [
            f"providers: {count_of(providers.count, 'request')}, {providers.failed} failed; the slowest took ",
            f"{ms(slowest.duration_ms)}, ",
            Name(told),
        ]
    ended: list[Piece] = ["child processes: none ended"]
    if children.count:
        ended = [f"child processes: {children.count} ended, {children.failed} failed"]
        if children.slowest is not None:
            ended += [f"; the slowest took {ms(children.slowest.duration_ms)}, ", Name(children.slowest.command or "?")]
    return [Item(0, loop), Item(0, asked), Item(0, ended)]


def _staging(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = [
        [
            Name(each.plugin_id or "(not told)"),
            str(each.count),
            str(each.failed),
            "" if each.dependencies is None else str(each.dependencies),
            ms(each.total_ms),
            ms(each.max_ms),
        ]
        for each in summary.staging[:MOST_ROWS]
    ]
    return Table(["plugin", "times", "failed", "dependencies", "total", "max"], rows)


def _loads(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = [
        [Name(each.plugin_id), ms(each.load_ms), ms(each.register_ms), pid_of(each.pid)]
        for each in summary.plugin_loads[:MOST_ROWS]
    ]
    return Table(["plugin", "load", "register", "pid"], rows)


def _processes(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = [
        [pid_of(each.pid), each.role, str(each.events), each.first_at, each.last_at]
        for each in summary.processes[:MOST_ROWS]
    ]
    return Table(["pid", "role", "events", "first", "last"], rows)


def _open(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = [
        [named(each.name, each.detail), ms(each.age_ms), ms(each.silent_ms), pid_of(each.pid)]
        for each in summary.open_spans[:MOST_ROWS]
    ]
    return Table(["span", "open for", "then silent", "pid"], rows)


def _stalls(summary: TimelineSummary) -> list[Item]:
    items = []
    for stall in summary.stalls[:MOST_ROWS]:
        cause: list[Piece] = ["cause unknown"]
        if stall.cause is not None:
            cause = ["held by ", Name(stall.cause)]
        elif stall.suspects:
            cause = ["held by one of ", *listed(map(Name, stall.suspects))]
        items.append(Item(0, [f"{ms(stall.delay_ms)} at {stall.at}, ", *cause]))
    return items


def _startup(startup: Startup) -> Part:
    until = "until it was ready" if startup.ready else "as far as it was told"
    title = (
        f"Start-up of the {_KINDS[startup.role]}, pid {pid_of(startup.pid)}, {until}: {ms(startup.path.duration_ms)}"
    )
    return Part(title, list(_tree(startup.path)))


def _resources(usage: ResourceUsage) -> Part:
    looked = f"looked at every {usage.interval_seconds:g} s, {count_of(usage.samples, 'time')}"
    items = [
        Item(0, [f"{memory(usage.peak_rss_bytes)} at most, {usage.cpu_seconds:.1f} s of CPU"]),
        Item(0, [f"{looked}; that took {usage.overhead_seconds:.2f} s of CPU. What lives shorter can be missed."]),
    ]
    rows: list[list[Piece]] = [
        [Name(each.role), str(each.processes), memory(each.peak_rss_bytes), f"{each.cpu_seconds:.1f} s"]
        for each in usage.roles[:MOST_ROWS]
    ]
    table = Table(["role", "processes", "memory at most", "CPU"], rows)
    return Part("Memory and CPU of all processes", items, table)


def _caveats(turns: Sequence[Turn]) -> list[Item]:
    if any(_is_of_recorder(turn) for turn in turns):
        return [Item(0, ["Of a turn that the recorder alone tells of, how it was prepared is not known."])]
    return []


def _is_of_recorder(turn: Turn) -> bool:
    return turn.sources == ["recorder"]


def _turns(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = [
        [Name(turn.agent_run_id or turn.started_at), ms(turn.duration_ms), *_split(turn.split), _teller(turn)]
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
    return Table([*heads, "told by"], rows)


def _teller(turn: Turn) -> str:
    return " and ".join(turn.sources) if len(turn.sources) > 1 else f"{turn.sources[0]} alone"


def _split(split: TurnSplit) -> list[str]:
    parts = (split.before_provider_ms, split.with_provider_ms, split.in_tools_ms, split.between_ms, split.retrying_ms)
    return [ms(part) for part in (*parts, split.after_ms, split.unattributed_ms)]


def _turn(turn: Turn) -> Part:
    items = list(_tree(turn.tree))
    for gap in turn.split.gaps:
        if gap.duration_ms >= SMALLEST_SHARE * turn.duration_ms:
            told: list[Piece] = [
                f"unattributed: {ms(gap.duration_ms)} between ",
                Name(gap.after),
                " and ",
                Name(gap.before),
            ]
            items.append(Item(0, told))
    if turn.overlapped:
        items.append(Item(0, ["another turn was prepared at the same time: its preparation can be among this one's"]))
    if not turn.ended:
        items.append(Item(0, ["its end was not seen"]))
    return Part(f"Turn of {turn.started_at}: {ms(turn.duration_ms)}", items)


def _tree(root: SpanNode) -> Iterator[Item]:
    return _branch(root, root.start_ms, SMALLEST_SHARE * root.duration_ms, 0)


def _branch(node: SpanNode, begin: float, shortest: float, depth: int) -> Iterator[Item]:
    shown = [child for child in node.children if child.duration_ms >= shortest]
    for child in shown:
        failed = ", failed" if child.failed else ""
        inner = child.children and child.self_ms >= shortest
        own = f", {ms(child.self_ms)} itself" if inner else ""
        when = f"+{ms(child.start_ms - begin)}"
        yield Item(depth, [f"{when}  ", named(child.name, child.detail), f"  {ms(child.duration_ms)}{own}{failed}"])
        if depth < DEEPEST:
            yield from _branch(child, begin, shortest, depth + 1)


def _or_none(table: Table) -> tuple[Sequence[Item], Table | None]:
    return ((), table) if table.rows else ([Item(0, ["none"])], None)


def _shown(shown: int, total: int) -> str:
    return str(total) if shown == total else f"the slowest {shown} of {total}"


def _failed(failed: bool) -> str:
    return "failed" if failed else ""
