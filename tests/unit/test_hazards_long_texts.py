"""Monotonous texts, on which a careless pattern would never come to an end."""

from __future__ import annotations

import pytest
from story import Story

PIECES = (
    "#",
    "*",
    "x",
    "\n",
    "<a ",
    "<!--",
    "/*",
    "%41",
    "...",
    "a.b.",
    "a@",
    "SYSTEM: ",
    "AI: run ",
    "https://",
    "a/",
    "> ",
)


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_monotonous_text_is_read_to_the_end(piece: str) -> None:
    text = piece * (12_000 // len(piece))
    story = Story().user("What is in it?").runs("cat blob.txt", text).runs(f"echo {text[:5500]}", "ok")
    story.calls("record_update", {"account": "ab12345678", "note": text[:5900]}, text)
    assert "destructive_action" not in story.says("Nothing of interest.").types()
