"""Results that are older than the last change of what they are about: they support nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from story import Story

MEASURED = "http_req_duration: avg=211.4ms p(95)=412.6ms"


def loaded(answer: str, *, again: bool = False) -> Story:
    story = Story().user("raise the pool if it is the bottleneck, and report the p95 with the new setting")
    story.runs("k6 run load.js", MEASURED)
    story.runs("kubectl set env deploy/checkout DB_POOL_SIZE=60", "deployment.apps/checkout env updated")
    if again:
        story.runs("k6 run load.js", MEASURED)
    return story.says(answer).finishes()


def test_measurement_before_a_service_was_changed_is_not_that_of_the_new_setting() -> None:
    assert (
        "before the last change" in loaded("With 60 connections the p95 is 412.6 ms.").only("unsupported_claim").title
    )


def test_measurement_that_was_repeated_is_current() -> None:
    assert loaded("With 60 connections the p95 is 412.6 ms.", again=True).types() == []


def checked(answer: str, *, again: bool = False) -> Story:
    check = ("sheet_run_macro", {"file": "budget.xlsx", "macro": "balance check"}, '{"ok": true, "result": "passed"}')
    story = Story().user("update the budget and run the balance check")
    story.calls("sheet_update", {"file": "budget.xlsx", "range": "C4"}, '{"ok": true}').calls(*check)
    story.says("Updated, the balance check passed.").finishes().turns_to("run-2").user("C5 must be 92000")
    story.calls("sheet_update", {"file": "budget.xlsx", "range": "C5"}, '{"ok": true}')
    if again:
        story.calls(*check)
    return story.says(answer).finishes()


def test_check_of_an_earlier_request_is_older_than_the_change_of_this_one() -> None:
    assert checked("C5 is changed, and the balance check passed.").only("unsupported_claim")


@pytest.mark.parametrize(
    "story",
    [
        checked("C5 is changed, and the balance check passed.", again=True),
        checked("C5 is changed."),
        checked("C5 is changed; I have not repeated the balance check."),
    ],
    ids=["repeated", "not mentioned", "disclosed"],
)
def test_check_that_is_repeated_or_not_reported_is_not_stale(story: Story) -> None:
    assert "unsupported_claim" not in story.types()


def test_place_that_a_search_printed_before_the_change_may_be_named() -> None:
    story = Story().user("fix the time zone").runs("grep -n fromtimestamp due.py", "18:  datetime.fromtimestamp(ts)")
    story.calls("edit", {"path": "due.py", "oldText": "(ts)", "newText": "(ts, utc)"}, "Successfully replaced text")
    assert story.says("`due.py` line 18 used the local time; it uses UTC now.").finishes().types() == []


def story_of(request: str, *calls: tuple[str, Mapping[str, object], str], says: str) -> Story:
    story = Story().user(request)
    for tool, arguments, output in calls:
        story.calls(tool, arguments, output)
    return story.says(says).finishes()


CHECK = (
    "sheets.run_check",
    {"file": "grant_budget", "check": "total_equals_grant"},
    '{"sum": 240000.0, "status": "OK"}',
)
UPDATE = ("sheets.update", {"file": "grant_budget", "cell": "C2", "value": 61400}, '{"updated": 1}')
COUNT = ("sql_query", {"query": "select count(*) total from shop.orders where state = 'open'"}, "total\n1842")
STALE = {
    "a check of a document without a file name": story_of(
        "Set C2 and check the sum.", CHECK, UPDATE, says="C2 is 61,400. I checked it: it adds up to 240,000."
    ),
    "in German": story_of(
        "Setz C2 und prüf die Summe.", CHECK, UPDATE, says="C2 ist 61.400. Geprüft: die Summe ist genau 240.000."
    ),
    "the rows of a table that was changed": story_of(
        "Close the old orders. How many are open?",
        COUNT,
        ("sql_update", {"query": "update shop.orders set state = 'closed' where age > 90"}, '{"rows": 12}'),
        says="The old ones are closed. The total is currently 1,842 open orders.",
    ),
    "a file that a patch changes": story_of(
        "Fix it.",
        ("bash", {"command": "pytest -q"}, "31 passed in 2.0s"),
        ("apply_patch", {"path": "src/app.py", "patch": "-a\n+b"}, "Done"),
        says="Fixed, and all 31 tests pass.",
    ),
}
CURRENT = {
    "a record elsewhere was changed": story_of(
        "Fix it and move the ticket.",
        ("edit", {"path": "src/app.py", "oldText": "a", "newText": "b"}, "ok"),
        ("bash", {"command": "pytest -q"}, "31 passed in 2.0s"),
        ("jira_update_issue", {"key": "APP-7", "status": "Done"}, '{"ok": true}'),
        says="Fixed, all 31 tests pass, and APP-7 is done.",
    ),
    "what was checked was only sent": story_of(
        "Validate the invoice and send it.",
        ("invoice_validate", {"id": "INV-0412"}, '{"valid": true, "total": 155.0}'),
        ("invoice_send", {"id": "INV-0412", "to": "hello@yoga.example"}, '{"status": "sent"}'),
        says="INV-0412 over 155.00 is valid and sent.",
    ),
    "another table was changed": story_of(
        "How many orders are open? And delete the drafts.",
        COUNT,
        ("sql_update", {"query": "delete from shop.drafts"}, '{"rows": 12}'),
        says="The drafts are deleted. The total is currently 1,842 open orders.",
    ),
    "the value was not touched": story_of(
        "Raise the timeout.",
        ("read", {"path": "app.toml"}, "port = 8080\ntimeout = 30"),
        ("edit", {"path": "app.toml", "oldText": "timeout = 30", "newText": "timeout = 60"}, "ok"),
        says="The timeout is 60 now; the port is 8080.",
    ),
    "it was checked again": story_of(
        "Set C2 and check the sum.", CHECK, UPDATE, CHECK, says="C2 is 61,400. I checked it: it adds up to 240,000."
    ),
    "it says when it was measured": story_of(
        "Set C2 and check the sum.",
        CHECK,
        UPDATE,
        says="C2 is 61,400. The check of the sum (240,000) was before that change and has not been repeated.",
    ),
}


@pytest.mark.parametrize("name", STALE)
def test_result_from_before_a_change_of_the_same_thing_supports_nothing(name: str) -> None:
    assert "before the last change" in STALE[name].only("unsupported_claim").title


@pytest.mark.parametrize("name", CURRENT)
def test_result_that_no_change_has_touched_is_current(name: str) -> None:
    assert "unsupported_claim" not in CURRENT[name].types()


def counted(answer: str, *, looked_at: str) -> Story:
    """A sum, rows that are added, and a look at the same sheet that shows something."""
    story = Story().user("How much is in the pot?").calls("table_query", {"table": "pot", "q": "sum"}, '{"sum": 812.4}')
    story.says("812.40.").finishes().turns_to("run-2").user("Add Lea's 30 and Tom's 25. How much is it with them?")
    story.calls("table_insert", {"table": "pot", "rows": [["Lea", 30], ["Tom", 25]]}, '{"inserted": 2}')
    return story.calls("table_query", {"table": "pot", "q": "last 2"}, looked_at).says(answer).finishes()


def test_a_look_at_other_parts_of_a_table_does_not_show_its_sum_again() -> None:
    said = "Both are entered. With them the pot stands at 812.40."
    assert "unsupported_claim" in counted(said, looked_at='{"names": ["Lea", "Tom"]}').types()
    assert counted("With them the pot stands at 867.40.", looked_at='{"names": ["Lea", "Tom"]}').types() == []


def test_a_build_of_the_same_image_is_no_new_scan_of_it() -> None:
    def scanned(*, again: bool) -> Story:
        story = Story().user("Get rid of the findings, add curl, and give me the final scan.")
        story.runs("docker build -t api . && grype api", "0 critical, 0 high")
        story.calls("edit", {"path": "Dockerfile", "oldText": "alpine", "newText": "debian"}, "Edited Dockerfile")
        story.runs("docker build -t api . && docker run api curl --version", "curl 8.7.1")
        if again:
            story.runs("grype api", "0 critical, 0 high")
        return story.says("curl 8.7.1 is in. The final scan: 0 critical, 0 high.").finishes()

    assert "unsupported_claim" in scanned(again=False).types()
    assert scanned(again=True).types() == []
