"""Who can open which pages of the dashboard."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from dashboards import PORT, RUN_PAGES, Dashboard, event_ids, failing_tests
from starlette.testclient import TestClient
from support import Runs

from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.web.application import application
from critiqor.dashboard.web.bind_address import resolve_host
from critiqor.dashboard.web.middleware import CONTENT_SECURITY
from critiqor.run.store import RunStore

PAGES = (*RUN_PAGES, "/live/stream")


@pytest.fixture
def dashboard(runs: Runs) -> Dashboard:
    return Dashboard(runs)


@pytest.mark.parametrize("page", PAGES)
def test_without_a_token_a_private_run_is_not_even_there(runs: Runs, dashboard: Dashboard, page: str) -> None:
    run_id = failing_tests(runs)
    answer = dashboard.stranger().get(f"/runs/{run_id}{page}")
    assert answer.status_code == 404
    assert "npm test" not in answer.text


@pytest.mark.parametrize("page", ["/runs", "/compare?run=run_001&run=run_002"])
def test_lists_are_for_the_user_alone(runs: Runs, dashboard: Dashboard, page: str) -> None:
    run_id = failing_tests(runs, visibility="public")
    assert dashboard.stranger().get(page).status_code == 403
    assert dashboard.guest(run_id).get(page).status_code == 403


@pytest.mark.parametrize("token", ["", "x", "é" * 10, "a" * 43])
def test_a_wrong_token_opens_nothing(runs: Runs, dashboard: Dashboard, token: str) -> None:
    failing_tests(runs, visibility="public")
    client = dashboard.stranger()
    answer = client.get("/open", params={"token": token})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert client.get("/share/" + (token or "x")).status_code == 403


def test_a_wrong_cookie_is_refused_even_where_none_would_do(runs: Runs, dashboard: Dashboard) -> None:
    run_id = failing_tests(runs, visibility="public")
    client = dashboard.stranger()
    assert client.get(f"/runs/{run_id}").status_code == 200
    client.cookies.set(dashboard.site.cookie, "guessed")
    assert client.get(f"/runs/{run_id}").status_code == 403


def test_the_token_becomes_a_cookie_that_scripts_and_other_sites_cannot_use(dashboard: Dashboard) -> None:
    token = dashboard.site.access.admit("default")
    answer = dashboard.stranger().get("/open", params={"token": token, "run": "run_001"})
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith(f"critiqor_{PORT}=")
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert 'content="0; url=/runs/run_001"' in answer.text
    assert token not in answer.text


@pytest.mark.parametrize("run", ["../x", "https://elsewhere.example", "//elsewhere.example", '"><script>'])
def test_the_opened_link_leads_to_runs_and_nowhere_else(dashboard: Dashboard, run: str) -> None:
    answer = dashboard.stranger().get("/open", params={"token": dashboard.site.access.admit("default"), "run": run})
    assert answer.status_code == 400
    assert "set-cookie" not in answer.headers


def test_every_start_has_another_token(dashboard: Dashboard) -> None:
    tokens = {dashboard.site.access.admit("default") for _ in range(20)}
    assert len(tokens) == 20 and all(len(token) >= 43 for token in tokens)


@pytest.mark.parametrize(
    "host",
    [
        "elsewhere.example",
        f"elsewhere.example:{PORT}",
        "127.0.0.1",
        f"127.0.0.1:{PORT + 1}",
        f"127.0.0.1.evil:{PORT}",
        "",
    ],
)
def test_a_wrong_host_is_refused(runs: Runs, dashboard: Dashboard, host: str) -> None:
    run_id = failing_tests(runs)
    answer = dashboard.user().get(f"/runs/{run_id}", headers={"host": host})
    assert answer.status_code == 403
    assert "npm test" not in answer.text


def test_a_host_by_name_is_as_good(runs: Runs, dashboard: Dashboard) -> None:
    run_id = failing_tests(runs)
    assert dashboard.user().get(f"/runs/{run_id}", headers={"host": f"LOCALHOST:{PORT}"}).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "https://elsewhere.example",
        f"https://127.0.0.1:{PORT}",
        "http://127.0.0.1",
        f"http://127.0.0.1:{PORT}.evil",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_wrong_origin_is_refused(runs: Runs, dashboard: Dashboard, origin: str, method: str) -> None:
    run_id = failing_tests(runs, visibility="shared")
    answer = dashboard.user().request(method, f"/runs/{run_id}/links", headers={"origin": origin})
    assert answer.status_code == 403
    assert dashboard.site.links.of_run(run_id) == []


def test_a_change_without_an_origin_is_refused(runs: Runs, dashboard: Dashboard) -> None:
    run_id = failing_tests(runs, visibility="shared")
    assert dashboard.user().post(f"/runs/{run_id}/links").status_code == 403
    assert dashboard.site.links.of_run(run_id) == []


@pytest.mark.parametrize(
    "place", ["run_path", "run_folder", "evidence_summary_path", "diagnosis_path", "timeline_path"]
)
def test_a_link_in_the_place_of_a_file_is_not_followed(
    runs: Runs, dashboard: Dashboard, place: str, tmp_path: Path
) -> None:
    run_id = failing_tests(runs)
    path: Path = getattr(runs.paths, place)(run_id)
    elsewhere = tmp_path / "elsewhere"
    if path.exists():
        path.rename(elsewhere)
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(elsewhere)
    client = dashboard.user()
    assert client.get(f"/runs/{run_id}").status_code == 404
    assert client.get(f"/runs/{run_id}/evidence").status_code == 404
    assert run_id not in client.get("/runs").text


def test_tenants_never_see_each_others_runs(runs: Runs, dashboard: Dashboard) -> None:
    ours = failing_tests(runs, tenant_id="ours")
    theirs = failing_tests(runs, tenant_id="theirs", visibility="public")
    client = dashboard.user("ours")
    listed = client.get("/runs").text
    assert ours in listed and theirs not in listed and "theirs" not in listed
    for page in PAGES:
        assert client.get(f"/runs/{theirs}{page}").status_code == 404
    assert client.get(f"/compare?run={ours}&run={theirs}").status_code == 404
    assert client.post(f"/runs/{theirs}/links", headers={"origin": dashboard.site.address}).status_code == 404
    unknown = client.get("/runs/run_999").text.replace("run_999", "")
    assert client.get(f"/runs/{theirs}").text.replace(theirs, "") == unknown


def test_a_user_of_several_tenants_sees_and_filters_the_runs_of_all_of_them(runs: Runs, dashboard: Dashboard) -> None:
    ours, yours = failing_tests(runs, tenant_id="ours"), failing_tests(runs, tenant_id="yours")
    theirs = failing_tests(runs, tenant_id="theirs")
    client = dashboard.stranger()
    assert client.get("/open", params={"token": dashboard.site.access.admit("ours", "yours")}).status_code == 200
    listed = client.get("/runs").text
    assert "ours, yours" in listed and 'id="run-tenant"' in listed
    assert f"/runs/{ours}" in listed and f"/runs/{yours}" in listed and theirs not in listed
    filtered = client.get("/runs?tenant=yours").text
    assert f"/runs/{yours}" in filtered and f"/runs/{ours}" not in filtered
    # Whether the tenant exists is not revealed either.
    nobodys, others = (client.get(f"/runs?tenant={name}").text.replace(name, "") for name in ("nobody", "theirs"))
    assert nobodys == others and theirs not in others
    assert client.get(f"/runs/{theirs}").status_code == 404
    assert 'id="run-tenant"' not in dashboard.user("ours").get("/runs").text


def test_a_shared_run_is_seen_by_its_link_until_that_is_revoked(runs: Runs, dashboard: Dashboard) -> None:
    run_id, other = failing_tests(runs, visibility="shared"), failing_tests(runs, visibility="shared")
    user = dashboard.user()
    made = user.post(f"/runs/{run_id}/links", headers={"origin": dashboard.site.address})
    link = re.search(r'id="new-link"[^>]*>([^<]+)<', made.text)
    assert link
    guest = dashboard.stranger()
    entered = guest.get(link[1])
    assert entered.status_code == 200 and f"url=/runs/{run_id}" in entered.text
    assert "npm test" in guest.get(f"/runs/{run_id}/evidence").text
    assert guest.get(f"/runs/{other}").status_code == 404
    assert guest.post(f"/runs/{run_id}/links", headers={"origin": dashboard.site.address}).status_code == 403
    [kept] = dashboard.site.links.of_run(run_id)
    assert link[1].rsplit("/", 1)[1] not in (runs.folder / ".links.json").read_text()
    user.post(f"/runs/{run_id}/links/{kept.id}/revoke", headers={"origin": dashboard.site.address})
    assert guest.get(f"/runs/{run_id}").status_code == 403
    assert dashboard.stranger().get(link[1]).status_code == 403
    assert "revoked" in user.get(f"/runs/{run_id}/trust").text


def test_the_page_of_a_link_says_where_it_works_and_which_command_must_run(runs: Runs, dashboard: Dashboard) -> None:
    run_id = failing_tests(runs, visibility="shared")
    here = dashboard.user().post(f"/runs/{run_id}/links", headers={"origin": dashboard.site.address}).text
    assert "on this machine only" in here and f"critiqor dashboard --port {PORT} --no-browser" in here
    assert f"critiqor dashboard --host ADDRESS --port {PORT} --require-token" in here
    site = Site(RunStore(runs.folder), PORT, resolve_host("192.0.2.7"), is_token_required=True)
    client = TestClient(application(site), base_url=site.address, follow_redirects=False)
    client.get("/open", params={"token": site.access.admit("default")})
    there = client.get(f"/runs/{run_id}/trust").text
    assert "on this machine only" not in there
    assert f"critiqor dashboard --host 192.0.2.7 --port {PORT} --require-token --no-browser" in there


@pytest.mark.parametrize(("now", "offered"), [("private", "shared"), ("shared", "private")])
def test_the_page_names_the_command_that_changes_the_visibility(
    runs: Runs, dashboard: Dashboard, now: str, offered: str
) -> None:
    run_id = failing_tests(runs, visibility=now)
    assert f"critiqor visibility {run_id} {offered}<" in dashboard.user().get(f"/runs/{run_id}/trust").text


def test_the_user_who_tries_a_link_stays_the_user(runs: Runs, dashboard: Dashboard) -> None:
    run_id = failing_tests(runs, visibility="shared")
    user = dashboard.user()
    answer = user.get(f"/share/{dashboard.site.links.make(run_id)}")
    assert answer.headers["location"] == f"/runs/{run_id}"
    assert user.get("/runs").status_code == 200


def test_a_link_to_a_private_run_does_not_work(runs: Runs, dashboard: Dashboard) -> None:
    run_id = failing_tests(runs)
    user = dashboard.user()
    assert user.post(f"/runs/{run_id}/links", headers={"origin": dashboard.site.address}).status_code == 409
    assert dashboard.guest(run_id).get(f"/runs/{run_id}").status_code == 404


def test_a_public_run_needs_no_token_and_a_shared_one_does(runs: Runs, dashboard: Dashboard) -> None:
    public, shared = failing_tests(runs, visibility="public"), failing_tests(runs, visibility="shared")
    assert "npm test" in dashboard.stranger().get(f"/runs/{public}/evidence").text
    assert dashboard.stranger().get(f"/runs/{shared}").status_code == 404


def test_links_that_cannot_be_read_open_nothing(runs: Runs, dashboard: Dashboard) -> None:
    run_id = failing_tests(runs, visibility="shared")
    guest = dashboard.guest(run_id)
    (runs.folder / ".links.json").write_text("{")
    assert guest.get(f"/runs/{run_id}").status_code == 403


SECRETS = ("npm test", "Zebra", "/home/zoe", "zoe_agent", "zoe_tenant", "agent:main:main", "all tests pass", "run-1")


@pytest.mark.parametrize("page", [*PAGES, "/trust?verify=1"])
def test_an_anonymous_run_shows_structure_and_figures_alone(runs: Runs, dashboard: Dashboard, page: str) -> None:
    text = "Zebra /home/zoe/app.py"
    run_id = failing_tests(
        runs, text=text, tool="Zebra /home/zoe", agent_id="zoe_agent", tenant_id="zoe_tenant", visibility="anonymous"
    )
    mine = dashboard.user("zoe_tenant").get(f"/runs/{run_id}/evidence").text
    for viewer in (dashboard.stranger(), dashboard.guest(run_id)):
        answer = viewer.get(f"/runs/{run_id}{page}")
        assert answer.status_code == 200
        found = [secret for secret in SECRETS if secret in answer.text]
        assert found == []
        shown = viewer.get(f"/runs/{run_id}/evidence").text
        assert event_ids(shown) == event_ids(mine)
        for event_id in event_ids(shown):
            for form in ("", "/raw"):
                event = viewer.get(f"/runs/{run_id}/events/{event_id}{form}")
                assert event.status_code == 200
                assert [secret for secret in SECRETS if secret in event.text] == []


def test_an_anonymous_run_keeps_its_figures(runs: Runs, dashboard: Dashboard) -> None:
    run_id = failing_tests(runs, visibility="anonymous")
    client = dashboard.stranger()
    assert "False success claim" in client.get(f"/runs/{run_id}").text
    assert "900" in client.get(f"/runs/{run_id}/cost").text
    usage = event_ids(client.get(f"/runs/{run_id}/evidence?type=token_usage").text)
    raw = json.loads(client.get(f"/runs/{run_id}/events/{usage[0]}/raw").text)
    assert raw["payload"]["usage"] == {"input": 900, "output": 30, "cost": {"total": 0.01}}


def test_a_search_in_an_anonymous_run_tells_nothing_of_its_words(runs: Runs, dashboard: Dashboard) -> None:
    run_id = failing_tests(runs, visibility="anonymous")
    client = dashboard.stranger()
    pages = [client.get(f"/runs/{run_id}/evidence?q={word}").text.replace(word, "") for word in ("passed", "zzzzzz")]
    assert pages[0] == pages[1]


def test_a_filter_tells_nothing_of_the_names_that_an_anonymous_run_withholds(runs: Runs, dashboard: Dashboard) -> None:
    run_id = failing_tests(runs, tool="deploy to zoe", visibility="anonymous")
    client = dashboard.stranger()
    found = [
        event_ids(client.get(f"/runs/{run_id}/evidence", params={"tool": tool}).text)
        for tool in ("deploy to zoe", "deploy to max", "")
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    "path", ["/runs", "/runs/run_001", "/runs/run_001/evidence", "/runs/nothing", "/static/icon.svg", "/favicon.ico"]
)
def test_every_answer_says_what_a_browser_may_do_with_it(runs: Runs, dashboard: Dashboard, path: str) -> None:
    failing_tests(runs)
    headers = dashboard.user().get(path).headers
    assert headers["content-security-policy"] == CONTENT_SECURITY
    assert "unsafe" not in CONTENT_SECURITY and "default-src 'none'" in CONTENT_SECURITY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    if not path.startswith(("/static", "/favicon.ico")):
        assert headers["cache-control"] == "no-store"


def test_the_folder_of_indexes_and_links_is_for_the_user_alone(runs: Runs, dashboard: Dashboard) -> None:
    run_id = failing_tests(runs, visibility="shared")
    dashboard.site.links.make(run_id)
    dashboard.user().get(f"/runs/{run_id}/evidence")
    for file in (runs.folder / ".links.json", runs.paths.run_folder(run_id) / "events.sqlite"):
        assert file.stat().st_mode & 0o077 == 0


def test_each_door_takes_its_own_kind_of_token(runs: Runs, dashboard: Dashboard) -> None:
    run_id = failing_tests(runs, visibility="shared")
    mine, theirs = dashboard.site.access.admit("default"), dashboard.site.links.make(run_id)
    for address in (f"/share/{mine}", f"/open?token={theirs}"):
        answer = dashboard.stranger().get(address)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


def test_a_browser_that_asks_for_the_usual_icon_gets_it(dashboard: Dashboard) -> None:
    icon = dashboard.stranger().get("/favicon.ico")
    assert icon.status_code == 200
    assert icon.headers["content-type"] == "image/svg+xml"
