"""Cases that hold for an index in SQLite and for one in PostgreSQL. They are imported by the tests of both."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from diagnosed import finding
from fleet_entries import BEGIN_MS, DAY_MS, entry, seal_of

from critiqor.comparison.ranking import Ranking, rank_run
from critiqor.comparison.trends import trends_of
from critiqor.errors import UsageError
from critiqor.fleet.index.base import TABLES, RefusedRowsError, TenantError, columns_of
from critiqor.fleet.index.entry import IndexEntry, rule_order
from critiqor.fleet.index.fleet_index import BATCH, FleetIndex
from critiqor.fleet.index.query import RunOrder, RunQuery
from critiqor.fleet.manifest import rule_set_order
from critiqor.fleet.views.agent_trends import agent_trends
from critiqor.fleet.views.run_names import run_names
from critiqor.fleet.views.run_ranking import rank_in_fleet
from critiqor.model.diagnosis import SessionDiagnosis
from critiqor.model.report import RunSummary

Opener = Callable[..., FleetIndex]
"""Opens the index of a test, optionally as a tenant."""


def dump(index: FleetIndex) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of an index."""
    tables = {table: columns_of(kind, "x") for table, kind in TABLES.items()}
    tables["runs"] += ", x.is_current"
    tables["sealed_runs"] = "x.tenant, x.key, x.rule_order, x.current"
    return {
        table: sorted(index._base.query(f"SELECT {columns} FROM {table} x"), key=repr)
        for table, columns in tables.items()
    }


def names(index: FleetIndex, **query: Any) -> list[str]:
    return [run.name for run in index.runs(RunQuery(**query))]


def several() -> list[IndexEntry]:
    """Runs of several hosts, agents, verdicts and days."""
    loop, stall = finding("loop:exec", "high"), finding("stall", "low")
    return [
        entry("build-1", "run_001", loop, trust=40, verdict="unsafe", agent_id="release-bot", cost_usd=2.0),
        entry(
            "build-1", "run_002", created_ms=BEGIN_MS + DAY_MS, agent_id="release-bot", trust=None, verdict="unknown"
        ),
        entry("build-2", "run_001", stall, loop, created_ms=BEGIN_MS + 2 * DAY_MS, agent_id="docs", verdict="review"),
        entry(
            "laptop", "run_009", created_ms=BEGIN_MS + 3 * DAY_MS, agent_id="docs", cost_usd=None, openclaw="2026.12"
        ),
    ]


def test_an_entry_is_added_once_however_often_it_is_added(open_fleet: Opener) -> None:
    with open_fleet() as index:
        assert index.add(several()) == 4
        first = dump(index)
        assert index.add([*several(), *several()]) == 0
        assert dump(index) == first
        assert {table: len(rows) for table, rows in first.items()} == {
            "runs": 4,
            "sessions": 0,
            "findings": 3,
            "claims": 0,
            "costs": 4,
            "tags": 0,
            "texts": 11,
            "sealed_runs": 4,
        }


def test_more_entries_than_a_batch_are_added(open_fleet: Opener) -> None:
    with open_fleet() as index:
        assert index.add(entry("build-1", f"run_{number:03}") for number in range(BATCH + 1)) == BATCH + 1
        assert index.count() == BATCH + 1


def test_the_row_of_the_newest_rule_set_is_current_whichever_comes_first(open_fleet: Opener) -> None:
    entries = [entry(rules=rules, trust=trust) for rules, trust in (("9", 90), ("11", 11), ("10.1", 10))]
    with open_fleet() as index:
        for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
            host = f"host-{order}".replace(" ", "").replace(",", "").strip("[]").replace("[", "-")
            for place in order:
                other = entry(
                    host, rules=entries[place].diagnosis.rule_set_version, trust=entries[place].diagnosis.trust_score
                )
                assert index.add([other]) == 1
            assert [run.trust for run in index.runs(RunQuery(host=host))] == [11]
        assert index.count() == 3
        assert sum(summary.runs for summary in index.hosts()) == 3
        assert sum(day.runs for day in index.costs_by_day()) == 3


def test_several_rule_sets_in_one_batch_have_one_current_row(open_fleet: Opener) -> None:
    with open_fleet() as index:
        assert index.add([entry(rules="12"), entry(rules="11"), entry(rules="13")]) == 3
        assert [run.rule_set for run in index.runs()] == ["13"]


def test_rule_sets_sort_as_texts_like_their_numbers() -> None:
    sets = ["9", "10", "10.2", "10.11", "11", "2", "nonsense"]
    assert sorted(sets, key=rule_order) == sorted(sets, key=rule_set_order)


def test_a_list_has_the_filters_of_the_verb(open_fleet: Opener) -> None:
    with open_fleet() as index:
        index.add(several())
        assert names(index) == ["laptop/run_009", "build-2/run_001", "build-1/run_002", "build-1/run_001"]
        assert names(index, host="build-1") == ["build-1/run_002", "build-1/run_001"]
        assert names(index, host="build-*") == ["build-2/run_001", "build-1/run_002", "build-1/run_001"]
        assert names(index, host="[!b]*") == ["laptop/run_009"]
        assert names(index, agent="rel*-bo?") == ["build-1/run_002", "build-1/run_001"]
        assert names(index, agent="REL*") == []
        assert names(index, agent_id="rel*") == []
        assert names(index, verdicts=("unsafe", "review")) == ["build-2/run_001", "build-1/run_001"]
        assert names(index, since_ms=BEGIN_MS + DAY_MS, until_ms=BEGIN_MS + 3 * DAY_MS) == [
            "build-2/run_001",
            "build-1/run_002",
        ]
        assert names(index, failure_type="stall") == ["build-2/run_001"]
        assert names(index, tenant="other") == []


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("created", "laptop/run_009"),
        ("trust", "build-1/run_001"),
        ("cost", "build-1/run_001"),
        ("events", "laptop/run_009"),
    ],
)
def test_a_list_is_sorted_and_paged(open_fleet: Opener, sort: RunOrder, first: str) -> None:
    with open_fleet() as index:
        index.add(several())
        every = names(index, sort=sort)
        assert every[0] == first
        pages = [names(index, sort=sort, limit=2, offset=offset) for offset in (0, 2, 4)]
        assert pages == [every[:2], every[2:], []]
        assert index.count() == 4


def test_runs_are_found_by_session_and_tags(open_fleet: Opener) -> None:
    plain, tagged = entry("build-1"), msgspec.structs.replace(entry("build-2"), tags=("flaky", "nightly"))
    sessions = [SessionDiagnosis(session_key="agent:main:telegram", agent_runs=[], trust_score=5, readiness="unsafe")]
    tagged.diagnosis.sessions = sessions
    with open_fleet() as index:
        index.add([plain, tagged])
        assert names(index, session="main:tele") == ["build-2/run_001"]
        assert names(index, session="%") == []
        assert names(index, tags=("nightly", "flaky")) == ["build-2/run_001"]
        assert names(index, tags=("nightly", "other")) == []
        [run] = index.runs(RunQuery(session="telegram"))
        assert [(each.session_key, each.trust) for each in index.sessions(run)] == [("agent:main:telegram", 5)]


def test_a_run_is_found_by_the_digits_of_its_seal(open_fleet: Opener) -> None:
    first, second = seal_of("a"), seal_of("b")
    with open_fleet() as index:
        index.add([entry(seal=first), entry(seal=second)])
        assert len(index.find("build-1", "run_001")) == 2
        [found] = index.find("build-1", "run_001", second.removeprefix("sha256:")[:8])
        assert found.seal == second
        assert index.find("build-1", "run_002") == []
        assert set(run_names(index.runs()).values()) == {f"build-1/run_001@{each[7:15]}" for each in (first, second)}


def test_statistics_count_each_run_once(open_fleet: Opener) -> None:
    with open_fleet() as index:
        index.add(several())
        hosts = {each.name: (each.runs, each.unsafe, each.ready, each.cost_usd, each.trust) for each in index.hosts()}
        assert hosts == {
            "build-1": (2, 1, 0, 2.25, 40.0),
            "build-2": (1, 0, 0, 0.25, 90.0),
            "laptop": (1, 0, 1, None, 90.0),
        }
        assert [(each.name, each.runs) for each in index.agents(RunQuery(host="build-*"))] == [
            ("docs", 1),
            ("release-bot", 2),
        ]
        assert [each.runs for each in index.days()] == [1, 1, 1, 1]
        assert [each.review for each in index.days(RunQuery(since_ms=BEGIN_MS + 2 * DAY_MS))] == [1, 0]
        costs = index.costs_by_day()
        assert [(each.model, each.cost_usd, each.tokens) for each in costs] == [
            ("claude", 2.0, 1200),
            ("claude", 0.25, 1200),
            ("claude", 0.25, 1200),
            ("claude", None, 1200),
        ]


def test_failure_types_are_new_since_a_version(open_fleet: Opener) -> None:
    with open_fleet() as index:
        index.add(several())
        later = BEGIN_MS + 5 * DAY_MS
        index.add([entry("laptop", "run_010", finding("leak"), finding("loop"), created_ms=later, openclaw="2026.12")])
        # A superseded diagnosis does not count.
        index.add([entry("laptop", "run_011", finding("gone"), created_ms=later, rules="10")])
        index.add([entry("laptop", "run_011", created_ms=later, rules="11")])
        since = index.versions()["2026.12"]
        assert since == BEGIN_MS + 3 * DAY_MS
        assert [(each.type, each.host, each.run, each.runs) for each in index.new_failure_types(since)] == [
            ("leak", "laptop", "run_010", 1)
        ]
        assert {each.type: each.runs for each in index.new_failure_types(0)} == {"leak": 1, "loop": 3, "stall": 1}


@pytest.mark.parametrize(
    ("words", "is_found"),
    [
        ("invoice", True),
        ("INVOICE 4711", True),
        ("invo 47", True),
        ("oice", False),
        ("invoice missing", False),
        ("src/app.py", True),
        ("src/app.p", True),
        ("app/src", False),
        ("übermut", True),
        ("ubermut", False),
        ("tool_call", True),
        ("don't", True),
        ("'); drop table runs; --", False),
        ("& | ! <->", False),
    ],
)
def test_words_are_found_by_the_rules_of_the_search(open_fleet: Opener, words: str, is_found: bool) -> None:
    text = "Invoice 4711 in src/app.py, Übermut: don't use tool_call"
    with open_fleet() as index:
        index.add([entry("build-1", request=text), entry("build-2", request="nothing of the kind")])
        assert [hit.run.host for hit in index.search(words)] == (["build-1"] if is_found else [])


def test_a_search_finds_answers_findings_and_claims_of_current_rows_newest_first(open_fleet: Opener) -> None:
    with open_fleet() as index:
        index.add([entry("a", answer="tested", rules="10"), entry("a", answer="tested", rules="11")])
        index.add([entry("b", "run_001", finding("x", title="tested too little"), created_ms=BEGIN_MS + 1)])
        hits = index.search("tested")
        assert [(hit.run.host, hit.matches, [text.kind for text in hit.texts]) for hit in hits] == [
            ("b", 1, ["finding"]),
            ("a", 1, ["answer"]),
        ]
        assert hits[1].run.rule_set == "11"


def test_a_run_of_which_only_the_structure_was_pushed_has_no_texts(open_fleet: Opener) -> None:
    with open_fleet() as index:
        assert index.add([entry("a", "run_001", finding("loop"), content="structure", request="secret plan")]) == 1
        assert index.search("secret") == index.search("loop") == []
        assert dump(index)["texts"] == []


def test_texts_that_a_database_does_not_take_are_stored_without_them(open_fleet: Opener) -> None:
    with open_fleet() as index:
        index.add([entry("a", "run_001", finding("loop", title="a\x00b"), request="nul\x00l 😀 \u2028 end")])
        [hit] = index.search("end")
        assert hit.texts[0].text == "nul\ufffdl 😀 \u2028 end"


def test_a_diagnosis_of_other_evidence_is_refused(open_fleet: Opener) -> None:
    wrong = entry()
    wrong.diagnosis.evidence_digest = seal_of("other")
    with open_fleet() as index, pytest.raises(ValueError, match="other evidence"):
        index.add([wrong])


@pytest.mark.parametrize("bad", [{"events": 2**63}, {"bundle_size": 2**70}])
def test_a_number_that_no_database_takes_is_refused_and_costs_only_its_run(
    open_fleet: Opener, bad: dict[str, Any]
) -> None:
    with open_fleet() as index:
        with pytest.raises(RefusedRowsError):
            refused = entry("build-2")
            index.add([msgspec.structs.replace(refused, manifest=msgspec.structs.replace(refused.manifest, **bad))])
        assert index.add([entry("build-1")]) == 1
        assert names(index) == ["build-1/run_001"]


def test_long_names_are_cut(open_fleet: Opener) -> None:
    long = hashlib.shake_256(b"name").hexdigest(5000)
    with open_fleet() as index:
        index.add([entry(agent_id=long, benchmark_id=long, difficulty_tier=long, openclaw=long)])
        [run] = index.runs()
        assert {run.agent, run.benchmark, run.difficulty, run.openclaw_version} == {long[:300]}


def test_a_run_of_another_tenant_is_refused(open_fleet: Opener) -> None:
    with open_fleet(tenant="default") as index:
        with pytest.raises(TenantError, match="belongs to tenant 'other'"):
            index.add([entry(tenant_id="other")])
        assert index.count() == 0


def random_entries(number: int) -> list[IndexEntry]:
    chance = random.Random(number)
    return [
        entry(
            f"host-{chance.randrange(3)}",
            f"run_{place:03}",
            *[
                finding(f"cause-{chance.randrange(4)}", chance.choice(["low", "high"]))
                for _ in range(chance.randrange(3))
            ],
            trust=chance.choice([None, 10, 50, 50, 90]),
            cost_usd=chance.choice([None, 0.1, 0.5]),
            created_ms=BEGIN_MS + place * 1000,
            rules=chance.choice(["11", "11", "10"]),
        )
        for place in range(30)
    ]


def summary_of(each: IndexEntry) -> RunSummary:
    manifest = each.manifest
    name = f"{manifest.host_id}/{manifest.run_id}"
    diagnosis = msgspec.structs.replace(each.diagnosis, run_id=name)
    created = manifest.timestamps.created_at
    return RunSummary(run_id=name, created_at=created, metadata=manifest.metadata, diagnosis=diagnosis)


@pytest.mark.parametrize("number", range(3))
def test_trends_and_ranks_are_those_of_the_same_runs_in_a_folder(open_fleet: Opener, number: int) -> None:
    entries = random_entries(number)
    summaries = [summary_of(each) for each in entries]
    with open_fleet() as index:
        index.add(entries)
        ours = agent_trends(index, "openclaw_agent").trends
        assert all(point.run_id.startswith(point.host) for point in ours.runs)  # type: ignore[attr-defined]
        theirs = msgspec.to_builtins(trends_of("openclaw_agent", summaries))
        assert {**msgspec.to_builtins(ours), "runs": None} == {**theirs, "runs": None}
        assert [{**msgspec.to_builtins(point), "host": None} for point in ours.runs] == [
            {**point, "host": None} for point in theirs["runs"]
        ]
        for run in index.runs():
            ranking = rank_in_fleet(index, run)
            expected = rank_run(run.name, summaries)
            for name in Ranking.__struct_fields__:
                found = getattr(ranking, name)
                if name != "notes" and name != "judged_by_other_rules":
                    assert found == getattr(expected, name)
            assert sorted(ranking.judged_by_other_rules) == sorted(expected.judged_by_other_rules)


def test_a_filter_that_is_no_text_is_refused(open_fleet: Opener) -> None:
    with open_fleet() as index, pytest.raises(UsageError, match="not a valid text"):
        index.runs(RunQuery(session="\udcff"))
