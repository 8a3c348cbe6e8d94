"""Detectors can be asked for their findings at any moment: asking changes nothing, and costs little."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from story import Story, interleaved
from test_detector_properties import CASES, neighbour
from test_detectors_random import EPISODES, anything, arguments, errors, texts, told, tools

from critiqor.diagnosis import Diagnoser
from critiqor.diagnosis.claims.episode import MAX_CALLS
from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.detectors import BUILT_IN
from critiqor.diagnosis.run_builder import RunBuilder
from critiqor.diagnosis.runs.span_cursor import MAX_HELD
from critiqor.model import Coverage, Event, Finding
from critiqor.spans.calls import ToolCall

Step = Callable[[Story], Story]

lookups = st.builds(
    lambda query, outcome: lambda story: story.remembers(query, outcome),
    st.sampled_from(["where is Ada?", "who is Bob?", ""]),
    st.sampled_from(["found", "empty", "error"]),
)
model_calls = st.builds(
    lambda size, error, wait: lambda story: story.model(input=size, error=error, timeToFirstByteMs=wait),
    st.sampled_from([1000, 90_000, 125_000, 140_000]),
    st.sampled_from([None, None, "HTTP 503 overloaded", "maximum context length exceeded", "request aborted"]),
    st.sampled_from([None, 45_000]),
)
other_runs = st.builds(lambda run: lambda story: story.turns_to(run), st.sampled_from(["run-1", "run-2"]))
plans = st.builds(
    lambda status: lambda story: story.calls("update_plan", {"plan": [{"status": status}, {"status": "pending"}]}),
    st.sampled_from(["pending", "completed"]),
)


def _overlap(tool: str, given_: Any, output: str, error: str | None) -> Step:
    """Two calls at a time, of which the first one returns last."""

    def run(story: Story) -> Story:
        first = story.begins(tool, given_)
        second = story.begins("read", {"path": "b.txt"})
        story.ends("read", second, output)
        return story.ends(tool, first, output, error=error)

    return run


overlaps = st.builds(_overlap, tools, arguments, texts, errors)
steps = st.one_of(anything, anything, anything, lookups, model_calls, other_runs, plans, overlaps)


def coverage(events: Sequence[Event]) -> Coverage:
    seen = sum(event.source_layer != "supervisor" for event in events)
    return Coverage(agent_events=seen, recorder_attached=True, sources={"hooks": True})


def observed(events: Sequence[Event]) -> Diagnoser:
    diagnoser = Diagnoser()
    for event in events:
        diagnoser.observe(event)
    return diagnoser


def concluded(diagnoser: Diagnoser, events: Sequence[Event]) -> list[Finding]:
    diagnosis = diagnoser.conclude("run_001", "sha256:0", coverage(events), "2026-11-15T00:00:00.000Z")
    return diagnosis.failure_analysis.findings


def assert_asking_changes_nothing(events: list[Event], asked_at: set[int]) -> None:
    asked = Diagnoser()
    for number, event in enumerate(events, 1):
        asked.observe(event)
        if number in asked_at:
            prefix = events[:number]
            found = asked.findings(coverage(prefix))
            assert found == observed(prefix).findings(coverage(prefix))
            assert found == asked.findings(coverage(prefix)), "asked twice"
    assert concluded(asked, events) == concluded(observed(events), events)


@pytest.mark.parametrize("kind", CASES)
def test_findings_at_every_prefix_of_a_case(kind: str) -> None:
    events = CASES[kind]().events
    assert_asking_changes_nothing(events, set(range(1, len(events) + 1)))


@pytest.mark.parametrize("kind", CASES)
def test_findings_of_a_finished_recording_are_those_of_its_diagnosis(kind: str) -> None:
    events = interleaved(CASES[kind]().events, neighbour().events)
    diagnoser = observed(events)
    assert diagnoser.findings(coverage(events)) == concluded(diagnoser, events)


@settings(max_examples=120)
@given(st.lists(steps, max_size=40), st.sets(st.integers(1, 120), max_size=12))
def test_findings_at_any_prefix_are_those_of_a_fresh_diagnoser(run: list[Step], asked_at: set[int]) -> None:
    assert_asking_changes_nothing(told(run).finishes().events, asked_at)


@settings(max_examples=60)
@given(st.lists(steps, max_size=25), st.lists(steps, max_size=25), st.sets(st.integers(1, 120), max_size=8))
def test_overlapping_runs_of_one_session_may_be_asked_at_any_prefix(
    one: list[Step], other: list[Step], asked_at: set[int]
) -> None:
    second = Story(run="run-2")
    for step in other:
        step(second)
    assert_asking_changes_nothing(interleaved(told(one).finishes().events, second.events), asked_at)


@pytest.mark.parametrize("kind", BUILT_IN.run_detectors, ids=lambda kind: str(kind.__name__))
@settings(max_examples=40)
@given(run=st.lists(steps, max_size=30))
def test_every_detector_says_the_same_whether_it_was_asked_before_or_not(
    kind: type[RunDetector[Any]], run: list[Step]
) -> None:
    builder = RunBuilder()
    for event in told(run).finishes().events:
        builder.observe(event)
    for agent_run in builder.runs.values():
        spans = [
            span
            for span in agent_run.spans
            if isinstance(span, kind.OBSERVES) and not (isinstance(span, ToolCall) and span.wraps)
        ]
        asked = kind(agent_run)
        for number, span in enumerate(spans, 1):
            asked.observe(span)
            if number % 3 == 0 or number == len(spans):
                fresh = kind(agent_run)
                for one in spans[:number]:
                    fresh.observe(one)
                assert asked.findings() == fresh.findings()
                assert asked.findings() == fresh.findings()


def test_call_that_has_not_returned_holds_back_what_began_after_it() -> None:
    story = Story().starts()
    waiting = story.begins("exec", {"command": "make"})
    for _ in range(5):
        story.calls("read", {"path": "a.txt"}, "apples")
    assert observed(story.events).findings(coverage(story.events)) == []
    assert [finding.type for finding in concluded(observed(story.events), story.events)] == ["tool_loop"]
    story.ends("exec", waiting, "built")
    assert [finding.type for finding in observed(story.events).findings(coverage(story.events))] == ["tool_loop"]


def test_call_that_hangs_does_not_hide_what_follows_for_ever() -> None:
    story = Story().starts()
    story.begins("exec", {"command": "tail -f log"})
    for _ in range(MAX_HELD + 5):
        story.calls("read", {"path": "a.txt"}, "apples")
    assert "tool_loop" in [finding.type for finding in observed(story.events).findings(coverage(story.events))]


def test_call_that_returns_after_it_was_given_up_is_judged_in_its_place() -> None:
    story = Story().starts()
    waiting = story.begins("exec", {"command": "sh deploy.sh"})
    for number in range(MAX_HELD + 5):
        story.calls("read", {"path": f"{number}.txt"}, f"{number} apples")
    asked = observed(story.events)
    assert asked.findings(coverage(story.events)) == []
    more = len(story.events)
    story.ends("exec", waiting, "refused", error="exit code 7")
    for _ in range(3):
        story.runs("sh deploy.sh", "refused", exit_code=7)
    for event in story.events[more:]:
        asked.observe(event)
    found = asked.findings(coverage(story.events))
    assert [finding.type for finding in found] == ["repeated_tool_failure"]
    assert found == observed(story.events).findings(coverage(story.events))


def test_loop_that_shows_late_joins_the_one_in_which_it_began() -> None:
    story = Story().calls("web_search", {"query": "one two three four five"}, "first")
    for number in range(4):
        place = f"src{number}"
        story.calls("code_search", {"name": "parse_order", "in": place}, f"parse_order not found in {place}")
        if number == 0:
            story.calls("web_search", {"query": "five four three two one"}, "second")
    assert_asking_changes_nothing(story.events, set(range(1, len(story.events) + 1)))
    (loop,) = [finding for finding in concluded(observed(story.events), story.events) if finding.type == "tool_loop"]
    assert loop.occurrences == 4


def test_actions_read_during_a_run_are_those_so_far() -> None:
    story = Story().starts()
    story.begins("tool_search_code", {"code": "read()"}, call_id="outer")
    story.begins("read", {"path": "a.txt"}, call_id="inner", parent_tool_call_id="outer")
    story.calls("read", {"path": "b.txt"})
    builder = RunBuilder()
    read = []
    for event in story.events:
        builder.observe(event)
        (run,) = builder.runs.values()
        read.append([call.arguments for call in run.actions])
    outer, inner, other = '{"code":"read()"}', '{"path":"a.txt"}', '{"path":"b.txt"}'
    assert read == [[], [outer], [inner], [inner, other], [inner, other]]


RE_READ = frozenset(("claims",))
"""Episodes whose claims are checked again each time: one request, more and more calls up to `MAX_CALLS`."""


def _lines_run(events: list[Event], every: int, within: str = "/critiqor/", *, ask_only: bool = True) -> int:
    """How many lines run when findings are asked for every few events: the same on every machine."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        if within not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    diagnoser = Diagnoser()
    seen = coverage(events)
    try:
        for number, event in enumerate(events):
            sys.settrace(None if ask_only else trace)
            diagnoser.observe(event)
            if number % every == 0:
                sys.settrace(trace)
                diagnoser.findings(seen)
    finally:
        sys.settrace(None)
    return count


@pytest.mark.parametrize("episode", EPISODES)
def test_observing_and_asking_costs_hardly_more_on_a_long_run(episode: str) -> None:
    small, large = 200, 800
    lines = []
    for size in (small, large):
        story = Story()
        for number in range(size):
            EPISODES[episode](story, number)
        lines.append(_lines_run(story.events, 50, "/critiqor/diagnosis/", ask_only=False))
    assert lines[1] <= lines[0] * (large / small) * (2 if episode not in RE_READ else 3)


def _alternate(story: Story, number: int) -> Story:
    return story.model(input=9000).calls("read", {"path": str(number % 2)}, "b" * 300)


MANY_FINDINGS = frozenset(
    ("loops that end", "failures that are repaired", "failures of many tools", "mails that time out")
)
"""Episodes with more and more separate drafts: asking lists all of them each time."""
GROWING: dict[str, Callable[[Story, int], Story]] = {
    **{name: step for name, step in EPISODES.items() if name not in MANY_FINDINGS | RE_READ},
    "two in turn, each requested by a model call": _alternate,
    "a cycle of many": lambda story, number: story.calls("read", {"path": str(number % 50)}, f"{number % 50}"),
    "rejected calls": lambda story, _: story.fails("read", {"pth": "a"}, "path is required"),
    "failing model calls": lambda story, _: story.model(error="HTTP 503 overloaded"),
    "requests that are too large": lambda story, _: story.model(input=140_000),
    "the same memory lookup": lambda story, _: story.remembers("where is Ada?", "found"),
}


@pytest.mark.parametrize("episode", GROWING)
def test_asking_every_few_events_costs_no_more_late_in_a_long_run(episode: str) -> None:
    small, large = 400, 1600
    lines = []
    for size in (small, large):
        story = Story()
        for number in range(size):
            GROWING[episode](story, number)
        lines.append(_lines_run(story.events, 25))
    assert lines[1] <= lines[0] * (large / small) * 1.3


def test_asking_about_one_request_costs_no_more_once_it_has_led_to_many_calls() -> None:
    lines = []
    for size in (MAX_CALLS + 50, 3 * MAX_CALLS):
        story = Story()
        for number in range(size):
            EPISODES["claims"](story, number)
        lines.append(_lines_run(story.events, len(story.events) - 1, "/diagnosis/claims/"))
    assert lines[1] <= lines[0] * 1.3
