"""`critiqor fleet export --parquet`: tables by day and host that DuckDB reads, and the queries of the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow.parquet as pq
import pytest
from fleet_runs import Fleet, failing_run, push
from support import Cli, attached, recorded

from critiqor.fleet.analytics import partitions
from critiqor.fleet.analytics.tables import SCHEMA_KEY, TABLES
from critiqor.fleet.manifest import diagnosis_path
from critiqor.run.diagnosis import diagnose
from critiqor.run.store import Run

DOCUMENT = Path(__file__).parents[2] / "docs" / "fleet.md"


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def rows(sql: str) -> list[tuple[Any, ...]]:
    return duckdb.execute(sql).fetchall()


def table(folder: Path, name: str) -> str:
    return f"read_parquet('{folder}/{name}/*/*/*.parquet', hive_partitioning = true)"


def test_sums_over_events_are_those_of_the_diagnoses(fleet: Fleet, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "analytics"
    answer = cli("fleet", "export", "--store", fleet.url, "--parquet", out, "--json")
    assert answer.code == 0
    assert {each["table"]: each["rows"] for each in answer.data["tables"]}["runs"] == 6
    sums = "sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), round(sum(cost_usd), 6)"
    by_events = rows(f"SELECT host, seal, {sums} FROM {table(out, 'events')} GROUP BY ALL ORDER BY ALL")
    by_runs = rows(f"SELECT host, seal, {sums} FROM {table(out, 'runs')} GROUP BY ALL ORDER BY ALL")
    assert by_events == by_runs
    assert sum(row[2] for row in by_events) == sum(100 + number for number in (0, 1, 2)) * 2
    events = rows(f"SELECT count(*), count(DISTINCT (seal, event_id)) FROM {table(out, 'events')}")
    assert events == [(sum(each.events for each in fleet.manifests),) * 2]


def test_rows_say_what_runs_findings_and_claims_are(fleet: Fleet, tmp_path: Path, cli: Cli) -> None:
    manifest = fleet.manifests[0]
    run = fleet.runs[manifest.seal]
    made = diagnose(run)
    assert fleet.store.create(diagnosis_path(manifest.seal, made.rule_set_version), run.diagnosis_path.read_bytes())
    out = tmp_path / "analytics"
    assert cli("fleet", "export", "--store", fleet.url, "--parquet", out).code == 0
    found = rows(f"SELECT rule_set, trust, agent_id, verdict FROM {table(out, 'runs')} WHERE seal = '{manifest.seal}'")
    assert found == [(made.rule_set_version, made.trust_score, "agent-0", made.readiness)]
    assert rows(f"SELECT DISTINCT type FROM {table(out, 'findings')} WHERE rule_set = '3'") == [("old_failure",)]
    assert rows(f"SELECT DISTINCT kind, status FROM {table(out, 'claims')}") == [("check", "contradicted")]
    tool = rows(f"SELECT DISTINCT tool, status FROM {table(out, 'events')} WHERE type = 'tool_output'")
    assert tool == [("exec", "error")]


def test_content_is_written_only_if_it_is_asked_for(fleet: Fleet, tmp_path: Path, cli: Cli) -> None:
    plain, full = tmp_path / "plain", tmp_path / "full"
    assert cli("fleet", "export", "--store", fleet.url, "--parquet", plain).code == 0
    assert cli("fleet", "export", "--store", fleet.url, "--parquet", full, "--content").code == 0
    for file in plain.rglob("*.parquet"):
        assert "All tests pass" not in str(pq.ParquetFile(file).read().to_pylist())
    assert rows(f"SELECT DISTINCT text FROM {table(full, 'claims')}") == [("All tests pass.",)]
    assert rows(f"SELECT count(*) FROM {table(full, 'events')} WHERE payload LIKE '%pytest part_1%'")[0][0] > 0


def test_every_file_names_its_schema_and_has_the_documented_columns(fleet: Fleet, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "analytics"
    assert cli("fleet", "export", "--store", fleet.url, "--parquet", out, "--content").code == 0
    document = DOCUMENT.read_text("utf-8")
    for described in TABLES:
        [_, _, part] = document.partition(f"#### `{described.name}`")
        documented = re.findall(r"^\| `(\w+)` \| (\w+) \|", part.partition("####")[0], re.MULTILINE)
        assert documented == [(column.name, column.type) for column in described.columns], described.name
        for file in (out / described.name).rglob("*.parquet"):
            schema = pq.ParquetFile(file).schema_arrow
            assert schema.metadata[SCHEMA_KEY] == f"critiqor.fleet.{described.name}.v1".encode()
            assert schema.names == [column.name for column in described.columns]


def test_the_queries_of_the_documentation_give_rows(
    fleet: Fleet, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("fleet", "export", "--store", fleet.url, "--parquet", "analytics").code == 0
    queries = re.findall(r"^```sql\n(.*?)^```", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    queries = [query for query in queries if "analytics/" in query]
    assert len(queries) == 3
    for query in queries:
        assert rows(query), query


def test_events_are_in_the_folder_of_their_own_day(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(tmp_path, hosts=())
    run = failing_run(fleet.runs_of("build-1"))
    manifest = push(fleet.store, run, "build-1")
    early = msgspec.structs.replace(manifest.timestamps, created_at="2026-01-31T12:00:00.000Z")
    changed = msgspec.structs.replace(manifest, timestamps=early)
    (tmp_path / "store" / manifest.manifest_path).write_bytes(msgspec.json.encode(changed))
    monkeypatch.setattr(partitions, "GROUP_ROWS", 3)
    out = tmp_path / "analytics"
    assert cli("fleet", "export", "--store", fleet.url, "--parquet", out).code == 0
    assert [each.name for each in (out / "runs").iterdir()] == ["day=2026-01-31"]
    today = manifest.timestamps.created_at[:10]
    assert [each.name for each in (out / "events").iterdir()] == [f"day={today}"]
    [file] = (out / "events").rglob("*.parquet")
    assert pq.ParquetFile(file).num_row_groups > 1


def test_a_damaged_run_is_named_and_the_others_are_exported(fleet: Fleet, tmp_path: Path, cli: Cli) -> None:
    fleet.bundle_file(fleet.manifests[2]).write_bytes(b"no archive")
    out = tmp_path / "analytics"
    answer = cli("fleet", "export", "--store", fleet.url, "--parquet", out)
    assert answer.code == 1
    assert f"not exported: build-1/{fleet.manifests[2].run_id}: " in answer.out
    assert rows(f"SELECT count(*) FROM {table(out, 'runs')}") == [(5,)]


def test_a_number_that_no_column_can_hold_costs_only_its_run(tmp_path: Path, cli: Cli) -> None:
    fleet = Fleet(tmp_path, hosts=("build-1",), runs_per_host=1)
    runs = fleet.runs_of("build-2")
    run_id = runs.start()
    huge = b'{"event_id":"evt_000000001_w_00002","event_type":"agent_end","duration_ms":1' + b"0" * 400 + b"}\n"
    runs.write(run_id, attached(), huge, recorded(3))
    runs.finalize(run_id)
    fleet.add(Run.load(run_id, runs.folder), "build-2")
    out = tmp_path / "analytics"
    answer = cli("fleet", "export", "--store", fleet.url, "--parquet", out, "--json")
    assert answer.data["runs"] + answer.data["failed"] == 2
    assert rows(f"SELECT count(*) FROM {table(out, 'runs')} WHERE host = 'build-1'") == [(1,)]


def test_runs_without_content_are_exported_as_what_is_left_of_them(tmp_path: Path, cli: Cli) -> None:
    fleet = Fleet(tmp_path, hosts=())
    manifest = push(fleet.store, failing_run(fleet.runs_of("build-1")), "build-1", content="structure")
    out = tmp_path / "analytics"
    assert cli("fleet", "export", "--store", fleet.url, "--parquet", out, "--content").code == 0
    assert rows(f"SELECT count(*) FROM {table(out, 'events')}") == [(manifest.events,)]
    assert not rows(f"SELECT 1 FROM {table(out, 'events')} WHERE payload LIKE '%All tests pass%'")


def test_only_selected_runs_are_exported_into_a_new_folder(fleet: Fleet, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "deep" / "analytics"
    where = 'run.agent_id == "agent-1"'
    assert cli("fleet", "export", "--store", fleet.url, "--parquet", out, "--where", where).code == 0
    assert rows(f"SELECT count(*) FROM {table(out, 'runs')}") == [(2,)]
    answer = cli("fleet", "export", "--store", fleet.url, "--parquet", out)
    assert answer.code == 2
    assert "exists and is not an empty folder" in answer.err
    assert [each.name for each in out.parent.iterdir()] == ["analytics"]
