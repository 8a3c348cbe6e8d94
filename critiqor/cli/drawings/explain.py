"""Drawing of `critiqor explain`: a finding, its causal chain event by event, what it cost and what to change."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from critiqor.cli.drawings.chain import evidence_tree, explained_tree
from critiqor.cli.terminal.bars import bar
from critiqor.cli.terminal.styled_text import FAINT, SEVERITIES, facts_grid, next_command, styled, untrusted
from critiqor.cli.texts.explain import SHOWN, format_lost_trust, format_waste
from critiqor.run.explanation import Explanation


def finding_drawing(run_id: str, explanation: Explanation) -> Group:
    """Draw a finding with its events, what it cost and what to change."""
    return Group(*_parts(run_id, explanation))


def _parts(run_id: str, explanation: Explanation) -> Iterator[RenderableType]:
    finding = explanation.finding
    style = SEVERITIES[finding.severity]
    yield styled(f"{finding.severity.upper()}  ", style).append_text(untrusted(finding.title, "bold"))
    yield untrusted(f"{run_id} {finding.id} · {finding.type}", FAINT)
    yield Text()
    yield untrusted(finding.explanation)
    yield Text()
    if explanation.chain:
        yield explained_tree(finding, explanation.chain)
        yield Text()
    shown = {step.event_id for step in explanation.chain}
    others = [step for step in explanation.evidence if step.event_id not in shown]
    if others:
        title = f"Other cited events ({finding.occurrences} occurrences in total)"
        yield evidence_tree(title, others[:SHOWN], max(0, len(others) - SHOWN))
        yield Text()
    yield facts_grid(
        [
            ("confidence", bar(finding.confidence / 100).append(f"  {finding.confidence} of 100")),
            ("trust", Text(format_lost_trust(finding.impact))),
            ("wasted", Text(format_waste(finding.impact))),
            ("fix", untrusted(finding.recommendation)),
            ("verify", untrusted(finding.verification)),
        ]
    )
    yield next_command(f"critiqor timeline {run_id}")
