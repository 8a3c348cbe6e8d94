"""SARIF 2.1.0 for code scanning and editors: one rule per failure type, one result per finding.

A finding is identified by its cause, which is the same in every run, and not by its number or its text.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from critiqor.model.diagnosis import CausalStep, Finding, Severity
from critiqor.model.formatting import format_judged, format_place
from critiqor.model.report import Citation, CitedReport, Rule
from critiqor.model.sanitize import sanitize

VERSION = "2.1.0"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MAX_TEXT = 2_000
"""Maximum length of a text in characters."""
MAX_STEPS = 50
"""Maximum number of steps of a causal chain."""
_LEVELS: dict[Severity, str] = {
    "critical": "error",
    "high": "error",
    "medium": "warning",
    "low": "note",
    "info": "note",
}
_Json = dict[str, Any]


def report(cited: CitedReport) -> Iterator[bytes]:
    """Yield the SARIF document."""
    findings = cited.report.diagnosis.failure_analysis.findings
    # A diagnosis of another version can have types that this version does not know.
    unknown = {finding.type: Rule(finding.type.replace("_", " "), "") for finding in findings}
    rules = {**cited.rules, **{type_: rule for type_, rule in unknown.items() if type_ not in cited.rules}}
    numbers = {type_: number for number, type_ in enumerate(rules)}
    run = {
        "tool": {"driver": _driver(cited.version, rules)},
        "automationDetails": {"id": _category(cited)},
        "invocations": [_invocation(cited)],
        "results": list(_results(cited, findings, numbers)),
        "columnKind": "unicodeCodePoints",
        "properties": _properties(cited),
    }
    document = {"$schema": SCHEMA, "version": VERSION, "runs": [run]}
    yield msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _fingerprint(finding: Finding) -> str:
    """Return a digest of the cause, independent of run, order and texts."""
    return hashlib.sha256(f"{finding.type}\0{finding.cause}".encode()).hexdigest()[:32]


def _results(cited: CitedReport, findings: list[Finding], numbers: dict[str, int]) -> Iterator[_Json]:
    """Yield the results. Results of one cause in several sessions are distinguished by their number."""
    same: Counter[str] = Counter()
    for finding in findings:
        same[cause := _fingerprint(finding)] += 1
        yield _result(cited, finding, numbers[finding.type], f"{cause}:{same[cause]}")


def _driver(version: str, rules: dict[str, Rule]) -> _Json:
    listed = [_rule(type_, rule) for type_, rule in rules.items()]
    return {"name": "Critiqor", "version": version, "semanticVersion": version, "rules": listed}


def _rule(type_: str, rule: Rule) -> _Json:
    name = _one_line(type_)
    entry: _Json = {
        "id": name,
        # The name must differ from the id by more than case.
        **({"name": "".join(word.capitalize() for word in name.split("_"))} if "_" in name else {}),
        "shortDescription": {"text": _sentence(rule.meaning)},
        "properties": {"tags": ["agent", "reliability"]},
    }
    if rule.help:
        plain = rule.help.replace("**", "").replace("`", "")
        entry["fullDescription"] = {"text": plain.split("\n")[0]}
        entry["help"] = {"text": plain, "markdown": rule.help}
    return entry


def _result(cited: CitedReport, finding: Finding, number: int, line_hash: str) -> _Json:
    run_id = cited.report.run.run_id
    place = format_place(finding, cited.report.diagnosis)
    parts = (
        finding.title,
        finding.explanation,
        *([f"Where: {place}"] if place else []),
        finding.recommendation,
        f"Next: critiqor explain {run_id} {finding.id}",
    )
    result: _Json = {
        "ruleId": _one_line(finding.type),
        "ruleIndex": number,
        "level": _LEVELS[finding.severity],
        "kind": "fail",
        "message": {"text": " ".join(map(_sentence, parts))},
        "locations": [_location(cited, finding.first_event)],
        # GitHub uses the first name only, which would otherwise be the hash of a line.
        "partialFingerprints": {"primaryLocationLineHash": line_hash, "critiqorCause/v1": _fingerprint(finding)},
        "occurrenceCount": max(1, finding.occurrences),
        "properties": {
            "finding_id": _one_line(finding.id),
            "cause": _one_line(finding.cause),
            "severity": finding.severity,
            "confidence": finding.confidence,
            **_place(finding),
            "trust_points": finding.impact.trust_points,
            "verification": _one_line(finding.verification),
            **_origin(finding),
        },
    }
    if finding.causal_chain:
        steps = [{"location": _step(cited, step)} for step in finding.causal_chain[:MAX_STEPS]]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    return result


def _place(finding: Finding) -> _Json:
    place = {"session_key": finding.session_key, "agent_run_id": finding.agent_run_id}
    return {name: _one_line(text) for name, text in place.items() if text is not None}


def _origin(finding: Finding) -> _Json:
    origin = finding.extension
    return {} if origin is None else {"extension": _one_line(f"{origin.package} {origin.version}")}


def _step(cited: CitedReport, step: CausalStep) -> _Json:
    happened = f"{step.relation}: {step.happened}" if step.relation else step.happened
    return {**_location(cited, step.event_id), "message": {"text": _sentence(happened)}}


def _location(cited: CitedReport, event_id: str) -> _Json:
    place = cited.citations.get(event_id, cited.evidence)
    location: _Json = {"physicalLocation": _physical(place)}
    if event_id:
        name = _one_line(event_id)
        full = f"{cited.report.run.run_id}/{name}"
        location["logicalLocations"] = [{"name": name, "fullyQualifiedName": full, "kind": "event"}]
    return location


def _physical(place: Citation) -> _Json:
    # Code scanning rejects locations without a line.
    return {"artifactLocation": {"uri": place.file}, "region": {"startLine": place.line or 1}}


def _category(cited: CitedReport) -> str:
    """Return the category of a run: all runs of an agent share its prefix."""
    agent = _one_line(cited.report.run.metadata.agent_id).replace("/", "_")
    return f"critiqor/{agent}/{cited.report.run.run_id}"


def _invocation(cited: CitedReport) -> _Json:
    """Describe the analysis; coverage notes are about the recorder, not about the agent."""
    coverage = cited.report.coverage
    notes = coverage.notes if coverage is not None else ["the evidence is missing or was changed after sealing"]
    notifications = [{"level": "note", "message": {"text": _sentence(note)}} for note in notes]
    ended = cited.report.diagnosis.generated_at
    return {"executionSuccessful": True, "endTimeUtc": ended, "toolExecutionNotifications": notifications}


def _properties(cited: CitedReport) -> _Json:
    diagnosis, verdict = cited.report.diagnosis, cited.report.verdict
    return {
        "run_id": cited.report.run.run_id,
        "headline": _one_line(verdict.headline),
        "readiness": verdict.readiness,
        "trust_score": verdict.trust,
        **({} if verdict.sessions is None else {"trust_of": _one_line(verdict.sessions)}),
        **{name: _one_line(text) for name, text in format_judged(diagnosis).items()},
        **_sessions(cited),
        "confidence_score": diagnosis.confidence_score,
        "rule_set_version": _one_line(diagnosis.rule_set_version),
        "evidence_digest": _one_line(diagnosis.evidence_digest),
    }


def _sessions(cited: CitedReport) -> _Json:
    """Return the verdict on each session; empty if there are not several."""
    diagnosis, verdict = cited.report.diagnosis, cited.report.verdict
    if not diagnosis.has_several_sessions:
        return {}
    sessions = [
        {
            "session_key": None if session.session_key is None else _one_line(session.session_key),
            "readiness": session.readiness,
            "trust_score": None if verdict.trust is None else session.trust_score,
            "task": session.task.verdict,
            "cost_usd": session.cost_usd,
            "cost_is_estimated": session.cost_is_estimated,
            "findings": [_one_line(name) for name in session.findings],
        }
        for session in diagnosis.sessions
    ]
    return {"sessions": sessions, "sessions_left_out": diagnosis.sessions_left_out}


def _sentence(text: str) -> str:
    flat = _one_line(text) or "unknown"
    flat = flat[:1].upper() + flat[1:]
    return flat if flat.endswith((".", "!", "?", "…")) else f"{flat}."


def _one_line(text: str) -> str:
    return sanitize(text, max_length=MAX_TEXT, collapse=True)
