"""Settings of a check as names and values, from any notation, and whether new ones let more pass than old ones.

Nothing here depends on a certain checker. What is compared are the ways in which rules are strict: a switch, a level, a
pattern, a bound, and the length of a list of exceptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from critiqor.diagnosis.claims.weakenings.patterns import pattern
from critiqor.diagnosis.claims.weakenings.signs import Sign
from critiqor.diagnosis.signals.text import decode_json

MAX_SETTINGS = 400
"""Maximum number of settings of a text that are compared."""
MAX_DEPTH = 6
_LINE = re.compile(r"""^(?P<indent>[ \t]*)(?:- )?["']?(?P<name>[\w.$@/-]+)["']?\s*[:=]\s*(?P<value>.*?)[ \t,;]*$""")
_SECTION = re.compile(r"^\[{1,2}([\w. -]+)\]{1,2}$")
_INLINE = re.compile(r"""["']?([\w.$@/-]+)["']?\s*[:=]\s*("[^"]*"|'[^']*'|\[[^\]]*\]|[^,{}\[\]]+)""")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_TRUE = frozenset(("true", "yes", "on", "1", "enabled", "always"))
_FALSE = frozenset(("false", "no", "off", "0", "disabled", "never", "none", "null", "~"))
_STRICT = re.compile(
    r"^(?:requir\w*|mandatory|strict\w*|check\w*|valid\w*|verif\w*|enforc\w*|enable\w*|active|fail\w*|block\w*|must"
    r"|unique\w*|scan\w*|audit\w*|lint\w*|den(?:y|ied)|reject\w*|abort\w*|gate\w*|guard\w*|protect\w*|werror|rules?"
    r"|constraints?|assert\w*|expect\w*|disallow\w*|forbid\w*|prevent\w*|ensure\w*|integrity|parity|signature|test\w*)$"
)
"""Words in the names of switches that make a check strict while they are on."""
_LENIENT = re.compile(
    r"^(?:skip\w*|ignor\w*|allow\w*|optional\w*|nullable|lenient\w*|permissive|disabl\w*|exempt\w*|exclu\w*|bypass\w*"
    r"|tolerat\w*|soft|relax\w*|loose\w*|unsafe|insecure|force\w*|override\w*|waive\w*|suppress\w*|mute\w*|silenc\w*"
    r"|except\w*|whitelist\w*|allowlist\w*|known|continue)$"
)
"""Words in the names of switches and lists that let more pass."""
_LEVELS = {
    **dict.fromkeys(("error", "deny", "block", "fail", "strict", "enforce", "enforcing", "full", "reject", "abort"), 2),
    **dict.fromkeys(("required", "mandatory", "exact", "always", "fatal", "complete", "all"), 2),
    **dict.fromkeys(("warn", "warning", "info", "off", "none", "ignore", "allow", "basic", "lenient", "loose"), 1),
    **dict.fromkeys(("optional", "disabled", "skip", "log", "continue", "pass", "never", "relaxed", "minimal"), 1),
    **dict.fromkeys(("report", "permissive", "audit", "advisory", "quick", "fast", "partial"), 1),
}
"""How strict the words for levels are."""
_ANYTHING = frozenset((".*", ".+", "^.*$", "^.+$", "*", "**", ".", "[\\s\\S]*", "^[\\s\\S]*$", "(.*)", ".*?"))
"""Patterns that everything matches."""
_PATTERNS = re.compile(r"pattern|regex|regexp|format|match|mask|allowed_values")
_RESOURCES = re.compile(r"space|heap|memory|parallel|concurren|depth|time|cache|buffer|pool", re.IGNORECASE)
"""Names of numbers that say what a check may use, not what it demands."""
_BOUNDS = re.compile(r"^(?:required|mandatory|pattern|regex|format|checksum|unique\w*|min\w*|max\w*|enum|strict)$")
"""Settings without which nothing is required any more."""


def settings_in(text: str) -> dict[str, str]:
    """Return the settings in a text by their path: JSON, YAML, TOML, INI, assignments, or a part of these."""
    stripped = text.strip()
    if stripped[:1] in ("{", "["):
        try:
            return dict(_flat(decode_json(stripped), ""))
        except msgspec.DecodeError:
            pass
    return dict(_of_lines(text))


def settings_of(value: Any) -> dict[str, str]:
    """Return the settings in a decoded value by their path."""
    return dict(_flat(value, ""))


def _flat(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and depth < MAX_DEPTH:
        for name, member in list(value.items())[:MAX_SETTINGS]:
            yield from _flat(member, f"{path}.{name}" if path else str(name), depth + 1)
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value) and depth < MAX_DEPTH:
        for number, member in enumerate(value[:MAX_SETTINGS]):
            yield from _flat(member, f"{path}.{number}", depth + 1)
    elif path:
        yield path, _written(value)


def _written(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _of_lines(text: str) -> Iterator[tuple[str, str]]:
    above: list[tuple[int, str]] = []
    section = ""
    for line in text.splitlines()[:MAX_SETTINGS]:
        bare = line.strip()
        if not bare or bare.startswith(("#", "//", ";")):
            continue
        if found := _SECTION.match(bare):
            section, above = found[1], []
            continue
        match = _LINE.match(line)
        if match is None or "{" in bare[: bare.find(match["name"])]:
            yield from ((f"{section}.{name}".strip("."), _bare(value)) for name, value in _INLINE.findall(bare))
            continue
        indent = len(match["indent"])
        above = [(size, name) for size, name in above if size < indent]
        path = ".".join(filter(None, (section, *(name for _, name in above), match["name"])))
        value = match["value"]
        if value.startswith("{"):
            yield from ((f"{path}.{name}", _bare(inner)) for name, inner in _INLINE.findall(value))
        elif value:
            yield path, _bare(value)
        else:
            above.append((indent, match["name"]))


def _bare(value: str) -> str:
    value = re.sub(r"\s+(?:#|//).*$", "", value.strip())
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"" else value


def loosened_settings(old: dict[str, str], new: dict[str, str], *, is_whole: bool = True) -> Sign | None:
    """Return the first of the new settings that lets more pass than the old one; None without one.

    `is_whole`: whether no setting is left out of the new ones.
    """
    for path, was in old.items():
        now = new.get(path)
        if now is None:
            if is_whole and _BOUNDS.match(_name(path)) and was.lower() not in _FALSE:
                return _sign(path, f"removed {_name(path)} ({was[:40]})", was)
        elif was != now and _is_looser(path, was, now):
            return _sign(path, f"changed {_name(path)} from {was[:40]} to {now[:40]}", now)
    for path, now in new.items():
        if path not in old and _is_exception(path, now):
            return _sign(path, f"added {_name(path)}: {now[:40]}", now)
    return None


def _sign(path: str, what: str, value: str) -> Sign:
    number = re.fullmatch(r"-?\d+(?:\.\d+)?%?", value)
    return Sign(kind="permitted", what=what, values=frozenset((value,)) if number else frozenset(), mark="")


def _name(path: str) -> str:
    return path.rpartition(".")[2]


def _words(path: str) -> list[str]:
    return [word.lower() for word in _PARTS.findall(path)]


def _is_looser(path: str, was: str, now: str) -> bool:
    one, other = was.lower(), now.lower()
    name = _words(_name(path))
    if one in _TRUE and other in _FALSE:
        return any(map(_STRICT.match, _words(path))) and not any(map(_LENIENT.match, name))
    if one in _FALSE and other in _TRUE:
        return any(map(_LENIENT.match, name))
    if one in _LEVELS and other in _LEVELS:
        return _LEVELS[other] < _LEVELS[one]
    if all(text.startswith("[") and text.endswith("]") for text in (was, now)):
        return _is_list_looser(name, was, now)
    if _PATTERNS.search(_name(path).lower()) or re.search(r"[\^\[\\]", was):
        return now in _ANYTHING and was not in _ANYTHING
    return _is_bound_looser(_name(path), was, now)


def _is_list_looser(name: list[str], was: str, now: str) -> bool:
    before, after = ({each.strip(" \"'") for each in text.strip("[]").split(",")} - {""} for text in (was, now))
    if any(map(_LENIENT.match, name)):
        return before < after
    return any(map(_STRICT.match, name)) and after < before


def _is_bound_looser(name: str, was: str, now: str) -> bool:
    try:
        before, after = (float(text.rstrip("%")) for text in (was, now))
    except ValueError:
        return False
    if pattern("patience").search(name) or _RESOURCES.search(name):
        return False
    is_floor, is_ceiling = pattern("floors").search(name) is not None, pattern("ceilings").search(name) is not None
    return (is_floor and not is_ceiling and after < before) or (is_ceiling and not is_floor and after > before)


def _is_exception(path: str, now: str) -> bool:
    """Return whether an added setting is a switch or a list that lets something pass."""
    if now.lower() in _FALSE:
        return "." not in path and any(map(_STRICT.match, _words(path)))
    if _LEVEL_NAMES.fullmatch(_name(path).lower()):
        return _LEVELS.get(now.lower()) == _LENIENT_LEVEL
    return any(map(_LENIENT.match, _words(_name(path)))) and now not in ("", "[]", "{}")


_LENIENT_LEVEL = 1
_LEVEL_NAMES = re.compile(r"severity|enforcement|on_?(?:fail\w*|error|violation)|failure_?(?:mode|action|policy)")
"""Names of settings that say how bad a violation is."""
