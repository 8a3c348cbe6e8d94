"""`critiqor agent`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from critiqor.cli.options import json_option
from critiqor.cli.output import answer, say
from critiqor.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from critiqor.agentloop.runs import AgentParams, RunOutcome

RECORDED = 'critiqor monitor openclaw --openclaw-command "python -m critiqor.agentloop" -- agent --local --message "…"'
THINKING = ("off", "minimal", "low", "medium", "high", "xhigh", "max")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-m", "--message", required=True, help="Message to the agent.")
@click.option("--agent", "agent_id", help="Agent to send the message to.  [default: main]")
@click.option("--session-key", help="Session to continue: a name, or agent:AGENT:NAME.  [default: main]")
@click.option("--session-id", help="The transcript to continue.")
@click.option("--model", help="PROVIDER/MODEL for this message.")
@click.option("--thinking", type=click.Choice(THINKING), help="How much the model reasons.")
@click.option("--verbose", is_flag=True, help="Show which tools were used.")
@click.option("--timeout", type=click.FloatRange(min=0), help="Time limit of the agent run in seconds; 0 for no limit.")
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Configuration in OpenClaw's format.  [default: the one that OpenClaw would read]",
)
@click.option("--local", is_flag=True, help="Run in this process, even if an agent server is running.")
@json_option
@click.pass_context
def agent(
    ctx: click.Context,
    /,
    config: Path | None,
    local: bool,
    as_json: bool,
    verbose: bool,
    timeout: float | None,
    **options: Any,
) -> None:
    """Run an agent on one message in the embedded loop, without Node.

    It works with any OpenAI-compatible server, follows the loop of OpenClaw, and reads the same configuration:

    \b
    critiqor agent --message "what is in this folder?"
    critiqor agent --config my.json --session-key tidy --message "go on"
    critiqor monitor openclaw --openclaw-command critiqor-agentloop -- agent --local --message "…"
    """
    import asyncio
    import contextlib
    import os
    import sys

    from critiqor.agentloop.entry.single_run import error_to_print, exit_code, texts_to_print
    from critiqor.agentloop.loop.run_result import build_report
    from critiqor.agentloop.runs import AgentParams

    _say_unrecorded(dict(os.environ))
    params = AgentParams(**options, verbose="on" if verbose else None, timeout_seconds=timeout)
    # A channel may deliver to standard output, where the JSON document must be alone.
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        outcome = asyncio.run(_turn(dict(os.environ), params, config, local=local))
    text = "\n\n".join(texts_to_print(outcome))
    if text or as_json:
        answer("agent", build_report(outcome), text, as_json=as_json)
    error = error_to_print(outcome)
    if error is not None and not as_json:
        say(error)
    ctx.exit(ExitCode.TIMED_OUT if outcome.abort_kind == "timeout" else exit_code(outcome))


def _say_unrecorded(environment: dict[str, str]) -> None:
    """Say that this agent run is not recorded, unless a monitor launched it."""
    import sys

    if "CRITIQOR_RUN_ID" not in environment and sys.stderr is not None and sys.stderr.isatty():
        say(f"this message is not recorded; to record: {RECORDED}")


async def _turn(environment: dict[str, str], params: AgentParams, config: Path | None, *, local: bool) -> RunOutcome:
    import contextlib

    from critiqor.agentloop.configuration import locate_loop_configuration
    from critiqor.agentloop.entry.client import NoServerError, run_on_server
    from critiqor.agentloop.entry.server import socket_path
    from critiqor.agentloop.entry.single_run import run_once

    place = locate_loop_configuration(environment, config)
    if params.agent_id is not None:
        _check_agent(params.agent_id, place.path)
    path = socket_path(place.state_folder)
    if not local and config is None and path.exists():
        # A server that was killed leaves its socket behind.
        with contextlib.suppress(NoServerError):
            return await run_on_server(path, params)
    return await run_once(environment, params, config)


def _check_agent(agent_id: str, configuration: Path) -> None:
    from critiqor.agentloop.configuration import read_loop_configuration

    known = read_loop_configuration(configuration).agents
    if agent_id not in known:
        message = f"{configuration} has no agent {agent_id!r}; known agents: {', '.join(known)}"
        raise UsageError(message, fix="use --agent with one of these, or add the agent to agents.list")
