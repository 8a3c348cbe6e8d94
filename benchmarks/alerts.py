"""Alerts to a webhook that is down, slow or fails, sent by processes that are killed: which of them arrive.

    python benchmarks/alerts.py [--alerts N] [--kills N]

A receiver answers some requests with 500, some late, and closes some connections; now and then nobody listens. Senders
announce alerts and are killed with SIGKILL after a random time; the next one goes on with the outbox. In the end, one
sender may finish. Each alert must have been accepted at least once, always with the same idempotency key.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from alerting import alert, closed_address, keys_received, notifier, webhook  # noqa: E402
from collectors import Collector, answering, collector  # noqa: E402

LAST_SECONDS = 60.0
SENDER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from alerting import alert, notifier, webhook
sender = notifier(Path(sys.argv[2]), webhook(sys.argv[3], max_per_hour=3600))
for number in range(int(sys.argv[4]), int(sys.argv[5])):
    sender.announce([alert(number)])
    print(number, flush=True)
sender.deliver(60.0, at_once=True)
"""


class Unreliable:
    """Answers as a receiver in trouble does, and remembers which keys it has accepted."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.accepted: Counter[str] = Counter()
        self.is_well = False

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        fate = 1.0 if self.is_well else self._random.random()
        if fate < 0.3:
            answering(500)(handler)
        elif fate < 0.4:
            handler.connection.close()
        else:
            if fate < 0.6:
                time.sleep(0.5)
            self.accepted[str(handler.headers["webhook-id"])] += 1
            answering(200)(handler)


def send(folder: Path, url: str, first: int, last: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", SENDER, str(TESTS), str(folder), url, str(first), str(last)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def announced_by(sender: subprocess.Popen[bytes], seconds: float) -> int:
    """Let a sender work for a while, and kill it. Return how many alerts it has announced."""
    assert sender.stdout is not None
    sender.stdout.readline()
    time.sleep(seconds)
    sender.send_signal(signal.SIGKILL)
    return 1 + len(sender.stdout.read().split())


def troubled(receiver: Collector, folder: Path, alerts: int, kills: int, chance: random.Random) -> tuple[int, int]:
    """Send alerts by processes that are killed. Return how many were announced, and how many processes were killed."""
    announced, each = 0, max(1, alerts // kills)
    for _ in range(kills):
        url = closed_address() if chance.random() < 0.2 else receiver.url
        with send(folder, url, announced, announced + each) as sender:
            announced += announced_by(sender, chance.random() * 2)
    return announced, kills


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--alerts", type=int, default=60)
    parser.add_argument("--kills", type=int, default=12)
    options = parser.parse_args()
    answer = Unreliable(1)
    with tempfile.TemporaryDirectory() as name, collector(answer) as receiver:
        folder = Path(name)
        announced, kills = troubled(receiver, folder, options.alerts, options.kills, random.Random(2))
        before = sum(answer.accepted.values())
        answer.is_well = True
        notifier(folder, webhook(receiver.url, max_per_hour=3600)).deliver(LAST_SECONDS, at_once=True)
        sent = keys_received(receiver)  # checks that headers and bodies have the same key
    keys = [alert(number).idempotency_key for number in range(announced + options.alerts)]
    missing = set(keys[:announced]) - set(answer.accepted)
    foreign = set(sent) - set(keys)
    print(
        f"{announced} alerts, {kills} senders killed, {len(receiver.requests)} requests, {before} accepted before the "
        f"receiver was well: {len(missing)} never accepted (at most 0), {len(foreign)} keys of no alert (at most 0), "
        f"{sum(count > 1 for count in answer.accepted.values())} accepted more than once"
    )


if __name__ == "__main__":
    main()
