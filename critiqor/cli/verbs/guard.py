"""`critiqor guard`."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import (
    contracts_option,
    json_option,
    openclaw_command_option,
    read_policy_option,
    read_stream_options,
    runs_dir_option,
    stream_options,
)
from critiqor.cli.output import answer_line, say
from critiqor.errors import CritiqorError

if TYPE_CHECKING:
    from critiqor.live.announcements import Announcement
    from critiqor.live.verdict import LiveLimit
    from critiqor.openclaw import GatewayCalls
    from critiqor.policy.policy_file import Policy
    from critiqor.run.store import Run, RunStore

POLL_SECONDS = 0.2
"""Time between two looks at the journals."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@runs_dir_option
@click.option(
    "--also",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Another runs folder; can be given several times.",
)
@openclaw_command_option
@contracts_option
@stream_options
@json_option
def guard(
    arguments: tuple[str, ...],
    runs_dir: str,
    folders: tuple[Path, ...],
    openclaw_command: str,
    policy_file: Path | None,
    otlp_endpoint: str | None,
    otlp_content: bool,
    as_json: bool,
) -> None:
    """Diagnose attached recordings while they are recorded, and act on limits, until you press Ctrl-C.

    It follows the runs that `critiqor attach` records, and cuts their recordings into segments as `attach --segment`
    says. It also cuts a recording whose monitor was killed. Each finding and each exceeded limit is one line. A limit
    with the action `stop` has OpenClaw abort the agent run that exceeds it; other agent runs go on.
    A run that `critiqor monitor` launched is diagnosed by its monitor.

    ARGUMENTS after `--` select the OpenClaw instance: `--profile NAME` or `--dev`.

    \b
    critiqor guard
    critiqor guard --policy policy.toml
    critiqor guard --policy policy.toml -- --profile work
    """
    from critiqor.cli.alerts import LiveAlerts
    from critiqor.live.guard import Guard
    from critiqor.recording.run_witness import GuardWitness
    from critiqor.run.store import RunStore

    policy = read_policy_option(policy_file)
    stores = [RunStore(folder) for folder in dict.fromkeys((runs_dir, *map(str, folders)))]

    alerts = LiveAlerts.of_folders([store.runs_dir for store in stores], policy_file)

    def announce(run: Run, news: Announcement | LiveLimit) -> None:
        alerts.announce(run, news)
        if as_json:
            answer_line("guard", {"run_id": run.id, "runs_dir": str(run.paths.runs_dir), "news": news})
        else:
            click.echo(_line(run, news))

    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    gateway = _Gateway(openclaw_command, arguments)
    following = Guard(
        stores,
        policy,
        announce=announce,
        abort=gateway.abort,
        say=lambda text: say(text),
        witness=GuardWitness,
        stream=read_stream_options(otlp_endpoint, otlp_content),
        finalize_options=() if policy_file is None else ("--policy", str(policy_file)),
    )
    with ExitStack() as held, suppress(KeyboardInterrupt):
        for store in stores:
            _hold(store, held)
        held.callback(following.close)
        held.callback(gateway.close)
        gateway.prepare(policy)
        say(f"waiting for recordings in {', '.join(str(store.runs_dir) for store in stores)}; Ctrl-C ends the guard")
        while not ended.wait(POLL_SECONDS):
            following.step()
    alerts.finish()
    say("the guard has ended; recordings go on")


def _hold(store: RunStore, held: ExitStack) -> None:
    """Keep another guard from following the same folder: findings would be announced twice."""
    from critiqor.errors import ActiveSessionError
    from critiqor.storage.lock import exclusive, is_held

    lock = store.paths.guard_lock_path
    if is_held(lock):
        raise ActiveSessionError(f"another guard follows {store.runs_dir}", fix="end it, or name another --runs-dir")
    held.enter_context(exclusive(lock))


class _Gateway:
    """Calls of the gateway of the selected OpenClaw, with its own credentials."""

    def __init__(self, openclaw_command: str, arguments: tuple[str, ...]) -> None:
        self._openclaw_command = openclaw_command
        self._arguments = arguments

    @cached_property
    def _calls(self) -> GatewayCalls:
        from critiqor.openclaw import GatewayCalls, client_environment, find_openclaw

        installation = find_openclaw(self._openclaw_command, os.environ)
        return GatewayCalls(installation, client_environment((), os.environ), self._arguments)

    def prepare(self, policy: Policy) -> None:
        """Prepare for aborts, if the policy may need them."""
        if any(limit.action == "stop" for limit in policy.limits.given.values()):
            with suppress(CritiqorError):  # it is reported when it is needed
                self._calls.prepare()

    def abort(self, session_key: str | None, agent_run_id: str | None) -> str | None:
        """Abort an agent run. Return why that failed; None if it did not."""
        return self._calls.abort(session_key, agent_run_id)

    def close(self) -> None:
        """End what was prepared."""
        with suppress(CritiqorError):
            self._calls.close()


def _line(run: Run, news: Announcement | LiveLimit) -> str:
    from critiqor.live.announcements import Announcement
    from critiqor.model.formatting import format_session
    from critiqor.model.sanitize import sanitize_line

    if not isinstance(news, Announcement):
        return f"{run.id}  limit  {sanitize_line(news.text)}" + (f"  ({news.result})" if news.result else "")
    finding = news.finding
    where = "" if finding.session_key is None else f"  [{format_session(finding.session_key)}]"
    what = f"{news.kind}  {finding.severity} {finding.type}{where}  {sanitize_line(finding.title)}"
    return f"{run.id}  {what}  → {add_runs_dir(news.command)}"
