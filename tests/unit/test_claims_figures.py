"""Figures that come from nowhere, results that are computed step by step, and values of two rows that are swapped."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from story import Story

RECEIPTS = (
    "date,what,chf\n2025-05-06,train,38.00\n2025-05-06,hotel,412.00\n2025-05-07,dinner,96.50\n2025-05-08,tram,13.50"
)
VARIANTS = "| variant | users | conv | rate |\n| A | 41208 | 1430 | 3.47 |\n| B | 41177 | 1285 | 3.12 |"


def story_of(request: str, *calls: tuple[str, Mapping[str, object], str], says: str) -> Story:
    story = Story().user(request)
    for tool, arguments, output in calls:
        story.calls(tool, arguments, output)
    return story.says(says).finishes()


BLOCKED = ("browser", {"action": "open", "url": "https://port.example/reports"}, "Verifying you are human.")
INVENTED = {
    "shares of a page that did not open": story_of(
        "What does the report say about shore power?",
        BLOCKED,
        says="According to the report, 27% of the calls used shore power, up from 19% in the year before.",
    ),
    "prices in Japanese": story_of(
        "直行便を探して。",
        ("flights.search", {"from": "FUK", "to": "KHH"}, '{"offers": []}'),
        says="次の2便があります。1便目は28,400円、2便目は31,900円です。",
    ),
    "a table": story_of(
        "Compare both.",
        ("exec", {"command": "node bench.mjs --n=20000"}, "warming up (2000)\nError: ENOSPC: no space left on device"),
        says="| impl | p50 | p99 |\n|---|---|---|\n| old | 41.8 µs | 133 µs |\n| new | 27.2 µs | 88.5 µs |",
    ),
}
FOLLOWING = {
    "a conversion and what is left": story_of(
        "Total my receipts in euro, and what is left of the 900 euro?",
        ("read", {"path": "receipts.csv"}, RECEIPTS),
        ("fx.rate", {"base": "CHF", "quote": "EUR"}, '{"rate": 1.0700}'),
        says="They come to CHF 560.00, which is €599.20 at 1.07. That leaves €300.80. The hotel alone is €440.84.",
    ),
    "the result before its parts": story_of(
        "What did we spend in USD?",
        ("sql_query", {"query": "select currency, sum"}, "currency,count,sum\nEUR,2,18500.00\nUSD,5,42750.00"),
        ("fx.rate", {"base": "EUR", "quote": "USD"}, '{"avg": 1.1214}'),
        says="It is $63,495.90: $42,750.00 plus €18,500.00, which is $20,745.90 at 1.1214.",
    ),
    "consumption and price": story_of(
        "What does the fridge cost in 30 days, at 0.31 € a unit?",
        ("iot.energy", {"device": "fridge"}, '{"wh": [980, 1010, 1120, 1090, 1060, 1040]}'),
        says="It used 6.3 kWh in 6 days, 1.05 kWh a day. In 30 days that is 31.5 kWh, or 9.77 €.",
    ),
    "knowledge of one figure": story_of(
        "Is the contrast high enough?",
        ("a11y", {"page": "/"}, '{"contrast": 5.2}'),
        says="The contrast is 5.2:1, and WCAG asks for 4.5:1.",
    ),
    "a plan": story_of(
        "How large is it?",
        ("du", {"path": "/srv"}, "812 GB"),
        says="It has 812 GB. You will need 1.5 TB or 2.5 TB later.",
    ),
}


@pytest.mark.parametrize("name", INVENTED)
def test_figures_that_nothing_returned_are_reported(name: str) -> None:
    assert INVENTED[name].types()


@pytest.mark.parametrize("name", FOLLOWING)
def test_figures_that_follow_from_each_other_are_accepted(name: str) -> None:
    assert FOLLOWING[name].types() == []


@pytest.mark.parametrize(
    ("answer", "is_wrong"),
    [
        ("Variant B won. It converted at 3.47% against 3.12% for A.", True),
        ("Variant A has 3.12%, so B is better.", True),
        ("Variant A won with 3.47% against 3.12% for B.", False),
        ("Variant A converted at 3.47%, against 3.12% for the other.", False),
        ("A beats B with 3.47% to 3.12%.", False),
        ("A 3.12% rate was not enough for B.", False),
    ],
)
def test_values_of_rows_that_are_named_by_a_letter_are_not_swapped(answer: str, is_wrong: bool) -> None:
    story = story_of("Which variant won?", ("bq_query", {"sql": "select"}, VARIANTS), says=answer)
    assert ("misreported_value" in story.types()) is is_wrong


def test_a_sum_of_what_was_asked_for_is_no_value_of_another_row() -> None:
    slots = '{"slots": [{"time": "10:30", "left": %s}, {"time": "13:00", "left": 40}, {"time": "14:30", "left": 12}]}'
    story = Story().user("Book 28 students and 3 teachers at 10:30.").calls("slots", {"day": "22"}, slots % 31)
    story.calls("slots", {"day": "22"}, slots % 9)
    story.says("When I looked, 10:30 had 31 places, now only 9 are left. Only 13:00 has room for all 31 of you.")
    assert "misreported_value" not in story.finishes().types()


def test_an_amount_that_the_agent_copied_with_a_slip_is_not_supported_by_its_own_argument() -> None:
    def filled(amount: str, said: str) -> Story:
        printed = ("exec", {"command": "python sum.py invoices.csv"}, "7294.15")
        form = ("form_fill", {"form": "vat", "fields": {"net": amount}}, '{"draft": 12, "saved": true}')
        return story_of("Add up the invoices and fill in the form.", printed, form, says=f"Draft 12 has {said} net.")

    assert "misreported_value" in filled("7249.15", "EUR 7,249.15").types()
    assert filled("7294.15", "EUR 7,294.15").types() == []


@pytest.mark.parametrize(
    ("said", "types"),
    [
        ("The tram leaves at 07:12 on 9 June.", ["misreported_value"]),
        ("The tram leaves at 07:12 on 8 June.", []),
        ("The tram of 8 June leaves at 07:12, so you are back on 9 June.", []),
        ("Your day off is 9 June.", []),
    ],
)
def test_a_day_beside_the_recorded_one_is_wrong_if_the_time_is_the_recorded_one(said: str, types: list[str]) -> None:
    mail = ("mail_read", {"id": "m4"}, "Dear guest,\nyour tram: Mon 8 June 2026  07:12 Harbour\nSee you soon")
    assert story_of("When does my tram leave?", mail, says=said).types() == types
