"""`critiqor monitor openclaw`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import (
    contracts_option,
    drop_unset,
    metadata_options,
    openclaw_command_option,
    read_policy_option,
    read_stream_options,
    runs_dir_option,
    segment_option,
    slot_option,
    stream_options,
)
from critiqor.cli.output import say
from critiqor.cli.settings import FOLDER_FILE
from critiqor.cli.verbs.check import check_run
from critiqor.errors import ExitCode, UsageError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def monitor() -> None:
    """Launch an agent in this terminal and record it."""


@monitor.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@runs_dir_option
@slot_option
@segment_option("off")
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
@contracts_option
@stream_options
@click.option("--no-live", is_flag=True, help="Do not diagnose the run while it is recorded.")
@click.option("--finalize", "finalizes", is_flag=True, help="Seal and diagnose the run when OpenClaw has ended.")
@click.option(
    "--check",
    "check_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Finalize, then check the run against this policy; exit code 3 if it fails. It is also the --policy.",
)
@click.option(
    "--capture",
    type=click.Choice(["prompts"]),
    multiple=True,
    help="Also keep what the model is sent: system prompt, tools and messages, redacted.",
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
    slot: str | None,
    segment: str | None,
    openclaw_command: str,
    cwd: Path | None,
    timeout: float | None,
    policy_file: Path | None,
    otlp_endpoint: str | None,
    otlp_content: bool,
    no_live: bool,
    finalizes: bool,
    check_file: Path | None,
    capture: tuple[str, ...],
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
    critiqor monitor openclaw --check policy.toml -- agent --local --agent main --message "fix the tests"
    """
    from critiqor.cli.alerts import LiveAlerts
    from critiqor.recording.monitor import DEFAULT_ARGUMENTS, MonitorOptions, monitor_openclaw
    from critiqor.storage import paths_for

    policy_file = policy_file or check_file
    # Without one, no rules are loaded, so that OpenClaw starts at once.
    has_policy = policy_file is not None or FOLDER_FILE.is_file()
    policy = read_policy_option(policy_file) if has_policy else None
    if policy is not None and policy.limits.given and no_live:
        raise UsageError("the limits of a policy need the live diagnosis", fix="leave out --no-live")
    stream = read_stream_options(otlp_endpoint, otlp_content)
    if stream is not None and no_live:
        raise UsageError("--otlp-endpoint needs the live diagnosis", fix="leave out --no-live")
    options = MonitorOptions(
        runs_dir=runs_dir,
        slot=slot,
        segment=segment,
        policy_file=policy_file,
        openclaw_command=openclaw_command,
        arguments=arguments or DEFAULT_ARGUMENTS,
        cwd=cwd,
        timeout=timeout,
        live=not no_live,
        policy=policy,
        stream=stream,
        timeline=not no_timeline,
        captures_prompts="prompts" in capture,
        deep_profile=deep_profile,
        metadata=drop_unset(metadata),
    )
    alerts = LiveAlerts.of_folders([paths_for(runs_dir).runs_dir], policy_file)
    result = monitor_openclaw(options, say=lambda message: say(add_runs_dir(message)), announce=alerts.announce)
    alerts.finish()
    code = result.exit_code
    if finalizes or check_file is not None:
        from critiqor.cli.verbs.finalize import finalize

        ctx.invoke(
            finalize,
            run=result.run_id,
            runs_dir=runs_dir,
            slot=None,
            policy_file=policy_file,
            no_dashboard=True,
            as_json=False,
        )
    if check_file is not None:
        passed = check_run(result.run_id, runs_dir, check_file)
        code = code or (ExitCode.OK if passed else ExitCode.GATE_FAILED)
    ctx.exit(code)
