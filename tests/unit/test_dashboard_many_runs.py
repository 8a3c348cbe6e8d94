"""Pages about several runs: tool calls side by side, cost by day, export and removal of chosen runs."""

from __future__ import annotations

import io
import zipfile

from dashboards import Dashboard, failing_tests
from starlette.testclient import TestClient
from support import Runs

from critiqor.comparison.call_alignment import AlignedCall, align_calls
from critiqor.comparison.text_diff import text_diff


def posted(client: TestClient, path: str, fields: dict[str, str | list[str]]) -> int:
    origin = {"Origin": str(client.base_url).rstrip("/")}
    return client.post(path, data=fields, headers=origin).status_code


def call(arguments: str, result: str = "ok", tool: str = "exec") -> AlignedCall:
    return AlignedCall(tool, arguments, result, is_failed=False)


def test_calls_are_aligned_by_their_arguments_then_by_their_tools() -> None:
    before = [call("ls"), call("pytest", "1 failed"), call("a.py", tool="read"), call("git push")]
    after = [call("ls"), call("b.py", tool="read"), call("pytest", "1 passed"), call("git push"), call("date")]
    assert [pair.relation for pair in align_calls(before, after)] == [
        "same",
        "only after",
        "result differs",
        "only before",
        "same",
        "only after",
    ]
    [pair] = align_calls([call("pytest tests/a")], [call("pytest tests/b")])
    assert pair == (0, 0, "arguments differ")
    assert align_calls([], []) == []


def test_a_difference_has_words_of_short_texts_and_lines_of_long_ones() -> None:
    words = [(piece.kind, piece.text) for piece in text_diff("all 11 tests pass", "all 12 tests pass")]
    assert words == [("same", "all "), ("removed", "11"), ("added", "12"), ("same", " tests pass")]
    before = "\n".join(f"line {number}" for number in range(20))
    lines = [(piece.kind, piece.text) for piece in text_diff(before, before.replace("line 10", "other"))]
    assert (
        ("removed", "line 10\n") in lines and ("added", "other\n") in lines and lines[0] == ("gap", "8 equal lines\n")
    )
    unlike = [piece.kind for piece in text_diff("one two three", "four five six")]
    assert unlike == ["removed", "same", "added"]
    assert text_diff("", "") == []


def test_two_runs_are_compared_call_by_call_with_their_answers(runs: Runs) -> None:
    first, second = failing_tests(runs), failing_tests(runs, "12 passed")
    page = Dashboard(runs).user().get(f"/compare?run={first}&run={second}").text
    assert "arguments differ" in page and "<del>" in page and "<ins>" in page
    assert "the same answer" in page
    same = Dashboard(runs).user().get(f"/compare?run={first}&run={failing_tests(runs)}")
    assert "No tool call differs." in same.text and "0 calls differ, 1 call is the same" in same.text


def test_costs_are_added_up_by_day_and_agent_model_or_session(runs: Runs) -> None:
    failing_tests(runs, agent_id="billing")
    failing_tests(runs, agent_id="sales")
    user = Dashboard(runs).user()
    by_agent = user.get("/costs").text
    assert "billing" in by_agent and "sales" in by_agent and "$0.0200" in by_agent
    assert "scripted" in user.get("/costs?by=model").text
    assert "$0.0100" in user.get("/costs?by=agent&agent=sales").text
    assert "agent:main:main" in user.get("/costs?by=session").text
    assert Dashboard(runs).stranger().get("/costs").status_code == 403


def test_chosen_runs_are_exported_as_one_archive(runs: Runs) -> None:
    chosen = [failing_tests(runs), failing_tests(runs)]
    failing_tests(runs)
    answer = Dashboard(runs).user().get("/runs/export", params={"run": chosen})
    names = zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
    assert {name.split("/")[1] for name in names if "/run_" in name} == set(chosen)
    assert Dashboard(runs).user().get("/runs/export").status_code == 400
    assert Dashboard(runs).stranger().get("/runs/export", params={"run": chosen}).status_code == 403


def test_chosen_runs_are_removed_after_a_confirmation_but_never_one_that_is_recorded(runs: Runs) -> None:
    chosen = [failing_tests(runs), failing_tests(runs)]
    live = runs.start()
    user = Dashboard(runs).user()
    asked = user.get("/runs/removal", params={"run": chosen}).text
    assert "Remove 2 runs" in asked
    assert posted(user, "/remove-runs", {"run": chosen}) == 400, "it is not confirmed"
    assert posted(Dashboard(runs).guest(chosen[0]), "/remove-runs", {"run": chosen, "confirm": "remove"}) == 403
    assert posted(user, "/remove-runs", {"run": [live], "confirm": "remove"}) == 200
    assert posted(user, "/remove-runs", {"run": [chosen[0]], "confirm": "remove"}) == 303
    listed = user.get("/runs").text
    assert chosen[0] not in listed and chosen[1] in listed and live in listed
