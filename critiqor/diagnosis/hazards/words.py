"""Words that decide what a user or a text asks for, in many languages; they are data in `words/`."""

from __future__ import annotations

import re
from functools import cache, cached_property, lru_cache
from pathlib import Path

import msgspec

from critiqor.diagnosis.claims.language import normalize
from critiqor.diagnosis.hazards.hidden_text import MIN_PERCENT, may_hide

FOLDER = Path(__file__).parent / "words"
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_RUN = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_LATIN = re.compile(r"[^A-Za-z]+")
MAX_KNOWN = 20_000
"""Maximum number of words whose concepts are remembered."""

MAX_LINES, MAX_LINE = 1_000, 120
"""Maximum number of lines whose concepts are remembered, and of their characters."""

_ENGLISH = frozenset(
    (
        *("the", "a", "an", "is", "are", "was", "to", "of", "and", "my", "our", "in", "for", "please", "it", "its"),
        *("this", "that", "you", "me", "with", "on", "what", "how", "do", "can", "i", "we", "from"),
    )
)
MIN_ENGLISH = 2
"""Minimum number of small English words of an English text."""


@lru_cache(maxsize=256)
def _is_english(text: str) -> bool:
    """Return whether a text is plainly English, so that stems of other languages would only mislead."""
    if not text.isascii():
        foreign = sum(map(str.isalpha, "".join(_FOREIGN.findall(text))))
        if foreign * 20 > (foreign + len(_LATIN.sub("", text)) or 1):
            return False
    found = _WORD.findall(text.lower())
    small = sum(word in _ENGLISH for word in found)
    return small >= MIN_ENGLISH and small * 10 >= len(found)


class Words:
    """The words of one concept in all languages, as one set: a text and its quotations can differ in language.

    In a text that is plainly English, only the English words count if `english` has them.
    """

    def __init__(self, entries: list[str], bit: int, english: Words | None = None) -> None:
        self._english = english
        self._bit = bit
        self._entries = entries

    @cached_property
    def _lists(self) -> _Lists:
        return _Lists(self._entries)

    def find(self, text: str) -> list[tuple[int, int]]:
        """Return where words of the concept are in a text, in order."""
        if not self.may_be_within(text):
            return []
        if self._english is not None and _is_english(text):
            return self._english.find(text)
        lists = self._lists
        lowered = lists.read(text)
        found = [match.span() for match in _WORD.finditer(lowered) if lists.has(match[0])]
        pattern = lists.phrases_in(lowered)
        if pattern is not None:
            found += [match.span() for match in pattern.finditer(lowered)]
        return sorted(found)

    def within(self, text: str) -> bool:
        """Return whether a word of the concept is in a text."""
        return self.may_be_within(text) and _is_within(self, text)

    def has_entry_in(self, text: str) -> bool:
        """Return whether a word of the concept is in a text that may have one."""
        if self._english is not None and _is_english(text):
            return self._english.within(text)
        lists = self._lists
        lowered = lists.read(text)
        if any(map(lists.has, set(_WORD.findall(lowered)))):
            return True
        pattern = lists.phrases_in(lowered)
        return pattern is not None and pattern.search(lowered) is not None

    def may_be_within(self, text: str) -> bool:
        """Return quickly whether words of the concept may be in a text; if not, none is in any part of it."""
        return bool(_marks(text) & self._bit)


@lru_cache(maxsize=64)
def _is_within(concept: Words, text: str) -> bool:
    """Return whether a word of a concept is in a text: what the user wrote is asked for each call of an episode."""
    return concept.has_entry_in(text)


class _Lists:
    """The entries of a concept by their kind: words, beginnings of words, phrases and exceptions."""

    def __init__(self, entries: list[str]) -> None:
        self._words: set[str] = set()
        self._beginnings: dict[int, set[str]] = {}
        self._known: dict[str, bool] = {}
        self._phrases: list[tuple[str, str]] = []
        """Each with a text that it contains, and its pattern."""
        excluded = [re.escape(entry[1:]) for entry in entries if entry.startswith("-")]
        self._excluded = re.compile(rf"\b(?:{'|'.join(excluded)})\b") if excluded else None
        for entry in entries:
            if entry.startswith("-"):
                continue
            bare = entry.strip("*")
            is_part = entry.startswith("*") or _UNSPACED.search(bare) is not None
            if not is_part and _WORD.fullmatch(bare):
                if entry.endswith("*"):
                    self._beginnings.setdefault(len(bare), set()).add(bare)
                else:
                    self._words.add(bare)
                continue
            escaped = re.escape(bare).replace(r"\ ", r"\s+")
            start = "" if is_part else r"(?<![^\W_])"
            end = "" if is_part or entry.endswith("*") else r"(?![^\W_])"
            self._phrases.append((max(bare.split(), key=len), f"{start}{escaped}{end}"))

    def read(self, text: str) -> str:
        """Return a text as the entries are written, without the exceptions."""
        lowered = normalize(text)
        return self._excluded.sub(lambda match: " " * len(match[0]), lowered) if self._excluded else lowered

    def has(self, word: str) -> bool:
        """Return whether a word is one of the entries."""
        known = self._known.get(word)
        if known is None:
            known = self._has(word)
            if len(self._known) < MAX_KNOWN:
                self._known[word] = known
        return known

    def _has(self, word: str) -> bool:
        if word in self._words or any(word[:size] in stems for size, stems in self._beginnings.items()):
            return True
        # Compounds such as `force-push` and `ai-agents`, and elisions such as `n'envoie`, are judged by their parts.
        mark = "-" if "-" in word else "'" if "'" in word else ""
        return bool(mark) and any(map(self.has, word.split(mark)))

    def phrases_in(self, text: str) -> re.Pattern[str] | None:
        """Return a pattern of the phrases that can be in a text, if any. Compiling all phrases would take long."""
        patterns = [pattern for part, pattern in self._phrases if part in text]
        return _compiled("|".join(patterns)) if patterns else None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


class _Index:
    """Which concepts can be in a text: one look at each of its words tells it for all concepts."""

    def __init__(self, concepts: dict[str, list[str]]) -> None:
        self.bits = {concept: 1 << number for number, concept in enumerate(concepts)}
        self.hidden = 1 << len(concepts)
        """The mark of a piece that can hide something."""
        self._words: dict[str, int] = {}
        self._beginnings: dict[int, dict[str, int]] = {}
        self._parts: dict[str, list[tuple[str, int]]] = {}
        """Parts of words, by their first character."""
        self._known: dict[str, int] = {}
        self._plain: set[str] = set()
        """Pieces without any mark: most pieces of a text are among them, and are left out at once."""
        self._lines: dict[str, int] = {}
        for concept, entries in concepts.items():
            for entry in entries:
                if not entry.startswith("-"):
                    self._add(entry, self.bits[concept])

    def _add(self, entry: str, bit: int) -> None:
        if entry.isascii() and entry.isalnum():
            self._words[entry] = self._words.get(entry, 0) | bit
            return
        bare = entry.strip("*")
        if entry.startswith("*") or _UNSPACED.search(bare) is not None:
            part = bare.split()[0]
            self._parts.setdefault(part[0], []).append((part, bit))
            return
        # All words of a phrase are in a text that contains it; the longest one is the rarest.
        runs = _RUN.findall(bare)
        whole = runs[:-1] if entry.endswith("*") else runs
        if whole:
            run = max(whole, key=len)
            self._words[run] = self._words.get(run, 0) | bit
        else:
            stems = self._beginnings.setdefault(len(runs[0]), {})
            stems[runs[0]] = stems.get(runs[0], 0) | bit

    def marks(self, text: str) -> int:
        """Return the concepts that can be in a text, as bits."""
        found = 0
        # Files are read again, and checks are run again: of many lines it is known what they contain.
        for line in text.split("\n"):
            mark = self._lines.get(line)
            found |= self._marks_of_line(line) if mark is None else mark
        return found

    def _marks_of_line(self, line: str) -> int:
        known = self._known
        found = 0
        for piece in set(line.split()) - self._plain:
            mark = known.get(piece)
            found |= self._mark(piece) if mark is None else mark
        if len(line) <= MAX_LINE:
            if len(self._lines) >= MAX_LINES:
                self._lines.clear()
            self._lines[line] = found
        return found

    def _mark(self, piece: str) -> int:
        lowered = normalize(piece)
        mark = self.hidden if may_hide(lowered) else 0
        for run in _RUN.findall(lowered):
            mark |= self._words.get(run, 0)
            for size, stems in self._beginnings.items():
                mark |= stems.get(run[:size], 0)
        for char in set(lowered):
            for part, bit in self._parts.get(char, ()):
                if part in lowered:
                    mark |= bit
        if len(self._known) + len(self._plain) < MAX_KNOWN:
            if mark:
                self._known[piece] = mark
            else:
                self._plain.add(piece)
        return mark


@lru_cache(maxsize=256)
def _marks(text: str) -> int:
    return _index().marks(text)


def may_be_hidden_in(text: str) -> bool:
    """Return quickly, without any list of words, whether a text may have encoded or invisible parts; most have none."""
    return text.count("%") >= MIN_PERCENT or bool(_marks(text) & _index().hidden)


@cache
def _index() -> _Index:
    concepts: dict[str, list[str]] = {}
    for path in sorted(FOLDER.glob("*.toml")):
        for concept, languages in read_words(path).items():
            concepts.setdefault(concept, [entry for entries in languages.values() for entry in entries])
    return _Index(concepts)


@cache
def words(concept: str) -> Words:
    """Return the words of a concept, such as `delete`."""
    for path in sorted(FOLDER.glob("*.toml")):
        languages = read_words(path).get(concept)
        if languages is not None:
            # Instructions hide in texts of other languages; what a user writes is one language at a time.
            bit = _index().bits[concept]
            english = None if path.stem == "instructions" else Words(languages["en"], bit)
            return Words([entry for entries in languages.values() for entry in entries], bit, english)
    raise KeyError(concept)


_SECTION = re.compile(r"\[(\w+)\]")
_LINE = re.compile(r"(\w+) = (\[.*\])")


@cache
def read_words(path: Path) -> dict[str, dict[str, list[str]]]:
    """Return a file with words of hazards: TOML with one list of texts per line, read as JSON, which is faster."""
    concepts: dict[str, dict[str, list[str]]] = {}
    decode = msgspec.json.Decoder(list[str]).decode
    languages: dict[str, list[str]] = {}
    for line in path.read_text("utf-8").splitlines():
        if match := _LINE.fullmatch(line):
            languages[match[1]] = decode(match[2])
        elif match := _SECTION.match(line):
            languages = concepts[match[1]] = {}
    return concepts
