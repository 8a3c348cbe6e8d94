"""The offline report: self-contained, reproducible, bounded, and safe against hostile text."""

from __future__ import annotations

import base64
import hashlib
import re
import tracemalloc
from html.parser import HTMLParser

import pytest
from dashboards import BEGIN, failing_tests
from support import Runs, attached, recorded

from critiqor.dashboard.data import event_sample as chosen_events
from critiqor.dashboard.data.event_index import Numbered
from critiqor.dashboard.data.event_sample import choose
from critiqor.dashboard.render.offline import PARTS, offline_pages
from critiqor.dashboard.render.offline_fragments import Anchors, FragmentExtractor
from critiqor.errors import CritiqorError
from critiqor.model import Event
from critiqor.run.store import Run

VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}
HOSTILE = (
    '</script><script>alert(1)</script></pre></details><img src=x onerror="alert(2)"> \x1b[31m\u202e\x00 &lt; "\'>'
)
REQUESTING = {"src", "srcset", "action", "formaction", "ping", "poster", "background", "data"}


class Page(HTMLParser):
    """A strict parser: every element must be closed in order."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(content.decode())
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open[-1] if self._open else "", []).append(data)

    @property
    def ids(self) -> list[str]:
        return [name for _, attributes in self.tags if (name := attributes.get("id")) is not None]

    @property
    def links(self) -> list[str]:
        return [address for _, attributes in self.tags if (address := attributes.get("href")) is not None]

    @property
    def text(self) -> str:
        return "".join("".join(texts) for tag, texts in self.texts.items() if tag not in ("style", "script"))

    def only(self, tag: str) -> dict[str, str | None]:
        [found] = [attributes for name, attributes in self.tags if name == tag]
        return found


def page_of(runs: Runs, run_id: str = "run_001") -> Page:
    return Page(b"".join(offline_pages(Run.load(run_id, runs.folder))))


def of_many(runs: Runs, count: int, failing: int) -> str:
    """Seal a run with many tool results, some of them failed, and one model call that fills the context."""
    run_id = runs.start()
    usage = {"usage": {"input": 990, "output": 3}, "callId": "m1"}
    runs.write(
        run_id,
        attached(1, at=BEGIN),
        recorded(2, "before_provider_request", at=BEGIN + 1, payload={"callId": "m1", "contextTokenBudget": 1000}),
        recorded(3, "after_provider_response", at=BEGIN + 2, payload=usage),
    )
    step = 5000
    for first in range(4, count, step):
        runs.write(
            run_id,
            *(
                recorded(
                    number,
                    "tool_result",
                    at=BEGIN + number,
                    tool_name="exec",
                    tool_call_id=f"call_{number}",
                    duration_ms=1,
                    status="error" if number % failing == 0 else "ok",
                    payload={"result": f"line {number}"},
                )
                for number in range(first, min(first + step, count))
            ),
        )
    runs.finalize(run_id)
    return run_id


def test_the_file_holds_the_pages_and_every_event(runs: Runs) -> None:
    failing_tests(runs)
    page = page_of(runs)
    assert set(PARTS) <= set(page.ids)
    events = runs.evidence("run_001")["events"]
    assert [name for name in page.ids if name.startswith("event-evt_")] == [
        f"event-{one['event_id']}" for one in events
    ]
    assert {"finding_001", "verdict", "lanes"} <= set(page.ids)
    assert f"All {len(events)} events" in page.text
    for text in ("Causes and effects", "npm test", "Done: all tests pass.", "What the recorder did not see"):
        assert text in page.text


def test_the_file_makes_no_requests(runs: Runs) -> None:
    failing_tests(runs, text=HOSTILE, tool=HOSTILE, agent_id=HOSTILE)
    page = page_of(runs)
    for tag, attributes in page.tags:
        assert tag not in ("iframe", "img", "object", "embed", "form", "base", "video", "audio", "input")
        assert not [name for name in attributes if name in REQUESTING or name == "style" or name.startswith("on")]
    assert all(address.startswith("#") for address in page.links if not address.startswith("data:image/svg+xml,"))
    style = "".join(page.texts["style"])
    assert "url(" not in style and "@import" not in style
    refreshing = [attributes.get("http-equiv") for tag, attributes in page.tags if tag == "meta"]
    assert [one for one in refreshing if one] == ["Content-Security-Policy"]


def test_the_policy_allows_only_the_script_of_the_file(runs: Runs) -> None:
    failing_tests(runs, text=HOSTILE)
    page = page_of(runs)
    [policy] = [str(attributes["content"]) for tag, attributes in page.tags if "http-equiv" in attributes]
    allowed = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert (allowed["default-src"], allowed["img-src"]) == ("'none'", "data:")
    assert (allowed["base-uri"], allowed["form-action"]) == ("'none'", "'none'")
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        assert page.only(tag) == {}
        digest = hashlib.sha256("".join(page.texts[tag]).encode()).digest()
        assert allowed[rule] == f"'sha256-{base64.b64encode(digest).decode()}'"


def test_what_an_agent_wrote_is_shown_as_text(runs: Runs) -> None:
    failing_tests(runs, text=HOSTILE, tool=HOSTILE, agent_id=HOSTILE)
    page = page_of(runs)
    assert '<img src=x onerror="alert(2)">' in page.text
    assert "</script><script>alert(1)</script>" in page.text
    assert len(page.texts["script"]) == 1 and "alert(1)" not in page.texts["script"][0]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", page.text)


def test_every_link_has_one_target(runs: Runs) -> None:
    failing_tests(runs)
    page = page_of(runs)
    assert len(page.ids) == len(set(page.ids))
    assert {address[1:] for address in page.links if address.startswith("#")} <= set(page.ids)
    for _, attributes in page.tags:
        for name in ("aria-labelledby", "aria-describedby", "aria-controls"):
            assert set((attributes.get(name) or "").split()) <= set(page.ids)


def test_the_same_run_gives_the_same_bytes(runs: Runs) -> None:
    failing_tests(runs)
    first = b"".join(offline_pages(Run.load("run_001", runs.folder)))
    (runs.paths.run_folder("run_001") / "events.sqlite").unlink()
    assert b"".join(offline_pages(Run.load("run_001", runs.folder))) == first
    assert len(first) < 1_000_000


def test_an_anonymous_run_leaves_without_names_and_texts(runs: Runs) -> None:
    failing_tests(runs, text="the secret plan", agent_id="agent_of_somebody", tenant_id="acme", visibility="anonymous")
    content = b"".join(offline_pages(Run.load("run_001", runs.folder)))
    for word in (b"secret plan", b"agent_of_somebody", b"acme", b"Done: all tests pass", str(runs.folder).encode()):
        assert word not in content
    page = Page(content)
    assert "Anonymized view: names, texts and paths are removed." in page.text
    assert "finding_001" in page.ids


@pytest.mark.parametrize("visibility", ["private", "shared", "public"])
def test_any_other_run_is_complete(runs: Runs, visibility: str) -> None:
    failing_tests(runs, text="the plan", tenant_id="acme", visibility=visibility)
    assert "the plan" in page_of(runs).text


def test_a_run_without_a_diagnosis_says_what_to_type(runs: Runs) -> None:
    run_id = runs.start()
    with pytest.raises(CritiqorError) as refused:
        offline_pages(Run.load(run_id, runs.folder))
    assert f"critiqor finalize {run_id}" in str(refused.value.fix)


def test_missing_evidence_is_reported_and_the_diagnosis_stays(runs: Runs) -> None:
    failing_tests(runs)
    runs.paths.evidence_summary_path("run_001").unlink()
    page = page_of(runs)
    assert "critiqor verify run_001" in page.text
    assert "finding_001" in page.ids
    assert not [name for name in page.ids if name.startswith("event-evt_")]


def test_a_large_run_keeps_to_what_matters_and_says_so(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_events, "MAX_EVENTS", 40)
    run_id = of_many(runs, 400, failing=50)
    page = page_of(runs, run_id)
    shown = [name.removeprefix("event-") for name in page.ids if name.startswith("event-evt_")]
    events = runs.evidence(run_id)["events"]
    assert len(shown) <= 40
    failed = [event["event_id"] for event in events if event["status"] == "error"]
    assert set(failed) <= set(shown)
    assert shown == [event["event_id"] for event in events if event["event_id"] in shown]
    assert f"{len(shown)} of {len(events)} events are in this file" in page.text
    assert f"{len(events) - len(shown)} are left out" in page.text
    assert f"critiqor dashboard {run_id}" in page.text
    assert {address[1:] for address in page.links if address.startswith("#")} <= set(page.ids)


def test_a_file_of_many_events_stays_small(runs: Runs) -> None:
    run_id = of_many(runs, 10_000, failing=2)
    pieces = [len(piece) for piece in offline_pages(Run.load(run_id, runs.folder))]
    assert sum(pieces) < 6 << 20
    assert max(pieces) < 1 << 20, "it is not held as a whole"
    page = page_of(runs, run_id)
    assert len([name for name in page.ids if name.startswith("event-evt_")]) == chosen_events.MAX_EVENTS
    assert "up to the size limit" in page.text


def test_a_hundred_thousand_events_are_looked_at_one_by_one() -> None:
    events = (Numbered(number, event(number, "error", size=10)) for number in range(1, 100_001))
    tracemalloc.start()
    choice = choose(events, {f"evt_{number}" for number in range(1, 100_000, 20)})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (choice.total, len(choice.events)) == (100_000, chosen_events.MAX_EVENTS)
    assert peak < 5 << 20


def numbered(*events: Event) -> list[Numbered]:
    return [Numbered(number, event) for number, event in enumerate(events, 1)]


def event(number: int, status: str = "ok", size: int = 0) -> Event:
    return Event(
        event_id=f"evt_{number}",
        event_type="tool_result",
        timestamp="2026-11-16T00:00:00.000Z",
        source_layer="tool_hooks",
        status=status,
        payload={"text": "x" * size},
    )


def test_events_that_are_too_large_together_are_chosen_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_events, "MAX_BYTES", 50_000)
    events = numbered(*(event(number, size=5000) for number in range(1, 21)))
    choice = choose(events, {"evt_10"})
    assert list(choice.events) == [8, 9, 10, 11]
    assert (choice.total, choice.fits, choice.is_whole) == (20, False, False)
    assert choose(events[:4], set()).is_whole


def test_cited_events_come_before_their_neighbours_and_those_before_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_events, "MAX_EVENTS", 7)
    events = numbered(*(event(number, "error" if number > 12 else "ok") for number in range(1, 21)))
    choice = choose(events, {"evt_2", "evt_9"})
    assert list(choice.events) == [1, 2, 3, 4, 7, 8, 9]
    monkeypatch.setattr(chosen_events, "MAX_EVENTS", 10)
    assert list(choose(events, {"evt_9"}).events) == [7, 8, 9, 10, 11, 13, 14, 15, 16, 17]


def lifted(page: str) -> str:
    parts = FragmentExtractor(Anchors("run_001", ("overview", "diagnosis"), {"evt_1"}), {"top"})
    return str(parts.extract("diagnosis", page))


def test_addresses_become_anchors_and_unknown_ones_are_dropped() -> None:
    page = (
        '<nav>x</nav><main><a href="/runs/run_001">o</a><a href="/runs/run_001/diagnosis?page=2#f_1">f</a>'
        '<a href="/runs/run_001/events/evt_1">e</a><a href="/runs/run_001/events/evt_2">g</a>'
        '<a href="/runs/run_001/trust">t</a><a href="https://example.org/">w</a><a href="#top">s</a></main>'
    )
    assert lifted(page) == (
        '<a href="#overview">o</a><a href="#f_1">f</a><a href="#event-evt_1">e</a><a>g</a><a>t</a><a>w</a>'
        '<a href="#top">s</a>'
    )


def test_elements_that_need_a_server_or_a_script_are_removed() -> None:
    page = (
        "<main><p>a<br>b &amp; &#60;i&#62;</p><nav><ul><li>n</li></ul></nav><form><p>f</p></form><script>s</script>"
        '<p data-online>z</p><div aria-live="polite"><div>w</div>l</div><button onclick="x()">k</button>'
        '<p onclick="x()" style="top:0" class="c">d</p><img src="/x"><svg viewBox="0 0 1 1"><rect/></svg></main>'
        "<p>no</p>"
    )
    assert lifted(page) == '<p>a<br>b &amp; &#60;i&#62;</p><p class="c">d</p><svg viewbox="0 0 1 1"><rect/></svg>'


def test_duplicate_ids_are_renamed_with_their_references() -> None:
    page = '<main><h2 id="top">x</h2><section aria-labelledby="top other"><a href="#top">y</a></section></main>'
    assert lifted(page) == (
        '<h2 id="diagnosis-top">x</h2><section aria-labelledby="diagnosis-top other"><a href="#diagnosis-top">y</a>'
        "</section>"
    )


def test_room_that_is_left_is_filled_from_both_ends_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_events, "MAX_EVENTS", 11)
    events = [Numbered(number, Event(event_type="x", event_id=f"evt_{number}")) for number in range(1, 101)]
    choice = choose(events, {"evt_50"})
    assert list(choice.events) == [1, 2, 3, 48, 49, 50, 51, 52, 98, 99, 100] and choice.fits
    assert list(choose(events, set()).events) == [1, 2, 3, 4, 5, 6, 96, 97, 98, 99, 100]
