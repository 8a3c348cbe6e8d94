"""What sentences say about work: it is announced, asked for, allowed or refused. The words are data, by language."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.episode import Episode
from critiqor.diagnosis.claims.language import Language, languages, normalize, small_words
from critiqor.diagnosis.signals.text import stems, tokens

MAX_REQUEST = 6_000
"""Maximum number of characters of a request that are examined."""


def says(language: Language | None, name: str, text: str) -> bool:
    """Return whether a text contains an entry of a list of `conduct`."""
    return language is not None and language.conduct.mentions(name, normalize(text))


def requests(episode: Episode) -> str:
    """Return the wording of the requests in an episode, as far as it is examined."""
    return episode.request[:MAX_REQUEST]


def wording_language(episode: Episode) -> Language | None:
    """Return the language of the wording of a request; of one that is too short to say, that of the answer."""
    return episode.request_language or episode.language


def asks(episode: Episode, name: str) -> bool:
    """Return whether the request of an episode contains an entry of a list of `conduct`."""
    return says_somehow(wording_language(episode), name, requests(episode))


def says_somehow(language: Language | None, name: str, text: str) -> bool:
    """Return whether a text contains an entry of a list of `conduct`: of all languages if its own is not certain."""
    if language is not None and not (language.code == "en" and small_words().isdisjoint(text.lower().split())):
        return says(language, name, text)
    # The lists of languages in other scripts have no entry that a plain text can contain.
    known = [one for one in languages().values() if one.script is None or not text.isascii()]
    lowered = normalize(text)
    return any(one.conduct.mentions(name, lowered) for one in known)


_UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]{2,}")
"""Characters of languages that do not separate words."""
MIN_WORD = 3
"""Minimum number of characters of a word that carries meaning."""


def content_stems(text: str) -> set[str]:
    """Return by what the wording of two texts is compared: the beginnings of words that carry meaning.

    Of languages that do not separate words, these are pairs of characters.
    """
    pairs = {run[at : at + 2] for run in _UNSPACED.findall(text) for at in range(len(run) - 1)}
    known = {word for word in tokens(text) if len(word) >= MIN_WORD and not _UNSPACED.search(word)}
    return stems(known - small_words()) | pairs
