"""Redaction rules: reads the shared file, and compiles its patterns, prefixes and names of fields."""

from __future__ import annotations

import hashlib
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

RULES_PATH = Path(__file__).parent.parent.parent / "clawhub" / "critiqor-openclaw" / "redaction.json"
_PART = re.compile(r"<<(\w+)>>")


class Rule(msgspec.Struct, frozen=True):
    """A pattern of a secret; if it has a group, only the group is the secret."""

    kind: str
    pattern: str


class PrefixRule(msgspec.Struct, frozen=True):
    """Prefixes of secrets of one kind, and what follows them."""

    kind: str
    prefixes: tuple[str, ...]
    characters: str
    minimum: int


class Prefixes(msgspec.Struct, frozen=True):
    """All prefixes, with a pattern that every text with one of them matches."""

    gate: str
    rules: tuple[PrefixRule, ...]


class Group(msgspec.Struct, frozen=True):
    """Rules for texts that contain one of the words and match the gate."""

    words: tuple[str, ...]
    rules: tuple[Rule, ...]
    gate: str | None = None


class Fields(msgspec.Struct, frozen=True):
    """Names of fields whose value is a secret: small letters only."""

    kind: str
    minimum_length: int
    names: frozenset[str]


class Rules(msgspec.Struct, frozen=True):
    """The contents of the shared file."""

    parts: dict[str, str]
    prefixes: Prefixes
    groups: tuple[Group, ...]
    references: str
    """A pattern of whole values that name a secret which is kept elsewhere."""
    fields: Fields


class CompiledRule(NamedTuple):
    """A rule that can be applied."""

    kind: str
    pattern: re.Pattern[str]


@cache
def shared_rules() -> Rules:
    """Return the rules that are shared with the recorder plugin."""
    return msgspec.json.decode(RULES_PATH.read_bytes(), type=Rules)


@cache
def rules_digest(added: bytes = b"") -> str:
    """Return the version of the rules; a recorder that announces the same has applied them to all it wrote.

    `added` is the file of the rules that the user adds for a run.
    """
    return hashlib.sha256(RULES_PATH.read_bytes() + added).hexdigest()[:16]


def expand(pattern: str, word: str = "") -> str:
    """Return the pattern of a redaction rule with its parts in place of their names."""
    parts = {**shared_rules().parts, "word": re.escape(word)}
    while _PART.search(pattern):
        pattern = _PART.sub(lambda match: parts[match[1]], pattern)
    return pattern


@cache
def prefix_rules() -> tuple[tuple[tuple[str, ...], CompiledRule], ...]:
    """Return the prefixes and the rule of each kind."""
    compiled = []
    for rule in shared_rules().prefixes.rules:
        # An escaped line break before it ends with a letter.
        before = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
        start = f"(?:{'|'.join(map(re.escape, rule.prefixes))}){shared_rules().parts['body']}"
        pattern = re.compile(f"{before}{start}[{rule.characters}]{{{rule.minimum},}}")
        compiled.append((rule.prefixes, CompiledRule(rule.kind, pattern)))
    return tuple(compiled)


@cache
def group_rules() -> tuple[tuple[CompiledRule, ...], ...]:
    """Return the redaction rules of each group."""
    groups = shared_rules().groups
    return tuple(
        tuple(CompiledRule(rule.kind, re.compile(expand(rule.pattern))) for rule in group.rules) for group in groups
    )


@cache
def _references() -> re.Pattern[str]:
    return re.compile(shared_rules().references)


def is_no_secret(value: str) -> bool:
    """Whether a value in the place of a secret is harmless: masked, or the name of where the secret is kept."""
    return not any(map(str.isalnum, value)) or _references().fullmatch(value) is not None


def letters_of(name: str) -> str:
    """Return the letters of a field name, in small letters, by which redaction rules compare names."""
    return re.sub("[^A-Za-z]", "", name).lower()


@lru_cache(maxsize=4096)
def is_secret_field(name: str | bytes, added: frozenset[str] = frozenset()) -> bool:
    """Whether a field name means that its value is a secret, in any case and with any characters in between."""
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
    letters = letters_of(text) if len(text) <= 40 else ""
    is_named = letters in shared_rules().fields.names or letters in added
    return is_named and not re.search(r'["\\\x00-\x1f]', text)
