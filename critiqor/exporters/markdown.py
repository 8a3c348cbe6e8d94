"""Markdown report of a run: the verdict, the problem to look at first, the other findings, and the figures.

It fits into a comment on a pull request, which is limited to 65,536 characters.
"""

from __future__ import annotations

from collections.abc import Iterator

from critiqor.exporters.markdown_text import code_span, escape_markdown
from critiqor.model.diagnosis import Diagnosis, FailureAnalysis, Finding
from critiqor.model.formatting import (
    counted,
    format_cost,
    format_duration,
    format_judged,
    format_number,
    format_place,
    format_trust,
    format_verdict,
)
from critiqor.model.report import GateResult, RunReport, TimedReport
from critiqor.model.timeline import TimelineSummary
from critiqor.model.usage import CostAnalysis
from critiqor.model.verdict import SESSION_HEADS, verdict_table
from critiqor.timeline.reports.layout import as_markdown
from critiqor.timeline.reports.timeline_report import contract_parts

MAX_LENGTH = 64_000
"""Maximum length of the whole report in characters."""
MAX_SENTENCE = 1_000
MAX_NAME = 200
MAX_NOTES = 20
SHOWN_SESSIONS = 20


def report(timed: TimedReport) -> Iterator[bytes]:
    """Yield the Markdown report."""
    yield document(timed.report, timing=timed.timing).encode()


def document(run_report: RunReport, gate: GateResult | None = None, timing: TimelineSummary | None = None) -> str:
    """Return the report, with the policy results if a policy was applied to the run, and with its timing if given."""
    diagnosis, verdict = run_report.diagnosis, run_report.verdict
    run_id = run_report.run.run_id
    title = f"## {code_span(run_id)}: {format_verdict(verdict)}{_unknown_reason(run_report)}"
    head = [title, f"**{_prose(verdict.headline)}**", _facts(run_report), *_sessions(run_report)]
    if gate is not None:
        head.append(_gate(gate))
    findings = _findings(run_id, diagnosis)
    tail = [*_failed_extensions(diagnosis), *_unseen(run_report), *_timing(timing), _footer(run_report)]
    room = MAX_LENGTH - sum(len(block) + 2 for block in (*head, *tail)) - MAX_SENTENCE
    return "\n\n".join([*head, *_fitting(run_id, findings, room, diagnosis.failure_analysis), *tail]) + "\n"


def _findings(run_id: str, diagnosis: Diagnosis) -> list[str]:
    """Return the findings, the first one of each group under a title."""
    blocks, group = [], ""
    for number, finding in enumerate(_ordered(diagnosis)):
        title = "Findings of extensions" if finding.extension else "Further findings" if number else "Main problem"
        heading = f"### {title}\n\n" if title != group else ""
        group = title
        blocks.append(heading + _finding(run_id, finding, format_place(finding, diagnosis)))
    return blocks


def _failed_extensions(diagnosis: Diagnosis) -> list[str]:
    problems = [f"- {escape_markdown(each.problem, MAX_SENTENCE)}" for each in diagnosis.extensions if each.problem]
    return ["\n".join(["### Extensions that failed", "", *problems[:MAX_NOTES]])] if problems else []


def _unknown_reason(run_report: RunReport) -> str:
    if run_report.verdict.readiness != "unknown":
        return ""
    return ": too little of it was recorded" if run_report.evidence.is_intact else ": not verified"


def _fitting(run_id: str, findings: list[str], room: int, analysis: FailureAnalysis) -> list[str]:
    """Return as many findings as fit."""
    blocks: list[str] = []
    for block in findings:
        room -= len(block) + 2
        if room < 0:
            break
        blocks.append(block)
    missing = len(findings) - len(blocks) + analysis.left_out
    if missing:
        # Findings of extensions come last, whatever their severity.
        severity = ", none of them more severe" if len(analysis.own_findings) == len(findings) else ""
        blocks.append(f"And {missing} more{severity}: `critiqor show {run_id}`")
    return blocks


def _ordered(diagnosis: Diagnosis) -> list[Finding]:
    """Return the findings in order of rank, the primary one first."""
    primary = diagnosis.primary_diagnosis.finding_id if diagnosis.primary_diagnosis is not None else None
    return sorted(diagnosis.failure_analysis.findings, key=lambda finding: finding.id != primary)


def _finding(run_id: str, finding: Finding, place: str) -> str:
    points = finding.impact.trust_points
    lost = f" It lowers trust by {points} points." if points else ""
    often = f" It happened {finding.occurrences} times." if finding.occurrences > 1 else ""
    began = f" It began with {code_span(finding.first_bad_step)}." if finding.first_bad_step else ""
    return "\n".join(
        [
            f"**{finding.severity.upper()}** {code_span(finding.type_label)} {_prose(finding.title)}",
            "",
            f"- What happened: {_sentence(finding.explanation)}{often}{lost}{began}",
            *([f"- Where: {_prose(place)}"] if place else []),
            f"- What to change: {_prose(finding.recommendation)}",
            f"- How to see that it worked: {_prose(finding.verification)}",
            f"- Next: {code_span(f'critiqor explain {run_id} {finding.id}')}",
        ]
    )


def _facts(run_report: RunReport) -> str:
    diagnosis, metadata = run_report.diagnosis, run_report.run.metadata
    outcome = f"{diagnosis.outcome.state.replace('_', ' ')} ({_prose(diagnosis.outcome.known_from)})"
    rows = [
        ("trust", _prose(format_trust(run_report.verdict))),
        ("confidence", f"{diagnosis.confidence_score} of 100{_lost(diagnosis)}"),
        ("outcome", outcome),
        *((name, _prose(text)) for name, text in format_judged(diagnosis).items()),
        ("cost", _cost(diagnosis.cost_analysis)),
        ("calls", _calls(diagnosis.cost_analysis)),
        ("time", format_duration(diagnosis.wall_time_ms)),
        ("agent", f"{escape_markdown(metadata.agent_id, MAX_NAME)}, {run_report.run.timestamps.created_at[:19]}"),
    ]
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in rows)])


def _sessions(run_report: RunReport) -> list[str]:
    """Return a table of the sessions, the worst first, if there are several."""
    sessions = verdict_table(run_report.diagnosis, run_report.verdict, SHOWN_SESSIONS)
    if not sessions.rows:
        return []
    rows = [f"| {' | '.join(escape_markdown(cell, MAX_NAME) for cell in row.cells)} |" for row in sessions.rows]
    heads = [f"| {' | '.join(SESSION_HEADS)} |", f"|{' --- |' * len(SESSION_HEADS)}"]
    more = ["", _prose(sessions.more)] if sessions.more else []
    return ["\n".join(["### Sessions", "", *heads, *rows, *more])]


def _lost(diagnosis: Diagnosis) -> str:
    """Return why points of confidence were lost."""
    reasons = [
        f"{points} for {escape_markdown(reason.replace('_', ' '), MAX_NAME)}"
        for reason, points in diagnosis.confidence_lost.items()
    ]
    return f" ({', '.join(reasons[:5])})" if reasons else ""


def _cost(cost: CostAnalysis) -> str:
    least = "at least " if cost.unknown_usage else ""
    read = cost.input_tokens + cost.cache_read_tokens + cost.cache_write_tokens
    wasted = f"; wasted: {counted(cost.wasted_tokens, 'token')}" if cost.wasted_tokens else ""
    # A dollar sign starts a formula in GitHub's Markdown.
    price = format_cost(cost).replace("$", "\\$")
    return f"{price}; {least}{counted(read, 'token')} in, {format_number(cost.output_tokens)} out{wasted}"


def _calls(cost: CostAnalysis) -> str:
    models = f"{cost.model_calls} model calls ({cost.failed_model_calls} failed)"
    return f"{models}, {cost.tool_calls} tool calls ({cost.failed_tool_calls} failed)"


def _gate(gate: GateResult) -> str:
    failed = sum(not rule.passed for rule in gate.rules)
    title = f"### Policy check: {'passes' if gate.passed else f'fails {failed} of'} {len(gate.rules)} rules"
    rows = [
        f"| {code_span(rule.rule)} | {'passed' if rule.passed else '**failed**'} | {_prose(rule.explanation)} |"
        for rule in gate.rules
    ]
    return "\n".join([title, "", "| rule | | |", "| --- | --- | --- |", *rows])


def _unseen(run_report: RunReport) -> list[str]:
    title = "### What the recorder did not see"
    if run_report.coverage is None:
        lost = f"`session.json` is gone, or was changed since it was sealed: `critiqor verify {run_report.run.run_id}`"
        return [f"{title}\n\n- {lost}"]
    notes = [*run_report.coverage.notes, *run_report.diagnosis.coverage.notes]
    more = [f"- and {len(notes) - MAX_NOTES} more"] if len(notes) > MAX_NOTES else []
    shown = [f"- {escape_markdown(note, MAX_NAME)}" for note in notes[:MAX_NOTES]]
    return ["\n".join([title, "", *shown, *more])] if notes else []


def _timing(summary: TimelineSummary | None) -> list[str]:
    """Return what a report has to say about OpenClaw's timeline, without its raw events."""
    return [] if summary is None else [as_markdown(contract_parts(summary), level=3).rstrip("\n")]


def _footer(run_report: RunReport) -> str:
    seal = run_report.run.seal
    sealed = "" if seal is None else f"{seal.events} events, sealed as {code_span(seal.digest)}. "
    rules = f"Diagnosed with rule set {escape_markdown(run_report.diagnosis.rule_set_version, MAX_NAME)}"
    return f"{sealed}{rules}; `critiqor verify {run_report.run.run_id}` checks the evidence."


def _sentence(text: str) -> str:
    sentence = _prose(text)
    return sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}."


def _prose(text: str) -> str:
    return escape_markdown(text, MAX_SENTENCE)
