"""Times on the pages: one definition of each, and none where no time was recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from dashboards import BEGIN, Dashboard
from starlette.testclient import TestClient
from support import Runs, attached, recorded
from timelines import data_of, in_order, line, span

from critiqor.dashboard.render.chart_axes import date_ticks
from critiqor.importers.neutral import read_neutral
from critiqor.model.formatting import format_duration, format_duration_change
from critiqor.session import import_run

SESSION = "agent:main:main"
COMMAND = "sleep 1.4; cat reports/b.txt"


def words_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.partition("<main")[2]))


def slow_run(runs: Runs) -> str:
    """A run of 10 s in which one call took 7 s, of which its process ran 1.4 s; OpenClaw saw it begin earlier."""
    run_id = runs.start()

    def event(number: int, kind: str, at: int, **fields: Any) -> dict[str, Any]:
        return recorded(number, kind, at=BEGIN + at, session_key=SESSION, agent_run_id="run-1", **fields)

    call = {"tool_name": "exec", "tool_call_id": "call_1"}
    usage = {"usage": {"input": 900, "output": 30}, "provider": "lab", "model": "scripted"}
    runs.write(
        run_id,
        attached(1, at=BEGIN),
        event(2, "agent_start", 1000, payload={"attempt": 1}),
        event(3, "message_end", 1010, payload={"role": "user", "text": "Which total is the highest?"}),
        event(4, "before_provider_request", 1100, payload={"callId": "m1"}),
        event(5, "after_provider_response", 1600, duration_ms=500, payload={"callId": "m1", **usage}),
        event(6, "tool_call", 2000, payload={"arguments": {"command": COMMAND}}, **call),
        event(7, "tool_result", 9030, duration_ms=7000, payload={"result": "912"}, **call),
        event(8, "message_end", 9500, payload={"role": "assistant", "text": "It is 912."}),
        event(9, "agent_end", 10_000, payload={"success": True}),
    )
    turn = span("agent.turn", "t1", 500, 10_500, phase="agent-turn", attributes={"runId": "run-1"})
    child = line("childProcess.exit", "childProcess.exit", 9050, command="sleep", durationMs=1400, exitCode=0)
    path = runs.paths.timeline_path(run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data_of(*in_order(turn, child)))
    runs.finalize(run_id)
    return run_id


@pytest.fixture
def slow(runs: Runs) -> tuple[TestClient, str]:
    return Dashboard(runs).user(), f"/runs/{slow_run(runs)}"


@pytest.fixture
def untimed(runs: Runs, tmp_path: Path) -> tuple[TestClient, str]:
    events = [
        {"i": 0, "type": "user", "text": "Count."},
        {"i": 1, "type": "tool_call", "tool": "exec", "tool_call_id": "c1", "args": {"command": "wc -l list.txt"}},
        {"i": 2, "type": "tool_result", "tool": "exec", "tool_call_id": "c1", "text": "3 list.txt"},
        {"i": 3, "type": "assistant", "text": "It has 3 lines."},
        {"i": 4, "type": "end"},
    ]
    file = tmp_path / "trace.jsonl"
    file.write_text(json.dumps({"labels": {"trace_id": "t"}, "events": events}) + "\n")
    [trace] = read_neutral(file, b"k" * 32)
    return Dashboard(runs).user(), f"/runs/{import_run(trace, runs.folder)['run_id']}"


def test_an_agent_run_takes_the_same_time_on_every_page(slow: tuple[TestClient, str]) -> None:
    client, run = slow
    timeline, overview = (client.get(run + page).text for page in ("/timeline", ""))
    assert '<td class="right">10.00 s</td>' in timeline, "the table of agent runs"
    for page in (timeline, overview):
        assert re.search(r"Agent runs: Which total is the highest\?, 10\.00 s", page), "the chart"
    assert '<td class="right">10.00 s</td>' in client.get(f"{run}/sessions").text
    [begins] = set(re.findall(r"<time [^>]*>(\+[^<]+)</time>", timeline.partition('id="turns"')[2]))
    assert begins in client.get(f"{run}/cost").text.partition('id="turn-table"')[2], "when it began"


def test_a_call_takes_the_time_that_it_reported_on_every_page(slow: tuple[TestClient, str]) -> None:
    client, run = slow
    timeline = client.get(f"{run}/timeline").text
    assert "Tools: exec, 7.00 s" in timeline
    assert "in tools 7.00 s" in timeline, "the time of an agent run by parts"
    for page in ("/timeline", "/evidence", "/cost", "/conversation"):
        assert "7.00 s" in client.get(run + page).text and "7.03 s" not in client.get(run + page).text, page


def test_the_slowest_calls_say_what_was_called_and_how_long_its_process_ran(slow: tuple[TestClient, str]) -> None:
    client, run = slow
    slowest = words_of(client.get(f"{run}/timeline").text).partition("Slowest calls")[2]
    assert f"exec {COMMAND} its processes ran 1.40 s 7.00 s 70 % of its agent run" in slowest
    assert "model call lab/scripted" in slowest


def test_the_overview_names_the_call_that_took_most_of_the_time(slow: tuple[TestClient, str]) -> None:
    client, run = slow
    [line_] = re.findall(r'<p [^>]*id="dominant">(.*?)</p>', client.get(run).text)
    assert re.sub(r"<[^>]+>", "", line_) == f"Most time: exec {COMMAND}, 7.00 s, 70 % of the agent run"
    [address] = re.findall(r'href="([^"]+)"', line_)
    assert "912" in client.get(address).text


def test_slow_events_can_be_filtered(slow: tuple[TestClient, str]) -> None:
    client, run = slow
    page = client.get(f"{run}/evidence?slow=5").text
    assert re.findall(r'aria-label="Event (\d+)"', page) == ["7"]
    assert 'value="5"' in page and "tool result (1)" in page
    for invalid in ("nan", "-1", "x", "1e99"):
        assert len(re.findall(r'aria-label="Event (\d+)"', client.get(f"{run}/evidence?slow={invalid}").text)) > 3


def test_a_run_without_recorded_times_shows_none(untimed: tuple[TestClient, str]) -> None:
    client, run = untimed
    for page in ("", "/conversation", "/evidence", "/cost", "/timeline", "/sessions", "/diagnosis"):
        text = client.get(run + page).text
        assert not re.search(r"\+[\d.]+ (ms|s|min|h|d)\b", words_of(text)), page
        assert "2000-01-01" not in text, page
    assert "The imported file has no times" in client.get(f"{run}/timeline").text
    assert "Time unknown" in words_of(client.get(run).text)
    [first] = re.findall(r'href="([^"]+)" aria-label="Event 1"', client.get(f"{run}/evidence").text)
    assert "not recorded; the events are in their order" in client.get(first).text


def test_a_run_without_model_calls_does_not_speak_of_their_prices(untimed: tuple[TestClient, str]) -> None:
    client, run = untimed
    assert "no model calls" in client.get(f"{run}/cost").text
    assert "No model call reported its cost" not in client.get(f"{run}/cost").text


def test_the_legend_has_only_what_the_chart_has(slow: tuple[TestClient, str]) -> None:
    client, run = slow
    legend = client.get(f"{run}/timeline").text.partition('aria-label="Legend"')[2].partition("</ul>")[0]
    assert "failed" not in legend and "finding" not in legend


def test_long_durations_are_in_hours_and_days() -> None:
    times = {599_999: "600.00 s", 600_000: "10 min", 36_000_000: "10 h", 360_000_000: "4 d"}
    assert {each: format_duration(each) for each in times} == times


def test_a_change_that_is_too_small_to_be_seen_is_none() -> None:
    changes = {-0.04: "same", 0.0: "same", 0.06: "+0.1 ms", -1500: "-1.50 s"}
    assert {each: format_duration_change(each) for each in changes} == changes


def test_a_chart_of_a_short_time_has_a_label_at_each_end() -> None:
    ticks = date_ticks(BEGIN, BEGIN + 900)
    assert [tick.at for tick in ticks] == [BEGIN, BEGIN + 900]
