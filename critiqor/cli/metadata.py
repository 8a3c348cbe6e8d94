"""Whose run it is: the options of every verb that begins to record one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

_Function = TypeVar("_Function", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--agent-id", envvar="CRITIQOR_AGENT_ID", help="Whose run it is.  [default: openclaw_agent]"),
    click.option("--tenant-id", envvar="CRITIQOR_TENANT_ID", help="Which tenant it belongs to.  [default: default]"),
    click.option(
        "--visibility",
        envvar="CRITIQOR_VISIBILITY",
        type=click.Choice(["private", "public", "anonymous", "shared"]),
        help="Who may see it.  [default: private]",
    ),
    click.option(
        "--benchmark-id",
        envvar="CRITIQOR_BENCHMARK_ID",
        help="What it is compared with.  [default: openclaw_runtime_v1]",
    ),
    click.option(
        "--difficulty-tier", envvar="CRITIQOR_DIFFICULTY_TIER", help="How hard its task is.  [default: standard]"
    ),
)


def metadata_options(function: _Function) -> _Function:
    """The options, for a verb that takes them as `**metadata`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def given(metadata: Mapping[str, str | None]) -> dict[str, str]:
    """Those that were given."""
    return {name: value for name, value in metadata.items() if value is not None}
