"""Answers of app tools and HTTP services: JSON members, states and statements."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_results import answered, ran

from critiqor.diagnosis.results import meaning_of


@pytest.mark.parametrize(
    ("tool", "answer", "state"),
    [
        ("send_message", {"ok": True, "ts": "1"}, "success"),
        ("send_message", {"ok": False, "error": "channel_not_found"}, "failure"),
        (
            "telegram_send",
            {"ok": False, "error_code": 400, "description": "Bad Request: chat not found"},
            "failure",
        ),
        ("send_email", {"status": "queued", "id": "1"}, "not_final"),
        ("send_email", {"Status": "QUEUED"}, "not_final"),
        ("send_email", {"delivered": False}, "failure"),
        ("payments_refund", {"object": "error", "code": "charge_disputed"}, "failure"),
        ("send_email", {"status": "sent", "errors": [], "error": None}, "success"),
        ("send_email", {"data": {"message": {"deliveryStatus": "Bounced"}}}, "failure"),
        ("create_payment", {"id": "pi_1", "status": "requires_action"}, "not_final"),
        (
            "create_payment",
            {"error": {"type": "card_error", "message": "Your card was declined."}},
            "failure",
        ),
        ("create_payment", {"status": "succeeded", "last_payment_error": None}, "success"),
        ("deploy_app", {"state": "BUILDING"}, "not_final"),
        ("deploy_app", {"success": True, "deployment": {"state": "ERROR"}}, "failure"),
        ("deploy_app", {"statusCode": 202}, "not_final"),
        ("deploy_app", {"statusCode": 503, "body": "x"}, "failure"),
        ("deploy_app", {"statusCode": 200, "body": "x"}, "success"),
        ("create_order", {"status": "created", "previous": {"status": "failed"}}, "success"),
        (
            "create_order",
            {"status": "paid", "history": [{"status": "failed"}, {"status": "paid"}]},
            "success",
        ),
        ("create_order", {"success": True, "dry_run": True}, "not_final"),
        ("cancel_order", {"status": "Canceled"}, "success"),
        ("schedule_meeting", {"status": "scheduled"}, "success"),
        ("create_draft", {"status": "draft"}, "success"),
        ("send_email", {"status": "draft"}, "not_final"),
        ("import_rows", {"inserted": 98, "failed_count": 2}, "failure"),
        ("import_rows", {"inserted": 100, "failed_count": 0}, "success"),
        ("upload_files", {"uploaded": 3, "total": 5}, "failure"),
        ("upload_files", {"ok": True, "partial": True}, "failure"),
        ("call_api", {"data": {"a": 1}, "errors": [{"message": "x"}]}, "failure"),
        ("call_api", {"error_count": 0, "status": "ok"}, "success"),
        ("call_api", {"isError": True, "content": []}, "failure"),
        ("run_task", {"exitCode": 2, "output": ""}, "failure"),
        ("get_order", {"id": 1, "status": "cancelled"}, "unknown"),
        ("list_orders", [{"status": "failed"}, {"status": "paid"}], "unknown"),
        ("get_order", {"error": "not found"}, "failure"),
        ("get_order", {"success": False, "message": "no such order"}, "failure"),
        ("get_deployment", {"state": "failed"}, "failure"),
        ("get_job_status", {"status": "in_progress"}, "not_final"),
        ("search_web", {"results": [{"title": "error", "status": "failed"}]}, "unknown"),
        ("create_thing", {"id": 1, "name": "failed"}, "unknown"),
        ("post_comment", {"message": "Not Found", "documentation_url": "https://docs"}, "failure"),
    ],
)
def test_a_json_answer_says_what_happened(tool: str, answer: Any, state: str) -> None:
    assert answered(tool, answer).state == state


def test_items_are_counted() -> None:
    items = [{"to": "a", "status": "sent"}, {"to": "b", "status": "bounced"}, {"to": "c", "status": "sent"}]
    for answer in ({"results": items}, items):
        said = answered("send_newsletter", answer)
        assert (said.state, said.failed, said.passed, said.total) == ("failure", 1, 2, 3)
    said = answered("import_rows", {"succeeded": 4, "failed": 1})
    assert (said.state, said.failed, said.passed) == ("failure", 1, 4)


def test_the_member_that_decides_is_quoted() -> None:
    text = '{"id": 12, "data": {"status": "queued"}}'
    said = answered("send_email", text)
    assert (said.reason, said.quote, said.rule) == ("status is queued", '"status": "queued"', "json_state")
    assert text[said.start :].startswith(said.quote)


@pytest.mark.parametrize(
    ("tool", "text", "state"),
    [
        ("send_email", "Error: mailbox unavailable", "failure"),
        ("send_email", "Failed to send the message: timeout", "failure"),
        ("send_email", "Permission denied", "failure"),
        ("send_email", "Could not connect to smtp.example.com", "failure"),
        ("send_email", "404 Not Found", "failure"),
        ("send_email", "Message could not be delivered", "failure"),
        ("send_email", "Mailbox full", "failure"),
        (
            "send_email",
            "Delivery Status Notification (Failure)\n\nYour message to a@b.c was blocked.",
            "failure",
        ),
        ("send_email", "550 5.1.1 <a@b.c>: Recipient address rejected: User unknown", "failure"),
        ("send_email", "Email sent to ana@example.com", "success"),
        ("send_email", "Message queued for delivery", "not_final"),
        ("send_email", "Draft saved", "not_final"),
        ("send_email", "3 of 5 messages sent", "failure"),
        ("send_email", "Saved for Ana.", "success"),
        ("write_file", "Successfully wrote 120 bytes to error.log", "success"),
        ("deploy_site", "DRY RUN: nothing was deployed", "not_final"),
        ("deploy_site", "HTTP 202: Accepted", "not_final"),
        ("deploy_site", "A long story about nothing in particular.", "unknown"),
        ("read_file", "Error: ENOENT: no such file or directory, open 'a.txt'", "failure"),
        ("read_file", "# Notes\n\nError: this is what users see\nFailed to start: see below\n", "unknown"),
        ("read_file", "Error log of Monday\n" + "Error: disk full\n" * 40, "unknown"),
        ("web_search", "1. How to fix 'Permission denied'\n2. Error: EACCES explained\n", "unknown"),
        ("web_fetch", "Handling errors\n\n404 Not Found is a status code.\n" + "text " * 200, "unknown"),
        (
            "search_mail",
            "From: x\nSubject: Delivery Status Notification (Failure)\n" + "text " * 100,
            "unknown",
        ),
    ],
)
def test_a_statement_at_the_beginning_says_what_happened(tool: str, text: str, state: str) -> None:
    assert answered(tool, text).state == state


def test_an_answer_in_xml_is_read_and_a_page_is_not() -> None:
    refused = "<Report><GrpSts>RJCT</GrpSts><AddtlInf>Invalid control sum</AddtlInf></Report>"
    assert answered("ebics_upload", refused).state == "failure"
    assert answered("web_post", f"<html><body>{refused}</body></html>").state == "unknown"


def test_an_app_tool_that_is_asked_for_a_dry_run_did_nothing() -> None:
    assert answered("deploy_site", {"ok": True}, '{"dryRun":true,"site":"a"}').state == "not_final"
    assert answered("deploy_site", {"ok": True}, '{"dryRun":false,"site":"a"}').state == "success"


def test_a_reported_failure_of_an_app_tool_stays_one() -> None:
    assert answered("send_email", "hm", failed=True).reason == "reported as failed"
    assert answered("send_email", {"ok": False, "error": "quota"}, failed=True).reason == "error: quota"


@pytest.mark.parametrize(
    ("line", "text", "state"),
    [
        ("curl -s -X POST https://a.example/v1/mail -d x", "", "unknown"),
        ("curl -s -X POST https://a.example/v1/mail -d x", '{"status":"queued"}', "not_final"),
        ("curl -s https://a.example/v1/mail -d x", '{"ok":false,"error":"invalid_auth"}', "failure"),
        ("curl -s https://a.example/health", '{"status":"unhealthy"}', "failure"),
        ("curl -s https://a.example/orders/1", '{"status":"cancelled"}', "success"),
        ("curl -s https://a.example/orders/1", '{"error":{"code":404}}', "failure"),
        ("curl -s -o /dev/null -w '%{http_code}' https://a.example", "503", "failure"),
        ("curl -s -o /dev/null -w '%{http_code}\\n' https://a.example", "200\n", "success"),
        (
            "curl -s -o /dev/null -w '%{http_code} %{time_total}\\n' https://a.example",
            "502 0.041\n",
            "failure",
        ),
        ("curl -s -w '\\n%{http_code}' -X POST https://a.example -d x", '{"id":1}\n202', "not_final"),
        ("curl -si -X POST https://a.example -d x", 'HTTP/1.1 201 Created\nserver: x\n\n{"id":1}', "success"),
        ("curl -sI https://a.example", "HTTP/2 301\nlocation: /b\n\nHTTP/2 404\nserver: x\n", "failure"),
        (
            "curl -s https://a.example | head -c 300",
            "<html><head><title>502 Bad Gateway</title></head></html>",
            "failure",
        ),
        (
            "curl -fsS https://a.example | jq .",
            "curl: (22) The requested URL returned error: 404\n",
            "failure",
        ),
        ("curl https://a.example", "curl: (6) Could not resolve host: a.example\n", "failure"),
        (
            "wget https://a.example/a.zip 2>&1 | tail",
            "2024-01-01 10:00:00 ERROR 404: Not Found.\n",
            "failure",
        ),
        ("http POST a.example x=1", 'HTTP/1.1 422 Unprocessable Entity\n\n{"detail":"x"}', "failure"),
    ],
)
def test_the_answer_to_a_request_says_what_happened(line: str, text: str, state: str) -> None:
    assert ran(line, text, 0).state == state


def test_any_text_gives_a_meaning() -> None:
    for text in (
        "",
        "\x00",
        "{",
        "[",
        "[1, 2",
        '{"a": ' * 50,
        "null",
        "é" * 10000,
        "{}",
        "[]",
        '{"status": {"a": []}}',
    ):
        for tool in ("exec", "send_email", "read"):
            said = meaning_of(tool=tool, arguments="{", text=text, exit_code=None, reported_failure=False)
            assert said.state in ("unknown", "success"), text


@pytest.mark.parametrize(
    ("line", "text", "state"),
    [
        (
            "aws rds describe-db-instances --query 'DBInstances[0].DBInstanceStatus'",
            '"creating"',
            "not_final",
        ),
        ("gh run view 12 --json conclusion -q .conclusion", "failure\n", "failure"),
        ("kubectl get pod web -o jsonpath='{.status.phase}'", "Pending", "not_final"),
        ("docker inspect -f '{{.State.Health.Status}}' web", "unhealthy\n", "failure"),
        ("curl -s https://a.example/jobs/1 | jq -r .status", "completed\n", "success"),
        ("jq -r .status result.json", "failed\n", "success"),
        ("gh pr view 12 --json title -q .title", "failed\n", "success"),
    ],
)
def test_a_service_that_is_asked_for_a_state_answers_with_it(line: str, text: str, state: str) -> None:
    assert ran(line, text, 0).state == state


_WORDS = st.sampled_from(
    ["ok", "error", "status", "failed", "errors", "state", "code", "success", "items", "1 failed", ""]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_WORDS | st.text(max_size=5), inner, max_size=5),
    max_leaves=12,
)


@given(answer=_JSON)
def test_any_json_gives_a_meaning(answer: Any) -> None:
    said = answered("send_email", answer)
    assert len(said.quote) <= 160
    assert (said.state == "unknown") == (said.reason == "")


@given(
    line=st.text(alphabet="ab |&;><'\"$()\\\n{}!#-=?", max_size=30),
    text=st.text(max_size=60),
    code=st.sampled_from([None, 0, 1]),
)
def test_any_command_line_gives_a_meaning(line: str, text: str, code: int | None) -> None:
    said = ran(line, text, code)
    assert (said.state == "unknown") == (said.reason == "")


@pytest.mark.parametrize(
    ("statement", "answer", "state"),
    [
        ("update customers set email = 'a@x' where id = 7 and email = 'b@x'", "UPDATE 0", "failure"),
        ("update customers set email = 'a@x' where id = 7", "UPDATE 1", "success"),
        ("begin; insert into t values (1); rollback;", "BEGIN\nINSERT 0 1\nROLLBACK", "failure"),
        ("INSERT INTO t VALUES (1)", 'ERROR:  relation "t" does not exist', "failure"),
        ("select * from updates", "UPDATE 0", "unknown"),
    ],
)
def test_the_answer_to_a_statement_that_changes_a_database_is_read_like_that_of_its_client(
    statement: str, answer: str, state: str
) -> None:
    assert answered("sql", answer, json.dumps({"query": statement}, separators=(",", ":"))).state == state
