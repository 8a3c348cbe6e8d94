"""The critical path of a start-up, and the causes of event-loop stalls."""

from __future__ import annotations

from typing import Any

from timelines import Line, end, in_order, line, real_timeline, sample, span, start, summary_of

from critiqor.model.timeline import SpanNode
from critiqor.timeline import read_timeline


def ready(at: float, since: float, **fields: Any) -> Line:
    return line("mark", "gateway.ready", at, phase="startup", durationMs=since, **fields)


def path_of(*lines: Line | list[Line]) -> SpanNode:
    return summary_of(*in_order(*lines)).startups[0].path


def names(node: SpanNode) -> list[str]:
    return [child.name for child in node.children]


def test_consecutive_spans_are_the_path() -> None:
    steps = (span(name, name, begin, begin + 95, phase="startup") for name, begin in (("a", 0), ("b", 100), ("c", 200)))
    path = path_of(*steps, ready(300, 350))
    assert names(path) == ["a", "b", "c"]
    assert path.duration_ms == 350, "the process had begun before its first line"
    assert path.self_ms == 350 - 3 * 95


def test_parallel_spans_are_not_on_the_path() -> None:
    background = span("background", "x", 10, 150, phase="startup")
    path = path_of(
        span("a", "1", 0, 100, phase="startup"),
        background,
        span("b", "2", 100, 300, phase="startup"),
        ready(300, 300),
    )
    assert names(path) == ["a", "b"]


def test_spans_that_end_after_readiness_are_not_on_the_path() -> None:
    slow = span("assets", "x", 10, 9000, phase="startup")
    summary = summary_of(*in_order(span("a", "1", 0, 290, phase="startup"), slow, ready(300, 300)))
    assert names(summary.startups[0].path) == ["a"]
    assert summary.slowest_spans[0].name == "assets"


def test_spans_without_parents_are_placed_by_their_times() -> None:
    path = path_of(
        span("sidecars.total", "1", 0, 280, phase="startup"),
        span("sidecars.model", "2", 20, 120, phase="startup"),
        span("sidecars.reply", "3", 130, 270, phase="startup"),
        ready(300, 300),
    )
    (total,) = path.children
    assert names(total) == ["sidecars.model", "sidecars.reply"]
    assert all(child.by_time for child in total.children)


def test_spans_with_parents_are_below_them() -> None:
    lines = [
        start("outer", "1", 0, phase="startup"),
        *span("inner", "2", 20, 120, phase="startup", parentSpanId="1"),
        end("outer", "1", 200, 200, phase="startup"),
    ]
    path = summary_of(*lines).startups[0].path
    (outer,) = path.children
    assert names(outer) == ["inner"]
    assert not outer.children[0].by_time


def test_spans_that_are_each_others_parents_are_not_lost() -> None:
    lines = [
        start("a", "1", 0, parentSpanId="2"),
        start("b", "2", 0, parentSpanId="1"),
        end("b", "2", 90, 90, parentSpanId="1"),
        end("a", "1", 100, 100, parentSpanId="2"),
    ]
    path = summary_of(*lines).startups[0].path
    assert {path.children[0].name, *names(path.children[0])} == {"a", "b"}


def test_a_very_deep_tree_is_cut_in_depth_and_not_in_what_it_holds() -> None:
    depth = 400
    starts = [start(f"s{n}", str(n), n, **({"parentSpanId": str(n - 1)} if n else {})) for n in range(depth)]
    ends = [
        end(f"s{n}", str(n), 2000 - n, 2000 - 2 * n, **({"parentSpanId": str(n - 1)} if n else {}))
        for n in reversed(range(depth))
    ]
    node = summary_of(*starts, *ends).startups[0].path
    levels = 0
    while node.children:
        node = node.children[0]
        levels += 1
    assert 10 < levels <= 32


def test_a_stall_is_put_on_the_span_that_was_long_enough_at_the_right_time() -> None:
    summary = summary_of(
        sample(10, 0),
        *span("plugins.load", "1", 100, 900),
        *span("sidecars.hooks", "2", 990, 998),
        sample(700, 1000, "sidecars.hooks"),
    )
    (stall,) = summary.stalls
    assert (stall.active, stall.cause, stall.delay_ms) == ("sidecars.hooks", "plugins.load", 700)
    assert summary.largest_loop_delay is not None
    assert summary.largest_loop_delay.active == "sidecars.hooks", "that is what OpenClaw says"


def test_a_stall_is_put_on_the_innermost_span() -> None:
    summary = summary_of(
        start("plugins.load", "1", 0),
        *span("plugins.metadata.scan", "2", 100, 450, parentSpanId="1"),
        sample(300, 500, "plugins.load"),
    )
    assert summary.stalls[0].cause == "plugins.metadata.scan"


def test_a_stall_that_several_spans_can_have_caused_names_them_all() -> None:
    summary = summary_of(sample(5, 0), *span("a", "1", 0, 200), *span("b", "2", 300, 500), sample(150, 600))
    (stall,) = summary.stalls
    assert (stall.cause, stall.suspects) == (None, ["a", "b"])


def test_a_stall_without_any_span_has_no_cause() -> None:
    summary = summary_of(*span("a", "1", 0, 20), sample(150, 600, "a"))
    assert (summary.stalls[0].cause, summary.stalls[0].suspects) == (None, [])


def test_a_blocked_loop_reports_its_delay_with_the_next_sample() -> None:
    summary = summary_of(
        sample(10, 0),
        *span("blocking", "1", 10, 400),
        sample(0, 400, "blocking"),
        *span("quick", "2", 400, 402),
        sample(380, 410, "quick"),
    )
    assert (summary.stalls_total, summary.stalls[0].cause) == (1, "blocking")


def test_short_delays_are_not_stalls() -> None:
    summary = summary_of(*span("a", "1", 0, 99), sample(99, 100, "a"))
    assert (summary.loop_samples, summary.stalls_total) == (1, 0)


def test_the_start_up_of_a_real_gateway_is_explained() -> None:
    summary = read_timeline(real_timeline("2026.9.6-gateway"))
    gateway, *clients = summary.startups
    assert (gateway.role, gateway.ready) == ("gateway", True)
    assert gateway.path.duration_ms == 12783.453
    assert names(gateway.path)[-1] == "gateway.ready"
    assert names(gateway.path.children[-1]) == ["plugins.runtime-post-bind", "sidecars.total"]
    assert {client.role for client in clients} == {"command"}
    assert {load.plugin_id for load in summary.plugin_loads} == {"canvas", "critiqor"}
    (stall,) = summary.stalls
    assert (stall.active, stall.cause) == ("sidecars.internal-hooks", "plugins.runtime-post-bind")


def test_older_gateways_report_a_plugin_in_two_marks() -> None:
    summary = read_timeline(real_timeline("2026.6.1-gateway"))
    load = next(each for each in summary.plugin_loads if each.plugin_id == "critiqor")
    assert load.load_ms == 45.712
    assert load.register_ms == 2007.733
