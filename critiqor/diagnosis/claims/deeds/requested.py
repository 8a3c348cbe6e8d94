"""A deed that the user asked for is reported as done, and none of the calls can have done it."""

from __future__ import annotations

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.checks.actions import is_content, wanted_deeds
from critiqor.diagnosis.claims.deeds.capabilities import can_have_done
from critiqor.diagnosis.claims.deeds.items import done_clauses, may_do_anything
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.episode import Episode
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.speech import Speech, Stance


def check_requested(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the claims of requested deeds that no call can have done."""
    answer = episode.answer
    effects = [call for call in evidence.calls if call.has_effect]
    if answer is None or not episode.requests or not effects or episode.has_dropped:
        return []
    speech = episode.speech(answer)
    language = speech.language
    if language is None or any(map(may_do_anything, effects)):
        return []
    wanted = wanted_deeds(episode.requests[-1].text, language) - {"send"}  # `contacts` judges what was sent
    claims = []
    for clause in done_clauses(speech) if wanted else ():
        for name in sorted(wanted):
            if _asserts(speech, clause, name, evidence) and not any(
                can_have_done(call, name) for call in evidence.calls
            ):
                claims.append(unsupported(answer, clause, name, kind="action"))
                wanted = wanted - {name}
                break
    return claims


def _asserts(speech: Speech, clause: Stance, name: str, evidence: Evidence) -> bool:
    words = speech.words(clause, f"actions.{name}")
    return bool(words) and not all(is_content(word, evidence) for word in words)
