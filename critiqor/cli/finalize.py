"""`critiqor finalize`."""

from __future__ import annotations

import click

from critiqor.cli.output import answer, json_option, runs_dir_option


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@runs_dir_option
@click.option("--no-dashboard", is_flag=True, help="Do not open the dashboard afterwards.")
@json_option
def finalize(runs_dir: str, no_dashboard: bool, as_json: bool) -> None:
    """Seal the evidence of the active session and diagnose it.

    Can be typed while the agent still runs: what was recorded until then is sealed. After a crash or a kill, type it
    again: the evidence comes out the same.
    """
    from critiqor.cli.summary import run_summary
    from critiqor.session import finalize_session

    record = finalize_session(runs_dir=runs_dir)
    answer("finalize", record, run_summary(record, runs_dir), as_json=as_json)
