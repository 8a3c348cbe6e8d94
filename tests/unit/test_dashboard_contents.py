"""Pages show everything that was recorded and diagnosed; these tests fail if a part is left out."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from dashboards import Dashboard
from starlette.testclient import TestClient
from support import Runs, attached, recorded

from critiqor.dashboard.pages.timeline_page import SPLIT
from critiqor.lab.runners.runner import Runner
from critiqor.lab.scenario_file import select_scenarios, shipped_scenarios
from critiqor.model.formatting import format_cost, format_duration, format_money, format_number
from critiqor.run.store import Run
from critiqor.run.visibility import change_visibility

PLAYED = ("retry_storm", "memory_finds_it", "forgotten_after_compaction", "event_loop_stall")
BAR = re.compile(r'<a href="([^"]+)" aria-label="([^":]+): [^"]*"><rect')


class Played:
    """Runs of the lab by their scenarios, and a dashboard that shows them."""

    def __init__(self, folder: Path) -> None:
        self.runs = Runs(folder / "runs")
        self.run_ids: dict[str, str] = {}
        for name in PLAYED:
            [scenario] = select_scenarios(shipped_scenarios(), (name,))
            self.run_ids[name] = Runner("embedded").play(scenario, folder / name, self.runs.folder).run_id
        self.dashboard = Dashboard(self.runs)
        self.user = self.dashboard.user()

    def page(self, scenario: str, page: str = "", client: TestClient | None = None) -> str:
        answer = (client or self.user).get(f"/runs/{self.run_ids[scenario]}{page}")
        assert answer.status_code == 200
        return answer.text


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return Played(tmp_path_factory.mktemp("lab"))


def rows(page: str, table: str) -> list[str]:
    """The rows of a table as plain texts."""
    body = page.split(f'id="{table}"', 1)[1].split("<tbody>", 1)[1].split("</tbody>", 1)[0]
    return [" ".join(unescape(re.sub("<[^>]+>", " ", row)).split()) for row in body.split("</tr>") if row.strip()]


@pytest.mark.parametrize(
    ("scenario", "lane"),
    [
        ("retry_storm", "Retries"),
        ("retry_storm", "Model calls"),
        ("retry_storm", "Tools"),
        ("memory_finds_it", "Memory"),
        ("forgotten_after_compaction", "Compactions"),
        ("forgotten_after_compaction", "Agent runs"),
        ("event_loop_stall", "Event-loop stalls"),
        ("event_loop_stall", "Model calls"),
        ("event_loop_stall", "Processes"),
    ],
)
def test_what_took_time_has_a_lane_with_bars_that_lead_to_events(played: Played, scenario: str, lane: str) -> None:
    page = played.page(scenario, "/timeline")
    assert f">{lane}</text>" in page
    bars = [href for href, name in BAR.findall(page) if name == lane]
    assert bars
    for href in bars:
        assert played.user.get(href).status_code == 200, href


@pytest.mark.parametrize("scenario", PLAYED)
def test_the_cost_of_every_model_tool_and_turn_is_shown(played: Played, scenario: str) -> None:
    cost = Run.load(played.run_ids[scenario], played.runs.folder).diagnosis.cost_analysis
    page = played.page(scenario, "/cost")
    models, tools, turns = rows(page, "model-table"), rows(page, "tool-table"), rows(page, "turn-table")
    assert cost.per_model and cost.per_tool and cost.per_turn
    for model, row in zip(cost.per_model, models, strict=True):
        tokens = f"{format_number(model.input_tokens)} {format_number(model.output_tokens)}"
        figures = f"{format_cost(model)} {tokens} {model.model_calls}"
        assert row.startswith(f"{model.provider} {model.model} {figures} ")
    for tool, row in zip(cost.per_tool, tools, strict=True):
        assert tool.tokens and tool.cost_usd
        assert row.startswith(f"{tool.tool} {format_money(tool.cost_usd)} {format_number(tool.tokens)} {tool.calls} ")
    assert [row.split()[0] for row in turns] == [str(place) for place in range(1, len(cost.per_turn) + 1)]
    for turn in cost.per_turn:
        assert any(f" {format_cost(turn)} {format_number(turn.input_tokens)} " in row for row in turns)
        link = f"/runs/{played.run_ids[scenario]}/evidence?q={turn.scope.agent_run_id}"
        assert f'href="{link}"' in page
        assert "There are no such events" not in played.user.get(link).text


@pytest.mark.parametrize("scenario", PLAYED)
def test_the_parts_of_every_turn_are_shown(played: Played, scenario: str) -> None:
    timeline = Run.load(played.run_ids[scenario], played.runs.folder).diagnosis.timeline
    assert timeline is not None and timeline.turns
    page = played.page(scenario, "/timeline")
    for turn, row in zip(timeline.turns, rows(page, "turns"), strict=True):
        parts = [
            f"{label} {format_duration(getattr(turn.split, name))}"
            for name, label in SPLIT.items()
            if getattr(turn.split, name)
        ]
        assert len(parts) >= 3
        assert row.endswith(f"{format_duration(turn.duration_ms)} {' '.join(parts)}")


def test_no_link_leads_strangers_to_a_line_of_the_timeline_that_they_may_not_see(played: Played) -> None:
    run_id = played.run_ids["event_loop_stall"]
    change_visibility(Run.load(run_id, played.runs.folder), "anonymous")
    stranger = played.dashboard.stranger()
    try:
        for page in ("", "/timeline", "/diagnosis"):
            text = played.page("event_loop_stall", page, stranger)
            links = set(re.findall(rf'href="(/runs/{run_id}[^"#]*)', text))
            assert len(links) > 8
            for link in links:
                assert stranger.get(unescape(link)).status_code == 200, link
    finally:
        change_visibility(Run.load(run_id, played.runs.folder), "private")


def test_redacted_secrets_and_gaps_in_the_evidence_are_shown(runs: Runs) -> None:
    run_id = runs.start()
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    runs.write(run_id, attached(1), recorded(2, "message_end", payload={"text": f"the token {secret}"}), b'{"broken\n')
    runs.write(run_id, recorded(3, "message_end", payload={"text": "on"}))
    runs.finalize(run_id)
    coverage = runs.evidence(run_id)["coverage"]
    assert coverage["secrets_redacted"] and coverage["notes"]
    client = Dashboard(runs).user()
    trust, evidence = client.get(f"/runs/{run_id}/trust").text, client.get(f"/runs/{run_id}/evidence").text
    redacted = trust.split('id="redacted"')[1].split("</section>")[0]
    for kind, times in coverage["secrets_redacted"].items():
        assert f"<li>{kind.replace('_', ' ')}: {times}</li>" in redacted
    for note in coverage["notes"]:
        assert f"<li>{note}</li>" in unescape(trust.split('id="left-out"')[1].split("</section>")[0])
        assert f"<li>{note}</li>" in unescape(evidence.split('id="unseen"')[1].split("</section>")[0])
        assert note in unescape(client.get(f"/runs/{run_id}").text)
    assert "No secret was found" not in trust and secret not in trust + evidence
