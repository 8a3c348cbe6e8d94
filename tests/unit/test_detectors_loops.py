"""`tool_loop` and `no_progress`: what goes round in circles, and what only looks like it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from story import Story

Step = Callable[[Story], Story]


def read(name: str, content: str | None = None) -> Step:
    return lambda story: story.calls("read", {"path": name}, content or f"the content of {name}")


def run(command: str, output: str = "", exit_code: int = 0) -> Step:
    return lambda story: story.runs(command, output, exit_code=exit_code)


def told(*steps: Step, rounds: int = 1) -> Story:
    """A story of these steps, `rounds` times over."""
    story = Story().user("do it")
    for _ in range(rounds):
        for step in steps:
            story = step(story)
    return story


def test_same_call_without_progress_is_a_loop() -> None:
    finding = told(read("a.txt"), rounds=4).only("tool_loop")
    assert finding.occurrences == 3
    assert finding.severity == "medium"
    assert "`read`" in finding.title


def test_long_loop_is_grave() -> None:
    assert told(read("a.txt"), rounds=8).only("tool_loop").severity == "high"


def test_loop_begins_with_the_first_repetition() -> None:
    story = told(read("x.txt"), read("a.txt"), read("a.txt"), read("a.txt"))
    calls = [event.event_id for event in story.events if event.event_type == "tool_call"]
    assert story.only("tool_loop").first_bad_step == calls[2]


def test_reading_a_file_twice_at_once_is_worth_a_word() -> None:
    assert told(read("a.txt"), rounds=2).only("tool_loop").severity == "low"


@pytest.mark.parametrize("names", ["ab", "abc", "abcdef"])
def test_cycle_is_one_loop(names: str) -> None:
    finding = told(*(read(name) for name in names), rounds=3).only("tool_loop")
    assert finding.occurrences == 2 * len(names)
    assert f"cycle of {len(names)} calls" in finding.explanation


def test_cycle_gone_through_twice_is_a_loop() -> None:
    assert told(read("a"), read("b"), rounds=2).only("tool_loop").occurrences == 2


def test_cycle_of_commands_is_a_loop() -> None:
    assert told(run("make a", "built"), run("make b", "waiting for a"), rounds=4).only("tool_loop").severity == "high"


def test_loop_stays_one_when_the_agent_itself_changes_the_answer_at_last() -> None:
    story = told(read("a.txt"), rounds=5).calls("edit", {"path": "a.txt", "newText": "x"}, "ok")
    assert story.calls("read", {"path": "a.txt"}, "x").only("tool_loop").occurrences == 4


def test_edits_that_undo_each_other_are_a_loop() -> None:
    there = {"path": "a.py", "oldText": "x", "newText": "y"}
    back = {"path": "a.py", "oldText": "y", "newText": "x"}
    story = told(lambda story: story.calls("edit", there, "ok").calls("edit", back, "ok"), rounds=3)
    assert story.only("tool_loop").occurrences >= 4


def test_time_of_day_in_an_answer_is_no_progress() -> None:
    story = Story()
    for second in range(10, 15):
        story.calls("read", {"path": "state"}, f"2026-11-15T10:00:{second}Z waiting, took 0.{second}s")
    assert story.only("tool_loop").occurrences == 4


def test_fresh_wrapper_around_the_same_page_is_no_progress() -> None:
    story = Story()
    for nonce in ("0123456789abcdef", "fedcba9876543210", "00aa11bb22cc33dd"):
        page = f'<<<EXTERNAL_UNTRUSTED_CONTENT id=\\"{nonce}\\">>> a page'
        story.calls("web_fetch", {"url": "https://x.org"}, f'{{"text":"{page}","tookMs":{ord(nonce[0])}}}')
    assert story.only("tool_loop").occurrences == 2


def test_other_words_for_the_same_answer_are_a_loop() -> None:
    story = Story()
    for attempt in range(5):
        story.calls("web_search", {"query": f"attempt {attempt} at the question"}, "Results: the same page as ever")
    assert "other arguments, the same result" in story.only("tool_loop").explanation


def test_pages_that_are_all_the_same_are_a_loop() -> None:
    story = Story()
    for page in range(5):
        story.calls("tickets_list", {"state": "open", "page": page}, "ticket 1, ticket 2")
    assert story.only("tool_loop").occurrences == 4


def test_different_commands_with_the_very_same_page_of_output_are_a_loop() -> None:
    story = Story()
    for flag in "abcd":
        story.runs(f"tool -{flag}", "usage: tool [-h] FILE\n" * 20)
    assert story.only("tool_loop").occurrences == 3


def test_question_in_another_order_of_words_is_a_loop() -> None:
    story = Story()
    story.calls("web_search", {"query": "best python testing library 2026"}, "1. pytest")
    story.calls("web_search", {"query": "python testing library best 2026"}, "1. pytest, again")
    assert story.only("tool_loop").severity == "low"


def test_name_that_is_never_there_is_a_loop() -> None:
    story = Story()
    for place in ("src", "lib", "tests", "docs"):
        story.calls("code_search", {"name": "parse_order", "in": place}, f"parse_order not found in {place}")
    assert "`parse_order` was never found" in story.only("tool_loop").explanation


def test_waiting_that_leads_nowhere_is_a_loop_in_the_end() -> None:
    poll = {"action": "poll", "sessionId": "s1"}
    story = told(lambda story: story.calls("process", poll, "(no new output)\n\nProcess still running."), rounds=12)
    assert story.only("tool_loop").severity == "medium"


# What is no loop.


def polled(outputs: list[str]) -> Story:
    story = Story()
    for output in outputs:
        story.runs("sh progress.sh", output)
    return story


@pytest.mark.parametrize(
    "outputs",
    [
        ["1 of 8", "2 of 8", "3 of 8", "4 of 8"],
        ["pending"] * 7 + ["done"],
        ["pending"] * 3 + ["running"] * 4 + ["done"],
    ],
    ids=["each time", "at last", "now and then"],
)
def test_polling_that_moves_is_no_loop(outputs: list[str]) -> None:
    assert polled(outputs).types() == []


def test_two_calls_that_poll_together_are_no_loop_when_one_of_them_moves() -> None:
    story = told(run("kubectl get pods", "api Pending"), run("kubectl get events", "pulling"), rounds=4)
    assert story.runs("kubectl get pods", "api Running").types() == []


@pytest.mark.parametrize("argument", ["offset", "page", "cursor"])
def test_pages_are_no_loop(argument: str) -> None:
    story = Story()
    for number in range(8):
        story.calls("read", {"path": "big.log", argument: number}, f"part {number}")
    assert story.types() == []


def test_retry_that_worked_is_no_loop() -> None:
    story = Story().fails("web_fetch", {"url": "https://x.org"}, "socket hang up")
    story.calls("web_fetch", {"url": "https://x.org"}, "hello")
    assert story.types() == []


@pytest.mark.parametrize(
    "change",
    [
        lambda story, number: story.calls("write", {"path": "a.py", "content": str(number)}, "File written"),
        lambda story, number: story.calls("edit", {"path": "a.py", "newText": str(number)}, "ok"),
        lambda story, number: story.runs(f"python generate.py {number}"),
        lambda story, number: story.calls("apply_patch", {"input": f"*** patch {number}"}, "Done!"),
    ],
    ids=["write", "edit", "command", "patch"],
)
def test_reading_again_what_may_have_changed_is_no_loop(change: Callable[[Story, int], Story]) -> None:
    story = Story()
    for number in range(5):
        change(story.calls("read", {"path": "a.py"}, "x = 1"), number)
    assert story.types() == []


def test_reading_many_files_is_no_loop() -> None:
    assert told(*(read(f"{number}.txt") for number in range(30))).types() == []


def test_many_files_with_the_same_short_content_are_no_loop() -> None:
    assert told(*(read(f"{number}/__init__.py", "from .base import *") for number in range(8))).types() == []


def test_same_tests_after_each_edit_are_no_loop() -> None:
    story = Story()
    for number in range(6):
        story.calls("edit", {"path": "a.py", "newText": str(number)}, "ok").runs("pytest -q", "12 passed")
    assert story.types() == []


def test_same_command_at_the_beginning_and_the_end_is_no_loop() -> None:
    status = run("git status", "nothing to commit")
    assert told(status, *(read(f"{number}.txt") for number in range(9)), status).types() == []


def test_looking_at_one_file_between_others_is_no_loop() -> None:
    story = Story()
    for number in range(6):
        story.calls("read", {"path": "TODO.md"}, "1. all").calls("read", {"path": f"{number}.md"}, f"text {number}")
    assert story.types() == []


@pytest.mark.parametrize("answer", ["ok", "File written", "Successfully wrote 10 bytes"])
def test_writes_that_all_answer_the_same_are_no_loop(answer: str) -> None:
    story = Story()
    for number in range(9):
        story.calls("write", {"path": f"{number}.txt", "content": "x"}, answer)
    assert story.types() == []


def test_sleeping_is_no_loop() -> None:
    assert told(run("sleep 60", "(no output)"), rounds=15).types() == []


def test_short_waiting_without_a_result_is_no_loop() -> None:
    story = told(run("sleep 20; gh run view 1", "in progress"), rounds=6)
    assert story.says("It is still in progress; I will look again tomorrow.").types() == []


def test_looking_at_something_that_runs_is_no_loop_at_once() -> None:
    story = told(run("docker ps", "web  starting"), rounds=4)
    assert story.says("It is still starting.").types() == []


def test_looking_again_for_the_user_is_no_loop() -> None:
    story = Story()
    for _ in range(4):
        story.user("and now?").calls("read", {"path": "a.txt"}, "nothing new").says("Nothing new.")
    assert story.types() == []


def test_long_outputs_that_begin_alike_are_not_the_same() -> None:
    story = Story()
    for number in range(5):
        cut = {"cut": True, "size": 9000, "digest": f"sha256:{number}", "excerpt": "building\n" * 200}
        story.calls("exec", {"command": "make"}, {"content": [{"type": "text", "text": cut}]})
    assert story.types() == []


def test_looking_at_different_things_with_the_same_short_answer_is_no_loop() -> None:
    story = Story()
    for number in range(9):
        story.calls("get_order", {"id": number}, "delivered")
    assert story.types() == []


def test_starting_the_day_in_memory_is_no_loop() -> None:
    story = Story().user("what is new?")
    for day in ("2026-11-14", "2026-11-15"):
        story.calls("memory_get", {"path": f"memory/{day}.md"}, "")
    assert story.says("Nothing is noted yet.").types() == []


# no_progress


def fruitless(count: int) -> Story:
    story = Story()
    for number in range(count):
        story.calls("search", {"query": f"idea {number}"}, f"Not found: idea {number}")
    return story


def test_many_fruitless_steps_are_no_progress() -> None:
    finding = fruitless(9).only("no_progress")
    assert finding.occurrences == 9
    assert finding.severity == "medium"


def test_printing_requests_instead_of_making_them_is_no_progress() -> None:
    story = Story()
    for number in range(4):
        words = f"please look up the population of town number {number} and tell me how many people live there today"
        story.calls("python_interpreter", {"code": f"print('{words}')"}, f"{words} {words.upper()}")
    assert "echoed" in story.only("no_progress").title


def test_some_fruitless_steps_are_a_search() -> None:
    assert "no_progress" not in fruitless(7).types()


def test_find_in_between_is_progress() -> None:
    story = fruitless(6).calls("search", {"query": "idea"}, "Found: it is in the cellar, on the left")
    for number in range(6):
        story.calls("search", {"query": f"notion {number}"}, f"Not found: notion {number}")
    assert "no_progress" not in story.types()


def test_commands_that_say_nothing_are_progress() -> None:
    assert told(*(run(f"mv {number}.txt old/") for number in range(12))).types() == []


def test_waiting_is_no_lack_of_progress() -> None:
    poll = {"action": "poll", "sessionId": "s1"}
    story = told(lambda story: story.calls("process", poll, "(no new output)\n\nProcess still running."), rounds=9)
    assert story.calls("process", poll, "Process exited with code 0.").types() == []


def test_errors_that_all_differ_are_news() -> None:
    story = Story()
    reasons = [
        "disk full",
        "bad magic",
        "locked",
        "too old",
        "wrong owner",
        "read only",
        "stale handle",
        "loop",
        "busy",
    ]
    for number, reason in enumerate(reasons):
        story.fails("convert", {"step": number * 1000}, reason)
    assert "no_progress" not in story.types()


def test_edits_that_echo_what_they_wrote_are_progress() -> None:
    story = Story()
    for number in range(6):
        content = " ".join(f"word{number}{letter}" for letter in "abcdefghijklmnop")
        story.calls("write", {"path": f"{number}.txt", "content": content}, content)
    assert story.types() == []


def test_title_tells_all_calls_and_those_that_taught_nothing_apart() -> None:
    story = Story()
    for _ in range(5):
        story.model().calls("read", {"path": "a.txt"}, "apples")
    assert story.only("tool_loop").title == "`read` called 5 times, 4 of them without a new result"
    cycle = Story()
    for _ in range(3):
        cycle.model().calls("read", {"path": "a.txt"}, "apples").calls("read", {"path": "b.txt"}, "pears")
    assert "called 6 times, 4 of them without" in cycle.only("tool_loop").title


def clicks(times: int, page: str = '- alert: enter a date\n- button "Search" [ref=e9]') -> Story:
    story = Story().user("What does the morning flight cost?")
    for number in range(times):
        story.calls("browser_click", {"ref": "e9"}, page)
        if number in (1, 3):
            story.calls("browser_snapshot", {}, page)
    return story.says("The site does not answer.").finishes()


def test_clicking_again_and_again_on_a_page_that_stays_the_same_is_a_loop_although_the_agent_looks_in_between() -> None:
    assert clicks(7).only("tool_loop").severity == "medium"


def test_clicking_once_more_on_a_page_that_may_still_load_is_no_loop() -> None:
    assert "tool_loop" not in clicks(2).types()


PODS = "NAME READY STATUS RESTARTS\nledger-api-1 0/1 CrashLoopBackOff 14\nledger-api-2 0/1 CrashLoopBackOff 14\n" * 2
FATAL = '{"level":"fatal","msg":"required key LEDGER_SIGNING_KEY_ID is not set","logger":"config","pid":1}'


def looked(log: str, wide: str) -> Story:
    """Looks at the same things, with calls in between that are written in another way."""
    story = Story().user("Why does it crash?")
    for command, output in (
        *(("svc -n ledger pods", PODS), ("svc -n ledger log a", FATAL), ("svc -n ledger pods", PODS)),
        *(("svc -n ledger log b", log), ("svc -n ledger pods", PODS), ("svc -n ledger log a", FATAL)),
        *(("svc -n ledger pods --wide", wide), ("svc -n ledger pods", PODS)),
    ):
        story.model().runs(command, output)
    return story.says("I am still looking.").finishes()


def test_asking_in_another_way_for_the_same_result_does_not_end_a_loop() -> None:
    assert looked(FATAL, PODS).only("tool_loop").severity == "medium"


def test_a_new_result_between_repeated_looks_is_progress() -> None:
    assert "tool_loop" not in looked("listening on port 8080, waiting for requests " * 3, f"{PODS} NODE n1").types()


def test_queries_that_return_no_rows_in_other_words_are_a_loop() -> None:
    story = Story().user("How many Pro customers left in September?")
    for count in ("count(*)", "count(1)", "count(id)", "sum(1)"):
        sql = f"SELECT region, {count} FROM subscriptions WHERE plan = 'Pro' AND month = '2026-09' GROUP BY region"
        story.calls("sql_query", {"sql": sql}, '{"columns":["region","n"],"rows":[],"row_count":0}')
    assert story.says("There is no such customer.").only("tool_loop").occurrences == 3


def test_record_with_an_empty_member_is_found() -> None:
    story = Story().user("Who is on call?")
    for name in ("ana", "bo", "cy", "di"):
        story.calls("people_get", {"name": name}, f'{{"name":"{name}","tags":[],"mails":["{name}@corp.example"]}}')
    assert "tool_loop" not in story.says("Di is on call.").types()


def test_memory_that_is_asked_in_vain_again_and_again_is_found() -> None:
    story = Story().user("What was the name of the dentist?")
    for query in ("dentist", "name", "clinic", "tooth"):
        story.calls("memory_search", {"query": query}, '{"results":[],"files":["memory/2026-07.md"]}')
    assert story.says("I do not know it.").only("tool_loop").severity == "medium"
