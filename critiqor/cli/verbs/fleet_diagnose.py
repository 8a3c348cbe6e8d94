"""`critiqor fleet diagnose`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.options import json_option, store_option, where_option
from critiqor.cli.output import answer, say
from critiqor.cli.progress import work_progress
from critiqor.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from critiqor.fleet.compute.changes import ChangeReport, RunChange

SHOWN = 20
"""Maximum number of lines of each part of the report; --json has more."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@where_option
@store_option
@click.option("--cluster", metavar="ADDRESS", help="Scheduler of a Dask cluster that computes: tcp://HOST:8786.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes on this machine.  [default: one per core]")
@json_option
@click.pass_context
def diagnose(
    ctx: click.Context,
    where: str | None,
    store_url: str | None,
    cluster: str | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Diagnose the runs of a store again with the installed rule set, and print what that changes.

    \b
    critiqor fleet diagnose
    critiqor fleet diagnose --where 'run.host == "build-7" && run.created_at >= "2026-11-01"'
    critiqor fleet diagnose --cluster tcp://scheduler:8786

    An expression sees run.host, run_id, seal, agent_id, tenant_id, visibility, benchmark_id, created_at, sealed_at,
    events, rule_set, verdict, critiqor_version, openclaw_version and is_signed. Each diagnosis becomes an object of the
    store; what is there is not computed again, so after an interruption type the same command again. Exit code 1 if a
    run could not be diagnosed.
    """
    from critiqor.cli.text_layout import page
    from critiqor.fleet.compute.executor import open_workers
    from critiqor.fleet.compute.rediagnosis import diagnose_store
    from critiqor.fleet.compute.selection import RunSelection
    from critiqor.fleet.settings import required_store
    from critiqor.fleet.store.object_store import open_store

    if cluster is not None and workers is not None:
        raise UsageError("--workers has no effect with --cluster", fix="start more workers: dask worker ADDRESS")
    selection = RunSelection(where)
    store = open_store(required_store(store_url))
    with (
        open_workers(cluster, workers) as computing,
        work_progress("diagnosing", "run", lambda: sum(1 for _ in store.list("manifests"))) as advance,
    ):
        report = diagnose_store(store, selection, computing, advance=advance, notice=say)
    answer("fleet diagnose", report, page(_lines(report)), as_json=as_json)
    ctx.exit(ExitCode.ERROR if report.failed else ExitCode.OK)


def _lines(report: ChangeReport) -> list[str]:
    from critiqor.cli.text_layout import table
    from critiqor.model.formatting import counted

    parts = [f"{report.diagnosed} diagnosed with rule set {report.rule_set}"]
    parts += [f"{report.already_diagnosed} diagnosed before"] if report.already_diagnosed else []
    parts += [f"{report.same_rule_set} have this rule set or a newer one"] if report.same_rule_set else []
    parts += [f"{report.without_content} were pushed without content"] if report.without_content else []
    parts += [f"{report.failed} failed"] if report.failed else []
    lines = [f"{counted(report.selected, 'run')}: {', '.join(parts)}"]
    if report.different:
        trust = f"trust fell in {report.trust_fell}, rose in {report.trust_rose}"
        lines.append(f"{counted(report.different, 'run')} changed: {trust}")
        lines += [f"  {change}: {count}" for change, count in report.verdicts.items()]
        counts = [
            (each.type, each.agent_id, str(each.gone), str(each.new), str(each.changed)) for each in report.findings
        ]
        lines += ["", *table([("failure type", "agent", "gone", "new", "changed"), *counts[:SHOWN]], indent="  ")]
        lines += [*_more(len(counts)), "", *(f"  {_change_line(each)}" for each in report.runs[:SHOWN])]
        lines += _more(report.different)
    elif report.diagnosed or report.already_diagnosed:
        lines.append("nothing changed")
    if report.problems:
        lines += ["", "not diagnosed:"]
        lines += [f"  {each.host_id}/{each.run_id}: {each.problem}" for each in report.problems[:SHOWN]]
        lines += _more(report.failed)
    lines += [f"left out: {each}" for each in report.unusable[:SHOWN]]
    if report.diagnosed:
        lines.append("Next: critiqor fleet reindex   for lists and pages that show the new verdicts")
    return lines


def _more(number: int) -> list[str]:
    return [f"  and {number - SHOWN} more: --json lists them"] if number > SHOWN else []


def _change_line(change: RunChange) -> str:
    """Return what changed in one run, in a line."""
    parts = [f"gone {each.cause}" for each in change.gone] + [f"new {each.cause}" for each in change.new]
    parts += [f"changed {each.cause}" for each in change.changed]
    if change.trust != change.previous_trust:
        parts.insert(0, f"trust {change.previous_trust} → {change.trust}")
    if change.verdict != change.previous_verdict:
        parts.insert(0, f"{change.previous_verdict} → {change.verdict}")
    return f"{change.host_id}/{change.run_id}  {'; '.join(parts)}"
