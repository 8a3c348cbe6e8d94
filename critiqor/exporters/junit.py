"""JUnit XML of the policy results of a run: one test case per rule, so that a CI system shows which failed, and why.

Cases are named by agent and rule, not by run, so that a CI system can follow each of them over time.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as Tree

from critiqor.model.formatting import format_judged
from critiqor.model.report import GateReport, RuleResult
from critiqor.model.sanitize import sanitize

SUITE = "critiqor"
MAX_LENGTH = 4_000
"""Maximum length of a text in characters."""


def report(gate_report: GateReport) -> Iterator[bytes]:
    """Yield the JUnit XML of the policy results."""
    run = gate_report.report.run
    counts = {
        "tests": str(len(gate_report.gate.rules)),
        "failures": str(sum(not rule.passed for rule in gate_report.gate.rules)),
        "errors": "0",
        "time": "0",
    }
    # The schema that Jenkins publishes has no `skipped` attribute here.
    suites = Tree.Element("testsuites", {"name": SUITE, **counts})
    named = {"name": f"{SUITE} {run.run_id}", "timestamp": run.timestamps.created_at.removesuffix("Z")}
    suite = Tree.SubElement(suites, "testsuite", {**_clean(named), **counts, "skipped": "0"})
    properties = Tree.SubElement(suite, "properties")
    for name, value in _properties(gate_report).items():
        Tree.SubElement(properties, "property", _clean({"name": name, "value": value}))
    for rule in gate_report.gate.rules:
        _case(suite, rule, gate_report)
    Tree.indent(suites)
    yield Tree.tostring(suites, encoding="utf-8", xml_declaration=True) + b"\n"


def _case(suite: Tree.Element, rule: RuleResult, gate_report: GateReport) -> None:
    class_name = f"{SUITE}.{gate_report.report.run.metadata.agent_id}"
    case = Tree.SubElement(suite, "testcase", _clean({"classname": class_name, "name": rule.rule, "time": "0"}))
    if not rule.passed:
        failure = Tree.SubElement(case, "failure", _clean({"type": rule.rule, "message": rule.explanation}))
        failure.text = _text(f"{rule.explanation}. Next: critiqor show {gate_report.gate.run_id}")


def _properties(gate_report: GateReport) -> dict[str, str]:
    diagnosis, verdict = gate_report.report.diagnosis, gate_report.report.verdict
    wall_ms = diagnosis.wall_time_ms
    return {
        "run_id": gate_report.report.run.run_id,
        "headline": verdict.headline,
        "readiness": verdict.readiness,
        "trust_score": "unknown" if verdict.trust is None else str(verdict.trust),
        **({} if verdict.sessions is None else {"trust_of": verdict.sessions}),
        **format_judged(diagnosis),
        "confidence_score": str(diagnosis.confidence_score),
        "wall_ms": "unknown" if wall_ms is None else str(wall_ms),
        "rule_set_version": diagnosis.rule_set_version,
        "evidence_digest": diagnosis.evidence_digest,
    }


def _clean(attributes: dict[str, str]) -> dict[str, str]:
    return {name: _text(value) for name, value in attributes.items()}


def _text(text: str) -> str:
    return sanitize(text, max_length=MAX_LENGTH, collapse=True)
