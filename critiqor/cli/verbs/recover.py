"""`critiqor recover [RUN]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import lost_run_names
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import drop_unset, json_option, metadata_options, runs_dir_option
from critiqor.cli.output import answer

if TYPE_CHECKING:
    from critiqor.run.recovery import Recovery


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", required=False, shell_complete=lost_run_names)
@runs_dir_option
@metadata_options
@json_option
def recover(run: str | None, runs_dir: str, as_json: bool, **metadata: str | None) -> None:
    """Rebuild the record of RUN, runs/RUN.json, if it was lost or cannot be read; default: the only such run.

    The new record is made from the journal, the evidence and the diagnosis of RUN, which are not changed. A record that
    cannot be read is kept as runs/RUN/record.damaged.json, and what can be read of it is used. The options replace what
    only the lost record had.
    """
    from critiqor.run.recovery import recover as recover_run
    from critiqor.run.recovery import run_to_recover
    from critiqor.run.store import RunStore

    store = RunStore(runs_dir)
    result = recover_run(run_to_recover(store) if run is None else store.run(run), drop_unset(metadata))
    answer("recover", result, _text(result), as_json=as_json)


def _text(result: Recovery) -> str:
    lines = [f"{result.run_id} is {result.status} again"]
    lines += [f"  restored      {sentence}" for sentence in result.restored]
    lines += [f"  not restored  {sentence}" for sentence in result.lost]
    verb = {"COMPLETED": "verify", "ABORTED": "diagnose"}.get(result.status, "finalize")
    return "\n".join([*lines, f"Next: {add_runs_dir(f'critiqor {verb} {result.run_id}')}"])
