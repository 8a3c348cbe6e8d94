"""The split of a turn: its parts add up, whatever overlaps and however it is added."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from story import Story

from critiqor.model.timeline import TurnSplit
from critiqor.timeline import attribute_turns
from critiqor.timeline.turns.attribution import MAX_LIVE, MAX_SLOWEST
from critiqor.timeline.turns.recorded_turns import MAX_RECENT
from critiqor.timeline.turns.splits import Interval, Splitter, split_turn

SECOND_MS = 1000
"""From one event of a story to the next."""


def total(split: TurnSplit) -> float:
    asked = split.before_provider_ms + split.with_provider_ms + split.retrying_ms
    return asked + split.in_tools_ms + split.between_ms + split.after_ms + split.unattributed_ms


@st.composite
def followed(draw: st.DrawFn) -> list[Interval]:
    """Return intervals in order, some of them without a pause between."""
    steps = draw(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 200), st.booleans(), st.booleans())))
    ends = list(accumulate(pause + took for pause, took, *_ in steps))
    return [
        Interval(1000.0 + end - took, 1000.0 + end, "provider" if asks else "tool", "x", failed)
        for end, (_, took, asks, failed) in zip(ends, steps, strict=True)
    ]


@given(st.lists(st.builds(Interval, st.integers(0, 500), st.integers(500, 900), st.just("tool"), st.just("x"))))
def test_parts_add_up_to_the_turn_whatever_overlaps(intervals: list[Interval]) -> None:
    asked = [stretch._replace(kind="provider", end=stretch.end - 50) for stretch in intervals[::2]]
    split = split_turn(-10, 1000, [*asked, *intervals], ended=True)
    assert total(split) == pytest.approx(1010)


@given(followed(), st.integers(0, 100), st.booleans())
def test_portions_give_the_same_split_as_everything_at_once(intervals: list[Interval], cut: int, ended: bool) -> None:
    end = intervals[-1].end + 7 if intervals else 1007.0
    whole = split_turn(990, end, intervals, ended=ended)
    portions = Splitter()
    portions.add(intervals[:cut])
    portions.add(intervals[cut:])
    assert portions.split(990, end, ended=ended) == whole
    assert total(whole) == pytest.approx(end - 990)


def test_an_agent_run_of_any_length_is_split_to_the_millisecond() -> None:
    story = Story().event("agent_start")
    calls = 3 * MAX_RECENT
    for _ in range(calls):
        story.calls("read", {}, ms=SECOND_MS - 50)
    (turn,) = attribute_turns([], story.finishes().events)
    assert (turn.tools, turn.split.in_tools_ms) == (calls, (SECOND_MS - 50) * calls), "as the calls reported it"
    assert total(turn.split) == pytest.approx(turn.duration_ms)
    assert len(turn.tree.children) + turn.tree.more == calls


def test_the_slowest_of_very_many_agent_runs_are_kept() -> None:
    events = []
    slow = {f"run-{number}" for number in range(0, 2 * MAX_LIVE, MAX_LIVE // 5)}
    for number in range(2 * MAX_LIVE):
        name = f"run-{number}"
        story = Story(f"agent:{number}", name).event("agent_start")
        story.calls("read", {}, ms=5000 if name in slow else 10)
        events += story.finishes().events
    assert len(slow) < MAX_SLOWEST
    slowest = [turn.agent_run_id for turn in attribute_turns([], events)]
    assert set(slowest[: len(slow)]) == slow


def test_a_long_pause_around_a_tool_is_unattributed_and_named() -> None:
    asked, tool = Interval(0, 100, "provider", "a request"), Interval(110, 200, "tool", "exec")
    split = split_turn(0, 900, [asked, tool, Interval(800, 900, "provider", "a request")], ended=True)
    assert (split.between_ms, split.unattributed_ms) == (10, 600)
    assert [(gap.duration_ms, gap.after, gap.before) for gap in split.gaps] == [(600, "exec", "a request")]


def test_a_tool_that_was_running_when_a_live_run_was_sealed_has_the_time_until_then() -> None:
    story = Story().event("process_start", layer="supervisor").event("agent_start").model()
    story.begins("exec", {"command": "sleep 20"})
    story.event("state_transition", layer="supervisor", after=4000, payload={"to": "FINALIZING"})
    (turn,) = attribute_turns([], story.events)
    assert turn.split.in_tools_ms == 4000
    assert not turn.ended
