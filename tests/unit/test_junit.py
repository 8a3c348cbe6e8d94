"""Results of a policy as JUnit XML, read by junitparser and validated with the schema that Jenkins published."""

from __future__ import annotations

from pathlib import Path

import pytest
from diagnosed import diagnoses, diagnosis, finding, store, texts_of
from hypothesis import given
from junitparser import Failure, JUnitXml, TestCase, TestSuite
from lxml import etree
from reports import HOSTILE, INTACT, gated, report
from support import Cli, Runs

from critiqor.exporters import junit
from critiqor.model import Diagnosis
from critiqor.model.report import GateReport
from critiqor.policy.gate import apply_policy
from critiqor.policy.policy_file import Policy

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).parents[1] / "schemas" / "junit-10.xsd"))


def suite_of(data: bytes) -> TestSuite:
    SCHEMA.assertValid(etree.fromstring(data))
    document = JUnitXml.fromstring(data)
    [suite] = document
    assert (document.tests, document.failures) == (suite.tests, suite.failures)
    counted = (suite.tests, suite.failures, suite.errors, suite.skipped)
    suite.update_statistics()
    assert counted == (suite.tests, suite.failures, suite.errors, suite.skipped), "the counts match the cases"
    return suite


def written(gate_report: GateReport) -> TestSuite:
    return suite_of(b"".join(junit.report(gate_report)))


def failures(suite: TestSuite) -> dict[str, list[str]]:
    """Return the messages of each failed case."""
    cases: list[TestCase] = list(suite)
    return {case.name: [result.message for result in case.result if isinstance(result, Failure)] for case in cases}


def test_every_rule_of_the_policy_is_a_case_and_those_that_fail_say_why() -> None:
    suite = written(gated(diagnosis("run_001", finding("timeout", "high"), trust=55)))
    assert failures(suite) == {
        "require_intact": [],
        "require_observed": [],
        "require_finished": [],
        "min_trust": ["trust is 55, at least 70 required"],
        "min_confidence": [],
        "max_severity": ["1 finding above medium, the most severe is high: timeout, about timeout"],
    }
    assert (suite.tests, suite.failures) == (6, 2)
    [case] = [case for case in suite if case.name == "min_trust"]
    assert "critiqor show run_001" in case.result[0].text


@pytest.mark.parametrize(
    "wrong",
    [
        '<testsuites skipped="0"/>',
        '<testsuites><testcase name="a"/></testsuites>',
        '<testsuites time="soon"/>',
        '<testsuite name="a" tests="1" failures="0"/>',
        '<testsuite name="a" tests="0" failures="0" errors="0"><properties name="a"/></testsuite>',
        '<testsuite name="a" tests="1" failures="0" errors="0"><testcase name="a" status="run"/></testsuite>',
    ],
)
def test_the_schema_refuses_what_jenkins_does(wrong: str) -> None:
    assert not SCHEMA.validate(etree.fromstring(wrong))


def test_a_run_that_passes_has_no_failure() -> None:
    suite = written(gated(diagnosis()))
    assert (suite.tests, suite.failures) == (6, 0)
    assert all(not case.result for case in suite)


def test_cases_are_named_by_agent_and_rule_so_that_they_can_be_followed_over_runs() -> None:
    names = [
        [(case.classname, case.name) for case in written(gated(diagnosis(run_id), agent_id="clerk"))]
        for run_id in ("run_001", "run_002")
    ]
    assert names[0] == names[1]
    assert names[0][0] == ("critiqor.clerk", "require_intact")


def test_the_verdict_is_among_the_properties() -> None:
    properties = {item.name: item.value for item in written(gated(diagnosis(trust=None))).properties()}
    assert (properties["run_id"], properties["trust_score"], properties["wall_ms"]) == ("run_001", "unknown", "1000")


def test_only_the_rules_of_the_policy_are_checked() -> None:
    policy = Policy(max_findings=0, require_intact=False, require_observed=False, require_finished=False)
    concluded = diagnosis("run_001", finding())
    gate_report = GateReport(report(concluded), apply_policy(policy, concluded, INTACT))
    assert failures(written(gate_report)) == {"max_findings": ["1 finding, at most 0 allowed"]}


def test_hostile_texts_stay_plain_text() -> None:
    hostile = f"{HOSTILE}\ufffe\uffff\ud800"
    texts = texts_of(HOSTILE)
    texts["title"] = hostile
    found = finding("timeout", "high", **texts)
    [message] = failures(written(gated(diagnosis("run_001", found), agent_id=hostile)))["max_severity"]
    assert "<script>alert(1)</script>" in message
    assert message.isprintable()


@given(diagnoses)
def test_the_results_of_any_gate_can_be_written(concluded: Diagnosis) -> None:
    gate_report = gated(concluded)
    assert written(gate_report).failures == sum(not rule.passed for rule in gate_report.gate.rules)


def test_the_policy_of_a_file_is_the_one_that_is_checked(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    store(runs, diagnosis("run_001", finding("timeout", "low"), trust=95))
    (tmp_path / "policy.toml").write_text("min_trust = 99\nforbidden_types = ['timeout']\n")
    assert cli("export", "run_001", "--format", "junit", "--policy", "policy.toml").code == 0
    suite = suite_of((tmp_path / "run_001.junit.xml").read_bytes())
    assert failures(suite) == {
        "require_intact": [],
        "require_observed": [],
        "require_finished": [],
        "min_trust": ["trust is 95, at least 99 required"],
        "forbidden_types": ["found forbidden types: timeout"],
    }
    wrong = cli("export", "run_001", "--format", "sarif", "--policy", "policy.toml")
    assert (wrong.code, "--format junit" in wrong.err) == (2, True)
    (tmp_path / "policy.toml").write_text("min_trusst = 99\n")
    assert cli("export", "run_001", "--format", "junit", "--policy", "policy.toml").code == 2
