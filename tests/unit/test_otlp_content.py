"""Content is exported only with `--content`: a run whose commands, outputs and messages all contain one marker word."""

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
    """Seal a run whose command fails repeatedly while the agent claims success."""
    numbers = count(2)

    def record(kind: str, **fields: Any) -> dict[str, Any]:
        number = next(numbers)
        return recorded(number, kind, at=START + number * 10, **fields)

    records = [attached(at=START), record("agent_start", payload={"agent_id": "main"})]
    records.append(record("input", payload={"role": "user", "text": f"make {MARK} pass"}))
    for number in range(8):
        call: dict[str, Any] = {"tool_name": "exec", "tool_call_id": f"c{number}"}
        result = {"content": [{"type": "text", "text": f"{MARK} of the output"}]}
        error = f"exit code 2: {MARK} of the error"
        records.append(
            record("tool_call", **call, payload={"arguments": {"command": f"{MARK} -q", "path": f"/{MARK}"}})
        )
        records.append(record("tool_result", **call, status="error", error=error, payload={"result": result}))
    records.append(record("before_provider_request", payload={"model": "m"}))
    said = {"role": "assistant", "text": f"All done: `{MARK} -q` passes now.", "stop_reason": "stop"}
    records += [record("message_end", payload=said), record("agent_end")]
    runs.seal(*records)


def evaluations(trace: ReadTrace) -> dict[str, dict[str, Any]]:
    found = [evaluation for span in trace.spans for evaluation in span.of(EVALUATION)]
    return {evaluation["gen_ai.evaluation.name"]: evaluation for evaluation in found}


@pytest.fixture
def titles(cli: Cli, runs: Runs) -> dict[str, str]:
    """Titles of the findings by type; findings quote the run."""
    marked_run(runs)
    diagnosis = cli("show", "run_001", "--json").data["diagnosis"]
    assert MARK in diagnosis["headline"]
    found = {finding["type"]: finding for finding in diagnosis["failure_analysis"]["findings"]}
    assert found.keys() >= FINDINGS
    assert any(MARK in finding["cause"] for finding in found.values())
    return {kind: finding["title"] for kind, finding in found.items()}


def test_spans_contain_no_content_by_default(cli: Cli, titles: dict[str, str], tmp_path: Path) -> None:
    assert cli("export", "run_001", "--format", "otlp").code == 0
    data = (tmp_path / "run_001.otlp.json").read_bytes()
    assert MARK.encode() not in data
    by_name = evaluations(ReadTrace(data))
    for kind in titles:
        assert by_name[kind]["gen_ai.evaluation.explanation"] == FAILURE_TYPES[kind]
        assert "critiqor.finding.cause" not in by_name[kind]
    assert by_name["trust"]["gen_ai.evaluation.explanation"] == FAILURE_TYPES["false_success_claim"]


def test_with_content_findings_and_verdict_quote_the_run(cli: Cli, titles: dict[str, str], tmp_path: Path) -> None:
    assert cli("export", "run_001", "--format", "otlp", "--content").code == 0
    trace = ReadTrace((tmp_path / "run_001.otlp.json").read_bytes())
    by_name = evaluations(trace)
    for kind, title in titles.items():
        assert by_name[kind]["gen_ai.evaluation.explanation"].startswith(f"{title}. ")
        assert by_name[kind]["critiqor.finding.cause"].startswith(kind)
    assert by_name["trust"]["gen_ai.evaluation.explanation"] == titles["false_success_claim"]
    tool = trace.all("execute_tool exec")[0]
    for name in ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"):
        assert MARK in tool.attributes[name]
    assert MARK in tool.message


@pytest.mark.parametrize(("options", "is_there"), [((), False), (("--content",), True)])
def test_requests_to_a_collector_contain_no_content_by_default(
    options: tuple[str, ...], is_there: bool, cli: Cli, titles: dict[str, str]
) -> None:
    with collector() as served:
        assert cli("export", "run_001", "--format", "otlp", "--endpoint", served.url, *options).code == 0
        assert any(MARK.encode() in body for body in served.bodies) is is_there


def test_a_perfetto_trace_never_contains_content(cli: Cli, titles: dict[str, str], tmp_path: Path) -> None:
    assert cli("export", "run_001", "--format", "perfetto").code == 0
    assert MARK.encode() not in (tmp_path / "run_001.perfetto.json").read_bytes()
