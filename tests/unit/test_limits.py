"""Limits: what is counted, for which part of a recording, and that each is reported once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from story import START, Story

from critiqor.live import limits as live_limits
from critiqor.live.limits import DayFile, RecordingLimits
from critiqor.model import Event
from critiqor.policy.limits import LIMIT_NAMES, Limit, LimitReached, Limits, LimitTracker
from critiqor.policy.meters import DayAmounts


def reached(events: Iterable[Event], days: Any = None, **limits: Any) -> list[LimitReached]:
    tracker = LimitTracker(Limits(**limits), days)
    return [each for event in events for each in tracker.observe(event)]


def actual(events: Iterable[Event], **limits: Limit) -> list[float]:
    return [each.actual for each in reached(events, **limits)]


def test_every_limit_is_exceeded_once_per_agent_run() -> None:
    story = Story()
    for run in ("run-1", "run-2"):
        story.turns_to(run).starts()
        for _ in range(3):
            story.model(cost=0.5, input=90, output=10).fails("fetch", {"url": "a"}, "HTTP 500").waits(60_000)
        story.finishes()
    for name in LIMIT_NAMES:
        found = reached(story.events, **{name: Limit(1)})
        assert [(each.name, each.agent_run_id) for each in found] == [(name, "run-1"), (name, "run-2")], name
        assert all(each.actual > each.max and each.action == "notify" for each in found)
        assert not reached(story.events, **{name: Limit(10_000)}), name
    assert not reached(story.events)


@pytest.mark.parametrize(
    ("per", "expected"), [("agent_run", []), ("session", [3, 3]), ("run", [3]), ("day", [3])], ids=str
)
def test_an_amount_is_counted_per_agent_run_session_run_or_day(per: Any, expected: list[float]) -> None:
    story = Story()
    for session in ("one", "two"):
        for run in ("a", "b"):
            story.turns_to(f"{session}-{run}", session).runs("ls").runs("pwd")
    assert actual(story.events, tool_calls=Limit(2, per)) == expected


def test_a_day_ends_at_midnight_utc_and_is_shared_between_recordings() -> None:
    story = Story().model(cost=3.0)
    days: DayAmounts = {}
    assert not reached(story.events, days, cost_usd=Limit(5, "day"))
    found = reached(Story(run="other").model(cost=3.0).events, days, cost_usd=Limit(5, "day"))
    assert [each.actual for each in found] == [6.0]
    assert found[0].day in days and found[0].text == f"limits.cost_usd: $6 in {found[0].day}, at most $5 allowed"
    tomorrow = Story(start=START + 86_400_000).model(cost=3.0)
    assert not reached(tomorrow.events, days, cost_usd=Limit(5, "day"))
    assert len(days) == 2


def test_recordings_at_the_same_time_share_a_limit_per_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_limits, "ADVANCE_MS", 0)
    limits = Limits(cost_usd=Limit(5, "day"))
    first, second = (RecordingLimits(limits, run_id, DayFile(tmp_path)) for run_id in ("run_001", "run_002"))
    for number, recording in enumerate((first, second)):
        assert recording.observe(Story(run=f"a{number}").model(cost=2.0).events, is_over=True) == []
        recording.save()
    [limit] = first.observe(Story(run="b").model(cost=2.0).events, is_over=True)
    assert limit.text.startswith("limits.cost_usd: $6 in ")
    first.save()
    [amounts] = DayFile(tmp_path).amounts_without("run_002").values()
    assert amounts == {"cost_usd": 4.0}


def test_amounts_that_are_stored_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    def store(run_id: str) -> None:
        for number in range(1, 11):
            DayFile(tmp_path).save(run_id, {"2026-01-01": {"tokens": float(number)}})

    threads = [Thread(target=store, args=(f"run_{number:03}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert DayFile(tmp_path).amounts_without("") == {"2026-01-01": {"tokens": 40.0}}


def test_a_limit_allows_its_maximum_also_if_sums_are_not_exact() -> None:
    story = Story().model(cost=0.1).model(cost=0.1).model(cost=0.1)
    assert not reached(story.events, cost_usd=Limit(0.3))
    assert len(reached(story.model(cost=0.01).events, cost_usd=Limit(0.3))) == 1


def test_a_loop_is_noticed_when_the_call_begins_again() -> None:
    story = Story()
    for _ in range(12):
        story.calls("exec", {"command": "make"}, "nothing to do (took 3 s)")
    found = reached(story.events, repeats=Limit(8, action="stop"))
    calls = [event.event_id for event in story.events if event.event_type == "tool_call"]
    assert [(each.event_id, each.actual, each.tool, each.action) for each in found] == [(calls[9], 9, "exec", "stop")]


def test_calls_in_turn_are_repeated_too() -> None:
    story = Story()
    for _ in range(4):
        story.runs("ls", "a b").runs("cat a", "text")
    assert actual(story.events, repeats=Limit(2)) == [3]


def test_a_call_that_brings_news_or_follows_news_is_no_repetition() -> None:
    story = Story()
    for number in range(9):
        story.runs("make test", f"{9 - number} failed").calls("edit", {"path": "a.py", "text": str(number)})
        story.runs("git status", "modified: a.py")
    assert actual(story.events, repeats=Limit(1)) == []


def test_calls_that_run_at_the_same_time_are_no_repetition() -> None:
    story = Story()
    ids = [story.begins("fetch", {"url": "a"}) for _ in range(5)]
    for call_id in ids:
        story.ends("fetch", call_id)
    assert actual(story.events, repeats=Limit(0)) == []


def test_a_success_ends_a_row_of_failures_and_no_match_is_none() -> None:
    story = Story().runs("make", exit_code=2).runs("make", exit_code=2).runs("ls").runs("make", exit_code=2)
    assert actual(story.events, failures_in_a_row=Limit(2)) == []
    story.runs("make", exit_code=2).runs("make", exit_code=2)
    assert actual(story.events, failures_in_a_row=Limit(2)) == [3]
    silent = Story()
    for _ in range(5):
        silent.runs("grep -r todo src", exit_code=1)
    assert actual(silent.events, failures_in_a_row=Limit(2)) == []


def test_a_call_that_only_makes_another_call_counts_together_with_it() -> None:
    story = Story()
    outer = story.begins("tool_search_code", {"code": "…"})
    inner = story.begins("exec", {"command": "ls"}, parent_tool_call_id=outer)
    story.ends("exec", inner).ends("tool_search_code", outer)
    assert actual(story.events, tool_calls=Limit(1)) == []
    assert actual(story.events, tool_calls=Limit(0)) == [1]


def test_usage_that_arrives_with_the_end_of_the_agent_run_counts() -> None:
    story = Story().starts().model(usage=None)
    recovered = [{"turn": "None", "usage": {"input": 10, "output": 5, "cost": {"total": 2.0}}}]
    story.finishes(recovered_usage=recovered)
    assert actual(story.events, cost_usd=Limit(1)) == [2.0]
    assert actual(story.events, tokens=Limit(14)) == [15]
    assert actual(story.events, model_calls=Limit(0)) == [1]


def test_hidden_model_calls_of_a_backend_count() -> None:
    story = Story().starts().finishes(usage_total={"input": 100, "output": 20, "cost": {"total": 1.5}})
    assert actual(story.events, cost_usd=Limit(1)) == [1.5]


def test_a_cost_from_list_prices_is_called_estimated() -> None:
    story = Story().model(cost=None, input=10_000_000, provider="openai", model="gpt-4o")
    (found,) = reached(story.events, cost_usd=Limit(1))
    assert found.is_estimated and "estimated $" in found.text


def test_minutes_are_those_of_agent_runs_under_way() -> None:
    story = Story().starts().waits(120_000).finishes().waits(3_600_000)
    story.turns_to("run-2").starts().waits(60_000).finishes()
    assert actual(story.events, minutes=Limit(2.5, "session")) == [pytest.approx(3, abs=0.1)]
    assert actual(story.events, minutes=Limit(10, "session")) == []


def test_minutes_pass_without_events_until_the_process_ends() -> None:
    tracker = LimitTracker(Limits(minutes=Limit(5, action="stop")))
    for event in Story().starts().events:
        assert tracker.observe(event) == []
    assert tracker.advance(START + 4 * 60_000) == []
    (found,) = tracker.advance(START + 6 * 60_000)
    assert (found.event_id, found.agent_run_id, found.action) == (None, "run-1", "stop")
    assert tracker.advance(START + 7 * 60_000) == []
    ended = LimitTracker(Limits(minutes=Limit(5)))
    for event in Story().starts().process().events:
        ended.observe(event)
    assert ended.advance(START + 60 * 60_000) == []


def test_an_agent_run_that_its_session_left_behind_is_not_under_way() -> None:
    tracker = LimitTracker(Limits(minutes=Limit(5)))
    for event in Story().starts().turns_to("run-2").starts().finishes().events:
        tracker.observe(event)
    assert tracker.advance(START + 60 * 60_000) == []


def test_events_of_the_recorder_and_the_supervisor_count_nothing() -> None:
    story = Story().event("session_start").event("message_received").process()
    assert all(not reached(story.events, **{name: Limit(0)}) for name in LIMIT_NAMES)
