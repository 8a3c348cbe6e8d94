"""8 machines push 2,000 runs at once to a store that fails every tenth request; two are killed and started again.

    python benchmarks/fleet_push.py [--runs 2000] [--hosts 8] [--rate 0.1] [--json]

Each machine is a process with settings, a runs folder and an outbox of its own. Their store is an S3 endpoint on
loopback behind a proxy that answers with errors and breaks connections, before or after a request was carried out;
their index is a PostgreSQL. While they push, two of them are killed with -9 and started again. Afterwards all of them
push once more, by name, and everything is compared: sealed runs on the machines, manifests and bundles in the store,
rows of the index. An object is overwritten if its content or its time is another one than when it was listed before.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import verb

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from object_stores import BUCKET, environment_of, failing_proxy, s3_server, seal_small_run
from postgres import postgres_server
from support import Runs

from critiqor.fleet.index.opening import open_index
from critiqor.fleet.index.postgres.tenants import add_tenant
from critiqor.fleet.index.query import RunQuery
from critiqor.run.store import RunStore

URL = f"s3://{BUCKET}/team"
KILLED = 2
MAX_ROUNDS = 20


class Key(NamedTuple):
    """A sealed run of the fleet."""

    host: str
    run: str
    seal: str


class Machine:
    """A machine of the fleet."""

    def __init__(self, folder: Path, number: int, port: int, index: str) -> None:
        self.name, self.home = f"host-{number}", folder / f"host-{number}"
        self.runs_dir = self.home / "runs"
        settings = self.home / "config" / "critiqor" / "config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(
            f'[fleet]\nstore = "{URL}"\nindex = "{index}"\npush = "private"\nhost = "{self.name}"\n', "utf-8"
        )
        self._environment = {**os.environ, **environment_of(port), "XDG_CONFIG_HOME": str(self.home / "config")}

    def seal(self, number: int) -> subprocess.Popen[bytes]:
        """Record and seal runs, in a process of its own."""
        return subprocess.Popen([sys.executable, __file__, "--seal", str(self.runs_dir), str(number)])

    def push(self, *runs: str) -> subprocess.Popen[bytes]:
        """Push what is not stored yet, or these runs."""
        command = [verb.CRITIQOR, "push", "--runs-dir", str(self.runs_dir), *runs]
        out = subprocess.DEVNULL
        return subprocess.Popen(command, env=self._environment, stdout=out, stderr=out)

    def sealed(self) -> list[Key]:
        """Return the sealed runs of its folder."""
        heads = (run.head() for run in RunStore(self.runs_dir).runs())
        return [Key(self.name, head.run_id, head.seal.digest) for head in heads if head.seal is not None]


def listed_objects(prefix: str = "") -> dict[str, tuple[str | None, str]]:
    """Return the content and the time of every object of the store, past the proxy."""
    from obstore.store import from_url

    store = from_url(URL, client_options={"allow_http": True})
    return {
        each["path"]: (each["e_tag"], each["last_modified"].isoformat())
        for chunk in store.list(prefix)
        for each in chunk
        if not each["path"].startswith("uploads/")
    }


def push_all(machines: list[Machine], rounds: int) -> tuple[int, int, dict[str, tuple[str | None, str]]]:
    """Push until every machine has stored and indexed everything.

    Return how often a machine was killed and how often one had to push again, and what was in the store at the kills.
    """
    chance = random.Random(11)
    victims = dict.fromkeys(chance.sample(range(len(machines)), min(KILLED, len(machines))), 0)
    processes = {number: machine.push() for number, machine in enumerate(machines)}
    killed = again = 0
    seen: dict[str, tuple[str | None, str]] = {}
    while processes:
        for number, process in list(processes.items()):
            if victims.get(number, 1) == 0 and len(listed_objects(f"manifests/{machines[number].name}")) >= 5:
                process.kill()
                process.wait()
                victims[number] = killed = killed + 1
                seen |= listed_objects()
                processes[number] = machines[number].push()
            elif process.poll() is not None:
                if process.returncode:
                    again += 1
                    assert again <= rounds, f"{machines[number].name} cannot push"
                    processes[number] = machines[number].push()
                else:
                    del processes[number]
        time.sleep(0.2)
    return killed, again, seen


def verified_runs(port: int) -> tuple[int, int]:
    """Verify the store. Return how many runs are intact, and how many are not."""
    environment = {**os.environ, **environment_of(port)}
    command = [verb.CRITIQOR, "verify", "--store", URL, "--json"]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.stdout, done.stderr
    data = json.loads(done.stdout)["data"]
    broken = data["broken"] + len(data["problems"]) + len(data["incomplete"])
    return data["verified"] - data["broken"], broken


def stored_keys() -> list[Key]:
    from critiqor.fleet.store.object_store import open_store

    return [Key(each.host_id, each.run_id, each.seal) for each in open_store(URL).manifests()]


def indexed_keys(url: str) -> list[Key]:
    with open_index(url) as index:
        return [Key(run.host, run.run, run.seal) for run in index.runs(RunQuery(limit=1_000_000))]


def measure(runs: int, hosts: int, rate: float, folder: Path) -> dict[str, float | int]:
    with postgres_server() as database_server, s3_server() as direct, failing_proxy(direct, rate) as port:
        os.environ.update(environment_of(direct))
        index = add_tenant(database_server.database().owner_url, "default", "fleet_push").url
        assert index is not None
        machines = [Machine(folder, number, port, index) for number in range(hosts)]
        for process in [machine.seal(runs // hosts) for machine in machines]:
            process.wait()
        sealed = [key for machine in machines for key in machine.sealed()]
        began = time.perf_counter()
        killed, again, seen = push_all(machines, MAX_ROUNDS)
        seconds = time.perf_counter() - began
        seen |= {name: found for name, found in listed_objects().items() if name not in seen}
        for process in [machine.push(*(key.run for key in machine.sealed()[:20])) for machine in machines]:
            process.wait()
        now = listed_objects()
        stored, indexed = stored_keys(), indexed_keys(index)
        intact, broken = verified_runs(direct)
    names = Counter(stored)
    return {
        "hosts": hosts,
        "killed": killed,
        "pushes_repeated": again,
        "seconds": round(seconds, 1),
        "sealed_runs": len(set(sealed)),
        "manifests": sum(name.startswith("manifests/") for name in now),
        "bundles": sum(name.startswith("bundles/") for name in now),
        "in_the_index": len(set(indexed)),
        "verified": intact,
        "missing_in_the_store": len(set(sealed) - set(stored)),
        "missing_in_the_index": len(set(sealed) - set(indexed)),
        "doubled": sum(names.values()) - len(names) + len(indexed) - len(set(indexed)),
        "unknown": len(set(stored) - set(sealed)) + len(set(indexed) - set(sealed)),
        "overwritten": sum(now.get(name) != found for name, found in seen.items()),
        "broken_or_incomplete": broken,
    }


def main() -> None:
    if sys.argv[1:2] == ["--seal"]:
        runs = Runs(Path(sys.argv[2]))
        for number in range(int(sys.argv[3])):
            seal_small_run(runs, f"Done: all tests of part {number} pass.")
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = measure(options.runs, options.hosts, options.rate, Path(folder))
    if options.json:
        print(json.dumps(report))
        return
    print(
        f"{report['hosts']} hosts, {report['killed']} killed on the way, {options.rate:.0%} of requests failing: "
        f"{report['sealed_runs']} runs pushed in {report['seconds']} s"
    )
    for key in ("manifests", "bundles", "in_the_index", "verified"):
        print(f"{key.replace('_', ' ')}: {report[key]} ({report['sealed_runs']})")
    for key in list(report)[9:]:
        print(f"{key.replace('_', ' ')}: {report[key]} (0)")


if __name__ == "__main__":
    main()
