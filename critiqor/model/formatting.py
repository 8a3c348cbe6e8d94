"""Formatting of values for people: the same text on a terminal, on a page and in a report.

Every module that counts something imports it, so it imports the modules that define cost, time and verdict only inside
the functions that need them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from critiqor.model.sanitize import sanitize

if TYPE_CHECKING:
    from critiqor.model.diagnosis import (
        BriefDiagnosis,
        Claim,
        Diagnosis,
        Finding,
        Impact,
        Readiness,
        SessionDiagnosis,
        TaskOutcome,
    )
    from critiqor.model.usage import Cost, Usage
    from critiqor.model.verdict import Verdict

UNKNOWN = "unknown"
MAX_NAMES = 5
"""Names in a sentence before the rest is counted."""
MAX_SESSION_NAME = 120
"""Maximum length of the name of a session in characters."""
NO_SESSION = "(no session)"
"""Name of the agent runs that belong to no session."""
_BECAME: dict[Readiness, tuple[str, str]] = {
    "unsafe": ("is unsafe", "are unsafe"),
    "unknown": ("is unknown", "are unknown"),
    "review": ("needs a review", "need a review"),
    "ready": ("is ready", "are ready"),
}


def format_money(usd: float | None, *, is_estimated: bool = False) -> str:
    """Return an amount of money: two decimals from one dollar on, more for smaller amounts.

    An amount that was computed from list prices is marked as estimated.
    """
    if usd is None:
        return UNKNOWN
    if is_estimated:
        return f"{format_money(usd)} (estimated)"
    if usd == 0:
        return "$0"
    sign, amount = "-" if usd < 0 else "", abs(usd)
    if amount < 0.0001:
        return f"{sign}${amount:.6f}"
    # An amount that rounds to one dollar is formatted like one.
    return f"{sign}${amount:.4f}" if amount < 0.99995 else f"{sign}${amount:,.2f}"


def format_cost(cost: Cost | Usage) -> str:
    """Return a cost; a lower bound where a part of it is unknown, and marked where a part of it is estimated."""
    from critiqor.model.usage import Cost

    cost = cost if isinstance(cost, Cost) else cost.cost
    if not cost.model_calls:
        return "no model calls"
    if cost.usd is None:
        return "no price known" if cost.tokens else UNKNOWN
    return ("at least " if cost.is_partial else "") + format_money(cost.usd, is_estimated=cost.is_estimated)


def format_duration(milliseconds: float | None) -> str:
    """Return a duration in the unit that people would use."""
    if milliseconds is None:
        return UNKNOWN
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms" if milliseconds else "0 ms"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 600_000:
        return f"{milliseconds / 1000:.2f} s"
    if milliseconds < 36_000_000:
        return f"{milliseconds / 60_000:.0f} min"
    return f"{milliseconds / 3_600_000:,.0f} h" if milliseconds < 360_000_000 else f"{milliseconds / 86_400_000:,.0f} d"


def format_duration_change(milliseconds: float) -> str:
    """Return by how much a duration changed, with its sign; `same` if nothing of it would be seen."""
    if round(milliseconds, 1) == 0:
        return "same"
    return ("+" if milliseconds > 0 else "-") + format_duration(abs(milliseconds))


def format_number(value: float | None) -> str:
    """Return a number with separated thousands."""
    return UNKNOWN if value is None else f"{value:,}"


def format_identifier(name: str) -> str:
    """Return an identifier as words: `tool_loop` is a tool loop."""
    return name.replace("_", " ")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: 1 call, 2,000 calls."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def list_names(names: Iterable[str]) -> str:
    """Return the first few names, and how many more there are."""
    every = list(names)
    rest = len(every) - MAX_NAMES
    return ", ".join(every[:MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def format_verdict(verdict: Verdict | Readiness) -> str:
    """Return the verdict in one word."""
    return verdict if isinstance(verdict, str) else verdict.readiness


def format_trust(verdict: Verdict) -> str:
    """Return the trust score, or why it is unknown; if there are several sessions, also whose trust it is."""
    if verdict.trust is None:
        return f"{UNKNOWN}: {verdict.unknown_trust}"
    return f"{verdict.trust} of 100" + (f", that of its {verdict.sessions}" if verdict.sessions else "")


def format_session(session_key: str | None) -> str:
    """Return the name of a session, on one line of limited length: it comes from the recording."""
    if session_key is None:
        return NO_SESSION
    return sanitize(session_key, max_length=MAX_SESSION_NAME, collapse=True) or "(no name)"


def format_sessions(diagnosis: Diagnosis | BriefDiagnosis) -> str | None:
    """Return the name of the worst session, and how the others are judged; None if there are not several."""
    if not diagnosis.has_several_sessions:
        return None
    # A list shows this for each of its runs, and a dictionary takes a tenth of the time of two counters.
    others = {readiness: count for readiness, count in diagnosis.sessions_left_out.items() if count > 0}
    for session in diagnosis.sessions[1:]:
        others[session.readiness] = others.get(session.readiness, 0) + 1
    number = sum(others.values())
    judged = {readiness: count for readiness, count in _worst_first(others).items() if count}
    said = [f"{count:,} {_BECAME[readiness][count != 1]}" for readiness, count in judged.items()]
    if len(judged) == 1:
        [readiness] = judged
        rest = f"{counted(number, 'other')} {_BECAME[readiness][number != 1]}"
    else:
        rest = f"of {number:,} others {' and '.join(part for part in (', '.join(said[:-1]), said[-1]))}"
    return f"worst session {format_session(diagnosis.sessions[0].session_key)}; {rest}"


def format_readiness_counts(counts: Mapping[Readiness, int]) -> str:
    """Return how many sessions have which readiness, the worst first: 1 unsafe, 3 ready."""
    return ", ".join(f"{count:,} {readiness}" for readiness, count in _worst_first(counts).items() if count)


def _worst_first(counts: Mapping[Readiness, int]) -> dict[Readiness, int]:
    return {readiness: counts.get(readiness, 0) for readiness in _BECAME}


def format_place(finding: Finding, diagnosis: Diagnosis | None = None) -> str:
    """Return the session and agent run of a finding; empty if the diagnosis is not one of several sessions."""
    if diagnosis is not None and not diagnosis.has_several_sessions:
        return ""
    if finding.is_of_recording:
        return "counts for every session"
    run = "" if finding.agent_run_id is None else f", agent run {format_session(finding.agent_run_id)}"
    return f"session {format_session(finding.session_key)}{run}"


def format_session_cost(session: SessionDiagnosis) -> str:
    """Return the cost of a session; a lower bound where a part of it is unknown."""
    if session.cost_usd is None:
        return UNKNOWN if session.cost_is_partial else "no model calls"
    cost = format_money(session.cost_usd, is_estimated=session.cost_is_estimated)
    return ("at least " if session.cost_is_partial else "") + cost


def format_task(task: TaskOutcome) -> str | None:
    """Return whether a task was done, and how that is known; None if it is unknown."""
    return None if task.verdict == UNKNOWN else f"{format_identifier(task.verdict)} ({task.known_from})"


def format_claims(claims: Iterable[Claim]) -> str | None:
    """Return how many claims were checked, and how many of them do not hold; None if there are none."""
    counts = Counter(claim.status for claim in claims)
    doubted = [
        f"{counts[status]:,} {status}" for status in ("contradicted", "unsupported", "unverifiable") if counts[status]
    ]
    return ", ".join([f"{counts.total():,} checked", *doubted]) if counts else None


def format_judged(diagnosis: Diagnosis) -> dict[str, str]:
    """Format whether the `task` was done, and how many `claims` hold, as texts; what is unknown is left out."""
    facts = {"task": format_task(diagnosis.outcome.task), "claims": format_claims(diagnosis.claims)}
    return {label: text for label, text in facts.items() if text is not None}


def format_lost_trust(impact: Impact) -> str:
    """Return the trust points that a finding cost."""
    return f"-{counted(impact.trust_points, 'point')}" if impact.trust_points else "no points lost"


def format_waste(impact: Impact) -> str:
    """Return the money, tokens and time that a finding wasted."""
    wasted = [
        format_money(impact.wasted_usd, is_estimated=impact.wasted_usd_is_estimated) if impact.wasted_usd else "",
        counted(impact.wasted_tokens, "token") if impact.wasted_tokens else "",
        format_duration(impact.wasted_ms) if impact.wasted_ms else "",
    ]
    return ", ".join(part for part in wasted if part) or "not measured"


def format_size(number: int | None) -> str:
    """Return a number of bytes in a suitable unit; a question mark if unknown."""
    if number is None:
        return "?"
    amount, unit = float(number), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{number} B" if unit == "B" else f"{amount:.1f} {unit}"
