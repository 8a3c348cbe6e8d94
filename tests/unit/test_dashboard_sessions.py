"""Tables of sessions: of one run as a tree, and of all runs; filters, orders and what others may see."""

from __future__ import annotations

import re

from conversations import HELPER, MAIN, OTHER, misreporting_run
from dashboards import Dashboard, failing_tests
from hostile import MARKUP, hostile_run
from support import Runs

from critiqor.dashboard.data.session_rows import agent_of_session
from critiqor.dashboard.pages.sorting import Sorting


def names_of(page: str) -> list[str]:
    return re.findall(r'<th scope="row".*?<bdi>(.*?)</bdi>', page)


def test_the_sessions_of_a_run_are_a_tree_with_the_worst_first(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    page = Dashboard(runs).user().get(f"/runs/{run_id}/sessions").text
    assert names_of(page) == [MAIN, HELPER, OTHER]
    assert [int(depth) for depth in re.findall(r"nested-(\d)", page)] == [0, 1, 0]
    assert "I also sent the report." in page
    assert "The list has 3 lines." in page


def test_sessions_are_filtered_by_words_verdict_and_agent(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    user = Dashboard(runs).user()
    assert names_of(user.get(f"/runs/{run_id}/sessions?q=telegram").text) == [OTHER]
    assert names_of(user.get(f"/runs/{run_id}/sessions?q=sent+report").text) == [MAIN]
    assert names_of(user.get(f"/runs/{run_id}/sessions?agent=sales").text) == [OTHER]
    assert MAIN in names_of(user.get(f"/runs/{run_id}/sessions?verdict=unsafe").text)
    assert "No sessions match." in user.get(f"/runs/{run_id}/sessions?q=nothing+of+that+name").text


def test_a_table_is_sorted_by_every_column_in_both_directions(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    user = Dashboard(runs).user()
    for column in ("session", "agent", "verdict", "trust", "cost", "time", "calls", "started"):
        up = user.get(f"/runs/{run_id}/sessions?sort={column}").text
        down = user.get(f"/runs/{run_id}/sessions?sort=-{column}").text
        assert names_of(up) == names_of(down)[::-1]
        assert sorted(names_of(up)) == sorted([MAIN, HELPER, OTHER])
    assert names_of(user.get(f"/runs/{run_id}/sessions?sort=trust").text)[0] == MAIN
    assert names_of(user.get(f"/runs/{run_id}/sessions?sort=nonsense").text) == [MAIN, HELPER, OTHER]


def test_the_sessions_of_all_runs_name_their_runs(runs: Runs) -> None:
    first, second = misreporting_run(runs), failing_tests(runs)
    page = Dashboard(runs).user().get("/sessions").text
    assert names_of(page) == [MAIN, MAIN, HELPER, OTHER]
    assert f'href="/runs/{first}"' in page and f'href="/runs/{second}"' in page
    assert names_of(Dashboard(runs).user().get(f"/sessions?q={second}").text) == [MAIN]


def test_the_sessions_of_other_tenants_and_of_strangers_stay_hidden(runs: Runs) -> None:
    misreporting_run(runs, tenant_id="somebody")
    assert Dashboard(runs).stranger().get("/sessions").status_code == 403
    assert names_of(Dashboard(runs).user().get("/sessions").text) == []


def test_an_anonymous_viewer_sees_numbered_sessions_without_words(runs: Runs) -> None:
    run_id = misreporting_run(runs, visibility="anonymous")
    page = Dashboard(runs).stranger().get(f"/runs/{run_id}/sessions").text
    assert names_of(page) == ["session_1", "session_2", "session_3"]
    for text in ("telegram", "sales", "lines", "Hello"):
        assert text not in page


def test_hostile_names_of_sessions_are_text(runs: Runs) -> None:
    run_id = hostile_run(runs)
    for path in (f"/runs/{run_id}/sessions", "/sessions"):
        page = Dashboard(runs).user().get(path).text
        assert not any(text in page for text in MARKUP.values() if "<" in text)


def test_the_agent_of_a_session_is_named_in_its_key() -> None:
    assert agent_of_session("agent:sales:telegram:42", "x") == "sales"
    assert [agent_of_session(key, "x") for key in (None, "", "agent:", "agent::main", "other")] == ["x"] * 5


def test_a_column_links_to_its_order_and_then_to_the_opposite_one() -> None:
    unsorted = Sorting("/sessions", {"q": "a b"}, ("trust", "cost"))
    assert unsorted.address("trust") == "/sessions?q=a+b&sort=trust"
    ascending = Sorting("/sessions", {"sort": "trust"}, ("trust", "cost"))
    assert (ascending.state("trust"), ascending.state("cost")) == ("ascending", "none")
    assert ascending.address("trust") == "/sessions?sort=-trust"
    assert Sorting("/sessions", {"sort": "-trust"}, ("trust",)).address("trust") == "/sessions?sort=trust"
    assert Sorting("/sessions", {"sort": "x"}, ("trust",)).current == ""
