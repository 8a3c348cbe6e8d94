"""Output for a GitHub workflow: annotations, and the summary of the step.

GitHub executes commands in the output of a step: lines that start with `::`, and `##[` anywhere in a line. In texts
from a run, these are escaped before they are printed.
"""

from __future__ import annotations

from critiqor.exporters.markdown import document
from critiqor.model.diagnosis import Diagnosis, Finding
from critiqor.model.formatting import format_place
from critiqor.model.report import GateResult, RunReport
from critiqor.model.sanitize import sanitize

MAX_ANNOTATIONS = 10
"""Maximum number of errors that GitHub shows for one step; the same limit applies to warnings."""
MAX_SUMMARY_BYTES = 1 << 20
"""Maximum size of the summary of a step; GitHub does not show a larger one."""
MAX_TITLE = 120
MAX_MESSAGE = 2_000
_COMMAND = "##["


def annotation_lines(gate: GateResult, diagnosis: Diagnosis) -> list[str]:
    """Return one line per annotation: the failed rules, then the findings, the worst first.

    A high or critical finding is an error if the gate failed, else a warning; one of an extension only if the policy
    counts it. Severity `info` is left out.
    """
    errors = [
        _annotation("error", f"{rule.rule} of {gate.run_id}", rule.explanation)
        for rule in gate.rules
        if not rule.passed
    ]
    warnings = []
    counted = [
        package
        for rule in gate.rules
        if rule.rule == "count_extensions" and isinstance(rule.actual, list)
        for package in rule.actual
    ]
    for finding in diagnosis.failure_analysis.findings:
        counts = finding.extension is None or finding.extension.package in counted
        if finding.severity in ("critical", "high") and counts and not gate.passed:
            errors.append(_finding_annotation("error", diagnosis, finding))
        elif finding.severity != "info":
            warnings.append(_finding_annotation("warning", diagnosis, finding))
    return [*_limit("error", gate.run_id, errors), *_limit("warning", gate.run_id, warnings)]


def step_summary(run_report: RunReport, gate: GateResult) -> str:
    """Return the summary of the step: the gate and the report, in Markdown."""
    return document(run_report, gate) + "\n"


def escape_commands(text: str) -> str:
    """Return a text with GitHub workflow commands escaped."""
    separated = text.replace(_COMMAND, "# #[")
    return "\n".join(f". {line}" if line.lstrip().startswith("::") else line for line in separated.split("\n"))


def _finding_annotation(kind: str, diagnosis: Diagnosis, finding: Finding) -> str:
    run_id, place = diagnosis.run_id, format_place(finding, diagnosis)
    where = f" Where: {place}." if place else ""
    message = f"{finding.title}. {finding.explanation}{where} Next: critiqor explain {run_id} {finding.id}"
    return _annotation(kind, f"{finding.severity} {finding.type_label} in {run_id}", message)


def _limit(kind: str, run_id: str, lines: list[str]) -> list[str]:
    if len(lines) <= MAX_ANNOTATIONS:
        return lines
    missing = len(lines) - MAX_ANNOTATIONS + 1
    more = _annotation(kind, f"{missing} more in {run_id}", f"critiqor show {run_id}   shows all of them")
    return [*lines[: MAX_ANNOTATIONS - 1], more]


def _annotation(kind: str, title: str, message: str) -> str:
    title, message = (
        escape_commands(sanitize(title, max_length=MAX_TITLE, collapse=True)),
        escape_commands(sanitize(message, max_length=MAX_MESSAGE, collapse=True)),
    )
    return f"::{kind} title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
