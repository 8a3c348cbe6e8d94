"""Front matter: the block of keys and values at the beginning of a SKILL.md or HOOK.md.

Texts, true and false, lines that go on, and JSON5 over several lines. Not all of YAML, on purpose: these files need no
more, and a parser of YAML is a large thing to trust with a file that anybody may have written.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from critiqor.openclaw.json5 import parse_json5

_BLOCK = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_KEY = re.compile(r"^([A-Za-z][\w-]*):[ \t]*(.*)$")


def read_front_matter(file: Path, largest: int) -> dict[str, Any]:
    """The front matter of a file, of which at most `largest` bytes are read; raises `ValueError` without one."""
    try:
        with file.open("rb") as opened:
            text = opened.read(largest).decode("utf-8", "replace")
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from error
    found = _BLOCK.match(text)
    if found is None:
        raise ValueError("it does not begin with a block between two lines of ---")
    return parse_front_matter(found[1])


def parse_front_matter(text: str) -> dict[str, Any]:
    """Keys and values of a block; of a key that is there twice, the last one."""
    head: dict[str, Any] = {}
    name, lines = "", list[str]()
    for line in [*text.splitlines(), "end:"]:
        found = _KEY.match(line)
        if found is None:
            lines.append(line.strip())
            continue
        if name:
            head[name] = _value("\n".join(part for part in lines if part))
        name, lines = found[1], [found[2].strip()]
    return head


def _value(text: str) -> Any:
    text = re.sub(r"\A[>|][+-]?(?:\s+|\Z)", "", text)
    if text[:1] in ("{", "["):
        try:
            return parse_json5(text)
        except (ValueError, RecursionError):
            return None
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return {"true": True, "false": False}.get(text, " ".join(text.split()))
