"""The verb `timeline`, and the timing section of `compare`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from diagnosed import diagnosis, store
from support import Answer, Cli, Runs, attached, recorded
from timelines import Line, data_of, end, request

from critiqor.errors import ExitCode
from critiqor.importers import ImportedTrace
from critiqor.session import append_event_to_run, import_run

START = 1_794_000_000_000
SPAN = {
    "schemaVersion": "openclaw.diagnostics.v1",
    "type": "span.end",
    "timestamp": "2026-11-06T19:20:02.000Z",
    "name": "plugins.load",
    "pid": 7,
    "spanId": "s1",
    "durationMs": 1500,
}
USAGE = {
    "interval_seconds": 2.0,
    "samples": 31,
    "overhead_seconds": 0.12,
    "peak_rss_bytes": 812_000_000,
    "cpu_seconds": 41.5,
    "roles": [{"role": "gateway", "processes": 1, "peak_rss_bytes": 700_000_000, "cpu_seconds": 38.25}],
    "series": [[0.0, 812_000_000, 3.5]],
}


def scans(took: float, times: int = 20) -> list[Line]:
    """Return spans of one name and duration, and a request for each."""
    ends = [end("plugins.metadata.scan", f"s{number}", 100 * number, took) for number in range(times)]
    return [*ends, *(request("run-1", number, 100 * number, took) for number in range(1, times + 1))]


def turn(took: int = 1000) -> list[dict[str, Any]]:
    """Return the recorded events of a turn."""
    call = {"callId": "run-1:model:1"}
    return [
        attached(at=START),
        recorded(2, "agent_start", at=START),
        recorded(3, "before_provider_request", at=START + 100, payload=call),
        recorded(4, "after_provider_response", at=START + took - 100, duration_ms=took - 200, payload=call),
        recorded(5, "agent_end", at=START + took),
    ]


def run(runs: Runs, lines: list[Line] | None = None, *, took: int = 1000, **started: Any) -> str:
    """Write a run of one turn: its timeline, its recorded events and its launch."""
    run_id = runs.start()
    note(runs, run_id, "process_start", {"pid": 1, "command": ["openclaw"], **started})
    runs.write(run_id, *turn(took))
    if lines is not None:
        path = runs.paths.timeline_path(run_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data_of(*lines))
    note(runs, run_id, "resource_usage", USAGE)
    runs.finalize(run_id)
    return run_id


def note(runs: Runs, run_id: str, event_type: str, payload: Mapping[str, Any]) -> None:
    append_event_to_run(run_id, {"event_type": event_type, "payload": payload}, runs_dir=runs.folder)


def part(answer: Answer, title: str) -> list[list[str]]:
    """Return the words of each line below a title."""
    assert answer.code == ExitCode.OK, answer.err
    lines = answer.out.split(f"{title}\n", 1)[1].split("\n\n")[0].splitlines()
    return [line.split() for line in lines]


def test_file_is_summarised_and_what_cannot_be_read_is_counted(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "timeline.jsonl"
    file.write_text(json.dumps(SPAN) + "\nnot json\n")
    summary = cli("timeline", file, "--json").data
    assert (summary["events"], summary["parse_errors"]) == (1, 1)
    assert summary["slowest_spans"][0]["name"] == "plugins.load"
    assert "plugins.load" in cli("timeline", file).out
    assert "plugins.load" in cli("timeline", file, "--markdown").out


def test_turns_of_a_run_come_from_the_recorder_where_openclaw_wrote_nothing(cli: Cli, runs: Runs) -> None:
    run_id = run(runs)
    summary = cli("timeline", run_id, "--json").data
    assert summary["present"] is False
    [only] = summary["turns"]
    assert (only["agent_run_id"], only["duration_ms"], only["sources"]) == ("run-1", 1000, ["recorder"])
    text = cli("timeline", run_id)
    assert text.out.startswith("Timeline\n  OpenClaw's diagnostics are unavailable: OpenClaw wrote no timeline\n")
    assert part(text, "Agent runs (1)")[-1][:7] == ["run-1", "1.00", "s", "100", "ms", "800", "ms"]
    assert part(text, "Agent runs (1)")[-1][-2:] == ["recorder", "only"]
    assert "Slowest spans" not in text.out
    assert "recorder only" in cli("timeline", run_id, "--markdown").out


def test_report_says_why_there_is_no_timeline(cli: Cli, runs: Runs) -> None:
    unwanted = run(runs, timeline=False)
    assert cli("timeline", unwanted, "--json").data["unavailable"] == "it was recorded with --no-timeline"
    import_run(ImportedTrace(trace_id="t", format="neutral", events=[], notes=[]), runs_dir=runs.folder)
    text = cli("timeline", "run_002").out
    assert "diagnostics are unavailable: the run was recorded elsewhere and imported" in text
    assert "the recorder saw no agent run" in text
    runs.seal(attached())
    assert "the run was not launched by critiqor monitor" in cli("timeline", "run_003").out


def test_memory_and_cpu_are_shown_by_role_with_the_sampling_interval(cli: Cli, runs: Runs) -> None:
    run_id = run(runs, scans(10))
    assert cli("timeline", run_id, "--json").data["resources"] == USAGE
    text = cli("timeline", run_id)
    rows = part(text, "Memory and CPU of all processes")
    assert "sampled every 2 s, 31 times; sampling took 0.12 s of CPU" in text.out
    assert ["peak", "memory", "812", "MB,", "41.5", "s", "of", "CPU"] in rows
    assert ["gateway", "1", "700", "MB", "38.2", "s"] in rows
    assert "| `gateway` | 1 | 700 MB |" in cli("timeline", run_id, "--markdown").out


def test_usage_that_cannot_be_read_hides_nothing_else(cli: Cli, runs: Runs) -> None:
    run_id = runs.start()
    note(runs, run_id, "resource_usage", {**USAGE, "roles": "none"})
    runs.write(run_id, *turn())
    runs.finalize(run_id)
    summary = cli("timeline", run_id, "--json").data
    assert summary["resources"] is None
    assert len(summary["turns"]) == 1


@pytest.mark.parametrize("lines", [scans(10), None], ids=["timeline", "no timeline"])
def test_deeply_profiled_run_says_so_first(cli: Cli, runs: Runs, lines: list[Line] | None) -> None:
    run_id = run(runs, lines, deep_profile=True)
    assert cli("timeline", run_id, "--json").data["profiled"] is True
    for option in ([], ["--markdown"]):
        first = cli("timeline", run_id, *option).out.split("\n\n")[:2]
        assert "deeply profiled" in " ".join(first)
        assert "Never compare" in " ".join(first)
    assert "profiled" not in cli("timeline", run(runs, lines)).out


def test_unknown_run_is_named(cli: Cli) -> None:
    answer = cli("timeline", "run_404")
    assert answer.code == 1
    assert "run_404" in answer.err


def test_several_runs_are_repetitions(cli: Cli, runs: Runs) -> None:
    for took in (1000, 1400, 4000):
        run(runs, scans(took / 10), took=took)
    names = ("run_001", "run_002", "run_003")
    summary = cli("timeline", *names, "--json").data
    assert (summary["runs"], summary["profiled"], summary["notes"]) == (list(names), False, [])
    [span] = [figures for figures in summary["figures"] if figures["kind"] == "span"]
    assert (span["name"], span["runs"], span["median_ms"], span["max_ms"]) == ("plugins.metadata.scan", 3, 140, 400)
    text = cli("timeline", *names)
    assert part(text, "Spans by name, longest median first")[1][:4] == [
        "plugins.metadata.scan",
        "3",
        "140",
        "ms",
    ]
    assert "3 runs: run_001 run_002 run_003" in text.out
    assert "## Repeated runs" in cli("timeline", *names, "--markdown").out


def test_profiled_runs_are_not_mixed_with_others(cli: Cli, runs: Runs) -> None:
    for profiled in (False, True, False):
        run(runs, scans(10), deep_profile=profiled)
    answer = cli("timeline", "run_001", "run_002", "run_003")
    assert answer.code == ExitCode.USAGE
    assert "cannot be mixed; profiled: run_002 of 3" in answer.err
    assert "→ critiqor timeline run_001 run_003" in answer.err
    assert cli("timeline", "run_001", "run_003").code == ExitCode.OK


def test_run_without_a_timeline_is_left_out_of_those_that_have_one(cli: Cli, runs: Runs) -> None:
    run(runs, scans(10))
    run(runs, timeline=False)
    run(runs, timeline=False)
    summary = cli("timeline", "run_001", "run_002", "--json").data
    assert summary["runs"] == ["run_001"]
    assert "run_002 is left out" in summary["notes"][0]
    without = cli("timeline", "run_002", "run_003", "--json").data
    assert without["runs"] == ["run_002", "run_003"]
    assert "turn" in {figures["kind"] for figures in without["figures"]}
    assert "recorded with --no-timeline" in without["notes"][0]


def test_run_that_is_named_twice_is_rejected(cli: Cli, runs: Runs) -> None:
    run(runs, scans(10))
    answer = cli("timeline", "run_001", "run_001")
    assert answer.code == ExitCode.USAGE
    assert "run_001 is given 2 times" in answer.err


def test_compare_shows_what_became_slower(cli: Cli, runs: Runs) -> None:
    run(runs, scans(40))
    run(runs, [*scans(90), end("config.load", "c", 9000, 30)])
    timing = cli("compare", "run_001", "run_002", "--json").data["timing"]
    assert timing["comparable"] is True
    assert {row["kind"]: row["verdict"] for row in timing["spans"]} == {"span": "slower", "provider": "slower"}
    assert timing["only_after"] == ["config.load"]
    text = cli("compare", "run_001", "run_002")
    rows = part(text, "Timing")
    assert ["2", "names", "in", "both:", "2", "slower"] in rows
    assert any(row[:1] == ["plugins.metadata.scan"] and row[-1] == "slower" for row in rows)
    assert text.out.splitlines()[-1].strip() == "Next: critiqor show run_002"


def test_compare_goes_on_without_a_timeline(cli: Cli, runs: Runs) -> None:
    run(runs, scans(40))
    run(runs, timeline=False)
    store(runs, diagnosis("run_003"))
    answer = cli("compare", "run_001", "run_002", "--json")
    assert answer.data["verdict"] == "no difference"
    assert answer.data["timing"]["comparable"] is False
    assert (
        "no timeline of the run after: it was recorded with --no-timeline" in cli("compare", "run_001", "run_002").out
    )
    assert "no timeline of the run before" in cli("compare", "run_003", "run_001").out


def test_compare_does_not_compare_times_of_a_profiled_run_with_others(cli: Cli, runs: Runs) -> None:
    run(runs, scans(40), deep_profile=True)
    run(runs, scans(90))
    timing = cli("compare", "run_001", "run_002", "--json").data["timing"]
    assert (timing["comparable"], timing["profiled_before"], timing["profiled_after"]) == (False, True, False)
    assert timing["spans"] == []
    assert "the run before was deeply profiled" in cli("compare", "run_001", "run_002").out
