"""The root command. Verbs are imported only when they are needed, because start-up is felt on every call."""

from __future__ import annotations

import importlib
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

import click

from critiqor import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VERBS = {
    "monitor": "Launch OpenClaw in this terminal and record it.",
    "attach": "Record an OpenClaw that runs by itself, as a service.",
    "detach": "Take the recorder out of it again.",
    "watch": "Follow a run while it is recorded.",
    "finalize": "Seal the recorded evidence and diagnose it.",
    "abort": "Give up the active session; what was recorded is kept.",
    "import": "Make runs of what was recorded elsewhere, and diagnose them.",
    "runs": "List the runs of this folder.",
    "show": "Show one run: what happened, and how far it can be trusted.",
    "dashboard": "Look at runs in a browser, on this machine.",
    "explain": "Explain one finding of a run, step by step, with its events.",
    "timeline": "Show where the time of a run went.",
    "profile": "Show which code took the time of a deeply profiled run.",
    "diagnose": "Diagnose a run again from its sealed evidence.",
    "report": "Report on a run: Markdown, HTML, PDF or JSON.",
    "export": "Write a run in a format that other tools open.",
    "compare": "Compare a run from before a change with one from after it.",
    "trends": "Follow the runs of one agent over time.",
    "check": "Hold a run against a policy; a gate for CI.",
    "benchmark": "Place a run among the runs of the same benchmark.",
    "visibility": "Say who may see a run, or change that.",
    "verify": "Check that the sealed evidence of a run is untouched.",
    "completion": "Make a shell complete verbs, options, runs and findings.",
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
        command: click.Command = getattr(importlib.import_module(f"critiqor.cli.verbs.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Verbs, without importing any."""
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(verb, help=told) for verb, told in VERBS.items() if verb.startswith(incomplete)]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in VERBS and not ctx.resilient_parsing:
            from difflib import get_close_matches

            close = get_close_matches(args[0], VERBS, n=1)
            hint = f" Did you mean `critiqor {close[0]}`?" if close else " `critiqor --help` lists the verbs."
            raise click.UsageError(f"There is no verb {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.command(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="critiqor")
@click.option("--quiet", "-q", is_flag=True, help="Answers and errors only: no messages, no progress.")
@click.option("--verbose", "-v", is_flag=True, help="With an error, show where in Critiqor it comes from.")
@click.option("--no-color", is_flag=True, help="No colors; the variable NO_COLOR does the same.")
@click.pass_context
def critiqor(ctx: click.Context, quiet: bool, verbose: bool, no_color: bool) -> None:
    """Flight recorder and crash investigator for OpenClaw agents.

    \b
    critiqor monitor openclaw                                     record the terminal UI
    critiqor monitor openclaw -- agent --local --message "…"      record one turn
    critiqor finalize                                             seal and diagnose
    """
    from critiqor.cli.output import Manner, behave
    from critiqor.cli.settings import default_map

    behave(Manner(quiet, verbose, no_color))
    ctx.default_map = default_map(VERBS)
