"""`critiqor-agentloop`: takes the command line of OpenClaw, so that it can be launched in its place.

    critiqor-agentloop agent --local --agent main --message "…"
    critiqor-agentloop gateway run

The monitor launches it like any OpenClaw:

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
    """Do what the command line says; returns the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    chosen = _parser().parse_args(words)
    try:
        return int(chosen.verb(chosen, words))
    except CritiqorError as error:
        print(_plain(str(error)), file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)


def _agent(chosen: argparse.Namespace, words: list[str]) -> int:
    from critiqor.agentloop.entry.one_turn import exit_code_of, one_turn, report_of
    from critiqor.agentloop.runs import AgentParams

    params = AgentParams(
        message=chosen.message,
        agent_id=chosen.agent,
        session_key=chosen.session_key,
        session_id=chosen.session_id,
        run_id=chosen.run_id,
        model=chosen.model,
        thinking=chosen.thinking,
        verbose=chosen.verbose,
        timeout_seconds=chosen.timeout,
        channel=chosen.reply_channel or chosen.channel,
        to=chosen.reply_to or chosen.to,
        deliver=chosen.deliver,
    )
    outcome = asyncio.run(one_turn(os.environ, params, chosen.config, words))
    if chosen.json:
        print(json.dumps(report_of(outcome), indent=2))
    else:
        for payload in outcome.payloads:
            print(_plain(payload.text))
        if outcome.error is not None:
            print(_plain(outcome.error), file=sys.stderr)
    return exit_code_of(outcome)


def _gateway(chosen: argparse.Namespace, words: list[str]) -> int:
    from critiqor.agentloop.entry.server import serve

    asyncio.run(serve(os.environ, chosen.socket, chosen.config, words))
    return int(ExitCode.OK)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="critiqor-agentloop", description="An embedded agent loop.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"critiqor-agentloop {__version__}")
    parser.add_argument("--profile")
    parser.add_argument("--dev", action="store_true")
    verbs = parser.add_subparsers(required=True)
    agent = verbs.add_parser("agent", help="one turn", allow_abbrev=False)
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
    agent.add_argument("--local", action="store_true", help="always so")
    agent.add_argument("--deliver", action="store_true")
    agent.add_argument("--json", action="store_true")
    gateway = verbs.add_parser("gateway", help="serve a local socket", allow_abbrev=False)
    gateway.set_defaults(verb=_gateway)
    gateway.add_argument("action", choices=["run"])
    gateway.add_argument("--socket", type=Path)
    gateway.add_argument("--config", type=Path)
    for name in ("--port", "--auth", "--token", "--bind"):
        gateway.add_argument(name, help="accepted for OpenClaw's sake; there is no port")
    return parser


def _plain(text: str) -> str:
    """Text that came from a model, without what a terminal would obey."""
    from critiqor.model.sanitize import Replacement, sanitize

    return sanitize(text, multiline=True, replacement=Replacement.MARK)


if __name__ == "__main__":
    sys.exit(main())
