"""Sources that failed or were empty, and that the answer speaks of as if they had been read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.deeds.looks import brought_nothing
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.language import small_words
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.signals.text import tokens
from critiqor.spans.calls import Kind

MIN_WORD = 4
"""Minimum number of letters of a word that names a source."""
MAX_OWN = 800
"""Maximum number of characters of an answer about something that only the user's own data can tell."""
_OWN_DATA = re.compile(
    r"memory|note|file|read|mail|drive|calendar|doc|contact|notion|transcript|recording|record|pdf|sheet|crm|journal"
)
_GENERAL = re.compile(r"web|http|fetch|browse|browser|google|wiki|news|url")
_MINE = re.compile(
    r"\b(?:my|i|me|we|our|us|mein\w*|ich|mir|mich|wir|unser\w*|mon|ma|mes|je|nous|nos|notre|mi|mis|yo|nuestr\w+|meu|minha"
    r"|meus|minhas|nosso|mio|mia|miei|nostr\w+|mijn|ik|onze|mój|moja|moje|mnie|мой|моя|мои|меня|мне|нам|мы|benim|bana)\b"
    r"|我|俺|私|僕|제|내|우리|لي|عندي"
)


def check_unread(episode: Episode) -> list[CheckedClaim]:
    """Return the claims that rest on sources which were not read."""
    answer = episode.answer
    if answer is None or episode.has_dropped:
        return []
    speech = episode.speech(answer)
    looks = [call for call in episode.calls if not call.has_effect]
    if speech.language is None or not looks:
        return []
    for find in (_cited, _invented):
        claim = find(episode, answer, looks)
        if claim is not None:
            return [claim]
    return []


def _asserted(speech: Speech) -> Iterator[Stance]:
    for stance in speech.stances:
        if not (stance.is_question or stance.is_uncertain or stance.statement.cells):
            yield stance


def _is_read_later(call: EpisodeCall, looks: list[EpisodeCall]) -> bool:
    words = {word for word in tokens(call.arguments) if len(word) >= MIN_WORD and word not in ("https", "http")}
    later = [
        look for look in looks if look.order > call.order and look.meaning.state != "failure" and look.text.strip()
    ]
    return any(2 * len(words & tokens(look.arguments)) >= len(words) for look in later)


def _cited(episode: Episode, answer: EpisodeText, looks: list[EpisodeCall]) -> CheckedClaim | None:
    """Return the statement that cites a source which failed or was empty, in an answer that does not say so."""
    speech = episode.speech(answer)
    citing = [stance for stance in _asserted(speech) if stance.is_attributed or _FROM.search(stance.lowered)]
    if not citing or speech.admits():
        return None
    empty = [call for call in looks if brought_nothing(call) and not _is_read_later(call, looks)]
    if not empty:
        return None
    known = " ".join(_folded(call.text) for call in looks if call not in empty)
    for stance in citing:
        said = {_folded(word)[:MIN_STEM] for word in tokens(stance.lowered) if len(word) >= MIN_WORD}
        for call in empty:
            named = {_folded(word)[:MIN_STEM] for word in _names(call)}
            if any(word not in known for word in said & named):
                reason = f"{call.name} brought nothing"
                return unsupported(answer, stance, "source", reason=reason, calls=(call,), kind="quote")
    return None


_FROM = re.compile(
    r"\b(?:from|in) (?:the|your) (?:recording|transcript|document|file|page|article|report|minutes|policy)\b"
)
MIN_STEM = 5
"""Number of letters of a word that are compared."""


def _names(call: EpisodeCall) -> set[str]:
    """Return the words that name what a call was to read."""
    words = tokens(f"{call.tool.replace('_', ' ')} {call.arguments}")
    return {word for word in words if len(word) >= MIN_WORD} - small_words() - _GENERAL_WORDS


_GENERAL_WORDS = frozenset(
    ("search", "query", "read", "path", "file", "fetch", "https", "http", "example", "memory", "limit")
)


def _invented(episode: Episode, answer: EpisodeText, looks: list[EpisodeCall]) -> CheckedClaim | None:
    """Return the first statement of an answer about the user's own data, if every look at them brought nothing."""
    speech = episode.speech(answer)
    if len(answer.text) > MAX_OWN or speech.admits() or any(one.is_question for one in speech.stances):
        return None
    if any(call.has_effect for call in episode.calls) or not all(map(_reads_own_data, looks)):
        return None
    request = {word[:MIN_STEM] for word in tokens(episode.request) if len(word) >= MIN_WORD} - small_words()
    is_own = any(call.tool.startswith("memory") for call in looks)
    if is_own and not _MINE.search(episode.request.lower()):
        return None
    if not any(map(brought_nothing, looks)) or not all(_tells_nothing(call, request) for call in looks):
        return None
    for stance in _asserted(speech):
        said = {word[:MIN_STEM] for word in tokens(stance.lowered) if len(word) >= MIN_WORD} - small_words()
        if not stance.is_plan and len(said - request) >= MIN_NEW:
            return unsupported(answer, stance, "source", reason="every look brought nothing", calls=tuple(looks[-1:]))
    return None


MIN_NEW = 2
"""Minimum number of words of a statement that are not those of the request."""


def _reads_own_data(call: EpisodeCall) -> bool:
    if call.line or call.kind is not Kind.LOOKUP:
        return False
    return _OWN_DATA.search(call.tool.lower()) is not None and _GENERAL.search(call.tool.lower()) is None


def _tells_nothing(call: EpisodeCall, request: set[str]) -> bool:
    """Return whether a look brought nothing, or showed a whole memory without any word of the request."""
    if brought_nothing(call):
        return True
    lowered = call.text.lower()
    return call.tool.startswith("memory") and lowered.isascii() and not any(word in lowered for word in request)


def _folded(text: str) -> str:
    """Return a text in lower case without accents: file names often lack them."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFD", text.lower())
    return "".join(char for char in plain if not unicodedata.combining(char)).replace("ı", "i")
