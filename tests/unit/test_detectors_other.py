"""Skills, subagents, work that was left undone, and secrets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from story import Story
from support import Runs, attached, recorded

# Skills.

INVOICE = "python skills/invoice/make.py"


def test_skill_that_keeps_failing_is_found_once() -> None:
    story = Story().user("make the invoice")
    for _ in range(3):
        story.runs(INVOICE, "KeyError: total", exit_code=1)
    finding = story.says("It does not work: KeyError.").finishes().only("skill_failure")
    assert (finding.cause, finding.severity) == ("skill_failure:invoice:failing", "medium")
    assert story.types() == ["skill_failure"], "that it was tried again and again is the same thing"


def test_skill_that_cannot_be_read_is_found() -> None:
    story = Story().fails("read", {"path": "skills/invoice/SKILL.md"}, "ENOENT: no such file")
    assert story.says("I could not read it.").finishes().only("skill_failure").occurrences == 1


@pytest.mark.parametrize(
    "use",
    [
        lambda story: story.runs(INVOICE, "KeyError", exit_code=1).says("It failed with a KeyError."),
        lambda story: story.runs(INVOICE, "KeyError", exit_code=1).runs(INVOICE, "KeyError", exit_code=1).runs(INVOICE),
        lambda story: story.runs("ls", "skills").says("There are skills."),
    ],
    ids=["one failure", "worked in the end", "only mentioned"],
)
def test_skill_that_was_learnt_or_not_used_is_none(use: Any) -> None:
    assert "skill_failure" not in use(Story()).says("Here you are.").finishes().types()


def test_skill_that_the_user_asked_for_and_nobody_opened_is_found() -> None:
    story = Story().user("Use the invoice skill for March").runs("ls", "a b").says("Here is a list.").finishes()
    finding = story.only("skill_failure")
    assert (finding.cause, finding.severity) == ("skill_failure:invoice:ignored", "low")


@pytest.mark.parametrize(
    "ask",
    [
        "Use your best skill for this",
        "use the right skill",
        "Do not use the invoice skill here",
        "don't use the invoice skill",
        "write it with great skill",
        "use the invoice skills folder as an example",
    ],
)
def test_talk_of_skills_is_no_request_for_one(ask: str) -> None:
    assert Story().user(ask).runs("ls", "a b").says("Here is a list.").finishes().types() == []


def test_skill_that_was_opened_is_not_ignored() -> None:
    story = Story().user("use the invoice skill").calls("read", {"path": "~/skills/Invoice/SKILL.md"}, "How to")
    assert story.says("Here it is.").finishes().types() == []


def test_agent_that_says_that_there_is_no_such_skill_is_none() -> None:
    story = Story().user("use the invoice skill").runs("ls skills", "weather")
    assert story.says("I could not find an invoice skill, only weather.").finishes().types() == []


# Subagents.

CHILD = "agent:main:subagent:4f1e"


def spawning(story: Story) -> Story:
    """The call by which OpenClaw starts a subagent, whose own events go by its own session."""
    accepted = f'{{"status":"accepted","childSessionKey":"{CHILD}","runId":"child-1"}}'
    story.calls("sessions_spawn", {"task": "look it up"}, accepted)
    story.turns_to("child-1", CHILD).event("subagent_spawned", payload={"childSessionKey": CHILD, "runId": "child-1"})
    return story.turns_to("run-1", "agent:main:main")


def ended(story: Story, outcome: str, **fields: Any) -> Story:
    story.turns_to("child-1", CHILD)
    story.event("subagent_ended", payload={"targetSessionKey": CHILD, "outcome": outcome}, **fields)
    return story.turns_to("run-1", "agent:main:main")


@pytest.mark.parametrize("outcome", ["error", "timeout"])
def test_child_that_failed_is_found_in_the_run_that_started_it(outcome: str) -> None:
    story = spawning(Story().user("look it up")).says("I asked a subagent.").finishes()
    ended(story, outcome, status="error", error=f"ended with {outcome}")
    finding = story.only("subagent_failure")
    assert (finding.severity, finding.agent_run_id) == ("medium", "run-1")
    assert outcome in finding.title


def test_child_without_a_known_parent_is_found_as_well() -> None:
    story = ended(Story().user("look it up"), "timeout", status="error", error="ended with timeout")
    assert story.only("subagent_failure").session_key == CHILD


def test_child_that_was_killed_on_purpose_weighs_little() -> None:
    story = ended(spawning(Story()), "killed", status="error", error="ended with killed").says("I stopped it.")
    assert story.finishes().only("subagent_failure").severity == "low"


def test_work_that_is_called_done_while_a_child_still_works_is_found() -> None:
    story = spawning(Story().user("look it up")).says("Everything is done.").finishes()
    finding = ended(story, "ok").only("subagent_failure")
    assert finding.cause == "subagent_failure:unfinished"


@pytest.mark.parametrize("outcome", ["ok", "reset", "deleted"])
def test_child_that_ended_before_its_parent_spoke_is_none(outcome: str) -> None:
    assert ended(spawning(Story()), outcome).says("Everything is done.").finishes().types() == []


@pytest.mark.parametrize(
    "said", ["I have created a subagent for this.", "I'll report back once it has finished.", "NO_REPLY"]
)
def test_parent_that_leaves_its_child_to_work_is_none(said: str) -> None:
    assert ended(spawning(Story().user("look it up")).says(said).finishes(), "ok").types() == []


def test_own_words_of_a_child_are_no_report_of_its_parent() -> None:
    story = spawning(Story()).says("I asked a subagent.").finishes().turns_to("child-1", CHILD)
    story.starts().model().says("Everything is done.").finishes().turns_to("run-1", "agent:main:main")
    assert ended(story, "ok").types() == []


# Work that was left undone.


def test_run_that_ends_after_announcing_its_next_step_is_found() -> None:
    finding = Story().user("fix it").says("I will now edit the file.").finishes().only("premature_stop")
    assert finding.cause == "premature_stop:announced"


@pytest.mark.parametrize(
    "said",
    [
        "It is fixed. I'll be here if you need me.",
        "Should I go on? I'll start once you confirm.",
        "I'll keep an eye on it.",
        "Done it. Let me know what you think.",
        "I will notify you when the build is over.",
        "NO_REPLY",
        "HEARTBEAT_OK",
    ],
)
def test_polite_words_and_waiting_are_none(said: str) -> None:
    assert Story().user("fix it").runs("sed -i s/a/b/ x", "").says(said).finishes().types() == []


def test_promise_that_a_timer_keeps_is_none() -> None:
    story = Story().user("remind me at nine").calls("cron", {"action": "add", "at": "09:00"}, "added")
    assert story.says("I will wake you at nine.").finishes().types() == []


def test_answer_that_was_cut_off_is_found() -> None:
    story = Story().user("explain it").says("First of all,", stop_reason="length").finishes()
    assert story.only("premature_stop").cause == "premature_stop:cut"


def test_tools_that_were_asked_for_and_never_run_are_found() -> None:
    asked = {"role": "assistant", "text": "", "tool_calls": [{"id": "c1", "name": "exec"}], "stop_reason": "toolUse"}
    story = Story().user("build it").event("message_end", payload=asked)
    assert story.finishes().only("premature_stop").cause == "premature_stop:unexecuted"
    story = Story().user("build it").event("message_end", payload=asked).runs("make", "ok")
    assert "premature_stop" not in story.finishes().types()


def plan(*status: str) -> dict[str, Any]:
    return {"plan": [{"step": f"step {number}", "status": state} for number, state in enumerate(status)]}


def test_plan_that_was_left_undone_is_found() -> None:
    story = Story().user("migrate it").calls("update_plan", plan("completed", "in_progress", "pending", "pending"))
    finding = story.says("The schema is ready to look at.").finishes().only("premature_stop")
    assert finding.title == "The agent run ended with 3 items of its own plan not done"
    assert finding.first_bad_step == story.events[1].event_id


@pytest.mark.parametrize(
    "after",
    [
        lambda story: story.calls("update_plan", plan("completed", "completed", "completed")).says("All there."),
        lambda story: story.runs("a", "1").runs("b", "2").says("All there."),
        lambda story: story.says("I could not go on: the server refused."),
        lambda story: story.says("Which of the two comes first?"),
        lambda story: story.user("never mind").says("All right."),
    ],
    ids=["ticked off", "done and not ticked off", "said so", "asked", "called off"],
)
def test_plan_that_was_done_or_given_up_for_a_reason_is_none(after: Any) -> None:
    story = Story().user("migrate it").calls("update_plan", plan("completed", "in_progress", "pending"))
    assert "premature_stop" not in after(story).finishes().types()


@pytest.mark.parametrize(
    "end",
    [
        lambda story: story,
        lambda story: story.finishes(error="aborted", aborted=True),
        lambda story: story.finishes(error="HTTP 500"),
    ],
    ids=["not over", "stopped", "failed"],
)
def test_run_that_did_not_end_as_if_complete_did_not_stop_too_early(end: Any) -> None:
    assert "premature_stop" not in end(Story().user("fix it").says("I will now edit the file.")).types()


# Secrets.

MARK = "[redacted:assignment:0123abcd]"


@pytest.mark.parametrize(
    ("tell", "place", "severity"),
    [
        (lambda story: story.runs("env", f"DB_PASSWORD={MARK}"), "output", "medium"),
        (lambda story: story.fails("exec", {"command": "env"}, f"failed: token={MARK}"), "output", "medium"),
        (lambda story: story.calls("exec", {"command": f"curl -u x:{MARK}"}, "ok"), "arguments", "low"),
        (lambda story: story.says(f"The password is {MARK}."), "reply", "high"),
    ],
    ids=["output", "error", "arguments", "reply"],
)
def test_credential_is_named_by_kind_and_place(tell: Any, place: str, severity: str) -> None:
    findings = [finding for finding in tell(Story()).findings() if finding.type == "secret_exposure"]
    assert [(finding.cause, finding.severity) for finding in findings] == [
        (f"secret_exposure:{place}:assignment", severity)
    ]


def test_secret_that_the_user_typed_is_not_the_agents_exposure() -> None:
    assert Story().user(f"my password is {MARK}").says("Better not tell me that.").finishes().types() == []


def test_one_secret_in_several_places_of_a_result_is_one() -> None:
    finding = Story().runs("env", f"A={MARK}\nB={MARK}\nC=[redacted:jwt:ffff0000]").only("secret_exposure")
    assert finding.occurrences == 1
    assert finding.explanation.startswith("2 secrets in 1 event")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("postgres://app:[redacted:url_password:[redacted:assignment:b893057d]]@db", ["url_password"]),
        ("[redacted:url_password:[redacted:assignment:ab]]", ["url_password"]),
        ("[redacted:url_password:[redacted:assignment:ab]] [redacted:jwt:cd]", ["jwt", "url_password"]),
        ("[redacted:assignment:0123abcd", []),
        ("[redacted:", []),
        ("[redacted:]", []),
        ("docs say [redacted:KIND:TAG]", []),
        ("[redacted:assign…", []),
    ],
)
def test_marks_within_marks_and_broken_ones_do_not_confuse(text: str, kinds: list[str]) -> None:
    findings = Story().runs("cat x", text).says("Here.").findings()
    assert [finding.cause for finding in findings] == ([":".join(("secret_exposure:output", *kinds))] if kinds else [])


LETTERS = "aB3dE6gH9jK2mN5pQ8rT1vW4yZ7cF0hL"
SECRETS = {
    "openai_key": "sk-" + LETTERS,
    "anthropic_key": "sk-ant-" + LETTERS,
    "github_token": "ghp_" + LETTERS,
    "gitlab_token": "glpat-" + LETTERS[:20],
    "slack_token": "xoxb-" + LETTERS[:16],
    "aws_access_key": "AKIA" + "Q3W5E7R9T1Y2U4I6",
    "google_key": "AIza" + LETTERS + "abc",
    "npm_token": "npm_" + LETTERS + "abcd",
    "stripe_key": "sk_live_" + LETTERS[:24],
    "jwt": ".".join(("eyJ" + LETTERS, "eyJ" + LETTERS[::-1], LETTERS)),
    "url_password": "postgres://app:" + LETTERS[:12] + "@db/x",
    "private_key": "-----BEGIN PRIVATE KEY-----\n" + LETTERS + "\n-----END PRIVATE KEY-----",
}
"""Put together here, so that nothing which looks like a credential stands in a file."""


@pytest.mark.parametrize("kind", SECRETS)
def test_value_of_a_secret_is_nowhere_in_a_diagnosis(kind: str, runs: Runs) -> None:
    secret = SECRETS[kind]
    call: dict[str, Any] = {"tool_name": "exec", "tool_call_id": "c"}
    told = {"role": "assistant", "text": f"Done. I used {secret} for it.", "stop_reason": "stop"}
    events: list[dict[str, Any]] = []
    for number in range(2, 12, 2):
        events += [
            recorded(number, "tool_call", **call, payload={"arguments": {"command": f"deploy {secret}"}}),
            recorded(
                number + 1,
                "tool_result",
                **call,
                status="error",
                error=f"{secret} was refused",
                payload={"result": secret},
            ),
        ]
    runs.seal(attached(), *events, recorded(12, "message_end", payload=told), recorded(13, "agent_end", error=secret))
    diagnosis = runs.record("run_001")["diagnosis"]
    text = msgspec.json.encode(diagnosis).decode()
    hidden = secret.split(":")[2].split("@")[0] if kind == "url_password" else LETTERS[:12]
    assert hidden not in text
    assert "Q3W5E7R9T1Y2" not in text
    kinds = {one.split(":")[2] for one in (finding["cause"] for finding in findings_of(diagnosis)) if "secret" in one}
    assert kinds == {kind}


def findings_of(diagnosis: dict[str, Any]) -> list[dict[str, Any]]:
    findings: list[dict[str, Any]] = diagnosis["failure_analysis"]["findings"]
    return findings
