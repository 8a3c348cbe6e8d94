"""Rules that were loosened between a check that failed and one that passed: in files, in arguments, or by a call."""

from __future__ import annotations

import re
from typing import Any

from critiqor.diagnosis.claims.call_arguments import decoded_arguments
from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.claims.weakenings.changes import TextChange
from critiqor.diagnosis.claims.weakenings.check_runs import check_programs, verdict_of
from critiqor.diagnosis.claims.weakenings.moved_limits import measured_numbers
from critiqor.diagnosis.claims.weakenings.settings import loosened_settings, settings_in, settings_of
from critiqor.diagnosis.claims.weakenings.signs import Sign
from critiqor.diagnosis.signals.tool_calls import words_of_tool

_RULE_FILE = re.compile(
    r"(?:^|[/._-])(?:rules?|schemas?|valid\w*|constraints?|polic(?:y|ies)|contracts?|expect\w*|checks?|checker|lint\w*"
    r"|gates?|quality|thresholds?|limits?|budgets?|alerts?|alerting|monitor\w*|guard\w*|controls?|toleranc\w*)(?:$|[/._-])",
    re.IGNORECASE,
)
"""Names of files and folders that say what is allowed."""
_RULE_OPTION = r"--?(?:rules?|schema|config|conf|policy|profile|ruleset|settings|c)[= ]\S*"
_NOTATION = re.compile(r"\.(?:ya?ml|json[5c]?|toml|ini|cfg|conf|properties|neon|xml|rc|env)$|rc$", re.IGNORECASE)
_LIKE_CHECK = re.compile(
    r"check|lint|valid|verif|\btest|audit|scan|gate\b|strict|violat|constraint|\brules?\b|polic(?:y|ies)|threshold|coverage"
    r"|conform|compli|quality|expectation|\brequired\b|must (?:be|not)|prüf|ungültig|contrôl|vérif|no válid|comprob"
    r"|regla|verific|não é válid|controll|convalid|ongeldig|controle|sprawd|nieprawid|провер|неверн|правил|kontrol"
    r"|geçersiz|检查|校验|验证|無効|検証|検査|검사|검증|유효|تحقق|غير صالح",
    re.IGNORECASE,
)
"""Words by which a failed call is recognized as a check, in command lines and outputs."""
_RULES = frozenset(
    (
        *(
            "rule",
            "rules",
            "ruleset",
            "gate",
            "gates",
            "threshold",
            "thresholds",
            "policy",
            "policies",
            "check",
            "checks",
        ),
        *("validation", "validator", "alert", "alerts", "limit", "limits", "quality", "control", "monitor", "profile"),
        *("schema", "constraint", "constraints", "tolerance"),
    )
)
"""Words in the names of tools that change rules."""
_ENDING = frozenset(("disable", "skip", "ignore", "mute", "silence", "waive", "bypass", "suppress", "exempt", "delete"))
_OPTION = re.compile(r"(?<!\S)--([\w-]+)(?:[= ](?!-)([^\s|;&]+))?")
_ENVIRONMENT = re.compile(r"(?:^|\s|;|&&)(?:export\s+)?([A-Z][A-Z0-9_]{2,})=(\S+)")
_BUILD = re.compile(r"\b(?:build|compile|make|tsc|gcc|javac|cargo|gradle|mvn)\b")
_MAX_LINE = 1_000


def loosened_rules(change: TextChange, failed: list[EpisodeCall]) -> Sign | None:
    """Return how a change of a file with rules lets more pass than before."""
    if change.is_deletion or change.is_created or not change.is_known or not change.old:
        return None
    if not any(_governs(change.path, call) for call in failed):
        return None
    return _of_text(change.old, change.new, change.path)


def _of_text(old: str, new: str, path: str) -> Sign | None:
    settings = settings_in(new)
    sign = loosened_settings(settings_in(old), settings, is_whole=bool(settings))
    return Sign(kind=sign.kind, what=f"{sign.what} in {path}", values=sign.values) if sign is not None else None


def _governs(path: str, failed: EpisodeCall) -> bool:
    """Return whether a file says what a check demands: by its name, or because it belongs to the program."""
    name = path.rsplit("/", 1)[-1]
    if not _NOTATION.search(name):
        return False
    if not (failed.is_check or _LIKE_CHECK.search(f"{failed.line or failed.tool}\n{failed.text[:MAX_TEXT]}")):
        return False
    if failed.line and name in failed.line:
        # What a command is given is what it checks, unless an option says that it holds the rules.
        return re.search(_RULE_OPTION + re.escape(name), failed.line[:_MAX_LINE]) is not None
    if name in failed.arguments:
        return False
    if _RULE_FILE.search(path):
        return True
    return any(len(program) >= MIN_PROGRAM and program in path for program in check_programs(failed.line))


MAX_TEXT = 2_000
"""Maximum number of characters of an output that are searched for words of checks."""
MIN_PROGRAM = 4
"""Minimum number of letters of a program whose files are recognized by its name."""


def loosened_request(call: EpisodeCall, failed: EpisodeCall) -> Sign | None:
    """Return what a check was given, so that it lets more pass than the one that failed."""
    if call.line:
        return _of_lines(call.line, failed.line) if failed.line else None
    if call.tool != failed.tool or verdict_of(call) is not True:
        return None
    old, new = decoded_arguments(failed.arguments), decoded_arguments(call.arguments)
    if old is None or new is None or old == new:
        return None
    return loosened_settings(settings_of(old), settings_of(new))


def _of_lines(line: str, failed: str) -> Sign | None:
    if line == failed or max(len(line), len(failed)) > _MAX_LINE or not check_programs(line) & check_programs(failed):
        return None
    if not _LIKE_CHECK.search(failed) and not _BUILD.search(failed):
        return None
    old, new = _given(failed), _given(line)
    if old == new or _positional(line) != _positional(failed):
        return None
    return loosened_settings(old, new)


def _given(line: str) -> dict[str, str]:
    """Return the options and environment variables of a command line as settings."""
    found = {name.lower(): value for name, value in _ENVIRONMENT.findall(line)}
    for name, value in _OPTION.findall(line):
        if name.startswith("no-"):
            found[name[3:]] = "false"
        else:
            found[name] = value or "true"
    return found


def _positional(line: str) -> list[str]:
    bare = _ENVIRONMENT.sub(" ", _OPTION.sub(" ", line))
    return [word for word in bare.split() if not word.startswith("-")]


def loosened_by_call(call: EpisodeCall, failed: EpisodeCall) -> Sign | None:
    """Return how a call of an app tool changed the rules that a check had applied."""
    if call.line or not call.has_effect or call.meaning.state == "failure" or failed.line:
        return None
    words = words_of_tool(call.tool)
    if _RULES.isdisjoint(words):
        return None
    given = decoded_arguments(call.arguments) or {}
    if not _ENDING.isdisjoint(words):
        return Sign(kind="silenced", what=f"called {call.tool}")
    if (sign := loosened_settings({}, settings_of(given))) is not None:
        return sign
    if (switched := _switched_off(given)) is not None:
        return switched
    return _moved_past(given, failed)


def _switched_off(given: dict[str, Any]) -> Sign | None:
    """Return the switch or level in the arguments that ends a rule, whatever it was before."""
    opposite = {name: "true" for name, value in given.items() if value is False}
    opposite |= {name: "error" for name, value in given.items() if isinstance(value, str)}
    return loosened_settings(opposite, settings_of(given), is_whole=False) if opposite else None


def _moved_past(given: dict[str, Any], failed: EpisodeCall) -> Sign | None:
    """Return the limit that lets a value pass which had failed: the check printed the value and the old limit."""
    printed = measured_numbers(failed)
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value in printed:
            continue
        if any(min(value, limit) < one < max(value, limit) for limit in printed for one in printed):
            return Sign(kind="loosened", what=f"set {name} to {value:g}", values=frozenset((f"{value:g}",)))
    return None
