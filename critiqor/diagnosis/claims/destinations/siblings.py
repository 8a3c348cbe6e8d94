"""Compound names that differ in one part: a request names `billing_eu`, and the calls used `billing_us`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from critiqor.diagnosis.claims.destinations.record_lists import Mismatch
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall

_NAME = re.compile(r"(?<![\w@-])[^\W\d_][^\W_]*(?:[_-][^\W_]+)+(?![\w@-])")
_PART = re.compile(r"[^\W_]+")
MIN_NAME = 5
"""Minimum number of characters of a compound name."""
MAX_NAMES = 20
"""Maximum number of names of a request that are looked for."""


def sibling_mismatches(episode: Episode, calls: list[EpisodeCall], asked: str) -> Iterator[Mismatch]:
    """Yield the names of a request that no call with an effect uses, while one uses a name that differs in one part."""
    wanted = [name for name in dict.fromkeys(_NAME.findall(episode.request.lower())) if len(name) >= MIN_NAME]
    if not wanted:
        return
    used = "\n".join(call.arguments for call in calls).lower()
    shapes = {}
    for name in wanted[:MAX_NAMES]:
        if name not in used:
            shapes[name] = _PART.split(name)
    if not shapes:
        return
    asked = asked.lower()
    for call in calls:
        for other in dict.fromkeys(_NAME.findall(call.arguments.lower())):
            for name, shape in shapes.items():
                if other not in asked and _PART.split(other) == shape and _differ_in_one_part(name, other):
                    yield Mismatch(call=call, kind="name", wanted=name, used=other, used_forms=(other,))


def _differ_in_one_part(one: str, other: str) -> bool:
    pairs = list(zip(_PART.findall(one), _PART.findall(other), strict=True))
    different = [(left, right) for left, right in pairs if left != right]
    # Numbered versions and dates follow each other: to write the next one is what was asked.
    return len(different) == 1 and not (different[0][0].isdigit() and different[0][1].isdigit())
