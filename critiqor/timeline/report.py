"""The summary of a timeline for people: first what the contract wants in every report, then what goes beyond it.

Events themselves never get in here: they stay in the file, and all figures in the JSON of the summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from critiqor.model.timeline import LineProblem, Role, SpanNode, Startup, TimelineSummary, Turn, TurnSplit
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
    return as_lines(_parts(summary))


def timeline_markdown(summary: TimelineSummary) -> str:
    """As Markdown, to be put under a title of the first level."""
    return as_markdown(_parts(summary))


def _parts(summary: TimelineSummary) -> Iterator[Part]:
    if not summary.present:
        yield Part("Timeline", [Item(0, [f"none: {summary.unavailable or 'unavailable'}"])])
        return
    yield Part("Timeline", _counts(summary))
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
    if summary.turns:
        total = max(summary.turns_total, len(summary.turns))
        yield Part(f"Turns ({_shown(len(summary.turns), total)})", table=_turns(summary))
        for turn in summary.turns[:MOST_TREES]:
            yield _turn(turn)


def _counts(summary: TimelineSummary) -> list[Item]:
    errors = _count(summary.parse_errors, "parse error") if summary.parse_errors else "no parse errors"
    processes = _count(summary.processes_total, "process", "processes")
    items = [Item(0, [f"present: {_count(summary.events, 'event')}, {errors}, {processes}"])]
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
        [_named(span.name, span.detail), ms(span.duration_ms), ms(span.self_ms), _pid(span.pid), _failed(span.failed)]
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
            f"providers: {_count(providers.count, 'request')}, {providers.failed} failed; the slowest took ",
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
        [Name(each.plugin_id), ms(each.load_ms), ms(each.register_ms), _pid(each.pid)]
        for each in summary.plugin_loads[:MOST_ROWS]
    ]
    return Table(["plugin", "load", "register", "pid"], rows)


def _processes(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = [
        [_pid(each.pid), each.role, str(each.events), each.first_at, each.last_at]
        for each in summary.processes[:MOST_ROWS]
    ]
    return Table(["pid", "role", "events", "first", "last"], rows)


def _open(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = [
        [_named(each.name, each.detail), ms(each.age_ms), ms(each.silent_ms), _pid(each.pid)]
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
            cause = ["held by one of ", *_listed(map(Name, stall.suspects))]
        items.append(Item(0, [f"{ms(stall.delay_ms)} at {stall.at}, ", *cause]))
    return items


def _startup(startup: Startup) -> Part:
    until = "until it was ready" if startup.ready else "as far as it was told"
    title = f"Start-up of the {_KINDS[startup.role]}, pid {_pid(startup.pid)}, {until}: {ms(startup.path.duration_ms)}"
    return Part(title, list(_tree(startup.path)))


def _turns(summary: TimelineSummary) -> Table:
    rows: list[list[Piece]] = [
        [Name(turn.agent_run_id or turn.started_at), ms(turn.duration_ms), *_split(turn.split)]
        for turn in summary.turns
    ]
    heads = ["agent run", "took", "before provider", "provider", "tools", "retrying", "after", "unattributed"]
    return Table(heads, rows)


def _split(split: TurnSplit) -> list[str]:
    parts = (split.before_provider_ms, split.with_provider_ms, split.in_tools_ms, split.retrying_ms, split.after_ms)
    return [ms(part) for part in (*parts, split.unattributed_ms)]


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
        yield Item(depth, [f"{when}  ", _named(child.name, child.detail), f"  {ms(child.duration_ms)}{own}{failed}"])
        if depth < DEEPEST:
            yield from _branch(child, begin, shortest, depth + 1)


def ms(duration: float | None) -> str:
    """A duration in the unit that people would use."""
    if duration is None:
        return ""
    if duration < 10:
        return f"{duration:.1f} ms" if duration else "0 ms"
    if duration < 1000:
        return f"{duration:.0f} ms"
    return f"{duration / 1000:.2f} s" if duration < 600_000 else f"{duration / 60_000:.0f} min"


def _named(name: str, detail: str | None) -> Name:
    return Name(f"{name} ({detail})" if detail else name)


def _listed(names: Iterable[Name]) -> list[Piece]:
    pieces: list[Piece] = []
    for name in names:
        pieces += [", ", name] if pieces else [name]
    return pieces


def _or_none(table: Table) -> tuple[Sequence[Item], Table | None]:
    return ((), table) if table.rows else ([Item(0, ["none"])], None)


def _shown(shown: int, total: int) -> str:
    return str(total) if shown == total else f"the slowest {shown} of {total}"


def _count(number: int, noun: str, nouns: str | None = None) -> str:
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def _pid(pid: int | None) -> str:
    return "?" if pid is None else str(pid)


def _failed(failed: bool) -> str:
    return "failed" if failed else ""
