"""`critiqor monitor openclaw`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import drop_unset, metadata_options, openclaw_command_option, runs_dir_option
from critiqor.cli.output import say


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def monitor() -> None:
    """Launch an agent in this terminal and record it."""


@monitor.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@runs_dir_option
@openclaw_command_option
@metadata_options
@click.option(
    "--cwd", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Working folder for OpenClaw."
)
@click.option(
    "--timeout",
    envvar="CRITIQOR_TIMEOUT",
    type=click.FloatRange(min=0, min_open=True),
    help="Time limit in seconds, after which the whole process tree is terminated.",
)
@click.option("--no-timeline", is_flag=True, help="Do not ask OpenClaw for its diagnostics timeline.")
@click.option(
    "--deep-profile",
    is_flag=True,
    help="Profile every Node process. OpenClaw becomes slower; the run is marked as profiled.",
)
@click.pass_context
def openclaw(
    ctx: click.Context,
    /,
    arguments: tuple[str, ...],
    runs_dir: str,
    openclaw_command: str,
    cwd: Path | None,
    timeout: float | None,
    no_timeline: bool,
    deep_profile: bool,
    **metadata: Any,
) -> None:
    """Launch OpenClaw in this terminal with the recorder attached.

    ARGUMENTS after `--` are passed to OpenClaw; without any, `openclaw chat` is launched.

    \b
    critiqor monitor openclaw
    critiqor monitor openclaw -- agent --local --agent main --message "fix the tests"
    critiqor monitor openclaw -- gateway run --port 18789 --auth token
    """
    from critiqor.recording.monitor import DEFAULT_ARGUMENTS, MonitorOptions, monitor_openclaw

    options = MonitorOptions(
        runs_dir=runs_dir,
        openclaw_command=openclaw_command,
        arguments=arguments or DEFAULT_ARGUMENTS,
        cwd=cwd,
        timeout=timeout,
        timeline=not no_timeline,
        deep_profile=deep_profile,
        metadata=drop_unset(metadata),
    )
    ctx.exit(monitor_openclaw(options, say=lambda message: say(add_runs_dir(message))).exit_code)
