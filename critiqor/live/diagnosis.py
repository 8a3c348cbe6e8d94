"""The diagnosis of a recording so far: the same detectors and scores as those of `critiqor finalize`.

While events arrive, findings are those of what is complete: a tool call, and what began after it, is judged once it has
returned, and an agent run that is under way is not called unfinished. At the end, the diagnosis is concluded exactly as
`critiqor finalize` does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from critiqor.diagnosis import Diagnoser
from critiqor.diagnosis.scoring import Judgement
from critiqor.live.sessions import SessionActivities, SessionActivity
from critiqor.live.verdict import LiveFinding, LiveLimit, LiveSession, LiveVerdict
from critiqor.model import Coverage, Diagnosis, Event, Finding, SessionDiagnosis, iso_from_ms, now_ms
from critiqor.model.diagnosis import severity_rank
from critiqor.model.sanitize import excerpt
from critiqor.model.usage import Cost
from critiqor.policy.contract import Contract
from critiqor.policy.contracts import contract_checker
from critiqor.storage.coverage import CoverageCounter
from critiqor.storage.redaction import Redactor
from critiqor.timeline import Timing

MAX_FINDINGS = 100
"""Maximum number of findings of a live verdict."""
MAX_SESSIONS = 100
"""Maximum number of sessions of a live verdict."""
MAX_TITLE = 300
MAX_TEXT = 1000
"""Maximum number of characters of an explanation or a recommendation."""
MAX_LIMITS = 100
"""Maximum number of exceeded limits of a live verdict: the last ones."""
_MEDIUM = severity_rank("medium")
_NO_COST = Cost(None, False, 0, 0)
_NOTHING_KNOWN = SessionActivity()


class LiveDiagnosis:
    """Observes the events of a recording in their true order, and judges it at any time."""

    def __init__(self, run_id: str, counter: CoverageCounter, contracts: Sequence[Contract] = ()) -> None:
        """`contracts` are those of the policy, which are checked event by event."""
        self._run_id = run_id
        self._counter = counter
        self._redactor = Redactor(b"")
        checker = contract_checker(contracts)
        self._diagnoser = Diagnoser([checker] if checker is not None else ())
        self._activities = SessionActivities()
        self._supervised: list[Event] = []
        self.events = 0
        """Number of observed events."""
        self.concluded: Diagnosis | None = None
        """The diagnosis of the complete recording, once it was made."""

    def observe(self, event: Event) -> None:
        """Process the next event."""
        self.events += 1
        self._counter.count(event)
        self._diagnoser.observe(event)
        self._activities.observe(event)
        if event.source_layer == "supervisor":
            self._supervised.append(event)

    def verdict(self, limits: Sequence[LiveLimit] = ()) -> LiveVerdict:
        """Return the verdict of the events so far."""
        judgement = self._diagnoser.judgement(self._counter.build_coverage(self._redactor), is_recording=True)
        return self._verdict(judgement, limits, is_over=False)

    def conclude(
        self,
        events: Iterable[Event],
        timeline: Path | None = None,
        coverage: Coverage | None = None,
        limits: Sequence[LiveLimit] = (),
    ) -> LiveVerdict:
        """Return the verdict of the complete recording. No more events may follow.

        `events` are all of them once more, for values that are looked up in the whole recording; they are read only if
        there are such values. Without a `coverage`, it is that of the events, without an audit of the journal.
        """
        if self._diagnoser.values_to_look_up():
            self._diagnoser.look_up(events)
        coverage = coverage or self._counter.build_coverage(self._redactor)
        timing = Timing(timeline if timeline is not None and timeline.is_file() else None)
        for event in self._supervised:
            timing.observe(event)
        self.concluded = self._diagnoser.conclude(self._run_id, "", coverage, "", timing.summary())
        return self._verdict(_judgement_of(self.concluded), limits, is_over=True)

    def _verdict(self, scores: Judgement, limits: Sequence[LiveLimit], *, is_over: bool) -> LiveVerdict:
        worst = [finding for finding in scores.findings if severity_rank(finding.severity) <= _MEDIUM]
        total, costs = self._diagnoser.spending()
        listed = self._listed(scores.sessions)
        ids = {finding.id: finding_id(finding) for finding in scores.findings}
        return LiveVerdict(
            run_id=self._run_id,
            updated_at=iso_from_ms(now_ms()),
            state="ended" if is_over else "recording",
            events=self.events,
            trust_score=scores.trust,
            readiness=scores.readiness,
            headline=excerpt(scores.main.title, MAX_TITLE) if scores.main is not None else None,
            model_calls=total.model_calls,
            tool_calls=self._activities.tool_calls,
            tokens=total.tokens,
            cost_usd=total.usd,
            cost_is_partial=total.is_partial,
            cost_is_estimated=total.is_estimated,
            sessions=[self._session(one, costs.get(one.session_key, _NO_COST), ids) for one in listed],
            sessions_left_out=len(scores.sessions) - len(listed) + sum(scores.sessions_left_out.values()),
            findings=[_live_finding(finding) for finding in worst[:MAX_FINDINGS]],
            findings_left_out=len(worst) - len(worst[:MAX_FINDINGS]),
            limits=list(limits[-MAX_LIMITS:]),
        )

    def _listed(self, sessions: Sequence[SessionDiagnosis]) -> list[SessionDiagnosis]:
        """Return the sessions to list: half of them the worst ones, and those with the latest events."""
        if len(sessions) <= MAX_SESSIONS:
            return list(sessions)
        latest = set(self._activities.latest[: MAX_SESSIONS // 2])
        worst = sessions[: MAX_SESSIONS // 2]
        recent = [one for one in sessions[MAX_SESSIONS // 2 :] if one.session_key in latest]
        return [*worst, *recent]

    def _session(self, judged: SessionDiagnosis, cost: Cost, ids: dict[str, str]) -> LiveSession:
        activity = self._activities.of(judged.session_key) or _NOTHING_KNOWN
        return LiveSession(
            session_key=judged.session_key,
            number=judged.number,
            is_working=activity.is_working,
            agent_run_id=activity.agent_run_id,
            trust_score=judged.trust_score,
            readiness=judged.readiness,
            findings=[ids[one] for one in judged.findings if one in ids][:MAX_FINDINGS],
            model_calls=cost.model_calls,
            tool_calls=activity.tool_calls,
            tokens=cost.tokens,
            cost_usd=cost.usd,
            cost_is_partial=cost.is_partial,
            cost_is_estimated=cost.is_estimated,
            last_words=activity.last_words,
            last_event_at=activity.last_event_at,
        )


def _judgement_of(made: Diagnosis) -> Judgement:
    """Return the scores of a complete diagnosis; findings of extensions do not count."""
    findings, first = made.failure_analysis.own_findings, made.primary_diagnosis
    return Judgement(
        findings=findings,
        left_out=made.failure_analysis.left_out,
        main=next((one for one in findings if first is not None and one.id == first.finding_id), None),
        sessions=made.sessions,
        sessions_left_out=made.sessions_left_out,
        trust=made.trust_score,
        readiness=made.readiness,
        task=made.outcome.task,
    )


def finding_id(finding: Finding) -> str:
    """Return an id of a diagnosed finding that stays the same while its recording goes on: of its cause and session."""
    where = "recording" if finding.is_of_recording else f"session {finding.session_key}"
    digest = sha256(f"{finding.cause}\n{where}".encode(errors="replace"))
    return f"{finding.type}-{digest.hexdigest()[:8]}"


def _live_finding(finding: Finding) -> LiveFinding:
    return LiveFinding(
        id=finding_id(finding),
        type=finding.type,
        cause=finding.cause,
        severity=finding.severity,
        confidence=finding.confidence,
        title=excerpt(finding.title, MAX_TITLE),
        explanation=excerpt(finding.explanation, MAX_TEXT),
        recommendation=excerpt(finding.recommendation, MAX_TEXT),
        session_key=finding.session_key,
        agent_run_id=finding.agent_run_id,
        occurrences=finding.occurrences,
        first_event=finding.first_event,
        last_event=max(finding.cited_events, default=""),
    )
