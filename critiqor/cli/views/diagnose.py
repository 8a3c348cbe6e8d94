"""What another diagnosis of the same evidence says differently, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from critiqor.cli.terminal.screen import FAINT, indented, styled, untrusted
from critiqor.cli.views.show import concluded
from critiqor.model import Diagnosis
from critiqor.run.diagnosis import Rediagnosis


def rediagnosis_drawing(run: RenderableType, change: Rediagnosis) -> Group:
    """The run as it is drawn otherwise, below what changed."""
    return Group(*_changes(change), run)


def document_drawing(diagnosis: Diagnosis) -> Group:
    """The diagnosis of evidence that belongs to no run here."""
    return Group(untrusted(diagnosis.run_id, "bold"), Text(), *concluded(diagnosis))


def _changes(change: Rediagnosis) -> Iterator[RenderableType]:
    if change.previous_rule_set is None:
        return
    before = change.previous_rule_set
    rules = f"{change.rule_set}, as before" if before == change.rule_set else f"{before} → {change.rule_set}"
    told = [
        *(styled("- gone  ", "green").append_text(untrusted(cause)) for cause in change.gone),
        *(styled("+ new   ", "red").append_text(untrusted(cause)) for cause in change.new),
    ]
    if change.previous_trust != change.trust:
        told.append(styled("  trust ", "yellow").append(f"{change.previous_trust} → {change.trust}"))
    verdict = "Something changed" if told else "Nothing changed"
    yield styled(f"{verdict} ", "bold").append(f"against the last diagnosis (rule set {rules})", FAINT)
    yield from map(indented, told)
    yield Text()
