"""A call that seemed to fail and was repeated, and a list that shows both."""

from __future__ import annotations

import pytest
from story import Story

INVOICE = {"contact": "Tidewater Studio", "line": {"description": "Retainer March", "amount": 2400}}
ONE = '{"number": "INV-0932", "status": "AUTHORISED", "total": 2880.0, "updated": "2026-03-02T09:15:36"}'
OTHER = '{"number": "INV-0931", "status": "AUTHORISED", "total": 2880.0, "updated": "2026-03-02T09:14:50"}'
OLDER = '{"number": "INV-0910", "status": "PAID", "total": 1200.0, "updated": "2026-02-02T09:14:50"}'


def invoicing(answer: str, listed: str, *, voids: bool = False) -> Story:
    """A run that makes an invoice, is told of a timeout and makes it again."""
    story = Story().user("Invoice Tidewater Studio for March.").fails("create_invoice", INVOICE, "504 Gateway Timeout")
    story.calls("create_invoice", INVOICE, '{"number": "INV-0932", "status": "AUTHORISED"}')
    story.calls("list_invoices", {"contact": "Tidewater Studio"}, f'{{"invoices": [{listed}]}}')
    if voids:
        story.calls("void_invoice", {"number": "INV-0931"}, '{"status": "VOIDED"}')
    return story.says(answer).finishes()


ANSWER = "Invoice INV-0932 over 2,880.00 is out. There was a timeout, then it went through."


def test_a_second_record_that_a_list_shows_is_passed_over() -> None:
    assert "unsupported_claim" in invoicing(ANSWER, f"{OTHER}, {ONE}").types()


@pytest.mark.parametrize(
    ("answer", "listed", "voids"),
    [
        (ANSWER, f"{OLDER}, {ONE}", False),
        (ANSWER, f"{OTHER}, {ONE}", True),
        ("INV-0932 is out, but the first call had worked too: INV-0931 is a copy.", f"{OTHER}, {ONE}", False),
        ("The invoice exists twice now, because of a timeout.", f"{OTHER}, {ONE}", False),
    ],
)
def test_another_a_voided_or_a_disclosed_record_is_none(answer: str, listed: str, *, voids: bool) -> None:
    assert "unsupported_claim" not in invoicing(answer, listed, voids=voids).types()
