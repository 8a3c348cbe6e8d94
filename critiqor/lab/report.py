"""Reports of lab results: lines for a terminal, Markdown for a ticket or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from critiqor.lab.batch import LabResult, ScenarioResult
from critiqor.lab.verdict import Verdict
from critiqor.timeline.reports.formatting import ms
from critiqor.timeline.reports.layout import Name, Part, Piece, Table, as_lines, as_markdown

MAX_FIGURES = 12
"""Rows in a table of times; --json has all."""
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|])")


def lab_lines(result: LabResult) -> list[str]:
    """Return the lab result as lines for a terminal, one per scenario, followed by the failures."""
    width = max((len(one.scenario) for one in result.results), default=0)
    lines = [
        f"{'ok ' if one.passed else 'NO '} {one.scenario.ljust(width)}  {_format_seen(one)}" for one in result.results
    ]
    lines += [f"--  {one.scenario}: does not apply here. {one.because}" for one in result.left_out]
    return [*lines, *failure_lines(result)]


def failure_lines(result: LabResult) -> list[str]:
    """Return the lines that end a lab report: the failed scenarios, the times of repeated ones, and the summary."""
    lines = []
    for one in result.results:
        if not one.passed:
            lines += ["", f"{one.scenario}: {one.description}", *(f"  {missed}" for missed in _missed(one))]
    lines += [line for one in result.results if one.timings for line in ("", *as_lines([_times(one)]))]
    return [*lines, "", summary(result)]


def lab_markdown(result: LabResult) -> str:
    """Return the lab result as Markdown: injected faults, findings and mismatches."""
    rows: list[tuple[str, ...]] = [
        ("scenario", "injected", "expected", "seen", "trust", "as expected", "seconds"),
        ("---",) * 7,
    ]
    rows += [tuple(map(_escape, _cells(one))) for one in result.results]
    blocks = ["# Lab", _escape(summary(result)) + ".", _table(rows), "## Missed"]
    failed = [one for one in result.results if not one.passed]
    blocks += [_bullets(one) for one in failed] or ["Nothing."]
    blocks += [as_markdown([_times(one)]).rstrip("\n") for one in result.results if one.timings]
    if result.left_out:
        blocks += ["## Does not apply here", _table([("scenario", "why"), ("---",) * 2, *_left_out(result)])]
    return "\n\n".join(blocks) + "\n"


def summary(result: LabResult) -> str:
    """Return the summary of a lab result in one line."""
    failed = sum(not one.passed for one in result.results)
    where = "the embedded loop" if result.on == "embedded" else "OpenClaw"
    counts = f"{len(result.results) - failed} of {len(result.results)} scenarios as expected on {where}"
    return f"{counts}, {len(result.left_out)} do not apply there" if result.left_out else counts


def _format_seen(result: ScenarioResult) -> str:
    """Format the findings and the duration of the last play of a scenario."""
    last = result.plays[-1]
    trust = f", trust {last.seen.trust}" if last.seen is not None and last.seen.trust is not None else ""
    return f"{_seen(last)}{trust} ({last.seconds:.1f} s)"


def _seen(verdict: Verdict) -> str:
    if verdict.seen is None:
        return "not played"
    return ", ".join(verdict.seen.findings) or "nothing found"


def _missed(result: ScenarioResult) -> Iterator[str]:
    if not result.same_diagnosis:
        yield "repeated runs gave different diagnoses"
    for number, verdict in enumerate(result.plays, 1):
        which = f"play {number}: " if len(result.plays) > 1 else ""
        yield from (f"{which}{missed}" for missed in verdict.missed)
        if verdict.run is not None:
            yield f"{which}its files are kept in {verdict.run}"


def _cells(result: ScenarioResult) -> Iterable[str]:
    last = result.plays[-1]
    trust = "" if last.seen is None or last.seen.trust is None else str(last.seen.trust)
    seconds = sum(verdict.seconds for verdict in result.plays) / len(result.plays)
    verdict = "yes" if result.passed else "NO"
    return (result.scenario, result.description, result.expected, _seen(last), trust, verdict, f"{seconds:.1f}")


def _bullets(result: ScenarioResult) -> str:
    missed = "\n".join(f"- {_escape(one)}" for one in _missed(result))
    return f"**{_escape(result.scenario)}**: {_escape(result.description)}\n\n{missed}"


def _left_out(result: LabResult) -> list[tuple[str, ...]]:
    return [(_escape(one.scenario), _escape(one.because)) for one in result.left_out]


def _table(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _escape(text: str) -> str:
    """Escape text from a file, so that it cannot become markup."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def _times(result: ScenarioResult) -> Part:
    same = "same diagnosis" if result.same_diagnosis else "different diagnoses"
    rows: list[list[Piece]] = [
        [
            Name(figures.name),
            str(figures.runs),
            *map(ms, (figures.median_ms, figures.p95_ms, figures.max_ms)),
            "" if figures.variance_ms2 is None else f"{figures.variance_ms2:.3g} ms²",
        ]
        for figures in result.timings[:MAX_FIGURES]
    ]
    heads = ["", "repetitions", "median", "p95", "max", "variance"]
    return Part(f"Times of {result.scenario}: {len(result.plays)} repetitions, {same}", [], Table(heads, rows))
