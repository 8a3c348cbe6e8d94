"""The root command. Verbs are imported only when they are needed, because start-up is felt on every call."""

from __future__ import annotations

import importlib
from keyword import iskeyword
from typing import Any

import click

from critiqor import __version__

VERBS = {
    "monitor": "Launch OpenClaw in this terminal and record it.",
    "finalize": "Seal the recorded evidence and diagnose it.",
    "abort": "Give up the active session; what was recorded is kept.",
    "import": "Make runs of what was recorded elsewhere, and diagnose them.",
    "runs": "List the runs of this folder.",
    "show": "Show one run: what happened, and how far it can be trusted.",
    "explain": "Explain one finding of a run, step by step, with its events.",
    "timeline": "Show where the time of a run went.",
    "profile": "Show which code took the time of a deeply profiled run.",
    "diagnose": "Diagnose a run again from its sealed evidence.",
    "export": "Write a run in a format that other tools open.",
    "compare": "Compare a run from before a change with one from after it.",
    "trends": "Follow the runs of one agent over time.",
    "check": "Hold a run against a policy; a gate for CI.",
    "benchmark": "Place a run among the runs of the same benchmark.",
    "verify": "Check that the sealed evidence of a run is untouched.",
    "doctor": "Check that a recording would work here.",
    "demo": "Show what it does on three short runs, without OpenClaw.",
    "agent": "Run one turn of an agent in the embedded loop, without OpenClaw.",
    "lab": "Play scripted scenarios, and see whether what goes wrong is noticed.",
}
"""Every verb with its summary, in the order of the help page. A verb lives in the module of its name, with
an underscore behind it where that is a word of Python's own."""


class VerbGroup(click.Group):
    """Finds verbs by name and imports them one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        name = cmd_name + "_" * iskeyword(cmd_name)
        command: click.Command = getattr(importlib.import_module(f"critiqor.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in VERBS:
            from difflib import get_close_matches

            close = get_close_matches(args[0], VERBS, n=1)
            hint = f" Did you mean `critiqor {close[0]}`?" if close else " `critiqor --help` lists the verbs."
            raise click.UsageError(f"There is no verb {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.command(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="critiqor")
@click.pass_context
def critiqor(ctx: click.Context) -> None:
    """Flight recorder and crash investigator for OpenClaw agents.

    \b
    critiqor monitor openclaw                                     record the terminal UI
    critiqor monitor openclaw -- agent --local --message "…"      record one turn
    critiqor finalize                                             seal and diagnose
    """
    from critiqor.cli.settings import default_map

    ctx.default_map = default_map(VERBS)
