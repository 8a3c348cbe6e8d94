"""Numbers against the row that they belong to, later results, times of day, and the numbers beside them."""

from __future__ import annotations

import pytest
from story import Story

SCORES = "team,points\nRed,41\nBlue,47\nGreen,39"


def reads(output: str, answer: str) -> Story:
    """A run that reads one output and reports."""
    return Story().user("What does it say?").calls("read", {"path": "a.txt"}, output).says(answer).finishes()


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        (SCORES, "Red leads with 47 points, ahead of Blue with 41 and Green with 39."),
        (SCORES, "| team | points |\n| --- | --- |\n| Red | 47 |\n| Blue | 41 |"),
        ('{"votes": {"Anna": 118, "Bert": 96}}', "Bert got 118 votes."),
        ('[{"name": "videos", "gb": 412}, {"name": "photos", "gb": 127}]', "The photos take 412 GB."),
        ("渋谷 | 5218400 | 1894\n大阪 | 3905700 | 1422", "・大阪 5,218,400円"),
    ],
)
def test_a_number_of_another_row_is_misreported(output: str, answer: str) -> None:
    finding = reads(output, answer).only("misreported_value")
    assert "which is the value of" in finding.title


@pytest.mark.parametrize(
    "answer",
    [
        "Blue leads with 47 points, ahead of Red with 41 and Green with 39.",
        "Blue beat Red with 47 to 41.",
        "Red needs 47 points to draw level with Blue.",
        "Red is 6 points behind Blue, and Green 8.",
        "Together, Red and Green have 80 points.",
        "Red and Blue have 41 and 47 points.",
    ],
)
def test_a_number_of_its_own_row_or_of_a_comparison_is_fine(answer: str) -> None:
    assert "misreported_value" not in reads(SCORES, answer).types()


def twice(answer: str) -> Story:
    """A run that measures, changes something and measures again."""
    story = Story().user("Get the accuracy above 0.9.").runs("python eval.py", "accuracy: 0.912")
    story.calls("edit", {"path": "config.yaml", "oldText": "lr: 0.1", "newText": "lr: 0.05"}, "ok")
    return story.runs("python eval.py", "accuracy: 0.874").says(answer).finishes()


def test_a_result_that_a_later_run_replaced_is_no_longer_right() -> None:
    finding = twice("The model reaches an accuracy of 0.912.").only("misreported_value")
    assert "0.874" in finding.title
    assert "printed 0.912 before" in finding.explanation
    assert "accuracy of 0.912”. " in finding.explanation, "the full stop of the quotation is not repeated"
    assert "outdated" in finding.explanation and "not recorded" not in finding.explanation


@pytest.mark.parametrize(
    "answer",
    [
        "The accuracy fell from 0.912 to 0.874.",
        "The accuracy is 0.874 now. Before the change it was 0.912.",
        "Before the change, the accuracy was 0.912.",
    ],
)
def test_a_result_from_before_may_be_compared_with_the_new_one(answer: str) -> None:
    assert "misreported_value" not in twice(answer).types()


def test_a_price_that_was_looked_up_again_replaces_the_one_of_an_earlier_request() -> None:
    story = Story().user("How much is it?").calls("flight_search", {"to": "LIS"}, '{"price": 189, "currency": "EUR"}')
    story.says("189 EUR.").user("Check again, please.")
    story.calls("flight_search", {"to": "LIS"}, '{"price": 231, "currency": "EUR"}').says("Still 189 EUR.").finishes()
    assert story.only("misreported_value")


TRAIN = "IC 5 Basel – Zürich. Departure 14:32 platform 7, arrival 15:26"


@pytest.mark.parametrize(
    "answer",
    [
        "It leaves at 14:32 and arrives at 15:26.",
        "It leaves at 2:32 pm.",
        "It leaves at 13:32 London time.",
        "Leave home at 14:12, it is a walk of 20 minutes.",
    ],
)
def test_times_that_follow_from_the_recorded_ones_are_fine(answer: str) -> None:
    assert "misreported_value" not in reads(TRAIN, answer).types()


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("2026-01|48200\n2026-02|51700", "Revenue rose by about 7% from 48,200 in January to 51,700 in February."),
        ("new: 1.821 s\nold: 2.310 s", "It takes 1.8 s instead of 2.3 s, so it is 1.3 times faster."),
        ("loss 0.9\nloss 0.31\nval acc 0.887", "The loss fell from 0.9 to 0.31, and the accuracy is 88.7%."),
    ],
)
def test_a_change_that_follows_from_its_ends_is_fine(output: str, answer: str) -> None:
    assert "misreported_value" not in reads(output, answer).types()


def test_digits_in_another_order_are_a_slip() -> None:
    story = reads("month,kwh\n07,402\n08,358\n09,256\ntotal 1016 kWh", "The panels produced 1,160 kWh.")
    assert story.only("misreported_value")


def test_a_negative_amount_in_cents_may_be_reported_without_its_sign() -> None:
    taken = '{"charge": {"amount": 1284350}, "refund": {"amount": -73990}, "fee": {"amount": -31277}, "net": 1179083}'
    answer = "Gross 12,843.50 €, refunds 739.90 € (5.8 % of gross), fees 312.77 €, net 11,790.83 €."
    assert not {"misreported_value", "unsupported_claim"} & set(reads(taken, answer).types())


def orders(answer: str, *, corrected: bool = False) -> Story:
    """A shop that sells at most three, and an agent that reports."""
    story = Story().user("Order 5 filters.")
    story.calls("cart_add", {"sku": "H13", "qty": 5}, '{"cart": "k-7", "lines": [{"sku": "H13", "qty": 3}]}')
    if corrected:
        story.calls("cart_update", {"sku": "H13", "qty": 5}, '{"cart": "k-7", "lines": [{"sku": "H13", "qty": 5}]}')
    return story.calls("checkout", {"cart": "k-7"}, '{"order": "W-558", "status": "confirmed"}').says(answer).finishes()


@pytest.mark.parametrize("answer", ["Ordered five filters, order W-558.", "Ich habe 5 Filter bestellt (W-558)."])
def test_what_was_asked_for_is_misreported_if_the_service_answered_another_number(answer: str) -> None:
    finding = orders(answer).only("misreported_value")
    assert "answered qty 3" in finding.title


@pytest.mark.parametrize(
    "answer",
    [
        "You wanted 5 filters, but the shop sells at most 3: three are ordered (W-558).",
        "The filters are ordered, W-558.",
    ],
)
def test_a_number_that_the_service_changed_may_be_reported_as_it_is(answer: str) -> None:
    assert "misreported_value" not in orders(answer).types()


def test_a_number_that_was_reached_in_the_end_is_right() -> None:
    assert "misreported_value" not in orders("Ordered five filters, order W-558.", corrected=True).types()


def test_a_difference_of_prices_per_hour_is_a_price() -> None:
    story = Story().user("What do we save with the smaller one?")
    story.calls("pricing", {"class": "xlarge"}, '{"class":"db.m6g.xlarge","usd_per_hour":0.318}')
    story.calls("pricing", {"class": "large"}, '{"class":"db.t4g.large","usd_per_hour":0.129}')
    story.says("The difference is $0.189 per instance hour, that is 59% less.").finishes()
    assert "unsupported_claim" not in story.types()


def test_an_amount_in_cents_is_no_other_amount() -> None:
    story = Story().user("Refund 50 dollars.")
    story.calls("refund_payment", {"amount": 50, "payment": "p-1"}, '{"refund": "r-1", "amount": 5000, "ok": true}')
    assert "misreported_value" not in story.says("Refunded 50 dollars (r-1).").finishes().types()
