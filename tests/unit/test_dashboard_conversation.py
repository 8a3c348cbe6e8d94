"""The conversation page: messages, calls, subagents, findings and claims; search, paging and addresses."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

import pytest
from conversations import HELPER, MAIN, OTHER, misreporting_records, misreporting_run
from dashboards import BEGIN, Dashboard, failing_tests
from hostile import MARKUP
from support import Runs, attached, recorded

from critiqor.dashboard.data import conversation_source
from critiqor.dashboard.data.conversation_source import IndexedConversations, ScannedConversations
from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.dashboard.pages.run_addresses import session_key_of, session_segment
from critiqor.privacy.visibility import OWNER
from critiqor.run.view import RunView


def address(run_id: str, session: str | None, query: str = "") -> str:
    return f"/runs/{run_id}/sessions/{session_segment(session)}{query}"


def words_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page.partition("<main")[2]))


def test_the_conversation_shows_what_was_said_and_done(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    page = Dashboard(runs).user().get(address(run_id, MAIN)).text
    words = words_of(page)
    for text in (
        "Count the lines and run the tests.",
        "503 overloaded",
        "Attempt 2 after 40 ms: server_error",
        "880 ms · 900 tokens in, 30 out · $0.0100",
        "The history was compacted: 110,020 to 1,663 tokens",
        "pytest -q",
        "1.50 s · exit code 1",
        "1 failed in 0.02s",
    ):
        assert text in words, text
    assert "␛" not in words, "escape sequences of a terminal are not part of the text"


def test_the_claims_of_the_answer_are_marked_and_linked_to_what_decides_them(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    page = Dashboard(runs).user().get(address(run_id, MAIN)).text
    [false] = re.findall(r'<a class="claim contradicted" href="([^"]+)"[^>]*>All tests pass', page)
    event_page = Dashboard(runs).user().get(false).text
    assert "1 failed in 0.02s" in event_page


def test_a_finding_is_pinned_where_it_began_and_where_it_is_proven(runs: Runs) -> None:
    run_id = failing_tests(runs)
    page = Dashboard(runs).user().get(address(run_id, MAIN)).text
    entries = page.split("<article ")[1:]
    pinned = {entry.split('"')[1]: "/diagnosis#finding_001" in entry for entry in entries}
    assert sum(pinned.values()) == 2
    assert "all tests pass" in entries[-1] and "/diagnosis#finding_001" in entries[-1]


def test_a_subagent_is_nested_and_its_own_conversation_leads_back(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    user = Dashboard(runs).user()
    nested = user.get(address(run_id, MAIN)).text.partition('<details class="subagent">')[2].partition("</article>")[0]
    assert "wc -l list.txt" in user.get(address(run_id, HELPER)).text
    assert "Count the lines." in nested
    assert address(run_id, HELPER) in user.get(address(run_id, MAIN)).text
    assert f'href="{address(run_id, MAIN)}"' in user.get(address(run_id, HELPER)).text


def test_the_conversation_tab_shows_the_worst_session(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    page = Dashboard(runs).user().get(f"/runs/{run_id}/conversation").text
    assert "Count the lines and run the tests." in page
    assert "Hello?" not in page


def test_an_unknown_session_is_not_found(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    assert Dashboard(runs).user().get(address(run_id, "agent:main:nobody")).status_code == 404
    assert Dashboard(runs).user().get(address(run_id, None)).status_code == 404


@pytest.mark.parametrize("key", ["a/b/../c", "..", ".", "-", "key:..", "ä ö?#%", MARKUP["attribute"], "x" * 300])
def test_every_session_key_has_an_address(runs: Runs, key: str) -> None:
    run_id = runs.start()
    message = {"role": "user", "text": "Who is there?"}
    runs.write(run_id, attached(1, at=BEGIN), recorded(2, "message_end", at=BEGIN, payload=message, session_key=key))
    runs.finalize(run_id)
    answer = Dashboard(runs).user().get(address(run_id, key))
    assert answer.status_code == 200
    assert "Who is there?" in answer.text


@pytest.mark.parametrize("key", [None, "", "-", "..", "key:-", "key:x", "agent:main:main", "a/b"])
def test_an_address_names_one_session(key: str | None) -> None:
    assert session_key_of(unquote(session_segment(key))) == key


def test_the_address_of_an_event_opens_the_page_that_has_it(runs: Runs) -> None:
    run_id = runs.start()
    messages = [
        recorded(n, "message_end", at=BEGIN + n, payload={"role": "user", "text": f"number {n}"}) for n in range(2, 202)
    ]
    runs.write(run_id, attached(1, at=BEGIN), *messages)
    runs.finalize(run_id)
    user = Dashboard(runs).user()
    wanted = messages[130]["event_id"]
    page = user.get(address(run_id, MAIN, f"?event={wanted}")).text
    assert f'id="{wanted}"' in page
    assert "101 to 150 of 200 entries" in words_of(page)
    assert "number 2 " in words_of(user.get(address(run_id, MAIN, "?event=evt_of_nobody")).text)
    assert "151 to 200 of 200" in words_of(user.get(address(run_id, MAIN, "?page=99")).text)


def test_a_search_finds_messages_commands_and_results_of_the_session_only(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    user = Dashboard(runs).user()
    assert "1 to 1 of 1 entries" in words_of(user.get(address(run_id, MAIN, "?q=pytest")).text)
    assert "1 to 1 of 1 entries" in words_of(user.get(address(run_id, MAIN, "?q=0.02s")).text)
    assert "Nothing matches." in words_of(user.get(address(run_id, OTHER, "?q=pytest")).text)
    found = user.get(address(run_id, MAIN, "?q=overloaded")).text
    assert "<mark>overloaded</mark>" in found
    found = user.get(address(run_id, MAIN, "?q=pytest")).text
    assert re.search(r'href="[^"]+\?event=evt_[^"]+#evt_[^"]+">in context', found)


def test_messages_and_problems_can_be_shown_alone(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    user = Dashboard(runs).user()
    messages = user.get(address(run_id, MAIN, "?show=messages")).text
    problems = user.get(address(run_id, MAIN, "?show=problems")).text
    assert messages.count("<article ") == 3
    assert "All tests pass" in words_of(messages)
    for text in ("503 overloaded", "Attempt 2 after 40 ms", "pytest -q", "All tests pass", "Said “All tests pass”"):
        assert text in words_of(problems), text
    assert "Count the lines and" not in problems and "The history was compacted" not in problems
    assert user.get(address(run_id, MAIN, "?show=nonsense")).text.count("<article ") >= 8


def test_an_anonymous_viewer_sees_the_structure_and_no_texts_or_names(runs: Runs) -> None:
    run_id = misreporting_run(runs, visibility="anonymous")
    stranger = Dashboard(runs).stranger()
    page = stranger.get(f"/runs/{run_id}/sessions/session_1").text
    assert page.count("<article ") >= 8
    for text in ("pytest", "Count the lines", "All tests", "agent:main", "overloaded", "server_error", "threshold"):
        assert text not in page, text
    assert stranger.get(address(run_id, MAIN)).status_code == 404
    assert "Nothing matches" not in stranger.get(f"/runs/{run_id}/sessions/session_1?q=pytest").text


def test_a_run_that_is_being_recorded_has_a_conversation(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, *misreporting_records())
    page = Dashboard(runs).user().get(address(run_id, MAIN)).text
    assert "Count the lines and run the tests." in page


def test_without_an_index_the_first_events_are_shown_and_the_page_says_so(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation_source, "MAX_SCANNED", 6)
    run_id = runs.start()
    runs.write(run_id, *misreporting_records())
    page = words_of(Dashboard(runs).user().get(address(run_id, MAIN)).text)
    assert "Count the lines and run the tests." in page
    assert "the beginning of the run" in page
    assert "pytest" not in page


@pytest.mark.parametrize("query", [("", ""), ("messages", ""), ("problems", ""), ("", "lines"), ("messages", "tests")])
def test_an_index_and_a_scan_give_the_same_conversations(runs: Runs, query: tuple[str, str]) -> None:
    run_id = misreporting_run(runs)
    dashboard = Dashboard(runs)
    data = RunPageData(RunView(dashboard.site.store.run(run_id), OWNER), dashboard.site.indexes)
    indexed, scanned = data.conversations, ScannedConversations(data.every_event())
    assert isinstance(indexed, IndexedConversations)
    assert indexed.sessions() == scanned.sessions()
    assert indexed.session(HELPER) == scanned.session(HELPER)
    for session in indexed.sessions():
        shown, text = query
        wanted = conversation_source.EntryFilter(session.number, shown, text)  # type: ignore[arg-type]
        assert indexed.entries(wanted, 0, 100) == scanned.entries(wanted, 0, 100)
        for each in data.every_event():
            assert indexed.place(wanted, each.event.event_id) == scanned.place(wanted, each.event.event_id)


def test_hostile_session_keys_and_texts_are_text(runs: Runs) -> None:
    run_id = runs.start()
    hostile = MARKUP["script_end"]
    message = {"role": "assistant", "text": f"All tests pass. {hostile}"}
    runs.write(
        run_id, attached(1, at=BEGIN), recorded(2, "message_end", at=BEGIN, payload=message, session_key=hostile)
    )
    runs.finalize(run_id)
    paths = (f"/runs/{run_id}/conversation", address(run_id, hostile), address(run_id, hostile, f"?q={quote(hostile)}"))
    for path in paths:
        page = Dashboard(runs).user().get(path).text
        assert hostile not in page
        assert "&lt;script&gt;" in page


def test_the_page_of_an_event_shows_call_and_result_as_text_with_its_neighbours(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    user = Dashboard(runs).user()
    [entry] = re.findall(r'<article id="(evt_\w+)"[^>]*failed', user.get(address(run_id, MAIN, "?q=pytest")).text)
    call = user.get(f"/runs/{run_id}/events/{entry}").text
    [other] = re.findall(r'id="counterpart" href="([^"]+)"', call)
    for page in (call, user.get(other).text):
        texts = page.partition('id="texts"')[2].partition("</section>")[0]
        assert "pytest -q" in texts
        assert "F\n1 failed in 0.02s" in texts
    [following] = re.findall(r'rel="next" href="([^"]+)"', call)
    assert f"/events/{entry}" in user.get(following).text


def test_the_first_event_has_no_previous_one_and_the_last_no_next_one(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    user = Dashboard(runs).user()
    events = re.findall(r'href="(/runs/[^"]+/events/[^"]+)"', user.get(f"/runs/{run_id}/evidence?all=1").text)
    first, last = user.get(events[0]).text, user.get(events[-1]).text
    assert 'rel="prev"' not in first and 'rel="next"' in first
    assert 'rel="prev"' in last and 'rel="next"' not in last


def test_an_anonymous_event_has_no_texts(runs: Runs) -> None:
    run_id = misreporting_run(runs, visibility="anonymous")
    stranger = Dashboard(runs).stranger()
    events = re.findall(r'href="(/runs/[^"]+/events/[^"]+)"', stranger.get(f"/runs/{run_id}/evidence").text)
    assert events
    assert not any('id="texts"' in stranger.get(event).text for event in events)
