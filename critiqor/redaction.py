"""Secrets are replaced before evidence is sealed, by the same rules as in the recorder.

The rules are data (`clawhub/critiqor-openclaw/redaction.json`). The recorder has redacted already what it wrote; this
is for what reached the evidence in another way, such as a launch command, and for what an older recorder let by.
"""

from __future__ import annotations

import hmac
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

RULES_PATH = Path(__file__).parent / "clawhub" / "critiqor-openclaw" / "redaction.json"
_MARK = "[redacted:"


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


@cache
def _byte_hints() -> tuple[bytes, ...]:
    names = (
        "assw",
        "assphrase",
        "ecret",
        "ECRET",
        "oken",
        "OKEN",
        "ookie",
        "OOKIE",
        "uthorization",
        "key",
        "Key",
        "KEY",
    )
    hints = {hint for rule in _rules().patterns for hint in rule.hints} | set(names)
    shortest = [hint for hint in hints if not any(other != hint and other in hint for other in hints)]
    return tuple(sorted(hint.encode() for hint in shortest))


def may_hold_secret(serialised: bytes) -> bool:
    """Whether a serialised record deserves a closer look; False is certain."""
    if not any(hint in serialised for hint in _byte_hints()):
        return False
    text = serialised.decode("utf-8", "replace")
    return any(gate.search(text) for gate in _gates())


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

    def _member(self, key: str, value: Any) -> Any:
        fields = _rules().fields
        if isinstance(value, str) and re.sub("[^a-z]", "", key.lower()) in fields.names and len(key) <= 40:
            if len(value) < fields.minimum_length or value.startswith(_MARK):
                return value
            return self.tag(fields.kind, value)
        return self.value(value)

    def _replace(self, kind: str, match: re.Match[str]) -> str:
        whole = match.group()
        if not match.re.groups:
            return self.tag(kind, whole)
        secret = match.group(1)
        if secret.startswith(_MARK):
            return whole
        start = whole.rindex(secret)
        return whole[:start] + self.tag(kind, secret) + whole[start + len(secret) :]
