"""Parser for front matter: the block of keys and values at the beginning of a SKILL.md or HOOK.md.

It supports strings, booleans, folded lines and JSON5 over several lines. Full YAML is deliberately not supported: these
files do not need it, and a YAML parser is a large attack surface for untrusted files.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from critiqor.openclaw.json5 import parse_json5

_BLOCK = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_KEY = re.compile(r"^([A-Za-z][\w-]*):[ \t]*(.*)$")


def read_front_matter(file: Path, max_bytes: int) -> dict[str, Any]:
    """Read the front matter in the first `max_bytes` of a file; raises `ValueError` if there is none."""
    try:
        with file.open("rb") as opened:
            text = opened.read(max_bytes).decode("utf-8", "replace")
    except OSError as error:
        raise ValueError(f"cannot read the file: {error.strerror}") from error
    found = _BLOCK.match(text)
    if found is None:
        raise ValueError("the file does not start with front matter between two --- lines")
    return parse_front_matter(found[1])


def parse_front_matter(text: str) -> dict[str, Any]:
    """Parse a front matter block into keys and values; the last value of a repeated key counts."""
    head: dict[str, Any] = {}
    name, lines = "", list[str]()
    for line in [*text.splitlines(), "end:"]:
        found = _KEY.match(line)
        if found is None:
            lines.append(line.strip())
            continue
        if name:
            head[name] = _parse_value("\n".join(part for part in lines if part))
        name, lines = found[1], [found[2].strip()]
    return head


def _parse_value(text: str) -> Any:
    text = re.sub(r"\A[>|][+-]?(?:\s+|\Z)", "", text)
    if text[:1] in ("{", "["):
        try:
            return parse_json5(text)
        except (ValueError, RecursionError):
            return None
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return {"true": True, "false": False}.get(text, " ".join(text.split()))
