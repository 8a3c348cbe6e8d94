"""Findings of a run grouped by cause, for comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from critiqor.model.diagnosis import Diagnosis, Finding, Severity, severity_rank
from critiqor.model.formatting import format_session


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
