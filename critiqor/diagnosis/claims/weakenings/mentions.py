"""Whether a text says that a check was made weaker, in any language: words are data in `words.toml`."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import msgspec

from critiqor.diagnosis.claims.language import Language, normalize
from critiqor.diagnosis.claims.sentences import statements
from critiqor.diagnosis.claims.vocabulary import Hit, Vocabulary
from critiqor.diagnosis.claims.weakenings.signs import Sign, SignKind

FILE = Path(__file__).with_name("words.toml")
MAX_WORDS_BETWEEN = 2
"""Maximum number of words between a negation and the word that it denies: no tests were skipped."""
MAX_NEAR = 3
"""Maximum number of words between a verb and its object in a request."""
MAX_NEAR_REMOVED = 8
"""The same for removal: remove the old export together with its tests."""
_ZERO = re.compile(r"(?<![\w.,])0\s*$")
_PAUSE = re.compile(r"[,;:.!?\uff0c\u3002]")
_WORDS = re.compile(r"[^\W_]+")


class _Data(msgspec.Struct, forbid_unknown_fields=True):
    says: list[str]
    does: list[str]
    about: list[str]


@cache
def _words() -> dict[str, Vocabulary]:
    data = msgspec.convert(tomllib.loads(FILE.read_text(encoding="utf-8")), dict[str, _Data])
    return {kind: Vocabulary(msgspec.structs.asdict(each)) for kind, each in data.items()}


def is_named(sign: Sign, text: str, language: Language | None) -> bool:
    """Return whether a text mentions what was done to a check: by words, the new value, or the mark itself."""
    lowered = normalize(text)
    if sign.mark and len(sign.mark) > 3 and normalize(sign.mark) in lowered and sign.kind not in ("mocked", "removed"):
        return True
    if sign.kind in ("loosened", "permitted") and any(_has_value(value, text) for value in sign.values):
        return True
    return any(_says(kind, normalize(each.text), language) for each in statements(text) for kind in _kinds(sign))


def is_requested(sign: Sign, text: str, language: Language | None) -> bool:
    """Return whether a request mentions what was done to a check as something to do."""
    if sign.kind in ("loosened", "permitted") and any(_has_value(value, text) for value in sign.values):
        return True
    if sign.kind == "expected" and any(value and value in text for value in sign.values):
        return True
    near = MAX_NEAR_REMOVED if sign.kind == "removed" else MAX_NEAR
    return any(
        _says(kind, normalize(each.text), language, near=near) for each in statements(text) for kind in _kinds(sign)
    )


def _kinds(sign: Sign) -> tuple[SignKind, ...]:
    """Return the kinds as which a sign can be mentioned: rules that permit more are loosened, switched off, skipped."""
    return ("permitted", "loosened", "silenced", "skipped", "tolerated") if sign.kind == "permitted" else (sign.kind,)


def _says(kind: SignKind, statement: str, language: Language | None, near: int = 1_000) -> bool:
    words = _words()[kind]
    negations = language.vocabulary.find("negations", statement) if language is not None else []
    if any(not _is_denied(statement, found, negations) for found in words.find("says", statement)):
        return True
    objects = words.find("about", statement)
    return any(
        not _is_denied(statement, done, negations)
        and any(_between(statement, done, one) <= near and not _overlap(done, one) for one in objects)
        for done in (words.find("does", statement) if objects else ())
    )


def _is_denied(text: str, found: Hit, negations: list[Hit]) -> bool:
    if _ZERO.search(text[: found.start]):
        return True
    for negation in negations:
        if negation.start <= found.start and negation.end >= found.end:
            continue
        between = text[negation.end : found.start]
        is_near = negation.end <= found.start and len(_WORDS.findall(between)) <= MAX_WORDS_BETWEEN
        if is_near and not _PAUSE.search(between):
            return True
    return False


def _between(text: str, one: Hit, other: Hit) -> int:
    return len(_WORDS.findall(text[min(one.end, other.end) : max(one.start, other.start)]))


def _overlap(one: Hit, other: Hit) -> bool:
    return one.start < other.end and other.start < one.end


def _has_value(value: str, text: str) -> bool:
    return re.search(rf"(?<![\w.,]){re.escape(value)}(?![\w]|[.,]\d)", text) is not None
