"""What words of a language tell about a sentence: good or bad news, plans, quotations, completeness, actions.

The words are data, one JSON file per language in `languages/`. They are the weakest evidence: they decide whether an
answer admits a failure, never whether something failed.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import cache, cached_property
from pathlib import Path

import msgspec

from critiqor.diagnosis.claims.vocabulary import Hit, Vocabulary

FOLDER = Path(__file__).parent / "languages"
_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_SCRIPTS = {
    "kana": re.compile(r"[\u3040-\u30ff]"),
    "hangul": re.compile(r"[\uac00-\ud7af]"),
    "han": re.compile(r"[\u4e00-\u9fff]"),
    "cyrillic": re.compile(r"[\u0400-\u04ff]"),
    "arabic": re.compile(r"[\u0600-\u06ff]"),
}
"""Scripts that identify a language, in the order in which they decide: Japanese also uses Han characters."""


_OTHER_SCRIPT = re.compile(r"[\u0400-\u06ff\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")


class LanguageData(msgspec.Struct, forbid_unknown_fields=True):
    """One language file."""

    name: str
    script: str | None
    letters: str
    """Letters besides a to z, for languages in Latin script."""
    function_words: list[str]
    negations: list[str]
    trouble: list[str]
    limits: list[str]
    reassuring: list[str]
    uncertain: list[str]
    future: list[str]
    attribution: list[str]
    totality: list[str]
    superlatives: list[str]
    formerly: list[str]
    persists: list[str]
    informed: list[str]
    contact: list[str]
    once: list[str]
    overcome: list[str]
    numbers: dict[str, float]
    scale: dict[str, float]
    months: dict[str, int]
    weekdays: dict[str, int]
    actions: dict[str, list[str]]
    subjects: dict[str, list[str]]
    conduct: dict[str, list[str]]
    """Words with which an agent announces work or asks for leave, and a user grants or limits it."""


_LISTS = (
    "negations",
    "trouble",
    "limits",
    "reassuring",
    "uncertain",
    "future",
    "attribution",
    "totality",
    "superlatives",
    "formerly",
    "persists",
    "informed",
    "contact",
    "once",
    "overcome",
)


class _LanguageHead(msgspec.Struct):
    """The part of a language file that is wanted of all languages."""

    name: str
    script: str | None
    letters: str
    function_words: list[str]
    numbers: dict[str, float]
    scale: dict[str, float]
    months: dict[str, int]
    weekdays: dict[str, int]


class _LanguageActions(msgspec.Struct):
    """The part of a language file with the verbs of actions."""

    actions: dict[str, list[str]]


class _LanguageConduct(msgspec.Struct):
    """The part of a language file with the lists of `conduct`."""

    conduct: dict[str, list[str]]


class Language:
    """A language and its words. Its file is read when they are first needed: a recording has few languages."""

    def __init__(self, path: Path) -> None:
        self.code = path.stem
        self._path = path
        head = msgspec.json.decode(path.read_bytes(), type=_LanguageHead)
        self.script = head.script
        """The script that identifies it; None if words do."""
        self.name = head.name
        self.letters = head.letters
        """Letters besides a to z, for languages in Latin script."""
        self.function_words = head.function_words
        self.numbers = head.numbers
        """Numbers in words."""
        self.scale = head.scale
        """Words behind a number that multiply it."""
        self.months = head.months
        self.weekdays = head.weekdays

    def read(self) -> LanguageData:
        """Return the language file. It is not kept: it is large, and of most languages little is wanted."""
        return msgspec.json.decode(self._path.read_bytes(), type=LanguageData)

    def read_actions(self) -> dict[str, list[str]]:
        """Return the verbs of each class of actions, as the file lists them."""
        return msgspec.json.decode(self._path.read_bytes(), type=_LanguageActions).actions

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The lists of the file: `negations`, …, and `actions.test`, `subjects.test`, … by class of action."""
        data = self.read()
        lists = {name: getattr(data, name) for name in _LISTS}
        for member in ("actions", "subjects"):
            lists |= {f"{member}.{name}": entries for name, entries in getattr(data, member).items()}
        return Vocabulary(lists)

    @cached_property
    def conduct(self) -> Vocabulary:
        """The lists of `conduct`. Few sentences are searched for them, so they are not among the others."""
        lists = msgspec.json.decode(self._path.read_bytes(), type=_LanguageConduct).conduct
        return Vocabulary(lists, has_open_phrases=True)


@cache
def languages() -> dict[str, Language]:
    """Return all languages by code."""
    return {path.stem: Language(path) for path in sorted(FOLDER.glob("*.json"))}


def normalize(text: str) -> str:
    """Return a text as the files are written: lower case, composed characters, plain apostrophes, same length."""
    lowered = text.lower()
    if lowered.isascii() and text.isascii():
        return lowered
    if len(lowered) != len(text):
        lowered = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    if not unicodedata.is_normalized("NFC", lowered):
        composed = unicodedata.normalize("NFC", lowered)
        lowered = composed if len(composed) == len(text) else lowered
    return lowered.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


_NUMERIC = "0123456789.,:;%+-"
MAX_SHORT = 12
"""Number of words from which a text without any function word is in no language that is known."""
MIN_VOTES = 2
"""Minimum number of function words that decide alone: several languages share some of them."""
MAX_SAMPLE = 2_000
"""Maximum number of characters that are examined to tell the language."""


def language_of(text: str) -> Language | None:
    """Return the language of a text; None if it is not one of those with a file."""
    known = languages()
    sample = text[:MAX_SAMPLE]
    if not sample.isascii() and _may_be_other_script(sample):
        letters = sum(map(str.isalpha, sample)) or 1
        for script, pattern in _SCRIPTS.items():
            # A name in another script is not another language.
            if len(pattern.findall(sample)) * 5 >= letters:
                return next((one for one in known.values() if one.script == script), None)
    votes = _function_words()
    counts: dict[str, int] = {}
    lowered = normalize(sample)
    # Splitting at spaces is much faster than a pattern.
    pieces = lowered.split()
    mixed = " ".join([piece for piece in pieces if not piece.isalnum() and piece.strip(_NUMERIC)])
    for word in (*filter(str.isalnum, pieces), *_WORD.findall(mixed)):
        for code in votes.get(word, ()):
            counts[code] = counts.get(code, 0) + 1
    if counts and max(counts.values()) >= MIN_VOTES:
        return known.get(_most_voted(counts))
    if len(_WORD.findall(lowered)) >= MAX_SHORT:
        return known.get(_most_voted(counts)) if counts else None
    return _language_of_report(lowered, counts, _foreign_letters(sample))


def _most_voted(votes: dict[str, int]) -> str:
    return max(votes, key=lambda code: (votes[code], code == "en", code in languages(), code))


def _foreign_letters(text: str) -> frozenset[str]:
    """Return the letters besides a to z in the first word of a text and in those that are no names."""
    if text.isascii():
        return frozenset()
    words = [word for word in _WORD.findall(text) if word.isalpha()]
    named = [word for number, word in enumerate(words) if number == 0 or word[0].islower()]
    return frozenset(letter for word in named for letter in word.lower() if not letter.isascii())


def _language_of_report(lowered: str, votes: dict[str, int], foreign: frozenset[str]) -> Language | None:
    """Return the language of a few words such as `Tests passed`: that in which most of them are words of a report.

    `foreign`: letters besides a to z that its words have.
    """
    known = {
        code: language
        for code, language in languages().items()
        if language.script is None and foreign <= {*language.letters}
    }
    if not known:
        return None
    hits = {code: language.vocabulary.scan(lowered) for code, language in known.items()}
    # A function word counts twice.
    scores = {code: 2 * votes.get(code, 0) + len({hit.start for hit in found}) for code, found in hits.items()}
    most = max(scores.values())
    best = [code for code, score in scores.items() if score == most]
    if not most:
        return languages()["en"] if lowered.isascii() else None
    if "en" in best:
        return known["en"]
    return known[max(best, key=lambda code: (_letters(lowered, hits[code]), code))]


def _letters(lowered: str, hits: list[Hit]) -> int:
    """Return how many letters of a text are in entries."""
    return len({place for hit in hits for place in range(hit.start, hit.end) if lowered[place].isalpha()})


_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalpha())


def _may_be_other_script(text: str) -> bool:
    """Return whether a fifth of the letters can be of another script. Most texts have a few such letters at most."""
    plain = text.encode("ascii", "ignore").translate(None, _NO_LETTERS)
    return len(_OTHER_SCRIPT.findall(text)) * 5 >= max(1, len(plain))


@cache
def _function_words() -> dict[str, tuple[str, ...]]:
    """Return the languages in which each function word is one, among them languages without a file."""
    votes: dict[str, tuple[str, ...]] = {}
    for code, language in languages().items():
        if language.script is None:
            for word in language.function_words:
                votes[word] = (*votes.get(word, ()), code)
    own = frozenset(votes)
    for code, words in tomllib.loads((FOLDER / "others.toml").read_text("utf-8")).items():
        for word in frozenset(words.split()) - own:
            votes[word] = (*votes.get(word, ()), code)
    return votes


@cache
def small_words() -> frozenset[str]:
    """Return the function words of every known language, such as `the` and `und`."""
    return frozenset(word for language in languages().values() for word in language.function_words)
