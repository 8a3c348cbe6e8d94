"""A finding with the very events that it rests on."""

from __future__ import annotations

from pathlib import Path

import msgspec

from critiqor.diagnosis.signals.text import canonical, plain_text
from critiqor.errors import BrokenRecordError, UsageError
from critiqor.model import CausalStep, Diagnosis, Event, Finding, Relation
from critiqor.model.sanitize import excerpt
from critiqor.model.timeline import cited_line, line_id
from critiqor.run.diagnosis import load_diagnosed
from critiqor.storage import paths_for
from critiqor.storage.session_document import read_sealed_events
from critiqor.timeline.reader.citations import FieldValue, read_cited_lines

SHOWN = 200


class ExplainedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a chain, or one cited event."""

    event_id: str
    happened: str = ""
    relation: Relation | None = None
    event: Event | None = None
    """The event itself; null where the evidence does not hold it, or where it is a line of the timeline."""
    line: dict[str, FieldValue] | None = None
    """What the line of OpenClaw's timeline says that is cited; null for an event."""
    shown: list[str] = msgspec.field(default_factory=list)
    """What of it is worth reading, for people."""


class Explanation(msgspec.Struct, frozen=True):
    """A finding, its chain and its evidence."""

    finding: Finding
    chain: list[ExplainedStep]
    evidence: list[ExplainedStep]


def explain_finding(run_id: str, name: str, runs_dir: str | Path = "runs") -> Explanation:
    """One finding of a run, named by its id or, where there is one of it only, by its type."""
    finding = _named(load_diagnosed(run_id, runs_dir), name)
    wanted = {*finding.evidence, *(step.event_id for step in finding.causal_chain)}
    paths = paths_for(runs_dir)
    events = _cited_events(paths.evidence_summary_path(run_id), wanted)
    numbers = {number for name in wanted if (number := cited_line(name)) is not None}
    lines = {line_id(number): line for number, line in read_cited_lines(paths.timeline_path(run_id), numbers).items()}
    return Explanation(
        finding,
        [_explained(step, events, lines) for step in finding.causal_chain],
        [_explained(CausalStep(event_id, ""), events, lines) for event_id in finding.evidence],
    )


def _cited_events(document: Path, wanted: set[str]) -> dict[str, Event]:
    try:
        return {event.event_id: event for event in read_sealed_events(document) if event.event_id in wanted}
    except FileNotFoundError as error:
        run_id = document.parent.name
        raise BrokenRecordError(f"the evidence of {run_id} is gone", fix=f"critiqor verify {run_id}") from error


def _named(diagnosis: Diagnosis, name: str) -> Finding:
    findings = diagnosis.failure_analysis.findings
    found = [finding for finding in findings if name in (finding.id, finding.type)]
    if len(found) == 1:
        return found[0]
    if not findings:
        raise UsageError(f"{diagnosis.run_id} has no findings", fix=f"critiqor show {diagnosis.run_id}")
    known = ", ".join(f"{finding.id} ({finding.type})" for finding in (found or findings)[:10])
    problem = f"several findings are of type {name}" if found else f"{diagnosis.run_id} has no finding {name}"
    raise UsageError(f"{problem}: {known}", fix=f"critiqor explain {diagnosis.run_id} {(found or findings)[0].id}")


def _explained(step: CausalStep, events: dict[str, Event], lines: dict[str, dict[str, FieldValue]]) -> ExplainedStep:
    event = events.get(step.event_id)
    return ExplainedStep(
        event_id=step.event_id,
        happened=step.happened,
        relation=step.relation,
        event=event,
        line=lines.get(step.event_id),
        shown=_worth_reading(event) if event is not None else [],
    )


def _worth_reading(event: Event) -> list[str]:
    payload = event.payload
    lines = []
    if payload.get("arguments") is not None:
        lines.append(f"arguments: {excerpt(canonical(payload['arguments']), SHOWN)}")
    if event.error:
        lines.append(f"error: {excerpt(event.error, SHOWN)}")
    for name in ("result", "text"):
        if payload.get(name):
            lines.append(f"{name}: {excerpt(plain_text(payload[name]), SHOWN)}")
    if isinstance(payload.get("usage"), dict):
        usage = payload["usage"]
        lines.append(
            f"usage: {usage.get('input')} in, {usage.get('output')} out, budget {payload.get('contextTokenBudget')}"
        )
    return lines
