"""What a policy says of a run, as JUnit XML: one case a rule, so that a CI shows which of them failed, and why.

Cases are named by agent and rule and not by run, so that a CI can follow each of them over time.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as Tree

from critiqor.exporters.texts import one_line
from critiqor.model.gate import RuleResult
from critiqor.model.report import GateReport

SUITE = "critiqor"
LONGEST = 4_000
"""Characters of an explanation."""


def report(told: GateReport) -> Iterator[bytes]:
    """The file."""
    run = told.report.run
    counts = {
        "tests": str(len(told.gate.rules)),
        "failures": str(sum(not rule.passed for rule in told.gate.rules)),
        "errors": "0",
        "time": "0",
    }
    # Of all suites together, the schema that Jenkins has published knows no `skipped`.
    suites = Tree.Element("testsuites", {"name": SUITE, **counts})
    named = {"name": f"{SUITE} {run.run_id}", "timestamp": run.timestamps.created_at.removesuffix("Z")}
    suite = Tree.SubElement(suites, "testsuite", {**_clean(named), **counts, "skipped": "0"})
    properties = Tree.SubElement(suite, "properties")
    for name, value in _properties(told).items():
        Tree.SubElement(properties, "property", _clean({"name": name, "value": value}))
    for rule in told.gate.rules:
        _case(suite, rule, told)
    Tree.indent(suites)
    yield Tree.tostring(suites, encoding="utf-8", xml_declaration=True) + b"\n"


def _case(suite: Tree.Element, rule: RuleResult, told: GateReport) -> None:
    class_name = f"{SUITE}.{told.report.run.metadata.agent_id}"
    case = Tree.SubElement(suite, "testcase", _clean({"classname": class_name, "name": rule.rule, "time": "0"}))
    if not rule.passed:
        failure = Tree.SubElement(case, "failure", _clean({"type": rule.rule, "message": rule.explanation}))
        failure.text = _text(f"{rule.explanation}. Next: critiqor show {told.gate.run_id}")


def _properties(told: GateReport) -> dict[str, str]:
    diagnosis = told.report.diagnosis
    wall_ms = diagnosis.latency_analysis.wall_ms
    return {
        "run_id": told.report.run.run_id,
        "headline": diagnosis.headline,
        "readiness": diagnosis.readiness,
        "trust_score": "unknown" if diagnosis.trust_score is None else str(diagnosis.trust_score),
        "confidence_score": str(diagnosis.confidence_score),
        "wall_ms": "unknown" if wall_ms is None else str(wall_ms),
        "rule_set_version": diagnosis.rule_set_version,
        "evidence_digest": diagnosis.evidence_digest,
    }


def _clean(attributes: dict[str, str]) -> dict[str, str]:
    return {name: _text(value) for name, value in attributes.items()}


def _text(text: str) -> str:
    return one_line(text, LONGEST)
