"""`critiqor trends`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.options import fleet_option, json_option, runs_dir_option
from critiqor.cli.output import answer
from critiqor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from critiqor.cli.texts.trends import Texts
    from critiqor.comparison.trends import Trends
    from critiqor.model.report import RunSummary


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@runs_dir_option
@click.option("--agent", help="Agent whose runs to show.  [default: the only agent in this folder]")
@click.option("--tenant", help="Tenant whose runs to show.  [default: the only tenant with runs of that agent]")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the newest N runs.")
@fleet_option
@json_option
def trends(runs_dir: str, agent: str | None, tenant: str | None, last: int | None, fleet: bool, as_json: bool) -> None:
    """Follow the runs of one agent over time: trust, cost, time, and recurring problems.

    With --fleet, over its runs on all hosts: the newest 1,000, if --last does not say otherwise.
    """
    if fleet:
        from critiqor.cli.fleet.trends import fleet_trends

        _answer(*fleet_trends(agent, tenant, last), as_json=as_json)
        return
    from critiqor.cli.texts.trends import choose_agent, refuse_tenants
    from critiqor.comparison.figures import format_figures
    from critiqor.comparison.trends import trends_of
    from critiqor.model.verdict import fresh_verdict
    from critiqor.run.store import RunStore
    from critiqor.run.view import summarize_runs

    summaries = summarize_runs(RunStore(runs_dir))
    summaries = _within_tenant(summaries, tenant)
    name = choose_agent({each.metadata.agent_id for each in summaries if each.metadata}, agent)
    refuse_tenants(
        {each.metadata.tenant_id for each in summaries if each.metadata and each.metadata.agent_id == name}, name
    )
    result = trends_of(name, summaries, last)
    diagnoses = {run.run_id: run.diagnosis for run in summaries if run.diagnosis is not None}
    texts = {run_id: format_figures(each, fresh_verdict(each)) for run_id, each in diagnoses.items()}
    _answer(result, texts, as_json=as_json)


def _answer(result: Trends, texts: Texts, *, as_json: bool) -> None:
    from critiqor.cli.texts.trends import trends_text

    answer("trends", result, trends_text(result, texts), as_json=as_json, drawing=lambda: _drawing(result, texts))


def _drawing(result: Trends, texts: Texts) -> RenderableType:
    from critiqor.cli.drawings.trends import trends_drawing

    return trends_drawing(result, texts)


def _within_tenant(summaries: Sequence[RunSummary], tenant: str | None) -> list[RunSummary]:
    """Return the runs of a tenant, or all; a run whose record cannot be read can be anybody's and is kept."""
    found = [each for each in summaries if tenant is None or each.metadata is None or each.metadata.tenant_id == tenant]
    if tenant is not None and all(each.metadata is None for each in found):
        raise UsageError(f"there are no runs of tenant {tenant!r}", fix="critiqor runs")
    return found
