"""Backends that make their model calls themselves: coverage, confidence and cost say what was not visible."""

from __future__ import annotations

from typing import Any

from story import Story

from critiqor.diagnosis.scoring import confidence_lost
from critiqor.model import Coverage, Event
from critiqor.model.formatting import format_cost
from critiqor.storage.coverage import CoverageCounter
from critiqor.storage.redaction import Redactor

END: dict[str, Any] = {"usage_total": {"input": 10, "output": 7, "cacheRead": 100}, "provider": "claude-cli"}


def on_backend(story: Story | None = None) -> Story:
    """An agent run without a visible model call, with a call whose result its backend did not report."""
    story = (story or Story()).starts().user("Look.").calls("exec", {"command": "ls"}, "a")
    story.begins("exec", {"command": "ls inner"}, call_id="toolu_9")
    return story.calls("task", {"prompt": "look"}, "fine").says("It is fine.").finishes(**END)


def coverage_of(events: list[Event]) -> Coverage:
    counter = CoverageCounter()
    for event in events:
        counter.count(event)
    return counter.build_coverage(Redactor(b""))


def test_coverage_names_the_backend_and_the_tools_whose_results_were_not_visible() -> None:
    coverage = coverage_of(on_backend().events)
    assert coverage.hidden_model_calls == {"claude-cli": 1}
    assert coverage.results_hidden == {"exec": 1}
    assert (coverage.calls_without_results, coverage.open_calls) == (0, [])
    assert any(note.startswith("1 agent run ran on claude-cli") for note in coverage.notes)
    assert any(note.endswith("not visible: 1 of exec.") for note in coverage.notes)


def test_confidence_falls_by_what_was_not_visible() -> None:
    coverage = coverage_of(on_backend().events)
    coverage.sources = {"hooks": True}
    assert confidence_lost(coverage) == {
        "model calls that a backend made itself": 15,
        "results that a backend did not report": 3,
    }


def test_a_result_that_a_backend_does_not_report_is_no_call_that_never_returned() -> None:
    assert "tool_misuse" not in on_backend().types()
    visible = Story().starts().user("Look.").model()
    visible.begins("exec", {"command": "ls"})
    visible.calls("exec", {"command": "pwd"}, "a").says("It is fine.").finishes(**END)
    assert "tool_misuse" in visible.types()
    assert coverage_of(visible.events).hidden_model_calls == {}


def test_the_cost_of_a_backend_is_unknown_and_its_tokens_are_a_lower_bound() -> None:
    cost = on_backend().diagnosis().cost_analysis
    assert (cost.model_calls, cost.agent_runs_with_hidden_calls, cost.total_tokens) == (0, 1, 117)
    assert cost.unknown_usage == "the model calls of 1 agent run were not visible"
    assert format_cost(cost) == "no price known"
    assert [(model.provider, model.input_tokens) for model in cost.per_model] == [("claude-cli", 10)]


def test_an_attempt_on_a_backend_after_one_with_visible_calls_is_counted() -> None:
    story = Story().starts().user("Look.").model(error="HTTP 500").finishes(error="HTTP 500")
    story.starts().calls("exec", {"command": "ls"}, "a").says("Done.").finishes(**END)
    assert coverage_of(story.events).hidden_model_calls == {"claude-cli": 1}
    assert story.diagnosis().cost_analysis.agent_runs_with_hidden_calls == 1


def test_an_agent_run_that_needed_no_model_hides_nothing() -> None:
    story = Story().starts().user("/status").says("All is well.").finishes()
    assert coverage_of(story.events).hidden_model_calls == {}
    failed = Story().starts().user("Look.").finishes(error="no credentials", **END)
    assert coverage_of(failed.events).hidden_model_calls == {}


def test_a_harness_that_shows_one_of_its_model_calls_is_named() -> None:
    end = {**END, "provider": "openai", "harness": "codex"}
    story = Story().starts().user("Look.").asks(provider="openai", model="gpt-5.6")
    story.event("token_usage", payload={"provider": "openai", "model": "gpt-5.6", "usage": None})
    story.calls("bash", {"command": "ls"}, "a").says("It is fine.").finishes(**end)
    coverage = coverage_of(story.events)
    assert coverage.hidden_model_calls == {"codex": 1}
    assert any(note.startswith("1 agent run ran on codex") for note in coverage.notes)
    cost = story.diagnosis().cost_analysis
    assert (cost.agent_runs_with_hidden_calls, cost.total_tokens) == (1, 117)
    assert cost.cost.is_partial
