"""The pages about the fleet: lists and statistics from the index, runs straight from the store."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from dashboards import Dashboard, failing_tests
from fleet_entries import BEGIN_MS, DAY_MS, entry, finding
from hostile import CONTROLS, MARKUP
from object_stores import seal_small_run
from starlette.testclient import TestClient
from stored_fleet import StoredFleet
from support import Cli, Runs

from critiqor.dashboard.fleet.source import Fleet
from critiqor.fleet.index.base import TenantError
from critiqor.fleet.index.opening import open_index
from critiqor.fleet.manifest import seal_digits
from critiqor.fleet.store.diagnoses import put_diagnosis
from critiqor.fleet.store.object_store import open_store
from critiqor.model.timestamps import now_ms
from critiqor.run.store import RunStore
from critiqor.storage.seals.diagnosis_seal import write_diagnosis

RUN_PAGES = (
    "",
    "/conversation",
    "/sessions",
    "/diagnosis",
    "/timeline",
    "/evidence",
    "/cost",
    "/context",
    "/playbook",
    "/trust",
)
Opener = Callable[..., TestClient]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "DATA", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


@pytest.fixture
def stored(tmp_path: Path) -> StoredFleet:
    return StoredFleet(tmp_path / "fleet")


@pytest.fixture
def open_fleet(runs: Runs, stored: StoredFleet) -> Iterator[Opener]:
    opened: list[Fleet] = []

    def user(*tenants: str, **options: int) -> TestClient:
        opened.append(Fleet(stored.index_url, stored.store_url, **options))
        return Dashboard(runs, *tenants, fleet=opened[-1]).user()

    yield user
    for fleet in opened:
        fleet.close()


def listed(page: str) -> list[str]:
    """The names of the runs in the list, in order."""
    return re.findall(r'<a data-focus href="/fleet/runs/[^"]+"><bdi>([^<]+)</bdi>', page)


def unpacked(tmp_path: Path) -> list[str]:
    """The runs that are in the folder of opened runs."""
    return sorted(path.parent.name for path in (tmp_path / "cache").rglob("session.json"))


def test_a_run_of_another_host_is_shown_by_the_pages_that_show_any_run(
    runs: Runs, stored: StoredFleet, open_fleet: Opener
) -> None:
    run_id = failing_tests(runs)
    [manifest] = stored.push(runs.folder, run_id)
    shutil.rmtree(runs.folder)
    user = open_fleet()
    base = f"/fleet/runs/build-7/{run_id}"
    for page in RUN_PAGES:
        answer = user.get(base + page)
        assert answer.status_code == 200, page
        assert f"<strong>build-7/{run_id}</strong>" in answer.text
        assert 'href="/runs/' not in answer.text and 'action="/runs/' not in answer.text
    conversation = user.get(f"{base}/conversation").text
    assert "Done: all tests pass." in conversation
    exact = f"{base}@{seal_digits(manifest.seal)[:8]}"
    links = re.findall(rf'href="({re.escape(exact)}[^"#]*)', user.get(base).text + conversation)
    events = [link for link in dict.fromkeys(links) if "/events/" in link]
    assert events
    for link in dict.fromkeys(links):
        assert user.get(link.replace("&amp;", "&")).status_code == 200, link
    assert user.get(f"{events[0]}/raw").headers["content-type"] == "application/json"


def test_pages_of_a_stored_run_change_nothing(runs: Runs, stored: StoredFleet, open_fleet: Opener) -> None:
    stored.push(runs.folder, failing_tests(runs))
    user = open_fleet()
    for page in RUN_PAGES:
        assert 'method="post"' not in user.get(f"/fleet/runs/build-7/run_001{page}").text
    origin = {"Origin": str(user.base_url)}
    for change in ("annotations", "visibility/public", "links", "live/stop", "findings/finding_001/wrong"):
        assert user.post(f"/fleet/runs/build-7/run_001/{change}", headers=origin).status_code == 404
    assert user.get("/fleet/runs/build-7/run_001/live").status_code == 404
    assert "Unchanged since it was sealed." in user.get("/fleet/runs/build-7/run_001/trust?verify=1").text


def test_only_the_bundle_of_the_opened_run_is_fetched(
    runs: Runs, stored: StoredFleet, open_fleet: Opener, tmp_path: Path
) -> None:
    stored.push(runs.folder, *(seal_small_run(runs).id for _ in range(3)))
    user = open_fleet()
    for page in ("/fleet?days=all", "/fleet/runs", "/fleet/search?q=tests"):
        assert user.get(page).status_code == 200
    assert unpacked(tmp_path) == []
    assert user.get("/fleet/runs/build-7/run_002/cost").status_code == 200
    assert unpacked(tmp_path) == ["run_002"]


def test_runs_of_two_hosts_with_one_number_are_not_mixed_up(
    runs: Runs, stored: StoredFleet, open_fleet: Opener, tmp_path: Path
) -> None:
    other = Runs(tmp_path / "other")
    stored.push(runs.folder, failing_tests(runs, "first failure"), host="a")
    stored.push(other.folder, failing_tests(other, "second failure"), host="b")
    user = open_fleet()
    for _ in range(2):
        for host, text, wrong in (("a", "first", "second"), ("b", "second", "first")):
            for page in ("/evidence", "/conversation"):
                shown = user.get(f"/fleet/runs/{host}/run_001{page}").text
                assert f"{text} failure" in shown and f"{wrong} failure" not in shown


def test_two_runs_of_a_host_with_one_number_are_told_apart_by_their_seals(
    runs: Runs, stored: StoredFleet, open_fleet: Opener, tmp_path: Path
) -> None:
    other = Runs(tmp_path / "other")
    stored.push(runs.folder, failing_tests(runs, "first failure"))
    [second] = stored.push(other.folder, failing_tests(other, "second failure"))
    user = open_fleet()
    several = user.get("/fleet/runs/build-7/run_001")
    assert several.status_code == 400 and "means 2 runs" in several.text
    digits = seal_digits(second.seal)[:8]
    assert f"build-7/run_001@{digits}" in listed(user.get("/fleet/runs").text)
    assert "second failure" in user.get(f"/fleet/runs/build-7/run_001@{digits}/evidence").text


def test_the_list_has_the_filters_of_the_index(stored: StoredFleet, open_fleet: Opener) -> None:
    late = BEGIN_MS + 5 * DAY_MS
    stored.add(
        entry("build-1", "run_001", trust=90, cost_usd=0.5, model="opus", openclaw="2026.10.1"),
        entry("build-2", "run_002", finding("tool_loop"), trust=20, verdict="unsafe", cost_usd=2.0, created_ms=late),
        msgspec.structs.replace(entry("desk", "run_003", agent_id="writer", cost_usd=None), tags=("night",)),
    )
    user = open_fleet()

    def found(query: str) -> list[str]:
        return sorted(listed(user.get(f"/fleet/runs?{query}").text))

    assert found("") == ["build-1/run_001", "build-2/run_002", "desk/run_003"]
    assert found("host=build-*") == ["build-1/run_001", "build-2/run_002"]
    assert found("agent=writer") == found("tag=night") == ["desk/run_003"]
    assert found("verdict=unsafe") == found("type=tool_loop") == ["build-2/run_002"]
    assert found("model=opus") == found("version=2026.10.1") == ["build-1/run_001"]
    assert found("since=2026-09-25") == ["build-2/run_002"]
    assert found("until=2026-09-22") == ["build-1/run_001", "desk/run_003"]
    assert found("verdict=nonsense&since=nonsense&sort=nonsense&page=nonsense") == found("")
    assert found("host=nobody") == []
    orders = {
        "": ["build-2/run_002"],
        "trust": ["build-2/run_002"],
        "-trust": ["build-1/run_001", "desk/run_003"],
        "cost": ["build-1/run_001"],
        "-cost": ["build-2/run_002"],
        "-created": ["build-2/run_002"],
        "created": ["build-1/run_001", "desk/run_003"],
    }
    for sort, first in orders.items():
        page = user.get(f"/fleet/runs?sort={sort}").text
        assert listed(page)[0] in first, sort
        if sort.endswith("cost"):
            assert listed(page)[-1] == "desk/run_003"
    assert 'aria-sort="descending"' in user.get("/fleet/runs?sort=-cost").text


def test_two_runs_of_the_list_are_compared(runs: Runs, stored: StoredFleet, open_fleet: Opener, tmp_path: Path) -> None:
    second = Runs(tmp_path / "second")
    stored.push(runs.folder, failing_tests(runs))
    stored.push(second.folder, seal_small_run(second, "Deployed the site.").id, host="build-8")
    stored.push(second.folder, seal_small_run(second).id, host="build-8", content="structure")
    user = open_fleet()
    page = user.get("/fleet/runs").text
    assert '<form method="get" action="/fleet/compare"' in page
    picks = re.findall(r'<input type="checkbox" name="run" value="([^"]+)"', page)
    assert len(picks) == 2, "of a run that was pushed as structure, there is nothing to compare"
    compared = user.get("/fleet/compare", params={"run": picks})
    assert compared.status_code == 200
    older = picks[1]
    assert f"<h1>{older} " in compared.text
    assert "Deployed the site." in compared.text
    assert 'href="/runs/' not in compared.text and 'href="/compare' not in compared.text
    for link in dict.fromkeys(re.findall(r'href="(/fleet/[^"#]*)', compared.text)):
        assert user.get(link.replace("&amp;", "&")).status_code == 200, link
    assert user.get("/fleet/compare", params={"run": [older]}).status_code == 400
    assert user.get("/fleet/compare", params={"run": [older, older.partition("@")[0]]}).status_code == 400
    assert user.get("/fleet/compare", params={"run": [older, "build-9/run_001"]}).status_code == 404
    with open_index(stored.index_url) as index:
        [hidden] = [row.name for row in index.runs() if row.content == "structure"]
    assert user.get("/fleet/compare", params={"run": [older, hidden]}).status_code == 404


def test_the_list_is_paged_and_pages_keep_the_filters(stored: StoredFleet, open_fleet: Opener) -> None:
    stored.add(*(entry("build-1", f"run_{number:03}", created_ms=BEGIN_MS + number) for number in range(120)))
    user = open_fleet()
    pages = [listed(user.get(f"/fleet/runs?host=build-*&page={page}").text) for page in (1, 2, 3)]
    assert [len(page) for page in pages] == [50, 50, 20]
    assert len({name for page in pages for name in page}) == 120
    assert pages[0][0] == "build-1/run_119"
    second = user.get("/fleet/runs?host=build-*&page=2").text
    assert 'rel="next" href="/fleet/runs?host=build-%2A&amp;page=3"' in second
    assert listed(user.get("/fleet/runs?host=build-*&page=99").text) == pages[2]


def test_the_overview_has_hosts_agents_spend_and_verdicts(stored: StoredFleet, open_fleet: Opener) -> None:
    now = now_ms()
    stored.add(
        entry("build-1", "run_001", created_ms=now - DAY_MS, cost_usd=1.5),
        entry("build-2", "run_002", finding("tool_loop"), verdict="unsafe", trust=10, created_ms=now, cost_usd=0.25),
        entry("desk", "run_003", agent_id="writer", created_ms=now - 60 * DAY_MS, cost_usd=4.0),
    )
    user = open_fleet()
    page = user.get("/fleet").text
    assert "<strong>2 runs</strong> of 2 hosts and 1 agent" in page
    assert "build-1" in page and "build-2" in page and ">desk<" not in page
    assert "$1.75 known cost" in page
    assert 'class="badge unsafe" href="/fleet/runs?since=' in page
    assert "Runs by verdict" in page and 'class="unsafe"' in page
    every = user.get("/fleet?days=all").text
    assert "<strong>3 runs</strong> of 3 hosts and 2 agents" in every
    assert "claude" in every and "$5.75" in every
    assert "<strong>1 run</strong>" in user.get("/fleet?days=all&host=de*").text
    assert "No runs match" in user.get("/fleet?host=nobody").text


def test_the_overview_names_failure_types_that_are_new_since_a_version_or_a_day(
    stored: StoredFleet, open_fleet: Opener
) -> None:
    stored.add(
        entry("a", "run_001", finding("tool_loop"), openclaw="2026.10.1", created_ms=BEGIN_MS),
        entry("a", "run_002", finding("tool_loop"), openclaw="2026.11.1", created_ms=BEGIN_MS + DAY_MS),
        entry("b", "run_003", finding("memory_loss"), openclaw="2026.11.1", created_ms=BEGIN_MS + 2 * DAY_MS),
    )
    user = open_fleet()

    def types(query: str) -> list[str]:
        section = user.get(f"/fleet?{query}").text.partition('id="new-types"')[2].partition("</section>")[0]
        return re.findall(r'href="/fleet/runs\?type=([a-z_]+)"', section)

    assert types("") == types("version=2026.11.1") == ["memory_loss"]
    assert types("version=2026.10.1") == ["memory_loss", "tool_loop"]
    assert types("day=2026-09-24") == []
    page = user.get("/fleet").text
    assert "since OpenClaw <bdi>2026.11.1</bdi>" in page
    assert "/fleet/runs/b/run_003@" in page


def test_the_search_finds_texts_of_all_hosts_and_leads_to_their_places(
    runs: Runs, stored: StoredFleet, open_fleet: Opener
) -> None:
    stored.push(runs.folder, failing_tests(runs, "invoice 4711"))
    stored.add(entry("elsewhere", "run_009", request="nothing of that kind"))
    user = open_fleet()
    page = user.get("/fleet/search?q=invoice+4711").text
    assert "1 run contains these words." in page
    assert "<bdi>build-7/run_001</bdi>" in page and "elsewhere" not in page
    for link in re.findall(r'class="said" href="([^"#]+)', page):
        assert user.get(link.replace("&amp;", "&")).status_code == 200
    assert "0 runs contain these words." in user.get("/fleet/search?q=zebra").text


def test_another_tenant_does_not_exist_on_any_page(runs: Runs, stored: StoredFleet, open_fleet: Opener) -> None:
    ours = failing_tests(runs, "our failure", tenant_id="ours")
    theirs = failing_tests(runs, "their failure", tenant_id="theirs")
    stored.push(runs.folder, ours, theirs)
    now = now_ms()
    stored.add(entry("secret-host", "run_100", finding("tool_loop"), tenant_id="theirs", created_ms=now))
    user = open_fleet("ours")
    for page in ("/fleet", "/fleet?days=all", "/fleet?tenant=theirs", "/fleet/runs", "/fleet/search?q=failure"):
        shown = user.get(page)
        assert shown.status_code == 200
        assert "secret-host" not in shown.text and theirs not in shown.text, page
    assert listed(user.get("/fleet/runs?tenant=theirs").text) == []
    assert user.get(f"/fleet/runs/build-7/{ours}").status_code == 200
    for page in RUN_PAGES:
        assert user.get(f"/fleet/runs/build-7/{theirs}{page}").status_code == 404
    both = open_fleet("ours", "theirs")
    assert set(listed(both.get("/fleet/runs").text)) == {
        f"build-7/{ours}",
        f"build-7/{theirs}",
        "secret-host/run_100",
    }
    assert listed(both.get("/fleet/runs?tenant=ours").text) == [f"build-7/{ours}"]
    assert "tool loop" in both.get("/fleet?days=all").text


def test_a_row_that_names_another_tenant_than_the_run_shows_nothing(
    runs: Runs, stored: StoredFleet, open_fleet: Opener
) -> None:
    theirs = failing_tests(runs, "their failure", tenant_id="theirs")
    [manifest] = stored.push(runs.folder, theirs)
    forged = entry("build-7", theirs, seal=manifest.seal, tenant_id="ours")
    stored.add(forged)
    user = open_fleet("ours")
    assert user.get(f"/fleet/runs/build-7/{theirs}").status_code == 404


def test_only_the_user_who_started_it_sees_the_fleet(runs: Runs, stored: StoredFleet) -> None:
    stored.push(runs.folder, failing_tests(runs, visibility="public"))
    fleet = Fleet(stored.index_url, stored.store_url)
    dashboard = Dashboard(runs, fleet=fleet)
    for visitor in (dashboard.stranger(), dashboard.guest("run_001")):
        for page in ("/fleet", "/fleet/runs", "/fleet/search?q=a", "/fleet/runs/build-7/run_001"):
            assert visitor.get(page).status_code == 403
        assert "Fleet" not in visitor.get("/runs/run_001").text.partition("<main")[0].partition("<nav")[2]
    fleet.close()


def test_without_the_option_there_are_no_pages_of_a_fleet(runs: Runs) -> None:
    user = Dashboard(runs).user()
    assert user.get("/fleet").status_code == 404
    assert 'id="nav-fleet"' not in user.get("/runs").text
    assert user.get("/").headers["location"] == "/runs"


def test_the_dashboard_of_a_fleet_begins_with_it(runs: Runs, open_fleet: Opener) -> None:
    user = open_fleet()
    assert user.get("/").headers["location"] == "/fleet"
    assert 'id="nav-fleet"' in user.get("/runs").text
    assert "No runs in this period" in user.get("/fleet").text


def test_hostile_names_and_texts_are_text(stored: StoredFleet, open_fleet: Opener) -> None:
    now = now_ms()
    for number, text in enumerate([*MARKUP.values(), *CONTROLS.values()]):
        made = entry(
            text,
            f"run_{number:03}{text}",
            msgspec.structs.replace(finding("tool_loop"), title=text, type=text),
            request=text,
            agent_id=text,
            model=text,
            openclaw=text,
            created_ms=now,
            verdict="unsafe",
        )
        diagnosed = msgspec.structs.replace(made.diagnosis, headline=text)
        stored.add(msgspec.structs.replace(made, diagnosis=diagnosed))
    user = open_fleet()
    words = quote(MARKUP["script"])
    pages = ("/fleet", "/fleet/runs", f"/fleet/runs?host={words}&tag={words}", "/fleet/search?q=zzmark")
    for path in (*pages, f"/fleet?host={words}&version={words}", f"/fleet/search?q={words}"):
        page = user.get(path)
        assert page.status_code == 200, path
        assert not any(text in page.text for text in MARKUP.values() if "<" in text), path
        assert "\x1b" not in page.text and "\u202e" not in page.text
    assert "&lt;script&gt;" in user.get("/fleet").text
    for path in (f"/fleet/runs/{words}/run_001", f"/fleet/runs/build-7/{words}", "/fleet/runs/..%2F..%2Fx/run_001"):
        assert user.get(path).status_code in (400, 404)


def test_a_hostile_run_is_shown_as_text(runs: Runs, stored: StoredFleet, open_fleet: Opener) -> None:
    stored.push(runs.folder, failing_tests(runs, MARKUP["script"]))
    user = open_fleet()
    for page in RUN_PAGES:
        assert MARKUP["script"] not in user.get(f"/fleet/runs/build-7/run_001{page}").text


def test_an_index_that_is_away_is_a_page_with_the_next_command_and_comes_back_by_itself(
    runs: Runs, stored: StoredFleet, open_fleet: Opener
) -> None:
    failing_tests(runs)
    stored.index_file.parent.mkdir()
    stored.index_file.mkdir()
    user = open_fleet()
    for page in ("/fleet", "/fleet/runs", "/fleet/search?q=a", "/fleet/runs/build-7/run_001"):
        away = user.get(page)
        assert away.status_code == 503
        assert "Not available now" in away.text and "<code>critiqor fleet status</code>" in away.text
        assert "Traceback" not in away.text
    assert user.get("/runs/run_001").status_code == 200
    stored.index_file.rmdir()
    assert user.get("/fleet").status_code == 200


def test_a_store_that_is_away_is_a_page_with_the_next_command(
    runs: Runs, stored: StoredFleet, open_fleet: Opener, tmp_path: Path
) -> None:
    stored.push(runs.folder, failing_tests(runs))
    stored.store_folder.rename(tmp_path / "moved")
    stored.store_folder.touch()
    user = open_fleet()
    away = user.get("/fleet/runs/build-7/run_001")
    assert away.status_code == 503
    assert "<code>critiqor fleet status</code>" in away.text
    assert listed(user.get("/fleet/runs").text) == ["build-7/run_001"]
    assert user.get("/runs/run_001").status_code == 200
    stored.store_folder.unlink()
    (tmp_path / "moved").rename(stored.store_folder)
    assert user.get("/fleet/runs/build-7/run_001").status_code == 200


def test_without_a_store_lists_are_shown_and_runs_are_not(runs: Runs, stored: StoredFleet) -> None:
    stored.push(runs.folder, failing_tests(runs))
    fleet = Fleet(stored.index_url, None)
    user = Dashboard(runs, fleet=fleet).user()
    assert listed(user.get("/fleet/runs").text) == ["build-7/run_001"]
    away = user.get("/fleet/runs/build-7/run_001")
    assert away.status_code == 503 and "no store is configured" in away.text
    fleet.close()


@pytest.mark.parametrize("damage", ["cut", "replaced", "missing"])
def test_a_damaged_bundle_is_named_and_leaves_nothing_behind(
    runs: Runs, stored: StoredFleet, open_fleet: Opener, tmp_path: Path, damage: str
) -> None:
    stored.push(runs.folder, failing_tests(runs))
    other = seal_small_run(runs).id
    stored.push(runs.folder, other)
    [bundle] = stored.store_folder.glob("bundles/build-7/run_001-*.zip")
    if damage == "missing":
        bundle.unlink()
    else:
        bundle.write_bytes(bundle.read_bytes()[:-100] if damage == "cut" else b"PK" + bytes(1000))
    user = open_fleet()
    broken = user.get("/fleet/runs/build-7/run_001")
    assert broken.status_code == 422
    assert "Traceback" not in broken.text and "run_001" in broken.text
    assert unpacked(tmp_path) == []
    assert user.get(f"/fleet/runs/build-7/{other}").status_code == 200


def test_a_run_of_which_only_structure_was_pushed_has_an_overview(
    runs: Runs, stored: StoredFleet, open_fleet: Opener
) -> None:
    [manifest] = stored.push(runs.folder, failing_tests(runs, tenant_id="ours"), content="structure")
    user = open_fleet(manifest.metadata.tenant_id)
    base = f"/fleet/runs/{manifest.host_id}/run_001"
    page = user.get(base)
    assert page.status_code == 200
    assert "Only structure and numbers of this run were pushed" in page.text
    assert "unsafe" in page.text and "npm test" not in page.text
    for other in RUN_PAGES[1:]:
        refused = user.get(base + other)
        assert refused.status_code == 404 and "on its own machine" in refused.text


def test_a_later_diagnosis_is_shown_instead_of_that_of_the_bundle(
    runs: Runs, stored: StoredFleet, open_fleet: Opener, tmp_path: Path
) -> None:
    run_id = failing_tests(runs)
    [manifest] = stored.push(runs.folder, run_id)
    user = open_fleet()
    before = user.get(f"/fleet/runs/build-7/{run_id}").text
    assert "judged again" not in before
    found = RunStore(runs.folder).run(run_id).diagnosis
    later = msgspec.structs.replace(found, rule_set_version="99", headline="It was judged again")
    write_diagnosis(tmp_path / "later.json", later)
    assert put_diagnosis(open_store(stored.store_url), manifest.seal, (tmp_path / "later.json").read_bytes())
    stored.push(runs.folder, run_id)
    after = user.get(f"/fleet/runs/build-7/{run_id}").text
    assert "It was judged again" in after
    assert "not verified" not in after


def test_opened_runs_have_a_bounded_size_and_the_oldest_go_first(
    runs: Runs, stored: StoredFleet, open_fleet: Opener, tmp_path: Path
) -> None:
    names = [seal_small_run(runs).id for _ in range(8)]
    stored.push(runs.folder, *names)
    user = open_fleet(max_bytes=800_000)

    def size() -> int:
        return sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file())

    for name in (*names, *names):
        assert user.get(f"/fleet/runs/build-7/{name}").status_code == 200
        assert user.get(f"/fleet/runs/build-7/{name}/timeline").status_code == 200
        assert size() <= 400_000
    assert 1 <= len(unpacked(tmp_path)) < len(names)
    assert names[-1] in unpacked(tmp_path)


def test_a_run_that_is_larger_than_the_bound_is_refused_with_the_command_that_fetches_it(
    runs: Runs, stored: StoredFleet, open_fleet: Opener, tmp_path: Path
) -> None:
    stored.push(runs.folder, seal_small_run(runs).id)
    user = open_fleet(max_bytes=10_000)
    refused = user.get("/fleet/runs/build-7/run_001")
    assert refused.status_code == 422
    assert re.search("<code>critiqor pull build-7/run_001@[0-9a-f]{8}</code>", refused.text)
    assert unpacked(tmp_path) == []


def test_many_requests_at_once_fetch_a_run_once_and_all_are_answered(
    runs: Runs, stored: StoredFleet, open_fleet: Opener, tmp_path: Path
) -> None:
    names = [seal_small_run(runs).id for _ in range(5)]
    stored.push(runs.folder, *names)
    user = open_fleet(max_bytes=800_000)
    statuses: list[int] = []

    def ask(name: str) -> None:
        statuses.append(user.get(f"/fleet/runs/build-7/{name}/evidence").status_code)

    threads = [threading.Thread(target=ask, args=(name,)) for name in names * 6]
    with user:  # one event loop for all requests, as in a server
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == [200] * len(threads)
    assert len(unpacked(tmp_path)) == len(set(unpacked(tmp_path)))


def test_the_folder_of_opened_runs_is_private_and_ends_with_the_dashboard(
    runs: Runs, stored: StoredFleet, tmp_path: Path
) -> None:
    stored.push(runs.folder, seal_small_run(runs).id)
    left = tmp_path / "cache" / "critiqor" / "dashboard-killed"
    left.mkdir(parents=True)
    (left / "session.json").touch()
    first, second = (Fleet(stored.index_url, stored.store_url) for _ in range(2))
    for fleet in (first, second):
        assert Dashboard(runs, fleet=fleet).user().get("/fleet/runs/build-7/run_001").status_code == 200
    assert not left.exists()
    folders = list((tmp_path / "cache" / "critiqor").glob("dashboard-*"))
    assert len(folders) == 2
    assert all(folder.stat().st_mode & 0o077 == 0 for folder in folders)
    first.close()
    assert unpacked(tmp_path) == ["run_001"]
    second.close()
    assert list((tmp_path / "cache" / "critiqor").glob("dashboard-*")) == []


def test_options_of_the_fleet_need_the_fleet(cli: Cli, stored: StoredFleet) -> None:
    refused = cli("dashboard", "--store", stored.store_url)
    assert refused.code == 2 and "--store has no effect without --fleet" in refused.err


def test_several_tenants_of_a_fleet_have_to_be_chosen(cli: Cli, stored: StoredFleet) -> None:
    stored.add(entry(tenant_id="a"), entry("build-2", tenant_id="b"))
    refused = cli("dashboard", "--fleet", "--index", stored.index_url, "--json")
    assert refused.code == 2
    assert "critiqor dashboard --fleet --tenant a --tenant b" in refused.error["fix"]


def test_a_run_of_the_fleet_is_opened_by_its_name(runs: Runs, stored: StoredFleet) -> None:
    fleet = Fleet(stored.index_url, stored.store_url)
    dashboard = Dashboard(runs, fleet=fleet)
    token = dashboard.site.access.admit("default")
    client = dashboard.stranger()
    opened = client.get("/open", params={"token": token, "run": "build-7/run_001"})
    assert 'href="/fleet/runs/build-7/run_001"' in opened.text
    assert client.get("/open", params={"token": token, "run": "../x/y"}).status_code == 400
    fleet.close()


def test_the_index_shows_no_other_tenant_than_was_asked_for(stored: StoredFleet) -> None:
    stored.add(entry(tenant_id="a"), entry("build-2", tenant_id="b"), entry("build-3", tenant_id="c"))
    fleet = Fleet(stored.index_url, None)
    index = fleet.whole_index()
    shown = index.showing({"a", "b"})
    assert {run.tenant for run in shown.runs()} == {"a", "b"}
    assert [run.tenant for run in shown.showing({"b", "c"}).runs()] == ["b"]
    assert len(index.runs()) == 3
    with pytest.raises(TenantError):
        shown.showing({"c"})
    fleet.close()
