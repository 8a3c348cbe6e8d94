"""Findings on trajectories and transcripts of real agents, listed so that each can be judged by reading its events.

    python benchmarks/atif.py --data DIR [--runs-dir DIR] [--json]

`critiqor import` imports every file of `DIR/atif` (ATIF) and `DIR/openclaw_sessions` (transcripts), and `critiqor show`
prints what was found. Each finding of at least medium severity is listed under its file, with its title, the numbers of
the events that it cites in the imported run, and the reward of the trajectory from `atif/rewards.tsv`: 1 solved, 0 not.
With `--runs-dir`, the runs are kept for reading. The benchmark fails if a file cannot be imported.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import verb

SEVERE = frozenset(("critical", "high", "medium"))
FOLDERS = {"atif": "*.json", "openclaw_sessions": "*.jsonl"}


class Finding(NamedTuple):
    """A finding of at least medium severity."""

    severity: str
    type: str
    title: str
    events: list[int]
    """Positions of the events that it cites, in the session.json of the run."""


class Imported(NamedTuple):
    """One trace of a file: the run that it became, and what was found."""

    file: str
    reward: str | None
    run_id: str
    events: int
    findings: list[Finding]


def answer_of(*arguments: str) -> dict[str, Any]:
    """Return the data that `critiqor ARGUMENTS --json` prints."""
    command = [verb.CRITIQOR, *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    data: dict[str, Any] = json.loads(done.stdout)["data"]
    return data


def read_rewards(folder: Path) -> dict[str, str]:
    path = folder / "atif" / "rewards.tsv"
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]] if path.exists() else []
    return {row[0]: row[1] for row in rows if len(row) == 2}


def read_findings(run_id: str, runs_dir: str) -> list[Finding]:
    """Return the findings of a run that are of at least medium severity."""
    session = json.loads(Path(runs_dir, run_id, "session.json").read_text())
    numbers = {event["event_id"]: number for number, event in enumerate(session["events"])}
    diagnosis = answer_of("show", run_id, "--runs-dir", runs_dir)["diagnosis"]
    return [
        Finding(one["severity"], one["type"], one["title"], [numbers[event] for event in one["evidence"]])
        for one in diagnosis["failure_analysis"]["findings"]
        if one["severity"] in SEVERE
    ]


def import_all(folder: Path, runs_dir: str) -> Iterator[Imported]:
    rewards = read_rewards(folder)
    for name, pattern in FOLDERS.items():
        for path in sorted(Path(folder, name).glob(pattern)):
            for run in answer_of("import", str(path), "--runs-dir", runs_dir)["runs"]:
                found = read_findings(run["run_id"], runs_dir)
                yield Imported(path.name, rewards.get(path.stem), run["run_id"], run["events"], found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with atif and openclaw_sessions")
    parser.add_argument("--runs-dir", help="keep the imported runs in this folder")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        runs = list(import_all(arguments.data, arguments.runs_dir or temporary))
    if not runs:
        sys.exit(f"no trajectory in {arguments.data}")
    if arguments.json:
        report = [{**run._asdict(), "findings": [one._asdict() for one in run.findings]} for run in runs]
        print(json.dumps(report, indent=2, ensure_ascii=False))
        return
    for run in runs:
        print(f"{run.file}: reward {run.reward or 'unknown'}, {run.run_id}, {run.events} events")
        for finding in run.findings:
            print(f"  {finding.severity} {finding.type}: {finding.title} {finding.events}")
    types = Counter(finding.type for run in runs for finding in run.findings)
    print(f"{sum(types.values())} findings on {len(runs)} runs: {dict(types.most_common())}")


if __name__ == "__main__":
    main()
