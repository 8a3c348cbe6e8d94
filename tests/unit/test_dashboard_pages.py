"""Content of the pages; everything from an agent is shown as text."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import anyio
import pytest
from dashboards import BEGIN, RUN_PAGES, Dashboard, event_ids, failing_tests
from diagnosed import diagnosis, finding, store, texts_of
from support import Fields, Runs, attached, recorded

from critiqor.dashboard.data.live_verdict import LiveScope
from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.dashboard.pages.live import Live, live_phase
from critiqor.dashboard.render.causal_drawing import MAX_LABEL
from critiqor.dashboard.render.formatting import coded, island
from critiqor.model import CausalGraph, GraphEdge, GraphNode, Playbook
from critiqor.model.diagnosis import CausalStep, Change
from critiqor.model.sanitize import sanitize_for_page
from critiqor.privacy.visibility import Viewer
from critiqor.run.store import Run
from critiqor.run.tail import Update
from critiqor.run.visibility import change_visibility

PAGES = (*RUN_PAGES, "/trust?verify=1")
MARK = "zzmark"
HOSTILE = (
    f"<script>alert('{MARK}')</script>",
    f"<img src=x onerror=alert('{MARK}')>",
    f"\"' onmouseover=alert('{MARK}') x=\"",
    f"</title></pre></script><svg onload=alert('{MARK}')>",
    f"javascript:alert('{MARK}')",
    f"\x1b[31m\x1b]8;;http://evil\x07{MARK}\x00\x9b",
    f"\u202egpj.{MARK}\u2066\u200b\u2028",
    "{{ 7 * 7 }}{% raw %}" + MARK,
    MARK + " A" * 500_000,
)
SEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f]")


class Elements(HTMLParser):
    """The elements of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def attributes(self, name: str) -> list[str]:
        return [value or "" for _, attributes in self.tags for key, value in attributes.items() if key == name]


def islands(page: str) -> list[str]:
    """Return the data of the scripts of a page."""
    return re.findall(r'<script type="application/json"[^>]*>([^<]*)</script>', page)


def check(page: str) -> Elements:
    """Check that a page has no foreign scripts, invisible characters or external addresses."""
    elements = Elements(page)
    for tag, attributes in elements.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
        assert tag not in ("style", "img", "iframe", "object", "embed", "base")
        if tag == "script":
            ours = str(attributes.get("src", "")).startswith("/static/")
            assert ours or attributes.get("type") == "application/json"
        for name in ("href", "src", "action"):
            if name in attributes:
                assert re.match(r"[/#?](?!/)", attributes[name] or ""), attributes
    assert not SEEN.search(page)
    return elements


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_shown_as_text_everywhere(runs: Runs, hostile: str) -> None:
    run_id = failing_tests(runs, text=hostile, tool=hostile[:500], agent_id=hostile[:200], tenant_id="default")
    client = Dashboard(runs).user()
    shown = event_ids(client.get(f"/runs/{run_id}/evidence").text)
    paths = [*(f"/runs/{run_id}{page}" for page in PAGES), "/runs", *(f"/runs/{run_id}/events/{one}" for one in shown)]
    marked = 0
    for path in paths:
        answer = client.get(path)
        assert answer.status_code == 200, path
        check(answer.text)
        marked += MARK in answer.text
        assert len(answer.text) < 3_000_000
        assert "49" not in answer.text or "{{" not in hostile or "{{ 7" in answer.text
    assert marked >= 5


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_diagnoses_are_shown_as_text(runs: Runs, hostile: str) -> None:
    one = finding(
        f"tool_failure:{hostile}", id="finding_001", causal_chain=[CausalStep("evt_1", hostile)], **texts_of(hostile)
    )
    concluded = diagnosis("run_001", one)
    concluded.headline = hostile
    nodes = [GraphNode("evt_1", "event", hostile), GraphNode("finding_001", "finding", hostile)]
    concluded.causal_graph = CausalGraph(nodes, [GraphEdge("evt_1", "finding_001", "caused")])
    concluded.playbook = Playbook(
        changes=[Change(finding_id="finding_001", change=hostile, verify=hostile)], prompt=hostile
    )
    store(runs, concluded)
    runs.paths.evidence_summary_path("run_001").write_bytes(
        b'{"events":[\n],\n"metrics":{},\n"coverage":{"notes":' + json.dumps([hostile]).encode() + b"}}\n"
    )
    client = Dashboard(runs).user()
    for page in PAGES:
        answer = client.get(f"/runs/run_001{page}")
        assert answer.status_code == 200
        elements = check(answer.text)
        if page == "/diagnosis":
            labels = [attributes.get("aria-label") for tag, attributes in elements.tags if "data-box" in attributes]
            shown = " ".join(sanitize_for_page(hostile[:MAX_LABEL]).split())
            assert len(labels) == 4 and all(label and shown.startswith(label.removesuffix("…")) for label in labels)
    check(client.get("/runs", params={"q": hostile[:1000]}).text)


def test_text_between_backticks_is_code_and_nothing_else_is_markup() -> None:
    assert coded("it is `npm <b>test</b>`, not `x\u202e` & `") == (
        "it is <code>npm &lt;b&gt;test&lt;/b&gt;</code>, not <code>x⟨U+202E⟩</code> &amp; `"
    )


@pytest.mark.parametrize("wrong", ["changed", "gone"])
def test_the_verdict_says_when_the_evidence_is_not_what_was_sealed(runs: Runs, wrong: str) -> None:
    run_id = failing_tests(runs, visibility="public")
    dashboard = Dashboard(runs)
    assert 'id="doubt"' not in dashboard.user().get(f"/runs/{run_id}").text
    document = runs.paths.evidence_summary_path(run_id)
    document.chmod(0o600)
    if wrong == "gone":
        document.unlink()
    else:
        document.write_bytes(document.read_bytes().replace(b"exit code 1", b"exit code 0"))
    page = dashboard.user().get(f"/runs/{run_id}").text
    verdict = page.split('id="verdict"')[1].split("</section>")[0]
    assert f"evidence {'is gone' if wrong == 'gone' else 'was changed after sealing'}" in verdict
    assert f"critiqor verify {run_id}" in verdict
    change_visibility(Run.load(run_id, runs.folder), "anonymous")
    strangers = dashboard.stranger().get(f"/runs/{run_id}").text
    assert "Not verified: the evidence was changed after sealing." in strangers and "session.json" not in strangers


def test_data_for_scripts_cannot_end_the_script() -> None:
    value = {"a": "</script><!--&\u2028\u2029<script>", "b": [1.5, None, True]}
    assert not re.search("[<>&\u2028\u2029]", island(value))
    assert json.loads(island(value)) == value


def test_invisible_characters_become_visible() -> None:
    assert sanitize_for_page("a\x1b[31m\u202eb\tc\nd") == "a␛[31m⟨U+202E⟩b\tc\nd"


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_a_title_one_heading_landmarks_and_unique_ids(runs: Runs, page: str) -> None:
    run_id = failing_tests(runs)
    elements = check(Dashboard(runs).user().get(f"/runs/{run_id}{page}").text)
    tags = [tag for tag, _ in elements.tags]
    assert tags.count("h1") == 1 and tags.count("main") == 1 and tags.count("title") >= 1
    ids = elements.attributes("id")
    assert len(ids) == len(set(ids))
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    for name in ("aria-labelledby", "aria-describedby"):
        assert set(" ".join(elements.attributes(name)).split()) <= set(ids)
    current = [attributes for _, attributes in elements.tags if attributes.get("aria-current") == "page"]
    assert len(current) == 1


def test_every_link_of_every_page_leads_somewhere(runs: Runs) -> None:
    failing_tests(runs)
    failing_tests(runs)
    client = Dashboard(runs).user()
    waiting, seen = ["/runs", "/compare?run=run_001&run=run_002"], set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        answer = client.get(path)
        assert answer.status_code in (200, 303), path
        if "text/html" not in answer.headers.get("content-type", ""):
            continue
        elements = Elements(answer.text)
        ids = set(elements.attributes("id"))
        for link in elements.attributes("href") + elements.attributes("src"):
            address, _, place = link.partition("#")
            if not address:
                assert place in ids, (path, link)
            elif "from=" not in address:
                waiting.append(path.partition("?")[0] + address if address.startswith("?") else address)
    assert len(seen) > 30


def test_the_overview_leads_to_the_first_bad_event_in_one_step(runs: Runs) -> None:
    run_id = failing_tests(runs)
    client = Dashboard(runs).user()
    page = client.get(f"/runs/{run_id}").text
    primary = Run.load(run_id, runs.folder).diagnosis.failure_analysis.findings[0]
    link = re.search(r'id="first-bad-event" href="([^"]+)"', page)
    assert link and link[1].endswith(primary.first_bad_step or primary.evidence[0])
    event = client.get(link[1])
    assert coded(primary.title) in event.text


def test_the_overview_tells_verdict_points_lost_and_next_action(runs: Runs) -> None:
    run_id = failing_tests(runs)
    concluded = Run.load(run_id, runs.folder).diagnosis
    page = Dashboard(runs).user().get(f"/runs/{run_id}").text
    assert f">{concluded.readiness}<" in page
    assert concluded.trust_score is not None and f">{concluded.trust_score} <" in page
    lost = sum(int(points) for points in re.findall(r'class="points">\W(\d+)</span><a', page))
    assert lost == 100 - concluded.trust_score
    assert concluded.playbook.changes[0].change in page


def test_a_run_that_is_not_diagnosed_says_what_to_type(runs: Runs) -> None:
    run_id = runs.start()
    client = Dashboard(runs).user()
    for page in PAGES:
        assert client.get(f"/runs/{run_id}{page}").status_code == 200
    assert f"critiqor finalize {run_id}" in client.get(f"/runs/{run_id}").text


def test_runs_are_searched_filtered_and_paged(runs: Runs) -> None:
    for number in range(1, 61):
        name = f"run_{number:03d}"
        found = [finding("tool_loop:exec")] if number % 2 else []
        store(runs, diagnosis(name, *found), day=number, agent_id="odd" if number % 2 else "even")
    client = Dashboard(runs).user()

    def listed(**query: Any) -> list[str]:
        return re.findall(r'<th scope="row"><a href="/runs/(run_\d+)"', client.get("/runs", params=query).text)

    assert listed() == [f"run_{number:03d}" for number in range(60, 10, -1)]
    assert listed(page=2) == [f"run_{number:03d}" for number in range(10, 0, -1)]
    assert len(listed(agent="odd")) == 30
    assert listed(type="tool_loop", since="1970-02-28") == ["run_059"]
    assert listed(until="1970-01-03") == ["run_002", "run_001"]
    assert listed(q="run_007 odd") == ["run_007"]
    assert listed(q="nothing") == []


def test_the_trend_holds_the_figures_of_the_listed_runs_in_order_of_time(runs: Runs) -> None:
    for number, trust in enumerate((40, None, 90), 1):
        store(
            runs, diagnosis(f"run_{number:03d}", trust=trust, cost_usd=number / 10, wall_ms=number * 1000), day=number
        )
    page = Dashboard(runs).user().get("/runs").text
    scores, cost, time = ([point.split(", ") for point in json.loads(found)["text"]] for found in islands(page))
    assert scores == [["40", "run_001", "1970-01-02 00:00"], ["90", "run_003", "1970-01-04 00:00"]]
    assert [value for value, *_ in cost] == ["$0.1000", "$0.2000", "$0.3000"]
    assert [value for value, *_ in time] == ["1.00 s", "2.00 s", "3.00 s"]


def test_search_matches_are_highlighted(runs: Runs) -> None:
    run_id = failing_tests(runs, text="&lt; <b> " + "filling " * 100 + "needle_1 behind")
    client = Dashboard(runs).user()
    page = client.get(f"/runs/{run_id}/evidence", params={"q": "needle <b>"}).text
    check(page)
    marked = re.findall("<mark>(.*?)</mark>", page)
    assert "needle" in marked and "b" in marked and set(marked) == {"needle", "b"}
    assert "&amp;lt; &lt;<mark>b</mark>&gt;" in page
    assert not re.search("<mark>", client.get(f"/runs/{run_id}/evidence").text)


def test_implausible_usage_is_not_shown(runs: Runs) -> None:
    run_id = runs.start()
    endless = {"usage": {"input": "x" * 500_000, "output": ["y" * 500_000]}, "provider": "lab", "model": "scripted"}
    runs.write(run_id, attached(1, at=BEGIN), recorded(2, "message_end", at=BEGIN + 1, payload=endless))
    runs.write(run_id, recorded(3, "message_end", at=BEGIN + 2, payload={"usage": {"input": 7}}))
    runs.finalize(run_id)
    page = Dashboard(runs).user().get(f"/runs/{run_id}/evidence").text
    assert "7 tokens in" in page and "None" not in page and len(page) < 50_000


def test_runs_are_found_by_every_problem_that_they_have(runs: Runs) -> None:
    store(runs, diagnosis("run_001", finding("tool_failure:exec"), finding("retry_storm:server", id="finding_002")))
    store(runs, diagnosis("run_002", finding("tool_failure:exec")))
    store(runs, diagnosis("run_003"))
    client = Dashboard(runs).user()

    def found(problem: str) -> list[str]:
        page = client.get("/runs", params={"type": problem}).text
        return sorted(set(re.findall(r'href="/runs/(run_\d+)"', page)))

    assert found("tool_failure") == ["run_001", "run_002"]
    assert found("retry_storm") == ["run_001"]
    assert found("none") == ["run_003"]
    assert '<option value="retry_storm">retry storm</option>' in client.get("/runs").text


def test_a_run_that_cannot_be_read_is_listed_without_what_it_holds(runs: Runs) -> None:
    ours = failing_tests(runs, tenant_id="ours")
    broken = failing_tests(runs, tenant_id="ours")
    runs.paths.run_path(broken).write_text('{"broken')
    dashboard = Dashboard(runs)
    page = dashboard.user("ours").get("/runs").text
    assert f'href="/runs/{broken}"' in page and ">unreadable<" in page
    assert f'value="{ours}"' in page and f'value="{broken}"' not in page, "it cannot be compared"
    assert dashboard.user("ours").get(f"/runs/{broken}").status_code == 422
    # It can be another tenant's.
    failing_tests(runs, tenant_id="theirs")
    assert broken not in dashboard.user("ours").get("/runs").text


def test_filters_can_be_added_and_taken_away_one_by_one(runs: Runs) -> None:
    run_id = failing_tests(runs)
    client = Dashboard(runs).user()
    page = client.get(f"/runs/{run_id}/evidence", params={"type": "tool_output", "q": "failed"}).text
    facets = re.findall(r'class="facet[^"]*"[^>]* href="([^"]+)"', page)
    base = f"/runs/{run_id}/evidence"
    assert facets == [
        f"{base}?q=failed",
        f"{base}?type=tool_output",
        base,
        f"{base}?type=tool_output&amp;q=failed&amp;status=error",
    ]


def test_a_finding_is_linked_on_the_page_that_has_it(runs: Runs) -> None:
    found = [finding(f"tool_failure:{number}", id=f"finding_{number:03d}", points=1) for number in range(1, 31)]
    concluded = diagnosis("run_001", *found, trust=70)
    concluded.causal_graph = CausalGraph([GraphNode("finding_001", "finding", "it")], [])
    store(runs, concluded)
    client = Dashboard(runs).user()
    overview = client.get("/runs/run_001").text
    links = re.findall(r'class="points">[^<]+</span><a href="([^"]+)"', overview)
    assert links[19] == "/runs/run_001/diagnosis#finding_020" and len(links) == 30
    address, _, place = links[20].partition("#")
    page = client.get(address).text
    assert f'<article id="{place}"' in page and '<article id="finding_020"' not in page
    assert 'id="graph"' in client.get("/runs/run_001/diagnosis").text and 'id="graph"' not in page


def test_an_unknown_price_is_not_shown_as_zero_and_a_free_run_is(runs: Runs) -> None:
    for number, cost in enumerate((None, 0.0, 0.25, 1234.5), 1):
        store(runs, diagnosis(f"run_{number:03d}", cost_usd=cost))
    client = Dashboard(runs).user()
    prices = [
        re.search(r'id="cost-total">([^<]+)<', client.get(f"/runs/run_{number:03d}/cost").text)
        for number in range(1, 5)
    ]
    assert [found and found[1] for found in prices] == ["no price known", "$0", "$0.2500", "$1,234.50"]


def test_compactions_stand_between_the_requests(runs: Runs) -> None:
    run_id = runs.start()
    usage = {"usage": {"input": 900, "output": 30}, "provider": "lab", "model": "scripted"}
    events = [attached(1, at=BEGIN), recorded(2, "agent_start", at=BEGIN + 1, payload={"attempt": 1})]
    for number in range(3):
        at, call = BEGIN + 1000 * number, {"callId": f"m{number}"}
        events.append(
            recorded(
                10 * number + 3, "before_provider_request", at=at + 10, payload={**call, "contextTokenBudget": 1000}
            )
        )
        events.append(recorded(10 * number + 4, "after_provider_response", at=at + 500, payload={**call, **usage}))
    events.append(recorded(15, "compaction_start", at=BEGIN + 1600))
    events.append(recorded(16, "compaction_end", at=BEGIN + 1700))
    runs.write(run_id, *events)
    runs.finalize(run_id)
    page = Dashboard(runs).user().get(f"/runs/{run_id}/context").text
    [points] = map(json.loads, islands(page))
    assert points["text"] == [f"Request {number}: 900 tokens, 90% of 1,000" for number in (1, 2, 3)]
    assert re.findall(r'class="compactions" d="M([0-9.]+) 0V', page) == ["666.67"]
    rows = re.findall(r"<tr[ >].*?</tr>", page.split("<tbody>")[1], re.DOTALL)
    assert ["1 compaction" in row for row in rows] == [False, False, True, False]


def test_event_times_are_relative_to_the_start_of_the_chart(runs: Runs) -> None:
    run_id = failing_tests(runs)
    page = Dashboard(runs).user().get(f"/runs/{run_id}/evidence").text
    times = [time for time in re.findall(r"<time [^>]*>([^<]+)</time>", page) if time.startswith("+")]
    assert "+990 ms" in times and "+1.99 s" in times


def test_a_broken_run_hides_no_other(runs: Runs) -> None:
    store(runs, diagnosis("run_001"))
    (runs.folder / "run_002.json").write_text("{")
    client = Dashboard(runs).user()
    assert "run_001" in client.get("/runs").text
    assert client.get("/runs/run_002").status_code == 422
    runs.paths.diagnosis_path("run_001").write_text("{")
    assert "critiqor diagnose run_001" in client.get("/runs/run_001").text


def test_two_runs_are_compared_the_older_one_first(runs: Runs) -> None:
    store(runs, diagnosis("run_001", finding("a:x"), trust=50), day=1)
    store(runs, diagnosis("run_002", finding("b"), trust=80), day=2)
    client = Dashboard(runs).user()
    page = client.get("/compare?run=run_002&run=run_001").text
    assert re.search(r"<h1>run_001 .*run_002</h1>", page)
    gone, new, still = page.split("</h2>")[1:4]
    assert "about a:x" in gone and "about b" in new and "None" in still
    assert client.get("/compare?run=run_001").status_code == 400
    assert client.get("/compare?run=run_001&run=run_001").status_code == 400


def test_the_lane_chart_draws_what_took_time_and_links_to_its_events(runs: Runs) -> None:
    run_id = failing_tests(runs)
    client = Dashboard(runs).user()
    page = client.get(f"/runs/{run_id}/timeline").text
    for kind, title in (
        ("model", "Model calls: "),
        ("tool failed", "Tools: exec, 1.00 s, failed"),
        ("agent", "Agent runs: "),
    ):
        assert f'<rect class="bar {kind}"' in page and title in page
    assert 'class="mark critical"' in page and "/diagnosis#finding_001" in page
    zoomed = client.get(f"/runs/{run_id}/timeline?from=950&to=1100").text
    assert "Tools: exec" in zoomed and "Model calls: " not in zoomed


def test_a_bar_has_its_name_if_that_fits(runs: Runs) -> None:
    run_id = runs.start()
    events = [attached(1, at=BEGIN)]
    for number, (tool, begin, end) in enumerate((("long", 0, 400), ("short", 500, 510), ("last", 600, 900))):
        call = {"tool_name": tool, "tool_call_id": tool}
        events.append(recorded(10 * number + 2, "tool_call", at=BEGIN + begin, **call))
        events.append(recorded(10 * number + 3, "tool_result", at=BEGIN + end, **call))
    runs.write(run_id, *events)
    runs.finalize(run_id)
    page = Dashboard(runs).user().get(f"/runs/{run_id}/timeline").text
    labels = re.findall(r'class="bar-label"[^>]*>([^<]+)<', page)
    assert set(labels) == {"long", "last"}
    ticks = re.findall(r'class="label"[^>]*>([^<]+)<', page)
    assert ticks[:3] == ["0 ms", "200 ms", "400 ms"], "round times"


@pytest.mark.parametrize("minutes", [1, 30, 60 * 24 * 365])
def test_zooming_leads_into_the_window_whatever_the_length_of_the_run(runs: Runs, minutes: int) -> None:
    run_id = runs.start()
    call = {"tool_name": "exec", "tool_call_id": "call_1"}
    end = BEGIN + minutes * 60_000
    runs.write(run_id, attached(1), recorded(2, "tool_call", at=BEGIN, **call))
    runs.write(run_id, recorded(3, "tool_result", at=end, **call))
    runs.finalize(run_id)
    client = Dashboard(runs).user()
    shown = (0.0, minutes * 60_000.0)
    address = f"/runs/{run_id}/timeline"
    for _ in range(20):
        elements = Elements(client.get(address).text)
        assert [float(elements.attributes(name)[0]) for name in ("data-from", "data-to")] == pytest.approx(shown)
        quarter = (shown[1] - shown[0]) / 4
        shown = (shown[0] + quarter, shown[1] - quarter)
        [zoom] = [attributes["href"] for _, attributes in elements.tags if attributes.get("id") == "zoom-in"]
        address = f"/runs/{run_id}/timeline{zoom}"


@pytest.mark.parametrize("query", ["from=x&to=y", "from=nan&to=inf", "from=-5&to=1e300"])
def test_an_invalid_window_shows_the_whole_run(runs: Runs, query: str) -> None:
    run_id = failing_tests(runs)
    page = Dashboard(runs).user().get(f"/runs/{run_id}/timeline?{query}").text
    assert 'id="zoom-in"' in page and 'id="zoom-out"' not in page


@pytest.mark.parametrize("query", ["from=900&to=100", "from=1e11&to=1e11"])
def test_a_window_without_any_length_is_a_moment_of_the_run(runs: Runs, query: str) -> None:
    run_id = failing_tests(runs)
    shown = Elements(Dashboard(runs).user().get(f"/runs/{run_id}/timeline?{query}").text)
    start, end = (float(shown.attributes(name)[0]) for name in ("data-from", "data-to"))
    assert 0 <= start < end <= start + 0.01 < 3000


def test_very_short_bars_are_merged(runs: Runs) -> None:
    run_id = runs.start()
    events = [attached(1, at=BEGIN)]
    for number in range(2000):
        call: Fields = {"tool_name": "read", "tool_call_id": f"c{number}", "at": BEGIN + 10 * number}
        events.append(recorded(2 * number + 2, "tool_call", **call))
        events.append(recorded(2 * number + 3, "tool_result", **{**call, "at": BEGIN + 10 * number + 2}))
    runs.write(run_id, *events)
    runs.finalize(run_id)
    page = Dashboard(runs).user().get(f"/runs/{run_id}/timeline").text
    assert "short spans, including read" in page
    assert 100 < page.count("<rect") < 3000
    change_visibility(Run.load(run_id, runs.folder), "anonymous")
    anonymous = Dashboard(runs).stranger().get(f"/runs/{run_id}/timeline").text
    for shown in (page, anonymous):
        assert "merged with their neighbours" in shown
    assert re.search(r"Tools: \d+ short spans", anonymous)


def test_a_tool_of_any_name_is_not_taken_for_several(runs: Runs) -> None:
    run_id = failing_tests(runs, tool="short spans")
    assert "merged with their neighbours" not in Dashboard(runs).user().get(f"/runs/{run_id}/timeline").text


def test_a_broken_seal_is_reported(runs: Runs) -> None:
    run_id = failing_tests(runs)
    client = Dashboard(runs).user()
    assert "Unchanged since it was sealed" in client.get(f"/runs/{run_id}/trust?verify=1").text
    document = runs.paths.evidence_summary_path(run_id)
    document.chmod(0o600)
    document.write_bytes(document.read_bytes().replace(b"npm", b"pip"))
    assert "Changed after it was sealed" in client.get(f"/runs/{run_id}/trust?verify=1").text


def test_missing_evidence_is_reported_on_every_page(runs: Runs) -> None:
    run_id = failing_tests(runs)
    runs.paths.evidence_summary_path(run_id).unlink()
    client = Dashboard(runs).user()
    for page in PAGES:
        answer = client.get(f"/runs/{run_id}{page}")
        assert answer.status_code == (422 if page in ("/evidence", "/conversation") else 200)
        if page in ("", "/conversation", "/evidence", "/trust"):
            assert f"critiqor verify {run_id}" in answer.text
    assert str(runs.folder) not in client.get(f"/runs/{run_id}/evidence").text


def test_the_diagnosis_stays_when_the_evidence_disappears(runs: Runs) -> None:
    run_id = failing_tests(runs)
    client = Dashboard(runs).user()
    concluded = ("", "/diagnosis", "/timeline", "/cost", "/context", "/playbook", "/trust", "/trust?verify=1")
    assert {client.get(f"/runs/{run_id}{page}").status_code for page in concluded} == {200}
    runs.paths.evidence_summary_path(run_id).unlink()
    assert {page: client.get(f"/runs/{run_id}{page}").status_code for page in concluded} == dict.fromkeys(
        concluded, 200
    )
    assert f"critiqor verify {run_id}" in client.get(f"/runs/{run_id}").text
    trust = client.get(f"/runs/{run_id}/trust?verify=1").text
    assert f"critiqor verify {run_id}" in trust and "Changed after it was sealed" in trust
    assert 'id="make-public"' in trust, "it can still be withdrawn"


def test_a_page_after_the_last_is_the_last(runs: Runs) -> None:
    store(runs, diagnosis("run_001", *(finding(f"a:{number}", id=f"finding_{number:03}") for number in range(30))))
    client = Dashboard(runs).user()
    page = client.get("/runs/run_001/diagnosis?page=9").text
    assert 'id="finding_029"' in page and "Nothing was found" not in page
    assert 'href="/runs/run_001"' in client.get("/runs?page=9").text


def test_what_is_recorded_is_streamed_until_the_end(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(1), recorded(2, "message_end", payload={"text": "<b>hello</b>\u202e"}))
    client = Dashboard(runs).user()
    assert f'data-stream="/runs/{run_id}/live/stream"' in client.get(f"/runs/{run_id}/live").text
    runs.finalize(run_id)
    answer = client.get(f"/runs/{run_id}/live/stream")
    assert answer.headers["content-type"].startswith("text/event-stream")
    messages = re.findall(r"event: (\w+)\ndata: (.+)\n\n", answer.text)
    rows = [json.loads(data) for name, data in messages if name == "record"]
    assert [row["type"] for row in rows] == ["recorder_attached", "message_end"]
    assert rows[1]["said"] == "text: <b>hello</b>⟨U+202E⟩"
    states = [json.loads(data)["said"] for name, data in messages if name == "state"]
    assert re.fullmatch(r"Sealed and diagnosed: \d+ events, 0 errors, 0 tokens, no model calls", states[-1])
    assert messages[-1] == ("ended", '{"concluded": true}')


@pytest.mark.parametrize(
    ("status", "over", "badge", "command", "is_last"),
    [
        ("MONITORING", None, "being recorded", None, False),
        ("MONITORING", "its process has ended", "not sealed yet", "critiqor finalize run_001", False),
        ("FINALIZING", "it is FINALIZING", "being sealed", None, False),
        ("COMPLETED", "it is COMPLETED", "completed", None, True),
        ("ABORTED", "it is ABORTED", "aborted", "critiqor diagnose run_001", True),
        ("GONE", "you no longer have access to this run", "gone", None, True),
    ],
)
def test_the_live_page_shows_the_phase_of_a_run_until_it_is_final(
    status: str, over: str | None, badge: str, command: str | None, is_last: bool
) -> None:
    phase = live_phase(Update(events=[], status=status, over=over, more=False), "run_001")
    assert (phase.badge, phase.next, phase.is_last) == (badge, command, is_last)
    assert phase.is_recording == (badge == "being recorded")
    assert "FINALIZING" not in phase.text and phase.text[0].isupper()


def test_a_stream_goes_on_after_the_agent_has_ended_until_the_run_is_sealed(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("critiqor.run.owner.is_owner_alive", lambda _: False)
    run_id, site = runs.start(), Dashboard(runs).site
    showing = RunPageData(site.catalog.open(run_id, Viewer(is_user=True, tenants=frozenset({"default"}))), site.indexes)
    scope = LiveScope(None, is_session=False, is_anonymous=False)
    stream = Live(site).messages(showing, site.access.admit("default"), scope, is_user=True)

    async def states() -> list[str]:
        found = []
        async for message in stream:
            if message.startswith(b"event: state"):
                found.append(json.loads(message.decode().split("data: ")[1])["badge"])
                if len(found) == 1:
                    runs.finalize(run_id)
        return found

    assert anyio.run(states) == ["not sealed yet", "completed"]


def test_the_live_page_says_that_the_agent_keeps_running_after_finalize(runs: Runs) -> None:
    run_id = runs.start(visibility="public")
    dashboard = Dashboard(runs)
    page = dashboard.user().get(f"/runs/{run_id}/live").text
    assert f"critiqor finalize {run_id}</code>: the agent keeps running" in page
    assert f"To stop the agent</dt><dd><code>critiqor abort --stop {run_id}" in page
    assert "critiqor abort" not in dashboard.stranger().get(f"/runs/{run_id}/live").text
