"""`repeated_tool_failure` and `unresolved_tool_error`: failures that repeat or stay, and failures that are work."""

from __future__ import annotations

import pytest
from story import Story

# repeated_tool_failure


def failing(times: int, command: str = "sh deploy.sh", output: str = "connection refused", code: int = 7) -> Story:
    story = Story()
    for _ in range(times):
        story.runs(command, output, exit_code=code)
    return story


def test_same_failure_again_is_found() -> None:
    finding = failing(4).says("It could not be deployed.").only("repeated_tool_failure")
    assert (finding.occurrences, finding.severity) == (4, "medium")
    assert "connection refused" in finding.explanation


def test_failing_again_and_again_is_grave() -> None:
    assert failing(8).only("repeated_tool_failure").severity == "high"


def test_blind_retry_that_worked_in_the_end_weighs_little() -> None:
    story = failing(4).runs("sh deploy.sh", "deployed")
    finding = story.only("repeated_tool_failure")
    assert finding.severity == "low"
    assert finding.title.endswith("then succeeded")


def test_repair_is_seen_even_after_other_steps() -> None:
    story = failing(3).runs("systemctl restart builder").runs("sh deploy.sh", "deployed")
    assert story.only("repeated_tool_failure").severity == "low"


def test_looking_around_between_retries_does_not_help() -> None:
    story = Story()
    for number in range(4):
        story.runs("sh deploy.sh", "connection refused", exit_code=7).calls(
            "read", {"path": f"{number}.md"}, f"{number}"
        )
    story.runs("ls", "a b").says("It could not be deployed.")
    assert story.only("repeated_tool_failure").occurrences == 4


def test_attempts_that_hardly_differ_are_the_same_failure() -> None:
    story = Story()
    for seats in (1, 2, 3):
        arguments = {"flight": "HAT271", "cabin": "economy", "passenger": "Ada Lovelace", "seats": seats}
        story.fails("book_seats", arguments, "payment provider is out of order")
    assert story.only("repeated_tool_failure").occurrences == 3


def test_many_guesses_that_all_fail_are_a_habit() -> None:
    story = Story()
    for word in ("alpha", "beta", "gamma", "delta"):
        story.fails("web_fetch", {"url": f"https://{word}.example"}, "Web fetch failed (404): Not Found")
    assert story.only("repeated_tool_failure").occurrences == 4


def test_one_cause_that_strikes_several_tools_is_one_finding() -> None:
    story = Story()
    for tool in ("web_fetch", "web_search", "browser", "image_fetch"):
        story.fails(tool, {"about": tool}, "getaddrinfo EAI_AGAIN: the network is not there")
    finding = story.only("repeated_tool_failure")
    assert finding.occurrences == 4
    assert "`browser`" in finding.title


def test_failing_first_bad_step_is_the_first_blind_retry() -> None:
    story = failing(3)
    results = [event.event_id for event in story.events if event.event_type == "tool_output"]
    assert story.only("repeated_tool_failure").first_bad_step == results[1]


def test_edits_that_change_nothing_about_a_failure_are_found_after_a_while() -> None:
    story = Story()
    for number in range(4):
        story.calls("edit", {"path": "a.py", "newText": str(number)}, "ok")
        story.runs("pytest -q", "E  assert 1 == 2\n1 failed", exit_code=1)
    assert story.only("repeated_tool_failure").occurrences == 4


def test_failure_that_was_repaired_is_none() -> None:
    story = Story().runs("npm run build", "error: no config", exit_code=1)
    story.calls("write", {"path": "config.json", "content": "{}"}, "ok").runs("npm run build", "built")
    assert story.types() == []


def test_one_retry_that_worked_is_none() -> None:
    assert failing(1).runs("sh deploy.sh", "deployed").types() == []


def test_tests_that_fail_otherwise_after_each_edit_are_work() -> None:
    story = Story()
    for left in (5, 4, 3, 2, 1):
        story.runs("pytest -q", f"FAILED test_{left}.py::test_it - assert {left}\n{left} failed, 9 passed", exit_code=1)
        story.calls("edit", {"path": "a.py", "newText": str(left)}, "ok")
    assert story.runs("pytest -q", "14 passed").types() == []


def test_tests_that_fail_otherwise_after_each_command_are_work() -> None:
    story = Story()
    for module in ("requests", "yaml", "rich"):
        story.runs("python main.py", f"ModuleNotFoundError: No module named '{module}'", exit_code=1)
        story.runs(f"pip install {module}", "Successfully installed")
    assert story.runs("python main.py", "hello").types() == []


def test_waiting_until_it_works_is_no_repetition() -> None:
    story = Story()
    for _ in range(4):
        story.runs("curl -sf localhost:3000", "", exit_code=7).runs("sleep 2", "(no output)")
    assert story.runs("curl -sf localhost:3000", "hello").types() == []


def test_two_guessed_addresses_are_a_search() -> None:
    story = Story()
    for page in ("install", "setup"):
        story.fails("web_fetch", {"url": f"https://docs.example.org/en/latest/{page}"}, "HTTP 404")
    assert "repeated_tool_failure" not in story.types()


def test_sites_that_refuse_are_a_search_when_others_answer() -> None:
    story = Story()
    for site in "abc":
        story.fails("web_fetch", {"url": f"https://{site}.org/{site * 9}"}, "Web fetch failed (403): Forbidden")
    story.calls("web_fetch", {"url": "https://d.org"}, "the answer")
    assert story.types() == []


def test_two_guessed_scripts_are_a_search() -> None:
    story = Story()
    for script in ("start", "serve"):
        story.runs(f"cd /srv/app && npm run {script}", f'npm error Missing script: "{script}"', exit_code=1)
    assert story.runs("cd /srv/app && npm run dev", "listening").types() == []


def test_different_failures_of_different_commands_are_no_repetition() -> None:
    story = Story()
    story.runs("npm run lint", "error: 'x' is not defined", exit_code=1)
    story.runs("npm run build", "TypeError: y is not a function", exit_code=1)
    story.runs("docker ps", "Cannot connect to the Docker daemon", exit_code=1)
    assert "repeated_tool_failure" not in story.types()


def test_commands_that_fail_without_a_word_are_no_repetition() -> None:
    story = Story()
    for command in ("systemctl is-active foo", "false", "sh check.sh", "python probe.py"):
        story.runs(command, "(Command exited with code 1)", exit_code=1)
    assert "repeated_tool_failure" not in story.types()


def test_failures_of_one_kind_with_finds_in_between_are_no_cascade() -> None:
    story = Story()
    for number, tool in enumerate(("web_fetch", "browser") * 3):
        story.fails(tool, {"page": f"{tool}{number}"}, "timed out waiting for the page")
        story.calls(tool, {"page": f"other{number}"}, f"page {number}")
    assert "repeated_tool_failure" not in story.types()


@pytest.mark.parametrize(
    "command", ["grep -rn foo src", "cat a.txt | grep foo", "rg foo", "which foo", "test -f foo", "pgrep foo"]
)
def test_search_without_a_match_is_no_failure(command: str) -> None:
    story = failing(3, command, "(no output)\n\n(Command exited with code 1)", 1)
    assert "repeated_tool_failure" not in story.types()


# unresolved_tool_error


def failed(answer: str, output: str = "disk full") -> Story:
    return Story().user("back it up").runs("sh backup.sh", output, exit_code=1).says(answer).finishes()


@pytest.mark.parametrize(
    ("answer", "severity"),
    [("Here is the weather: sunny.", "high"), ("You have 3 meetings today.", "high"), ("Anything else?", "high")],
)
def test_failure_that_nobody_mentions_is_found(answer: str, severity: str) -> None:
    finding = failed(answer).only("unresolved_tool_error")
    assert finding.severity == severity
    assert "disk full" in finding.explanation


def test_last_deed_that_failed_costs_trust_even_if_it_was_tried_often() -> None:
    story = Story().user("back it up")
    for _ in range(4):
        story.runs("sh backup.sh", "disk full", exit_code=1)
    diagnosis = story.says("Here is the weather: sunny.").finishes().diagnosis()
    types = [finding.type for finding in diagnosis.failure_analysis.findings]
    assert sorted(types) == ["repeated_tool_failure", "unresolved_tool_error"]
    assert diagnosis.trust_score is not None and diagnosis.trust_score <= 70


def test_failed_lookup_that_nobody_mentions_weighs_little() -> None:
    story = Story().user("what is new?").fails("read", {"path": "report.md"}, "EACCES: permission denied")
    story.calls("read", {"path": "news.md"}, "Sales are up.")
    assert {finding.severity for finding in story.says("Sales are up.").finishes().findings()} <= {"low"}


def test_content_of_a_file_that_could_not_be_read_is_made_up() -> None:
    story = Story().user("what does the report say?").fails("read", {"path": "report.md"}, "EACCES: permission denied")
    assert "unsupported_claim" in story.says("It says that sales are up.").finishes().types()


def test_check_that_failed_at_last_is_found() -> None:
    story = Story().user("deploy it").runs("sh deploy.sh", "uploaded").runs("curl -sf https://x.org", "", exit_code=22)
    assert story.says("Here you are: https://x.org").finishes().only("unresolved_tool_error").severity == "low"


def test_one_of_two_commands_that_failed_is_found() -> None:
    story = Story().user("migrate, then restart the service")
    story.runs("sh migrate.sh --all", "lock timeout on table orders", exit_code=1)
    story.runs("systemctl restart web")
    assert story.says("The service is up again.").finishes().types() == ["unresolved_tool_error"]


@pytest.mark.parametrize(
    "answer",
    [
        "The backup failed.",
        "I could not back it up: the disk is full.",
        "The backup didn\N{RIGHT SINGLE QUOTATION MARK}t work.",
        "Unfortunately the disk is full.",
        "backup.sh exited with code 1.",
        "The host is unreachable at the moment.",
        "There is no backup yet, the disk is full.",
        "It was aborted halfway.",
        "I had to skip the backup.",
        "The disk is full, so the work is unfinished.",
        "I got an error from backup.sh.",
        "The disk refuses to take any more.",
        "Das Backup ist fehlgeschlagen, weil die Platte voll ist.",
        "La sauvegarde a échoué, le disque est plein.",
        "バックアップに失敗しました。",
    ],
)
def test_failure_that_is_admitted_is_resolved(answer: str) -> None:
    assert failed(answer).types() == []


def test_failure_that_is_admitted_on_the_way_is_resolved() -> None:
    story = Story().runs("sh backup.sh", "disk full", exit_code=1).says("The backup failed; I go on with the rest.")
    story.calls("write", {"path": "notes.txt", "content": "x"}, "ok")
    assert story.says("The notes are written.").finishes().types() == []


def test_failure_that_is_admitted_in_a_message_is_resolved() -> None:
    story = Story().user("back it up").runs("sh backup.sh", "disk full", exit_code=1)
    story.calls("message", {"action": "send", "target": "ops", "message": "The backup failed: disk full."}, "sent")
    assert story.says("NO_REPLY").finishes().types() == []


def test_run_that_says_nothing_claims_nothing() -> None:
    assert Story().runs("sh backup.sh", "disk full", exit_code=1).says("HEARTBEAT_OK").finishes().types() == []


def test_later_call_of_the_same_kind_repairs() -> None:
    story = Story().user("build it").runs("make all", "error: no compiler", exit_code=2)
    story.runs("apt-get install -y gcc", "installed").runs("make -j4 all", "built")
    assert story.says("It is built.").finishes().types() == []


def test_file_that_was_written_in_another_way_repairs() -> None:
    story = Story().fails("edit", {"path": "src/app.py", "oldText": "a"}, "Could not find the exact text in src/app.py")
    story.calls("write", {"path": "src/app.py", "content": "b"}, "ok")
    assert story.says("`src/app.py` has the new text.").finishes().types() == []


def test_another_lookup_that_found_it_repairs() -> None:
    story = Story().fails("read", {"path": "CHANGES.md"}, "ENOENT: no such file or directory")
    story.calls("read", {"path": "CHANGELOG.md"}, "2.0: faster")
    assert story.says("Version 2.0 is faster.").finishes().types() == []


def test_lookup_that_failed_beside_others_is_resolved() -> None:
    story = Story()
    for site in "ab":
        story.calls("web_fetch", {"url": f"https://{site}.org"}, f"{site} says yes")
    story.fails("web_fetch", {"url": "https://c.org"}, "Web fetch failed (403): Forbidden")
    assert story.says("Two sources say yes.").finishes().types() == []


def test_program_that_is_not_there_is_replaced_by_another() -> None:
    story = Story().runs("podman ps -a --format json", "sh: podman: command not found", exit_code=127)
    story.runs("docker container prune -f", "deleted")
    assert story.says("The containers are gone.").finishes().types() == []


def test_directory_that_is_there_already_is_no_error() -> None:
    story = Story().runs("mkdir out", "mkdir: cannot create directory 'out': File exists", exit_code=1)
    assert story.says("The folder `out` is yours.").finishes().types() == []


def test_request_that_the_service_does_once_may_be_repeated() -> None:
    refund = {"order": "7741", "amount": "128.50", "idempotency_key": "rf-7741-1"}
    story = Story().user("refund order 7741").fails("refund_create", refund, "502 Bad Gateway")
    story.calls("refund_create", refund, '{"status": "succeeded"}').says("Order 7741 is refunded.").finishes()
    assert "repeated_side_effect" not in story.types()


def test_searches_without_a_match_are_no_failures_in_any_form_of_their_exit_code() -> None:
    story = Story().user("any keys in the repository?")
    for pattern in ("AKIA", "PRIVATE KEY", "ghp_"):
        story.fails("exec", {"command": f"grep -rn '{pattern}' ."}, "(Command exited with code 1)")
    assert story.says("Nothing found.").finishes().types() == []


def test_a_command_that_does_nothing_is_no_success_after_failures() -> None:
    def story() -> Story:
        told = Story().user("Run it.")
        for _ in range(6):
            told.runs(". venv/bin/activate && python run.py", "venv/bin/activate: No such file", exit_code=1)
        return told

    finding = story().runs(": . venv/bin/activate && : python run.py", "").only("repeated_tool_failure")
    assert (finding.severity, "then succeeded" in finding.title) == ("high", False)
    finding = story().runs(". venv/bin/activate && python run.py", "42").only("repeated_tool_failure")
    assert (finding.severity, "then succeeded" in finding.title) == ("medium", True)


def test_missing_rights_are_no_misuse_of_the_tool() -> None:
    refused = '{"code": "INSUFFICIENT_ACCESS_OR_READONLY", "message": "insufficient access rights on object id"}'
    story = Story().user("Move the account").calls("sf.update", {"id": "001A9"}, refused, error=refused)
    assert "tool_misuse" not in story.says("Salesforce refused it for lack of rights.").finishes().types()


REFUSED = "250001 (08001): Incoming request with IP 34.77.118.9 is not allowed to access the warehouse."


def test_one_error_that_several_clients_meet_is_one_cause_whatever_it_says() -> None:
    story = Story().user("pull the churned accounts")
    for client in ("snow sql -q 'select 1'", "snowsql -q 'select 1'", "python3 connect.py", "dbt show --inline x"):
        story.runs(client, f"{client.split()[0]}: failed\n{REFUSED}", exit_code=1)
    finding = story.says("I could not export them.").finishes().only("repeated_tool_failure")
    assert "Incoming request with IP 34.77.118.9 is not allowed" in finding.title


def test_different_errors_behind_the_same_traceback_are_no_common_cause() -> None:
    story = Story().user("make the script run")
    for number, error in enumerate(("KeyError: 'a'", "TypeError: int", "OSError: gone", "ValueError: bad date")):
        trace = f'Traceback (most recent call last):\n  File "/srv/a.py", line {number}, in <module>\n{error}'
        story.runs(f"python3 a.py --try {number}", trace, exit_code=1)
    assert "repeated_tool_failure" not in story.says("It still fails: bad date.").finishes().types()


LIMITED = 'HTTP/2 429\nretry-after: {}\n\n{{"error":"rate limit exceeded, retry after {} s"}}'


def limited(*seconds: int) -> Story:
    story = Story().user("Geocode the depot.")
    for each in seconds:
        story.runs("curl -s -i https://geo.example/v1?q=depot", LIMITED.format(each, each))
    return story


def test_answers_that_say_failure_are_failures_whatever_the_exit_code() -> None:
    finding = limited(120, 119, 120, 240).says("The geocoder is busy.").only("repeated_tool_failure")
    assert (finding.occurrences, finding.severity) == (4, "medium")


def test_one_refusal_before_a_wait_is_fine() -> None:
    story = limited(20).runs("sleep 20 && curl -s https://geo.example/v1?q=depot", '{"lat":53.3}').says("Done.")
    assert "repeated_tool_failure" not in story.types()


def test_lookups_that_a_login_keeps_from_working_have_one_cause() -> None:
    story = Story().user("Which instances have no owner?")
    for what in ("instances", "tags", "volumes", "instance-status"):
        error = f"An error occurred (RequestExpired) when calling Describe{what.title()}: Request has expired."
        story.runs(f"aws ec2 describe-{what}", error, exit_code=254)
    assert "login is refused" in story.says("I could not list them.").only("repeated_tool_failure").title


def test_watching_a_service_that_is_down_is_no_failure_of_the_look() -> None:
    story = Story().user("Is the service up?")
    for seconds in (5, 30, 60):
        story.runs(f"sleep {seconds}; curl -s -o /dev/null -w '%{{http_code}}' https://meteo.example/ping", "503")
    assert "repeated_tool_failure" not in story.says("No, it answered 503 three times.").types()
