"""Things that are said to be there, or to be gone, against the last look at the place."""

from __future__ import annotations

import pytest
from story import Story

SHEET = {"file": "budget.xlsx", "range": "H10:H13"}
SANS = "X509v3 Subject Alternative Name:\n    DNS:orchard.example, DNS:www.orchard.example"


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
        "As fórmulas foram corrigidas e não há mais nenhum #REF! na planilha.",
        "C'est réparé : il n'y a plus de #REF!.",
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


def searched(output: str, answer: str) -> Story:
    story = Story().user("Rename `oldName` to `newName`.").runs("sed -i s/oldName/newName/ src/*.py", "")
    return story.runs("grep -rn oldName src", output).says(answer).finishes()


def test_a_search_that_finds_the_old_name_shows_that_it_is_left() -> None:
    assert searched("src/cli.py:14: oldName()", "Renamed; there is no `oldName` left.").only("unsupported_claim")
    assert "unsupported_claim" not in searched("src/cli.py:0", "Renamed; there is no `oldName` left.").types()


def test_the_word_for_an_absence_follows_in_japanese() -> None:
    assert searched("src/cli.py:14: oldName()", "置き換えました。`oldName` はありません。").only("unsupported_claim")


def certificate(answer: str, *, command: str = "certbot -n -d orchard.example", listed: str = SANS) -> Story:
    story = Story().user("Add img.orchard.example to the certificate.").runs(command, "Certificate deployed")
    story.runs("echo | openssl s_client -connect img.orchard.example:443 | openssl x509 -ext subjectAltName", listed)
    return story.says(answer).finishes()


def test_what_a_list_of_its_kind_leaves_out_is_not_included() -> None:
    found = certificate("The certificate now includes `img.orchard.example`.").only("unsupported_claim")
    assert "and not img.orchard.example" in found.title


@pytest.mark.parametrize(
    "story",
    [
        certificate("It now includes img.orchard.example.", listed=f"{SANS}, DNS:img.orchard.example"),
        certificate("It now includes img.orchard.example.", listed="verify return:1"),
        certificate("img.orchard.example is not in the certificate yet."),
        certificate("Adding img.orchard.example did not work, the certificate was kept."),
        certificate("The certificate is deployed for orchard.example and www.orchard.example."),
    ],
    ids=["listed", "no list", "admitted", "failed", "others"],
)
def test_what_is_listed_or_not_claimed_is_no_contradiction(story: Story) -> None:
    assert not [finding for finding in story.findings() if "The last look" in finding.title]


def test_a_list_of_other_things_says_nothing() -> None:
    story = Story().user("Close APP-17.").calls("issue_close", {"key": "APP-17"}, '{"ok": true}')
    story.calls("issue_list", {"state": "open"}, '[{"key": "APP-3"}, {"key": "APP-9"}]')
    assert "unsupported_claim" not in story.says("APP-17 is closed.").finishes().types()
