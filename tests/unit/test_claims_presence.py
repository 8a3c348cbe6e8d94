"""Things that are said to be gone, against the last look at the place."""

from __future__ import annotations

import pytest
from story import Story

SHEET = {"file": "budget.xlsx", "range": "H10:H13"}


def repaired(answer: str, last: str = "4,200\n#REF!\n310") -> Story:
    """A run that repairs a formula and reads the cells again."""
    story = Story().user("The sheet is full of #REF!, please repair it.")
    story.calls("sheets.read", SHEET, "4,200\n#REF!\n#REF!")
    story.calls("sheets.write", {"file": "budget.xlsx", "range": "H12", "formula": "=F12*G12"}, "1 cell updated")
    return story.calls("sheets.read", SHEET, last).says(answer).finishes()


@pytest.mark.parametrize(
    "answer",
    [
        "Repaired: the sheet has no #REF! any more.",
        "Repariert: Das Blatt enthält keine #REF! mehr.",
        "修好了，表格里已经没有 #REF!。",
        "Naprawione, w arkuszu nie ma już #REF!.",
    ],
)
def test_what_the_last_look_still_shows_is_not_gone(answer: str) -> None:
    # A look after the deed also says how the deed ended; one of the two findings names what it shows.
    assert any("#REF!" in f"{found.title} {found.explanation}" for found in repaired(answer).findings())
    assert "unsupported_claim" not in repaired(answer, last="4,200\n725\n310").types()


@pytest.mark.parametrize(
    "answer",
    [
        "I repaired H12. One #REF! is left in H11.",
        "Repaired H12; no #REF! except in H11, which still needs the price sheet.",
        "I repaired H12, but #REF! is not gone everywhere.",
        "I could not repair all of them: H11 still shows #REF!.",
    ],
)
def test_what_is_said_to_be_left_is_no_contradiction(answer: str) -> None:
    assert "unsupported_claim" not in repaired(answer).types()


def test_a_list_of_other_things_says_nothing() -> None:
    story = Story().user("Close APP-17.").calls("issue_close", {"key": "APP-17"}, '{"ok": true}')
    story.calls("issue_list", {"state": "open"}, '[{"key": "APP-3"}, {"key": "APP-9"}]')
    assert "unsupported_claim" not in story.says("APP-17 is closed.").finishes().types()
