"""All checks of the claims of an episode, one after the other; each place of a text is judged once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from operator import attrgetter

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.checks.actions import check_actions
from critiqor.diagnosis.claims.checks.adjustments import check_adjustments
from critiqor.diagnosis.claims.checks.completeness import check_completeness
from critiqor.diagnosis.claims.checks.confirmations import check_confirmations
from critiqor.diagnosis.claims.checks.failures import check_failures
from critiqor.diagnosis.claims.checks.figures import check_figures
from critiqor.diagnosis.claims.checks.paging import check_paging
from critiqor.diagnosis.claims.checks.recipients import check_recipients
from critiqor.diagnosis.claims.checks.sources import check_sources
from critiqor.diagnosis.claims.checks.staleness import check_staleness
from critiqor.diagnosis.claims.checks.targets import check_targets
from critiqor.diagnosis.claims.checks.weakening import check_weakening
from critiqor.diagnosis.claims.deeds.contacts import check_contacts
from critiqor.diagnosis.claims.deeds.domains import check_domains
from critiqor.diagnosis.claims.deeds.duplicates import check_duplicates
from critiqor.diagnosis.claims.deeds.unread import check_unread
from critiqor.diagnosis.claims.episode import Episode
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.recorded.quotations import check_quotations


def check_episode(episode: Episode) -> list[CheckedClaim]:
    """Return the claims of an episode that could be checked, in order; each place is judged once."""
    evidence = Evidence(episode)
    checks: tuple[Callable[[], list[CheckedClaim]], ...] = (
        lambda: check_weakening(episode),
        lambda: check_failures(episode),
        lambda: check_recipients(episode),
        lambda: check_targets(episode, evidence),
        lambda: check_adjustments(episode),
        lambda: check_figures(episode, evidence),
        lambda: check_sources(episode, evidence),
        lambda: check_quotations(episode, evidence),
        lambda: check_completeness(episode),
        lambda: check_staleness(episode),
        lambda: check_paging(episode),
        lambda: check_actions(episode, evidence),
        lambda: check_contacts(episode, evidence),
        lambda: check_domains(episode, evidence),
        lambda: check_duplicates(episode),
        lambda: check_unread(episode),
    )
    found = [claim for check in checks for claim in check()]
    claims: list[CheckedClaim] = []
    taken: dict[int, list[CheckedClaim]] = {}
    """The claims about each text, by its identity, in order."""
    # A place that is wrong for one reason is not right for another.
    for claim in sorted(found, key=lambda claim: claim.problem is None):
        others = taken.setdefault(id(claim.text), [])
        # They do not overlap, so only the last one that begins before the end can reach into it.
        place = bisect_left(others, claim.end, key=_start)
        if not place or others[place - 1].end <= claim.start:
            others.insert(bisect_left(others, claim.start, key=_start), claim)
            claims.append(claim)
    claims += _unopposed(check_confirmations(episode), claims)
    return sorted(claims, key=lambda claim: (claim.text.order, claim.start))


def _unopposed(confirmations: list[CheckedClaim], claims: list[CheckedClaim]) -> list[CheckedClaim]:
    """Return the confirmations of clauses in which nothing else is wrong and that no other check has judged.

    A clause may contain a value that is a claim of its own: all 14 tests pass.
    """
    known = [claim for claim in claims if claim.problem is not None or claim.kind != "value"]
    return [
        one
        for one in confirmations
        if not any(one.text is claim.text and one.start < claim.end and claim.start < one.end for claim in known)
    ]


_start = attrgetter("start")
