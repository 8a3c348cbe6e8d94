"""`critiqor attach openclaw`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from critiqor.cli.options import (
    drop_unset,
    json_option,
    metadata_options,
    openclaw_command_option,
    runs_dir_option,
    segment_option,
    slot_option,
)
from critiqor.cli.output import answer, say

if TYPE_CHECKING:
    from critiqor.recording.attach import Attached


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def attach() -> None:
    """Record an agent that already runs as a service."""


@attach.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@runs_dir_option
@slot_option
@segment_option("24h")
@openclaw_command_option
@click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
@metadata_options
@json_option
def openclaw(
    arguments: tuple[str, ...],
    runs_dir: str,
    slot: str | None,
    segment: str | None,
    openclaw_command: str,
    dry_run: bool,
    as_json: bool,
    **metadata: Any,
) -> None:
    """Add the recorder to an OpenClaw instance that Critiqor did not launch, and start a run.

    Every change is made with OpenClaw's own commands, printed beforehand, and undone by `critiqor detach openclaw`.
    After `critiqor finalize`, attach again to record the next run; this does not change OpenClaw again. While
    `critiqor guard` runs, it cuts the recording into segments that are sealed and diagnosed one by one.

    ARGUMENTS after `--` select the OpenClaw instance: `--profile NAME` or `--dev`.

    \b
    critiqor attach openclaw --dry-run
    critiqor attach openclaw
    critiqor attach openclaw -- --profile work
    """
    from critiqor.recording.attach import AttachOptions, attach_openclaw

    options = AttachOptions(
        runs_dir=runs_dir,
        slot=slot,
        segment=segment,
        openclaw_command=openclaw_command,
        arguments=arguments,
        dry_run=dry_run,
        metadata=drop_unset(metadata),
    )
    attached = attach_openclaw(options, say=say)
    answer("attach", attached, _text(attached, arguments), as_json=as_json)


def _text(attached: Attached, arguments: tuple[str, ...]) -> str:
    chosen = ("openclaw", *(("--", *arguments) if arguments else ()))
    if attached.dry_run:
        what = "This would change" if attached.changes else "Nothing would change in"
        next_command = shlex.join(("critiqor", "attach", *chosen))
        return f"{what} {attached.configuration}. Nothing was changed.\nNext: {next_command}"
    lines = [f"{attached.run_id} is being recorded in {attached.runs_dir}."]
    if attached.changes:
        back = shlex.join(("critiqor", "detach", *chosen))
        lines.append(f"{attached.configuration} was changed as printed above; to undo it: {back}")
    if not attached.recorder_seen:
        restart = shlex.join(("openclaw", *arguments, "gateway", "restart"))
        lines.append(f"No running gateway has loaded the recorder yet. Restart it: {restart}")
    lines.append(f"Next: critiqor finalize {attached.run_id} --runs-dir {attached.runs_dir}")
    return "\n".join(lines)
