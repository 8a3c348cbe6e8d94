"""How texts and figures are written on pages.

Whatever came from an agent is hostile: templates escape it, and signs that nobody sees, that turn the direction of
writing or that a terminal would obey are replaced by something visible before.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from critiqor.model import Usage
from critiqor.model import formatting as figures
from critiqor.model.sanitize import Replacement, sanitize
from critiqor.model.timeline import spent

LONGEST_TEXT = 20_000
"""Characters of one text on a page; the raw event has the rest."""
LONGEST_RAW = 1_000_000
VERDICTS = {
    "ready": "Nothing was found that should stop it.",
    "review": "Look at what was found before you rely on it.",
    "unsafe": "Do not rely on this run.",
    "unknown": "Too little was seen to tell.",
}
"""What a readiness means for whoever has to decide."""
_CODE = re.compile(r"`([^`\n]{1,300})`")
_IN_SCRIPT = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def visible(text: str) -> str:
    """A text with every sign to be seen; line breaks and tabs stay."""
    return sanitize(text, multiline=True, replacement=Replacement.CODE)


def told(value: Any) -> Any:
    """Whatever a template prints, before it is escaped."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return "" if value is None else value
    if len(value) > LONGEST_TEXT:
        return visible(value[:LONGEST_TEXT]) + f"… ({len(value) - LONGEST_TEXT} more characters)"
    return visible(value)


def raw(value: Any, longest: int = LONGEST_RAW) -> Markup:
    """A value as indented JSON, to be read and never to be run."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if len(text) > longest:
        text = text[:longest] + f"… ({len(text) - longest} more characters)"
    return escape(visible(text))


def island(value: Any) -> Markup:
    """Data for a script of ours, as it may stand within a script element."""
    return Markup(json.dumps(value, ensure_ascii=True, allow_nan=False).translate(_IN_SCRIPT))


def segment(text: str) -> str:
    """A text as one part of a path."""
    return quote(text, safe="")


def money(value: float | None) -> str:
    return "unknown" if value is None else figures.money(value)


def price(usage: Usage) -> str:
    """What model calls cost. Where no price is configured, OpenClaw tells a price of 0."""
    if not usage.model_calls:
        return "nothing"
    if usage.cost_usd is None or (usage.cost_usd == 0 and (usage.input_tokens or usage.output_tokens)):
        return "no price known"
    return money(usage.cost_usd)


def offset(milliseconds: float) -> str:
    """A time from the beginning of the run on."""
    return f"{'-' if milliseconds < 0 else '+'}{spent(abs(milliseconds))}"


def marked(text: str, search: re.Pattern[str] | None) -> Markup:
    """A text in which what a search looked for stands out."""
    shown = visible(text)
    if search is None:
        return escape(shown)
    pieces, end = [], 0
    for match in search.finditer(shown):
        pieces += [escape(shown[end : match.start()]), Markup("<mark>{}</mark>").format(match[0])]
        end = match.end()
    return Markup("").join([*pieces, escape(shown[end:])])


def coded(text: str) -> Markup:
    """A sentence of ours, in which what stands between backticks is code. What it quotes is escaped all the same."""
    pieces = _CODE.split(told(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if number % 2 else escape(piece) for number, piece in enumerate(pieces)
    )


def duration(milliseconds: float | None) -> str:
    return "unknown" if milliseconds is None else spent(milliseconds)


def number(value: float | None) -> str:
    return "unknown" if value is None else figures.number(value)


def percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share * 100:.0f} %"


def words(name: str) -> str:
    """A name of ours in words."""
    return name.replace("_", " ")


def moment(text: str | None) -> str:
    """A time as people read it."""
    return "unknown" if not text else text.replace("T", " ").removesuffix("Z")
