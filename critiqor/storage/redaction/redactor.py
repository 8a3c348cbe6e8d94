"""The redactor of a run: replaces secrets in texts, JSON values and command lines with tags."""

from __future__ import annotations

import hmac
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from critiqor.errors import BrokenRecordError
from critiqor.storage.atomic import open_regular_file
from critiqor.storage.redaction.gates import PREFIXES, may_hold_secret, open_groups
from critiqor.storage.redaction.known_secrets import KnownSecrets
from critiqor.storage.redaction.rules import (
    CompiledRule,
    group_rules,
    is_no_secret,
    is_secret_field,
    letters_of,
    prefix_rules,
    rules_digest,
    shared_rules,
)
from critiqor.storage.redaction.user_rules import UserRules

_MARK = "[redacted:"
_MAX_MARK = 48


class Redactor:
    """Replaces secrets with `[redacted:KIND:TAG]`; tags are keyed, so that equal secrets of one run stay equal.

    A secret that was recognized once is also replaced where it recurs without its context.
    """

    def __init__(self, key: bytes, user_rules: bytes | None = None) -> None:
        """`user_rules` is the file with the rules that the user adds, see `critiqor.storage.redaction.user_rules`."""
        self._key = key
        self.counts: Counter[str] = Counter()
        """Number of secrets replaced so far, by kind."""
        self.known = KnownSecrets()
        self.digest = rules_digest(user_rules or b"")
        """The version of all rules that are applied."""
        added = msgspec.json.decode(user_rules, type=UserRules) if user_rules else UserRules()
        self._rules = [CompiledRule(rule.kind, re.compile(rule.pattern)) for rule in added.rules]
        self._fields = frozenset(map(letters_of, added.fields))
        self._allowed = [re.compile(pattern) for pattern in added.allow]
        self.has_user_rules = bool(self._rules or self._fields)
        """Whether the user has added rules."""

    @classmethod
    def of_run(cls, key: bytes, rules_path: Path) -> Self:
        """Return a redactor with the rules that the user has added for a run. Raise an error if they cannot be read."""
        try:
            with open_regular_file(rules_path) as file:
                return cls(key, file.read())
        except FileNotFoundError:
            return cls(key)
        except (msgspec.DecodeError, ValueError, OverflowError, RecursionError, re.error) as error:
            # Without them, secrets that only the user knows would be written.
            message = f"the redaction rules of this run cannot be read: {error}"
            raise BrokenRecordError(
                message, fix=f"rm {rules_path}   (only the built-in rules are applied then)"
            ) from error

    def is_secret_field(self, name: str) -> bool:
        """Whether a field name means that its value is a secret, in any case and with any characters in between."""
        return is_secret_field(name, self._fields)

    def may_hold_secret(self, serialized: bytes, start: int = 0) -> bool:
        """Whether a serialized record may hold a secret from `start` on; False is certain.

        There is no gate for a user's rules.
        """
        return self.has_user_rules or may_hold_secret(serialized, start) or self.known.are_in(serialized, start)

    def tag(self, kind: str, secret: str) -> str:
        """Return the tag that stands for a secret, and count it. A secret that the user allows is returned as it is."""
        if any(pattern.fullmatch(secret) for pattern in self._allowed):
            return secret
        self.counts[kind] += 1
        mark = f"{_MARK}{kind}:{hmac.digest(self._key, secret.encode('utf-8', 'replace'), 'sha256').hex()[:8]}]"
        self.known.add(secret, mark)
        return mark

    def text(self, text: str) -> str:
        """Return a text with its secrets replaced."""
        data = text.encode("utf-8", "replace")
        rules: list[CompiledRule] = []
        for number in sorted(open_groups(data)):
            if number == PREFIXES:
                rules += [rule for prefixes, rule in prefix_rules() if any(prefix in text for prefix in prefixes)]
            else:
                rules += group_rules()[number]
        for kind, pattern in (*rules, *self._rules):
            text = pattern.sub(lambda match, kind=kind: self._replace(kind, match), text)  # type: ignore[misc]
        return self._without_known(text)

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
            is_value = previous.startswith("-") and "=" not in previous and self.is_secret_field(previous)
            safe.append(self.field(word) if is_value else self.text(word))
        return safe

    def field(self, value: str) -> str:
        """Return the tag for the value of a field whose name means that it is a secret."""
        fields = shared_rules().fields
        if len(value) < fields.minimum_length or value.startswith(_MARK) or is_no_secret(value):
            return value
        return self.tag(fields.kind, value)

    def _member(self, key: str, value: Any) -> Any:
        if not self.is_secret_field(key):
            return self.value(value)
        if isinstance(value, list):
            # A header such as set-cookie has a list of values, each of them secret.
            return [self._member(key, item) for item in value]
        return self.field(value) if isinstance(value, str) else self.value(value)

    def _replace(self, kind: str, match: re.Match[str]) -> str:
        whole = match.group()
        secret = match.group(1) if match.re.groups else whole
        start = whole.rindex(secret)
        is_mark = secret.startswith(_MARK[:-1]) or _is_within_mark(match.string, match.start() + start)
        if is_mark or is_no_secret(secret):
            return whole
        return whole[:start] + self.tag(kind, secret) + whole[start + len(secret) :]

    def _without_known(self, text: str) -> str:
        safe, marks = self.known.replace_in(text, _is_within_mark)
        for mark in marks:
            self.counts[mark.removeprefix(_MARK).partition(":")[0]] += 1
        return safe


def _is_within_mark(text: str, start: int) -> bool:
    """Whether a position is inside a tag; kinds such as `github_token` look like assignments themselves."""
    before = text[max(0, start - _MAX_MARK) : start]
    mark = before.rfind(_MARK)
    return mark >= 0 and "]" not in before[mark:]


def new_redaction_key() -> bytes:
    """Return a random key for the tags of redacted secrets."""
    import secrets

    return secrets.token_hex(32).encode()
