"""Findings as SARIF 2.1.0, which code scanning and editors show: one rule a type of failure, one result a finding.

A finding is known by its cause in every run that has it, and not by its number or its words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from critiqor.exporters.findings import first_step
from critiqor.exporters.texts import one_line
from critiqor.model.diagnosis import CausalStep, Finding, Severity
from critiqor.model.report import Citation, CitedReport, Rule

VERSION = "2.1.0"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LONGEST = 2_000
"""Characters of a text."""
MOST_STEPS = 50
"""Steps of a chain."""
_LEVELS: dict[Severity, str] = {
    "critical": "error",
    "high": "error",
    "medium": "warning",
    "low": "note",
    "info": "note",
}
_Json = dict[str, Any]


def report(told: CitedReport) -> Iterator[bytes]:
    """The file."""
    findings = told.report.diagnosis.failure_analysis.findings
    # A diagnosis of another version can have types that this one does not know.
    unknown = {finding.type: Rule(finding.type.replace("_", " "), "") for finding in findings}
    rules = {**told.rules, **{type_: rule for type_, rule in unknown.items() if type_ not in told.rules}}
    numbers = {type_: number for number, type_ in enumerate(rules)}
    run = {
        "tool": {"driver": _driver(told.version, rules)},
        "automationDetails": {"id": _category(told)},
        "invocations": [_invocation(told)],
        "results": [_result(told, finding, numbers[finding.type]) for finding in findings],
        "columnKind": "unicodeCodePoints",
        "properties": _properties(told),
    }
    document = {"$schema": SCHEMA, "version": VERSION, "runs": [run]}
    yield msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def fingerprint(finding: Finding) -> str:
    """The same for the same cause, whatever the run, the order or the words."""
    return hashlib.sha256(f"{finding.type}\0{finding.cause}".encode()).hexdigest()[:32]


def _driver(version: str, rules: dict[str, Rule]) -> _Json:
    listed = [_rule(type_, rule) for type_, rule in rules.items()]
    return {"name": "Critiqor", "version": version, "semanticVersion": version, "rules": listed}


def _rule(type_: str, rule: Rule) -> _Json:
    name = one_line(type_, LONGEST)
    told: _Json = {
        "id": name,
        # It must not be the same as the id, whatever its case.
        **({"name": "".join(word.capitalize() for word in name.split("_"))} if "_" in name else {}),
        "shortDescription": {"text": _sentence(rule.meaning)},
        "properties": {"tags": ["agent", "reliability"]},
    }
    if rule.help:
        plain = rule.help.replace("**", "").replace("`", "")
        told["fullDescription"] = {"text": plain.split("\n")[0]}
        told["help"] = {"text": plain, "markdown": rule.help}
    return told


def _result(told: CitedReport, finding: Finding, number: int) -> _Json:
    run_id = told.report.run.run_id
    parts = (
        finding.title,
        finding.explanation,
        finding.recommendation,
        f"Next: critiqor explain {run_id} {finding.id}",
    )
    cause = fingerprint(finding)
    result: _Json = {
        "ruleId": one_line(finding.type, LONGEST),
        "ruleIndex": number,
        "level": _LEVELS[finding.severity],
        "kind": "fail",
        "message": {"text": " ".join(map(_sentence, parts))},
        "locations": [_location(told, first_step(finding))],
        # GitHub looks at the first name alone, which would be that of a line.
        "partialFingerprints": {"primaryLocationLineHash": f"{cause}:1", "critiqorCause/v1": cause},
        "occurrenceCount": max(1, finding.occurrences),
        "properties": {
            "finding_id": one_line(finding.id, LONGEST),
            "cause": one_line(finding.cause, LONGEST),
            "severity": finding.severity,
            "confidence": finding.confidence,
            "trust_points": finding.impact.trust_points,
            "verification": one_line(finding.verification, LONGEST),
        },
    }
    if finding.causal_chain:
        steps = [{"location": _step(told, step)} for step in finding.causal_chain[:MOST_STEPS]]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    return result


def _step(told: CitedReport, step: CausalStep) -> _Json:
    happened = f"{step.relation}: {step.happened}" if step.relation else step.happened
    return {**_location(told, step.event_id), "message": {"text": _sentence(happened)}}


def _location(told: CitedReport, cited: str) -> _Json:
    place = told.citations.get(cited, told.evidence)
    location: _Json = {"physicalLocation": _physical(place)}
    if cited:
        name = one_line(cited, LONGEST)
        full = f"{told.report.run.run_id}/{name}"
        location["logicalLocations"] = [{"name": name, "fullyQualifiedName": full, "kind": "event"}]
    return location


def _physical(place: Citation) -> _Json:
    # Code scanning takes no location without a line.
    return {"artifactLocation": {"uri": place.file}, "region": {"startLine": place.line or 1}}


def _category(told: CitedReport) -> str:
    """Runs of one agent belong together, and each run is one of them."""
    agent = one_line(told.report.run.metadata.agent_id, LONGEST).replace("/", "_")
    return f"critiqor/{agent}/{told.report.run.run_id}"


def _invocation(told: CitedReport) -> _Json:
    """How the analysis itself went; what the recorder did not see is about the recorder, not about the agent."""
    coverage = told.report.coverage
    notes = coverage.notes if coverage is not None else ["the evidence is gone, or was changed since it was sealed"]
    notifications = [{"level": "note", "message": {"text": _sentence(note)}} for note in notes]
    ended = told.report.diagnosis.generated_at
    return {"executionSuccessful": True, "endTimeUtc": ended, "toolExecutionNotifications": notifications}


def _properties(told: CitedReport) -> _Json:
    diagnosis = told.report.diagnosis
    return {
        "run_id": told.report.run.run_id,
        "headline": one_line(diagnosis.headline, LONGEST),
        "readiness": diagnosis.readiness,
        "trust_score": diagnosis.trust_score,
        "confidence_score": diagnosis.confidence_score,
        "rule_set_version": one_line(diagnosis.rule_set_version, LONGEST),
        "evidence_digest": one_line(diagnosis.evidence_digest, LONGEST),
    }


def _sentence(text: str) -> str:
    flat = one_line(text, LONGEST) or "unknown"
    flat = flat[:1].upper() + flat[1:]
    return flat if flat.endswith((".", "!", "?", "…")) else f"{flat}."
