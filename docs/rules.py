"""Writes the help of each failure type in SARIF files from docs/failures.md, so that both say the same.

python docs/rules.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path

HERE = Path(__file__).parent
FILE = HERE.parent / "critiqor" / "exporters" / "rules.json"
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def rules_text() -> str:
    """Return the help of each failure type as JSON."""
    sections = (HERE / "failures.md").read_text(encoding="utf-8").split("\n## ")[1:]
    rules = dict(_section(section) for section in sections)
    return json.dumps(rules, indent=2, ensure_ascii=False) + "\n"


def _section(section: str) -> tuple[str, str]:
    title, _, body = section.partition("\n")
    # Lines are wrapped in the file; links do not work outside of it.
    joined = re.sub(r"\n(?!- )\s*", " ", _LINK.sub(r"\1", body).strip())
    first, _, rest = joined.partition("\n")
    return title.strip("`"), f"{first}\n\n{rest}"


if __name__ == "__main__":
    FILE.write_text(rules_text(), encoding="utf-8")
