"""Values that are not real: masked, shortened, or placeholders that somebody still has to fill in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

MaskKind = Literal["masked", "shortened", "placeholder", "default"]
_OWN_MARK = re.compile(r"\[redacted:[a-z_]{2,32}:[^\]]*\]")
"""The marks of Critiqor's own redaction stand for real values."""
_NAME = r"(?P<name>[A-Za-z_][\w.-]{1,48})"
_SEPARATOR = r"[\"']?\s*(?:=>|:=|=|:)\s*[\"']?(?:(?:Bearer|Token|Basic|ApiKey|Key)\s+)?[\"']?"
_MASKED = (
    r"[\w-]{0,24}\*{3,}[\w*-]{0,24}|[•●█▇xX]{6,}|[•●█]{3,}"
    r"|\\?[\[<(]\s*(?:REDACTED|MASKED|HIDDEN|FILTERED|SECRET|OMITTED|REMOVED|PROTECTED|SENSITIVE|GESCHWÄRZT"
    r"|MASQUÉ|OCULTO|СКРЫТО|已隐藏|已脱敏|非表示)\s*\\?[\]>)]"
)
_SHORTENED = r"[A-Za-z0-9_+/=-]{3,}(?:…|\.{3})[A-Za-z0-9_+/=-]{0,12}(?![\w.])"
_PLACEHOLDER = (
    r"<(?:your|my|insert|enter|put|add|the|api|access|secret|auth|password|token|key|user)[\w -]{0,40}>"
    r"|<[A-Z][A-Z0-9_]{3,40}>"
    r"|\[(?:YOUR|INSERT|ENTER|PUT)[\w -]{0,40}\]|(?:YOUR|MY|INSERT|ENTER|PUT)[_-][A-Z0-9_-]{2,40}"
    r"|(?:your|insert|enter)[_-][\w-]{0,40}(?:key|token|secret|password|id|here)|[\w-]*[_-]goes[_-]here|(?:sk|pk"
    r"|ghp|whk|AKIA)[_-]?[\w-]{0,8}[xX]{4,}"
    r"|[xX]{4,}(?:-[xX]{2,})*"
)
_DEFAULT = (
    r"change[_-]?me(?:[_-]?\w+)?|TODO\b[\w -]{0,30}|FIXME\b|TBD\b|placeholder|replace[_-]?(?:me|this)|dummy[\w-]*"
    r"|[\w.+-]+@example\.(?:com|org|net)|(?:[\w-]+\.)?example\.(?:com|org|net)"
)
_IN_VALUE = {
    kind: re.compile(
        rf"(?<![\w$]){_NAME}{_SEPARATOR}(?P<value>{pattern})(?=[\"'\s,;&|)}}\]@/]|$)", flags | re.MULTILINE
    )
    for kind, pattern, flags in (
        ("masked", _MASKED, re.IGNORECASE),
        ("shortened", _SHORTENED, 0),
        ("placeholder", _PLACEHOLDER, 0),
        ("default", _DEFAULT, re.IGNORECASE),
    )
}
_OPTION = re.compile(
    rf"(?:--?(?P<name>user|u|token|password|pass|p|api-key|key|secret|auth|apikey|access-key)[ =])[\"']?(?:[\w.@-]+:)?"
    rf"(?P<value>{_MASKED}|{_PLACEHOLDER})(?=[\"'\s]|$)",
    re.IGNORECASE,
)
_WHOLE = re.compile(rf"(?:(?:Bearer|Token|Basic)\s+)?(?P<value>{_MASKED}|{_PLACEHOLDER})$")
_NAMED_VALUE = re.compile(
    r"key|token|secret|passw|pwd|auth|credential|iban|account|card|bearer|cookie|session|dsn|url|host|user|mail"
    r"|phone|tel|addr|id$|code|pin"
    r"|webhook|client|cert|salt|hash|signature|endpoint|domain|server|port|number|nr|no$",
    re.IGNORECASE,
)
MAX_FOUND = 12
"""Maximum number of such values that are read from one text."""


class Mask(msgspec.Struct, frozen=True):
    """A value that is not real."""

    kind: MaskKind
    name: str
    """The name of the setting, header or argument that has it."""
    value: str


_SIGNS = (
    *("***", "•", "●", "█", "▇", "xxxx", "…", "...", "<", "[", "redacted", "masked", "hidden", "filtered", "secret"),
    *("omitted", "removed", "protected", "sensitive", "geschwärzt", "masqué", "oculto", "скрыто", "已隐藏", "已脱敏"),
    *("非表示", "your", "my_", "my-", "insert", "enter", "put_", "put-", "goes", "change", "todo", "fixme", "tbd"),
    *("placeholder", "replace", "dummy", "example."),
)
"""One of them is in each value that is not real, in lower case."""
_ASCII_SIGNS = tuple(sign for sign in _SIGNS if sign.isascii())


def has_signs(text: str) -> bool:
    """Return whether a text can contain a mask, a value that is not real; false for most."""
    lowered = text.lower()
    return any(map(lowered.__contains__, _ASCII_SIGNS if lowered.isascii() else _SIGNS))


def masks_in(text: str, *, name: str = "") -> list[Mask]:
    """Return the masks of a text: values that are not real, each after a name, or the whole text."""
    if not has_signs(text):
        return []
    plain = _OWN_MARK.sub("0", text)
    found = list(_masks(plain, name))
    unique = {mask.value: mask for mask in reversed(found)}
    return list(reversed(unique.values()))[:MAX_FOUND]


def _masks(text: str, name: str) -> Iterator[Mask]:
    if name and len(text) <= 200 and (whole := _WHOLE.match(text.strip())):
        yield Mask(
            "masked" if re.search(r"\*{3}|[•█]|REDACT|MASK", whole["value"]) else "placeholder", name, whole["value"]
        )
    if name and len(text) <= 80 and re.fullmatch(_SHORTENED, text.strip()):
        yield Mask("shortened", name, text.strip())
    for kind, pattern in _IN_VALUE.items():
        for match in pattern.finditer(text):
            if _is_meant(match["name"], match["value"], kind):
                yield Mask(kind, match["name"], match["value"])  # type: ignore[arg-type]
    for match in _OPTION.finditer(text):
        yield Mask(
            "masked" if "*" in match["value"] or "[" in match["value"] else "placeholder", match["name"], match["value"]
        )


def _is_meant(name: str, value: str, kind: str) -> bool:
    """Return whether a name can have a real value of this kind: `range: 1...5` and `spread: ...rest` do not."""
    if kind == "shortened":
        return _NAMED_VALUE.search(name) is not None or (any(map(str.isdigit, value)) and "_" in value)
    return _NAMED_VALUE.search(name) is not None
