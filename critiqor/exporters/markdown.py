"""The report of a run in Markdown: the verdict, the problem to look at first, the others, and the figures.

It fits a comment on a pull request, which has room for 65,536 characters.
"""

from __future__ import annotations

from collections.abc import Iterator

from critiqor.exporters.markup import code, prose
from critiqor.model.diagnosis import CostAnalysis, Diagnosis, Finding, Readiness
from critiqor.model.formatting import counted, money
from critiqor.model.gate import GateResult
from critiqor.model.report import RunReport
from critiqor.model.timeline import spent

LONGEST = 64_000
"""Characters of the whole."""
LONGEST_SENTENCE = 1_000
LONGEST_NAME = 200
MOST_NOTES = 20
_VERDICTS: dict[Readiness, str] = {
    "ready": "ready",
    "review": "to be reviewed",
    "unsafe": "unsafe",
    "unknown": "unknown: too little of it was seen",
}


def report(told: RunReport) -> Iterator[bytes]:
    """The file."""
    yield document(told).encode()


def document(told: RunReport, gate: GateResult | None = None) -> str:
    """The report, with what a policy says of the run where it was held against one."""
    diagnosis = told.diagnosis
    run_id = told.run.run_id
    verdict = _VERDICTS[diagnosis.readiness] if told.evidence.is_intact else "not proven"
    head = [f"## {code(run_id)}: {verdict}", f"**{_prose(diagnosis.headline)}**", _facts(told)]
    if gate is not None:
        head.append(_gate(gate))
    findings = [_finding(run_id, finding) for finding in _ordered(diagnosis)]
    tail = [*_unseen(told), _footer(told)]
    room = LONGEST - sum(len(block) + 2 for block in (*head, *tail)) - LONGEST_SENTENCE
    return "\n\n".join([*head, *_fitting(run_id, findings, room, diagnosis.failure_analysis.left_out), *tail]) + "\n"


def _fitting(run_id: str, findings: list[str], room: int, left_out: int) -> list[str]:
    """As many findings as there is room for, the first of them under a title of its own."""
    blocks: list[str] = []
    for number, finding in enumerate(findings):
        title = "### The problem to look at first" if number == 0 else "### Further findings" if number == 1 else ""
        block = f"{title}\n\n{finding}".strip()
        room -= len(block) + 2
        if room < 0:
            break
        blocks.append(block)
    missing = len(findings) - len(blocks) + left_out
    if missing:
        blocks.append(f"And {missing} more, none of them graver: `critiqor show {run_id}`")
    return blocks


def _ordered(diagnosis: Diagnosis) -> list[Finding]:
    """The findings as they are ranked, the primary one first."""
    primary = diagnosis.primary_diagnosis.finding_id if diagnosis.primary_diagnosis is not None else None
    return sorted(diagnosis.failure_analysis.findings, key=lambda finding: finding.id != primary)


def _finding(run_id: str, finding: Finding) -> str:
    points = finding.impact.trust_points
    lost = f" It costs {points} points of trust." if points else ""
    often = f" It happened {finding.occurrences} times." if finding.occurrences > 1 else ""
    began = f" It began with {code(finding.first_bad_step)}." if finding.first_bad_step else ""
    return "\n".join(
        [
            f"**{finding.severity.upper()}** {code(finding.type)} {_prose(finding.title)}",
            "",
            f"- What happened: {_sentence(finding.explanation)}{often}{lost}{began}",
            f"- What to change: {_prose(finding.recommendation)}",
            f"- How to see that it worked: {_prose(finding.verification)}",
            f"- Next: {code(f'critiqor explain {run_id} {finding.id}')}",
        ]
    )


def _facts(told: RunReport) -> str:
    diagnosis, metadata = told.diagnosis, told.run.metadata
    trust = (
        "unknown: the agent was not observed" if diagnosis.trust_score is None else f"{diagnosis.trust_score} of 100"
    )
    outcome = f"{diagnosis.outcome.state.replace('_', ' ')} ({_prose(diagnosis.outcome.known_from)})"
    wall = diagnosis.latency_analysis.wall_ms
    rows = [
        ("trust", trust),
        ("confidence", f"{diagnosis.confidence_score} of 100{_lost(diagnosis)}"),
        ("outcome", outcome),
        ("cost", _cost(diagnosis.cost_analysis)),
        ("calls", _calls(diagnosis.cost_analysis)),
        ("time", "unknown" if wall is None else spent(wall)),
        ("agent", f"{prose(metadata.agent_id, LONGEST_NAME)}, {told.run.timestamps.created_at[:19]}"),
    ]
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in rows)])


def _lost(diagnosis: Diagnosis) -> str:
    """What the missing points of confidence are for."""
    reasons = [
        f"{points} for {prose(reason.replace('_', ' '), LONGEST_NAME)}"
        for reason, points in diagnosis.confidence_lost.items()
    ]
    return f" ({', '.join(reasons[:5])})" if reasons else ""


def _cost(cost: CostAnalysis) -> str:
    least = "at least " if cost.model_calls_without_usage else ""
    price = "unknown" if cost.cost_usd is None else f"{least}\\{money(cost.cost_usd)}"
    read = cost.input_tokens + cost.cache_read_tokens + cost.cache_write_tokens
    wasted = f"; wasted: {counted(cost.wasted_tokens, 'token')}" if cost.wasted_tokens else ""
    return f"{price}; {least}{counted(read, 'token')} in, {cost.output_tokens:,} out{wasted}"


def _calls(cost: CostAnalysis) -> str:
    models = f"{cost.model_calls} of models ({cost.failed_model_calls} failed)"
    return f"{models}, {cost.tool_calls} of tools ({cost.failed_tool_calls} failed)"


def _gate(gate: GateResult) -> str:
    failed = sum(not rule.passed for rule in gate.rules)
    title = f"### The gate: {'passes' if gate.passed else f'fails {failed} of'} {len(gate.rules)} rules"
    rows = [
        f"| {code(rule.rule)} | {'passed' if rule.passed else '**failed**'} | {_prose(rule.explanation)} |"
        for rule in gate.rules
    ]
    return "\n".join([title, "", "| rule | | |", "| --- | --- | --- |", *rows])


def _unseen(told: RunReport) -> list[str]:
    title = "### What the recorder did not see"
    if told.coverage is None:
        lost = f"`session.json` is gone, or was changed since it was sealed: `critiqor verify {told.run.run_id}`"
        return [f"{title}\n\n- {lost}"]
    notes = told.coverage.notes
    more = [f"- and {len(notes) - MOST_NOTES} more"] if len(notes) > MOST_NOTES else []
    shown = [f"- {prose(note, LONGEST_NAME)}" for note in notes[:MOST_NOTES]]
    return ["\n".join([title, "", *shown, *more])] if notes else []


def _footer(told: RunReport) -> str:
    seal = told.run.seal
    sealed = "" if seal is None else f"{seal.events} events, sealed as {code(seal.digest)}. "
    rules = f"Judged by rule set {prose(told.diagnosis.rule_set_version, LONGEST_NAME)}"
    return f"{sealed}{rules}; `critiqor verify {told.run.run_id}` checks the evidence."


def _sentence(text: str) -> str:
    told = _prose(text)
    return told if told.endswith((".", "!", "?", "…")) else f"{told}."


def _prose(text: str) -> str:
    return prose(text, LONGEST_SENTENCE)
