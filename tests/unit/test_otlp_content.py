"""Content leaves a run only where it was asked for: a diagnosed run in which all that was said and done is one word."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from collectors import collector
from otlp import ReadTrace
from support import Cli, Runs, attached, recorded

from critiqor.diagnosis import FAILURE_TYPES
from critiqor.exporters.otlp.evaluations import EVALUATION

START = 1_794_000_000_000
MARK = "zzmark"
"""A word of every command, argument, output, error and message."""
FINDINGS = {"false_success_claim", "repeated_tool_failure"}


def marked_run(runs: Runs) -> None:
    """An agent whose command fails again and again, and who says that it worked."""
    numbers = count(2)

    def told(kind: str, **fields: Any) -> dict[str, Any]:
        number = next(numbers)
        return recorded(number, kind, at=START + number * 10, **fields)

    records = [attached(at=START), told("agent_start", payload={"agent_id": "main"})]
    records.append(told("input", payload={"role": "user", "text": f"make {MARK} pass"}))
    for number in range(8):
        call: dict[str, Any] = {"tool_name": "exec", "tool_call_id": f"c{number}"}
        result = {"content": [{"type": "text", "text": f"{MARK} of the output"}]}
        error = f"exit code 2: {MARK} of the error"
        records.append(told("tool_call", **call, payload={"arguments": {"command": f"{MARK} -q", "path": f"/{MARK}"}}))
        records.append(told("tool_result", **call, status="error", error=error, payload={"result": result}))
    records.append(told("before_provider_request", payload={"model": "m"}))
    said = {"role": "assistant", "text": f"All done: `{MARK} -q` passes now.", "stop_reason": "stop"}
    records += [told("message_end", payload=said), told("agent_end")]
    runs.seal(*records)


def evaluations(trace: ReadTrace) -> dict[str, dict[str, Any]]:
    return {told["gen_ai.evaluation.name"]: told for span in trace.spans for told in span.of(EVALUATION)}


@pytest.fixture
def titles(cli: Cli, runs: Runs) -> dict[str, str]:
    """The findings of the run, by their type; the words of the run are in them."""
    marked_run(runs)
    diagnosis = cli("show", "run_001", "--json").data["diagnosis"]
    assert MARK in diagnosis["headline"]
    found = {finding["type"]: finding for finding in diagnosis["failure_analysis"]["findings"]}
    assert found.keys() >= FINDINGS
    assert any(MARK in finding["cause"] for finding in found.values())
    return {kind: finding["title"] for kind, finding in found.items()}


def test_spans_hold_no_word_of_the_run_unless_they_are_asked_to(
    cli: Cli, titles: dict[str, str], tmp_path: Path
) -> None:
    assert cli("export", "run_001", "--format", "otlp").code == 0
    data = (tmp_path / "run_001.otlp.json").read_bytes()
    assert MARK.encode() not in data
    told = evaluations(ReadTrace(data))
    for kind in titles:
        assert told[kind]["gen_ai.evaluation.explanation"] == FAILURE_TYPES[kind]
        assert "critiqor.finding.cause" not in told[kind]
    assert told["trust"]["gen_ai.evaluation.explanation"] == FAILURE_TYPES["false_success_claim"]


def test_with_content_findings_and_verdict_say_what_it_was(cli: Cli, titles: dict[str, str], tmp_path: Path) -> None:
    assert cli("export", "run_001", "--format", "otlp", "--content").code == 0
    trace = ReadTrace((tmp_path / "run_001.otlp.json").read_bytes())
    told = evaluations(trace)
    for kind, title in titles.items():
        assert told[kind]["gen_ai.evaluation.explanation"].startswith(f"{title}. ")
        assert told[kind]["critiqor.finding.cause"].startswith(kind)
    assert told["trust"]["gen_ai.evaluation.explanation"] == titles["false_success_claim"]
    tool = trace.all("execute_tool exec")[0]
    for name in ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"):
        assert MARK in tool.attributes[name]
    assert MARK in tool.message


@pytest.mark.parametrize(("options", "is_there"), [((), False), (("--content",), True)])
def test_what_is_sent_holds_no_word_of_the_run_unless_it_is_asked_to(
    options: tuple[str, ...], is_there: bool, cli: Cli, titles: dict[str, str]
) -> None:
    with collector() as served:
        assert cli("export", "run_001", "--format", "otlp", "--endpoint", served.url, *options).code == 0
        assert any(MARK.encode() in body for body in served.bodies) is is_there


def test_a_trace_for_viewers_never_holds_a_word_of_the_run(cli: Cli, titles: dict[str, str], tmp_path: Path) -> None:
    assert cli("export", "run_001", "--format", "perfetto").code == 0
    assert MARK.encode() not in (tmp_path / "run_001.perfetto.json").read_bytes()
