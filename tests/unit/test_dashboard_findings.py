"""Findings and claims wherever a page shows what they are about, and the words around them."""

from __future__ import annotations

import re
from typing import Any

from conversations import MAIN, OTHER, misreporting_run
from dashboards import BEGIN, Dashboard, failing_tests
from hypothesis import given
from hypothesis import strategies as st
from support import Runs, attached, recorded

from critiqor.conversation.checked_text import Fragment, Piece, with_code
from critiqor.dashboard.pages.run_addresses import session_segment
from critiqor.model import Event
from critiqor.search.terms import matching_excerpt

CALLS = 60


def words_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page.partition("<main")[2]))


def looping_run(runs: Runs, text: str = "Write the totals.") -> str:
    """A run in which the same call returns the same result again and again, each time for money."""
    run_id, records = runs.start(), [attached(1, at=BEGIN)]

    def add(event_type: str, **fields: Any) -> None:
        number = len(records) + 1
        records.append(recorded(number, event_type, at=BEGIN + 100 * number, session_key=MAIN, **fields))

    add("agent_start", payload={"attempt": 1})
    add("message_end", payload={"role": "user", "text": text})
    for number in range(CALLS):
        usage = {"usage": {"input": 1000, "output": 20, "cost": {"total": 0.001}}, "provider": "lab", "model": "m"}
        add("before_provider_request", payload={"callId": f"m{number}"})
        add("after_provider_response", duration_ms=50, payload={"callId": f"m{number}", **usage})
        call = {"tool_name": "exec", "tool_call_id": f"call_{number}"}
        add("tool_call", payload={"arguments": {"command": "cat import/status.json"}}, **call)
        add("tool_result", duration_ms=5, payload={"result": '{"state": "running", "done": 41}'}, **call)
    add("message_end", payload={"role": "assistant", "text": "The import is still running, so there are no totals."})
    add("agent_end", payload={"success": True})
    runs.write(run_id, *records)
    runs.finalize(run_id)
    return run_id


def test_every_call_of_a_loop_is_marked_although_only_some_are_cited(runs: Runs) -> None:
    run, user = f"/runs/{looping_run(runs)}", Dashboard(runs).user()
    entries = []
    for page in (1, 2):
        entries += user.get(f"{run}/sessions/{session_segment(MAIN)}?page={page}").text.split("<article ")[1:]
    calls = [entry for entry in entries if "Tool call exec" in entry]
    assert len(calls) == CALLS
    assert all("/diagnosis#finding_001" in call for call in calls)
    problems = words_of(user.get(f"{run}/sessions/{session_segment(MAIN)}?show=problems").text)
    assert f"1 to 50 of {CALLS} entries" in problems
    diagnosis = words_of(user.get(f"{run}/diagnosis").text)
    assert re.search(r"It happened \d+ times; \d+ events are cited, the first and the last ones\.", diagnosis)


def test_the_overview_shows_the_money_that_was_wasted(runs: Runs) -> None:
    page = words_of(Dashboard(runs).user().get(f"/runs/{looping_run(runs)}").text)
    assert re.search(r"Wasted\$0\.0\d+, [\d,]+ tokens", page)


def test_problems_are_also_what_is_wrong_although_nothing_failed(runs: Runs) -> None:
    run_id = failing_tests(runs)
    page = Dashboard(runs).user().get(f"/runs/{run_id}/sessions/{session_segment(MAIN)}?show=problems").text
    assert "Done: all tests pass." in words_of(page)


def test_the_claims_are_listed_with_their_status_and_their_events(runs: Runs) -> None:
    run, user = f"/runs/{misreporting_run(runs)}", Dashboard(runs).user()
    overview = user.get(run).text
    assert f'<a href="{run}/diagnosis#claims">Claims</a>' in overview
    listed = user.get(f"{run}/diagnosis").text.partition('id="claims"')[2].partition("</section>")[0]
    claims = re.findall(r'<li class="doubt (\w+)".*?</li>', listed, re.DOTALL)
    checked = re.search(r"Claims</a>: (\d+) checked", overview)
    assert checked is not None and len(claims) == int(checked[1])
    assert claims[0] == "contradicted", "the worst first"
    for address in set(re.findall(r'href="([^"]+)"', listed)):
        assert user.get(address).status_code == 200


def test_events_that_a_finding_cites_are_marked_in_the_evidence(runs: Runs) -> None:
    run_id = failing_tests(runs)
    page = Dashboard(runs).user().get(f"/runs/{run_id}/evidence").text
    marked = [row for row in page.split("<tr ")[1:] if "/diagnosis#finding_001" in row]
    assert len(marked) == 2 and all(' class="' in row and "cited" in row for row in marked)


def test_sessions_are_named_by_what_was_asked(runs: Runs) -> None:
    run, user = f"/runs/{misreporting_run(runs)}", Dashboard(runs).user()
    for page in (run, f"{run}/sessions", "/sessions"):
        text = user.get(page).text
        assert "Count the lines and run the tests." in text.partition("<table")[2], page
        assert ">Task</th>" not in text, page
    assert "Hello?" in user.get(f"{run}/sessions?q=hello").text
    assert user.get("/sessions?q=hello").text.count("<tr data-row") == 1
    anonymous = misreporting_run(runs, visibility="anonymous")
    page = Dashboard(runs).stranger().get(f"/runs/{anonymous}/sessions").text
    assert "Count the lines" not in page and OTHER not in page


def test_whether_the_task_was_done_is_not_shown_where_it_is_unknown(runs: Runs) -> None:
    run, user = f"/runs/{looping_run(runs)}", Dashboard(runs).user()
    for page in (f"{run}/sessions", "/sessions"):
        assert "Task done" not in user.get(page).text, page


def test_the_number_of_entries_is_the_same_above_and_below_a_list(runs: Runs) -> None:
    page = Dashboard(runs).user().get(f"/runs/{looping_run(runs)}/conversation").text
    shown = re.findall(r'<nav class="pager"[^>]*>\s*<span>([^<]+)</span>', page)
    assert len(shown) == 2 and shown[0] == shown[1]


def test_runs_of_different_tasks_are_not_called_cheaper(runs: Runs) -> None:
    one, other, again = looping_run(runs), looping_run(runs, "Count the files."), looping_run(runs)
    user = Dashboard(runs).user()
    assert "The two runs were asked different things." in user.get(f"/compare?run={one}&run={other}").text
    assert "The two runs were asked different things." not in user.get(f"/compare?run={one}&run={again}").text


def test_code_is_code_in_messages_and_drawings(runs: Runs) -> None:
    run, user = f"/runs/{looping_run(runs, 'Write `totals.txt` & <b>stop</b>.')}", Dashboard(runs).user()
    assert "Write <code>totals.txt</code> &amp; &lt;b&gt;stop" in user.get(f"{run}/conversation").text
    assert "`" not in user.get(f"{run}/diagnosis").text.partition('id="graph"')[2].partition("</section>")[0]


@given(st.lists(st.text("a`\n b", max_size=12), max_size=6))
def test_fragments_lose_nothing_but_backticks(texts: list[str]) -> None:
    pieces = with_code([Piece(text) for text in texts])
    assert [piece.text for piece in pieces] == texts
    for piece in pieces:
        assert "".join(each.text for each in piece.fragments).replace("`", "") == piece.text.replace("`", "")


def test_code_can_reach_over_the_end_of_a_claim() -> None:
    pieces = with_code([Piece("see `a"), Piece(".txt"), Piece("` and `b` or ``` c")])
    assert [piece.fragments for piece in pieces] == [
        (Fragment("see "), Fragment("a", is_code=True)),
        (Fragment(".txt", is_code=True),),
        (Fragment(" and "), Fragment("b", is_code=True), Fragment(" or ``` c")),
    ]


def test_a_search_shows_the_text_that_matches_and_no_ids_beside_it() -> None:
    event = Event(event_type="message_end", payload={"text": "Was it mentioned?", "message_id": "c472fc1b"})
    assert matching_excerpt(event, "mentioned") == "Was it mentioned?"
    assert matching_excerpt(event, "c472fc1b") == "c472fc1b"
