"""The root command. A verb is imported only when it is called, so that the command starts fast."""

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
    "attach": "Record an OpenClaw that runs as a service.",
    "detach": "Remove the recorder from an OpenClaw service.",
    "guard": "Diagnose attached recordings while they are recorded, and act on limits.",
    "watch": "Follow a run while it is recorded.",
    "finalize": "Seal the recorded evidence and diagnose it.",
    "abort": "Stop recording without sealing; the recorded events are kept.",
    "import": "Import transcripts and traces as runs, and diagnose them.",
    "receive": "Receive OpenTelemetry traces of other tools as runs, and diagnose them.",
    "runs": "List the runs in this folder.",
    "search": "Search the content of all runs.",
    "show": "Show one run: what happened, and whether it can be trusted.",
    "dashboard": "Open the runs in a browser.",
    "explain": "Explain one finding of a run, step by step, with its events.",
    "timeline": "Show where the time of a run went.",
    "profile": "Show which functions took the time in a run recorded with --deep-profile.",
    "diagnose": "Diagnose a run again from its sealed evidence.",
    "report": "Write a report on a run: Markdown, HTML, PDF or JSON.",
    "export": "Export a run in a format that other tools read.",
    "compare": "Compare a run from before a change with one from after it.",
    "trends": "Show how the runs of one agent change over time.",
    "check": "Check a run against a policy; exit code 3 fails a CI job.",
    "policy": "Check a policy file, and try its limits and contracts on recorded runs.",
    "benchmark": "Rank a run among the runs of the same benchmark.",
    "visibility": "Show or change who may see a run.",
    "verify": "Check that a run is unchanged since it was sealed, and who signed it.",
    "recover": "Rebuild the record of a run that was lost or cannot be read.",
    "prune": "Remove old runs by age, number or size; unsafe ones are kept longer.",
    "push": "Store sealed runs in an object store, for other machines.",
    "pull": "Fetch a run of another machine from an object store.",
    "fleet": "Set up and manage runs of many machines: store, index, computing.",
    "keys": "Make or show the key that signs seals, and the trusted signers.",
    "notify": "Test the channels for alerts, or deliver alerts that wait.",
    "mcp": "Serve the runs of this folder to agents and assistants, read-only.",
    "completion": "Set up shell completion of verbs, options, runs and findings.",
    "doctor": "Check that a recording would work on this machine.",
    "demo": "Record and diagnose three short runs, without OpenClaw.",
    "agent": "Send one message to the embedded agent loop.",
    "lab": "Run scripted scenarios and check that their failures are found.",
}
"""Every verb with its summary, in the order of the help page. A verb is defined in the module of its name, with
an underscore appended if the name is a Python keyword."""


class VerbGroup(click.Group):
    """A command group that imports a verb when it is looked up."""

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
        """Complete verbs without importing them."""
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(verb, help=summary) for verb, summary in VERBS.items() if verb.startswith(incomplete)]
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
@click.option("--quiet", "-q", is_flag=True, help="Print results and errors only: no messages, no progress.")
@click.option("--verbose", "-v", is_flag=True, help="Print the traceback of an error.")
@click.option("--no-color", is_flag=True, help="Disable colors, as the variable NO_COLOR does.")
@click.pass_context
def critiqor(ctx: click.Context, quiet: bool, verbose: bool, no_color: bool) -> None:
    """Flight recorder and crash investigator for OpenClaw agents.

    \b
    critiqor monitor openclaw                                     record the terminal UI
    critiqor monitor openclaw -- agent --local --message "…"      record one message
    critiqor finalize                                             seal and diagnose
    """
    from critiqor.cli.output import OutputOptions, set_output_options
    from critiqor.cli.settings import default_map

    set_output_options(OutputOptions(quiet, verbose, no_color))
    ctx.default_map = default_map(VERBS)
