"""Properties of every timeline: the order of processes does not matter, and a part contains no more than the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from timelines import Line, data_of, end, line, request, sample, start, summary_of, without_line_numbers

from critiqor.model.timeline import TimelineSummary

NAMES = st.sampled_from(["config.load", "plugins.load", "agent.turn", "runtimeDeps.stage", "gateway.ready", "reply.x"])
IDS = st.sampled_from(["1", "2", "3", "4"])
TOOK = st.sampled_from([0.0, 0.25, 3.0, 95.5, 120.0, 4000.0])
RUNS = st.sampled_from(["run-a", "run-b", "run-c"])
STAGES = st.sampled_from(["session-state", "attempt.setup"])


@st.composite
def processes_own_lines(draw: st.DrawFn, pid: int) -> list[Line]:
    """Return lines of one process, valid or not, in order; sometimes its clock is set back."""
    lines = []
    now = 100_000.0
    for _ in range(draw(st.integers(0, 14))):
        now += draw(st.sampled_from([0, 1, 50, 300, 20_000, -500]))
        lines.append(draw(one_line(now, pid)))
    return lines


@st.composite
def one_line(draw: st.DrawFn, now: float, pid: int) -> Line:
    def some(**options: st.SearchStrategy[Any]) -> dict[str, Any]:
        return {name: draw(values) for name, values in options.items() if draw(st.booleans())}

    kind = draw(
        st.sampled_from(["start", "start", "end", "end", "error", "mark", "sample", "request", "step", "other"])
    )
    if kind == "start":
        return start(draw(NAMES), draw(IDS), now, pid=pid, **some(parentSpanId=IDS, phase=st.just("agent-turn")))
    if kind == "end":
        took = draw(st.none() | TOOK)
        return end(draw(NAMES), draw(IDS), now, took, pid=pid, **some(parentSpanId=IDS, phase=st.just("startup")))
    if kind == "error":
        return line("span.error", draw(NAMES), now, pid=pid, spanId=draw(IDS), durationMs=draw(TOOK))
    if kind == "mark":
        return line("mark", draw(st.sampled_from(["gateway.ready", "m"])), now, pid=pid, **some(durationMs=TOOK))
    if kind == "sample":
        return sample(draw(TOOK), now, draw(st.none() | NAMES), pid=pid)
    if kind == "request":
        return request(draw(RUNS), 1, now - 50, draw(TOOK), pid=pid, **some(ok=st.booleans()))
    if kind == "step":
        stage = {"stage": draw(STAGES)}
        return end("agent.prepare", draw(IDS), now, draw(TOOK), pid=pid, phase="agent.prepare", attributes=stage)
    exited = {"command": "node x", "exitCode": draw(st.sampled_from([0, 1]))}
    return line(draw(st.sampled_from(["childProcess.exit", "gc"])), "c", now, pid=pid, durationMs=draw(TOOK), **exited)


@st.composite
def interleaved(draw: st.DrawFn, of_processes: Sequence[Sequence[Line]]) -> list[Line]:
    """Return the lines of several processes interleaved, each process in order."""
    order = draw(st.permutations([pid for pid, lines in enumerate(of_processes) for _ in lines]))
    left = [iter(lines) for lines in of_processes]
    return [next(left[pid]) for pid in order]


@given(st.data())
def test_the_order_in_which_processes_take_turns_makes_no_difference(data: st.DataObject) -> None:
    of_processes = [data.draw(processes_own_lines(pid)) for pid in (101, 102, 103)]
    one_after_the_other = [each for lines in of_processes for each in lines]
    mixed = data.draw(interleaved(of_processes))
    expected = without_line_numbers(summary_of(*one_after_the_other))
    assert without_line_numbers(summary_of(*mixed)) == expected


@given(st.data())
def test_a_process_has_the_same_summary_alone_and_among_others(data: st.DataObject) -> None:
    of_processes = [data.draw(processes_own_lines(pid)) for pid in (101, 102)]
    mixed = without_line_numbers(summary_of(*data.draw(interleaved(of_processes))))
    alone = [without_line_numbers(summary_of(*lines)) for lines in of_processes]
    for each in alone:
        for part in ("processes", "turns", "stalls", "startups"):
            assert all(item in mixed[part] for item in each[part])
    assert sum(each["open_spans_total"] for each in alone) == mixed["open_spans_total"]


@given(st.data())
def test_a_cut_file_contains_nothing_that_the_whole_one_does_not(data: st.DataObject) -> None:
    lines: list[Line | bytes] = [*data.draw(processes_own_lines(101)), *data.draw(processes_own_lines(102))]
    for _ in range(data.draw(st.integers(0, 2))):
        lines.insert(data.draw(st.integers(0, len(lines))), b"nonsense\n")
    whole_data = data_of(*lines)
    cut = data.draw(st.integers(0, len(whole_data)))
    part, whole = summary_of(whole_data[:cut]), summary_of(whole_data)

    ended = whole_data[:cut].split(b"\n")
    good = sum(each.startswith(b"{") for each in ended[:-1]) + ended[-1].endswith(b'"}')
    assert part.events <= whole.events
    assert good <= part.events <= good + 1
    assert all(count <= whole.events_by_type[kind] for kind, count in part.events_by_type.items())
    assert_problems_are_those_of(part, whole)
    assert_figures_are_within(part, whole)
    assert {turn.agent_run_id for turn in part.turns} <= {turn.agent_run_id for turn in whole.turns} | {None}
    assert all(stall in whole.stalls for stall in part.stalls)
    assert part.stalls_total <= whole.stalls_total
    for process in part.processes:
        later = next(each for each in whole.processes if each.pid == process.pid)
        assert (process.first_at, process.events) <= (later.first_at, later.events)


def assert_problems_are_those_of(part: TimelineSummary, whole: TimelineSummary) -> None:
    known = {(each.kind, each.what): each for each in [*whole.unreadable, *whole.irregular]}
    for problem in [*part.unreadable, *part.irregular]:
        if problem.kind != "torn_tail":
            later = known[problem.kind, problem.what]
            assert problem.count <= later.count
            assert problem.lines == later.lines[: len(problem.lines)]


def assert_figures_are_within(part: TimelineSummary, whole: TimelineSummary) -> None:
    figures = {each.name: each for each in whole.span_figures}
    for each in part.span_figures:
        later = figures[each.name]
        assert (each.count, each.failed) <= (later.count, later.failed + each.count)
        assert each.max_ms <= later.max_ms
        assert each.total_ms <= later.total_ms + 0.001
    assert part.providers.count <= whole.providers.count
    assert part.children.failed <= whole.children.failed
    staging = {each.plugin_id: each for each in whole.staging}
    assert all(each.total_ms <= staging[each.plugin_id].total_ms for each in part.staging)
    if part.largest_loop_delay is not None:
        assert whole.largest_loop_delay is not None
        assert part.largest_loop_delay.max_ms <= whole.largest_loop_delay.max_ms
    for slow in part.slowest_spans:
        assert slow in whole.slowest_spans or len(whole.slowest_spans) == 10


@given(st.data())
def test_the_parts_of_a_turn_add_up_to_its_duration(data: st.DataObject) -> None:
    summary = summary_of(*data.draw(processes_own_lines(101)))
    for turn in summary.turns:
        split = turn.split
        known = split.before_provider_ms + split.with_provider_ms + split.in_tools_ms + split.retrying_ms
        known += split.between_ms
        assert abs(known + split.after_ms + split.unattributed_ms - turn.duration_ms) < 0.01
        assert min(split.before_provider_ms, split.with_provider_ms, split.unattributed_ms) >= 0
