"""Redaction rules of a user: read from the user's settings, and kept with each run for its recorders.

The settings are the table `[redaction]` of the user's file. The folder of a new run gets a copy, which the recorder
plugin, the embedded agent loop and finalizing read, so that all of them apply the same rules to a run.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from critiqor.errors import UsageError
from critiqor.storage.paths import user_settings_path
from critiqor.storage.redaction.rules import Rule

_KIND = re.compile("[a-z_]{2,28}")
# What Python's patterns have and JavaScript's do not, or have with another meaning.
_PYTHON_ONLY = re.compile(r"\(\?(?:[aiLmsux-]+[:)]|P|#|\(|>)|\\[AZN]|[*+?}]\+|\{,")


class UserRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a user adds to the shared rules."""

    rules: tuple[Rule, ...] = ()
    fields: tuple[str, ...] = ()
    """Names of fields whose value is a secret."""
    allow: tuple[str, ...] = ()
    """Patterns of whole values that are not secret."""


def rules_file_from_settings() -> bytes | None:
    """Return the user's rules as the file that a run gets; None if the user has none."""
    path = user_settings_path()
    if not path.is_file():
        return None
    import tomllib

    try:
        table = tomllib.loads(path.read_text("utf-8")).get("redaction")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path.name} cannot be read: {error}", fix=f"correct {path}") from error
    return None if table is None else msgspec.json.encode(check_user_rules(table))


def check_user_rules(table: Any) -> UserRules:
    """Return the rules of the table `redaction`. Raise `UsageError` if a recorder could not apply them."""
    try:
        rules = msgspec.convert(table, UserRules)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from error
    for rule in rules.rules:
        if not _KIND.fullmatch(rule.kind):
            raise _invalid(f"the kind {rule.kind!r} is not 2 to 28 small letters and underscores")
    for pattern in (*(rule.pattern for rule in rules.rules), *rules.allow):
        _check_pattern(pattern)
    return rules


def _check_pattern(pattern: str) -> None:
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise _invalid(f"the pattern {pattern!r} is not valid: {error}") from error
    if found := _PYTHON_ONLY.search(pattern):
        raise _invalid(f"the pattern {pattern!r} contains {found.group()!r}, which JavaScript does not have")
    if compiled.groups > 1:
        raise _invalid(f"the pattern {pattern!r} has more than one group; write the others as (?:...)")
    if compiled.search(""):
        raise _invalid(f"the pattern {pattern!r} matches an empty text")


def _invalid(reason: str) -> UsageError:
    path = user_settings_path()
    return UsageError(f"redaction in {path.name}: {reason}", fix=f"correct the table [redaction] of {path}")
