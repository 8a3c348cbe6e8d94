"""The verdict of a run that is being recorded, as the Live page shows it; strangers get neither names nor texts."""

from __future__ import annotations

from typing import Any

from critiqor.live.verdict import LiveFinding, LiveSession, LiveVerdict
from critiqor.model.formatting import counted, format_cost, format_session
from critiqor.model.sanitize import sanitize_for_page
from critiqor.privacy.replacements import failure_meaning

MAX_SHOWN = 20
"""Maximum number of findings and of sessions that are shown, the worst ones."""


def live_verdict_data(verdict: LiveVerdict, *, is_anonymous: bool) -> dict[str, Any]:
    """Return the displayed values of a live verdict; without names and texts if the viewer may not see them."""
    numbers = {session.session_key: session.number for session in verdict.sessions}
    left_out = verdict.findings_left_out + max(0, len(verdict.findings) - MAX_SHOWN)

    def name(session_key: str | None) -> str:
        if not is_anonymous or session_key is None:
            return sanitize_for_page(format_session(session_key))
        number = numbers.get(session_key)
        return "a session" if number is None else f"session {number}"

    def finding_row(finding: LiveFinding) -> dict[str, str]:
        title = failure_meaning(finding.type) if is_anonymous else finding.title
        where = "" if finding.session_key is None else name(finding.session_key)
        return {"severity": finding.severity, "type": finding.type, "title": sanitize_for_page(title), "session": where}

    def session_row(session: LiveSession) -> dict[str, str]:
        return {
            "session": name(session.session_key),
            "readiness": session.readiness,
            "trust": "unknown" if session.trust_score is None else str(session.trust_score),
            "state": "working" if session.is_working else "idle",
            "cost": format_cost(session.cost),
            "calls": counted(session.tool_calls, "tool call"),
            "words": "" if is_anonymous else sanitize_for_page(session.last_words or ""),
        }

    trust = "unknown" if verdict.trust_score is None else f"{verdict.trust_score} of 100"
    return {
        "readiness": verdict.readiness,
        "said": f"Trust {trust}, {counted(len(verdict.findings) + verdict.findings_left_out, 'finding')} so far",
        "findings": [finding_row(finding) for finding in verdict.findings[:MAX_SHOWN]],
        "more": f"and {counted(left_out, 'other')}" if left_out else "",
        "limits": [] if is_anonymous else [sanitize_for_page(limit.text) for limit in verdict.limits[-MAX_SHOWN:]],
        "sessions": [session_row(session) for session in verdict.sessions[:MAX_SHOWN]],
    }
