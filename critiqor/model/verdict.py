"""The verdict on a run: its diagnosis, provided that the evidence is still what was sealed (integrity)."""

from __future__ import annotations

from collections import Counter
from typing import Literal, NamedTuple

import msgspec

from critiqor.model.diagnosis import BriefDiagnosis, Diagnosis, Readiness, TaskOutcome
from critiqor.model.formatting import (
    UNKNOWN,
    counted,
    format_identifier,
    format_number,
    format_readiness_counts,
    format_session,
    format_session_cost,
    format_sessions,
)

IntegrityState = Literal["intact", "changed", "missing", "not sealed", "other"]


CheckState = Literal["passed", "failed", "not checked"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the verification of a run: what was compared, and with which result."""

    name: str
    """`evidence`, `timeline`, `record`, `diagnosis`, `rediagnosis`, `evidence_signature` or `diagnosis_signature`."""
    state: CheckState
    explanation: str
    """The result in words, or why it could not be checked."""
    fix: str | None = None
    """What to type next."""
    signer: str | None = None
    """Name of the trusted signer; null if it is no signature, or not one of a trusted signer."""


class Integrity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of comparing the evidence of a run with its seal and its diagnosis."""

    state: IntegrityState
    """`other` where the evidence is intact, but the diagnosis is missing, was changed, or was made from other
    evidence."""
    explanation: str = msgspec.field(name="told")
    """The state in one sentence, without a full stop."""
    checks: list[Check] = msgspec.field(default_factory=list)
    """Everything that was checked, if more than digests was compared: by `critiqor check`."""

    @property
    def is_intact(self) -> bool:
        """Whether evidence and diagnosis agree with the seal, without which there is no verdict."""
        return self.state == "intact"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a run, which every output shows first."""

    readiness: Readiness
    """`unknown` where the evidence is not intact."""
    headline: str
    """The diagnosis in one sentence, or why it is not proven."""
    trust: int | None
    """0 to 100; null where the agent was not observed or the evidence is not intact."""
    confidence: int
    """0 to 100: how much of the run the recorder saw."""
    unknown_trust: str | None = None
    """Why the trust is unknown; null where it is known."""
    sessions: str | None = None
    """The worst session, whose trust it is, and how the others are judged; null if there are not several."""


class SessionVerdictRow(NamedTuple):
    """The verdict on one session as outputs show it, in columns."""

    name: str
    trust: str
    readiness: Readiness
    task: str
    cost: str
    agent_runs: str
    findings: str
    trust_score: int | None
    """For a bar; None where it is unknown."""
    finding: str | None
    """Id of the worst finding."""
    key: str | None
    """The session key; None for agent runs without a session."""

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of the verdict on a session as a row of the table, in the order of `SESSION_HEADS`."""
        return (self.name, self.trust, self.readiness, self.task, self.cost, self.agent_runs, self.findings)


SESSION_HEADS = ("session", "trust", "verdict", "task", "cost", "agent runs", "findings")


class VerdictTable(NamedTuple):
    """The sessions of a recording, the worst first; no rows if there are not several."""

    rows: list[SessionVerdictRow]
    more: str | None
    """How many others there are, and how they are judged; None if there are none."""


def verdict_on(diagnosis: Diagnosis | BriefDiagnosis, integrity: Integrity) -> Verdict:
    """Return the verdict of a diagnosis; without intact evidence there is none."""
    if not integrity.is_intact:
        return Verdict(
            readiness="unknown",
            headline=f"Not verified: {integrity.explanation} (critiqor verify {diagnosis.run_id})",
            trust=None,
            confidence=diagnosis.confidence_score,
            unknown_trust=integrity.explanation,
        )
    return Verdict(
        readiness=diagnosis.readiness,
        headline=diagnosis.headline,
        trust=diagnosis.trust_score,
        confidence=diagnosis.confidence_score,
        unknown_trust=_unobserved(diagnosis) if diagnosis.trust_score is None else None,
        sessions=format_sessions(diagnosis),
    )


def _unobserved(diagnosis: Diagnosis | BriefDiagnosis) -> str:
    if isinstance(diagnosis, BriefDiagnosis):
        return UNKNOWN
    return why_unobserved(diagnosis)


def why_unobserved(diagnosis: Diagnosis) -> str:
    """Return why a diagnosis has no trust score: no agent ran, or none was observed."""
    causes = {finding.cause for finding in diagnosis.failure_analysis.findings}
    if "inspection_incomplete:interrupted" in causes:
        return "no agent had begun"
    return "no agent run took place" if "inspection_incomplete:idle" in causes else "the agent was not observed"


def verdict_table(diagnosis: Diagnosis, verdict: Verdict, max_rows: int | None = None) -> VerdictTable:
    """Return the table of the verdicts on sessions: on every one, or on the first `max_rows` ones."""
    if not diagnosis.has_several_sessions:
        return VerdictTable([], None)
    hidden = diagnosis.sessions[max_rows:] if max_rows is not None else []
    more = Counter(session.readiness for session in hidden) + Counter(diagnosis.sessions_left_out)
    rows = []
    for session in diagnosis.sessions[:max_rows]:
        # The trust of a session is as little proven as that of the run.
        trust = None if verdict.trust is None else session.trust_score
        rows.append(
            SessionVerdictRow(
                name=format_session(session.session_key),
                trust=format_number(trust),
                readiness=session.readiness,
                task=format_identifier(session.task.verdict),
                cost=format_session_cost(session),
                agent_runs=format_number(session.agent_runs_total),
                findings=format_number(len(session.findings)),
                trust_score=trust,
                finding=next(iter(session.findings), None),
                key=session.session_key,
            )
        )
    text = f"and {counted(more.total(), 'more session')}: {format_readiness_counts(more)}" if more else None
    return VerdictTable(rows, text)


def fresh_verdict(diagnosis: Diagnosis) -> Verdict:
    """Return the verdict of a diagnosis that was just made, whose evidence is therefore intact."""
    return verdict_on(diagnosis, Integrity(state="intact", explanation="the evidence was just diagnosed"))


def with_verdict(diagnosis: Diagnosis, verdict: Verdict) -> Diagnosis:
    """Return the diagnosis with the readiness and headline of the verdict.

    Scores and findings are kept, because they still say what to look for. Without a verdict on the run there is none on
    its sessions and tasks.
    """
    is_proven = verdict.trust == diagnosis.trust_score
    diagnosis = msgspec.structs.replace(diagnosis, readiness=verdict.readiness, headline=verdict.headline)
    if is_proven:
        return diagnosis
    unknown = TaskOutcome(known_from=verdict.unknown_trust or UNKNOWN)
    left_out = sum(diagnosis.sessions_left_out.values())
    return msgspec.structs.replace(
        diagnosis,
        outcome=msgspec.structs.replace(diagnosis.outcome, task=unknown),
        sessions=[
            msgspec.structs.replace(session, readiness="unknown", task=unknown) for session in diagnosis.sessions
        ],
        sessions_left_out={"unknown": left_out} if left_out else {},
    )
