"""Explaining a finding, with its causal chain and its events, and the final answers, with their checked claims."""

from __future__ import annotations

import msgspec

from critiqor.conversation.entries import ConversationBuilder, message_text
from critiqor.diagnosis.collections.fingerprints import canonical_json
from critiqor.diagnosis.signals.text import plain_text
from critiqor.errors import BrokenRecordError, UsageError
from critiqor.model import CausalStep, Claim, Diagnosis, Event, Finding, Relation
from critiqor.model.formatting import format_place
from critiqor.model.sanitize import excerpt
from critiqor.model.timeline import line_id, line_of_id
from critiqor.run.store import Run
from critiqor.run.view import RunView
from critiqor.storage.session_document import readable_events
from critiqor.timeline.reader.citations import FieldValue, read_cited_lines

MAX_EXCERPT = 200
"""Maximum length of a shown value in characters."""


class ExplainedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a causal chain, or one cited event."""

    event_id: str
    happened: str = ""
    relation: Relation | None = None
    event: Event | None = None
    """The event itself; null if the evidence does not contain it, or if a timeline line is cited."""
    line: dict[str, FieldValue] | None = None
    """The fields of the cited line of OpenClaw's timeline; null for an event."""
    shown: list[str] = msgspec.field(default_factory=list)
    """The most informative values of the event, for people."""


class Explanation(msgspec.Struct, frozen=True):
    """A finding with its causal chain and its evidence."""

    finding: Finding
    chain: list[ExplainedStep]
    evidence: list[ExplainedStep]
    place: str = ""
    """Session and agent run in words; empty if the recording does not have several sessions."""


def explain_finding(view: RunView, name: str) -> Explanation:
    """Explain one finding of a run, named by its id, or by its type if only one finding has that type."""
    run = view.run
    diagnosis = view.require_diagnosis()
    finding = _find(diagnosis, name)
    cited = {*finding.evidence, *(step.event_id for step in finding.causal_chain)}
    events = _cited_events(run, cited)
    numbers = {number for event_id in cited if (number := line_of_id(event_id)) is not None}
    lines = {line_id(number): line for number, line in read_cited_lines(run.timeline_path, numbers).items()}
    return Explanation(
        finding,
        [_explained(step, events, lines) for step in finding.causal_chain],
        [_explained(CausalStep(event_id, ""), events, lines) for event_id in finding.evidence],
        format_place(finding, diagnosis),
    )


class CheckedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The final answer of a session with its claims."""

    session_key: str | None
    event_id: str
    request: str
    """The first message of the user; empty if none was recorded."""
    text: str
    claims: list[Claim]
    """The claims in the answer, in order; `start` and `end` are places in `text`."""


def explain_answers(view: RunView) -> list[CheckedAnswer]:
    """Return the final answer of each session with its claims, that of the worst session first."""
    diagnosis = view.require_diagnosis()
    builder = ConversationBuilder()
    requests: dict[str | None, str] = {}
    answers: dict[str | None, tuple[str, str]] = {}
    for number, event in enumerate(view.events(), 1):
        entry, key = builder.observe(number, event), event.session_key
        if entry is not None and builder.sessions[key].request == number:
            requests[key] = message_text(event)
        elif entry is not None and builder.sessions[key].answer == number:
            answers[key] = (event.event_id, message_text(event))
    claims: dict[str, list[Claim]] = {}
    for claim in diagnosis.claims:
        claims.setdefault(claim.event_id, []).append(claim)
    keys = [session.session_key for session in diagnosis.sessions if session.session_key in answers]
    return [
        CheckedAnswer(
            session_key=key,
            event_id=answers[key][0],
            request=requests.get(key, ""),
            text=answers[key][1],
            claims=claims.get(answers[key][0], []),
        )
        for key in keys
    ]


def _cited_events(run: Run, cited: set[str]) -> dict[str, Event]:
    try:
        return {event.event_id: event for event in readable_events(run.evidence_path) if event.event_id in cited}
    except FileNotFoundError as error:
        raise BrokenRecordError(f"the evidence of {run.id} is gone", fix=f"critiqor verify {run.id}") from error


def _find(diagnosis: Diagnosis, name: str) -> Finding:
    findings = diagnosis.failure_analysis.findings
    found = [finding for finding in findings if name in (finding.id, finding.type)]
    if len(found) == 1:
        return found[0]
    if not findings:
        raise UsageError(f"{diagnosis.run_id} has no findings", fix=f"critiqor show {diagnosis.run_id}")
    known = ", ".join(
        f"{finding.id} ({', '.join(part for part in (finding.type, format_place(finding, diagnosis)) if part)})"
        for finding in (found or findings)[:10]
    )
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
        shown=_informative_values(event) if event is not None else [],
    )


def _informative_values(event: Event) -> list[str]:
    payload = event.payload
    lines = []
    if payload.get("arguments") is not None:
        lines.append(f"arguments: {excerpt(canonical_json(payload['arguments']), MAX_EXCERPT)}")
    if event.error:
        lines.append(f"error: {excerpt(event.error, MAX_EXCERPT)}")
    for name in ("result", "text"):
        if payload.get(name):
            lines.append(f"{name}: {excerpt(plain_text(payload[name]), MAX_EXCERPT)}")
    if isinstance(payload.get("usage"), dict):
        usage = payload["usage"]
        lines.append(
            f"usage: {usage.get('input')} in, {usage.get('output')} out, budget {payload.get('contextTokenBudget')}"
        )
    return lines
