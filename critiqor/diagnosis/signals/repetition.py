"""Whether an agent says that something happened twice, and whether a user orders repetition."""

from __future__ import annotations

import re
from functools import lru_cache

from critiqor.diagnosis.claims.language import Language, language_of, languages, normalize
from critiqor.diagnosis.claims.sentences import statements
from critiqor.diagnosis.claims.speech import Speech
from critiqor.diagnosis.claims.vocabulary import Vocabulary
from critiqor.diagnosis.hazards.words import words

_TWICE = (
    *("twice", "duplicat*", "two times", "two copies", "extra copy", "second copy", "doubled", "double", "double-*"),
    *("doppelt*", "zweimal", "zwei mal", "duplikat*", "deux fois", "doublon*", "en double", "dupliqu*"),
    *("dos veces", "por duplicado", "duas vezes", "duplicidade", "due volte", "doppi*", "twee keer", "tweemaal"),
    *("dubbel*", "två gånger", "dubbl*", "to gange", "to ganger", "dwa razy", "dwukrotn*", "podwójn*", "zduplikow*"),
    *("дважды", "два раза", "дубл*", "двойн*", "двічі", "iki kez", "iki kere", "iki defa", "mükerrer*", "çift*"),
    *(
        "2回",
        "二回",
        "二重",
        "重複",
        "두 번",
        "두번",
        "중복*",
        "이중*",
        "两次",
        "兩次",
        "重复",
        "مرتين",
        "مكرر*",
        "تكرار",
    ),
)
"""That something is there twice."""
_TWO = (
    *("two", "zwei", "deux", "dos", "dois", "duas", "due", "twee", "två", "dwa", "dwie", "два", "две", "iki"),
    *("2つ", "二つ", "2件", "두", "2건", "2개", "两个", "两笔", "两份", "2 个", "اثنان", "اثنين", "اثنتان", "2"),
)
"""How many there are; a confession only beside bad news."""
_WORDS = Vocabulary({"twice": list(_TWICE), "two": list(_TWO)})
_CHECKED = re.compile(r"\bdouble[- ]check\w*")
_BEFORE = re.compile(r"[^\W_]+")
MAX_WORDS_BETWEEN = 2
"""Maximum number of words between a negation and what it denies: nothing was charged twice."""


def tells_repetition(text: str) -> bool:
    """Return whether a text speaks of a repetition, that something was done twice; not `once` or `not twice`."""
    lowered = _CHECKED.sub("", normalize(text))
    has_word, has_number = _WORDS.mentions("twice", lowered), _WORDS.mentions("two", lowered)
    if not (has_word or has_number):
        return False
    language = language_of(text)
    if has_word:
        for each in statements(text):
            statement = _CHECKED.sub("", normalize(each.text))
            negations = language.vocabulary.find("negations", statement) if language is not None else []
            once = language is not None and language.vocabulary.mentions("once", statement)
            places = [found.start for found in _WORDS.find("twice", statement)]
            if not once and any(not any(_denies(statement, one.end, at) for one in negations) for at in places):
                return True
    if not has_number or language is None:
        return False
    stances = Speech(text, language).stances
    return any(one.is_bad_news for one in stances) and any(
        _counts_two(one.lowered, language) and not language.vocabulary.mentions("once", one.lowered) for one in stances
    )


def _counts_two(statement: str, language: Language) -> bool:
    """Return whether a statement has the number two; a word of another language is none, such as `due` in English."""
    found = [statement[hit.start : hit.end] for hit in _WORDS.find("two", statement)]
    return any(not word.isalpha() or not word.isascii() or language.numbers.get(word) == 2 for word in found)


def _denies(statement: str, end: int, start: int) -> bool:
    return end <= start and len(_BEFORE.findall(statement[end:start])) <= MAX_WORDS_BETWEEN


MAX_REQUEST = 1_500
"""Maximum number of characters of a request that is examined; a longer one quotes a document, such as a bug report."""
_UNSPACED_NUMBER = "0123456789二三四五六七八九十两兩几数"
_ONE = frozenset(("0", "1"))


@lru_cache(maxsize=256)
def orders_repetition(request: str) -> bool:
    """Return whether a user orders that something is done repeatedly: ten times, every minute, a load test."""
    text = request
    if len(text) > MAX_REQUEST:
        return False
    if words("repeat").within(text) or _TIMES.search(text):
        return True
    for start, _ in words("times").find(text):
        before = text[:start].rstrip(" -\N{NO-BREAK SPACE}")
        # Languages without spaces write the number right before the word.
        if before[-1:] in _UNSPACED_NUMBER and before:
            number = _LAST_NUMBER.search(before)
            if number is None or number[0] not in _ONE:
                return True
        elif (word := _LAST_WORD.search(before)) and _is_number(word[0]):
            return True
    return any(_INTERVAL.match(text, end) for _, end in words("every").find(text))


_TIMES = re.compile(r"(?<![\w.])(?!1[ x×])\d{1,4} ?[x×](?!\w)")
_INTERVAL = re.compile(
    r"\s*\d+\s*(?:s|m|h)?(?![^\W\d_])\s*(?:s\b|sec|min|h\b|hour|day|sek|stund|tag|seg|hora|d[ií]a|heure|jour|giorn|or[ae]\b|uur|uren"
    r"|dag|tim|godz|dni|минут|час|секунд|дн|saat|dakika|saniye|gün|[秒分时時天日小]|초|분|시간|일|دق|ساع|ثا|ثو|يوم|أيام)"
    r"|\s*\d+(?:s|m|min|h)\b",
    re.IGNORECASE,
)
"""A number and a unit of time."""
_LAST_NUMBER = re.compile(r"\d+$")
_LAST_WORD = re.compile(r"[^\W\d_]+$")


def _is_number(word: str) -> bool:
    """Return whether a word is a number of at least two, such as `ten`."""
    lowered = normalize(word)
    return any(language.numbers.get(lowered, 0) > 1 for language in languages().values())
