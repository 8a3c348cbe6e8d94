"""`critiqor notify test`, `critiqor notify flush`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer
from critiqor.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from critiqor.notifications.delivery import ChannelReport
    from critiqor.notifications.notifier import Notifier

_HELP = {"help_option_names": ["-h", "--help"]}
TEST_SECONDS = 10.0
FLUSH_SECONDS = 10.0

_policy_option = click.option(
    "--policy",
    "policy_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Policy, a .toml or .json file, whose channels are used as well.",
)


@click.group(context_settings=_HELP)
def notify() -> None:
    """Test the channels to which findings are reported, or deliver alerts that wait.

    \b
    critiqor notify test                      send a test message to every channel
    critiqor notify flush                     deliver now what could not be delivered before

    Channels are configured in the table [notify] of the settings.
    """


@notify.command(context_settings=_HELP)
@click.argument("channels", nargs=-1)
@_policy_option
@runs_dir_option
@json_option
@click.pass_context
def test(ctx: click.Context, channels: tuple[str, ...], policy_file: Path | None, runs_dir: str, as_json: bool) -> None:
    """Send a test message to all channels, or to the given CHANNELS, whatever their filters and quiet hours."""
    from critiqor.diagnosis import FAILURE_TYPES
    from critiqor.extensions.entry_points import installed
    from critiqor.notifications.settings import unknown_types

    notifier = _notifier(runs_dir, policy_file)
    if unknown := sorted(set(channels) - {channel.name for channel in notifier.channels}):
        names = ", ".join(channel.name for channel in notifier.channels)
        raise UsageError(f"there is no channel {unknown[0]!r}", fix=f"use one of {names}")
    types = {*FAILURE_TYPES, *(each.name for each in installed("critiqor.detectors"))}
    if mistakes := unknown_types(notifier.channels, types):
        raise UsageError(mistakes[0], fix=f"use one of {', '.join(sorted(types))}")
    chosen = [channel for channel in notifier.channels if not channels or channel.name in channels]
    reports = notifier.try_channels(chosen, TEST_SECONDS)
    lines = [f"{each.channel}: {'sent' if each.reason is None else f'failed: {each.reason}'}" for each in reports]
    answer("notify", reports, "\n".join(lines), as_json=as_json)
    ctx.exit(ExitCode.ERROR if any(each.is_problem for each in reports) else ExitCode.OK)


@notify.command(context_settings=_HELP)
@_policy_option
@runs_dir_option
@json_option
@click.pass_context
def flush(ctx: click.Context, policy_file: Path | None, runs_dir: str, as_json: bool) -> None:
    """Deliver the alerts that wait in the outbox of the runs folder, without waiting for the next attempt.

    Quiet hours and the limit per hour are respected.
    """
    from critiqor.notifications.finalized import announce_expected

    notifier = _notifier(runs_dir, policy_file)
    announce_expected(notifier, add_runs_dir)
    reports = [*notifier.deliver(FLUSH_SECONDS, at_once=True), *notifier.unknown_channels()]
    answer("notify", reports, "\n".join(line for each in reports for line in _lines(each)), as_json=as_json)
    has_failed = any(each.is_problem or each.refused or each.damaged for each in reports)
    ctx.exit(ExitCode.ERROR if has_failed else ExitCode.OK)


def _lines(report: ChannelReport) -> list[str]:
    from critiqor.cli.alerts import describe_waiting
    from critiqor.model.formatting import counted

    return [f"{report.channel}: {counted(report.sent, 'message')} sent", *map("  {}".format, describe_waiting(report))]


def _notifier(runs_dir: str, policy_file: Path | None) -> Notifier:
    from critiqor.cli.alerts import open_notifier
    from critiqor.storage.paths import user_settings_path

    notifier = open_notifier(runs_dir, policy_file)
    if notifier is None:
        fix = f"add a table [notify.channels.NAME] to {user_settings_path()}"
        raise UsageError("no channel for alerts is configured", fix=fix)
    return notifier
