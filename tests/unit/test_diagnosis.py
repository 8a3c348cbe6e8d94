"""From the journal to the diagnosis, through sealed evidence."""

from __future__ import annotations

from typing import Any

from support import Runs, attached, recorded


def diagnosed(runs: Runs, *events: dict[str, Any]) -> dict[str, Any]:
    runs.seal(attached(), *events)
    record = runs.record("run_001")
    diagnosis: dict[str, Any] = record["diagnosis"]
    return diagnosis


def types(diagnosis: dict[str, Any]) -> list[str]:
    return [finding["type"] for finding in diagnosis["failure_analysis"]["findings"]]


def test_gateway_without_agent_runs_gets_no_trust_score(runs: Runs) -> None:
    diagnosis = diagnosed(runs, recorded(2, "gateway_start"), recorded(3, "session_start"), recorded(4, "gateway_stop"))
    assert diagnosis["trust_score"] is None
    assert diagnosis["readiness"] == "unknown"
    assert types(diagnosis) == ["inspection_incomplete"]


def test_agent_run_that_ended_in_an_error_is_found(runs: Runs) -> None:
    diagnosis = diagnosed(
        runs,
        recorded(2, "after_provider_response", payload={"usage": {"input": 5}}),
        recorded(3, "agent_end", status="error", error="the session file is locked"),
    )
    assert types(diagnosis) == ["agent_failure"]
    assert "locked" in diagnosis["failure_analysis"]["findings"][0]["title"]
    assert diagnosis["readiness"] == "unsafe"


def test_failed_attempt_that_was_repeated_with_success_is_no_failure_of_the_run(runs: Runs) -> None:
    diagnosis = diagnosed(
        runs,
        recorded(2, "agent_end", status="error", error="overloaded"),
        recorded(3, "after_provider_response", payload={"usage": {"input": 5}}),
        recorded(4, "agent_end"),
    )
    assert types(diagnosis) == []


def test_usage_that_is_reported_only_at_the_end_is_counted(runs: Runs) -> None:
    usage = {"input": 5, "output": 7, "cost": {"total": 0.5}}
    cost = diagnosed(
        runs,
        recorded(2, "before_provider_request"),
        recorded(3, "after_provider_response", payload={"usage": None}),
        recorded(4, "agent_end", payload={"recovered_usage": [{"turn": 1, "usage": usage}]}),
    )["cost_analysis"]
    assert (cost["input_tokens"], cost["output_tokens"], cost["cost_usd"]) == (5, 7, 0.5)
    assert cost["model_calls_without_usage"] == 0
    assert runs.evidence("run_001")["coverage"]["responses_without_usage"] == 0


def test_unknown_price_is_not_zero(runs: Runs) -> None:
    cost = diagnosed(runs, recorded(2, "after_provider_response", payload={"usage": {"input": 5}}))["cost_analysis"]
    assert cost["cost_usd"] is None
    assert cost["input_tokens"] == 5
