"""Findings of a run grouped by cause, for comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from critiqor.model.diagnosis import Diagnosis, Finding, Severity, severity_rank
from critiqor.model.formatting import format_session, list_names


class CauseGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one run that share a cause."""

    cause: str
    type: str
    severity: Severity
    """The highest severity of these findings."""
    title: str
    """Title of the most severe finding."""
    findings: int
    """Number of findings."""
    occurrences: int
    """Number of occurrences in all of them."""
    sessions: list[str]
    """Names of the sessions with this cause; empty if the run does not have several sessions."""


def causes_of(diagnosis: Diagnosis) -> dict[str, CauseGroup]:
    """Group the findings of a run by their causes, without those of extensions: the other run may not have had them."""
    members: dict[str, list[Finding]] = {}
    for finding in diagnosis.failure_analysis.own_findings:
        members.setdefault(finding.cause, []).append(finding)
    named = diagnosis.has_several_sessions
    return {cause: _group(cause, findings, name_sessions=named) for cause, findings in members.items()}


def _group(cause: str, findings: list[Finding], *, name_sessions: bool) -> CauseGroup:
    named = [finding for finding in findings if name_sessions and not finding.is_of_recording]
    return group_of(cause, findings, [format_session(finding.session_key) for finding in named])


class CausedFinding(Protocol):
    """What a finding is grouped by."""

    @property
    def type(self) -> str: ...
    @property
    def severity(self) -> Severity: ...
    @property
    def title(self) -> str: ...
    @property
    def occurrences(self) -> int: ...


def group_of(cause: str, findings: Sequence[CausedFinding], sessions: list[str]) -> CauseGroup:
    """Return the findings of a run with this cause as one group."""
    worst = min(findings, key=lambda finding: (severity_rank(finding.severity), finding.title, finding.type))
    return CauseGroup(
        cause=cause,
        type=worst.type,
        severity=worst.severity,
        title=worst.title,
        findings=len(findings),
        occurrences=sum(finding.occurrences for finding in findings),
        sessions=sessions,
    )


class CauseChange(msgspec.Struct, frozen=True, kw_only=True):
    """One cause before and after."""

    cause: str
    type: str
    title: str
    """Title in the run after the change; if the cause is gone, in the run before it."""
    severity_before: Severity | None
    severity_after: Severity | None
    findings_before: int
    findings_after: int
    occurrences_before: int
    occurrences_after: int
    sessions_before: list[str] = msgspec.field(default_factory=list)
    """Names of the sessions with this cause; empty if the run does not have several sessions."""
    sessions_after: list[str] = msgspec.field(default_factory=list)

    @property
    def place(self) -> str:
        """The sessions with this cause, in the run after the change if it is still there; empty if none is named."""
        sessions = self.sessions_before if self.severity_after is None else self.sessions_after
        return f"session {list_names(sessions)}" if sessions else ""


def cause_changes(before: Diagnosis, after: Diagnosis) -> list[CauseChange]:
    """Return every cause of two diagnoses before and after, most severe first."""
    first, second = causes_of(before), causes_of(after)
    changes = [_change(first.get(cause), second.get(cause)) for cause in first.keys() | second.keys()]
    return sorted(changes, key=lambda change: (_worst_rank(change), change.cause))


def _change(before: CauseGroup | None, after: CauseGroup | None) -> CauseChange:
    latest = after or before
    assert latest is not None
    return CauseChange(
        cause=latest.cause,
        type=latest.type,
        title=latest.title,
        severity_before=before.severity if before else None,
        severity_after=after.severity if after else None,
        findings_before=before.findings if before else 0,
        findings_after=after.findings if after else 0,
        occurrences_before=before.occurrences if before else 0,
        occurrences_after=after.occurrences if after else 0,
        sessions_before=before.sessions if before else [],
        sessions_after=after.sessions if after else [],
    )


def _worst_rank(change: CauseChange) -> int:
    return min(severity_rank(severity) for severity in (change.severity_before, change.severity_after) if severity)
