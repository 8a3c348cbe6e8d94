"""The index of a large fleet in PostgreSQL: inserts per second, time of queries at the server, size.

    python benchmarks/fleet_index.py [--runs 100000] [--json]

A server of its own is started with the settings that PostgreSQL has by default. Runs are added and queries made by the
functions that the verbs use, with the role of a tenant, so that row-level security is a part of what is measured. The
time at the server is that of planning and execution, as EXPLAIN ANALYZE reports it, for all statements of a function.
On a machine that is busy with other work it is longer than that, so the processor time of the server is printed, too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import msgspec
import psutil
import psycopg
from diagnosed import finding
from fleet_entries import BEGIN_MS, DAY_MS, entry
from postgres import Server, postgres_server

from critiqor.fleet.index.base import TABLES, Transaction
from critiqor.fleet.index.entry import IndexEntry
from critiqor.fleet.index.fleet_index import FleetIndex
from critiqor.fleet.index.postgres.database import PostgresBase
from critiqor.fleet.index.postgres.tenants import add_tenant
from critiqor.fleet.index.query import RunQuery
from critiqor.fleet.views.agent_trends import agent_trends
from critiqor.model.diagnosis import Claim, SessionDiagnosis

RUNS, ROUNDS, MAX_ROUNDS = 100_000, 5, 50
HOSTS, AGENTS, DAYS, TYPES = 200, 40, 90, 30
GOALS = {"inserts_per_second": 500, "slowest_ms": 200}
WORDS = [
    f"{start}{end}"
    for start in ("in", "re", "de", "pro", "con", "sub", "mis", "over")
    for end in (
        "voice",
        "port",
        "ploy",
        "cess",
        "tain",
        "mit",
        "take",
        "look",
        "order",
        "form",
        "duct",
        "sult",
        "quest",
        "fund",
    )
]
"""Words of requests and answers; the first ones are the most frequent."""


class Explained:
    """A database that also adds up the time that its queries take at the server."""

    def __init__(self, base: PostgresBase) -> None:
        self._base = base
        self.milliseconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)

    def query(self, sql: str, parameters: Sequence[Any] = (), *, words: str | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query, after measuring it."""
        explained = self._base.query(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}", parameters, words=words)
        [plan] = explained[0][0]
        self.milliseconds += plan["Planning Time"] + plan["Execution Time"]
        return self._base.query(sql, parameters, words=words)

    def write(self, work: Callable[[Transaction], Any]) -> Any:
        """Write as the database does."""
        return self._base.write(work)


def synthetic(runs: int) -> Iterator[IndexEntry]:
    """Yield runs of many hosts and agents, with texts, sessions, findings and claims."""
    chance = random.Random(22)
    weights = [1 / (place + 1) for place in range(len(WORDS))]
    words = itertools.chain.from_iterable(iter(lambda: chance.choices(WORDS, weights, k=10_000), None))

    def text(number: int) -> str:
        return " ".join(itertools.islice(words, number))

    for number in range(runs):
        verdict = chance.choices(["ready", "review", "unsafe", "unknown"], [70, 20, 8, 2])[0]
        kinds = [min(int(chance.expovariate(0.2)), TYPES - 1) for _ in range(chance.randrange(4))]
        made = entry(
            f"host-{number % HOSTS:03}",
            f"run_{number // HOSTS:05}",
            *(
                finding(f"type_{kind:02}:exec", title=f"{text(6)} in step {kind}", id=f"finding_{kind}")
                for kind in kinds
            ),
            verdict=verdict,  # type: ignore[arg-type]
            trust=chance.randrange(101) if verdict != "unknown" else None,
            request=f"{text(30)} ticket_{number}",
            answer=f"{text(90)} in src/module_{number % 5000}.py",
            cost_usd=round(chance.expovariate(4), 4),
            model=chance.choice(["claude", "gpt", "gemini"]),
            created_ms=BEGIN_MS + number * DAYS * DAY_MS // runs,
            agent_id=f"agent-{min(int(chance.expovariate(0.15)), AGENTS - 1):02}",
            openclaw=f"2026.{11 + number * 4 // runs}.0",
        )
        made.diagnosis.sessions = [
            SessionDiagnosis(
                session_key=f"agent:main:{chance.randrange(5000)}", agent_runs=[], trust_score=90, readiness="ready"
            )
            for _ in range(chance.choice([1, 1, 1, 2, 3]))
        ]
        made.diagnosis.claims = [
            Claim(
                id=f"claim_{place}",
                event_id="evt_9",
                start=0,
                end=10,
                text=text(12),
                kind="action",
                status="supported",
                reason="recorded",
            )
            for place in range(chance.randrange(5))
        ]
        yield msgspec.structs.replace(made, tags=("nightly",) if number % 50 == 0 else ())


def queries(index: FleetIndex, runs: int) -> dict[str, Callable[[], object]]:
    """What verbs and pages ask for."""
    month = BEGIN_MS + (DAYS - 30) * DAY_MS
    some = index.runs(RunQuery(limit=1))[0]
    return {
        "list, newest first": lambda: index.runs(RunQuery(limit=1001)),
        "list by trust": lambda: index.runs(RunQuery(sort="trust", limit=1001)),
        "list by cost": lambda: index.runs(RunQuery(sort="cost", limit=1001)),
        "list of a host": lambda: index.runs(RunQuery(host="host-007", limit=1001)),
        "list of hosts by pattern": lambda: index.runs(RunQuery(host="host-0?7", limit=1001)),
        "list of an agent": lambda: index.runs(RunQuery(agent="agent-35", limit=1001)),
        "list of unsafe runs since": lambda: index.runs(RunQuery(verdicts=("unsafe",), since_ms=month, limit=1001)),
        "list by session": lambda: index.runs(RunQuery(session="main:4711", limit=1001)),
        "list by session, not found": lambda: index.runs(RunQuery(session="nowhere", limit=1001)),
        "list by tag": lambda: index.runs(RunQuery(tags=("nightly",), limit=1001)),
        "list by failure type": lambda: index.runs(RunQuery(failure_type="type_25", limit=1001)),
        "number of runs": lambda: index.count(),
        "one run by name": lambda: index.find(some.host, some.run),
        "search, one text": lambda: index.search(f"ticket_{runs // 2}"),
        "search, a path": lambda: index.search("src/module_77.py"),
        "search, frequent word": lambda: index.search(WORDS[0]),
        "search, two words": lambda: index.search(f"{WORDS[20]} {WORDS[30]}"),
        "search, prefix": lambda: index.search("ticket_77"),
        "search, frequent prefix": lambda: index.search("in"),
        "search, nothing": lambda: index.search("nothing_of_that_name"),
        "trends of an agent": lambda: agent_trends(index, "agent-00"),
        "rank of a run": lambda: index.standing(some),
        "hosts": lambda: index.hosts(),
        "agents, 30 days": lambda: index.agents(RunQuery(since_ms=month)),
        "verdicts by day": lambda: index.days(),
        "cost by day and model": lambda: index.costs_by_day(),
        "cost by day and model, 30 days": lambda: index.costs_by_day(RunQuery(since_ms=month)),
        "versions": lambda: index.versions(),
        "new failure types": lambda: index.new_failure_types(month),
    }


def measure(runs: int) -> dict[str, Any]:
    """Fill an index, and ask it."""
    with postgres_server(durable=True) as server:
        database = server.database()
        add_tenant(database.owner_url, "default", f"{database.name}_hosts")
        base = PostgresBase(database.url(f"{database.name}_hosts"))
        index = FleetIndex(base)
        seconds, busy, entries = 0.0, 0.0, synthetic(runs)
        while batch := list(itertools.islice(entries, 2000)):
            began, used = time.perf_counter(), time.process_time() + server_seconds(server)
            index.add(batch)
            seconds += time.perf_counter() - began
            busy += time.process_time() + server_seconds(server) - used
        with psycopg.connect(database.owner_url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")  # the server does it by itself after a while
            sizes = {
                table: connection.execute("SELECT pg_total_relation_size(%s)", [f"critiqor.{table}"]).fetchone()
                for table in (*TABLES, "sealed_runs")
            }
        explained = Explained(base)
        asked = queries(FleetIndex(explained), runs)
        times = {name: timed(explained, query) for name, query in asked.items()}
        cpu = {name: processor_time(server, query) for name, query in queries(index, runs).items()}
        index.close()
    per_run = {table: round(size[0] / runs) for table, size in sizes.items() if size is not None}
    return {
        "runs": runs,
        "inserts_per_second": round(runs / seconds),
        "inserts_per_processor_second": round(runs / busy),
        "slowest_ms": max(times.values()),
        "slowest_processor_ms": max(cpu.values()),
        "milliseconds": times,
        "processor_milliseconds": cpu,
        "bytes_per_run": {**per_run, "all": sum(per_run.values())},
    }


def server_seconds(server: Server) -> float:
    """Return the processor time that the server has used in its processes that are still there."""
    times = [process.cpu_times() for process in psutil.Process(server.pid).children()]
    return sum(each.user + each.system for each in times)


def processor_time(server: Server, query: Callable[[], object]) -> float:
    """Return the processor time of a query at the server in milliseconds, over many: it is counted in hundredths."""
    began, rounds = server_seconds(server), 0
    while rounds < ROUNDS or (server_seconds(server) - began < 0.2 and rounds < MAX_ROUNDS):
        query()
        rounds += 1
    return round(1000 * (server_seconds(server) - began) / rounds, 1)


def timed(base: Explained, query: Callable[[], object]) -> float:
    """Return the median time of a query at the server in milliseconds; the first time fills caches."""
    figures = []
    for _ in range(ROUNDS + 1):
        base.milliseconds = 0.0
        query()
        figures.append(base.milliseconds)
    return round(statistics.median(figures[1:]), 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.runs)
    if options.json:
        print(json.dumps(figures))
        return
    rate = figures["inserts_per_second"]
    busy = figures["inserts_per_processor_second"]
    print(f"{figures['runs']:,} runs; {rate} inserted per second  (goal: at least {GOALS['inserts_per_second']})")
    print(f"{busy} per second of processor time of writer and server together")
    for name, milliseconds in figures["milliseconds"].items():
        used = figures["processor_milliseconds"][name]
        print(f"{name:32} {milliseconds:8.1f} ms at the server {used:8.1f} ms of its processor time")
    slowest = f"{figures['slowest_ms']:8.1f} ms at the server {figures['slowest_processor_ms']:8.1f} ms"
    print(f"{'slowest':32} {slowest}  (goal: at most {GOALS['slowest_ms']})")
    for table, size in figures["bytes_per_run"].items():
        print(f"{table:32} {size:8,} bytes per run")


if __name__ == "__main__":
    main()
