"""Reading of a timeline as the contract says, in any order of processes."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from timelines import Line, data_of, end, in_order, line, problems, request, sample, span, start, summary_of

from critiqor.timeline import SummaryBuilder, read_timeline
from critiqor.timeline.reader.records import strict_decoder


def test_a_missing_timeline_is_unavailable(tmp_path: Path) -> None:
    summary = read_timeline(tmp_path / "none.jsonl")
    assert not summary.present
    assert summary.unavailable == "OpenClaw wrote no timeline"
    assert read_timeline(tmp_path).unavailable == "it is not a file"


def test_an_empty_timeline_is_present_without_events(tmp_path: Path) -> None:
    path = tmp_path / "timeline.jsonl"
    path.write_bytes(b"")
    summary = read_timeline(path)
    assert summary.present
    assert (summary.lines, summary.events, summary.parse_errors, summary.first_at) == (0, 0, 0, None)


def test_the_examples_of_the_contract_are_read() -> None:
    envelope = {
        "schemaVersion": "openclaw.diagnostics.v1",
        "type": "span.end",
        "timestamp": "2026-04-29T15:30:00.000Z",
        "runId": "kova-2026-04-29T153000Z",
        "envName": "kova-fresh-install-fresh-...",
        "pid": 12345,
        "phase": "startup",
        "name": "runtimeDeps.stage",
        "spanId": "span-1",
        "parentSpanId": "span-0",
        "durationMs": 1842,
        "attributes": {"pluginId": "browser", "dependencyCount": 12},
    }
    head = {"schemaVersion": "openclaw.diagnostics.v1"}
    loop = {"type": "eventLoop.sample", "timestamp": "2026-04-29T15:30:01.000Z", "name": "eventLoop"}
    delays = {"p50Ms": 8, "p95Ms": 42, "p99Ms": 91, "maxMs": 214, "activeSpanName": "plugins.metadata.scan"}
    asked = {"type": "provider.request", "timestamp": "2026-04-29T15:30:02.000Z", "name": "provider.request"}
    listed = {"provider": "openai-codex", "operation": "models.list", "durationMs": 1220, "ok": True}
    child = {"type": "childProcess.exit", "timestamp": "2026-04-29T15:30:03.000Z", "name": "childProcess.exit"}
    exited = {"command": "mcp-server", "durationMs": 340, "exitCode": 0, "signal": None}
    summary = summary_of(envelope, head | loop | delays, head | asked | listed, head | child | exited)

    assert (summary.events, summary.parse_errors) == (4, 0)
    assert problems(summary) == {"end_without_start": 1}
    assert summary.slowest_spans[0].name == "runtimeDeps.stage"
    assert summary.slowest_spans[0].duration_ms == 1842
    (staging,) = summary.staging
    assert (staging.plugin_id, staging.count, staging.total_ms, staging.dependencies) == ("browser", 1, 1842, 12)
    assert summary.largest_loop_delay is not None
    assert (summary.largest_loop_delay.max_ms, summary.largest_loop_delay.active) == (214, "plugins.metadata.scan")
    assert summary.providers.slowest is not None
    assert (summary.providers.slowest.operation, summary.providers.slowest.duration_ms) == ("models.list", 1220)
    assert summary.children.slowest is not None
    assert (summary.children.slowest.command, summary.children.failed) == ("mcp-server", 0)
    assert {process.pid for process in summary.processes} == {12345, None}


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        ("span.start", {}),
        ("span.end", {}),
        ("span.error", {"errorName": "TypeError", "errorMessage": "no"}),
        ("mark", {}),
        ("eventLoop.sample", {"p50Ms": 8, "p95Ms": 42, "p99Ms": 91, "maxMs": 214, "activeSpanName": "plugins.load"}),
        ("provider.request", {"provider": "openai", "operation": "models.list", "ok": True}),
        ("childProcess.exit", {"command": "mcp-server", "exitCode": 0, "signal": "SIGTERM"}),
    ],
)
def test_every_field_of_the_contract_is_read_in_every_type_of_line(kind: str, own: Line) -> None:
    common = {
        "schemaVersion": "openclaw.diagnostics.v1",
        "timestamp": "2026-04-29T15:30:00Z",
        "name": "config.load",
        "runId": "run_001",
        "envName": "main",
        "pid": 7,
        "phase": "startup",
        "spanId": "b",
        "parentSpanId": "a",
        "durationMs": 5,
        "attributes": {"pluginId": "browser"},
    }
    read = msgspec.to_builtins(strict_decoder.decode(json.dumps({"type": kind, **common, **own})))
    assert {name: value for name, value in read.items() if value is not None} | {"attributes": None} == {
        "type": kind,
        **common,
        **own,
        "attributes": None,
    }
    assert read["attributes"]["pluginId"] == "browser"


@pytest.mark.parametrize(
    "name",
    [
        *("gateway.startup", "gateway.ready", "config.load", "config.normalize", "plugins.metadata.scan"),
        *("plugins.load", "runtimeDeps.stage", "providers.load", "models.catalog", "agent.turn", "agent.cleanup"),
        *("mcp.runtime.start", "mcp.runtime.stop"),
    ],
)
def test_a_span_with_a_name_of_the_contract_is_timed(name: str) -> None:
    summary = summary_of(*span(name, "x", 0, 700))
    assert [(one.name, one.duration_ms) for one in summary.slowest_spans] == [(name, 700)]
    assert problems(summary) == {}


def test_required_fields_are_enough() -> None:
    summary = summary_of(line("mark", "here", 0, pid=None), start("a", None, 1, pid=None), end("a", None, 5, pid=None))
    assert (summary.events, problems(summary)) == (3, {})
    (figures,) = summary.span_figures
    assert (figures.name, figures.count, figures.total_ms) == ("a", 1, 4)


def test_the_same_span_id_in_two_processes_is_two_spans() -> None:
    summary = summary_of(
        start("config.load", "gateway-startup-1", 0, pid=1),
        start("plugins.load", "gateway-startup-1", 1, pid=2),
        end("config.load", "gateway-startup-1", 30, 30, pid=1),
    )
    assert problems(summary) == {}
    assert [(each.name, each.pid) for each in summary.open_spans] == [("plugins.load", 2)]


def test_a_span_id_can_be_used_again_after_its_end() -> None:
    summary = summary_of(*span("a", "1", 0, 10), *span("a", "1", 20, 50), *span("b", "1", 60, 61))
    assert problems(summary) == {}
    assert [(each.name, each.count, each.total_ms) for each in summary.span_figures] == [("a", 2, 40), ("b", 1, 1)]
    assert summary.open_spans_total == 0


def test_a_start_of_what_is_already_open_is_counted_and_the_later_one_goes_on() -> None:
    summary = summary_of(start("a", "1", 0), start("a", "1", 10), end("a", "1", 15))
    assert problems(summary) == {"start_repeated": 1}
    assert summary.span_figures[0].total_ms == 5


def test_open_spans_have_their_age_and_the_silence_after() -> None:
    summary = summary_of(
        start("plugins.load", "1", 0, pid=1, attributes={"stage": "native"}),
        start("config.load", "2", 100, pid=1),
        line("mark", "here", 400, pid=1),
        line("mark", "there", 1000, pid=2),
    )
    assert summary.open_spans_total == 2
    first, second = summary.open_spans
    assert (first.name, first.detail, first.age_ms, first.silent_ms) == ("plugins.load", "native", 400, 600)
    assert (second.name, second.age_ms) == ("config.load", 300)
    assert summary.processes[0].open_spans == 2


def test_ends_without_starts_still_count_with_their_own_duration() -> None:
    summary = summary_of(end("a", "1", 50, 20), end("b", "2", 60))
    assert problems(summary) == {"end_without_start": 2}
    assert [(each.name, each.total_ms) for each in summary.span_figures] == [("a", 20)]


def test_lines_out_of_order_are_counted_once_where_the_clock_was_set_back() -> None:
    lines = [line("mark", "m", at) for at in (1000, 2000, 100, 200, 300)]
    summary = summary_of(*lines)
    assert problems(summary) == {"out_of_order": 1}
    assert summary.irregular[0].lines == [3]
    assert summary.processes[0].last_at == summary.last_at == "2026-11-06T21:20:02.000Z"


def test_a_request_is_written_at_its_end_with_the_time_of_its_start() -> None:
    summary = summary_of(line("mark", "m", 5000), request("run-a", 1, 1000, 4500), line("mark", "m", 6000))
    assert problems(summary) == {}
    assert summary.turns[0].tree.children[0].start_ms == summary.turns[0].tree.start_ms
    assert summary.providers.slowest is not None
    assert summary.providers.slowest.agent_run_id == "run-a"


@pytest.mark.parametrize(
    ("children", "own"),
    [
        ([], 100),
        ([(10, 40)], 70),
        ([(10, 40), (40, 60)], 50),
        ([(10, 60), (20, 80)], 30),
        ([(10, 20), (50, 60), (5, 95)], 10),
        ([(10, 50), (20, 30)], 60),
        ([(0, 100), (0, 100)], 0),
    ],
)
def test_self_time_counts_each_moment_inside_once(children: list[tuple[float, float]], own: float) -> None:
    inside = [span("child", f"c{n}", *times, parentSpanId="p") for n, times in enumerate(children)]
    lines = [*in_order(start("parent", "p", 0), *inside), end("parent", "p", 100, 100)]
    summary = summary_of(*lines)
    figures = {each.name: each for each in summary.span_figures}
    assert figures["parent"].self_ms == own
    slowest = next(each for each in summary.slowest_spans if each.name == "parent")
    assert slowest.self_ms == own


def test_a_start_that_was_written_down_with_its_end_counts_from_its_duration() -> None:
    late = [start("late", "c", 90, parentSpanId="p"), end("late", "c", 90, 80, parentSpanId="p")]
    early = span("early", "b", 20, 60, parentSpanId="p")
    summary = summary_of(start("parent", "p", 0), *early, *late, end("parent", "p", 100, 100))
    figures = {each.name: each for each in summary.span_figures}
    assert figures["parent"].self_ms == pytest.approx(20, abs=1)


def test_failed_spans_are_counted_as_such() -> None:
    failed = line("span.error", "plugins.load", 30, spanId="1", durationMs=30, errorName="Error", errorMessage="no")
    summary = summary_of(start("plugins.load", "1", 0), failed, *span("plugins.load", "2", 40, 50))
    assert summary.events_by_type == {"span.end": 1, "span.error": 1, "span.start": 2}
    (figures,) = summary.span_figures
    assert (figures.count, figures.failed) == (2, 1)
    assert [each.failed for each in summary.slowest_spans] == [True, False]


def test_repeated_names_have_exact_quantiles_while_they_are_few_and_near_ones_when_they_are_many() -> None:
    few = summary_of(*(end("a", str(number), number, number) for number in range(1, 101)))
    (figures,) = few.span_figures
    assert (figures.p50_ms, figures.p95_ms, figures.max_ms, figures.total_ms) == (50, 95, 100, 5050)
    many = summary_of(*(end("a", str(number), number, number / 10) for number in range(1, 20_001)))
    (figures,) = many.span_figures
    assert figures.p50_ms == pytest.approx(1000, rel=0.01)
    assert figures.p95_ms == pytest.approx(1900, rel=0.01)
    assert (figures.count, figures.max_ms) == (20_000, 2000)


def test_the_slowest_child_process_and_the_failed_ones_have_no_arguments() -> None:
    def child(command: str, took: float, code: int | None, signal: str | None) -> Line:
        known: Line = {"command": command, "durationMs": took, "exitCode": code, "signal": signal}
        return line("childProcess.exit", "childProcess.exit", 10, **known)

    summary = summary_of(
        child("/usr/bin/curl -H 'Authorization: Bearer abc'", 900, 22, None),
        child("mcp-server", 100, 0, None),
        child("node", 50, None, "SIGKILL"),
    )
    assert (summary.children.count, summary.children.failed) == (3, 2)
    assert summary.children.slowest is not None
    assert summary.children.slowest.command == "curl"


def test_staging_is_grouped_by_plugin() -> None:
    def staged(span_id: str, took: float, **attributes: object) -> list[dict[str, object]]:
        return span("runtimeDeps.stage", span_id, 0, took, attributes=attributes)

    summary = summary_of(
        *staged("1", 100, pluginId="browser", dependencyCount=12),
        *staged("2", 300, pluginId="canvas"),
        *staged("3", 50, pluginId="browser", dependencyCount=3),
        *staged("4", 5),
    )
    staging = [(each.plugin_id, each.count, each.total_ms, each.dependencies) for each in summary.staging]
    assert staging == [("canvas", 1, 300, None), ("browser", 2, 150, 12), (None, 1, 5, None)]


def test_the_role_of_a_process_comes_from_its_spans() -> None:
    summary = summary_of(
        *span("cli.command-startup", "1", 0, 5, pid=10),
        *span("gateway.kernel-state", "1", 5, 6, pid=10),
        *span("cli.main.core-imports", "1", 1, 2, pid=11),
        *span("cli.main.core-imports", "1", 1, 2, pid=12),
        request("run-a", 1, 3, 4, pid=12),
        *span("plugins.metadata.scan", "1", 0, 1, pid=13),
    )
    assert {each.pid: each.role for each in summary.processes} == {
        10: "gateway",
        11: "command",
        12: "agent",
        13: "unknown",
    }


def test_a_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "timeline.jsonl"
    whole = data_of(line("mark", "a", 0), line("mark", "b", 1))
    path.write_bytes(whole + data_of(line("mark", "c", 2)))
    summary = read_timeline(path, limit=len(whole))
    assert (summary.events, summary.bytes, summary.parse_errors) == (2, len(whole), 0)


@pytest.mark.parametrize("size", [1, 7, 100, 65_536])
def test_the_size_of_blocks_makes_no_difference(size: int) -> None:
    bad = b'{"schemaVersion":"openclaw.dia\n'
    data = data_of(*span("a", "1", 0, 20), bad, sample(150, 30, "a"), b"\n", request("run-a", 1, 40, 9), b'{"torn')
    timeline = SummaryBuilder()
    for offset in range(0, len(data), size):
        timeline.feed(data[offset : offset + size])
    assert timeline.summary() == summary_of(data)


def test_memory_stays_bounded_whatever_the_file_does() -> None:
    lines = [start(f"name {number}", f"span {number}", number, pid=number % 2000) for number in range(12_000)]
    lines += [line(f"type {number}", "x", 20_000, field=1) for number in range(2000)]
    summary = summary_of(*lines)
    assert summary.open_spans_total == 12_000
    assert len(summary.open_spans) == 20
    assert len(summary.processes) == 50
    assert len(summary.irregular) < 200
    assert summary.events == 14_000
