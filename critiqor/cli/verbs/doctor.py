"""`critiqor doctor`."""

from __future__ import annotations

import os

import click

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, openclaw_command_option, runs_dir_option
from critiqor.cli.output import answer, say
from critiqor.errors import ExitCode


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@runs_dir_option
@openclaw_command_option
@click.option(
    "--probe", "with_probe", is_flag=True, help="Test recording end to end: launch OpenClaw once with a scripted model."
)
@json_option
@click.pass_context
def doctor(ctx: click.Context, runs_dir: str, openclaw_command: str, with_probe: bool, as_json: bool) -> None:
    """Check that recording works on this machine; each failed check names its fix.

    The probe starts the real OpenClaw once, in a temporary home folder with a scripted model, and takes half a minute.
    """
    from critiqor.lab.doctor import probe, run_checks

    checks = list(run_checks(runs_dir, openclaw_command, os.environ))
    if with_probe and all(check.ok for check in checks if check.name in ("openclaw", "node")):
        say("recording one scripted message …")
        checks.append(probe(openclaw_command, os.environ))
    lines = []
    for check in checks:
        lines.append(f"{'ok ' if check.ok else 'NO '} {check.name}: {check.detail}")
        if check.fix:
            lines.append(f"     → {add_runs_dir(check.fix)}")
    answer("doctor", checks, "\n".join(lines), as_json=as_json)
    ctx.exit(ExitCode.OK if all(check.ok for check in checks) else ExitCode.ERROR)
