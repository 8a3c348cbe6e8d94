"""--policy, the same on every verb that holds a run against one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from critiqor.errors import UsageError

if TYPE_CHECKING:
    from critiqor.policy.gate import Policy

_Function = TypeVar("_Function", bound=Callable[..., Any])


def policy_option(function: _Function) -> _Function:
    """--policy FILE."""
    return click.option(
        "--policy",
        "policy_file",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="What is wanted: a .toml or .json file.  [default: observed to its end, trust of 70, confidence of 50, "
        "nothing worse than medium]",
    )(function)


def read_policy(path: Path | None) -> Policy:
    """The policy of a file, or the usual one where none is given."""
    from critiqor.diagnosis import FAILURE_TYPES
    from critiqor.policy.gate import DEFAULT_POLICY, PolicyError, parse_policy

    if path is None:
        return DEFAULT_POLICY
    form = path.suffix.lower()
    if form not in (".toml", ".json"):
        raise UsageError(f"{path.name} is neither a .toml nor a .json file", fix=f"rename {path.name}")
    try:
        return parse_policy(path.read_bytes(), "toml" if form == ".toml" else "json", FAILURE_TYPES)
    except PolicyError as error:
        raise UsageError(f"{path.name}: {error}", fix=f"correct {path.name}") from error
