"""Model calls that failed: why, how often, and whether the agent run got over it."""

from __future__ import annotations

import pytest
from story import Story

# What providers and OpenClaw really say, and what it means.
ERRORS = {
    "⚠️ lab/scripted request failed (authentication failed, HTTP 401). Re-authenticate the provider.": "auth",
    "403 Forbidden": "auth",
    "Incorrect API key provided. invalid_api_key": "auth",
    'No API key found for provider "openai"': "auth",
    "402 Payment Required": "billing",
    "429 You exceeded your current quota, please check your plan and billing details": "billing",
    "Your credit balance is too low": "billing",
    "⚠️ API rate limit reached. Please try again later.": "rate_limit",
    "HTTP 429 Too Many Requests": "rate_limit",
    "ThrottlingException: Too many tokens, please wait before trying again.": "rate_limit",
    "⚠️ lab/scripted request failed (provider internal error, HTTP 500).": "server",
    "529 overloaded_error": "server",
    "503 Service Unavailable": "server",
    "Unexpected token < in JSON at position 0": "malformed",
    "empty response from the model": "malformed",
    "404 The model `gpt-9` does not exist": "rejected",
    "400 invalid_request_error: messages: roles must alternate": "rejected",
    "LLM request failed: network connection error.": "network",
    "connect ECONNREFUSED 127.0.0.1:9": "network",
    "getaddrinfo ENOTFOUND api.example.com": "network",
    "The model did not produce a response before the model idle timeout. Please try again.": "stall",
    "LLM request timed out.": "stall",
    "no bytes for 500 ms, the stream stalled": "stall",
    "something new": "unknown",
}


@pytest.mark.parametrize("error", ERRORS)
def test_failed_model_call_is_named_by_its_cause(error: str) -> None:
    story = Story().starts().user("hello").model(error=error).finishes(error=error)
    finding = story.only("provider_failure")
    assert finding.cause == f"provider_failure:{ERRORS[error]}"
    assert finding.severity == "high"
    assert story.types() == ["provider_failure"], "the end of the run says nothing more"


def test_what_the_provider_says_outranks_how_it_was_classified() -> None:
    error = "request failed (provider internal error, HTTP 500)"
    story = Story().model(error=error, failure_kind="timeout", failover_reason="server_error").finishes(error=error)
    assert story.only("provider_failure").cause == "provider_failure:server"


def test_classification_counts_where_the_provider_says_nothing_telling() -> None:
    story = Story().model(error="failed", failover_reason="rate_limit").finishes(error="failed")
    assert story.only("provider_failure").cause == "provider_failure:rate_limit"


def test_failure_that_the_run_got_over_weighs_little() -> None:
    story = Story().user("say hello").starts().model(error="HTTP 500").finishes(error="HTTP 500")
    story.event("provider_retry", payload={"retryAttempt": 1}).starts()
    story.model().runs("echo hello", "hello").model().says("The command printed hello.").finishes()
    finding = story.only("provider_failure")
    assert (finding.severity, finding.occurrences) == ("low", 1)
    assert finding.title.endswith("later calls succeeded")
    assert story.types() == ["provider_failure"]
    assert story.diagnosis().readiness == "ready"


def test_retries_that_repeat_the_same_call_id_are_calls_of_their_own() -> None:
    story = Story()
    for _ in range(3):
        story.starts().model(error="HTTP 500", callId="run-1:model:1").finishes(error="HTTP 500")
    story.starts().model(callId="run-1:model:1").says("Hello.").finishes()
    assert story.only("provider_failure").occurrences == 3
    cost = story.diagnosis().cost_analysis
    assert (cost.model_calls, cost.failed_model_calls) == (4, 3)


def test_success_that_the_agent_reports_does_not_hide_a_failed_model_call() -> None:
    story = Story().model(error="HTTP 401").event("agent_end", status="ok", payload={"success": True})
    assert story.only("provider_failure").severity == "high"


def test_exit_code_that_the_provider_explains_is_not_told_twice() -> None:
    story = Story().starts().model(error="HTTP 401").finishes(error="HTTP 401").process(1, error="exit code 1")
    assert story.types() == ["provider_failure"]


def test_exit_code_long_after_a_provider_failure_of_another_run_is_told() -> None:
    story = Story().starts().model(error="HTTP 401").finishes(error="HTTP 401")
    story.turns_to("run-2").starts().model().says("Hello.").finishes()
    assert set(story.process(1, error="exit code 1").types()) == {"process_failure", "provider_failure"}


def test_several_causes_are_told_apart() -> None:
    story = Story().model(error="HTTP 429").model(error="HTTP 500").model(error="HTTP 401").finishes(error="HTTP 401")
    told = {finding.cause.split(":")[1]: finding.severity for finding in story.findings()}
    assert told == {"auth": "high", "rate_limit": "low", "server": "low"}


def test_fallback_to_another_model_is_a_recovery() -> None:
    story = Story().model(error="HTTP 503", provider="one").model(provider="two").says("Here it is.").finishes()
    assert [(finding.type, finding.severity) for finding in story.findings()] == [("provider_failure", "low")]


@pytest.mark.parametrize("said", ["Request was aborted.", "This operation was aborted", "run cancelled by user"])
def test_call_that_the_user_stopped_did_not_fail(said: str) -> None:
    story = Story().starts().user("write a novel").model(error=said).finishes(error="aborted", aborted=True)
    assert story.types() == []
    assert story.diagnosis().outcome.state == "interrupted"


def test_run_that_gave_way_to_a_newer_message_did_not_fail() -> None:
    story = Story().starts().user("one").model(error="Request was aborted.")
    story.finishes(error="agent run superseded by a newer session writer", aborted=True)
    story.turns_to("run-2").starts().user("two").model().says("Two.").finishes()
    assert story.types() == []


def test_refusal_because_of_size_is_told_as_such_and_once() -> None:
    error = "400 This model's maximum context length is 8192 tokens"
    assert Story().model(error=error).finishes(error=error).types() == ["context_pollution"]


def test_answered_model_calls_are_no_failures() -> None:
    story = Story().starts().user("how are you?").model().model(usage=None).says("Fine.").finishes()
    assert story.types() == []


# Retry storms.


def failing(story: Story, times: int, error: str = "HTTP 503 overloaded") -> Story:
    for _ in range(times):
        story.starts().model(error=error).finishes(error=error)
    return story


def test_five_failures_in_a_row_are_a_storm() -> None:
    finding = failing(Story(), 5).only("retry_storm")
    assert (finding.occurrences, finding.cause) == (5, "retry_storm:server")
    assert "none succeeded" in finding.explanation


def test_four_failures_in_a_row_are_no_storm() -> None:
    assert failing(Story(), 4).types() == ["provider_failure"]


def test_failures_between_answers_are_no_storm() -> None:
    story = Story()
    for _ in range(8):
        failing(story, 1).model()
    assert story.says("Done it.").finishes().types() == ["provider_failure"]


def test_storm_that_passed_and_another_failure_at_the_end_are_told_as_they_were() -> None:
    story = failing(Story(), 6).model()
    finding = story.model(error="HTTP 401").finishes(error="HTTP 401").only("retry_storm")
    assert finding.cause == "retry_storm:server"
    assert "a later one succeeded" in finding.explanation


def test_failures_of_many_heartbeats_are_one_finding_and_no_storm() -> None:
    story = Story()
    for number in range(20):
        story.turns_to(f"beat-{number}").starts(trigger="heartbeat").model(error="HTTP 401")
        story.finishes(error="HTTP 401").waits(1_800_000)
    finding = story.only("provider_failure")
    assert story.types() == ["provider_failure"]
    assert (finding.occurrences, finding.agent_run_id) == (20, "beat-0")
    assert finding.session_key == "agent:main:main"
    assert "20 agent runs" in finding.explanation
