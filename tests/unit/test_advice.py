"""Advice that is true: about tools that exist, waste that was measured, and runs in which no agent began."""

from __future__ import annotations

import pytest
from story import Story

from critiqor.model import Finding
from critiqor.model.formatting import format_waste
from critiqor.model.verdict import fresh_verdict

OFFERED = {"count": 3, "names": ["read", "exec", "tool_search", "tool_describe", "tool_call"]}


def unknown_tool(story: Story, tool: str = "memory_get") -> Story:
    return story.model().calls(tool, {"path": "MEMORY.md"}, f"Tool {tool} not found", error=f"Tool {tool} not found")


def misuse(story: Story) -> Finding:
    return story.says("I could not read it.").finishes().only("tool_misuse")


# Tools.


def test_a_tool_that_exists_nowhere_may_be_added() -> None:
    finding = misuse(unknown_tool(Story().user("Look.").asks(tools={"names": ["read", "exec"]})))
    assert finding.title.endswith("there is no such tool")
    assert finding.recommendation.startswith("Give the agent a tool named `memory_get`")


def test_a_tool_in_the_directory_of_the_tool_search_is_not_to_be_added() -> None:
    story = Story().user("Look.").asks(tools={**OFFERED, "deferred": ["cron", "memory_get"]})
    finding = misuse(unknown_tool(story))
    assert finding.title == "`memory_get` was called wrongly: it is behind OpenClaw's tool search"
    assert finding.recommendation.startswith("Tell the agent to call `memory_get` with `tool_call`")


def test_a_tool_that_was_reached_through_the_tool_search_is_not_to_be_added() -> None:
    story = unknown_tool(Story().user("Look."))
    outer = story.begins("tool_call", {"id": "memory_get", "args": {}}, call_id="call_9")
    inner = story.begins("memory_get", {}, call_id="tool_search_code:call_9:memory_get:1")
    story.ends("memory_get", inner, "text").ends("tool_call", outer, "text")
    assert "with `tool_call`" in misuse(story).recommendation


def test_a_tool_that_the_tool_search_lists_is_not_to_be_added() -> None:
    listed = '[{"id": "openclaw:memory-core:memory_get", "name": "memory_get", "input": "{ path: string }"}]'
    story = unknown_tool(Story().user("Look.")).model().calls("tool_search", {"query": "memory"}, listed)
    assert "with `tool_call`" in misuse(story).recommendation


def test_a_tool_that_may_be_behind_the_tool_search_is_looked_for_first() -> None:
    finding = misuse(unknown_tool(Story().user("Look.").asks(tools=OFFERED), "send_fax"))
    assert finding.title == "`send_fax` was called wrongly: no tool can be called by this name"
    assert "look for `send_fax` with `tool_search`" in finding.recommendation


def test_a_tool_that_another_agent_run_had_is_allowed_rather_than_added() -> None:
    story = unknown_tool(Story().user("Look.")).says("I could not read it.").finishes()
    story.turns_to("run-2", "agent:other:main").user("Look.").model().calls("memory_get", {"path": "a"}, "text")
    finding = misuse(story)
    assert finding.recommendation.startswith("Allow `memory_get` for this agent")


def test_the_tool_search_itself_is_never_to_be_added() -> None:
    error = "Unknown tool id: memory_gett. Did you mean: memory_get? Use tool_search to find a tool."
    story = Story().user("Look.").model().calls("tool_call", {"id": "memory_gett"}, error, error=error)
    finding = misuse(story)
    assert finding.title == "`tool_call` was called wrongly: no tool has the id that it was given"
    assert "an id from its results" in finding.recommendation


def test_the_advice_is_the_same_while_the_run_is_recorded_and_for_many_agent_runs() -> None:
    story = Story().user("Look.").asks(tools={**OFFERED, "deferred": ["memory_get"]})
    for number in range(3):
        unknown_tool(story.turns_to(f"run-{number}").user("Look."))
        story.says("I could not read it.").finishes()
    assert "with `tool_call`" in story.only("tool_misuse").recommendation


# Waste.


def looping(tokens: int = 100_000) -> Story:
    story = Story().user("Find it.")
    for _ in range(15):
        story.model(input=tokens).calls("web_search", {"query": "a"}, "the same answer")
    return story


@pytest.mark.parametrize("later_runs", [0, 5000])
def test_a_cost_explosion_names_the_waste_that_its_title_speaks_of(later_runs: int) -> None:
    story = looping().says("Nothing.").finishes()
    for number in range(later_runs):
        story.turns_to(f"later-{number}").user("Hello.")
    diagnosis = story.diagnosis()
    [finding] = [each for each in diagnosis.failure_analysis.findings if each.type == "cost_explosion"]
    wasted = finding.impact.wasted_tokens
    assert wasted
    share = round(100 * wasted / sum(turn.total_tokens for turn in diagnosis.cost_analysis.per_turn[:1]))
    assert finding.title.startswith(f"{share}% of")
    assert "tokens" in format_waste(finding.impact)
    assert diagnosis.cost_analysis.wasted_tokens is not None
    assert wasted <= diagnosis.cost_analysis.wasted_tokens <= diagnosis.cost_analysis.total_tokens


def test_results_that_are_sent_again_are_counted_as_the_waste_that_the_title_speaks_of() -> None:
    story = Story().user("Read it.").model(input=1000).calls("read", {"path": "a"}, "x " * 200_000)
    for number in range(14):
        story.model(input=120_000).calls("read", {"path": f"b{number}"}, f"{number}")
    diagnosis = story.says("Read.").finishes().diagnosis()
    [finding] = [each for each in diagnosis.failure_analysis.findings if each.type == "cost_explosion"]
    assert "sent again and again" in finding.title
    assert finding.impact.wasted_tokens
    assert diagnosis.cost_analysis.wasted_tokens
    assert finding.impact.wasted_tokens <= diagnosis.cost_analysis.wasted_tokens
    assert diagnosis.cost_analysis.wasted_tokens <= diagnosis.cost_analysis.total_tokens


def test_no_finding_that_speaks_of_waste_says_that_there_was_none() -> None:
    for finding in looping().says("Nothing.").finishes().findings():
        if "wasted" in finding.title or "tokens" in finding.title:
            assert format_waste(finding.impact) != "not measured", finding.title


# Runs in which no agent began.


def stopped(story: Story) -> Story:
    return story.process(130, error="interrupted from the keyboard", reason="interrupted")


def launched() -> Story:
    return Story().event("process_start", layer="supervisor", payload={"pid": 7})


@pytest.mark.parametrize(
    ("story", "coverage"),
    [
        (launched(), {"agent_events": 0, "recorder_attached": False}),
        (launched().event("recorder_attached"), {"agent_events": 0}),
        (launched().event("recorder_attached").event("gateway_start").waits(3_600_000), {"agent_events": 0}),
        (launched().event("recorder_attached").event("message_received", payload={"text": "Hi"}), {"agent_events": 1}),
        (launched().event("recorder_attached").user("Hi"), {"agent_events": 1}),
    ],
)
def test_a_run_that_was_interrupted_before_an_agent_began_is_described_as_that(
    story: Story, coverage: dict[str, object]
) -> None:
    diagnosis = stopped(story).diagnosis(**coverage)
    [finding] = diagnosis.failure_analysis.findings
    assert diagnosis.headline == finding.title == "OpenClaw was interrupted before an agent began"
    assert (finding.severity, diagnosis.trust_score, diagnosis.readiness) == ("low", None, "unknown")
    assert finding.recommendation.startswith("Start OpenClaw again")
    assert diagnosis.playbook.prompt is None
    assert fresh_verdict(diagnosis).unknown_trust == "no agent had begun"


def test_an_interrupted_run_whose_recorder_never_loaded_is_still_blind() -> None:
    story = launched().waits(3_600_000)
    diagnosis = stopped(story).diagnosis(agent_events=0, recorder_attached=False)
    assert diagnosis.headline == "The agent was not observed"


def test_a_run_that_ended_by_itself_without_an_agent_has_no_trust_score() -> None:
    diagnosis = launched().event("recorder_attached").process(0).diagnosis(agent_events=0)
    assert (diagnosis.headline, diagnosis.trust_score) == ("No agent run took place", None)


def test_an_agent_that_had_begun_is_judged() -> None:
    story = launched().event("recorder_attached").user("Hi").starts()
    assert stopped(story).only("process_failure").title == "OpenClaw was interrupted while the agent was working"


def test_an_explanation_of_such_a_run_speaks_of_no_agent() -> None:
    diagnosis = stopped(launched().event("recorder_attached")).diagnosis(agent_events=0)
    [finding] = diagnosis.failure_analysis.findings
    for text in (finding.explanation, finding.verification, *(change.change for change in diagnosis.playbook.changes)):
        assert "instructions" not in text
        assert "doctor" not in text
