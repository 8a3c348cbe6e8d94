"""What the lab found out, for people: lines for a terminal, Markdown for a ticket or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from critiqor.lab.batch import LabResult, ScenarioResult
from critiqor.lab.verdict import Verdict
from critiqor.timeline.formatting import ms
from critiqor.timeline.layout import Name, Part, Piece, Table, as_lines, as_markdown

MOST_FIGURES = 12
"""Rows of a table of times; --json has all."""
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|])")


def lab_lines(result: LabResult) -> list[str]:
    """The result for a terminal, scenario by scenario."""
    width = max((len(one.scenario) for one in result.results), default=0)
    lines = [
        f"{'ok ' if one.passed else 'NO '} {one.scenario.ljust(width)}  {seen_words(one)}" for one in result.results
    ]
    lines += [f"--  {one.scenario}: not played here. {one.because}" for one in result.left_out]
    return [*lines, *failure_lines(result)]


def failure_lines(result: LabResult) -> list[str]:
    """Only what is not as it must be, the times of what was repeated, and the count."""
    lines = []
    for one in result.results:
        if not one.passed:
            lines += ["", f"{one.scenario}: {one.description}", *(f"  {missed}" for missed in _missed(one))]
    lines += [line for one in result.results if one.timings for line in ("", *as_lines([_times(one)]))]
    return [*lines, "", summary(result)]


def lab_markdown(result: LabResult) -> str:
    """What was injected, what was seen and what was missed."""
    rows: list[tuple[str, ...]] = [
        ("scenario", "injected", "expected", "seen", "trust", "as expected", "seconds"),
        ("---",) * 7,
    ]
    rows += [tuple(map(_marked, _cells(one))) for one in result.results]
    blocks = ["# Lab", _marked(summary(result)) + ".", _table(rows), "## Missed"]
    failed = [one for one in result.results if not one.passed]
    blocks += [_bullets(one) for one in failed] or ["Nothing."]
    blocks += [as_markdown([_times(one)]).rstrip("\n") for one in result.results if one.timings]
    if result.left_out:
        blocks += ["## Not played here", _table([("scenario", "why"), ("---",) * 2, *_left_out(result)])]
    return "\n\n".join(blocks) + "\n"


def summary(result: LabResult) -> str:
    """In one line."""
    failed = sum(not one.passed for one in result.results)
    where = "the embedded loop" if result.on == "embedded" else "OpenClaw"
    told = f"{len(result.results) - failed} of {len(result.results)} scenarios as expected on {where}"
    return f"{told}, {len(result.left_out)} do not apply there" if result.left_out else told


def seen_words(result: ScenarioResult) -> str:
    """What was found the last time, and how long it took."""
    last = result.plays[-1]
    trust = f", trust {last.seen.trust}" if last.seen is not None and last.seen.trust is not None else ""
    return f"{_seen(last)}{trust} ({last.seconds:.1f} s)"


def _seen(verdict: Verdict) -> str:
    if verdict.seen is None:
        return "not played"
    return ", ".join(verdict.seen.findings) or "nothing found"


def _missed(result: ScenarioResult) -> Iterator[str]:
    if not result.same_diagnosis:
        yield "its plays were not diagnosed alike"
    for number, verdict in enumerate(result.plays, 1):
        which = f"play {number}: " if len(result.plays) > 1 else ""
        yield from (f"{which}{missed}" for missed in verdict.missed)
        if verdict.run is not None:
            yield f"{which}everything that it left is in {verdict.run}"


def _cells(result: ScenarioResult) -> Iterable[str]:
    last = result.plays[-1]
    trust = "" if last.seen is None or last.seen.trust is None else str(last.seen.trust)
    seconds = sum(verdict.seconds for verdict in result.plays) / len(result.plays)
    verdict = "yes" if result.passed else "NO"
    return (result.scenario, result.description, result.expected, _seen(last), trust, verdict, f"{seconds:.1f}")


def _bullets(result: ScenarioResult) -> str:
    missed = "\n".join(f"- {_marked(one)}" for one in _missed(result))
    return f"**{_marked(result.scenario)}**: {_marked(result.description)}\n\n{missed}"


def _left_out(result: LabResult) -> list[tuple[str, ...]]:
    return [(_marked(one.scenario), _marked(one.because)) for one in result.left_out]


def _table(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _marked(text: str) -> str:
    """A text of a file, of which nothing can become markup."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def _times(result: ScenarioResult) -> Part:
    alike = "all diagnosed alike" if result.same_diagnosis else "not diagnosed alike"
    rows: list[list[Piece]] = [
        [
            Name(figures.name),
            str(figures.runs),
            *map(ms, (figures.median_ms, figures.p95_ms, figures.max_ms)),
            "" if figures.variance_ms2 is None else f"{figures.variance_ms2:.3g} ms²",
        ]
        for figures in result.timings[:MOST_FIGURES]
    ]
    heads = ["", "plays", "median", "p95", "max", "variance"]
    return Part(f"Times of {result.scenario}: {len(result.plays)} plays, {alike}", [], Table(heads, rows))
