"""`critiqor fleet export --parquet FOLDER`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from critiqor.cli.options import json_option, store_option, where_option
from critiqor.cli.output import answer
from critiqor.cli.progress import work_progress
from critiqor.errors import ExitCode

if TYPE_CHECKING:
    from critiqor.fleet.analytics.export import ParquetExport


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--parquet",
    "folder",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write Parquet files into this folder, which must be new or empty.",
)
@click.option(
    "--content", is_flag=True, help="Include messages, arguments, outputs, and the texts of findings and claims."
)
@where_option
@store_option
@json_option
@click.pass_context
def export(
    ctx: click.Context, folder: Path, content: bool, where: str | None, store_url: str | None, as_json: bool
) -> None:
    """Write the events, runs, findings and claims of a store as Parquet files by day and host.

    \b
    critiqor fleet export --parquet analytics
    duckdb -c "SELECT host, sum(cost_usd) FROM 'analytics/runs/**/*.parquet' GROUP BY host"

    docs/fleet.md describes the columns. Exit code 1 if a run could not be read.
    """
    from critiqor.cli.text_layout import page
    from critiqor.fleet.analytics.export import export_parquet
    from critiqor.fleet.compute.selection import RunSelection
    from critiqor.fleet.settings import required_store
    from critiqor.fleet.store.object_store import open_store

    selection = RunSelection(where)
    store = open_store(required_store(store_url))
    with work_progress("exporting", "run", lambda: sum(1 for _ in store.list("manifests"))) as advance:
        done = export_parquet(store, selection, folder, with_content=content, advance=advance)
    answer("fleet export", done, page(_lines(done)), as_json=as_json)
    ctx.exit(ExitCode.ERROR if done.failed else ExitCode.OK)


def _lines(done: ParquetExport) -> list[str]:
    from critiqor.cli.text_layout import table
    from critiqor.model.formatting import counted

    rows = [(each.table, f"{each.rows:,}", f"{each.files:,}") for each in done.tables]
    lines = [
        f"{counted(done.runs, 'run')} exported to {done.folder}",
        *table([("table", "rows", "files"), *rows], indent="  "),
    ]
    lines += [f"not exported: {each.host_id}/{each.run_id}: {each.problem}" for each in done.problems]
    return [*lines, *(f"left out: {each}" for each in done.unusable)]
