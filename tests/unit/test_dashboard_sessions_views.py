"""Evidence, context, cost, timeline and events of a run with several sessions."""

from __future__ import annotations

import re

import pytest
from conversations import HELPER, MAIN, misreporting_run
from dashboards import Dashboard
from starlette.testclient import TestClient
from support import Runs

from critiqor.dashboard.render.event_content import event_contents
from critiqor.model import Event


@pytest.fixture
def several(runs: Runs) -> tuple[TestClient, str]:
    run_id = misreporting_run(runs)
    return Dashboard(runs).user(), f"/runs/{run_id}"


def rows(page: str) -> list[str]:
    return re.findall(r'aria-label="Event (\d+)"', page)


def test_events_without_content_are_folded_unless_they_failed_or_are_asked_for(several: tuple[TestClient, str]) -> None:
    client, run = several
    page, everything = (client.get(f"{run}/evidence{query}").text for query in ("", "?all=1"))
    assert len(rows(page)) < len(rows(everything))
    assert "recorder attached</bdi></span></td>" not in page and "recorder attached</bdi></span></td>" in everything
    assert re.search(r"Show \d+ events without content", page)
    assert "503 overloaded" in page and "agent run ends</bdi></span></td>" in page, "an end that failed is shown"
    assert rows(client.get(f"{run}/evidence?type=agent_start").text), "a type that is asked for is shown"


def test_counts_of_filters_follow_the_search_and_the_session(several: tuple[TestClient, str]) -> None:
    client, run = several
    assert 'value="exec">exec (4)' in client.get(f"{run}/evidence").text
    found = client.get(f"{run}/evidence?q=pytest").text
    assert 'value="exec">exec (1)' in found and "sessions_spawn (" not in found
    of_session = client.get(f"{run}/evidence?session={HELPER}").text
    assert 'value="exec">exec (2)' in of_session and "wc -l" in of_session and "pytest" not in of_session
    assert client.get(f"{run}/evidence?session=nobody").status_code == 404


def test_sessions_are_lanes_and_agent_runs_are_named_by_their_messages(several: tuple[TestClient, str]) -> None:
    client, run = several
    page = client.get(f"{run}/timeline").text
    assert f">{MAIN}</text>" in page and "Count the lines and run the tests." in page
    only = client.get(f"{run}/timeline?session={HELPER}").text
    assert "Tools: exec" in only and "sessions_spawn," not in only
    zoomed = re.search(r'id="zoom-in" href="([^"]+)"', only)
    assert zoomed and f"session={HELPER.replace(':', '%3A')}" in zoomed[1], "a zoom keeps the session"


def test_agent_runs_are_listed_in_order_of_time_by_their_messages(several: tuple[TestClient, str]) -> None:
    client, run = several
    page = client.get(f"{run}/cost").text.split('id="turn-table"')[1]
    assert page.index("Count the lines and run the tests.") < page.index("Count the lines.</bdi>")


def test_json_is_a_tree_and_an_edit_is_a_difference() -> None:
    payload = {"arguments": {"path": "a.py", "edits": [{"oldText": "limit = 1", "newText": "limit = 2"}]}}
    edit, path = event_contents(Event(event_type="tool_call", payload=payload))
    assert [piece.kind for piece in edit.edit] == ["same", "removed", "added"] and path.text == "a.py"
    [result] = event_contents(Event(event_type="tool_output", payload={"result": '{"rows": [{"id": 1}, {"id": 2}]}'}))
    assert result.tree is not None
    [listed] = result.tree.children
    assert (listed.name, listed.text, [child.children[0].text for child in listed.children]) == (
        "rows",
        "[2]",
        ["1", "2"],
    )
    [text] = event_contents(Event(event_type="tool_output", payload={"result": "\x1b[31mred\x1b[0m\nline"}))
    assert text.text == "red\nline"


def test_a_tree_is_bounded_whatever_was_recorded() -> None:
    deep: object = "x"
    for _ in range(200):
        deep = {"inner": deep}
    wide = {"many": list(range(5000)), "deep": deep}
    [content] = event_contents(Event(event_type="tool_output", payload={"result": wide}))
    assert content.tree is not None and content.tree.children[0].left_out > 4000


def test_a_timeline_without_an_index_loads_itself_again(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id, user = misreporting_run(runs), Dashboard(runs).user()
    assert "reload.js" not in user.get(f"/runs/{run_id}/timeline").text
    monkeypatch.setattr("critiqor.dashboard.data.index_cache.IndexCache.index_of", lambda *_: None)
    page = user.get(f"/runs/{run_id}/timeline").text
    assert "reload.js" in page and "This page shows the chart when it is ready" in page
