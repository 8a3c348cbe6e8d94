"""Contracts and hostile policies.

    python benchmarks/contracts.py [--data DIR]

With `--data`, the contracts of examples/policies/airline.toml are tried on the traces of `tau_airline*.jsonl`, without
their labels: how many failed and how many successful runs violate one. The contracts were written from the rules of the
airline; the traces are not part of this repository. Always: the longest time in which a hostile policy of the tests is
refused, the longest evaluation of a costly expression that is allowed, and the time per event.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import msgspec

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from hostile_policies import HOSTILE  # noqa: E402
from story import Story  # noqa: E402

from critiqor.importers import read_traces  # noqa: E402
from critiqor.policy.contract import Contract  # noqa: E402
from critiqor.policy.contracts import ContractChecker  # noqa: E402
from critiqor.policy.policy_file import PolicyError, parse_policy  # noqa: E402
from critiqor.policy.trial import try_policy  # noqa: E402

AIRLINE = parse_policy((ROOT / "examples" / "policies" / "airline.toml").read_bytes(), "toml", ())
MIN_FAILED, MAX_SUCCESSFUL = 16, 3
COSTLY = (
    "call.args.a.all(x, call.args.a.all(y, x != y + 's'))",
    " && ".join(["call.args.a.exists(x, call.args.a.all(y, x != y))"] * 7),
    "call.args.a.map(x, call.args.rows) == call.args.a",
    "call.args.rows.filter(x, true) == call.args.a || call.args.rows.filter(x, size(x) > 1) == call.args.a",
    "call.args.rows.all(x, call.args.rows.filter(y, true) != call.args.a)",
    "call.args.rows.all(x, call.args.rows.all(y, size(call.args.rows) > 0))",
    "call.args.rows.all(x, call.args.rows == call.args.rows)",
    "call.args.t.matches(r'(?i)\\w{50,100}\\d')",
    "call.args.t.matches(r'(?i)([a-b1 ]{1,5}){1,20}c')",
    "call.args.a.all(x, !call.args.t.matches(r'(?i)\\w+\\s\\d+z'))",
    "call.args.a.all(x, call.args.a.all(y, !call.args.t.matches(r'\\w+\\s\\d+z')))",
    "call.args.a.all(x, call.args.a.all(y, !call.args.t.contains('zz')))",
)
"""Expressions that are allowed, and cost as much as possible."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    data: Path | None = parser.parse_args().data
    if data is not None:
        for path in sorted(data.glob("tau_airline*.jsonl")):
            _airline(path)
    _hostile()
    _costly()
    _per_event()


def _airline(path: Path) -> None:
    outcomes = {line["trace_id"]: line["outcome"] for line in _labels(path)}
    total, violated, by_contract = Counter(outcomes.values()), Counter[str](), Counter[tuple[str, str]]()
    for trace in read_traces(path):
        trial = try_policy(trace.trace_id, trace.events, AIRLINE)
        outcome = outcomes[trace.trace_id]
        violated[outcome] += bool(trial.violations)
        by_contract.update({(each.id, outcome) for each in trial.violations})
        for unknown in trial.not_evaluated:
            print(f"  not evaluated: {trace.trace_id} {unknown.id}: {unknown.problem}")
    print(f"{path.name}, {len(AIRLINE.contracts)} contracts: a violation on")
    print(f"  {violated['failure']} of {total['failure']} failed runs (at least {MIN_FAILED} of 45)")
    print(f"  {violated['success']} of {total['success']} successful runs (at most {MAX_SUCCESSFUL} of 32)")
    for name in dict.fromkeys(name for name, _ in sorted(by_contract)):
        print(f"    {name}: {by_contract[name, 'failure']} failed, {by_contract[name, 'success']} successful")


def _labels(path: Path) -> list[dict[str, str]]:
    return [json.loads(line)["labels"] for line in path.read_text().splitlines() if line.strip()]


def _hostile() -> None:
    slowest = (0.0, "")
    for policy in HOSTILE:
        began = time.perf_counter()
        with suppress(PolicyError):
            parse_policy(policy.content, "toml", ())
            raise AssertionError(policy.name)
        slowest = max(slowest, (time.perf_counter() - began, policy.name))
    print(f"{len(HOSTILE)} hostile policies refused; the slowest in {slowest[0] * 1000:.0f} ms: {slowest[1]} (1 s)")


def _costly() -> None:
    slowest, refused = (0.0, ""), 0
    for members in (5, 20, 60, 200):
        rows = [{f"k{number}": "v" for number in range(min(24, members))} for _ in range(members)]
        arguments = {"a": [f"{number}" for number in range(members)], "rows": rows, "t": "ab1 " * 25_000}
        events = Story().starts().calls("x", arguments).events
        for expression in COSTLY:
            checker = ContractChecker([msgspec.convert({"id": "a", "never": expression}, Contract)])
            began = time.perf_counter()
            for event in events:
                checker.observe(event)
            slowest = max(slowest, (time.perf_counter() - began, expression))
            refused += checker.results()[0].not_evaluated
    print(f"slowest evaluation: {slowest[0] * 1000:.0f} ms, {slowest[1][:60]} (1 s); {refused} not made, too large")


def _per_event() -> None:
    story = Story().starts()
    for number in range(2000):
        story.calls("get_reservation_details", {"reservation_id": f"R{number}"}, json.dumps({"cabin": "economy"}))
    checker = ContractChecker(AIRLINE.contracts)
    began = time.perf_counter()
    for event in story.events:
        checker.observe(event)
    each = (time.perf_counter() - began) / len(story.events) * 1e6
    print(f"{len(AIRLINE.contracts)} contracts: {each:.0f} µs per event")


if __name__ == "__main__":
    main()
