"""`critiqor finalize [RUN]`."""

from __future__ import annotations

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer, say
from critiqor.cli.running_agent import warn_if_running


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", required=False, shell_complete=run_names)
@runs_dir_option
@click.option("--no-dashboard", is_flag=True, help="Do not open the dashboard.")
@json_option
def finalize(run: str | None, runs_dir: str, no_dashboard: bool, as_json: bool) -> None:
    """Seal the evidence of the active session, or of RUN, and diagnose it.

    Can be typed while the agent still runs: what was recorded until then is sealed, and the agent runs on unrecorded;
    `critiqor abort --stop RUN` ends it. After a crash or a kill, type it again: the evidence comes out the same.

    With a terminal and a display, and outside CI, the dashboard is opened afterwards.
    """
    from critiqor.cli.progress import finalize_progress
    from critiqor.cli.summary import run_drawing, run_summary
    from critiqor.run.lifecycle import complete_session

    with finalize_progress(run, runs_dir) as observe:
        record = complete_session(run, runs_dir, observe)
    text = run_summary(record, runs_dir)
    answer("finalize", record, text, as_json=as_json, drawing=lambda: run_drawing(record, runs_dir))
    warn_if_running(record["run_id"], runs_dir)
    if not no_dashboard and not as_json:
        from critiqor.cli.browser import has_display, is_interactive

        if has_display():
            from critiqor.cli.verbs.dashboard import open_dashboard

            open_dashboard(record["run_id"], runs_dir)
        elif is_interactive():
            say(
                add_runs_dir(
                    f"there is no display to open the dashboard on; its link: critiqor dashboard {record['run_id']}"
                )
            )
