"""`critiqor agent`, `critiqor agent wait AGENT_RUN`, `… cancel ID`, `… schedule`, `… scheduled`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import click

from critiqor.cli.options import json_option
from critiqor.cli.output import answer, say
from critiqor.errors import CritiqorError, ExitCode, UsageError

if TYPE_CHECKING:
    from critiqor.agentloop.event_streams import AgentEvent
    from critiqor.agentloop.runs import AgentParams, RunOutcome

RECORDED = 'critiqor monitor openclaw --openclaw-command "python -m critiqor.agentloop" -- agent --local --message "…"'
THINKING = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
QUEUE_MODES = ("steer", "followup", "collect", "interrupt")
START_SERVER = "start an agent server: critiqor-agentloop gateway run"
_HELP = {"help_option_names": ["-h", "--help"]}
_Function = TypeVar("_Function", bound=Callable[..., Any])
_MESSAGE_OPTIONS = (
    click.option("--agent", "agent_name", help="Agent to send the message to.  [default: main]"),
    click.option("--session-key", help="Session to continue: a name, or agent:AGENT:NAME.  [default: main]"),
    click.option("--session-id", help="The transcript to continue."),
    click.option("--model", help="PROVIDER/MODEL for this message."),
    click.option("--thinking", type=click.Choice(THINKING), help="How much the model reasons."),
    click.option("--verbose", is_flag=True, help="Show which tools were used."),
    click.option("--channel", help="Chat channel of the message, and of the replies with --deliver."),
    click.option("--to", help="Recipient of the replies."),
    click.option("--deliver", is_flag=True, help="Send the replies to the channel."),
    click.option(
        "--timeout", type=click.FloatRange(min=0), help="Time limit of the agent run in seconds; 0 for no limit."
    ),
)


def _message_options(function: _Function) -> _Function:
    for option in reversed(_MESSAGE_OPTIONS):
        function = option(function)
    return function


@click.group(invoke_without_command=True, context_settings=_HELP)
@click.option("-m", "--message", help="Message to the agent.")
@_message_options
@click.option("--queue-mode", type=click.Choice(QUEUE_MODES), help="What to do while the session is busy.")
@click.option("--trace", is_flag=True, help="Print what each prompt consists of.")
@click.option("--wait/--no-wait", default=True, help="Wait for the reply, or print the id of the agent run.")
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
    message: str | None,
    config: Path | None,
    local: bool,
    wait: bool,
    as_json: bool,
    trace: bool,
    **options: Any,
) -> None:
    """Run an agent on one message in the embedded loop, without Node.

    It works with any OpenAI-compatible server, follows the loop of OpenClaw, and reads the same configuration. If an
    agent server runs (`critiqor-agentloop gateway run`), it runs the agent:

    \b
    critiqor agent --message "what is in this folder?"
    critiqor agent --config my.json --session-key tidy --message "go on"
    critiqor agent --no-wait --message "count the files"           prints the id of the agent run
    critiqor monitor openclaw --openclaw-command critiqor-agentloop -- agent --local --message "…"
    """
    if ctx.invoked_subcommand is not None:
        return
    import asyncio
    import contextlib
    import os
    import sys

    from critiqor.agentloop.entry.single_run import error_to_print, texts_to_print
    from critiqor.agentloop.loop.run_result import build_report

    if message is None:
        raise click.UsageError("Missing option '-m' / '--message'.", ctx)
    environment = dict(os.environ)
    _say_unrecorded(environment)
    params = _params(message, trace="on" if trace else None, **options)
    place = _Place(environment, config, local=local)
    place.check_agent(params.agent_id)
    if not wait:
        _start(params, place, as_json=as_json)
        return
    # A channel may deliver to standard output, where the JSON document must be alone.
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        turn = asyncio.run(_turn(params, place))
    data = build_report(turn.outcome, turn.transport)
    traces = turn.traces if trace else []
    if trace:
        data["meta"]["traces"] = traces
    text = "\n\n".join(texts_to_print(turn.outcome))
    if not as_json:
        for report in traces:
            say(_describe_trace(report))
    if text or as_json:
        answer("agent", data, text, as_json=as_json)
    error = error_to_print(turn.outcome)
    if error is not None and not as_json:
        say(error)
    ctx.exit(_exit_code(turn.outcome))


@agent.command("wait", context_settings=_HELP)
@click.argument("agent_run")
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=30.0, show_default=True, help="How long to wait, in seconds."
)
@json_option
@click.pass_context
def wait_(ctx: click.Context, agent_run: str, timeout: float, as_json: bool) -> None:
    """Wait for the agent run AGENT_RUN of a running agent server, and print its reply. A timeout does not stop it."""
    import msgspec

    from critiqor.agentloop.entry.single_run import error_to_print, texts_to_print
    from critiqor.agentloop.loop.run_result import build_report
    from critiqor.agentloop.runs import RunOutcome

    result = _call("agent.wait", runId=agent_run, timeoutMs=timeout * 1000)
    if result["status"] == "timeout":
        answer("agent wait", result, f"{agent_run} is still running", as_json=as_json)
        ctx.exit(ExitCode.TIMED_OUT)
    document = _call("agent.outcome", runId=agent_run)
    outcome = msgspec.convert(document, type=RunOutcome)
    result["payloads"] = document["payloads"]
    if outcome.delivery is not None:
        result["deliveryStatus"] = build_report(outcome)["deliveryStatus"]
    text = "\n\n".join(texts_to_print(outcome))
    if not outcome.payloads:
        text = f"{agent_run} ended without a reply"
    if text or as_json:
        answer("agent wait", result, text, as_json=as_json)
    error = error_to_print(outcome)
    if error is not None and not as_json:
        say(error)
    ctx.exit(_exit_code(outcome))


@agent.command(context_settings=_HELP)
@click.argument("run_or_schedule", metavar="ID")
@json_option
def cancel(run_or_schedule: str, as_json: bool) -> None:
    """Cancel an agent run, or a schedule, of a running agent server. ID is what was printed when it was started."""
    if _call("agent.unschedule", id=run_or_schedule)["removed"]:
        answer("agent cancel", {"id": run_or_schedule, "kind": "schedule"}, "the schedule was removed", as_json=as_json)
        return
    if not _call("agent.cancel", runId=run_or_schedule, reason="cancelled by the user")["cancelled"]:
        message = f"there is no agent run in progress and no schedule with the id {run_or_schedule}"
        raise CritiqorError(message, fix="critiqor agent scheduled")
    answer("agent cancel", {"id": run_or_schedule, "kind": "run"}, "the agent run was cancelled", as_json=as_json)


@agent.command(context_settings=_HELP)
@click.option("-m", "--message", required=True, help="Message to the agent.")
@click.option("--in", "delay", type=click.FloatRange(min=0), help="Seconds until the first agent run.")
@click.option("--at", "moment", metavar="TIME", help="Time of the first agent run: 2026-11-30T08:00, or with +01:00.")
@click.option("--every", type=click.FloatRange(min=1), help="Seconds between repetitions.")
@_message_options
@json_option
def schedule(
    message: str, delay: float | None, moment: str | None, every: float | None, as_json: bool, **options: Any
) -> None:
    """Let a running agent server run an agent later, or repeatedly, each time in a new session unless one is given.

    \b
    critiqor agent schedule --in 600 --message "check the build"
    critiqor agent schedule --at 2026-11-30T08:00 --every 86400 --message "summarise the news"
    critiqor agent scheduled                   list what is scheduled
    """
    from critiqor.agentloop.entry.client import as_request

    at = _moment(delay, moment)
    if at is None and every is None:
        raise UsageError("the agent run has no time", fix="give --in, --at or --every")
    times = {name: value for name, value in (("at", at), ("everySeconds", every)) if value is not None}
    run = _call("agent.schedule", **as_request(_params(message, **options)), **times)
    answer("agent schedule", run, f"{run['id']}  {_line(run)}", as_json=as_json)


@agent.command(context_settings=_HELP)
@json_option
def scheduled(as_json: bool) -> None:
    """List the agent runs that a running agent server will start."""
    runs = _call("agent.scheduled")
    lines = [f"{run['id']}  {_line(run)}" for run in runs]
    answer("agent scheduled", runs, "\n".join(lines) or "nothing is scheduled", as_json=as_json)


def _exit_code(outcome: RunOutcome) -> int:
    from critiqor.agentloop.entry.single_run import exit_code

    return ExitCode.TIMED_OUT if outcome.abort_kind == "timeout" else exit_code(outcome)


class _Turn(NamedTuple):
    outcome: RunOutcome
    transport: Literal["embedded", "gateway"]
    traces: list[dict[str, Any]]


class _Place:
    """Where an agent runs: in this process, or on a server."""

    def __init__(self, environment: dict[str, str], config: Path | None, *, local: bool) -> None:
        from critiqor.agentloop.configuration import locate_loop_configuration
        from critiqor.agentloop.entry.server import socket_path

        self.environment = environment
        self.config = config
        self._location = locate_loop_configuration(environment, config)
        socket = socket_path(self._location.state_folder)
        self.socket = socket if not local and config is None and socket.exists() else None
        """The socket of a server that may be running; None to run in this process."""

    def check_agent(self, agent_id: str | None) -> None:
        from critiqor.agentloop.configuration import read_loop_configuration

        if agent_id is None:
            return
        known = read_loop_configuration(self._location.path).agents
        if agent_id not in known:
            message = f"{self._location.path} has no agent {agent_id!r}; known agents: {', '.join(known)}"
            raise UsageError(message, fix="use --agent with one of these, or add the agent to agents.list")


def _params(
    message: str, *, agent_name: str | None, verbose: bool, timeout: float | None, **options: Any
) -> AgentParams:
    from critiqor.agentloop.runs import AgentParams

    level: Literal["on"] | None = "on" if verbose else None
    return AgentParams(message=message, agent_id=agent_name, verbose=level, timeout_seconds=timeout, **options)


async def _turn(params: AgentParams, place: _Place) -> _Turn:
    import contextlib

    from critiqor.agentloop.entry.client import NoServerError, run_on_server
    from critiqor.agentloop.entry.single_run import run_once

    if place.socket is not None:
        # A server that was killed leaves its socket behind.
        with contextlib.suppress(NoServerError):
            served = await run_on_server(place.socket, params)
            return _Turn(served.outcome, "gateway", served.traces)
    traces: list[dict[str, Any]] = []

    def listen(event: AgentEvent) -> None:
        if event.stream == "run_status" and event.data.get("phase") == "trace":
            traces.append(event.data["report"])

    outcome = await run_once(place.environment, params, place.config, listener=listen)
    return _Turn(outcome, "embedded", traces)


def _start(params: AgentParams, place: _Place, *, as_json: bool) -> None:
    """Start an agent run on a server, and print its id."""
    from critiqor.agentloop.entry.client import as_request

    if place.socket is None:
        message = "without an agent server, the agent run would end with this command"
        raise UsageError(message, fix=f"{START_SERVER}, without --local and --config; or leave out --no-wait")
    accepted = _call("agent", **as_request(params))
    text = f"{accepted['runId']}\nNext: critiqor agent wait {accepted['runId']}"
    answer("agent", accepted, text, as_json=as_json)


def _call(method: str, **params: Any) -> Any:
    """Call a method of the running server."""
    import asyncio
    import os

    from critiqor.agentloop.configuration import locate_loop_configuration
    from critiqor.agentloop.entry.client import call_server
    from critiqor.agentloop.entry.server import socket_path

    path = socket_path(locate_loop_configuration(os.environ).state_folder)
    return asyncio.run(call_server(path, method, **params))


def _moment(delay: float | None, moment: str | None) -> int | None:
    """Return the time of --in or --at in milliseconds since 1970."""
    from datetime import datetime

    from critiqor.model import now_ms

    if delay is not None and moment is not None:
        raise UsageError("--in and --at are two times for one agent run", fix="leave out one of them")
    if moment is None:
        return None if delay is None else now_ms() + round(delay * 1000)
    try:
        return round(datetime.fromisoformat(moment).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"{moment!r} is not a time", fix="write it as 2026-11-30T08:00") from error


def _line(run: dict[str, Any]) -> str:
    from critiqor.model import iso_from_ms

    every = run.get("everySeconds")
    repeated = f", then every {every:g} s" if every is not None else ""
    problem = f"  (last time: {run['problem']})" if run.get("problem") else ""
    return f"{iso_from_ms(run['nextAt'])}{repeated}  {' '.join(run['params']['message'].split())[:80]}{problem}"


def _describe_trace(report: dict[str, Any]) -> str:
    files = ", ".join(file["name"] for file in report["bootstrapFiles"] if not file["missing"]) or "none"
    return (
        f"prompt for {report['model']}: {report['systemPromptChars']} characters of system prompt "
        f"({report['skillsChars']} of skills), bootstrap files: {files}, tools: {', '.join(report['tools'])}, "
        f"about {report['fixedTokens']} tokens in every request"
    )


def _say_unrecorded(environment: dict[str, str]) -> None:
    """Say that this agent run is not recorded, unless a monitor launched it."""
    import sys

    if "CRITIQOR_RUN_ID" not in environment and sys.stderr is not None and sys.stderr.isatty():
        say(f"this message is not recorded; to record: {RECORDED}")
