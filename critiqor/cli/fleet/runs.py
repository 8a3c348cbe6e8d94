"""The list of the runs of all hosts."""

from __future__ import annotations

from typing import NamedTuple, cast

from critiqor.cli.fleet.opening import opened_index
from critiqor.cli.run_list import ListedRun, RunFilter, RunRow, SortKey
from critiqor.fleet.index.query import RunQuery
from critiqor.fleet.index.rows import IndexedRun
from critiqor.fleet.views.run_names import run_names
from critiqor.model.diagnosis import Readiness
from critiqor.model.formatting import format_cost

MAX_RUNS = 1000
"""Maximum number of runs that are listed."""


class FleetRun(ListedRun, frozen=True, kw_only=True):
    """One run of the fleet, named `HOST/RUN`."""

    host: str


class FleetList(NamedTuple):
    """A list of runs of all hosts."""

    rows: list[RunRow]
    more: bool
    """Whether there are more than are listed."""
    address: str
    """Where the index is."""


def list_fleet(chosen: RunFilter, host: str | None, sort: SortKey) -> FleetList:
    """Return the runs in the index that a filter shows."""
    query = RunQuery(
        host=host,
        agent=chosen.agent,
        session=chosen.session,
        verdicts=cast("tuple[Readiness, ...]", chosen.verdicts),
        since_ms=chosen.since_ms,
        tags=chosen.tags,
        sort=sort,
        limit=MAX_RUNS + 1,
    )
    with opened_index() as index:
        found = index.runs(query)
        address = index.address
    names = run_names(found)
    return FleetList([_row(run, names[run.id]) for run in found[:MAX_RUNS]], len(found) > MAX_RUNS, address)


def _row(run: IndexedRun, name: str) -> RunRow:
    listed = FleetRun(
        run_id=name,
        host=run.host,
        status="COMPLETED",
        created_at=run.created_at,
        agent_id=run.agent,
        events=run.events,
        trust=run.trust,
        confidence=run.confidence,
        verdict=run.verdict,
        outcome=run.outcome,
        cost_usd=run.cost_usd,
        cost_is_whole=not run.cost_is_partial,
        cost_is_estimated=run.cost_is_estimated,
        headline=run.headline,
        sessions=run.sessions,
    )
    return RunRow(listed, format_cost(run.cost))
