"""The agent says that it looked at something after a deed, and no call followed the deed."""

from __future__ import annotations

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.deeds.capabilities import can_have_done
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.disclosure import DEEDS
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.claims.language import small_words
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.results.command_results import plan_of
from critiqor.diagnosis.signals.text import stems, tokens
from critiqor.diagnosis.signals.tool_calls import words_of_tool

LOOKING = ("inspect", "reconcile")
MIN_WORD = 4
"""Minimum number of letters of a word that a clause and an output share."""
MIN_SHARED = 2
"""Minimum number of such words, so that the output of the deed itself can be what was looked at."""
_LOOKS = frozenset(("check", "verify", "compare", "validate", "test", "diff", "reconcile", "audit", "inspect"))


def check_followups(episode: Episode) -> list[CheckedClaim]:
    """Return the claim of a look after the last deed, if there is none."""
    answer = episode.answer
    if answer is None or episode.has_dropped:
        return []
    speech = episode.speech(answer)
    deed = _last_deed(episode) if speech.mentions("actions.inspect") else None
    if deed is None:
        return []
    for stance in speech.stances:
        if stance.is_question or stance.is_attributed or stance.is_uncertain:
            continue
        for clause in speech.clauses(stance):
            if _looks_after(speech, clause) and not _shows(deed, clause):
                reason = f"no call followed {deed.name}"
                return [unsupported(answer, clause, "follow-up", reason=reason, calls=(deed,))]
    return []


def _last_deed(episode: Episode) -> EpisodeCall | None:
    """Return the last call that changed something, if nothing but messages followed and it looks at nothing itself."""
    for call in reversed(episode.calls):
        if not call.has_effect or call.is_check or not words_of_tool(call.tool).isdisjoint(_LOOKS):
            return None
        if call.line:
            looks = any(program.kind == "lookup" and not program.filters for program in plan_of(call.line).programs)
            return None if looks or call.meaning.state == "failure" else call
        if not can_have_done(call, "send"):
            return None if call.meaning.state == "failure" else call
    return None


def _looks_after(speech: Speech, clause: Stance) -> bool:
    """Return whether a clause says that something was looked at after something else, and names no deed behind that."""
    language = speech.language
    if language is None or not clause.is_asserted or not any(speech.has(clause, f"actions.{name}") for name in LOOKING):
        return False
    after = language.conduct.find("after", clause.lowered)
    if not after:
        return False
    looked = [clause.lowered.rfind(word) for name in LOOKING for word in speech.words(clause, f"actions.{name}")]
    done = [clause.lowered.rfind(word) for name in DEEDS for word in speech.words(clause, f"actions.{name}")]
    # "After I had checked it, I sent it" names the deed last.
    return after[0].start < max(looked) and all(place < max(looked) for place in done)


def _shows(deed: EpisodeCall, clause: Stance) -> bool:
    said = stems({word for word in tokens(clause.lowered) if len(word) >= MIN_WORD} - small_words())
    return sum(map(deed.has_stem, said)) >= MIN_SHARED
