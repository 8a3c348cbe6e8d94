"""What a tool result means: the rules shared by the importers, the embedded recorder and the plugin."""

from __future__ import annotations

from typing import Any

import pytest

from critiqor.spans.memory_lookups import memory_lookup
from critiqor.spans.tool_results import NO_REASON, REPORTED_FAILURE, error_text, result_text, text_outcome, tool_outcome


@pytest.mark.parametrize(
    ("result", "reported", "outcome"),
    [
        ({"details": {"exitCode": 0}}, {}, (None, 0)),
        ({"details": {"exitCode": 2}}, {}, ("exit code 2", 2)),
        ({"details": {}}, {"reported_exit_code": 3}, ("exit code 3", 3)),
        ({"details": {"exitCode": 0}}, {"reported_exit_code": 3}, (None, 0)),
        ({"details": {"exitCode": True}}, {}, (None, None)),
        ({"details": {"exitCode": "1"}}, {}, (None, None)),
        ({"details": {"exitSignal": "SIGKILL"}}, {}, ("ended by SIGKILL", None)),
        ({"details": {"timedOut": True}}, {}, ("timed out", None)),
        ({"details": {"noOutputTimedOut": True}}, {}, ("timed out", None)),
        ({"details": {"status": "failed", "error": "no such tool"}}, {}, ("no such tool", None)),
        ({"details": {"status": "timeout"}, "content": [{"text": "gave up"}]}, {}, ("gave up", None)),
        ({"details": {"status": ["failed"]}}, {}, (None, None)),
        ({"details": {"status": "running"}}, {}, (None, None)),
        ({"details": "none"}, {"is_error": True}, (NO_REASON, None)),
        ({"details": {"exitCode": 1}}, {"error": {"message": "refused"}}, ("refused", 1)),
        ("no such file", {"is_error": True}, ("no such file", None)),
        (None, {"error": ValueError("bad path")}, ("bad path", None)),
        (None, {}, (None, None)),
    ],
)
def test_outcome_of_a_tool_call(result: Any, reported: dict[str, Any], outcome: tuple[str | None, int | None]) -> None:
    assert tool_outcome(result, **reported) == outcome


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("Exit code 127\nbash: foo: command not found", ("exit code 127", 127)),
        ("Error: Exit code 2\nno rule", ("exit code 2", 2)),
        ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\nno", ("exit code 1", 1)),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nok", (None, 0)),
        ("<returncode>1</returncode>\n<output>\nno\n</output>", ("exit code 1", 1)),
        ("no\n[The command completed with exit code 1.]", ("exit code 1", 1)),
        ("ok\n[Command finished with exit code 0]", (None, 0)),
        ("Command: make\nOutput: (empty)\nError: no rule\nExit Code: 2\nSignal: (none)", ("exit code 2", 2)),
        ("Wall time: 0.1 seconds\nProcess exited with code 3\nOutput:\n", ("exit code 3", 3)),
        ("failed\n\n(Command exited with code 1)", ("exit code 1", 1)),
        ("x" * 5000 + "\n(Command exited with code 1)", ("exit code 1", 1)),
        ("the child had exit code 1", (None, None)),
        ("x" * 1000 + "\nExit Code: 1\n" + "x" * 1000, (None, None)),
        ("Exit code unknown", (None, None)),
        ("<tool_use_error>Read it first.</tool_use_error>", ("Read it first.", None)),
        ("It does not exist." + REPORTED_FAILURE, ("It does not exist.", None)),
        (REPORTED_FAILURE, (NO_REASON, None)),
        ("", (None, None)),
    ],
)
def test_outcome_of_a_tool_call_whose_result_is_a_text(text: str, outcome: tuple[str | None, int | None]) -> None:
    assert text_outcome(text) == outcome


def test_a_failure_reported_beside_a_text_is_described_by_it() -> None:
    assert text_outcome("It does not exist.", is_error=True) == ("It does not exist.", None)
    assert text_outcome("Exit code 1\nnothing", is_error=True) == ("exit code 1", 1)
    assert text_outcome("", is_error=True) == (NO_REASON, None)


def test_error_text_takes_the_first_message() -> None:
    assert error_text({"error": "", "errorMessage": {"message": "late"}, "message": "x"}) == "late"
    assert error_text({"error": {"code": 7}, "result": [{"text": ""}, {"text": "broke"}]}) == "broke"
    assert error_text({}) == NO_REASON


def test_result_text_is_the_first_that_is_not_empty() -> None:
    assert result_text({"content": [{"type": "image"}, {"text": ""}, {"text": "second"}]}) == "second"
    assert result_text([{"text": "bare list"}]) == "bare list"
    assert result_text("") is None
    assert result_text({"content": "no list"}) is None


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"details": {"results": [1]}}, "found"),
        ({"details": {"results": []}, "content": [{"text": "{}"}]}, "empty"),
        ({"results": [], "details": None}, "empty"),
        ({"details": {"text": "  "}}, "empty"),
        ({"details": {}, "content": [{"text": "a note"}]}, "found"),
        ({"details": {"results": [], "disabled": True}}, "error"),
        ({"details": {"results": [], "unavailable": True}}, "error"),
        ({"details": {"results": [], "error": {"message": "quota"}}}, "error"),
        ("a note", "found"),
        (None, "empty"),
    ],
)
def test_outcome_of_a_memory_lookup(result: Any, outcome: str) -> None:
    assert memory_lookup({"query": "fences"}, result, has_ended=True, failed=False) == {
        "query": "fences",
        "key": None,
        "lookup": outcome,
    }
    assert memory_lookup(None, result, has_ended=True, failed=True)["lookup"] == "error"


def test_a_memory_lookup_is_pending_until_it_ends() -> None:
    assert memory_lookup({"query": 3, "path": "a.md"}, None, has_ended=False, failed=False) == {
        "query": None,
        "key": "a.md",
        "lookup": "pending",
    }
    assert memory_lookup({}, None, has_ended=False, failed=True)["lookup"] == "error"
