"""The agent says that it wrote to, called, asked or informed somebody, and no call can have reached anybody."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.call_arguments import arguments_of
from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.checks.actions import is_content, wanted_deeds
from critiqor.diagnosis.claims.deeds.capabilities import can_have_done
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.language import normalize, small_words
from critiqor.diagnosis.claims.speech import Speech, Stance, has_speaker
from critiqor.diagnosis.signals.text import stems, tokens

REASON = "no call that could have reached anybody was recorded"
MAX_CLAUSE = 300
"""Maximum number of characters of a clause that is examined."""
MIN_WORD = 4
"""Minimum number of letters of a word that names somebody."""
_NEAR = 16
"""Number of characters around a word in which the person is looked for whom it is about."""
_YOU = re.compile(
    r"\b(?:you|your|dir|dich|euch|vous|usted|você|vocês|jij|jou|cię|wam|вам|вас|вы|тебе|тебя|sana|siz)\b|[你您]|고객님"
)
"""The user: `as you asked`, `I told you`."""
_YOU_DID = re.compile(r"\b(?:you|you've|du hast|usted|você|jij|вы|ты)(?: \w+)? $|[你您]\w?$")
"""The user did it. That something was sent to the user is a claim like any other."""
_AS = re.compile(r"\b(?:as|wie|comme|como|come|zoals|jak|как|som) (?:\w+ )?$")
"""As asked, as requested."""
_PRESENT = re.compile(
    r"\b(?:be|being|gets?|getting|is|are|es|son|é|são) (?:\w+ )?$|\b(?:if|when|wird|werden|wordt|worden|viene"
    r"|vengono)\b"
)
"""A passive of the present says how something works: the customer is notified by the shop."""
_STATE = re.compile(r"\baware\b|in the loop|op de hoogte|al corriente|al tanto|al corrente|\bciente|a par\b")
"""Somebody knows something now, so somebody has said it."""
_BY_ITSELF = re.compile(r"automat|автомат|otomatik|自动|自動|자동|تلقائي")
_MEDIUM = re.compile(
    r"\b(?:by|via|per|par|por|via|pela?|con|med|ile) (?:an? )?(?:e-?mail|mail|mejl|sms|slack|whatsapp|correo"
    r"|courriel|posta)"
    r"|e-posta ile|по (?:электронной )?почте|邮件|郵件|短信|メールで|이메일로|메일로|بالبريد|عبر البريد"
)
"""A way on which something reaches somebody."""
_CHANNEL = re.compile(r"(?<!\w)[#@](?!\w*\d)[^\W\d][\w-]{2,}")


def check_contacts(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the claims of contacts for which there is no call."""
    if not episode.calls or episode.has_dropped:
        return []
    claims = []
    for text in (*episode.messages[-1:], *episode.outgoing):
        said = _claimed(episode, evidence, text)
        # The calls are looked at last: most texts speak of no contact.
        calls = [call for call in evidence.calls if call is not text.call] if said else []
        if said and not any(can_have_done(call, "send") for call in calls):
            effects = [call for call in calls if call.has_effect]
            claims += [
                unsupported(text, clause, "contact", reason=REASON, kind="action")
                for clause in said
                if _MEDIUM.search(clause.lowered)
                or episode.speech(text).is_own(clause)
                or not any(_names_same(call, clause) for call in effects)
            ]
    return claims


def _claimed(episode: Episode, evidence: Evidence, text: EpisodeText) -> list[Stance]:
    """Return the clauses of a text that say that somebody else than the user was contacted."""
    speech = episode.speech(text)
    language = speech.language
    if language is None:
        return []
    if not (any(map(speech.mentions, ("contact", "actions.send", "informed"))) or _MEDIUM.search(speech.lowered)):
        return []
    is_asked = "send" in wanted_deeds(episode.request, language)
    return [
        clause
        for stance in speech.stances
        if not (stance.is_question or stance.is_attributed or stance.is_uncertain or stance.statement.cells)
        for clause in speech.clauses(stance)
        if _is_claim(episode, evidence, text, clause, is_asked=is_asked)
    ]


def _is_claim(episode: Episode, evidence: Evidence, text: EpisodeText, clause: Stance, *, is_asked: bool) -> bool:
    if not clause.is_good_news or clause.is_uncertain or len(clause.lowered) > MAX_CLAUSE:
        return False
    speech = episode.speech(text)
    sent = _sent(speech, clause, is_asked=is_asked)
    # A text that is written for the user may speak of what the user did.
    contacted = speech.words(clause, "contact") if text.call is None else []
    contacted = [word for word in contacted if _is_about_others(clause.lowered, word)]
    is_own = speech.is_own(clause)
    if is_own and text.call is None and (medium := _MEDIUM.search(clause.lowered)):
        contacted.append(medium[0])
    words = [word for word in (*sent, *contacted) if not _is_given(episode, word) and not is_content(word, evidence)]
    if not words or _BY_ITSELF.search(clause.lowered):
        return False
    if is_asked or is_own:
        return True
    if all(_PRESENT.search(clause.lowered, 0, clause.lowered.find(word)) for word in words):
        return _STATE.search(clause.lowered) is not None
    # Without any deed of the agent, an answer often tells what others did.
    return any(call.has_effect for call in episode.calls)


def _sent(speech: Speech, clause: Stance, *, is_asked: bool) -> list[str]:
    """Return the words with which a clause says that something was sent, or has arrived."""
    is_clear = is_asked or _MEDIUM.search(clause.lowered) is not None
    found = speech.words(clause, "informed") if is_clear else []
    if is_clear or speech.has(clause, "subjects.send") or _CHANNEL.search(clause.lowered):
        found += speech.words(clause, "actions.send")
    return [word for word in found if not _YOU_DID.search(_before(clause.lowered, word))]


def _is_given(episode: Episode, word: str) -> bool:
    """Return whether the user has done it, as the request says: I have told Anna already."""
    language = episode.request_language
    request = normalize(episode.request)
    if language is None or word not in request:
        return False
    return any(word in part and has_speaker(language, part) for part in _END.split(request))


_END = re.compile(r"[.!?。！？\n]")


def _before(lowered: str, word: str) -> str:
    at = lowered.find(word)
    return lowered[max(0, at - _NEAR) : at]


def _is_about_others(lowered: str, word: str) -> bool:
    before, end = _before(lowered, word), lowered.find(word) + len(word)
    return not (_YOU.search(before) or _YOU.search(lowered[end : end + _NEAR]) or _AS.search(before))


def _names_same(call: EpisodeCall, clause: Stance) -> bool:
    """Return whether a deed names whom a clause is about: an order or a ticket informs those that it names."""
    said = stems({word for word in tokens(clause.lowered) if len(word) >= MIN_WORD} - small_words())
    values = " ".join(value for _, value in arguments_of(call))
    return bool(said & stems({word for word in tokens(values) if len(word) >= MIN_WORD}))
