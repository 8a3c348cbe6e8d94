"""The final answer with its claims: in the terminal, on the overview and in the HTML report."""

from __future__ import annotations

import re

from conversations import ANSWER, MAIN, OTHER, misreporting_run
from dashboards import Dashboard, failing_tests
from hostile import CONTROLS, MARKUP
from support import Cli, Runs

from critiqor.dashboard.render.offline import offline_pages
from critiqor.run.explanation import explain_answers
from critiqor.run.store import Run
from critiqor.run.view import RunView


def report_of(runs: Runs, run_id: str) -> str:
    return b"".join(offline_pages(Run.load(run_id, runs.folder))).decode()


def test_every_session_with_an_answer_is_explained_the_worst_first(runs: Runs) -> None:
    answers = explain_answers(RunView(Run.load(misreporting_run(runs), runs.folder)))
    assert answers[0].session_key == MAIN
    assert (answers[0].text, answers[0].request) == (ANSWER, "Count the lines and run the tests.")
    assert {answer.session_key: answer.text for answer in answers}[OTHER] == "Hello."
    claims = {ANSWER[claim.start : claim.end]: claim.status for claim in answers[0].claims}
    assert claims["All tests pass."] == "contradicted"


def test_explain_answer_numbers_each_claim_and_names_the_event_that_decides_it(cli: Cli, runs: Runs) -> None:
    run_id = failing_tests(runs)
    said = cli("explain", run_id, "--answer", "--runs-dir", runs.folder)
    assert said.code == 0
    assert "Done: all tests pass.[1]" in said.out
    [event] = re.findall(r"\[1\] contradicted: .*\((evt_\w+)\)", said.out)
    assert event in cli("explain", run_id, "--runs-dir", runs.folder).out


def test_explain_answer_as_json_has_the_claims_with_their_places(cli: Cli, runs: Runs) -> None:
    run_id = misreporting_run(runs)
    data = cli("explain", run_id, "--answer", "--json", "--runs-dir", runs.folder).data
    claim = next(each for each in data[0]["claims"] if each["status"] == "contradicted")
    assert data[0]["text"][claim["start"] : claim["end"]].startswith(claim["text"][:10])
    assert claim["evidence"]


def test_explain_answer_takes_no_finding(cli: Cli, runs: Runs) -> None:
    run_id = failing_tests(runs)
    refused = cli("explain", run_id, "1", "--answer", "--runs-dir", runs.folder)
    assert refused.code == 2
    assert f"critiqor explain {run_id} --answer" in refused.err


def test_a_run_without_an_answer_says_so(cli: Cli, runs: Runs) -> None:
    run_id = runs.start()
    runs.finalize(run_id)
    said = cli("explain", run_id, "--answer", "--runs-dir", runs.folder)
    assert (said.code, "No agent answered." in said.out) == (0, True)


def test_the_overview_shows_request_and_answer_with_the_false_sentence_linked_to_its_proof(runs: Runs) -> None:
    run_id = failing_tests(runs)
    user = Dashboard(runs).user()
    page = user.get(f"/runs/{run_id}").text.partition('id="exchange"')[2].partition("</section>")[0]
    assert "Fix it: 1 failed, 11 passed" in page
    [proof] = re.findall(r'<a class="claim contradicted" href="([^"]+)"', page)
    assert "exit code 1" in user.get(proof).text


def test_the_overview_says_the_headline_once(runs: Runs) -> None:
    run_id = failing_tests(runs)
    headline = RunView(Run.load(run_id, runs.folder)).require_diagnosis().headline
    words = re.sub(r"<(?!title)[^>]+>", "", Dashboard(runs).user().get(f"/runs/{run_id}").text)
    visible = re.sub(r"<title>[^<]*</title>", "", words).partition("Run record")[0]
    assert visible.count(headline.replace("`", "")) <= 1


def test_the_report_has_the_checked_answer_with_links_within_the_file(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    page = report_of(runs, run_id).partition('id="exchange"')[2].partition("</section>")[0]
    targets = re.findall(r'<a class="claim contradicted" href="#event-([^"]+)"', page)
    assert targets
    assert all(f'id="event-{target}"' in report_of(runs, run_id) for target in targets)


def test_an_anonymous_view_has_no_texts_of_the_exchange(runs: Runs) -> None:
    run_id = misreporting_run(runs, visibility="anonymous")
    for page in (Dashboard(runs).stranger().get(f"/runs/{run_id}").text, report_of(runs, run_id)):
        assert "All tests" not in page
        assert "Count the lines" not in page


def test_hostile_answers_are_text_in_the_terminal_on_the_overview_and_in_the_report(cli: Cli, runs: Runs) -> None:
    for text in (MARKUP["script_end"], MARKUP["image"], CONTROLS["color"], CONTROLS["override"]):
        run_id = failing_tests(runs, text)
        said = cli("explain", run_id, "--answer", "--runs-dir", runs.folder)
        assert not re.search(r"[\x1b\x9b\u202e]", said.out)
        for page in (Dashboard(runs).user().get(f"/runs/{run_id}").text, report_of(runs, run_id)):
            assert text not in page
