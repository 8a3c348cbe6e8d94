"""Names that a shell completes: runs, findings, folders. A completion that fails offers nothing, and says nothing."""

from __future__ import annotations

import re
from contextlib import redirect_stderr, suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from critiqor.storage.paths import SessionPaths

MOST_OFFERED = 200
"""Runs, the newest; more are no choice any more."""
LONGEST_HELP = 80
_SAFE = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""What is completed is typed into a shell as it is, and a file can hold anything."""


def run_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Runs of the folder, the newest first, with what was found in them."""
    from click.shell_completion import CompletionItem

    from critiqor.storage.run_record import load_head

    offered: list[CompletionItem] = []
    with suppress(Exception):
        paths = _paths(ctx)
        for run_id in reversed(paths.run_ids()):
            if not run_id.startswith(incomplete):
                continue
            headline = None
            with suppress(Exception):  # a broken record has a name all the same
                head = load_head(paths, run_id)
                headline = head["headline"] or head["status"]
            offered.append(CompletionItem(run_id, help=_help(headline)))
            if len(offered) == MOST_OFFERED:
                break
    return offered


def run_or_file_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The same, and files where no run has a name like that."""
    from click.shell_completion import CompletionItem

    # First, because shells forget what came before it.
    return [CompletionItem(incomplete, type="file"), *run_names(ctx, parameter, incomplete)]


def finding_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Findings of the run that was named before, the worst first."""
    from click.shell_completion import CompletionItem

    from critiqor.run.diagnosis import load_diagnosed

    offered: list[CompletionItem] = []
    with suppress(Exception):
        findings = load_diagnosed(ctx.params["run"], _paths(ctx).runs_dir).failure_analysis.findings
        for finding in findings[:MOST_OFFERED]:
            if finding.id.startswith(incomplete) and _SAFE.fullmatch(finding.id):
                offered.append(CompletionItem(finding.id, help=_help(f"{finding.severity}: {finding.title}")))
    return offered


def scenario_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Scenarios of the folder that was named, or those that are shipped; by their files, of which none is read."""
    from click.shell_completion import CompletionItem

    with suppress(Exception):
        from critiqor.lab.scenario_file import SHIPPED

        names = sorted(file.stem for file in (ctx.params.get("folder") or SHIPPED).glob("*.toml"))
        return [CompletionItem(name) for name in names if name.startswith(incomplete) and _SAFE.fullmatch(name)]
    return []


def scenario_or_file_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The same, and files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file"), *scenario_names(ctx, parameter, incomplete)]


def folder_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


def _paths(ctx: click.Context) -> SessionPaths:
    """The runs folder, as the verb would find it: settings are not read for a completion, so they are read here."""
    import io

    from critiqor.cli.settings import default_map
    from critiqor.storage.paths import paths_for

    runs_dir = ctx.params.get("runs_dir") or "runs"
    if ctx.get_parameter_source("runs_dir") is click.core.ParameterSource.DEFAULT:
        with redirect_stderr(io.StringIO()):
            runs_dir = default_map(["show"]).get("show", {}).get("runs_dir", runs_dir)
    return paths_for(runs_dir)


def _help(text: str | None) -> str | None:
    """A few words beside a name, on one line: shells take every line for another name."""
    from critiqor.cli.output import plain

    return None if text is None else plain(" ".join(text[: 2 * LONGEST_HELP].split()))[:LONGEST_HELP]
