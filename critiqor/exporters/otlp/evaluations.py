"""Findings and the verdict as span events: each finding at its first event, the verdict at the end."""

from __future__ import annotations

from critiqor.exporters.otlp.attributes import session_attributes
from critiqor.exporters.otlp.span import Attributes, SpanEvent
from critiqor.model.diagnosis import Diagnosis, Finding
from critiqor.model.event import place_of
from critiqor.model.formatting import format_sessions
from critiqor.model.report import Recorded
from critiqor.model.sanitize import sanitize
from critiqor.model.timestamps import us_of
from critiqor.model.trace import label

EVALUATION = "gen_ai.evaluation.result"
MAX_EXPLANATION = 2_000
NOTHING_FOUND = "no failure was found"
MAX_SESSIONS = 100
"""Maximum number of sessions whose verdict is exported, the worst first."""


class Evaluations:
    """Findings whose first event has not been seen yet."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._waiting: dict[str, list[Finding]] = {}
        for finding in recorded.diagnosis.failure_analysis.findings if recorded.diagnosis is not None else ():
            self._waiting.setdefault(finding.first_event, []).append(finding)

    def started_at(self, event_id: str, at_us: int) -> list[SpanEvent]:
        """Remove and return the findings that started with this event."""
        return [self._span_event(finding, at_us) for finding in self._waiting.pop(event_id, ())]

    def remaining(self, start_us: int, end_us: int) -> list[SpanEvent]:
        """Return the findings whose event was not seen, at `start_us` if they have no time, and the verdict."""
        events = [
            self._span_event(finding, self._time_us(finding, start_us))
            for findings in self._waiting.values()
            for finding in findings
        ]
        diagnosis = self._recorded.diagnosis
        if diagnosis is not None:
            events += [SpanEvent(EVALUATION, end_us, each) for each in _session_attributes(diagnosis)]
            events.append(SpanEvent(EVALUATION, end_us, _verdict_attributes(diagnosis, self._recorded)))
        return events

    def _span_event(self, finding: Finding, at_us: int) -> SpanEvent:
        return SpanEvent(EVALUATION, at_us, _finding_attributes(finding, self._recorded))

    def _time_us(self, finding: Finding, default_us: int) -> int:
        event_id = finding.first_event
        place = place_of(event_id)
        return self._recorded.moments.get(event_id, us_of(place.milliseconds) if place is not None else default_us)


def _finding_attributes(finding: Finding, recorded: Recorded) -> Attributes:
    """Return the attributes of a finding.

    Title, explanation and cause quote the recording: if content is not exported, they are replaced by the meaning of
    the failure type.
    """
    explanation = f"{finding.title}. {finding.explanation}" if recorded.content else _meaning(finding.type, recorded)
    cause: Attributes = {"critiqor.finding.cause": label(finding.cause)} if recorded.content else {}
    origin = finding.extension
    package: Attributes = {} if origin is None else {"critiqor.finding.extension": label(origin.package)}
    return {
        "gen_ai.evaluation.name": label(finding.type),
        "gen_ai.evaluation.score.value": float(finding.impact.trust_points),
        "gen_ai.evaluation.score.label": finding.severity,
        "gen_ai.evaluation.explanation": sanitize(explanation, max_length=MAX_EXPLANATION, collapse=True),
        "critiqor.finding.id": label(finding.id),
        **({"critiqor.event_id": label(finding.first_event)} if finding.first_event else {}),
        **cause,
        **package,
        **session_attributes(finding.session_key),
        **({} if finding.agent_run_id is None else {"critiqor.agent_run_id": label(finding.agent_run_id)}),
        "critiqor.finding.confidence": finding.confidence,
        "critiqor.finding.occurrences": finding.occurrences,
    }


def _verdict_attributes(diagnosis: Diagnosis, recorded: Recorded) -> Attributes:
    """Return the attributes of the verdict. Its headline is the title of a finding, so it is content as well."""
    worst = diagnosis.primary_diagnosis
    explanation = diagnosis.headline
    if not recorded.content:
        explanation = NOTHING_FOUND if worst is None else _meaning(worst.type, recorded)
    if diagnosis.trust_score is not None and (sessions := format_sessions(diagnosis)):
        explanation += f" (trust of the {sessions})"
    return {
        "gen_ai.evaluation.name": "trust",
        **_score(diagnosis.trust_score),
        "gen_ai.evaluation.score.label": diagnosis.readiness,
        "gen_ai.evaluation.explanation": sanitize(explanation, max_length=MAX_EXPLANATION, collapse=True),
    }


def _session_attributes(diagnosis: Diagnosis) -> list[Attributes]:
    """Return the attributes of the verdict on each session; empty if there are not several."""
    if not diagnosis.has_several_sessions:
        return []
    return [
        {
            "gen_ai.evaluation.name": "session trust",
            **_score(None if diagnosis.trust_score is None else session.trust_score),
            "gen_ai.evaluation.score.label": session.readiness,
            "gen_ai.evaluation.explanation": f"task: {session.task.verdict}",
            **session_attributes(session.session_key),
        }
        for session in diagnosis.sessions[:MAX_SESSIONS]
    ]


def _score(trust: int | None) -> Attributes:
    return {} if trust is None else {"gen_ai.evaluation.score.value": float(trust)}


def _meaning(kind: str, recorded: Recorded) -> str:
    """Return the meaning of a failure type; the type itself if it is not known."""
    return recorded.meanings.get(kind, label(kind))
