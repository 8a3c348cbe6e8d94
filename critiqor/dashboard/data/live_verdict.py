"""The verdict of a run that is being recorded, as the Live page shows it; strangers get neither names nor texts."""

from __future__ import annotations

from typing import Any

from critiqor.dashboard.pages.run_addresses import RunAddresses
from critiqor.live.verdict import LiveFinding, LiveSession, LiveVerdict
from critiqor.model.formatting import counted, format_cost, format_session
from critiqor.model.sanitize import sanitize_for_page
from critiqor.privacy.replacements import failure_meaning

MAX_SHOWN = 20
"""Maximum number of findings and of sessions that are shown, the worst ones."""


class LiveScope:
    """What a live page shows: a whole run, or one of its sessions by its name as the viewer sees it."""

    def __init__(self, name: str | None, *, is_session: bool, is_anonymous: bool) -> None:
        self.name = name
        self.is_session = is_session
        self.is_anonymous = is_anonymous

    def name_of(self, session_key: str | None, verdict: LiveVerdict | None) -> str | None:
        """Return the name of a session as the viewer sees it; without a name until it is in a verdict."""
        if not self.is_anonymous or session_key is None:
            return session_key
        numbers = {each.session_key: each.number for each in verdict.sessions} if verdict is not None else {}
        number = numbers.get(session_key)
        return "a session" if number is None else f"session_{number}"

    def has(self, session_key: str | None, verdict: LiveVerdict | None) -> bool:
        """Return whether something of a session is shown."""
        return not self.is_session or self.name_of(session_key, verdict) == self.name

    def sessions(self, verdict: LiveVerdict | None) -> list[LiveSession]:
        """Return the sessions of a verdict that are shown, the worst first."""
        found = verdict.sessions if verdict is not None else []
        return [session for session in found if self.has(session.session_key, verdict)]


def live_verdict_data(verdict: LiveVerdict, scope: LiveScope) -> dict[str, Any]:
    """Return the displayed values of a live verdict; without names and texts if the viewer may not see them."""
    addresses = RunAddresses(verdict.run_id)
    is_anonymous = scope.is_anonymous
    judged: LiveVerdict | LiveSession = verdict
    findings, left_out = verdict.findings, verdict.findings_left_out
    if scope.is_session and (sessions := scope.sessions(verdict)):
        judged, left_out = sessions[0], 0
        findings = [finding for finding in findings if finding.id in sessions[0].findings]

    def name(session_key: str | None) -> str:
        shown = scope.name_of(session_key, verdict)
        return sanitize_for_page((shown or "").replace("_", " ") if is_anonymous and shown else format_session(shown))

    def finding_row(finding: LiveFinding) -> dict[str, str]:
        title = failure_meaning(finding.type) if is_anonymous else finding.title
        where = "" if finding.session_key is None else name(finding.session_key)
        return {"severity": finding.severity, "type": finding.type, "title": sanitize_for_page(title), "session": where}

    def session_row(session: LiveSession) -> dict[str, str]:
        return {
            "session": name(session.session_key),
            "address": addresses.session_part("live", scope.name_of(session.session_key, verdict)),
            "readiness": session.readiness,
            "trust": "unknown" if session.trust_score is None else str(session.trust_score),
            "state": "working" if session.is_working else "idle",
            "cost": format_cost(session.cost),
            "calls": counted(session.tool_calls, "tool call"),
            "words": "" if is_anonymous else sanitize_for_page(session.last_words or ""),
        }

    limits = [limit for limit in verdict.limits if scope.has(limit.session_key, verdict) or limit.session_key is None]
    trust = "unknown" if judged.trust_score is None else f"{judged.trust_score} of 100"
    more = left_out + max(0, len(findings) - MAX_SHOWN)
    return {
        "readiness": judged.readiness,
        "said": f"Trust {trust}, {counted(len(findings) + left_out, 'finding')} so far",
        "findings": [finding_row(finding) for finding in findings[:MAX_SHOWN]],
        "more": f"and {counted(more, 'other')}" if more else "",
        "limits": [] if is_anonymous else [_limit_text(limit.text, limit.result) for limit in limits[-MAX_SHOWN:]],
        "sessions": [session_row(session) for session in scope.sessions(verdict)[:MAX_SHOWN]],
    }


def _limit_text(text: str, result: str | None) -> str:
    return sanitize_for_page(text if result is None else f"{text}: {result}")
