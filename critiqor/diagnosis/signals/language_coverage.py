"""Whether an answer is in a language whose words are known: otherwise its claims and admissions cannot be read."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.language import Language, language_of, languages, normalize
from critiqor.model import DiagnosisCoverage
from critiqor.model.formatting import counted

MIN_WORDS = 20
"""Minimum number of words from which the language of an answer can be decided for certain."""
MIN_LETTERS = 80
"""The same in letters, for languages that are identified by their script."""
MIN_KNOWN = 0.09
"""Minimum share of words that are in the file of their language. In reports in these languages, it is hardly ever less
than 0.1; in related languages without a file, hardly ever more than 0.08."""
SURE_SHARE = 0.2
"""Share from which letters of other languages do not matter: they are in names."""
MAX_FOREIGN_LETTERS = 0.01
"""Maximum share of letters that the language does not have."""
MAX_SAMPLE = 2_000
"""Maximum number of characters of an answer that are examined."""
MAX_IN_FULL = 64
"""Number of answers of a recording that are all examined."""
SAMPLED_EVERY = 16
"""Of the answers after them, each of this many is examined."""
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|\S*[/\\_=@#{}<>|]\S*", re.DOTALL)
"""Code, paths, addresses and tables, which are in no language."""
_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_RUSSIAN = re.compile(r"[\u0410-\u044f\u0401\u0451]")
_UNSPACED = frozenset(("han", "kana", "hangul"))
"""Scripts that identify a language for certain; counting words says nothing more about it."""


def is_understood(text: str) -> bool:
    """Return whether an answer is in a language with a file, or too short to tell."""
    plain = _CODE.sub(" ", text[:MAX_SAMPLE])
    words = _WORD.findall(plain)
    is_short = len(words) < MIN_WORDS
    if is_short and (plain.isascii() or sum(map(len, words)) < MIN_LETTERS):
        return True
    language = language_of(plain)
    if language is None:
        return plain.isascii() and _known_share(plain, languages()["en"]) >= MIN_KNOWN
    if language.script == "cyrillic":
        letters = len(_CYRILLIC.findall(plain))
        return letters - len(_RUSSIAN.findall(plain)) <= MAX_FOREIGN_LETTERS * letters
    if is_short or language.script in _UNSPACED:
        return True
    share = _known_share(plain, language)
    return share >= SURE_SHARE or (share >= MIN_KNOWN and not _has_foreign_letters(plain, language))


def _has_foreign_letters(text: str, language: Language) -> bool:
    if text.isascii() or language.script is not None:
        return False
    letters = [letter for letter in normalize(text) if letter.isalpha()]
    foreign = sum(not letter.isascii() and letter not in language.letters for letter in letters)
    return foreign > MAX_FOREIGN_LETTERS * len(letters)


def _known_share(text: str, language: Language) -> float:
    """Return the share of words that are function words or words of reports."""
    lowered = normalize(text)
    small = _SMALL_WORDS.get(language.code)
    if small is None:
        small = _SMALL_WORDS[language.code] = frozenset(language.function_words)
    words = list(_WORD.finditer(lowered))
    known = sum(word[0] in small for word in words)
    if known < SURE_SHARE * len(words):
        hits = {place for hit in language.vocabulary.scan(lowered) for place in (hit.start, hit.end)}
        known = sum(word[0] in small or not hits.isdisjoint((word.start(), word.end())) for word in words)
    return known / (len(words) or 1)


_SMALL_WORDS: dict[str, frozenset[str]] = {}


class LanguageCoverage:
    """Counts the answers of a recording whose language is not understood."""

    def __init__(self) -> None:
        self._seen = 0
        self._answers = 0
        """Number of answers that were examined."""
        self._not_understood = 0

    def add_answer(self, text: str) -> None:
        """Examine an answer of an agent. In a long recording, a part of the answers is enough."""
        if text:
            self._seen += 1
            if self._seen <= MAX_IN_FULL or self._seen % SAMPLED_EVERY == 0:
                self._answers += 1
                self._not_understood += not is_understood(text)

    @property
    def coverage(self) -> DiagnosisCoverage:
        """What could be read of the answers so far."""
        notes = []
        if self._not_understood:
            answers = counted(self._answers, "answer") + (" that were examined" if self._seen > self._answers else "")
            are = "is" if self._not_understood == 1 else "are"
            known = ", ".join(language.name for language in languages().values())
            notes.append(
                f"{self._not_understood:,} of {answers} {are} in a language that is not understood, so what "
                f"{'it says' if self._not_understood == 1 else 'they say'} was hardly checked. Understood: {known}."
            )
        return DiagnosisCoverage(answers=self._answers, answers_not_understood=self._not_understood, notes=notes)
