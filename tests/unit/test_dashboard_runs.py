"""The list of runs: what was asked, filters and orders."""

from __future__ import annotations

import re

from conversations import misreporting_run
from dashboards import Dashboard, failing_tests
from diagnosed import diagnosis, store
from hostile import MARKUP
from support import Runs


def listed(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/runs/([^"]+)"', page)


def test_each_row_has_the_first_words_of_its_task(runs: Runs) -> None:
    failing_tests(runs, "two tests fail")
    misreporting_run(runs)
    page = Dashboard(runs).user().get("/runs").text
    assert "Fix it: two tests fail" in page
    assert "Count the lines and run the tests." in page


def test_the_task_of_a_run_with_several_sessions_is_that_of_the_worst_one(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    page = Dashboard(runs).user().get("/runs").text
    row = page.partition(f'href="/runs/{run_id}"')[2].partition("</tr>")[0]
    assert "Count the lines and run the tests." in row
    assert "Hello?" not in row


def test_runs_are_found_by_the_words_of_their_task(runs: Runs) -> None:
    first, second = failing_tests(runs, "shop"), failing_tests(runs, "blog")
    user = Dashboard(runs).user()
    assert listed(user.get("/runs?q=shop+fix").text) == [first]
    assert listed(user.get("/runs?q=blog").text) == [second]


def test_runs_are_filtered_by_verdict_and_model(runs: Runs) -> None:
    failed = failing_tests(runs)
    other = store(runs, diagnosis("run_700", trust=95), day=20_000)
    empty = runs.start()
    user = Dashboard(runs).user()
    assert listed(user.get("/runs?verdict=unsafe").text) == [failed]
    assert listed(user.get("/runs?verdict=monitoring").text) == [empty]
    assert listed(user.get("/runs?model=scripted").text) == [failed]
    assert other in listed(user.get("/runs").text)


def test_runs_are_sorted_by_every_column_in_both_directions(runs: Runs) -> None:
    store(runs, diagnosis("run_701", trust=95, cost_usd=2.0), day=20_000)
    store(runs, diagnosis("run_702", trust=20, cost_usd=1.0), day=20_001)
    store(runs, diagnosis("run_703", trust=60, cost_usd=3.0), day=20_002)
    user = Dashboard(runs).user()
    assert listed(user.get("/runs").text) == ["run_703", "run_702", "run_701"]
    assert listed(user.get("/runs?sort=trust").text) == ["run_702", "run_703", "run_701"]
    assert listed(user.get("/runs?sort=-cost").text) == ["run_703", "run_701", "run_702"]
    for column in ("run", "verdict", "trust", "agent", "created", "cost", "time"):
        up, down = (listed(user.get(f"/runs?sort={sign}{column}").text) for sign in ("", "-"))
        assert up == down[::-1]
    assert 'aria-sort="descending"' in user.get("/runs?sort=-cost").text


def test_the_charts_follow_the_list(runs: Runs) -> None:
    store(runs, diagnosis("run_701", trust=95), day=20_000)
    store(runs, diagnosis("run_702", trust=20), day=20_001)
    page = Dashboard(runs).user().get("/runs").text
    assert page.index('id="runs-table"') < page.index('id="trend"')


def test_hostile_tasks_are_text(runs: Runs) -> None:
    for text in MARKUP.values():
        failing_tests(runs, text)
    page = Dashboard(runs).user().get("/runs").text
    assert not any(text in page for text in MARKUP.values() if "<" in text)
    assert "&lt;script&gt;" in page
