"""Kill -9 of senders at random moments, with a receiver that fails: every alert arrives, with the same key.

The number of kills is `CRITIQOR_FAULTS`, at most 200; the default is for `make test`. `-s` prints counts.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from alerting import NOON_MS, SECRET, Clock, alert, notifier, webhook
from collectors import Answer, Collector, answering, collector
from standardwebhooks import Webhook
from support import Fields, Runs, attached, critiqor_command, environment, recorded, run_critiqor, start_python

from critiqor.notifications.alert import alerts_of
from critiqor.run.store import Run

KILLS = min(200, int(os.environ.get("CRITIQOR_FAULTS", "6")))
TESTS = Path(__file__).parent.parent
HOUR_MS = 3_600_000
SECONDS = 30.0
SENDER = """
import os, sys
from pathlib import Path
import httpx2  # before it is ready, so that kills hit the sending
from alerting import Clock, NOON_MS, alert, notifier, webhook

folder, url, limit, first = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
clock = Clock()
sender = notifier(folder, webhook(url, max_per_hour=limit), clock=clock)
promised = os.open(folder / "promised", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
print("ready", flush=True)
for number in range(first, first + 1000, 5):
    clock.now_ms = NOON_MS + number * 3_600_000
    sender.announce(alert(each) for each in range(number, number + 5))
    os.write(promised, "".join(f"{each}\\n" for each in range(number, number + 5)).encode())
    sender.deliver(0.2, at_once=True)
"""


def unreliable(seed: int) -> Answer:
    """Answer with success or 500, late, or not at all."""
    chance = random.Random(seed)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        fate = chance.random()
        if fate < 0.2:
            time.sleep(0.1 + fate)
        if 0.1 < fate < 0.3:
            handler.close_connection = True
            return
        with contextlib.suppress(OSError):  # the sender was killed
            answering(500 if fate > 0.8 else 200)(handler)

    return answer


def received(*receivers: Collector) -> Counter[str]:
    """How often each alert arrived; every request is signed, and its keys agree."""
    counts: Counter[str] = Counter()
    for receiver in receivers:
        for _, headers, body in receiver.requests:
            if len(body) < int(headers["content-length"]):
                continue  # the sender was killed within the request
            message = Webhook(SECRET).verify(body, headers)
            assert headers["idempotency-key"] == headers["webhook-id"] == message["idempotency_key"]
            counts.update(each["idempotency_key"] for each in message["alerts"])
    return counts


@pytest.mark.parametrize("limit", [3600, 3], ids=["one by one", "summed up"])
def test_no_alert_is_lost_when_senders_are_killed(tmp_path: Path, limit: int) -> None:
    extra = {"PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS / "unit")))}
    killed = 0
    with collector(unreliable(limit)) as receiver:
        for number in range(KILLS):
            arguments = (tmp_path, receiver.url, str(limit), str(number * 1000))
            process = start_python(SENDER, *arguments, env=environment(tmp_path, **extra))
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(random.Random(number).uniform(0, 1))
            process.kill()
            killed += process.wait() < 0
            process.stdout.close()
    promised = [int(line) for line in (tmp_path / "promised").read_text().split()]
    clock = Clock(NOON_MS + KILLS * 1000 * HOUR_MS)
    with collector() as healthy:
        sender = notifier(tmp_path, webhook(healthy.url, max_per_hour=limit), clock=clock)
        report = sender.deliver(SECONDS, at_once=True)[0]
        while report.waiting:
            clock.now_ms += HOUR_MS
            report = sender.deliver(SECONDS, at_once=True)[0]
    arrived = received(receiver, healthy)
    print(
        f"\n{killed} kills, {len(promised)} alerts promised, {len(arrived)} arrived, {arrived.total() - len(arrived)} "
        f"of them again with the same key, {len(receiver.requests)} requests to the unreliable receiver"
    )
    assert killed and (report.refused, report.damaged) == (0, 0)
    assert {alert(number).idempotency_key for number in promised} - arrived.keys() == set()
    assert arrived.keys() <= {alert(number).idempotency_key for number in range(KILLS * 1000)}


def start_failed_run(folder: Path) -> Runs:
    """A runs folder with one run that is being recorded, and whose model call failed."""
    runs = Runs(folder)
    failed: Fields = {"status": "error", "error": "HTTP 401"}
    records = (attached(), recorded(2), recorded(3, "after_provider_response", **failed))
    runs.write(runs.start(), *records, recorded(4, "agent_end", **failed))
    return runs


def test_a_killed_finalize_announces_its_findings_in_the_end(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config" / "critiqor").mkdir(parents=True)
    killed, sealed, expected = 0, 0, set()
    with collector() as receiver:
        table = f'[notify.channels.ops]\nkind = "webhook"\nurl = "{receiver.url}"\nsecret = "{SECRET}"\n'
        (home / ".config" / "critiqor" / "config.toml").write_text(table)
        finalize = ("finalize", "--no-dashboard", "--runs-dir")
        began = time.perf_counter()
        runs = start_failed_run(tmp_path / "first")
        run_critiqor(*finalize, runs.folder, home=home)
        takes = time.perf_counter() - began
        receiver.requests.clear()
        for number in range(KILLS):
            runs = start_failed_run(tmp_path / str(number))
            process = subprocess.Popen(
                critiqor_command(*finalize, runs.folder),
                env=environment(home),
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(random.Random(number).uniform(0.5 * takes, takes))
            process.kill()
            killed += process.wait() < 0
            is_sealed = runs.status("run_001") == "COMPLETED"
            sealed += is_sealed
            verb = ("runs", "--runs-dir") if is_sealed else finalize
            assert run_critiqor(*verb, runs.folder, home=home).returncode == 0
            run = Run("run_001", runs.paths)
            expected |= {each.idempotency_key for each in alerts_of(run.diagnosis, run.head())}
            assert list(runs.folder.glob(".notify/*/*/waiting/*.json")) == []
    arrived = received(receiver)
    print(
        f"\n{killed} kills of finalize, {sealed} runs were sealed by then, {len(expected)} findings, "
        f"{len(arrived)} arrived, {arrived.total() - len(arrived)} of them again with the same key"
    )
    assert expected == arrived.keys()
