"""How a run compares with the others of its benchmark, counted in the database."""

from __future__ import annotations

from typing import NamedTuple

from critiqor.comparison.ranking import MORE_IS_BETTER, Standing
from critiqor.fleet.index.base import Base
from critiqor.fleet.index.query import RunQuery, where
from critiqor.fleet.index.rows import IndexedRun

MAX_NAMED = 1000
"""Maximum number of runs that are named because another rule set judged them."""
_FIGURES = {
    "trust": "r.trust",
    "cost_usd": "CASE WHEN r.cost_is_partial THEN NULL ELSE r.cost_usd END",
    "tokens": "CASE WHEN r.tokens_are_known THEN r.tokens END",
    "wall_ms": "CASE WHEN r.is_profiled THEN NULL ELSE r.wall_ms END",
    "findings": "CASE WHEN r.trust IS NULL THEN NULL ELSE r.findings END",
}
"""The figures by which runs are ranked; the same as `critiqor.comparison.figures.figures_of` has."""


class RunStanding(NamedTuple):
    """How a run compares with the others."""

    others: int
    """Number of comparable runs."""
    figures: dict[str, Standing]
    other_rules: list[str]
    """Names of runs of the same benchmark and difficulty that another rule set judged."""


def figure_of(run: IndexedRun, figure: str) -> float | None:
    """Return the figure of an indexed run for its standing; None if it is unknown or cannot be compared."""
    values: dict[str, float | None] = {
        "trust": run.trust,
        "cost_usd": None if run.cost_is_partial else run.cost_usd,
        "tokens": run.tokens if run.tokens_are_known else None,
        "wall_ms": None if run.is_profiled else run.wall_ms,
        "findings": None if run.trust is None else run.findings,
    }
    return values[figure]


def standing_of(base: Base, run: IndexedRun) -> RunStanding:
    """Return how a run compares with the others of its tenant, benchmark, difficulty and rule set."""
    chosen = where(base, RunQuery(tenant=run.tenant))
    alike = f"{chosen.sql} AND r.benchmark = ? AND r.difficulty = ? AND r.id <> ?"
    kind = [*chosen.parameters, run.benchmark, run.difficulty, run.id]
    counts, values = ["count(*)"], []
    for figure, is_more_better in MORE_IS_BETTER.items():
        known, sign = _FIGURES[figure], "<" if is_more_better else ">"
        value = figure_of(run, figure)
        if value is None:
            counts += ["0", "0", f"count({known})"]
            continue
        counts += [f"count(CASE WHEN {known} {each} ? THEN 1 END)" for each in (sign, "=")] + [f"count({known})"]
        values += [value, value]
    sql = f"SELECT {', '.join(counts)} FROM runs r WHERE {alike} AND r.rule_set = ?"
    [[others, *numbers]] = base.query(sql, [*values, *kind, run.rule_set])
    standings = [Standing(*map(int, numbers[place : place + 3])) for place in range(0, len(numbers), 3)]
    named = base.query(
        f"SELECT r.host, r.run FROM runs r WHERE {alike} AND r.rule_set <> ? ORDER BY r.created_ms DESC LIMIT ?",
        [*kind, run.rule_set, MAX_NAMED],
    )
    return RunStanding(int(others), dict(zip(MORE_IS_BETTER, standings, strict=True)), [f"{h}/{r}" for h, r in named])
