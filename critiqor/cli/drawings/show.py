"""Drawing of `critiqor show`: the verdict, trust and what reduced it, the findings, and time lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from critiqor.cli.drawings.explain import chain_tree
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.terminal.bars import bar, context_growth, trust_bar
from critiqor.cli.terminal.lane_chart import Lane, LanesChart, run_lanes
from critiqor.cli.terminal.styled_text import (
    FAINT,
    SEVERITIES,
    indented,
    next_command,
    preformatted,
    score_style,
    styled,
    unbroken,
    untrusted,
)
from critiqor.cli.terminal.tables import FittingTable, facts_grid
from critiqor.cli.texts.show import (
    SHOWN_FINDINGS,
    SHOWN_SESSIONS,
    cost_text,
    coverage_notes,
    format_status,
    time_text,
    unsealed_text,
)
from critiqor.model import Diagnosis, Finding, RunHead
from critiqor.model.formatting import counted, format_identifier, format_judged, format_place, format_trust
from critiqor.model.verdict import SESSION_HEADS, Verdict, verdict_table
from critiqor.run.view import RunView

MAX_CHARTED = 20_000
"""Maximum number of events of a run that is drawn on time lanes; `critiqor timeline` draws every run."""
MARKS = {
    "ready": ("✓ READY", "bold green"),
    "review": ("! REVIEW", "bold yellow"),
    "unsafe": ("✗ UNSAFE", "bold red"),
    "unknown": ("? UNKNOWN", "bold"),
}
"""Mark and style of each verdict."""


class _ShownRun(NamedTuple):
    """What is drawn of a sealed run."""

    head: RunHead
    diagnosis: Diagnosis
    verdict: Verdict
    notes: Sequence[str]
    """What the recorder did not see."""
    lanes: Sequence[Lane]
    """Empty if the run is too long to be read again."""


def run_drawing(view: RunView) -> RenderableType:
    """Draw the summary of a run, with time lanes unless the run is very long."""
    if view.diagnosis is None or view.verdict is None or view.head.seal is None:
        return _unsealed_run(view.head, *unsealed_text(view.head))
    diagnosis = view.diagnosis
    stalls = diagnosis.timeline.stalls if diagnosis.timeline is not None else []
    lanes = run_lanes(view.run, stalls) if view.head.seal.events <= MAX_CHARTED else []
    return _sealed_run(_ShownRun(view.head, diagnosis, view.verdict, coverage_notes(view), lanes))


def _sealed_run(run: _ShownRun) -> Group:
    """Draw a sealed run, the verdict first."""
    return Group(*_parts(run))


def _unsealed_run(head: RunHead, text: str, following: str) -> Group:
    """Draw a run that is not sealed: its state, and the next command."""
    return Group(head_line(head), Text(), untrusted(text), next_command(following))


def head_line(head: RunHead, outcome: str | None = None) -> Text:
    """Draw the id, the status and the agent of a run on one line."""
    whose = f"{format_status(head, outcome)} · {head.metadata.agent_id} · {head.timestamps.created_at}"
    return styled(f"{head.run_id}  ", "bold").append_text(untrusted(whose, FAINT))


def _parts(run: _ShownRun) -> Iterator[RenderableType]:
    diagnosis = run.diagnosis
    run_id, seal = run.head.run_id, run.head.seal
    yield head_line(run.head, diagnosis.outcome.state)
    yield Text()
    yield from diagnosis_parts(diagnosis, run.verdict, run.lanes)
    if run.notes:
        yield Text("\nWhat the recorder did not see")
        yield from (indented(untrusted(f"· {note}", FAINT)) for note in run.notes)
    if seal is not None:
        yield Text()
        verify = add_runs_dir(f"critiqor verify {run_id}")
        yield unbroken(preformatted(f"sealed: {counted(seal.events, 'event')}, {seal.digest[:23]}… · {verify}", FAINT))
    primary = diagnosis.primary_diagnosis
    yield next_command(f"critiqor explain {run_id} {primary.finding_id}" if primary else f"critiqor timeline {run_id}")


def diagnosis_parts(diagnosis: Diagnosis, verdict: Verdict, lanes: Sequence[Lane] = ()) -> Iterator[RenderableType]:
    """Draw the parts that show a diagnosis: the verdict, the figures, the time lanes and the findings."""
    findings = diagnosis.failure_analysis.findings
    yield _verdict_line(verdict)
    yield Text()
    yield facts_grid(list(_figures(diagnosis, verdict)))
    yield from _sessions(diagnosis, verdict)
    if lanes:
        yield Text()
        yield LanesChart(lanes)
    for number, finding in enumerate(findings[:SHOWN_FINDINGS]):
        yield Text()
        yield from _finding(finding, format_place(finding, diagnosis), with_chain=number == 0)
    if more := diagnosis.failure_analysis.describe_hidden(SHOWN_FINDINGS):
        yield Text(f"\n{more}", FAINT)
    if problems := [each.problem for each in diagnosis.extensions if each.problem is not None]:
        yield Text()
        yield from (untrusted(problem, "yellow") for problem in problems)


def _sessions(diagnosis: Diagnosis, verdict: Verdict) -> Iterator[RenderableType]:
    """Yield the verdict on each of several sessions."""
    table = verdict_table(diagnosis, verdict, SHOWN_SESSIONS)
    if not table.rows:
        return
    rows = [
        [untrusted(cell, MARKS[row.readiness][1] if cell == row.readiness else "") for cell in row.cells]
        for row in table.rows
    ]
    yield Text()
    yield FittingTable(SESSION_HEADS, rows)
    if table.more:
        yield Text(table.more, FAINT)


def _verdict_line(verdict: Verdict) -> Text:
    """Return the verdict in a word and a sentence."""
    word, style = MARKS[verdict.readiness]
    return styled(f"{word}  ", style).append_text(untrusted(verdict.headline, "bold"))


def _figures(diagnosis: Diagnosis, verdict: Verdict) -> Iterator[tuple[str, Text]]:
    """Yield trust with what reduced it, confidence, outcome, cost, time and context."""
    findings = diagnosis.costly_findings
    if verdict.trust is None:
        yield "trust", Text(format_trust(verdict), "yellow")
    else:
        yield "trust", trust_bar(verdict.trust, findings).append("  ").append_text(untrusted(format_trust(verdict)))
        for finding in findings[:SHOWN_FINDINGS]:
            lost = styled(f"-{finding.impact.trust_points} ", SEVERITIES[finding.severity])
            yield "", lost.append_text(untrusted(f"{finding.type} {finding.id}", FAINT))
    confidence = diagnosis.confidence_score
    yield "confidence", bar(confidence / 100, style=score_style(confidence)).append(f"  {confidence} of 100")
    for reason, points in diagnosis.confidence_lost.items():
        yield "", styled(f"-{points} ", "yellow").append_text(untrusted(reason, FAINT))
    outcome = diagnosis.outcome
    yield "outcome", untrusted(f"{format_identifier(outcome.state)} ({outcome.known_from})")
    yield from ((label, untrusted(text)) for label, text in format_judged(diagnosis).items())
    yield "cost", Text(cost_text(diagnosis.cost_analysis))
    yield "time", Text(time_text(diagnosis))
    if (grown := context_growth(diagnosis.context_analysis)) is not None:
        yield "context", grown


def _finding(finding: Finding, place: str, *, with_chain: bool) -> Iterator[RenderableType]:
    title = styled(f"{finding.severity.upper()}  ", SEVERITIES[finding.severity])
    points = finding.impact.trust_points
    yield title.append_text(untrusted(finding.title, "bold")).append(f"  -{points}" if points else "", FAINT)
    yield indented(untrusted(finding.explanation))
    if place:
        yield indented(untrusted(place, FAINT))
    cited = finding.evidence
    more = f" and {len(cited) - 3} more" if len(cited) > 3 else ""
    yield indented(
        untrusted(f"{finding.id} {finding.type_label}, evidence: {', '.join(cited[:3]) or 'none'}{more}", FAINT)
    )
    if with_chain and finding.causal_chain:
        yield indented(chain_tree(finding))
    yield indented(styled("→ ", "green").append_text(untrusted(finding.recommendation)))
