"""`critiqor fleet`. A subcommand is defined in the module `fleet_` and its name, and imported when it is called."""

from __future__ import annotations

import importlib

import click

SUBCOMMANDS = {
    "init": "Set up where this machine stores runs, and which of them leave it.",
    "status": "Show the settings, and what waits to be stored or indexed.",
    "reindex": "Add to the index what is in the store and missing in it.",
    "tenants": "Manage the roles of tenants in a PostgreSQL index.",
    "diagnose": "Diagnose the runs of a store again with the installed rule set.",
    "export": "Write the runs of a store as Parquet files, for DuckDB, Spark and notebooks.",
}
"""Every subcommand with its summary, in the order of the help page."""


class FleetGroup(click.Group):
    """A command group that imports a subcommand when it is looked up."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"critiqor.cli.verbs.fleet_{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUBCOMMANDS.items()))


@click.command(cls=FleetGroup, context_settings={"help_option_names": ["-h", "--help"]})
def fleet() -> None:
    """Set up and manage runs of many machines: an object store, an index, and computing.

    \b
    critiqor fleet init --store s3://team-runs        choose the store, and what may leave this machine
    critiqor push                                     store the sealed runs of this folder
    critiqor fleet status                             what is stored, what waits, and why

    It needs the extra `fleet`; from a checkout: pip install ".[fleet]"
    """
