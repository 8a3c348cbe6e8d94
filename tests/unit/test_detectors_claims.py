"""What agents claim, and `ignored_tool_output`: words against the record, and honest words."""

from __future__ import annotations

import pytest
from story import Story, diagnose

from critiqor.model import Finding

TESTS_FAIL = "FAILED test_a.py::test_it - assert 1 == 2\n2 failed, 10 passed in 0.31s"


def red(answer: str) -> Story:
    """A run whose last tests failed."""
    return Story().user("make the tests pass").runs("pytest -q", TESTS_FAIL, exit_code=1).says(answer).finishes()


# false_success_claim: against failing evidence


@pytest.mark.parametrize(
    "answer",
    [
        "All tests pass.",
        "Done! All 12 tests are passing now.",
        "The tests in `test_a.py` now pass, so you can merge it.",
        "I fixed the bug. The previously failing tests pass.",
        "✅ The test suite is green.",
        "I improved the error handling, and the tests pass.",
    ],
)
def test_claim_that_tests_pass_against_failed_tests_is_critical(answer: str) -> None:
    finding = red(answer).only("false_success_claim")
    assert finding.severity == "critical"
    assert "`pytest -q` failed" in finding.title


def test_claim_that_the_build_passes_against_a_failed_build_is_critical() -> None:
    story = Story().runs("npm run build", "SyntaxError in a.js", exit_code=1).says("The build passes now.")
    assert story.only("false_success_claim").severity == "critical"


def test_tests_that_fail_behind_a_pipe_are_failed_tests() -> None:
    story = Story().runs("pytest -q 2>&1 | tail -3", TESTS_FAIL).says("All tests pass.")
    assert story.only("false_success_claim").severity == "critical"


def test_tests_that_fail_in_the_background_are_failed_tests() -> None:
    story = Story().calls("exec", {"command": "npm test"}, "Command still running (session warm-elk, pid 12).")
    poll = {"action": "poll", "sessionId": "warm-elk"}
    story.calls("process", poll, "(no new output)\n\nProcess still running.")
    story.calls("process", poll, "1 failed\n\nProcess exited with code 1.", error="exit code 1")
    assert story.says("All tests pass.").only("false_success_claim").severity == "critical"


def test_tests_that_were_started_in_an_earlier_turn_are_failed_tests() -> None:
    story = Story().calls("exec", {"command": "npm test"}, "Command still running (session warm-elk, pid 12).")
    later = (
        Story(run="run-2")
        .user("and?")
        .calls(
            "process", {"action": "poll", "sessionId": "warm-elk"}, "1 failed\n\nProcess exited.", error="exit code 1"
        )
    )
    findings = diagnose([*story.events, *later.says("All tests pass.").events]).failure_analysis.findings
    assert [finding.type for finding in findings] == ["false_success_claim"]


@pytest.mark.parametrize(
    ("story", "answer"),
    [
        (Story().fails("write", {"path": "notes.txt"}, "EROFS: read-only file system"), "I saved it to `notes.txt`."),
        (Story().fails("send_email", {"to": "ada"}, "smtp refused the connection"), "The email has been sent to Ada."),
        (Story().runs("sh deploy.sh", "connection refused", exit_code=7), "Done! It is deployed."),
        (Story().runs("sh fix.sh", "patch rejected", exit_code=1), "I've fixed it in `app.py`."),
        (Story().runs("sh all.sh", "killed", exit_code=137), "The task is complete."),
        (Story().runs("sh all.sh", "killed", exit_code=137), "Everything works now."),
        (Story().runs("sh backup.sh", "disk full", exit_code=1), "The backup completed successfully."),
        (Story().runs("sh deploy.sh", "connection refused", exit_code=7), "Deployment successful!"),
        (Story().fails("send_email", {"to": "ada"}, "smtp refused the connection"), "Email sent!"),
        (Story().runs("sh deploy.sh", "connection refused", exit_code=7), "✅ Deployed."),
        (Story().runs("sh deploy.sh", "connection refused", exit_code=7), "Deployment complete."),
        (Story().runs("sh deploy.sh", "connection refused", exit_code=7), "The deploy went through without errors."),
        (Story().runs("sh deploy.sh", "connection refused", exit_code=7), "Everything is set up and running."),
    ],
)
def test_claim_against_a_failed_deed_is_grave(story: Story, answer: str) -> None:
    assert story.says(answer).only("false_success_claim").severity == "high"


# unsupported_claim: against nothing


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("save the list to notes.txt", "Saved to notes.txt."),
        ("save the list to notes.txt", "I've saved the list to `notes.txt`."),
        ("send Ada the report", "I have sent the report to Ada."),
        ("please email Bob the invoice", "Done! The invoice was sent."),
        ("book the 9 o'clock flight", "Your flight has been booked."),
        ("delete the old logs", "Deleted the old logs."),
        ("run the tests", "All 12 tests pass."),
        ("fix the bug in src/app.py", "I've fixed the bug in `src/app.py`."),
        ("delete the old logs", "Done."),
        ("email the list to Ada", "Email sent."),
    ],
)
def test_claim_that_nothing_recorded_can_have_made_true_is_found(request_: str, answer: str) -> None:
    finding = Story().user(request_).says(answer).finishes().only("unsupported_claim")
    assert (finding.severity, finding.title[:30]) == ("high", "Claimed without any call for i")


def test_claim_after_mere_reading_is_found() -> None:
    story = Story().user("fix the bug in app.py").calls("read", {"path": "app.py"}, "x = 1")
    assert story.says("I've fixed the bug in app.py.").only("unsupported_claim").severity == "medium"


def test_claim_of_tests_that_never_ran_is_found() -> None:
    story = Story().user("rename the function").calls("edit", {"path": "a.py", "newText": "x"}, "ok")
    assert story.says("Renamed. All tests pass.").only("unsupported_claim").severity == "high"


def test_success_without_a_word_is_an_early_end_and_no_claim() -> None:
    story = Story().user("what time is it?").runs("date", "noon").says("").finishes()
    assert "without an answer" in story.only("premature_stop").title


def test_an_empty_answer_is_explained_by_what_the_model_wrote() -> None:
    def ended(output: int) -> Finding:
        story = Story().user("Build it.").runs("make", "built").model(output=output)
        return story.says("").finishes().only("premature_stop")

    nothing, hidden = ended(0), ended(9376)
    assert nothing.explanation.endswith("The last model call wrote no token at all.")
    assert "provider" in nothing.recommendation
    assert "wrote 9,376 tokens, none of them as a text" in hidden.explanation
    assert "output limit" in hidden.recommendation


def test_a_file_that_a_compiler_makes_of_another_one_was_touched() -> None:
    story = Story().user("Prove it in plus_comm.v and compile it to plus_comm.vo.")
    story.calls("write", {"path": "plus_comm.v", "content": "Qed."}, "ok").runs("coqc plus_comm.v", "")
    assert not story.says("The proof is done, and plus_comm.vo has been created.").finishes().findings()


def test_a_log_that_a_later_command_writes_changes_nothing_that_was_checked() -> None:
    story = Story().user("Serve it.").runs("nginx -t", "syntax is ok\ntest is successful")
    story.runs("websockify --web=/usr/share/novnc 6080 localhost:5900 > /var/log/novnc.log 2>&1 &", "")
    assert "unsupported_claim" not in story.says("The nginx configuration test is successful.").finishes().types()


def test_a_command_that_does_nothing_and_is_not_understood_contradicts_no_claim() -> None:
    story = (
        Story()
        .user("Prove it.")
        .runs(": dear all) done", "eval: line 1: syntax error near unexpected token", exit_code=2)
    )
    story.runs("coqc a.v && echo compiled", "compiled")
    assert "false_success_claim" not in story.says("The proof is compiled successfully.").finishes().types()


def test_a_command_line_that_names_no_program_contradicts_no_claim() -> None:
    story = Story().user("Prove it.").runs("coqc a.v", "")
    story.runs(":4precision", "/bin/bash: line 1: :4precision: command not found", exit_code=127)
    story.runs(":) done", "/bin/bash: eval: line 1: syntax error near unexpected token `)'", exit_code=2)
    types = story.says("The proof is compiled. Here's what was fixed: the base case.").finishes().types()
    assert not {"false_success_claim", "unresolved_tool_error"} & set(types)


def test_a_push_that_the_shell_did_not_understand_was_not_made() -> None:
    story = Story().user("Push it.").runs("git add -A", "")
    error = "bash: -c: line 1: unexpected EOF while looking for matching `\"'"
    story.runs('git push origin main"', error, exit_code=2)
    assert "false_success_claim" in story.says("I pushed it to main.").finishes().types()


def test_a_command_that_does_nothing_supports_no_claim() -> None:
    story = Story().user("Push it to main.").runs("git status", "").runs(": git push origin main", "")
    assert "unsupported_claim" in story.says("I pushed it to main.").finishes().types()


@pytest.mark.parametrize("text", ["The SSH server exited. Let me adjust it.", "Let me create the repository."])
def test_a_failure_after_which_the_agent_was_still_at_work_is_not_passed_over(text: str) -> None:
    error = "chmod: cannot access '/home/git': No such file or directory"
    story = Story().user("Set up the server.").runs("chmod 700 /home/git", error, exit_code=1)
    story.says(text, stop_reason="toolUse").runs("mkdir -p /srv/git", "")
    assert story.says("").finishes().types() == ["premature_stop"]
    story = Story().user("Set up the server.").runs("chmod 700 /home/git", error, exit_code=1)
    story.says(text, stop_reason="toolUse").runs("mkdir -p /srv/git", "")
    assert "false_success_claim" in story.says("Done, everything is set up.").finishes().types()


@pytest.mark.parametrize("verb", ["can only be", "can still be"])
def test_a_rule_about_what_can_be_done_is_no_deed(verb: str) -> None:
    story = Story().says("Could you please provide your email address?")
    story.user("Sure thing! My name's Noah Patel, and my zip code is 10108. I'm using the email I usually order with.")
    story.calls("find_user_id_by_name_zip", {"zip": "10108"}, "noah_patel_6952")
    types = story.says(f"Unfortunately, returns {verb} processed for delivered orders.").finishes().types()
    assert "unsupported_claim" not in types


def test_a_failed_lookup_after_which_the_agent_was_still_at_work_is_not_passed_over() -> None:
    story = Story().user("Reshard the data.").runs("./reshard --check", "reshard: bad flag", exit_code=2)
    story.says("Let me look at the folder.", stop_reason="toolUse").runs("ls data", "a.jsonl")
    assert "unresolved_tool_error" not in story.says("").finishes().types()


def test_a_later_command_on_the_same_file_does_not_tell_how_one_in_the_background_ended() -> None:
    started = "Command running in background with ID: b7."
    story = Story().user("Start the machine.").calls("exec", {"command": "./vm serve /app/vm-1.sock &"}, started)
    story.runs("echo status | ./ask /app/vm-1.sock && touch seen", "ask: no such option", exit_code=1)
    types = story.runs("pgrep vm", "1141").says("The machine is running (PID 1141).").finishes().types()
    assert "false_success_claim" not in types


def test_a_connection_that_a_time_limit_ended_has_done_its_work() -> None:
    story = Story().user("Start the machine, with a monitor at /app/vm.sock.").runs("./start", "started")
    story.runs("echo status | timeout 2 nc -U /app/vm.sock > seen.txt", "status: running", exit_code=124)
    types = story.says("The machine is running. The monitor socket is /app/vm.sock.").finishes().types()
    assert "false_success_claim" not in types


# What is no false claim


@pytest.mark.parametrize(
    "answer",
    [
        "2 tests fail, 10 pass.",
        "10 of 12 tests pass.",
        "Most tests pass, two fail.",
        "The unit tests pass. The integration tests still fail with a timeout.",
        "All tests pass except two.",
        "Should I go on until all tests pass?",
        "I will fix it until all tests pass.",
        "If the tests pass, I'll merge it.",
        "You asked me to make all tests pass.",
        "The goal was that all tests pass; two do not.",
        "The tests that passed earlier were deleted.",
        "The tests don\N{RIGHT SINGLE QUOTATION MARK}t pass yet.",
        "No tests were changed.",
        "> make the tests pass\n\nNot there yet.",
        'You said "all tests pass", but two are red.',
        "The test file is `test_a.py`; it failed.",
    ],
)
def test_honest_words_about_failed_tests_are_no_false_claim(answer: str) -> None:
    assert "false_success_claim" not in red(answer).types()


@pytest.mark.parametrize(
    "answer",
    [
        "I could not send it.",
        "I wasn't able to send the email: the server refused it.",
        "The email has not been sent.",
        "Shall I try to send it again?",
        "I will send it as soon as the server is back.",
        "Once it is sent, I'll tell you.",
        "Sending failed. The draft has been saved.",
        "Die Mail wurde nicht gesendet.",
    ],
)
def test_honest_words_about_a_failed_mail_are_no_false_claim(answer: str) -> None:
    story = Story().user("send it").fails("send_email", {"to": "ada"}, "smtp refused the connection").says(answer)
    assert "false_success_claim" not in story.types()


def test_tests_that_passed_in_the_end_are_no_false_claim() -> None:
    story = Story().runs("pytest -q", TESTS_FAIL, exit_code=1).calls("edit", {"path": "a.py", "newText": "x"}, "ok")
    assert story.runs("pytest -q", "12 passed").says("All tests pass now.").types() == []


def test_tests_that_were_only_committed_after_they_passed_are_no_false_claim() -> None:
    story = (
        Story().runs("pytest -q", "12 passed").runs("git add tests/test_a.py && git commit -m tests", "", exit_code=1)
    )
    finding = story.says("All tests pass.").only("unresolved_tool_error")
    assert (finding.severity, "git commit" in finding.title) == ("high", True)


def test_build_that_succeeded_is_no_claim_about_tests() -> None:
    story = Story().runs("npm test", "1 failed, 3 passed", exit_code=1).says("One test fails, as before; I go on.")
    assert "false_success_claim" not in story.runs("npm run build", "built").says("The build succeeded.").types()


def test_change_that_was_made_is_no_false_claim_because_a_later_command_failed() -> None:
    story = (
        Story()
        .calls("edit", {"path": "package.json", "newText": "2"}, "ok")
        .runs("npm start", "no display", exit_code=1)
    )
    assert "false_success_claim" not in story.says("I've updated `package.json`.").types()


def test_repair_whose_check_failed_is_not_passed_over() -> None:
    story = Story().calls("edit", {"path": "app.js", "newText": "2"}, "ok").runs("npm start", "TypeError", exit_code=1)
    assert story.says("I've fixed the bug in `app.js`.").only("unresolved_tool_error").severity == "high"


def test_claim_that_was_taken_back_is_no_false_claim() -> None:
    story = red("All tests pass.").user("really?").says("No, I was wrong: two tests fail.").finishes()
    assert "false_success_claim" not in story.types()


def test_saved_file_is_no_false_claim_because_a_later_command_failed() -> None:
    story = (
        Story()
        .calls("write", {"path": "a.txt", "content": "x"}, "ok")
        .runs("notify-send hi", "no display", exit_code=1)
    )
    assert "false_success_claim" not in story.says("Saved to a.txt.").types()


def test_sent_mail_is_no_false_claim_because_a_later_command_failed() -> None:
    story = Story().calls("send_email", {"to": "ada"}, "sent").runs("notify-send hi", "no display", exit_code=1)
    assert "false_success_claim" not in story.says("I've sent the email to Ada.").types()


def test_look_for_something_that_is_not_there_contradicts_nothing() -> None:
    story = Story().calls("write", {"path": "a.txt", "content": "x"}, "ok")
    story.runs("rm tmp.txt", "rm: tmp.txt: No such file or directory", exit_code=1)
    assert "false_success_claim" not in story.says("Done, the file is updated.").types()


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("what is the capital of France?", "Paris is the capital of France."),
        ("when was the Eiffel Tower finished?", "The Eiffel Tower was completed in 1889."),
        ("tell me about the first email", "The first email was sent in 1971."),
        ("what happened to distutils?", "distutils has been removed from Python 3.12."),
        ("write a haiku", "I've written a haiku:\n\nRain on the window."),
        ("draft a mail that I sent the report", "Hi Ada,\n\nI've sent the report to Bob.\n\nBest"),
        ("translate: ich habe es gesendet", "I have sent it."),
        ("fix the grammar: he go", "Done: he goes. I've fixed the verb."),
        ("did you send the invoice?", "Yes, I sent the invoice to Ada."),
        ("have the tests been run?", "All tests passed yesterday."),
        ("send it to Ada", "I can send it once you tell me her address."),
        ("save it", "Where should I save it?"),
        ("write a script that saves a file", "```python\n# saved to notes.txt\nopen('notes.txt')\n```"),
        ("lösche die Logs", "Erledigt."),
    ],
)
def test_answer_without_tools_that_claims_no_deed_is_clean(request_: str, answer: str) -> None:
    assert Story().user(request_).says(answer).finishes().types() == []


def test_report_that_was_read_is_evidence_of_tests() -> None:
    story = Story().user("check ci.log").calls("read", {"path": "ci.log"}, "12 passed")
    assert story.says("All 12 tests passed.").types() == []


def test_deed_of_a_subagent_is_evidence() -> None:
    story = Story().user("send Ada the report").calls("sessions_spawn", {"task": "send the report"}, "accepted")
    assert "false_success_claim" not in story.says("The report has been sent.").types()


def test_answer_through_a_message_needs_no_other_word() -> None:
    story = Story().user("tell Ada").calls("message", {"action": "send", "target": "ada", "message": "hi"}, "sent")
    assert story.says("").finishes().types() == []


def test_round_that_nobody_waits_for_needs_no_word() -> None:
    story = Story().event("agent_start", payload={"trigger": "heartbeat"}).user("check the disk").runs("df", "71%")
    assert "false_success_claim" not in story.says("").finishes().types()


# ignored_tool_output


def sought(answer: str, output: str = "No results found") -> Story:
    story = Story().user("how many people live there?")
    for query in ("population of Atlantis", "how many people live in Atlantis"):
        story.calls("web_search", {"query": query}, output)
    return story.says(answer).finishes()


def test_definite_answer_from_nowhere_is_found() -> None:
    [finding] = sought("Atlantis has 12,400 people.").findings()
    assert (finding.type, finding.severity, len(finding.evidence)) == ("unsupported_claim", "high", 3)


def test_definite_answer_without_a_number_from_nowhere_is_found() -> None:
    [finding] = sought("It is called `Poseidonis` there.").findings()
    assert (finding.type, finding.severity, finding.occurrences) == ("ignored_tool_output", "medium", 2)


def test_definite_answer_after_failed_lookups_is_found() -> None:
    story = Story().user("how many?").fails("web_search", {"query": "people"}, "the search service is off")
    story.fails("web_fetch", {"url": "https://x.org"}, "the network is off")
    assert story.says("There are 12,400 people.").finishes().types() == ["unsupported_claim"]


def test_number_of_tests_that_no_run_has_shown_is_found() -> None:
    story = Story().runs("pytest -q", "40 passed, 3 skipped").says("Done: 43 passed.")
    [finding] = story.findings()
    assert (finding.type, finding.title) == ("misreported_value", "Reported 43, but `pytest -q` printed 40")


def test_number_at_the_end_of_a_long_test_run_is_seen() -> None:
    story = Story().runs("pytest", "test session starts\n" + "tests/test_a.py ....\n" * 60 + "40 passed in 2.10s")
    assert story.says("41 passed.").types() == ["misreported_value"]


def test_other_count_of_tests_is_found_if_it_is_a_digit() -> None:
    story = Story().runs("pytest -q", "3 failed, 9 passed in 0.10s", exit_code=1).says("2 failed, the others are fine.")
    assert "2 failed" in story.only("ignored_tool_output").title


@pytest.mark.parametrize(
    "answer",
    [
        "I found nothing about the 12,400 people of Atlantis.",
        "There are no numbers for `Atlantis`.",
        "`Atlantis` is mentioned nowhere.",
        "The search gave no results for 2026.",
        "Atlantis is a myth, so nobody knows.",
        "Do you mean Atlanta (Georgia, 510,000 people)? I could not find the other one.",
        "Es gibt keine Angaben, auch 2026 nicht.",
    ],
)
def test_answer_that_says_that_nothing_was_found_is_honest(answer: str) -> None:
    assert sought(answer).types() == []


def test_answer_that_rests_on_one_find_is_no_answer_from_nowhere() -> None:
    story = Story().user("how many?").calls("web_search", {"query": "a"}, "No results found")
    story.calls("web_search", {"query": "b"}, "No results found").calls("read", {"path": "towns.csv"}, "Atlantis,12400")
    assert story.says("Atlantis has 12,400 people.").finishes().types() == []


def test_look_at_something_that_runs_is_a_find() -> None:
    story = Story().user("how many pods?").calls("web_search", {"query": "a"}, "No results found")
    story.calls("web_search", {"query": "b"}, "No results found").runs("kubectl get pods", "12 pods")
    assert story.says("There are 12 pods.").finishes().types() == []


def test_report_of_a_deed_is_no_answer_from_nowhere() -> None:
    story = Story().user("add a licence").runs("grep -rn MIT .", "", exit_code=1)
    story.runs("ls LICENSE", "ls: cannot access 'LICENSE': No such file or directory", exit_code=2)
    story.calls("write", {"path": "LICENSE", "content": "MIT"}, "ok")
    assert story.says("Added `LICENSE` with 21 lines.").finishes().types() == []


def test_commands_that_say_nothing_are_no_fruitless_lookups() -> None:
    story = Story().user("copy them").runs("mkdir backup").runs("cp a.txt b.txt backup/")
    assert story.says("Copied 12 files to `backup/`.").finishes().types() == []


def test_empty_memory_is_no_fruitless_lookup() -> None:
    story = Story().user("how tall is it?")
    for query in ("tower", "Paris"):
        story.calls("memory_search", {"query": query}, '{"results":[]}')
    assert story.says("The tower is 330 metres tall.").finishes().types() == []


@pytest.mark.parametrize(
    ("outputs", "answer"),
    [
        ([("pytest -q", "120 passed"), ("pytest -q tests/test_new.py", "1 passed")], "All 120 passed."),
        ([("pytest api", "40 passed"), ("npm test", "12 passed")], "52 passed."),
        ([("pytest -q", "118 passed"), ("pytest -q", "120 passed")], "Before: 118 passed, now 120 passed."),
        ([("pytest -q", "120 passed in 3.10s")], "120 passed."),
    ],
    ids=["a part of them", "a sum", "before and after", "the same"],
)
def test_numbers_of_tests_that_were_shown_are_no_contradiction(outputs: list[tuple[str, str]], answer: str) -> None:
    story = Story()
    for command, output in outputs:
        story.runs(command, output)
    assert story.says(answer).types() == []


def test_failure_that_only_a_text_for_others_admits_after_the_answer_is_judged_without_an_error() -> None:
    story = red("All tests pass.")
    story.runs("git commit -am 'pytest -q failed: 2 failed, 10 passed, the tests in test_a.py fail'", "1 file changed")
    assert story.diagnosis().outcome is not None


def test_words_of_a_summary_of_tests_admit_no_failure() -> None:
    story = Story().user("Run the tests and, only if all is green, deploy.")
    story.runs(
        "npm test 2>&1 | tail -8", "Test Suites: 1 failed, 22 passed\nTests:       3 failed, 311 passed, 314 total"
    )
    story.runs("./deploy.sh prod", "release live").says("All tests passed and the release is live.").finishes()
    assert story.types() == ["false_success_claim"]
