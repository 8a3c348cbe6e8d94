"""Secrets are replaced before evidence is sealed, by the same rules as in the recorder.

The rules are data (`clawhub/critiqor-openclaw/redaction.json`). A recorder with the same rules has redacted already
what it wrote; this is for what reached the evidence in another way, such as a launch command, and for what a recorder
with other rules let by.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec

RULES_PATH = Path(__file__).parent.parent / "clawhub" / "critiqor-openclaw" / "redaction.json"
_MARK = "[redacted:"
_LONGEST_MARK = 48


class _Rule(msgspec.Struct, frozen=True):
    kind: str
    hints: tuple[str, ...]
    pattern: str


class _Fields(msgspec.Struct, frozen=True):
    kind: str
    minimum_length: int
    names: frozenset[str]


class _Rules(msgspec.Struct, frozen=True):
    patterns: tuple[_Rule, ...]
    fields: _Fields
    gates: tuple[str, ...]


@cache
def _rules() -> _Rules:
    return msgspec.json.decode(RULES_PATH.read_bytes(), type=_Rules)


@cache
def _compiled() -> tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...]:
    return tuple((rule.kind, rule.hints, re.compile(rule.pattern)) for rule in _rules().patterns)


@cache
def _gates() -> tuple[re.Pattern[str], ...]:
    # In plain text a quote is not escaped; a serialised one has backslashes, which the gates allow for.
    return tuple(re.compile(gate) for gate in _rules().gates)


# Characters that are frequent in records, the most frequent first.
_FREQUENT = 'etaoinsrlhdcmufpgwyb":,-_./ '


@cache
def _hint() -> re.Pattern[bytes]:
    """No rule applies to a text in which this is not found, and looking for it is far cheaper than the gates.

    Each hint is looked for from its rarest character on, because a search costs by the places where it may begin.
    """

    def from_rarest(hint: str) -> str:
        ends = [hint[start:] for start in range(len(hint) - 1)]
        return max(ends, key=lambda end: (_FREQUENT.find(end[0]) % len(_FREQUENT), len(end)))

    hints = {from_rarest(hint) for rule in _rules().patterns for hint in rule.hints}
    shortest = sorted(hint for hint in hints if not any(other != hint and hint.startswith(other) for other in hints))
    return re.compile("|".join(map(re.escape, shortest)).encode())


@cache
def rules_digest() -> str:
    """Which rules these are; a recorder that announces the same has applied them to everything that it wrote."""
    return hashlib.sha256(RULES_PATH.read_bytes()).hexdigest()[:16]


# What the gates do not allow for: a character that need not have been escaped, and white space for Python alone.
_UNUSUAL_ESCAPE = re.compile(rb"\\(?:u00(?:[2-7]|1[c-f]|85|a0)|u[12]|/)", re.IGNORECASE)
_FIELD = re.compile(rb'"([^"\\]{4,160})"\s*:\s*["\[]')


def may_hold_secret(serialised: bytes, start: int = 0) -> bool:
    """Whether a serialised record deserves a closer look from `start` on; False is certain."""
    if _UNUSUAL_ESCAPE.search(serialised):
        return True
    if any(is_secret_field(name) for name in _FIELD.findall(serialised, start)):
        return True
    if not _hint().search(serialised, start):
        return False
    text = serialised[start:].decode("utf-8", "replace")
    return any(gate.search(text) for gate in _gates())


@lru_cache(maxsize=4096)
def is_secret_field(name: str | bytes) -> bool:
    """Whether the name of a field says that its value is a secret, in any case and with anything between letters."""
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
    return (
        len(text) <= 40
        and re.sub("[^A-Za-z]", "", text).lower() in _rules().fields.names
        and not re.search(r'["\\\x00-\x1f]', text)
    )


class Redactor:
    """Replaces secrets by `[redacted:KIND:TAG]`; the tag is keyed, so that equal secrets of one run stay equal."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.counts: Counter[str] = Counter()
        """How many secrets of each kind were replaced here."""

    def tag(self, kind: str, secret: str) -> str:
        self.counts[kind] += 1
        return f"{_MARK}{kind}:{hmac.digest(self._key, secret.encode('utf-8', 'replace'), 'sha256').hex()[:8]}]"

    def text(self, text: str) -> str:
        """The text without its secrets."""
        for kind, hints, pattern in _compiled():
            if any(hint in text for hint in hints):
                text = pattern.sub(lambda match, kind=kind: self._replace(kind, match), text)  # type: ignore[misc]
        return text

    def value(self, value: Any) -> Any:
        """Any JSON value without its secrets; what has none is returned as it is."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self._member(key, item) for key, item in value.items()}
        return value

    def command(self, words: Sequence[str]) -> list[str]:
        """A command line without its secrets, also those that stand in a word of their own behind their option."""
        safe: list[str] = []
        for previous, word in zip(("", *words), words, strict=False):
            is_value = previous.startswith("-") and "=" not in previous and is_secret_field(previous)
            safe.append(self.field(word) if is_value else self.text(word))
        return safe

    def _member(self, key: str, value: Any) -> Any:
        if not is_secret_field(key):
            return self.value(value)
        if isinstance(value, list):
            # A header such as set-cookie has a list of values, each of them secret.
            return [self._member(key, item) for item in value]
        return self.field(value) if isinstance(value, str) else self.value(value)

    def field(self, value: str) -> str:
        """The value of a field whose name says that it is a secret."""
        fields = _rules().fields
        if len(value) < fields.minimum_length or value.startswith(_MARK):
            return value
        return self.tag(fields.kind, value)

    def _replace(self, kind: str, match: re.Match[str]) -> str:
        whole = match.group()
        if not match.re.groups:
            return self.tag(kind, whole)
        secret = match.group(1)
        if secret.startswith(_MARK) or _is_within_mark(match.string, match.start()):
            return whole
        start = whole.rindex(secret)
        return whole[:start] + self.tag(kind, secret) + whole[start + len(secret) :]


def _is_within_mark(text: str, start: int) -> bool:
    """Whether a place is inside a mark: kinds are called `github_token` and the like, which reads as an assignment."""
    before = text[max(0, start - _LONGEST_MARK) : start]
    mark = before.rfind(_MARK)
    return mark >= 0 and "]" not in before[mark:]
