"""`critiqor abort`."""

from __future__ import annotations

from typing import Any

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer
from critiqor.cli.running_agent import warn_if_running


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", required=False, shell_complete=run_names)
@runs_dir_option
@click.option("--reason", default="aborted on request", show_default=True, help="Why, for the record.")
@click.option("--stop", is_flag=True, help="End OpenClaw and everything that it started first.")
@json_option
def abort(run: str | None, runs_dir: str, reason: str, stop: bool, as_json: bool) -> None:
    """Give up the active session, or RUN. What was recorded is kept and can still be diagnosed.

    The agent runs on, and nobody records it. With --stop it is ended first, with everything that it started: asked, and
    killed after a few seconds. That can be typed later as well, and for a run that was finalized while the agent ran.
    """
    from critiqor.run.lifecycle import abort_session, load_active_session, load_record_head

    if run is None:
        run = (load_active_session(runs_dir) or {}).get("run_id")
    ended, is_completed = None, False
    if stop and run is not None:
        from critiqor.recording.stop import stop_agent

        ended = stop_agent(run, runs_dir)
        is_completed = load_record_head(run, runs_dir)["status"] == "COMPLETED"
    if is_completed and run is not None:
        record = load_record_head(run, runs_dir)
    else:
        record = abort_session(run, reason=reason, runs_dir=runs_dir)
    data = {"run_id": record["run_id"], "status": record["status"], "reason": reason}
    if ended is not None:
        data["processes_ended"] = ended
    answer("abort", data, "\n".join(_lines(record, ended)), as_json=as_json)
    if ended is None:
        warn_if_running(record["run_id"], runs_dir)


def _lines(record: dict[str, Any], ended: int | None) -> list[str]:
    from critiqor.model.formatting import counted

    run_id, status = record["run_id"], record["status"]
    completed = status == "COMPLETED"
    kept = f"{run_id} is {status} and stays so." if completed else f"{run_id} is {status}; its evidence is kept."
    following = f"Next: {add_runs_dir(f'critiqor show {run_id}' if completed else f'critiqor diagnose {run_id}')}"
    if ended is None:
        return [kept, following]
    stopped = f"OpenClaw is stopped: {counted(ended, 'process', 'processes')} ended." if ended else "Nothing of it ran."
    return [stopped, kept, following]
