"""`critiqor detach openclaw`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from critiqor.cli.options import json_option, openclaw_command_option
from critiqor.cli.output import answer, say

if TYPE_CHECKING:
    from critiqor.recording.attach import Detached


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def detach() -> None:
    """Remove the recorder from an agent that runs as a service."""


@detach.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@openclaw_command_option
@click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
@json_option
def openclaw(arguments: tuple[str, ...], openclaw_command: str, dry_run: bool, as_json: bool) -> None:
    """Remove the recorder from OpenClaw, and restore its settings.

    Recording stops at once. A run that was being recorded is kept and can be finalized.

    ARGUMENTS after `--` select the OpenClaw instance: `--profile NAME` or `--dev`.
    """
    from critiqor.recording.attach import AttachOptions, detach_openclaw

    options = AttachOptions(openclaw_command=openclaw_command, arguments=arguments, dry_run=dry_run)
    detached = detach_openclaw(options, say=say)
    answer("detach", detached, _text(detached, arguments), as_json=as_json)


def _text(detached: Detached, arguments: tuple[str, ...]) -> str:
    if not detached.changes:
        return f"Nothing is attached to {detached.configuration}."
    if detached.dry_run:
        next_command = shlex.join(("critiqor", "detach", "openclaw", *(("--", *arguments) if arguments else ())))
        return (
            f"This would remove the recorder from {detached.configuration}. Nothing was changed.\nNext: {next_command}"
        )
    lines = [_outcome(detached)]
    if detached.run_id is not None:
        lines.append(f"Next: critiqor finalize {detached.run_id} --runs-dir {detached.runs_dir}")
    return "\n".join(lines)


def _outcome(detached: Detached) -> str:
    """Return how the configuration was changed."""
    if not detached.restored and not detached.rewritten:
        return (
            f"Recording has stopped. You added the recorder to {detached.configuration} by hand, so that entry was "
            "kept."
        )
    out = f"The recorder was removed from {detached.configuration}"
    if detached.restored:
        return f"{out}. The original file was restored byte for byte."
    backup = "no backup exists" if detached.backup is None else f"{detached.backup}"
    return (
        f"{out}. The other settings were kept, in OpenClaw's own format. The file as it was before attaching: {backup}."
    )
