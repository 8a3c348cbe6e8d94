"""Quality of the detectors on labelled traces of real agents.

    python benchmarks/detection.py --data DIR [--json]

Every trace of the neutral files `*.jsonl` in the folder is diagnosed once, without its labels; every finding counts.
Intervals are bootstraps over traces. The thresholds were chosen on such traces, so the first figure is also computed
with leave-one-out thresholds: each trace is judged by thresholds chosen without it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from critiqor.diagnosis import FAILURE_TYPES
from critiqor.diagnosis.detectors import repeated_tool_failure
from critiqor.diagnosis.loops import answers, repetitions
from critiqor.importers import ImportedTrace, read_traces
from critiqor.run.diagnosis import TraceVerdict, trace_verdict

NEAR = 2
RESAMPLES = 2000
LOOPS = frozenset({"tool_loop", "repeated_tool_failure", "retry_storm"})
CLAIMS = frozenset({"false_success_claim", "unresolved_tool_error", "tool_misuse"})
EXPECTED_TYPES: dict[str, frozenset[str]] = {
    "Resource Abuse": LOOPS,
    "Tool-related": frozenset({"tool_misuse", "repeated_tool_failure", "unresolved_tool_error"}),
    "Tool Output Misinterpretation": frozenset({"ignored_tool_output", "false_success_claim"}),
    "Resource Exhaustion": frozenset({"context_pollution", "cost_explosion", "timeout"}),
    "Context Handling Failures": frozenset({"context_pollution", "compaction_loss", "memory_failure"}),
    "Task Orchestration": frozenset({"no_progress", "premature_stop", "subagent_failure"}),
}
"""Human labels and the nearest failure types. Most labels describe the meaning of a run, not its execution."""
GRID: dict[str, tuple[object, str, tuple[float, ...]]] = {
    "stale calls": (repetitions, "MIN_STALE_CALLS", (1, 2, 3)),
    "misses": (answers, "MIN_MISSES", (3, 4, 5)),
    "guesses": (repeated_tool_failure, "MIN_GUESSES", (2, 3, 4)),
    "similarity": (repeated_tool_failure, "MIN_SIMILARITY", (0.3, 0.4, 0.5)),
}


class Label(NamedTuple):
    category: str
    events: frozenset[int]


class Case(NamedTuple):
    """One trace with its labels and its diagnosis."""

    source: str
    outcome: str | None
    labels: list[Label]
    trace: ImportedTrace
    verdict: TraceVerdict

    def has(self, category: str) -> bool:
        return any(label.category == category for label in self.labels)

    def fires(self, types: frozenset[str]) -> bool:
        return any(finding.type in types for finding in self.verdict.findings)

    def is_near(self, types: frozenset[str], category: str) -> bool:
        labelled = [event for label in self.labels if label.category == category for event in label.events]
        steps = [finding.first_bad_step for finding in self.verdict.findings if finding.type in types]
        return any(abs(step - event) <= NEAR for step in steps if step is not None for event in labelled)


class Score(NamedTuple):
    precision: float
    recall: float
    f1: float


def read_cases(folder: Path) -> list[Case]:
    cases = []
    for path in sorted(folder.glob("*.jsonl")):
        labels = [json.loads(line)["labels"] for line in path.read_text().splitlines() if line.strip()]
        if not all("failure_labels" in label for label in labels):
            continue  # labelled with a verdict instead: see verdict.py
        for label, trace in zip(labels, read_traces(path), strict=True):
            marked = [Label(one["category"], frozenset(one["event_i"])) for one in label["failure_labels"]]
            cases.append(Case(path.name, label["outcome"], marked, trace, trace_verdict(trace)))
    return cases


def score(hits: list[tuple[bool, bool]]) -> Score:
    """Compute the score of pairs (is labelled, was found)."""
    true = sum(labelled and found for labelled, found in hits)
    found_total = sum(found for _, found in hits)
    labelled_total = sum(labelled for labelled, _ in hits)
    precision = true / found_total if found_total else 0.0
    recall = true / labelled_total if labelled_total else 0.0
    return Score(precision, recall, 2 * precision * recall / (precision + recall) if true else 0.0)


def interval(
    values: list[tuple[bool, bool]], figure: Callable[[list[tuple[bool, bool]]], float]
) -> tuple[float, float]:
    """Return the 95% bootstrap interval of a figure."""
    chance = random.Random(20)
    drawn = sorted(figure(chance.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return drawn[RESAMPLES // 40], drawn[-RESAMPLES // 40]


@contextmanager
def thresholds(values: tuple[float, ...]) -> Iterator[None]:
    before = [getattr(module, name) for module, name, _ in GRID.values()]
    try:
        for (module, name, _), value in zip(GRID.values(), values, strict=True):
            setattr(module, name, value)
        yield
    finally:
        for (module, name, _), value in zip(GRID.values(), before, strict=True):
            setattr(module, name, value)


def leave_one_out(cases: list[Case], category: str, types: frozenset[str]) -> Score:
    """Score each trace with the thresholds that are best for all the others."""
    found: list[list[bool]] = []
    for values in itertools.product(*(choices for _, _, choices in GRID.values())):
        with thresholds(values):
            verdicts = [trace_verdict(case.trace) for case in cases]
        found.append([any(finding.type in types for finding in verdict.findings) for verdict in verdicts])
    labels = [case.has(category) for case in cases]
    judged = []
    for left in range(len(cases)):
        others = [number for number in range(len(cases)) if number != left]
        best = max(found, key=lambda row: score([(labels[number], row[number]) for number in others]).f1)
        judged.append((labels[left], best[left]))
    return score(judged)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with neutral traces, *.jsonl")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    cases = read_cases(arguments.data)
    figures = {**_labels(cases), **_outcomes(cases)}
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    for name, figure in figures.items():
        print(f"{name}: {figure}")


def _labels(cases: list[Case]) -> dict[str, str]:
    figures = {}
    for category, types in EXPECTED_TYPES.items():
        labelled = [case for case in cases if case.source in {one.source for one in cases if one.has(category)}]
        if not labelled:
            continue
        pairs = [(case.has(category), case.fires(types)) for case in labelled]
        actual, always = score(pairs), score([(label, True) for label, _ in pairs])
        low, high = interval(pairs, lambda sample: score(sample).f1)
        hits = [case for case in labelled if case.has(category) and case.fires(types)]
        near = sum(case.is_near(types, category) for case in hits)
        figures[f"{category} by {' or '.join(sorted(types))}"] = (
            f"precision {actual.precision:.2f}, recall {actual.recall:.2f}, F1 {actual.f1:.2f} "
            f"(95%: {low:.2f} to {high:.2f}), "
            f"always firing F1 {always.f1:.2f}, first_bad_step within {NEAR} events in {near} of {len(hits)} hits; "
            f"{sum(label for label, _ in pairs)} of {len(pairs)} traces labelled"
        )
        if category == "Resource Abuse":
            without = leave_one_out(labelled, category, types)
            figures[f"{category}, each trace judged by thresholds chosen without it"] = (
                f"precision {without.precision:.2f}, recall {without.recall:.2f}, F1 {without.f1:.2f}"
            )
    return figures


def _outcomes(cases: list[Case]) -> dict[str, str]:
    good = [case for case in cases if case.outcome == "success"]
    bad = [case for case in cases if case.outcome == "failure"]
    if not good or not bad:
        return {}
    severe = sum(any(one.severity in ("critical", "high") for one in case.verdict.findings) for case in good)
    medium = sum(any(one.severity == "medium" for one in case.verdict.findings) for case in good)
    pairs = [(case.outcome == "failure", case.fires(CLAIMS)) for case in (*good, *bad)]
    low, high = interval(pairs, _ratio)
    share = severe / len(good)
    figures = {
        "high or critical findings on successful runs": f"{severe} of {len(good)} ({share:.1%}, at most 5%)",
        "medium findings on successful runs": f"{medium} of {len(good)} (at most 10%)",
        f"{' or '.join(sorted(CLAIMS))} on failed runs": f"{_rate(pairs, True):.1%} of {len(bad)} (at least 10%)",
        "the same on successful runs": f"{_rate(pairs, False):.1%} of {len(good)}",
        "ratio": f"{_ratio(pairs):.1f} (at least 2; 95%: {low:.1f} to {high:.1f})",
    }
    for type_ in FAILURE_TYPES:
        fired = [sum(case.fires(frozenset({type_})) for case in group) for group in (bad, good)]
        if any(fired):
            figures[f"{type_} on failed and on successful runs"] = (
                f"{fired[0]} of {len(bad)}, {fired[1]} of {len(good)}"
            )
    return figures


def _rate(pairs: list[tuple[bool, bool]], failed: bool) -> float:
    group = [found for has_failed, found in pairs if has_failed is failed]
    return sum(group) / len(group) if group else 0.0


def _ratio(pairs: list[tuple[bool, bool]]) -> float:
    # Half a finding is added to both sides, so that a sample without findings on successful runs has a ratio.
    failed = [found for has_failed, found in pairs if has_failed]
    worked = [found for has_failed, found in pairs if not has_failed]
    return ((sum(failed) + 0.5) / (len(failed) + 1)) / ((sum(worked) + 0.5) / (len(worked) + 1))


if __name__ == "__main__":
    main()
