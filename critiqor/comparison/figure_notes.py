"""Notes on the figures of a run: whose trust it is, and whether the cost is estimated."""

from __future__ import annotations

from critiqor.model.diagnosis import Diagnosis
from critiqor.model.formatting import format_trust
from critiqor.model.verdict import Verdict, fresh_verdict


def session_note(diagnosis: Diagnosis) -> str | None:
    """Return whose trust is among the figures of a run; None if it has not several sessions, or is not proven."""
    if not diagnosis.has_several_sessions or diagnosis.readiness == "unknown":
        return None
    return trust_note(diagnosis.run_id, fresh_verdict(diagnosis))


def trust_note(run_id: str, verdict: Verdict) -> str:
    """Return whose trust is among the figures of a run with several sessions."""
    return f"{run_id}: trust {format_trust(verdict)}"


def estimate_note(diagnosis: Diagnosis) -> str | None:
    """Return that the cost among the figures of a run is estimated, and from which prices; None if it is not."""
    cost = diagnosis.cost_analysis
    if not cost.cost_is_estimated:
        return None
    return list_price_note(diagnosis.run_id, cost.list_prices_date)


def list_price_note(run_id: str, date: str | None) -> str:
    """Return that the cost of a run is estimated, and from which prices."""
    return f"{run_id}: cost is estimated from list prices of {date}"
