"""A dashboard shows the runs of its tenants only, to everybody; figures of several runs never mix tenants."""

from __future__ import annotations

import re
from typing import Literal, get_args

import pytest
from dashboards import Dashboard, event_ids, failing_tests
from starlette.routing import Route
from starlette.testclient import TestClient
from support import Cli, Runs

from critiqor.cli.root_command import VERBS
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.web.application import application
from critiqor.model.record import Visibility
from critiqor.run.store import RunStore

OURS, THEIRS = "alpha", "beta"
TENANTS = (OURS, THEIRS)
VISIBILITIES: tuple[Visibility, ...] = get_args(Visibility)
SECRET = "npm test"
"""Text of every run that anonymous pages do not contain."""
Sight = Literal["everything", "structure", "nothing"]
Who = Literal["user", "holder of a link", "anybody"]
DOCUMENTED: dict[Who, dict[Visibility, Sight]] = {
    "user": dict.fromkeys(VISIBILITIES, "everything"),
    "holder of a link": {
        "private": "nothing",
        "shared": "everything",
        "anonymous": "structure",
        "public": "everything",
    },
    "anybody": {"private": "nothing", "shared": "nothing", "anonymous": "structure", "public": "everything"},
}
"""The table of docs/dashboard.md, for runs of the shown tenants; of all others nobody sees anything."""


def routes(method: str) -> list[str]:
    """The addresses about one run."""
    every = [route for route in application(Site(RunStore("nowhere"), 1)).routes if isinstance(route, Route)]
    return [route.path for route in every if "{run_id}" in route.path and method in (route.methods or ())]


class World:
    """Runs of two tenants with every visibility, and a dashboard that shows some of the tenants."""

    def __init__(self, runs: Runs, *shown: str) -> None:
        self.runs = {
            (tenant, visibility): failing_tests(runs, tenant_id=tenant, visibility=visibility)
            for tenant in TENANTS
            for visibility in VISIBILITIES
        }
        self.dashboard = Dashboard(runs, *shown)

    def viewer(self, who: Who, run_id: str) -> TestClient:
        if who == "user":
            return self.dashboard.user()
        client = self.dashboard.stranger()
        if who == "holder of a link":
            client.get(f"/share/{self.dashboard.site.links.make(run_id)}")
        return client


@pytest.fixture
def world(runs: Runs) -> World:
    return World(runs, OURS)


@pytest.mark.parametrize("who", DOCUMENTED)
def test_every_page_of_a_run_is_shown_by_tenant_and_visibility(who: Who, world: World) -> None:
    seen: dict[tuple[str, str, str], Sight] = {}
    for (tenant, visibility), run_id in world.runs.items():
        client = world.viewer(who, run_id)
        event = (event_ids(client.get(f"/runs/{run_id}/evidence").text) or ["evt_x"])[0]
        chat = client.get(f"/runs/{run_id}/conversation").text
        session = (re.findall(r"/sessions/([^\"?#]+)", chat) or ["x"])[0]
        for path in routes("GET"):
            address = path.replace("{session:path}", session).format(run_id=run_id, event_id=event)
            answer = client.get(address)
            sight: Sight = "nothing" if answer.status_code in (403, 404) else "structure"
            if sight == "structure":
                assert answer.status_code == 200, path
            seen[tenant, visibility, path] = sight
        evidence = client.get(f"/runs/{run_id}/evidence").text
        if SECRET in evidence:
            for path in routes("GET"):
                assert seen[tenant, visibility, path] != "nothing"
                seen[tenant, visibility, path] = "everything"
    expected = {
        (tenant, visibility, path): DOCUMENTED[who][visibility] if tenant == OURS else "nothing"
        for tenant, visibility in world.runs
        for path in routes("GET")
    }
    assert seen == expected


@pytest.mark.parametrize("who", DOCUMENTED)
@pytest.mark.parametrize("path", routes("POST"))
def test_a_run_of_another_tenant_is_changed_by_nobody(path: str, who: Who, world: World) -> None:
    headers = {"origin": world.dashboard.site.address}
    for visibility in VISIBILITIES:
        run_id = world.runs[THEIRS, visibility]
        names = {"visibility": "public", "link_id": "x", "finding_id": "finding_001", "judgement": "wrong"}
        address = path.format(run_id=run_id, **names)
        answer = world.viewer(who, run_id).post(address, headers=headers)
        assert answer.status_code in (403, 404)
    assert [world.dashboard.site.store.run(run_id).head().visibility_changes for run_id in world.runs.values()] == [
        [] for _ in world.runs
    ]


def test_a_run_of_another_tenant_looks_like_one_that_does_not_exist(world: World) -> None:
    for who in DOCUMENTED:
        for visibility in VISIBILITIES:
            run_id = world.runs[THEIRS, visibility]
            client = world.viewer(who, run_id)
            answer, unknown = client.get(f"/runs/{run_id}"), client.get("/runs/run_999")
            assert (answer.status_code, answer.text.replace(run_id, "")) == (404, unknown.text.replace("run_999", ""))


def test_a_broken_record_can_be_anothers_and_looks_like_none(runs: Runs, world: World) -> None:
    run_id = world.runs[THEIRS, "public"]
    runs.paths.run_path(run_id).write_text("{")
    for who in DOCUMENTED:
        assert world.viewer(who, run_id).get(f"/runs/{run_id}").status_code in (403, 404)
    assert Dashboard(runs, *TENANTS).user().get(f"/runs/{run_id}").status_code == 422


@pytest.mark.parametrize("shown", [(OURS,), (THEIRS,), TENANTS])
def test_the_list_and_the_comparison_have_runs_of_the_shown_tenants_only(shown: tuple[str, ...], runs: Runs) -> None:
    world = World(runs, *shown)
    user = world.dashboard.user()
    listed = set(re.findall(r"run_\d+", user.get("/runs").text))
    assert listed == {run_id for (tenant, _), run_id in world.runs.items() if tenant in shown}
    first = world.runs[shown[0], "private"]
    for (tenant, _), run_id in world.runs.items():
        if run_id != first:
            status = user.get(f"/compare?run={first}&run={run_id}").status_code
            assert status == (200 if tenant in shown else 404)
    assert world.dashboard.stranger().get("/runs").status_code == 403


def test_a_run_is_ranked_among_the_runs_of_its_tenant(runs: Runs, cli: Cli) -> None:
    world = World(runs, OURS)
    for (tenant, _), run_id in world.runs.items():
        ranking = cli("benchmark", run_id, "--json").data
        assert (tenant, ranking["others"]) == (tenant, len(VISIBILITIES) - 1)


def test_trends_of_agents_of_the_same_name_are_not_mixed(runs: Runs, cli: Cli) -> None:
    world = World(runs, OURS)
    refused = cli("trends")
    assert refused.code == 2
    assert "critiqor trends --agent openclaw_agent --tenant alpha" in refused.err
    for tenant in TENANTS:
        shown = cli("trends", "--tenant", tenant, "--json").data
        assert [point["run_id"] for point in shown["runs"]] == [
            run_id for (owner, _), run_id in world.runs.items() if owner == tenant
        ]
    assert cli("trends", "--tenant", "nobody").code == 2


ONE_RUN = (
    "show explain timeline profile diagnose report export check policy visibility verify watch finalize abort compare "
    "pull"
)
"""Verbs about runs that the user at the terminal names."""
WHOLE_FOLDER = "runs recover completion guard notify prune search push fleet"
"""Verbs about every run of a folder, for the user at the terminal, whatever its tenant and visibility."""
WITHIN_A_TENANT = "benchmark trends dashboard mcp"
"""Verbs that take several runs together, tested above, and the server, which has tests of its own."""
WITHOUT_RUNS = "monitor attach detach import receive doctor demo agent lab keys"


def test_every_verb_is_considered() -> None:
    named = [verb for group in (ONE_RUN, WHOLE_FOLDER, WITHIN_A_TENANT, WITHOUT_RUNS) for verb in group.split()]
    assert sorted(named) == sorted(VERBS)


def test_the_user_at_the_terminal_sees_every_run(runs: Runs, cli: Cli) -> None:
    world = World(runs, OURS)
    assert {row["run_id"] for row in cli("runs", "--json").data} == set(world.runs.values())
    for run_id in world.runs.values():
        for verb in ("show", "explain", "timeline", "verify", "visibility", "report"):
            assert cli(verb, run_id).code == 0
