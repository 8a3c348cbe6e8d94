"""Drawing of `critiqor diagnose`: how a new diagnosis of the same evidence differs from the previous one."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from critiqor.cli.drawings.show import diagnosis_parts, run_drawing
from critiqor.cli.terminal.styled_text import FAINT, indented, styled, untrusted
from critiqor.model import Diagnosis
from critiqor.model.verdict import fresh_verdict
from critiqor.run.diagnosis import Rediagnosis
from critiqor.run.view import RunView


def rediagnosis_drawing(view: RunView, change: Rediagnosis) -> Group:
    """Draw what changed, then the run."""
    return Group(*_changes(change), run_drawing(view))


def document_drawing(diagnosis: Diagnosis) -> Group:
    """Draw the diagnosis of evidence that belongs to no run of the folder."""
    return Group(untrusted(diagnosis.run_id, "bold"), Text(), *diagnosis_parts(diagnosis, fresh_verdict(diagnosis)))


def _changes(change: Rediagnosis) -> Iterator[RenderableType]:
    if change.previous_rule_set is None:
        return
    before = change.previous_rule_set
    rules = f"{change.rule_set}, unchanged" if before == change.rule_set else f"{before} → {change.rule_set}"
    changes = [
        *(styled("- gone  ", "green").append_text(untrusted(cause)) for cause in change.gone),
        *(styled("+ new   ", "red").append_text(untrusted(cause)) for cause in change.new),
    ]
    if change.previous_trust != change.trust:
        changes.append(styled("  trust ", "yellow").append(f"{change.previous_trust} → {change.trust}"))
    verdict = "Something changed" if changes else "Nothing changed"
    yield styled(f"{verdict} ", "bold").append(f"compared with the previous diagnosis (rule set {rules})", FAINT)
    yield from map(indented, changes)
    yield Text()
