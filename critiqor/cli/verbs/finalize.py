"""`critiqor finalize [RUN]`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.fleet.background_push import push_sealed
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import contracts_option, json_option, read_policy_option, runs_dir_option, slot_option
from critiqor.cli.output import answer, say, warn_if_unsigned
from critiqor.cli.running_agent import warn_if_running

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.run.store import Run
    from critiqor.run.view import RunView


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", required=False, shell_complete=run_names)
@runs_dir_option
@slot_option
@contracts_option
@click.option("--no-dashboard", is_flag=True, help="Do not open the dashboard.")
@json_option
def finalize(
    run: str | None, runs_dir: str, slot: str | None, policy_file: Path | None, no_dashboard: bool, as_json: bool
) -> None:
    """Seal the evidence of the active run, or of the given RUN, and diagnose it.

    You can finalize while the agent is still running: what was recorded until then is sealed, and the agent continues
    without being recorded; `critiqor abort --stop RUN` ends it. After a crash or a kill, finalize again: the resulting
    evidence is the same.

    The contracts of the policy are checked, too. The findings are sent to the channels of the settings, if there are
    any, and the run is pushed to the store of the settings in the background, if there is one. With a terminal and a
    display, and outside CI, the dashboard opens afterwards.
    """
    from critiqor.cli.alerts import announce_findings, expect_alerts
    from critiqor.cli.garbage import paused_collection
    from critiqor.cli.progress import finalize_progress
    from critiqor.cli.settings import has_user_settings
    from critiqor.cli.texts.show import run_summary
    from critiqor.model import iso_from_ms, now_ms
    from critiqor.run.store import RunStore
    from critiqor.run.view import RunView
    from critiqor.session import complete_session

    contracts = read_policy_option(policy_file).contracts
    notifier = expect_alerts(run, runs_dir, policy_file, slot)
    began = iso_from_ms(now_ms())
    if has_user_settings():
        _expect_push(run, runs_dir, slot)
    with paused_collection(), finalize_progress(run, runs_dir, slot) as observe:
        record = complete_session(run, runs_dir, observe, contracts, slot)
    run_id: str = record["run_id"]
    view = RunView(RunStore(runs_dir).run(run_id))
    data = {**record, "diagnosis": view.diagnosis}
    answer("finalize", data, run_summary(view), as_json=as_json, drawing=lambda: _drawing(view))
    checked = {each.id for each in view.diagnosis.contracts} if view.diagnosis is not None else set()
    if not checked.issuperset(each.id for each in contracts):
        option = "" if policy_file is None else f" --policy {quote(str(policy_file))}"
        again = add_runs_dir(f"critiqor diagnose {run_id}{option}")
        say(f"{run_id} had been finalized before, so these contracts were not checked\n  → {again}")
    if notifier is not None:
        announce_findings(view.run, notifier)
    push_sealed([view.run], began)
    warn_if_unsigned(view.run)
    warn_if_running(run_id, runs_dir)
    _apply_retention(view.run)
    if not no_dashboard and not as_json:
        from critiqor.cli.browser import has_display, open_dashboard
        from critiqor.cli.terminal.capabilities import is_interactive

        if has_display():
            open_dashboard(run_id, runs_dir)
        elif is_interactive():
            say(
                add_runs_dir(
                    f"there is no display to open the dashboard on; to get its link: critiqor dashboard {run_id}"
                )
            )


def _expect_push(run: str | None, runs_dir: str, slot: str | None) -> None:
    """Remember that a run is to be pushed, in case this process is killed after it has sealed it."""
    from critiqor.fleet.store.after_seal import expect_push
    from critiqor.run.store import RunStore

    store = RunStore(runs_dir)
    named = store.run(run) if run else store.active(slot)
    if named is not None:
        expect_push(named)


def _apply_retention(run: Run) -> None:
    """Free the space that the rules of the settings allow: the journal of this run, and older runs."""
    from critiqor.cli.settings import read_retention

    rules = read_retention()
    if not rules.keep_journal:
        from critiqor.run.retention.journals import drop_journal

        drop_journal(run)
    if rules.removes_runs:
        from critiqor.model.formatting import counted
        from critiqor.run.retention.pruning import prune

        removed = prune(run.store, rules, keep=run.id).removed
        if removed:
            say(f"{counted(len(removed), 'older run')} removed by the rules of [retention]")


def _drawing(view: RunView) -> RenderableType:
    from critiqor.cli.drawings.show import run_drawing

    return run_drawing(view)
