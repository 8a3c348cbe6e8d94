"""What holds of the detectors for any run: they never raise, they stay linear, and new work makes no finding."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from story import Story, diagnose

from critiqor.diagnosis.claims.speech import Speech
from critiqor.diagnosis.signals.admissions import admits_failure
from critiqor.model import Event

OURS = frozenset(
    (
        "tool_loop",
        "repeated_tool_failure",
        "unresolved_tool_error",
        "tool_misuse",
        "ignored_tool_output",
        "repeated_side_effect",
        "no_progress",
        "false_success_claim",
    )
)
TOOLS = (
    *("exec", "read", "write", "edit", "apply_patch", "web_search", "web_fetch"),
    *("memory_search", "message", "process", "browser", "cron", "send_email"),
)
Step = Callable[[Story], Story]

texts = st.one_of(
    st.sampled_from(
        [
            "",
            "ok",
            "No results found",
            "apples and pears",
            "(no output)\n\n(Command exited with code 1)",
            "Command still running (session s1, pid 1).",
            "2 failed, 3 passed",
            "usage: tool [-h] FILE\n" * 20,
        ]
    ),
    st.text(max_size=60),
)
arguments = st.one_of(
    st.none(),
    st.sampled_from(
        [
            {"path": "a.txt"},
            {"path": "a.txt", "offset": 10},
            {"command": "pytest -q"},
            {"command": "grep -rn foo src | head"},
            {"command": "sleep 5 && curl -s localhost"},
            {"query": "one two three four five"},
            {"query": "five four three two one"},
            {"action": "poll", "sessionId": "s1"},
            {"to": "ada", "text": "hello"},
        ]
    ),
    st.dictionaries(st.text(max_size=8), st.one_of(st.text(max_size=20), st.integers(), st.none()), max_size=3),
    st.text(max_size=40),
)
errors = st.one_of(
    st.none(),
    st.none(),
    st.sampled_from(["exit code 1", "exit code 124", "timed out", "HTTP 404: not found", "path is required", "EACCES"]),
    st.text(min_size=1, max_size=40),
)
words = st.one_of(
    st.sampled_from(
        [
            "All tests pass.",
            "I could not do it.",
            "Saved to notes.txt.",
            "There are 1,234 of them.",
            "NO_REPLY",
            "",
            "Done.",
        ]
    ),
    st.text(max_size=80),
)


def _call(tool: str, given_: Any, output: Any, error: str | None) -> Step:
    return lambda story: story.calls(tool, given_, output, error=error)


def _open(tool: str, given_: Any) -> Step:
    def begin(story: Story) -> Story:
        story.begins(tool, given_)
        return story

    return begin


def _stray(tool: str, output: str) -> Step:
    return lambda story: story.ends(tool, "nobody-asked", output)


def _said(text: str) -> Step:
    return lambda story: story.says(text)


def _asked(text: str) -> Step:
    return lambda story: story.user(text)


def _other(event_type: str) -> Step:
    return lambda story: story.event(event_type)


tools = st.sampled_from(TOOLS)
answered = st.one_of(
    st.builds(_call, tools, arguments, texts, errors),
    st.builds(_call, tools, arguments, texts, errors),
    st.builds(_said, words),
    st.builds(_asked, words),
    st.builds(_other, st.sampled_from(["compaction_end", "agent_end", "agent_start"])),
)
anything = st.one_of(answered, st.builds(_open, tools, arguments), st.builds(_stray, tools, texts))


def told(steps: Iterable[Step]) -> Story:
    story = Story()
    for step in steps:
        step(story)
    return story


def types_of(events: list[Event]) -> set[str]:
    return {finding.type for finding in diagnose(events).failure_analysis.findings} & OURS


@settings(max_examples=150)
@given(st.lists(anything, max_size=40))
def test_any_run_gets_a_diagnosis(steps: list[Step]) -> None:
    findings = diagnose(told(steps).finishes().events).failure_analysis.findings
    assert all(finding.evidence and finding.title and finding.explanation for finding in findings)


@settings(max_examples=100)
@given(st.lists(answered, max_size=30), st.lists(tools, min_size=1, max_size=8))
def test_new_work_that_succeeds_makes_no_finding(steps: list[Step], more: list[str]) -> None:
    before = types_of(told(steps).events)
    story = told(steps)
    for number, tool in enumerate(more):
        story.calls(tool, {"path": f"new/{number}"}, f"news number {number}")
    assert types_of(story.events) <= before


@settings(max_examples=60)
@given(st.lists(tools, max_size=60))
def test_run_in_which_all_is_new_and_succeeds_is_clean(used: list[str]) -> None:
    story = Story().user("do what is to be done")
    for number, tool in enumerate(used):
        story.calls(tool, {"what": f"thing {number}"}, f"answer number {number}")
    assert types_of(story.says("That is what there is.").finishes().events) == set()


def _lines_run(events: list[Event]) -> int:
    """How many lines of the diagnosis run for these events: the same on every machine."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        if "critiqor/diagnosis" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        diagnose(events)
    finally:
        sys.settrace(None)
    return count


EPISODES: dict[str, Callable[[Story, int], Story]] = {
    "the same call": lambda story, _: story.calls("read", {"path": "a"}, "b"),
    "a call that moves": lambda story, number: story.calls("read", {"path": "a"}, str(number)),
    "loops that end": lambda story, number: story.calls("read", {"path": f"{number // 3}"}, "b"),
    "two in turn": lambda story, number: story.calls("read", {"path": str(number % 2)}, "b"),
    "the same failure": lambda story, _: story.runs("make", "error: broken", exit_code=2),
    "failures with names": lambda story, number: story.fails(
        "read", {"path": f"{number}"}, f"bad magic {'x' * (number % 60)}"
    ),
    "failures that are repaired": lambda story, number: (
        story.runs(f"make {number}", "error", exit_code=2)
        .runs(f"make {number}", "error", exit_code=2)
        .runs(f"make {number}", "built")
    ),
    "failures of many tools": lambda story, number: story.fails(f"tool{number}", {"a": 1}, "the network is down"),
    "mails sent twice": lambda story, number: story.calls("send_email", {"to": str(number % 97)}, "sent"),
    "mails that time out": lambda story, number: story.fails("send_email", {"to": str(number % 97)}, "timed out"),
    "claims": lambda story, _: story.runs("pytest", "1 failed", exit_code=1).says("All tests pass."),
    "questions": lambda story, _: story.user("and now?").calls("read", {"path": "a"}, "b").says("Nothing new."),
    "nothing found": lambda story, number: story.calls("search", {"query": f"{number}"}, f"Not found: {number}"),
}


@pytest.mark.parametrize("episode", EPISODES)
def test_work_grows_with_the_number_of_steps_and_not_faster(episode: str) -> None:
    small, large = 300, 1200
    lines = []
    for size in (small, large):
        story = Story()
        for number in range(size):
            EPISODES[episode](story, number)
        lines.append(_lines_run(story.events))
    assert lines[1] <= lines[0] * (large / small) * 1.3


@settings(max_examples=200)
@given(st.text(max_size=300))
def test_any_text_can_be_read_for_claims(text: str) -> None:
    admits_failure(text)
    speech = Speech(text, None)
    for stance in speech.stances:
        assert stance.is_asserted or not stance.is_good_news
        assert text[stance.statement.start : stance.statement.end] == stance.statement.text
        assert all(text[value.start : value.end] == value.text for value in speech.values_of(stance))
