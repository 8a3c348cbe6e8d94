"""What a workflow of GitHub is told of a run: annotations, and a summary of the step.

GitHub obeys what stands in an output: a line that begins with `::`, and what follows `##[`, wherever that stands. No
text of others gets there before it was taken apart.
"""

from __future__ import annotations

from critiqor.exporters.markdown import document
from critiqor.exporters.texts import one_line
from critiqor.model.diagnosis import Diagnosis, Finding
from critiqor.model.gate import GateResult
from critiqor.model.report import RunReport

MOST_ANNOTATIONS = 10
"""Errors, and as many warnings, that GitHub shows of one step."""
LARGEST_SUMMARY = 1 << 20
"""Bytes of a step's summary; GitHub shows none of one that is larger."""
LONGEST_TITLE = 120
LONGEST_MESSAGE = 2_000
_COMMAND = "##["


def annotation_lines(gate: GateResult, diagnosis: Diagnosis) -> list[str]:
    """One line an annotation: the rules that failed, then the findings, the worst first.

    A finding is an error if it is high or critical and the gate does not let the run pass, else a warning; those that
    only inform are left out.
    """
    errors = [
        _command("error", f"{rule.rule} of {gate.run_id}", rule.explanation) for rule in gate.rules if not rule.passed
    ]
    warnings = []
    for finding in diagnosis.failure_analysis.findings:
        if finding.severity in ("critical", "high") and not gate.passed:
            errors.append(_found("error", gate.run_id, finding))
        elif finding.severity != "info":
            warnings.append(_found("warning", gate.run_id, finding))
    return [*_shown("error", gate.run_id, errors), *_shown("warning", gate.run_id, warnings)]


def step_summary(told: RunReport, gate: GateResult) -> str:
    """What is shown below the step: the gate and the report, in Markdown."""
    return document(told, gate) + "\n"


def harmless(text: str) -> str:
    """A text in which GitHub finds no command."""
    apart = text.replace(_COMMAND, "# #[")
    return "\n".join(f". {line}" if line.lstrip().startswith("::") else line for line in apart.split("\n"))


def _found(kind: str, run_id: str, finding: Finding) -> str:
    told = f"{finding.title}. {finding.explanation} Next: critiqor explain {run_id} {finding.id}"
    return _command(kind, f"{finding.severity} {finding.type} in {run_id}", told)


def _shown(kind: str, run_id: str, lines: list[str]) -> list[str]:
    if len(lines) <= MOST_ANNOTATIONS:
        return lines
    missing = len(lines) - MOST_ANNOTATIONS + 1
    more = _command(kind, f"{missing} more in {run_id}", f"critiqor show {run_id}   shows all of them")
    return [*lines[: MOST_ANNOTATIONS - 1], more]


def _command(kind: str, title: str, message: str) -> str:
    title, message = harmless(one_line(title, LONGEST_TITLE)), harmless(one_line(message, LONGEST_MESSAGE))
    return f"::{kind} title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
