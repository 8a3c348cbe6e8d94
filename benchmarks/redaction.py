"""Redaction of secrets: what it finds, what it takes for a secret by mistake, and what it costs.

    python benchmarks/redaction.py [--seed N] [--recall-only] [--missed] [--alarms] [--json]

recall        the share of generated credentials (`credentials.py`) that are not in the record any more, by the Python
              and the JavaScript implementation. A credential counts as found only if no half of it is left.
false alarms  lines that are changed, of Python's standard library and of the documentation of an installed OpenClaw,
              which `make openclaw` puts into the cache. They hold no secrets, but many examples of them.
cost          CPU time of recording with redaction ÷ without, alternately in one process; medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from credentials import Sample, samples
from generator import Gateway

from critiqor.agentloop.recording.journal_writer import JournalWriter
from critiqor.storage import paths_for
from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import Redactor, rules_digest

HERE = Path(__file__).parent
NODE = Path(sys.executable).parent / "node"
CACHE = Path("~/.cache/critiqor-tests").expanduser()
ROUNDS = 5
RECORDS = 3000


def in_python(texts: Iterable[str]) -> Iterator[str]:
    """Return texts as they would be recorded by the embedded agent loop."""
    envelope = {"session_key": "s", "tool_name": None, "tool_call_id": None, "error": None}
    for text in texts:
        line = RecordFilter(Redactor(b"key")).journal_line({**envelope, "payload": {"text": text}})
        kept = json.loads(line)["payload"]["text"]
        yield kept if isinstance(kept, str) else kept["excerpt"]


def in_javascript(texts: Iterable[str]) -> Iterator[str]:
    """Return texts as they would be recorded by the recorder plugin."""
    with tempfile.TemporaryFile("w+") as given:
        given.writelines(json.dumps(text) + "\n" for text in texts)
        given.seek(0)
        command = [str(NODE), str(HERE / "redaction.mjs"), "texts"]
        done = subprocess.run(command, stdin=given, capture_output=True, text=True, check=True)
    return map(json.loads, done.stdout.splitlines())


def is_found(sample: Sample, recorded: str) -> bool:
    half = max(6, len(sample.secret) // 2)
    parts = (sample.secret[at : at + half] for at in range(max(1, len(sample.secret) - half + 1)))
    return not any(part in recorded for part in parts)


def recall(made: list[Sample], recorded: Iterable[str]) -> tuple[float, dict[str, float], list[Sample]]:
    """Return the overall share of credentials that were found, the share of each kind, and those that were missed."""
    of_kind: dict[str, list[bool]] = {}
    missed = []
    for sample, text in zip(made, recorded, strict=True):
        found = is_found(sample, text)
        of_kind.setdefault(sample.kind, []).append(found)
        if not found:
            missed.append(sample)
    return 1 - len(missed) / len(made), {kind: statistics.mean(found) for kind, found in of_kind.items()}, missed


def library_lines() -> list[str]:
    folder = Path(sysconfig.get_path("stdlib"))
    files = (path for path in sorted(folder.rglob("*.py")) if not {"site-packages", "dist-packages"} & {*path.parts})
    return [line for path in files for line in path.read_text("utf-8", "replace").splitlines() if line.strip()]


def documentation_lines() -> list[str]:
    folders = sorted(CACHE.glob("openclaw-2026.9.6-*/node_modules/openclaw/docs"))
    files = (path for folder in folders[:1] for path in sorted(folder.rglob("*.md")))
    return [line for path in files for line in path.read_text("utf-8", "replace").splitlines() if line.strip()]


def changed(lines: list[str], recorded: Iterable[str]) -> list[tuple[str, str]]:
    return [(line, text) for line, text in zip(lines, recorded, strict=True) if line != text]


def _never(redactor: Redactor, serialized: bytes, start: int = 0) -> bool:
    return False


def cost_in_python() -> float:
    """Return the CPU time of recording with redaction ÷ without."""
    times: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as name:
        journal = JournalWriter(paths_for(name), "run_001")
        for round_ in range(ROUNDS):
            for redacts in (True, False) if round_ % 2 else (False, True):
                stream = Gateway().records(rules_digest())
                records = [next(stream) for _ in range(RECORDS)]
                gate = Redactor.may_hold_secret if redacts else _never
                with mock.patch.object(Redactor, "may_hold_secret", gate):
                    began = time.process_time()
                    for record in records:
                        journal.append(record, journal.now())
                    times[redacts].append(time.process_time() - began)
    return statistics.median(times[True]) / statistics.median(times[False])


def cost_in_javascript() -> float:
    command = [str(NODE), str(HERE / "redaction.mjs"), "cost"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--missed", action="store_true", help="list the credentials that were not found")
    parser.add_argument("--alarms", action="store_true", help="list the lines that were changed")
    parser.add_argument("--recall-only", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    made = list(samples(Random(options.seed)))
    texts = [sample.text for sample in made]
    report: dict[str, Any] = {"samples": len(made)}
    for language, recorded in (("python", in_python), ("javascript", in_javascript)):
        overall, of_kind, missed = recall(made, recorded(texts))
        report[f"recall_{language}"] = overall
        report[f"recall_by_kind_{language}"] = of_kind
        if options.missed:
            for sample in missed:
                print(f"{language}: {sample.kind}, {sample.context}: {sample.text[:160]!r}")
    if not options.recall_only:
        for name, lines in (("library", library_lines()), ("documentation", documentation_lines())):
            report[f"lines_{name}"] = len(lines)
            for language, recorded in (("python", in_python), ("javascript", in_javascript)):
                alarms = changed(lines, recorded(lines))
                report[f"alarms_{name}_{language}"] = len(alarms) / max(1, len(lines))
                if options.alarms and language == "python":
                    print(*(f"{name}: {text.strip()}" for _, text in alarms), sep="\n")
        report["cost_python"] = cost_in_python()
        report["cost_javascript"] = cost_in_javascript()
    print(json.dumps(report) if options.json else _summary(report))


def _summary(report: dict[str, Any]) -> str:
    lines = [f"{report['samples']} credentials of {len(report['recall_by_kind_python'])} kinds"]
    both = report["recall_by_kind_python"], report["recall_by_kind_javascript"]
    for kind, share in both[0].items():
        lines.append(f"  {kind:32} {share:5.0%} {both[1][kind]:5.0%}")
    lines.append(f"kinds that were missed somewhere: {sum(share < 1 for share in both[0].values())}")
    for language in ("python", "javascript"):
        lines.append(f"recall, {language}: {report[f'recall_{language}']:.2%} (at least 99%)")
    for name in ("library", "documentation"):
        for language in ("python", "javascript"):
            if (share := report.get(f"alarms_{name}_{language}")) is not None:
                of_lines = f"of {report[f'lines_{name}']} lines (at most 0.1%)"
                lines.append(f"false alarms, {name}, {language}: {share:.3%} {of_lines}")
    for language in ("python", "javascript"):
        if (cost := report.get(f"cost_{language}")) is not None:
            lines.append(f"recording with redaction ÷ without, {language}: {cost:.2f} (at most 1.5)")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
