"""Trajectories that are imported, exported and imported again: the second diagnosis must be that of the first.

    python benchmarks/round_trip.py --data DIR [--format atif|otlp]

Every file of `DIR/atif` is imported, exported with `critiqor export --format FORMAT`, and the export is imported. For
each file it prints what differs between the two diagnoses: verdict, findings, claims, model calls, tool calls, tokens,
cost. It fails if anything does.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from atif import answer_of

SUFFIXES = {"atif": ".atif.jsonl", "otlp": ".otlp.json"}


def facts_of(run_id: str, runs_dir: str) -> dict[str, Any]:
    """Return what two diagnoses are compared by."""
    diagnosis = json.loads(Path(runs_dir, run_id, "diagnosis.json").read_text())
    events = json.loads(Path(runs_dir, run_id, "session.json").read_text())["events"]
    kinds = [event["event_type"] for event in events]
    cost = diagnosis["cost_analysis"]
    findings = diagnosis["failure_analysis"]["findings"]
    return {
        "readiness": diagnosis["readiness"],
        "trust": diagnosis["trust_score"],
        "confidence": diagnosis["confidence_score"],
        "outcome": diagnosis["outcome"]["state"],
        "task": diagnosis["outcome"]["task"]["verdict"],
        "findings": [
            (one["type"], one["cause"], one["severity"], one["occurrences"], one["title"]) for one in findings
        ],
        "claims": [(one["kind"], one["status"], one["text"]) for one in diagnosis["claims"]],
        "requests": kinds.count("input"),
        "tool calls": kinds.count("tool_call"),
        "results": kinds.count("tool_output"),
        "model calls": cost["model_calls"],
        "tokens": [cost[name] for name in ("input_tokens", "output_tokens", "cache_read_tokens")],
        "cost": cost["cost_usd"],
    }


def differences(path: Path, format_name: str) -> Iterator[str]:
    """Yield what differs after a round trip of one file."""
    with tempfile.TemporaryDirectory() as folder:
        runs, again = str(Path(folder, "runs")), str(Path(folder, "again"))
        file = str(Path(folder, f"exported{SUFFIXES[format_name]}"))
        content = ["--content"] if format_name == "otlp" else []
        for run in answer_of("import", str(path), "--runs-dir", runs)["runs"]:
            answer_of("export", run["run_id"], "--format", format_name, "-o", file, *content, "--runs-dir", runs)
            imported = answer_of("import", file, "--runs-dir", again)["runs"]
            if len(imported) != 1:
                yield f"{len(imported)} runs instead of one"
            before, after = facts_of(run["run_id"], runs), facts_of(imported[0]["run_id"], again)
            yield from (f"{name}: {before[name]} → {after[name]}" for name in before if before[name] != after[name])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--format", choices=list(SUFFIXES), default="atif")
    options = parser.parse_args()
    files = sorted(Path(options.data, "atif").glob("*.json"))
    same = 0
    for path in files:
        found = list(differences(path, options.format))
        same += not found
        print(f"{path.name}: {'the same diagnosis' if not found else 'differs'}")
        for line in found:
            print(f"    {line[:1000]}")
    print(f"{same} of {len(files)} files have the same diagnosis after the round trip")
    return 0 if files and same == len(files) else 1


if __name__ == "__main__":
    sys.exit(main())
