"""Events are paged, filtered and searched by an index as a plain scan would do it."""

from __future__ import annotations

import errno
import json
import random
import sqlite3
from itertools import product
from pathlib import Path

import pytest
from dashboards import BEGIN, Dashboard, event_ids, failing_tests
from hypothesis import given
from hypothesis import strategies as st
from support import Runs, attached, recorded

from critiqor.dashboard.data.event_index import EventFilter, EventIndex
from critiqor.dashboard.data.index_builder import build_index
from critiqor.dashboard.data.index_cache import FILE_NAME, IndexCache
from critiqor.dashboard.data.run_catalog import RunCatalog
from critiqor.dashboard.data.run_page_data import PAGE, RunPageData
from critiqor.errors import BrokenRecordError
from critiqor.model import Event
from critiqor.privacy.visibility import Viewer
from critiqor.run.store import Run, RunStore
from critiqor.search.terms import Search
from critiqor.storage.session_document import read_sealed_events

WORDS = (
    "failed",
    "src/app.py",
    "src/main.py",
    "npm",
    "test",
    "Grüße",
    "ÄRGER",
    "naïve",
    "东京",
    "user_id",
    "exit-code",
    "42",
)


def varied(runs: Runs, count: int = 250) -> str:
    """A sealed run with events of many kinds and words."""
    chance = random.Random(6)
    run_id = runs.start()
    events = [attached(1, at=BEGIN)]
    for number in range(2, count):
        kind = chance.choice(["tool_call", "tool_result", "message_end", "agent_start"])
        failed = chance.random() < 0.2
        text = " ".join(chance.sample(WORDS, 3))
        tool = chance.choice(["exec", "read", None])
        status = {"status": "error", "error": text} if failed else {}
        payload = {"result": [{"text": text}, number], "deep": {"er": [chance.choice(WORDS)]}}
        events.append(recorded(number, kind, at=BEGIN + number, tool_name=tool, payload=payload, **status))
    runs.write(run_id, *events)
    runs.finalize(run_id)
    return run_id


def index_of(runs: Runs, run_id: str) -> EventIndex:
    digest = runs.record(run_id)["seal"]["digest"]
    return build_index(Run.load(run_id, runs.folder), digest, runs.paths.run_folder(run_id) / FILE_NAME)


def scanned(runs: Runs, run_id: str, wanted: EventFilter) -> list[str]:
    events = read_sealed_events(runs.paths.evidence_summary_path(run_id))
    return [event.event_id for event in events if wanted.matches(event)]


def test_filters_and_searches_find_what_a_plain_scan_finds(runs: Runs) -> None:
    run_id = varied(runs)
    index = index_of(runs, run_id)
    texts = (
        "",
        *WORDS,
        "npm test",
        "sr",
        "app.py",
        "failed 42",
        "grüße ärger",
        "USER",
        "user",
        "id",
        "nothing here",
        '"',
        "*",
    )
    for text, kind, tool, status in product(texts, ("", "tool_call"), ("", "exec", "none"), ("", "error")):
        wanted = EventFilter(text=text, event_type=kind, tool_name=tool, status=status)
        expected = scanned(runs, run_id, wanted)
        found = index.find(wanted, 0, 1000)
        assert [each.event.event_id for each in found.events] == expected, wanted
        assert found.total == len(expected)


def test_pages_together_are_the_whole_list(runs: Runs) -> None:
    run_id = varied(runs)
    index = index_of(runs, run_id)
    wanted = EventFilter(text="npm")
    pages = [index.find(wanted, offset, 7) for offset in range(0, 300, 7)]
    joined = [each.event.event_id for page in pages for each in page.events]
    assert joined == scanned(runs, run_id, wanted)
    assert {page.total for page in pages} == {len(joined)}


def test_events_are_numbered_as_they_stand_in_the_evidence(runs: Runs) -> None:
    run_id = varied(runs)
    index = index_of(runs, run_id)
    events = runs.evidence(run_id)["events"]
    for each in index.find(EventFilter(status="error"), 0, 1000).events:
        assert events[each.number - 1]["event_id"] == each.event.event_id
        assert index.event(each.event.event_id) == each
    assert index.event("evt_nothing") is None


def test_the_names_offered_as_filters_are_those_of_the_events(runs: Runs) -> None:
    run_id = varied(runs)
    index = index_of(runs, run_id)
    assert index.names("event_type") == runs.evidence(run_id)["metrics"]["by_event_type"]
    assert index.names("source_layer") == runs.evidence(run_id)["metrics"]["by_source_layer"]


@given(st.text(max_size=40), st.lists(st.text(max_size=30), max_size=4))
def test_no_search_is_an_error_and_words_of_a_text_find_it(search: str, texts: list[str]) -> None:
    base = sqlite3.connect(":memory:")
    base.execute(
        """CREATE VIRTUAL TABLE words USING fts5 (
        text, content='', columnsize=0, tokenize="unicode61 remove_diacritics 0 tokenchars '_'")"""
    )
    base.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(texts))
    looked = Search(search)
    if looked:
        base.execute("SELECT rowid FROM words WHERE words MATCH ?", [looked.expression]).fetchall()
    looked.matches(Event(event_type="x", payload={"texts": texts}))


def test_a_search_for_parts_finds_them_right_behind_each_other_alone() -> None:
    event = Event(event_type="x", payload={"text": "see src/main.py and app.py"})
    assert Search("src/main.py").matches(event)
    assert Search("src/mai").matches(event)
    assert Search("app.py main").matches(event)
    assert not Search("src/app.py").matches(event)
    assert not Search("rc/main.py").matches(event)


def test_an_index_is_made_once_and_again_for_other_evidence(runs: Runs) -> None:
    run_id = failing_tests(runs)
    shelf, library = IndexCache(), RunCatalog(RunStore(runs.folder))
    run = library.open(run_id, Viewer(is_user=True, tenants=frozenset({"default"})))
    file = runs.paths.run_folder(run_id) / FILE_NAME
    assert shelf.index_of(run, timeout=30) is not None
    made = file.stat().st_ino
    assert IndexCache().index_of(run, timeout=30) is not None
    assert file.stat().st_ino == made
    file.write_bytes(b"no index at all")
    again = IndexCache().index_of(run, timeout=30)
    assert again is not None and again.find(EventFilter(), 0, 1).total == runs.record(run_id)["seal"]["events"]
    document = runs.paths.evidence_summary_path(run_id)
    document.chmod(0o600)
    document.write_bytes(document.read_bytes().replace(b"npm", b"pip"))
    other = shelf.index_of(run, timeout=30)
    assert other is not None and other.find(EventFilter(text="pip"), 0, 1).total > 0


def test_a_run_that_cannot_be_indexed_says_so_and_is_read_without(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = failing_tests(runs)

    def refuses(*_: object) -> EventIndex:
        raise BrokenRecordError("no room")

    monkeypatch.setattr("critiqor.dashboard.data.index_cache.build_index", refuses)
    client = Dashboard(runs).user()
    page = client.get(f"/runs/{run_id}/evidence?q=npm")
    assert "This run has no index" in page.text
    assert len(event_ids(page.text)) == 1
    assert "cannot be drawn" in client.get(f"/runs/{run_id}/timeline").text


def test_a_runs_folder_that_can_only_be_read_is_indexed_elsewhere(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = failing_tests(runs)

    def built(run: Run, digest: str, file: Path) -> EventIndex:
        if file.is_relative_to(runs.folder):
            raise OSError(errno.EROFS, "Read-only file system")
        return build_index(run, digest, file)

    monkeypatch.setattr("critiqor.dashboard.data.index_cache.build_index", built)
    page = Dashboard(runs).user().get(f"/runs/{run_id}/evidence?q=npm").text
    assert "This run has no index" not in page and len(event_ids(page)) == 1
    assert not (runs.paths.run_folder(run_id) / FILE_NAME).exists()


def test_without_an_index_pages_are_the_same(runs: Runs) -> None:
    run_id = varied(runs)
    run = RunCatalog(RunStore(runs.folder)).open(run_id, Viewer(is_user=True, tenants=frozenset({"default"})))
    indexed = RunPageData(run, IndexCache())

    class Nothing(IndexCache):
        def index_of(self, view: object, timeout: float = 0.0) -> None:
            return None

    plain = RunPageData(run, Nothing())
    for wanted, page in product((EventFilter(), EventFilter(text="npm"), EventFilter(status="error")), (1, 2, 3)):
        assert indexed.events(wanted, page) == plain.events(wanted, page)
    last = indexed.events(EventFilter(), 3).events[-1]
    assert last.number == 2 * PAGE + len(indexed.events(EventFilter(), 3).events)
    assert plain.event(last.event.event_id) == indexed.event(last.event.event_id)


def test_a_run_that_is_being_recorded_can_be_searched(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(1), recorded(2, "message_end", payload={"text": "a needle"}), recorded(3, "agent_end"))
    client = Dashboard(runs).user()
    assert len(event_ids(client.get(f"/runs/{run_id}/evidence").text)) >= 3
    assert len(event_ids(client.get(f"/runs/{run_id}/evidence?q=needle").text)) == 1
    assert not (runs.paths.run_folder(run_id) / FILE_NAME).exists()


def test_the_id_of_an_event_leads_to_it(runs: Runs) -> None:
    run_id = failing_tests(runs)
    client = Dashboard(runs).user()
    event_id = event_ids(client.get(f"/runs/{run_id}/evidence").text)[3]
    answer = client.get(f"/runs/{run_id}/evidence?q={event_id}")
    assert answer.headers["location"] == f"/runs/{run_id}/events/{event_id}"
    raw = json.loads(client.get(f"/runs/{run_id}/events/{event_id}/raw").text)
    assert raw == next(event for event in runs.evidence(run_id)["events"] if event["event_id"] == event_id)


def test_an_index_in_a_folder_that_is_a_link_is_rebuilt(runs: Runs, tmp_path: Path) -> None:
    run_id = failing_tests(runs)
    index_of(runs, run_id)
    file = runs.paths.run_folder(run_id) / FILE_NAME
    file.rename(tmp_path / "elsewhere.sqlite")
    file.symlink_to(tmp_path / "elsewhere.sqlite")
    run = RunCatalog(RunStore(runs.folder)).open(run_id, Viewer(is_user=True, tenants=frozenset({"default"})))
    assert IndexCache().index_of(run, timeout=30) is not None
    assert not file.is_symlink()


@pytest.mark.parametrize("page", ["0", "-1", "x", "", "99999999999999", "²", "2"])
def test_a_page_that_is_none_is_the_first_and_one_beyond_the_end_is_empty(runs: Runs, page: str) -> None:
    run_id = failing_tests(runs)
    answer = Dashboard(runs).user().get(f"/runs/{run_id}/evidence", params={"page": page})
    assert answer.status_code == 200
    assert bool(event_ids(answer.text)) == (page != "2")
