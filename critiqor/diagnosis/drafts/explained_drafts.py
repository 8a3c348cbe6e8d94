"""Which drafts are redundant, because others explain the same calls or events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from typing import NamedTuple

from critiqor.diagnosis.collections.orders import Orders
from critiqor.diagnosis.detectors import EXPLAINED_BY
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.drafts.merging import Explained
from critiqor.model import Severity
from critiqor.model.diagnosis import severity_rank

_GRAVE = frozenset(("critical", "high"))


class _Explanation(NamedTuple):
    severity: Severity
    place: int
    """Position of the draft. Of two equally severe drafts of a type, the first one counts."""
    calls: Orders | None
    events: Set[str] = frozenset()


def without_explained(
    drafts: list[Draft], before: Explained | None = None, after: Explained | None = None
) -> list[Draft]:
    """Return the drafts without those that are explained by other drafts, or by past ones before or after them."""
    by_type: dict[str, list[_Explanation]] = defaultdict(list)
    for past, place in ((before, -1), (after, len(drafts))):
        for (type_, severity), calls in past.calls.items() if past is not None else ():
            by_type[type_].append(_Explanation(severity, place, calls))
    for place, draft in enumerate(drafts):
        by_type[draft.type].append(_Explanation(draft.severity, place, draft.explained_calls, draft.explains))
    return [draft for place, draft in enumerate(drafts) if not _is_explained(draft, place, by_type)]


def _is_explained(draft: Draft, place: int, by_type: dict[str, list[_Explanation]]) -> bool:
    """Return whether other drafts explain at least four fifths of the calls or events of a draft.

    A grave failure is not explained by a lesser one. Of two drafts of one type, one call in common is enough.
    """
    rank = (severity_rank(draft.severity), place)
    others: list[_Explanation] = []
    for type_ in EXPLAINED_BY.get(draft.type, ()):
        for other in by_type.get(type_, ()):
            if type_ == draft.type:
                outranks = (severity_rank(other.severity), other.place) < rank
                if outranks and _shared(draft, [other])[0]:
                    return True
            elif draft.severity not in _GRAVE or other.severity in _GRAVE:
                others.append(other)
    if not others:
        return False
    explained, total = _shared(draft, others)
    return explained * 5 >= total * 4


def _shared(draft: Draft, others: list[_Explanation]) -> tuple[int, int]:
    """Return how many calls of a draft, or events if it has no calls, others explain, and how many it has."""
    calls = draft.explained_calls
    if calls:
        return calls.count_in([other.calls for other in others if other.calls is not None]), len(calls)
    events = draft.explains or frozenset(draft.evidence)
    return sum(any(event in other.events for other in others) for event in events), len(events)
