"""How an agent says something: as a fact, a plan, a question, a guess or a quotation, and as good or bad news."""

from __future__ import annotations

import re
from bisect import bisect_left
from copy import copy
from functools import cache
from typing import NamedTuple

import msgspec

from critiqor.diagnosis.claims.language import Language, normalize
from critiqor.diagnosis.claims.outcomes.troubled_rows import ERROR_VALUE
from critiqor.diagnosis.claims.sentences import MAX_CHARACTERS, Statement, statements
from critiqor.diagnosis.claims.values import Value, values_in
from critiqor.diagnosis.claims.vocabulary import Hit, Vocabulary
from critiqor.diagnosis.signals.text import tokens

_BAD_MARKS = re.compile(r"[❌✗✘⚠🔴🚫⛔🟡⏳]")
_GOOD_MARKS = re.compile(r"[✅✓✔☑🟢🎉]")
_QUESTION = re.compile(r"[?？؟]\s*[\"'”»)*_]*\s*$")
_MAY_ASK = re.compile(r"[?？؟]")
_UNTICKED = re.compile(r"\s*\[ \]")
"""An item of a list that is still to be done."""
_WORDS_BETWEEN = re.compile(r"[^\W_]+")
_REGRET = frozenset(
    (
        *("unfortunately", "sadly", "regrettably", "sorry", "leider", "bedauerlicherweise", "malheureusement", "hélas"),
        *("lamentablemente", "desafortunadamente", "infelizmente", "purtroppo", "helaas", "niestety", "maalesef"),
        *("tyvärr", "dessvärre"),
        *("к сожалению", "увы", "遗憾", "可惜", "抱歉", "残念", "申し訳", "죄송", "아쉽", "للأسف"),
    )
)
"""Words of trouble that no negation takes back: unfortunately nothing was found."""
_MONTH = "May"
"""The month, which in lower case is a word of doubt."""
MAX_WORDS_BETWEEN = 2
"""Maximum number of words between a negation and the trouble that it denies: no further errors."""


_NEGATES_AFTER = frozenset(("de", "nl", "ja", "ko", "tr", "zh"))
"""Languages in which a negation can follow what it denies: Fehler gab es keine."""


MIN_TOPIC = 6
"""Minimum number of letters of a word that names what a request is about."""
_MODALS = frozenset(
    (
        *("should", "please", "könnte", "könntest", "sollte", "sollten", "würden", "möchte", "devrait", "pourrait"),
        *("voudrais", "podría", "podrías", "debería", "poderia", "deveria", "gostaria", "potrebbe", "dovrebbe"),
        *("kunnen", "moeten", "zouden", "skulle", "behöver", "unless", "whether", "before", "pending", "cannot"),
    )
)
"""Words that say how something is meant, also if a request contains them."""


class Stance(msgspec.Struct, frozen=True, gc=False):
    """A statement and how it is meant."""

    statement: Statement
    lowered: str
    marks: int
    """The lists of the language file whose words it contains, as bits."""
    is_bad_news: bool
    """It says that something failed, is missing or was not done."""
    is_limited: bool
    """It says that something is only partly so, still open, or different from what was asked."""
    is_uncertain: bool
    """It says that something is a guess, or was not verified."""
    is_plan: bool
    is_question: bool
    is_attributed: bool
    """It reports what somebody else says."""

    @property
    def is_asserted(self) -> bool:
        """Whether the agent states it as a fact."""
        return not (self.is_plan or self.is_question or self.is_attributed)

    @property
    def is_good_news(self) -> bool:
        """Whether the agent states something as a fact, and nothing bad about it."""
        return self.is_asserted and not self.is_bad_news


class _Bits(NamedTuple):
    """The bits of the lists that decide how a statement is meant."""

    negations: int
    trouble: int
    reassuring: int
    limits: int
    uncertain: int
    future: int
    attribution: int


@cache
def _bits(words: Vocabulary) -> _Bits:
    return _Bits(*map(words.bit, _Bits._fields))


class Speech:
    """A text of the agent with its language, its statements and its values."""

    def __init__(self, text: str, language: Language | None, topics: frozenset[str] = frozenset()) -> None:
        self.text = text[:MAX_CHARACTERS]
        self.language = language
        self._lowered = normalize(self.text)
        self._hits: list[Hit] = self.language.vocabulary.scan(self._lowered) if self.language is not None else []
        if language is not None and "#" in text:
            # Error values of cells are trouble in every language: "H14 still shows #REF!", "no #REF! is left".
            bit = language.vocabulary.bit("trouble")
            found = [Hit(one.start(), one.end(), bit) for one in ERROR_VALUE.finditer(self._lowered)]
            self._hits = sorted((*self._hits, *found)) if found else self._hits
        if _MONTH in self.text:
            self._hits = [hit for hit in self._hits if not self.text.startswith(_MONTH, hit.start)]
        if "next to " in self._lowered:
            self._hits = [hit for hit in self._hits if not self._lowered.startswith("next to ", hit.start)]
        if topics and language is not None:
            bits = _bits(language.vocabulary)
            lists = bits.limits | bits.future | bits.uncertain
            self._hits = [self._without_topic(hit, topics, lists) if hit.mark & lists else hit for hit in self._hits]
        self._places = [hit.start for hit in self._hits]
        self._values: list[Value] | None = None
        self._starts: list[int] = []
        """The places of the values."""
        self._may_ask = _MAY_ASK.search(self.text) is not None
        self._clauses: dict[tuple[int, int, bool], list[Stance]] = {}
        """The parts of each statement, by its place."""
        self._tokens: dict[tuple[int, int], set[str]] = {}
        """The words of statements and of their parts, by their places."""
        self._text_is_ascii = self.text.isascii()
        self._may_mark = not self._text_is_ascii and _BAD_MARKS.search(self.text) is not None
        self._may_tick = not self._text_is_ascii and _GOOD_MARKS.search(self.text) is not None
        self.stances = [self._stance(statement) for statement in statements(self.text)]

    def _without_topic(self, hit: Hit, topics: frozenset[str], lists: int) -> Hit:
        """Return a hit without these lists, if it is in them only because it is what the request is about.

        Staging is no limit if the user asked for it, and a proposal that is to be sent is no plan.
        """
        named = [word for word in _WORDS_BETWEEN.findall(self._lowered[hit.start : hit.end]) if len(word) >= MIN_TOPIC]
        is_topic = bool(named) and all(word in topics and word not in _MODALS for word in named)
        return Hit(hit.start, hit.end, hit.mark & ~lists) if is_topic else hit

    def without(self, stances: list[Stance]) -> Speech:
        """Return this text as if it did not have some of its statements."""
        other = copy(self)
        other.stances = [stance for stance in self.stances if stance not in stances]
        return other

    @property
    def lowered(self) -> str:
        """The text in lower case, of the same length."""
        return self._lowered

    def _between(self, start: int, end: int) -> list[Hit]:
        first, last = bisect_left(self._places, start), bisect_left(self._places, end)
        return [hit for hit in self._hits[first:last] if hit.end <= end]

    def _stance(self, statement: Statement) -> Stance:
        start, end = statement.start, statement.end
        lowered = self._lowered[start:end]
        is_question = self._may_ask and _QUESTION.search(lowered) is not None
        marked = self._may_mark and _BAD_MARKS.search(lowered) is not None
        if self.language is None:
            return Stance(statement, lowered, 0, marked, False, False, False, is_question, statement.is_quoted)
        hits = self._between(start, end)
        marks = 0
        for hit in hits:
            marks |= hit.mark
        if not marks:
            return Stance(statement, lowered, 0, marked, False, False, False, is_question, statement.is_quoted)
        bits = _bits(self.language.vocabulary)
        return Stance(
            statement=statement,
            lowered=lowered,
            marks=marks,
            is_bad_news=marked or (not self._is_ticked(lowered) and self._is_bad_news(hits, marks, bits)),
            is_limited=bool(marks & bits.limits),
            is_uncertain=bool(marks & bits.uncertain),
            is_plan=bool(marks & bits.future) or _UNTICKED.match(lowered) is not None,
            is_question=is_question,
            is_attributed=statement.is_quoted or bool(marks & bits.attribution),
        )

    def _is_ticked(self, lowered: str) -> bool:
        """Return whether a statement is marked as good: a row `Errors: 0.31% ✅` names errors and admits none."""
        return self._may_tick and _GOOD_MARKS.search(lowered) is not None

    def _is_bad_news(self, hits: list[Hit], marks: int, bits: _Bits) -> bool:
        negative, trouble = bits.negations, bits.trouble
        if not marks & (negative | trouble):
            return False
        calming = [hit for hit in hits if hit.mark & bits.reassuring] if marks & bits.reassuring else []
        left = [
            hit for hit in hits if hit.mark & (negative | trouble) and not any(_covers(one, hit) for one in calming)
        ]
        negations = [hit for hit in left if hit.mark & negative]
        troubles = [hit for hit in left if hit.mark & trouble]
        if troubles and not negations:
            return True
        denied = [
            one
            for one in troubles
            if any(self._denies(negation, one) for negation in negations)
            and self._lowered[one.start : one.end] not in _REGRET
        ]
        if len(denied) < len(troubles):
            return True
        used = [one for one in negations if any(self._denies(one, problem) for problem in denied)]
        return len(negations) > len(used)

    def troubles(self, stance: Stance) -> list[str]:
        """Return the words of trouble in a statement that nothing denies."""
        negations, troubles = self._negations_and_troubles(stance)
        return [
            self._lowered[one.start : one.end]
            for one in troubles
            if not any(self._denies(negation, one) for negation in negations)
        ]

    def only_denies_trouble(self, stance: Stance) -> bool:
        """Return whether each negation in a statement denies trouble: without warnings."""
        negations, troubles = self._negations_and_troubles(stance)
        return all(any(self._denies(negation, one) for one in troubles) for negation in negations)

    def _negations_and_troubles(self, stance: Stance) -> tuple[list[Hit], list[Hit]]:
        if self.language is None:
            return [], []
        bits = _bits(self.language.vocabulary)
        hits = self._between(stance.statement.start, stance.statement.end)
        return [hit for hit in hits if hit.mark & bits.negations], [hit for hit in hits if hit.mark & bits.trouble]

    def _denies(self, negation: Hit, trouble: Hit) -> bool:
        """Return whether a negation denies trouble: `no errors`, or after the noun in languages that do so."""
        if _covers(negation, trouble) or _covers(trouble, negation):
            return False  # one word that is both, such as `couldn't`, or a phrase: `does not exist`
        if trouble < negation and not self.negates_after:
            return False
        first, second = sorted((negation, trouble))
        between = self._lowered[first.end : second.start]
        if any(mark in between for mark in ",;:.!?()，。（）"):
            return False
        return len(_WORDS_BETWEEN.findall(between)) <= MAX_WORDS_BETWEEN

    @property
    def negates_after(self) -> bool:
        """Whether a negation can follow what it denies; if the language is not known, it may."""
        return self.language is None or self.language.code in _NEGATES_AFTER

    def clauses(self, stance: Stance) -> list[Stance]:
        """Return the parts of a statement with how each is meant: `I did this, so if you want, …` asserts the first."""
        statement = stance.statement
        place = statement.start, statement.end, statement.is_quoted
        clauses = self._clauses.get(place)
        if clauses is None:
            clauses = self._clauses[place] = self._parts(statement)
        return clauses

    def _parts(self, statement: Statement) -> list[Stance]:
        clauses = []
        is_plan = False
        text, first = statement.text, 0
        ends = [*(found.span() for found in _BETWEEN_CLAUSES.finditer(text)), (len(text), len(text))]
        for last, following in ends:
            part, begin = text[first:last], first
            first = following
            if part.strip():
                start, end = statement.start + begin, statement.start + last
                clause = self._stance(Statement(start, end, part, is_quoted=statement.is_quoted))
                # What follows a condition or a plan belongs to it: "it must pass, and the result is posted". What the
                # agent says that it has done does not: "you'll get a reminder, and I've texted Tom".
                is_plan = clause.is_plan or (is_plan and not self._is_done(clause))
                clauses.append(msgspec.structs.replace(clause, is_plan=True) if is_plan else clause)
        return clauses

    def _is_done(self, clause: Stance) -> bool:
        """Return whether a clause says that something has been done."""
        if self.language is None or not clause.marks:
            return False
        return self.language.conduct.mentions("perfect", clause.lowered)

    def is_own(self, clause: Stance) -> bool:
        """Return whether a clause speaks of its speaker."""
        return self.language is not None and has_speaker(self.language, clause.lowered)

    def as_in_clause(self, stance: Stance, place: int) -> Stance:
        """Return a statement that is a plan or a guess only if its clause at a place of the text is one.

        In "It is 20 degrees now, so you can come in", the first clause is a fact.
        """
        if not (stance.is_plan or stance.is_uncertain):
            return stance
        around = (one for one in self.clauses(stance) if one.statement.start <= place < one.statement.end)
        clause = next(around, stance)
        return msgspec.structs.replace(stance, is_plan=clause.is_plan, is_uncertain=clause.is_uncertain)

    def part(self, stance: Stance, length: int) -> Stance:
        """Return the beginning of a statement with how it is meant."""
        return self.between(stance, 0, length)

    def between(self, stance: Stance, start: int, end: int) -> Stance:
        """Return a part of a statement, by its places in it, with how it is meant."""
        begin = stance.statement.start
        return self._stance(Statement(begin + start, begin + end, stance.statement.text[start:end]))

    def words(self, stance: Stance, name: str) -> list[str]:
        """Return the words of a statement that are entries of a list of the language file."""
        return [self._lowered[hit.start : hit.end] for hit in self._hits_of(stance, name)]

    def tokens_of(self, stance: Stance) -> set[str]:
        """Return the words of a statement as `tokens` does: each failed call is compared with all statements."""
        place = stance.statement.start, stance.statement.end
        words = self._tokens.get(place)
        if words is None:
            words = self._tokens[place] = tokens(stance.lowered)
        return words

    def _hits_of(self, stance: Stance, name: str) -> list[Hit]:
        bit = self.language.vocabulary.bit(name) if self.language is not None else 0
        if not stance.marks & bit:
            return []
        return [hit for hit in self._between(stance.statement.start, stance.statement.end) if hit.mark & bit]

    def places(self, stance: Stance, name: str) -> list[tuple[int, int]]:
        """Return where a statement contains entries of a list of the language file: start and end in the text."""
        return [(hit.start, hit.end) for hit in self._hits_of(stance, name)]

    def limits_state(self, stance: Stance) -> bool:
        """Return whether a statement limits what is said, and not only a number: `still open`, not `still 4 seats`."""
        return any(not _AMOUNT.match(self._lowered, hit.end) for hit in self._hits_of(stance, "limits"))

    def has(self, stance: Stance, name: str) -> bool:
        """Return whether a statement contains an entry of a list of the language file."""
        return self.language is not None and bool(stance.marks & self.language.vocabulary.bit(name))

    def mentions(self, name: str) -> bool:
        """Return whether any statement contains an entry of a list of the language file."""
        bit = self.language.vocabulary.bit(name) if self.language is not None else 0
        return any(stance.marks & bit for stance in self.stances)

    def admits(self) -> bool:
        """Return whether any statement admits that something is missing, limited or not certain."""
        return any(one.is_bad_news or one.is_limited or one.is_uncertain for one in self.stances)

    @property
    def values(self) -> list[Value]:
        """The values of the whole text, in order."""
        if self._values is None:
            self._values = values_in(self.text, self.language) if _DIGIT.search(self.text) else []
            self._starts = [value.start for value in self._values]
        return self._values

    def values_of(self, stance: Stance) -> list[Value]:
        """Return the values of a statement; their places are those in the whole text."""
        values = self.values
        if not values:
            return []
        end = stance.statement.end
        first, last = bisect_left(self._starts, stance.statement.start), bisect_left(self._starts, end)
        return values[first:last] if last == first or values[last - 1].end <= end else values[first : last - 1]


def has_speaker(language: Language, lowered: str) -> bool:
    """Return whether a text in lower case speaks of its speaker, by a word or by the form of a verb."""
    own = _OWN.get(language.code)
    return language.conduct.mentions("self", lowered) or (own is not None and own.search(lowered) is not None)


_OWN = {
    "en": re.compile(r"\bi've\b"),
    "fr": re.compile(r"\bj'ai\b"),
    "es": re.compile(r"\b(?:he|hemos)\b|\b\w{3,}é\b"),
    "it": re.compile(r"\b(?:ho|abbiamo)\b"),
    "pt": re.compile(r"\b\w{3,}ei\b"),
    "pl": re.compile(r"\w{3}ł[ae]m\b"),
    "tr": re.compile(r"\w{2}[dt][ıiuü]m\b"),
}
"""Forms of verbs that contain the word for the speaker."""
_DIGIT = re.compile(r"\d")
_AMOUNT = re.compile(r"\W{1,3}(?:[^\W\d]{1,9}\W{1,3})?\d")
_BETWEEN_CLAUSES = re.compile(r"[;()—–，、；：（）]|[,:](?:(?<!\d.)|(?!\d))")
"""What separates clauses; a comma or a colon between digits belongs to a number."""


def _covers(one: Hit, other: Hit) -> bool:
    return one.start <= other.start and other.end <= one.end
