"""`critiqor abort`."""

from __future__ import annotations

import click

from critiqor.cli.hints import pasted
from critiqor.cli.names import run_names
from critiqor.cli.output import answer, json_option, runs_dir_option


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", required=False, shell_complete=run_names)
@runs_dir_option
@click.option("--reason", default="aborted on request", show_default=True, help="Why, for the record.")
@json_option
def abort(run: str | None, runs_dir: str, reason: str, as_json: bool) -> None:
    """Give up the active session, or RUN. What was recorded is kept and can still be diagnosed."""
    from critiqor.session import abort_session

    record = abort_session(run, reason=reason, runs_dir=runs_dir)
    run_id = record["run_id"]
    text = f"{run_id} is ABORTED; its evidence is kept.\nNext: {pasted(f'critiqor diagnose {run_id}')}"
    answer("abort", {"run_id": run_id, "status": record["status"], "reason": reason}, text, as_json=as_json)
