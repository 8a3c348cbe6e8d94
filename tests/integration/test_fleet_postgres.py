"""The index of the fleet in a real PostgreSQL: the cases of every index, tenants, many writers, and restarts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from fleet_entries import entry, finding
from fleet_index_cases import *  # noqa: F403
from fleet_index_cases import Opener, dump, several
from object_stores import seal_small_run
from postgres import Database, Server, postgres_server
from support import PATIENCE_SECONDS, Cli, Runs

from critiqor.errors import ExitCode, UsageError
from critiqor.fleet.errors import FleetError, FleetUnavailableError
from critiqor.fleet.index.base import TABLES, NewerIndexError, TenantError
from critiqor.fleet.index.fleet_index import FleetIndex
from critiqor.fleet.index.opening import open_index
from critiqor.fleet.index.rebuild import reindex
from critiqor.fleet.index.tenants import add_tenant, list_tenants, remove_role
from critiqor.fleet.settings import FleetSettings
from critiqor.fleet.store.object_store import open_store
from critiqor.fleet.store.storing import store_run

TESTS = Path(__file__).parents[1]
EVERY_TABLE = (*TABLES, "sealed_runs")
WRITER = """
import sys; sys.path.insert(0, sys.argv[1])
from fleet_entries import entry
from critiqor.fleet.index.opening import open_index
with open_index(sys.argv[2]) as index:
    for number in range(30):
        shared = [entry("shared", f"run_{each:03}", rules=sys.argv[4]) for each in range(number, number + 5)]
        index.add([*shared, entry(sys.argv[3], f"run_{number:03}")])
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres_server() as running:
        yield running


@pytest.fixture
def database(server: Server) -> Database:
    return server.database()


@pytest.fixture
def open_fleet(database: Database) -> Opener:
    def opened(tenant: str | None = None) -> FleetIndex:
        return open_index(role_of(database), tenant)

    return opened


def role_of(database: Database, tenant: str = "default") -> str:
    """The address of a database for the role of a tenant, which is made if there is none."""
    role = f"{database.name}_{tenant}"
    add_tenant(database.owner_url, tenant, role)
    return database.url(role)


@pytest.fixture(scope="module")
def of_two_tenants(server: Server) -> Database:
    """A database with runs of the tenants `a` and `b`, which tests only read."""
    return with_two_tenants(server.database())


def with_two_tenants(database: Database) -> Database:
    for tenant in ("a", "b"):
        entries = [entry(f"host-{tenant}", "run_001", finding("loop"), tenant_id=tenant)]
        with open_index(role_of(database, tenant)) as index:
            assert index.add(entries) == 1
    return database


def tenants_seen(url: str, before: str = "SELECT 1") -> dict[str, set[str]]:
    """The tenants whose rows a role sees in each table, straight in SQL."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(before)
        return {
            table: {tenant for [tenant] in connection.execute(f"SELECT tenant FROM critiqor.{table}").fetchall()}
            for table in EVERY_TABLE
        }


def test_a_tenant_sees_no_row_of_another_straight_in_sql(of_two_tenants: Database) -> None:
    empty = {"sessions", "claims", "tags"}
    for tenant in ("a", "b"):
        seen = tenants_seen(role_of(of_two_tenants, tenant))
        assert seen == {table: set() if table in empty else {tenant} for table in EVERY_TABLE}


def test_the_owner_and_a_role_without_a_tenant_see_no_row(of_two_tenants: Database, server: Server) -> None:
    nothing: dict[str, set[str]] = {table: set() for table in EVERY_TABLE}
    assert tenants_seen(of_two_tenants.owner_url) == nothing
    stranger = f"{of_two_tenants.name}_stranger"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {stranger} LOGIN")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        tenants_seen(of_two_tenants.url(stranger))
    with psycopg.connect(of_two_tenants.owner_url, autocommit=True) as connection:
        connection.execute(f"GRANT USAGE ON SCHEMA critiqor TO {stranger}")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA critiqor TO {stranger}")
    assert tenants_seen(of_two_tenants.url(stranger)) == nothing


@pytest.mark.parametrize(
    "setting",
    [
        "SET critiqor.tenant = 'a'",
        "SET critiqor.words = '!''zz'''",
        "SET search_path = pg_temp, critiqor",
        "SELECT set_config('role', 'none', false)",
    ],
)
def test_no_setting_shows_the_rows_of_another_tenant(of_two_tenants: Database, setting: str) -> None:
    seen = tenants_seen(role_of(of_two_tenants, "b"), setting)
    assert set().union(*seen.values()) == {"b"}


@pytest.mark.parametrize(
    "statement",
    [
        "SET ROLE {name}_a",
        "SET SESSION AUTHORIZATION {name}_a",
        "UPDATE critiqor.tenant_roles SET tenant = 'a'",
        "INSERT INTO critiqor.tenant_roles VALUES ('{name}_b2', 'a')",
        "DELETE FROM critiqor.tenant_roles",
        "DELETE FROM critiqor.runs",
        "TRUNCATE critiqor.runs",
        "UPDATE critiqor.runs SET tenant = 'a'",
        "UPDATE critiqor.runs SET trust = 100",
        "UPDATE critiqor.sealed_runs SET tenant = 'a'",
        "INSERT INTO critiqor.tags VALUES ('a', '00000000-0000-0000-0000-000000000000', 0, 'mine')",
        "ALTER TABLE critiqor.runs DISABLE ROW LEVEL SECURITY",
        "DROP POLICY of_tenant ON critiqor.runs",
        "CREATE POLICY mine ON critiqor.runs USING (true)",
        "CREATE TABLE critiqor.mine (x int)",
        "INSERT INTO critiqor.migrations VALUES (99)",
        "SET row_security = off; SELECT * FROM critiqor.runs",
    ],
)
def test_a_tenant_can_neither_write_rows_of_another_nor_change_who_it_is(
    of_two_tenants: Database, statement: str
) -> None:
    refused = (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidParameterValue)
    with psycopg.connect(role_of(of_two_tenants, "b"), autocommit=True) as connection, pytest.raises(refused):
        connection.execute(statement.format(name=of_two_tenants.name))


def test_every_table_forces_row_level_security(of_two_tenants: Database) -> None:
    with psycopg.connect(of_two_tenants.owner_url) as connection:
        found = connection.execute(
            "SELECT relname, relrowsecurity AND relforcerowsecurity FROM pg_class "
            "WHERE relnamespace = 'critiqor'::regnamespace AND relkind = 'r'"
        ).fetchall()
    assert set(found) == {(table, True) for table in (*EVERY_TABLE, "tenant_roles", "migrations")}


def test_a_tenant_cannot_take_the_place_of_a_run_of_another(database: Database) -> None:
    of_two_tenants = with_two_tenants(database)
    later = entry("host-a", "run_002", tenant_id="a")
    with psycopg.connect(role_of(of_two_tenants, "b"), autocommit=True) as connection:
        columns = "key, rule_order, current"
        connection.execute(
            f"INSERT INTO critiqor.sealed_runs (tenant, {columns}) VALUES ('b', %s, '99999', %s)",
            [later.sealed_key, later.key],
        )
    with open_index(role_of(of_two_tenants, "a")) as index:
        assert index.add([later]) == 1
        assert index.count() == 2


def test_a_search_uses_the_index_of_words_below_row_level_security(database: Database) -> None:
    with open_index(role_of(database)) as index:
        index.add(entry("host", f"run_{number}", request=f"task{number}", answer="done") for number in range(1000))
    with psycopg.connect(database.owner_url) as connection:
        connection.execute("ANALYZE critiqor.texts")
    with psycopg.connect(role_of(database)) as connection:
        connection.execute("SET critiqor.words = 'task77'")
        plan = connection.execute("EXPLAIN SELECT text FROM critiqor.texts").fetchall()
        assert "texts_by_word" in str(plan)
        assert connection.execute("SELECT text FROM critiqor.texts").fetchall() == [("task77",)]


def test_a_superuser_is_warned_and_finds_the_runs_of_every_tenant(of_two_tenants: Database) -> None:
    with open_index(of_two_tenants.url("postgres")) as index:
        assert "bypasses row-level security" in index.notes[0]
        assert {hit.run.tenant for hit in index.search("deploy")} == {"a", "b"}
        assert index.search("nowhere") == []
    with open_index(of_two_tenants.url("postgres"), "a") as index:
        assert [run.tenant for run in index.runs()] == ["a"]


def test_roles_that_must_not_be_that_of_a_tenant_are_refused(database: Database) -> None:
    with_two_tenants(database)
    with pytest.raises(UsageError, match="see the rows of every tenant"):
        add_tenant(database.owner_url, "a", "postgres")
    with pytest.raises(UsageError, match="belongs to tenant 'a'"):
        add_tenant(database.owner_url, "b", f"{database.name}_a")
    with pytest.raises(FleetError, match="may not administer"):
        add_tenant(database.url(f"{database.name}_a"), "b", f"{database.name}_c")
    with pytest.raises(TenantError, match="belongs to tenant 'a', not to 'b'"):
        open_index(database.url(f"{database.name}_a"), "b")
    with pytest.raises(TenantError, match="belongs to no tenant"):
        open_index(database.owner_url)
    assert [each.tenant for each in list_tenants(database.owner_url)] == ["a", "b"]
    assert remove_role(database.owner_url, f"{database.name}_a")
    with pytest.raises(TenantError, match="belongs to no tenant"):
        open_index(database.url(f"{database.name}_a"))


def test_a_new_role_gets_an_address_with_a_password(database: Database) -> None:
    made = add_tenant(database.owner_url, "team a", f"{database.name}-ü")
    assert made.url is not None
    with open_index(made.url) as index:
        assert index.tenant == "team a"
        assert made.url.split(":")[2].split("@")[0] not in index.address
    assert add_tenant(database.owner_url, "team a", f"{database.name}-ü").url is None


def test_hosts_that_start_at_once_make_the_tables_once(database: Database, server: Server) -> None:
    code = "import sys; from critiqor.fleet.index.opening import open_index; open_index(sys.argv[1]).close()"
    url = database.url("postgres")
    hosts = [subprocess.Popen([sys.executable, "-c", code, url]) for _ in range(4)]
    assert [host.wait() for host in hosts] == [0] * 4
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT version FROM critiqor.migrations").fetchall() == [(1,)]


def test_a_role_that_may_not_make_tables_is_told_who_does(database: Database, server: Server) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {database.name}_host LOGIN")
    with pytest.raises(FleetError, match="has no tables yet") as caught:
        open_index(database.url(f"{database.name}_host"))
    assert "critiqor fleet tenants add" in (caught.value.fix or "")


def test_tables_of_a_newer_version_are_not_touched(database: Database) -> None:
    url = role_of(database)
    with psycopg.connect(database.owner_url) as connection:
        connection.execute("INSERT INTO critiqor.migrations VALUES (99)")
    with pytest.raises(NewerIndexError, match="version 99"):
        open_index(url)


def test_processes_that_write_the_same_runs_at_once_add_each_of_them_once(
    database: Database, open_fleet: Opener
) -> None:
    url = role_of(database)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(TESTS), url, f"host-{each}", str(10 + each % 2)])
        for each in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0] * 4
    with open_fleet() as index:
        assert {each.name: each.runs for each in index.hosts()} == {"shared": 34, **{f"host-{n}": 30 for n in range(4)}}
        assert {run.rule_set for run in index.runs(RunQuery(host="shared"))} == {"11"}  # noqa: F405
        assert len(dump(index)["runs"]) == 2 * 34 + 4 * 30


def test_a_writer_that_is_killed_leaves_whole_entries(database: Database, open_fleet: Opener) -> None:
    url = role_of(database)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(TESTS), url, "host-1", "11"])
    with open_fleet() as index:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while index.count() < 8 and time.monotonic() < deadline:
            time.sleep(0.01)
        writer.kill()
        writer.wait()
        found = dump(index)
        whole = {row[0] for row in found["runs"]}
        assert whole
        for table in ("costs", "texts"):
            assert {row[1] for row in found[table]} == whole
    assert subprocess.run([sys.executable, "-c", WRITER, str(TESTS), url, "host-1", "11"]).returncode == 0
    with open_fleet() as index:
        assert index.count() == 34 + 30


def test_an_index_that_was_killed_and_started_again_is_used_again(database: Database, server: Server) -> None:
    with open_index(role_of(database)) as index:
        assert index.add(several()) == 4
        before = dump(index)
        running = psutil.Process(server.pid)
        # Its children notice that it is gone and end.
        children = running.children(recursive=True)
        os.kill(server.pid, signal.SIGKILL)
        psutil.wait_procs([running, *children], timeout=PATIENCE_SECONDS)
        with pytest.raises(FleetUnavailableError, match=r"the index postgresql://.* is away"):
            index.runs()
        server.start()
        assert dump(index) == before
        assert index.add([entry("later")]) == 1


def test_an_index_that_is_away_is_reported_without_its_password(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path.cwd() / "config" / "critiqor"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent))
    (folder / "config.toml").write_text('[fleet]\nindex = "postgresql://hosts:hunter2@127.0.0.1:1/critiqor"\n')
    for command in (["runs"], ["trends"], ["search", "word"], ["benchmark", "host/run_001"]):
        result = cli(*command, "--fleet")
        assert result.code == ExitCode.ERROR
        assert "the index postgresql://hosts@127.0.0.1:1/critiqor is away" in result.err
        assert "critiqor fleet reindex" in result.err
        assert "hunter2" not in result.err


def test_a_rebuild_from_the_store_gives_the_same_rows(
    database: Database, server: Server, runs: Runs, tmp_path: Path
) -> None:
    store, settings = open_store(f"file://{tmp_path}/store"), FleetSettings(host="build-7")
    for _ in range(3):
        store_run(seal_small_run(runs), store, settings)
    with open_index(role_of(database)) as index:
        assert reindex(store, index).added == 3
        first = dump(index)
        assert [run.host for run in index.runs()] == ["build-7"] * 3
        assert {text.kind for hit in index.search("tests") for text in hit.texts} >= {"request", "answer"}
        again = reindex(store, index)
        assert (again.runs, again.added, again.problems) == (3, 0, [])
        assert dump(index) == first
    other = server.database()
    with open_index(role_of(other)) as index:
        assert reindex(store, index).added == 3
        assert dump(index) == first
