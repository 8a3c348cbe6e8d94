"""Known secrets: replaces a secret that was recognized once wherever it recurs in the same run.

It is found as it is, escaped in JSON, encoded for a URL, and in base64. `known_secrets.js` does the same.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote

MIN_LENGTH = 8
MAX_LENGTH = 4096
MAX_SECRETS = 100
"""Number of secrets that are remembered; the oldest are forgotten first."""
# A word with a number behind it, such as `password1`, would be replaced in texts that have nothing to do with it.
_ORDINARY = re.compile(r"[A-Za-z]*[-_. ]?[0-9]{0,4}")
_MARK = "[redacted:"


def is_distinctive(secret: str) -> bool:
    """Whether a secret is so distinctive that the same characters elsewhere are the same secret."""
    if not MIN_LENGTH <= len(secret) <= MAX_LENGTH or _ORDINARY.fullmatch(secret):
        return False
    return bool(re.search("[0-9]", secret) and re.search("[A-Za-z]", secret))


class _Known(NamedTuple):
    mark: str
    forms: tuple[str, ...]
    serialized: tuple[bytes, ...]
    """The forms as they are in a serialized record."""


class KnownSecrets:
    """The distinctive secrets of one run."""

    def __init__(self) -> None:
        self._secrets: dict[str, _Known] = {}

    def add(self, secret: str, mark: str) -> None:
        """Remember a secret and what replaces it."""
        if secret in self._secrets or not is_distinctive(secret) or _MARK in secret:
            return
        data = secret.encode("utf-8", "replace")
        encoded = base64.b64encode(data).decode().rstrip("=")
        forms = tuple(dict.fromkeys((secret, _escaped(secret), quote(data, safe="!'()*"), encoded)))
        self._secrets[secret] = _Known(mark, forms, tuple(_escaped(form).encode("utf-8", "replace") for form in forms))
        if len(self._secrets) > MAX_SECRETS:
            del self._secrets[next(iter(self._secrets))]

    def are_in(self, record: bytes, start: int = 0) -> bool:
        """Whether a serialized record holds one of them from `start` on."""
        if not self._secrets:
            return False
        return any(record.find(form, start) >= 0 for known in self._secrets.values() for form in known.serialized)

    def replace_in(self, text: str, is_exempt: Callable[[str, int], bool]) -> tuple[str, list[str]]:
        """Return a text without known secrets, and the marks it got; `is_exempt` names places to leave alone."""
        marks: list[str] = []
        for mark, forms, _ in self._secrets.values():
            for form in forms:
                at = text.find(form)
                while at >= 0:
                    end = at + len(form)
                    if not is_exempt(text, at):
                        text = text[:at] + mark + text[end:]
                        end = at + len(mark)
                        marks.append(mark)
                    at = text.find(form, end)
        return text, marks


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
