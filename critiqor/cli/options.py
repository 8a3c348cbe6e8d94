"""Click options that several verbs share, and the values that they are parsed to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from critiqor.cli.completion_values import folder_names
from critiqor.cli.hints import remember_runs_dir
from critiqor.errors import UsageError

if TYPE_CHECKING:
    from critiqor.live.messages import StreamTarget
    from critiqor.policy.policy_file import Policy

_DELIVERING = frozenset({"finalize", "flush", "test"})
"""Commands that deliver alerts themselves."""
_PUSHING = frozenset({"finalize", "push", "status"})
"""Commands that push runs themselves, or show what waits."""
_Function = TypeVar("_Function", bound=Callable[..., Any])
visibility_option = click.option(
    "--visibility",
    envvar="CRITIQOR_VISIBILITY",
    type=click.Choice(["private", "public", "anonymous", "shared"]),
    help="Who may see the run.  [default: private]",
)
_METADATA_OPTIONS = (
    click.option(
        "--agent-id", envvar="CRITIQOR_AGENT_ID", help="Name to record the agent under.  [default: openclaw_agent]"
    ),
    click.option("--tenant-id", envvar="CRITIQOR_TENANT_ID", help="Tenant that owns the run.  [default: default]"),
    visibility_option,
    click.option(
        "--benchmark-id",
        envvar="CRITIQOR_BENCHMARK_ID",
        help="Benchmark to rank the run in (`critiqor benchmark`).  [default: openclaw_runtime_v1]",
    ),
    click.option(
        "--difficulty-tier", envvar="CRITIQOR_DIFFICULTY_TIER", help="Difficulty of the task.  [default: standard]"
    ),
)


class _Tenants(click.Option):
    """An option for several tenants. A variable or a setting names one tenant, whose name may contain any character."""

    def value_from_envvar(self, ctx: click.Context) -> Any:
        value = self.resolve_envvar_value(ctx)
        return None if value is None else (value,)

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, click.core.ParameterSource]:
        value, source = super().consume_value(ctx, opts)
        return ((str(value),) if source is click.core.ParameterSource.DEFAULT_MAP else value), source


def tenants_option(function: _Function) -> _Function:
    """Add --tenant."""
    return click.option(
        "--tenant",
        "tenant_id",
        cls=_Tenants,
        multiple=True,
        envvar="CRITIQOR_TENANT_ID",
        metavar="TENANT",
        help="Tenant whose runs to show; can be repeated.  [default: the tenant of RUN, or the only tenant]",
    )(function)


def runs_dir_option(function: _Function) -> _Function:
    """Add --runs-dir."""
    return click.option(
        "--runs-dir",
        envvar="CRITIQOR_RUNS_DIR",
        default="runs",
        show_default=True,
        shell_complete=folder_names,
        callback=_remember_if_typed,
        help="Folder that holds the runs.",
    )(function)


def slot_option(function: _Function) -> _Function:
    """Add --slot."""
    return click.option(
        "--slot",
        envvar="CRITIQOR_SLOT",
        metavar="NAME",
        callback=_checked_slot,
        help="Name of the recording, if several are in progress in the folder.  [default: active_session.json]",
    )(function)


def segment_option(default: str) -> Callable[[_Function], _Function]:
    """Add --segment, which is None for a recording that is not cut."""
    return click.option(
        "--segment",
        envvar="CRITIQOR_SEGMENT",
        default=default,
        show_default=True,
        metavar="24h|500MB|idle|off",
        callback=_checked_segment,
        help="When to seal what was recorded and go on in another run: after a time, at a size of the journal, "
        "or when nothing was recorded for 10 minutes.",
    )


def _checked_segment(_ctx: click.Context, _parameter: click.Parameter, text: str) -> str | None:
    from critiqor.run.segments.rule import parse_segment

    return None if parse_segment(text) is None else text


def _checked_slot(_ctx: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    from critiqor.storage.paths import checked_slot

    return checked_slot(name)


def _remember_if_typed(ctx: click.Context, parameter: click.Parameter, folder: str) -> str:
    if not ctx.resilient_parsing and ctx.command.name not in _DELIVERING:
        ctx.call_on_close(lambda: _deliver_waiting(folder))
    if not ctx.resilient_parsing and ctx.command.name not in _PUSHING:
        ctx.call_on_close(lambda: _push_waiting(folder))
    if ctx.get_parameter_source("runs_dir") is click.core.ParameterSource.COMMANDLINE:
        remember_runs_dir(folder)
    return folder


def _deliver_waiting(runs_dir: str) -> None:
    """Deliver alerts that an earlier process left behind."""
    from critiqor.storage.paths import paths_for

    if paths_for(runs_dir).notify_folder.is_dir():
        from critiqor.cli.alerts import deliver_waiting

        deliver_waiting(runs_dir)


def _push_waiting(runs_dir: str) -> None:
    """Push runs that an earlier process left behind, in the background."""
    from critiqor.storage.paths import paths_for

    if paths_for(runs_dir).fleet_folder.is_dir():
        from critiqor.fleet.store.after_seal import push_waiting
        from critiqor.run.store import RunStore

        push_waiting(RunStore(runs_dir))


def store_option(function: _Function) -> _Function:
    """Add --store."""
    return click.option(
        "--store",
        "store_url",
        metavar="URL",
        help="Object store: file://, s3://, gs:// or az://.  [default: that of the table [fleet] of the settings]",
    )(function)


def where_option(function: _Function) -> _Function:
    """Add --where."""
    return click.option(
        "--where",
        metavar="EXPRESSION",
        help="Only runs for which this CEL expression is true: 'run.agent_id == \"release\" && run.events > 100'.",
    )(function)


def index_option(function: _Function) -> _Function:
    """Add --index."""
    return click.option(
        "--index",
        "index_url",
        metavar="URL",
        help="Index of the fleet: postgresql://… or sqlite:///FILE.  "
        "[default: that of the table [fleet] of the settings, else a file of the user]",
    )(function)


def fleet_option(function: _Function) -> _Function:
    """Add --fleet."""
    return click.option(
        "--fleet",
        is_flag=True,
        help="The runs of all hosts, from the index of the fleet, instead of those of the folder.",
    )(function)


def json_option(function: _Function) -> _Function:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(function)


def openclaw_command_option(function: _Function) -> _Function:
    """Add --openclaw-command."""
    return click.option(
        "--openclaw-command",
        envvar="CRITIQOR_OPENCLAW_COMMAND",
        default="openclaw",
        show_default=True,
        help="OpenClaw command to launch: a name or a path, with arguments if needed.",
    )(function)


def refuse_unused_command(ctx: click.Context, option: str) -> None:
    """Reject an --openclaw-command on the command line that would be ignored without `option`.

    One from the settings or the environment is meant for every verb, so it is not an error.
    """
    if ctx.get_parameter_source("openclaw_command") is click.core.ParameterSource.COMMANDLINE:
        message = f"--openclaw-command has no effect without {option}"
        raise UsageError(message, fix=f"add {option}, or remove --openclaw-command")


def metadata_options(function: _Function) -> _Function:
    """Add the options that describe a new run; the verb takes them as `**metadata`."""
    for option in reversed(_METADATA_OPTIONS):
        function = option(function)
    return function


def drop_unset(metadata: Mapping[str, str | None]) -> dict[str, str]:
    """Return the metadata options that have a value."""
    return {name: value for name, value in metadata.items() if value is not None}


def policy_option(function: _Function) -> _Function:
    """Add --policy FILE, for verbs that check a run against the rules of a policy."""
    return _policy_option(
        "Policy, a .toml or .json file.  [default: evidence intact, agent observed, run finished, trust >= 70, "
        "confidence >= 50, no finding above medium]"
    )(function)


def contracts_option(function: _Function) -> _Function:
    """Add --policy FILE, for verbs that use only the contracts and limits of a policy."""
    return _policy_option("Policy with contracts, a .toml or .json file.  [default: critiqor.toml]")(function)


def stream_options(function: _Function) -> _Function:
    """Add the options that send spans to a collector while a run is recorded, for `read_stream_options`."""
    content = click.option(
        "--otlp-content",
        envvar="CRITIQOR_OTLP_CONTENT",
        is_flag=True,
        help="With --otlp-endpoint: also send arguments, outputs and messages.",
    )
    address = click.option(
        "--otlp-endpoint",
        envvar="CRITIQOR_OTLP_ENDPOINT",
        metavar="URL",
        help="Send spans to the OpenTelemetry collector at URL while the run is recorded.",
    )
    return address(content(function))


def read_stream_options(otlp_endpoint: str | None, otlp_content: bool) -> StreamTarget | None:
    """Return where the options of a verb send spans; None for nowhere. Raise `UsageError` if the address is invalid."""
    if not otlp_endpoint:
        return None
    from critiqor.exporters.otlp.collector_address import traces_url
    from critiqor.live.messages import StreamTarget

    return StreamTarget(url=traces_url(otlp_endpoint, "--otlp-endpoint"), content=otlp_content)


def _policy_option(text: str) -> Callable[[_Function], _Function]:
    kind = click.Path(path_type=Path, exists=True, dir_okay=False)
    return click.option("--policy", "policy_file", type=kind, help=text)


def read_policy_option(path: Path | None) -> Policy:
    """Return the policy that the --policy option names.

    Without the option, it is the default policy, with the limits and contracts of the folder's critiqor.toml.
    """
    from critiqor.cli.settings import FOLDER_FILE
    from critiqor.policy.policy_file import DEFAULT_POLICY

    if path is not None:
        return read_policy_argument(path)
    return read_policy_argument(FOLDER_FILE) if FOLDER_FILE.is_file() else DEFAULT_POLICY


def read_policy_argument(path: Path) -> Policy:
    """Return the policy that an option or argument names: a .toml or .json file, or the tables of a critiqor.toml.

    Raises `UsageError` if it is invalid.
    """
    from critiqor.cli.settings import FOLDER_FILE
    from critiqor.diagnosis import FAILURE_TYPES
    from critiqor.extensions.entry_points import installed
    from critiqor.policy.policy_file import MAX_POLICY_BYTES, PolicyError, parse_policy, parse_policy_tables

    form = path.suffix.lower()
    if form not in (".toml", ".json"):
        raise UsageError(f"{path.name} is neither a .toml nor a .json file", fix=f"rename {path.name}")
    extension_types = {each.name: each.package for each in installed("critiqor.detectors")}
    with path.open("rb") as file:
        content = file.read(MAX_POLICY_BYTES + 1)
    try:
        if path.name == FOLDER_FILE.name:
            return parse_policy_tables(content)
        return parse_policy(content, "toml" if form == ".toml" else "json", FAILURE_TYPES, extension_types)
    except PolicyError as error:
        raise UsageError(f"{path.name}: {error}", fix=f"correct {path.name}") from error
