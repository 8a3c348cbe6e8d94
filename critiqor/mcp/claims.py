"""Check of a sentence against a run: would the recorded calls support it if it were the agent's answer now?"""

from __future__ import annotations

from critiqor.conversation.checked_text import worst_first
from critiqor.diagnosis.recording import Recording
from critiqor.errors import UsageError
from critiqor.mcp.answers import MAX_NAME, CheckedStatement, ShownClaim, page_of, untrusted
from critiqor.mcp.visible_runs import check_session, is_live
from critiqor.model import Event, EventType
from critiqor.model.diagnosis import Claim, ClaimStatus
from critiqor.model.event import HOUSEKEEPING
from critiqor.run.view import RunView
from critiqor.spans.calls import is_own_call

MAX_STATEMENT = 4_000
"""Maximum number of characters of a sentence that is checked."""
MAX_CLAIMS = 20
_ADVICE: dict[ClaimStatus, str] = {
    "supported": "The recorded calls support it: it can be said.",
    "contradicted": "The recorded calls contradict it: do not say it. Report what was recorded, or repair it first.",
    "unsupported": "No recorded call supports it: do the work or the check first, or do not say it.",
    "unverifiable": "Nothing that was recorded decides it: say that it was not checked.",
}


def check_statement(view: RunView, statement: str, session: str | None) -> CheckedStatement:
    """Check a sentence against the events of a run so far.

    Without a session, it is that of the agent that asks, if its call was recorded, else the one with the latest event.
    """
    if not statement.strip():
        raise UsageError("the claim is empty", fix="pass the sentence to check as `claim`")
    if len(statement) > MAX_STATEMENT:
        fix = "check one sentence at a time"
        raise UsageError(f"the claim has more than {MAX_STATEMENT} characters", fix=fix)
    if view.is_anonymous:
        fix = f"critiqor visibility {view.run_id} private"
        raise UsageError(f"{view.run_id} is anonymous: what it contains is not compared with sentences", fix=fix)
    recording = Recording()
    asking = latest = None
    events = 0
    for event in view.events():
        recording.observe(event)
        events += 1
        if event.source_layer != "supervisor" and event.event_type not in HOUSEKEEPING:
            latest = event.session_key
            if _asks(event, statement):
                asking = event.session_key
    wanted = session or asking or latest
    checker = recording.builder.claims
    claims = checker.check_statement(wanted, statement, view.events)
    if claims is None and session is not None:
        check_session(view, session)
    ranked = worst_first(claims or ())
    status = ranked[0].status if ranked else "unverifiable"
    return CheckedStatement(
        run=view.run_id,
        session=untrusted(wanted, MAX_NAME),
        is_live=is_live(view),
        events=events,
        status=status,
        advice=_ADVICE[status] if ranked else "It contains nothing that recorded calls can confirm or contradict.",
        claims=page_of(map(_shown, ranked), 0, MAX_CLAIMS).entries,
    )


def _asks(event: Event, statement: str) -> bool:
    """Return whether an event is the call of an agent that asks about this sentence."""
    if event.event_type != EventType.TOOL_CALL:
        return False
    arguments = event.payload.get("arguments")
    if not is_own_call(event.tool_name, arguments) or not isinstance(arguments, dict):
        return False
    inner = arguments.get("args")
    return statement in (arguments.get("claim"), inner.get("claim") if isinstance(inner, dict) else None)


def _shown(claim: Claim) -> ShownClaim:
    return ShownClaim(
        claim=untrusted(claim.text, 300),
        kind=claim.kind,
        status=claim.status,
        reason=untrusted(claim.reason, 400),
        evidence=claim.evidence[:10],
    )
