"""Replace secrets before evidence is sealed, with the same rules as the recorder plugin.

The rules are data (`clawhub/critiqor-openclaw/redaction.json`). A recorder with the same rules has already redacted
what it wrote. This module redacts what reaches the evidence in another way, such as a launch command, and what a
recorder with other rules did not recognize.
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
_MAX_MARK = 48


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
    # The gates match serialized text, in which a quote may have backslashes before it.
    return tuple(re.compile(gate) for gate in _rules().gates)


# Characters that are frequent in records, the most frequent first.
_FREQUENT = 'etaoinsrlhdcmufpgwyb":,-_./ '


@cache
def _hint() -> re.Pattern[bytes]:
    """Return a pattern that every text with a secret matches; searching for it is far cheaper than the gates.

    Each alternative starts at its rarest character, because that determines the cost of the search.
    """

    def from_rarest(hint: str) -> str:
        ends = [hint[start:] for start in range(len(hint) - 1)]
        return max(ends, key=lambda end: (_FREQUENT.find(end[0]) % len(_FREQUENT), len(end)))

    hints = {from_rarest(hint) for rule in _rules().patterns for hint in rule.hints}
    shortest = sorted(hint for hint in hints if not any(other != hint and hint.startswith(other) for other in hints))
    return re.compile("|".join(map(re.escape, shortest)).encode())


@cache
def rules_digest() -> str:
    """Return the version of the rules; a recorder that announces the same has applied them to all it wrote."""
    return hashlib.sha256(RULES_PATH.read_bytes()).hexdigest()[:16]


# What the gates do not cover: characters that are escaped unnecessarily, and white space that only Python knows.
_UNUSUAL_ESCAPE = re.compile(rb"\\(?:u00(?:[2-7]|1[c-f]|85|a0)|u[12]|/)", re.IGNORECASE)
_FIELD = re.compile(rb'"([^"\\]{4,160})"\s*:\s*["\[]')


def may_hold_secret(serialized: bytes, start: int = 0) -> bool:
    """Whether a serialized record may hold a secret from `start` on; False is certain."""
    if _UNUSUAL_ESCAPE.search(serialized):
        return True
    if any(is_secret_field(name) for name in _FIELD.findall(serialized, start)):
        return True
    if not _hint().search(serialized, start):
        return False
    text = serialized[start:].decode("utf-8", "replace")
    return any(gate.search(text) for gate in _gates())


@lru_cache(maxsize=4096)
def is_secret_field(name: str | bytes) -> bool:
    """Whether a field name means that its value is a secret, in any case and with any characters in between."""
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
    return (
        len(text) <= 40
        and re.sub("[^A-Za-z]", "", text).lower() in _rules().fields.names
        and not re.search(r'["\\\x00-\x1f]', text)
    )


class Redactor:
    """Replaces secrets with `[redacted:KIND:TAG]`; tags are keyed, so that equal secrets of one run stay equal."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.counts: Counter[str] = Counter()
        """Number of secrets replaced so far, by kind."""

    def tag(self, kind: str, secret: str) -> str:
        """Return the tag that stands for a secret, and count it."""
        self.counts[kind] += 1
        return f"{_MARK}{kind}:{hmac.digest(self._key, secret.encode('utf-8', 'replace'), 'sha256').hex()[:8]}]"

    def text(self, text: str) -> str:
        """Return a text with its secrets replaced."""
        for kind, hints, pattern in _compiled():
            if any(hint in text for hint in hints):
                text = pattern.sub(lambda match, kind=kind: self._replace(kind, match), text)  # type: ignore[misc]
        return text

    def value(self, value: Any) -> Any:
        """Return any JSON value with its secrets replaced."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self._member(key, item) for key, item in value.items()}
        return value

    def command(self, words: Sequence[str]) -> list[str]:
        """Return a command line with its secrets replaced, including values that follow a secret option."""
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
        """Return the tag for the value of a field whose name means that it is a secret."""
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
    """Whether a position is inside a tag; kinds such as `github_token` look like assignments themselves."""
    before = text[max(0, start - _MAX_MARK) : start]
    mark = before.rfind(_MARK)
    return mark >= 0 and "]" not in before[mark:]


def new_redaction_key() -> bytes:
    """Return a random key for the tags of redacted secrets."""
    import secrets

    return secrets.token_hex(32).encode()
