"""`critiqor abort`."""

from __future__ import annotations

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option, slot_option
from critiqor.cli.output import answer
from critiqor.cli.running_agent import warn_if_running


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", required=False, shell_complete=run_names)
@runs_dir_option
@slot_option
@click.option("--reason", default="aborted on request", show_default=True, help="Reason, stored in the run record.")
@click.option("--stop", is_flag=True, help="First stop OpenClaw and all processes it started.")
@json_option
def abort(run: str | None, runs_dir: str, slot: str | None, reason: str, stop: bool, as_json: bool) -> None:
    """Abort the active run, or the given RUN. Recorded events are kept and can still be diagnosed.

    The agent keeps running without being recorded. With --stop, the agent and all processes that it started are
    terminated first, and killed after a few seconds. --stop also works later, and for a run that was finalized while
    the agent was running.
    """
    from critiqor.run.store import RunStore
    from critiqor.session import abort_session

    store = RunStore(runs_dir)
    active = store.active(slot) if run is None else store.run(run)
    run = None if active is None else active.id
    ended, is_completed = None, False
    if stop and active is not None:
        from critiqor.recording.stop import stop_agent

        ended = stop_agent(active.id, runs_dir)
        is_completed = active.head().status == "COMPLETED"
    if is_completed and active is not None:
        run_id, status = active.id, "COMPLETED"
    else:
        record = abort_session(run, reason=reason, runs_dir=runs_dir, slot=slot)
        run_id, status = record["run_id"], record["status"]
    data: dict[str, object] = {"run_id": run_id, "status": status, "reason": reason}
    if ended is not None:
        data["processes_ended"] = ended
    answer("abort", data, "\n".join(_lines(run_id, status, ended)), as_json=as_json)
    if ended is None:
        warn_if_running(run_id, runs_dir)


def _lines(run_id: str, status: str, ended: int | None) -> list[str]:
    from critiqor.model.formatting import counted

    completed = status == "COMPLETED"
    kept = f"{run_id} stays {status}." if completed else f"{run_id} is {status}; its evidence is kept."
    following = f"Next: {add_runs_dir(f'critiqor show {run_id}' if completed else f'critiqor diagnose {run_id}')}"
    if ended is None:
        return [kept, following]
    stopped = (
        f"OpenClaw is stopped: {counted(ended, 'process', 'processes')} ended."
        if ended
        else "No process of this run was running."
    )
    return [stopped, kept, following]
