"""`critiqor-agentloop`: accepts OpenClaw's command line, so it can be launched in place of OpenClaw.

    critiqor-agentloop agent --local --agent main --message "…"
    critiqor-agentloop chat
    critiqor-agentloop gateway run

The monitor launches it in the same way as OpenClaw, and `chat` by default:

    critiqor monitor openclaw --openclaw-command critiqor-agentloop
    critiqor monitor openclaw --openclaw-command critiqor-agentloop -- agent --local --message "…"
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path

from critiqor import __version__
from critiqor.errors import CritiqorError, ExitCode


def main(arguments: list[str] | None = None) -> int:
    """Run a command line of `critiqor-agentloop` and return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _build_parser().parse_args(given)
    try:
        return int(options.verb(options, given))
    except CritiqorError as error:
        print(_sanitize(str(error)), file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)


def _agent(options: argparse.Namespace, arguments: list[str]) -> int:
    import contextlib

    from critiqor.agentloop.entry.single_run import error_to_print, exit_code, run_once, texts_to_print
    from critiqor.agentloop.loop.run_result import build_report
    from critiqor.agentloop.runs import AgentParams

    params = AgentParams(
        message=options.message,
        agent_id=options.agent,
        session_key=options.session_key,
        session_id=options.session_id,
        run_id=options.run_id,
        model=options.model,
        thinking=options.thinking,
        verbose=options.verbose,
        timeout_seconds=options.timeout,
        channel=options.reply_channel or options.channel,
        to=options.reply_to or options.to,
        deliver=options.deliver,
    )
    # A channel may deliver to standard output, where the JSON document must be alone.
    with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext():
        outcome = asyncio.run(run_once(os.environ, params, options.config, arguments))
    if options.json:
        print(json.dumps(build_report(outcome), indent=2))
    else:
        for text in texts_to_print(outcome):
            print(_sanitize(text))
        error = error_to_print(outcome)
        if error is not None:
            print(_sanitize(error), file=sys.stderr)
    return exit_code(outcome)


def _chat(options: argparse.Namespace, arguments: list[str]) -> int:
    from critiqor.agentloop.entry.chat import run_chat
    from critiqor.agentloop.runs import AgentParams

    params = AgentParams(
        message=options.message,
        agent_id=options.agent,
        session_key=options.session,
        model=options.model,
        thinking=options.thinking,
        verbose=options.verbose,
    )
    return asyncio.run(run_chat(os.environ, params, options.config, arguments))


def _gateway(options: argparse.Namespace, arguments: list[str]) -> int:
    from critiqor.agentloop.entry.server import serve

    asyncio.run(serve(os.environ, options.socket, options.config, arguments))
    return int(ExitCode.OK)


def _install(options: argparse.Namespace, arguments: list[str]) -> int:
    from critiqor.agentloop.entry.runtime import open_runtime

    async def install() -> Path:
        async with open_runtime(os.environ, config=options.config, arguments=arguments) as runtime:
            installer = runtime.install_skill if options.kind == "skill" else runtime.install_plugin
            return await installer(options.folder)

    print(_sanitize(f"installed in {asyncio.run(install())}"))
    return int(ExitCode.OK)


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="critiqor-agentloop", description="An embedded agent loop.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"critiqor-agentloop {__version__}")
    parser.add_argument("--profile")
    parser.add_argument("--dev", action="store_true")
    verbs = parser.add_subparsers(required=True)
    agent = verbs.add_parser("agent", help="run one message", allow_abbrev=False)
    agent.set_defaults(verb=_agent)
    agent.add_argument("-m", "--message", required=True)
    agent.add_argument("-t", "--to")
    for name in ("--session-key", "--session-id", "--agent", "--run-id", "--model", "--thinking", "--channel"):
        agent.add_argument(name)
    for name in ("--reply-to", "--reply-channel", "--reply-account"):
        agent.add_argument(name)
    agent.add_argument("--verbose", choices=["off", "on", "full"])
    agent.add_argument("--timeout", type=float)
    agent.add_argument("--config", type=Path)
    agent.add_argument("--local", action="store_true", help="accepted for compatibility; runs are always local")
    agent.add_argument("--deliver", action="store_true")
    agent.add_argument("--json", action="store_true")
    chat = verbs.add_parser("chat", help="chat line by line", allow_abbrev=False)
    chat.set_defaults(verb=_chat)
    chat.add_argument("-m", "--message", default="", help="first message")
    chat.add_argument("--session", help="session to continue: a name, or agent:AGENT:NAME")
    for name in ("--agent", "--model", "--thinking"):
        chat.add_argument(name)
    chat.add_argument("--verbose", choices=["off", "on", "full"])
    chat.add_argument("--config", type=Path)
    chat.add_argument("--local", action="store_true", help="accepted for compatibility; a chat is always local")
    gateway = verbs.add_parser("gateway", help="serve a local socket", allow_abbrev=False)
    gateway.set_defaults(verb=_gateway)
    gateway.add_argument("action", choices=["run"])
    gateway.add_argument("--socket", type=Path)
    gateway.add_argument("--config", type=Path)
    for name in ("--port", "--auth", "--token", "--bind"):
        gateway.add_argument(name, help="accepted for compatibility with OpenClaw; the server uses no port")
    for kind, description in (("skill", "SKILL.md"), ("plugin", "HOOK.md")):
        family = verbs.add_parser(f"{kind}s", help=f"install a {kind}", allow_abbrev=False)
        family.set_defaults(verb=_install, kind=kind)
        family.add_argument("action", choices=["install"])
        family.add_argument("folder", type=Path, help=f"a folder that contains {description}")
        family.add_argument("--config", type=Path)
    return parser


def _sanitize(text: str) -> str:
    """Replace control characters, which a terminal would interpret."""
    from critiqor.model.sanitize import Replacement, sanitize

    return sanitize(text, multiline=True, replacement=Replacement.MARK)


if __name__ == "__main__":
    sys.exit(main())
