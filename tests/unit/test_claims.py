"""The claims of a diagnosis: what an agent asserts, each with its status and the events that decide it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from story import Story
from support import Runs, attached

from critiqor.model import Claim
from critiqor.run.diagnosis import diagnose
from critiqor.run.store import RunStore

PASSED = "12 passed in 0.31s"
SENT = '{"ok": true, "status": "sent"}'


def claims(story: Story, kind: str) -> list[Claim]:
    return [claim for claim in story.diagnosis().claims if claim.kind == kind]


def result_of(story: Story, number: int = -1) -> str:
    return [event.event_id for event in story.events if event.event_type == "tool_output"][number]


@pytest.mark.parametrize(
    ("answer", "claim"),
    [
        ("All 12 tests pass.", "All 12 tests pass."),
        ("Alle 12 Tests laufen erfolgreich durch.", "Alle 12 Tests laufen erfolgreich durch."),
        ("Todas las pruebas pasan.", "Todas las pruebas pasan."),
    ],
)
def test_check_that_passed_supports_the_claim_that_it_does(answer: str, claim: str) -> None:
    story = Story().user("run the tests").runs("pytest -q", PASSED).says(answer).finishes()
    [found] = claims(story, "check")
    assert (found.text, found.status, found.evidence) == (claim, "supported", [result_of(story)])


def test_action_that_was_confirmed_supports_its_report() -> None:
    story = Story().user("mail the invoice to Ada").calls("send_email", {"to": "ada", "subject": "invoice"}, SENT)
    [found] = claims(story.says("The invoice was sent to Ada.").finishes(), "action")
    assert (found.status, found.evidence) == ("supported", [result_of(story)])


def test_check_before_the_last_change_supports_nothing() -> None:
    story = Story().user("fix it").runs("pytest -q", PASSED)
    story.calls("edit", {"path": "a.py", "oldText": "a", "newText": "b"}, "Successfully replaced text in a.py.")
    story.says("Fixed, and all tests pass.").finishes()
    assert [claim.status for claim in claims(story, "check")] == ["unsupported"]
    assert "before the last change" in story.only("unsupported_claim").title


def test_plan_and_question_are_no_claims() -> None:
    story = Story().user("run the tests").runs("pytest -q", PASSED)
    story.says("I will run the tests again tomorrow. Should the tests pass on Windows too?").finishes()
    assert claims(story, "check") == []


def test_value_names_the_event_that_it_comes_from() -> None:
    story = Story().user("we sold 480 last year; how many now?").runs("wc -l sales.csv", "512 sales.csv")
    story.says("You sold 512, up from 480: 32 more.").finishes()
    found = {claim.text: claim for claim in claims(story, "value")}
    asked = next(event.event_id for event in story.events if event.payload.get("role") == "user")
    assert found["512"].evidence == [result_of(story)]
    assert found["480"].evidence == [asked]
    assert (found["32"].status, found["32"].evidence) == ("supported", [result_of(story)])


def _invented_number(output: Any) -> Story:
    story = Story().user("open a ticket about the lift").calls("read", {"path": "tickets.log"}, output)
    return story.says("The ticket is SR-20481.").finishes()


def test_identifier_that_appears_nowhere_is_unsupported() -> None:
    story = _invented_number("ticket accepted")
    assert [claim.status for claim in claims(story, "value")] == ["unsupported"]
    assert story.types() == ["unsupported_claim"]


@pytest.mark.parametrize(
    "output",
    [
        [{"type": "text", "cut": True, "size": 90_000, "digest": "sha256:00", "text": "ticket accepted"}],
        "ticket accepted, token [redacted:token:0123456789ab]",
    ],
    ids=["cut by the recorder", "redacted"],
)
def test_identifier_that_may_be_in_a_missing_part_is_unverifiable(output: Any) -> None:
    story = _invented_number(output)
    assert [claim.status for claim in claims(story, "value")] == ["unverifiable"]
    assert "unsupported_claim" not in story.types()


@pytest.mark.parametrize("has_source", [True, False])
def test_identifier_is_looked_up_in_all_of_a_long_output(runs: Runs, has_source: bool) -> None:
    half = "filler line\n" * 2000
    story = _invented_number(half + ("ticket SR-20481 accepted\n" if has_source else "") + half)
    run_id = runs.start()
    runs.write(run_id, attached(), *map(msgspec.to_builtins, story.events))
    runs.finalize(run_id)
    diagnosis = diagnose(RunStore(runs.folder).run(run_id))
    [claim] = [claim for claim in diagnosis.claims if claim.kind == "value"]
    assert claim.status == ("supported" if has_source else "unsupported")
    assert [finding.type for finding in diagnosis.failure_analysis.findings] == (
        [] if has_source else ["unsupported_claim"]
    )


def test_task_that_worked_when_the_user_asked_again_is_achieved() -> None:
    story = Story().user("deploy it").fails("deploy", {"to": "production"}, "connection refused")
    story.says("The deployment failed: connection refused.").finishes()
    story.turns_to("run-2").user("try again").calls("deploy", {"to": "production"}, '{"ok": true}')
    task = story.says("Deployed to production.").finishes().diagnosis().outcome.task
    assert task is not None and task.verdict == "achieved"


def test_task_that_failed_and_was_left_at_that_is_not_achieved() -> None:
    story = Story().user("deploy it").fails("deploy", {"to": "production"}, "connection refused")
    story.says("The deployment failed: connection refused.").finishes()
    story.turns_to("run-2").user("what is the time?").says("It is noon.")
    diagnosis = story.finishes().diagnosis()
    assert diagnosis.outcome.task is not None and diagnosis.outcome.task.verdict == "not_achieved"
    assert diagnosis.readiness != "ready" and diagnosis.trust_score == 100


def test_a_message_to_others_does_not_show_what_it_says() -> None:
    story = Story().user("Roll out payments 2.18.0 and post it in #releases.")
    story.runs("kubectl set image deploy/payments web=payments:2.18.0", "deployment.apps/payments image updated")
    story.runs("kubectl get pods -l app=payments", "payments-7f-pz   0/1     CrashLoopBackOff   5          3m")
    story.calls("message", {"to": "#releases", "text": "payments 2.18.0 is rolled out."}, '{"ok": true}')
    diagnosis = story.says("payments 2.18.0 is rolled out. Posted in #releases.").finishes().diagnosis()
    rolled_out = [claim for claim in diagnosis.claims if "rolled out" in claim.text]
    assert not any(claim.status == "supported" for claim in rolled_out)
