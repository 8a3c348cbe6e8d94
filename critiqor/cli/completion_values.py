"""Values that a shell completes: runs, findings, scenarios and folders. A failed completion offers nothing."""

from __future__ import annotations

import re
from contextlib import redirect_stderr, suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from critiqor.storage.paths import SessionPaths

MAX_ITEMS = 200
"""Maximum number of runs or findings that are offered."""
MAX_HELP_LENGTH = 80
"""Maximum length of the description of a value in characters."""
_SAFE = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""Names that may be offered: the shell inserts them unquoted, and a file can contain anything."""


def run_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete run ids, newest first, each with its headline."""
    from click.shell_completion import CompletionItem

    from critiqor.run.store import RunStore
    from critiqor.run.view import RunView

    items: list[CompletionItem] = []
    with suppress(Exception):
        for run in reversed(RunStore(_paths(ctx).runs_dir).runs()):
            run_id = run.id
            if not run_id.startswith(incomplete):
                continue
            headline = None
            with suppress(Exception):  # a run with a broken record can still be named
                view = RunView(run)
                headline = view.head.status if view.verdict is None else view.verdict.headline
            items.append(CompletionItem(run_id, help=_description(headline)))
            if len(items) == MAX_ITEMS:
                break
    return items


def lost_run_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the ids of runs whose record is missing."""
    from click.shell_completion import CompletionItem

    with suppress(Exception):
        return [CompletionItem(name) for name in _paths(ctx).lost_run_ids() if name.startswith(incomplete)]
    return []


def run_or_file_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete run ids and file names."""
    from click.shell_completion import CompletionItem

    # The file item comes first: shells drop the items before it.
    return [CompletionItem(incomplete, type="file"), *run_names(ctx, parameter, incomplete)]


def finding_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the finding ids of the run named earlier on the command line, most severe first."""
    from click.shell_completion import CompletionItem

    from critiqor.run.store import Run

    items: list[CompletionItem] = []
    with suppress(Exception):
        findings = Run.load(ctx.params["run"], _paths(ctx).runs_dir).diagnosis.failure_analysis.findings
        for finding in findings[:MAX_ITEMS]:
            if finding.id.startswith(incomplete) and _SAFE.fullmatch(finding.id):
                items.append(CompletionItem(finding.id, help=_description(f"{finding.severity}: {finding.title}")))
    return items


def scenario_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete scenarios of --folder or the shipped ones, by file name, without reading the files."""
    from click.shell_completion import CompletionItem

    with suppress(Exception):
        from critiqor.lab.scenario_file import SHIPPED

        names = sorted(file.stem for file in (ctx.params.get("folder") or SHIPPED).glob("*.toml"))
        return [CompletionItem(name) for name in names if name.startswith(incomplete) and _SAFE.fullmatch(name)]
    return []


def scenario_or_file_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete scenarios and file names."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file"), *scenario_names(ctx, parameter, incomplete)]


def folder_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete folder names."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


def _paths(ctx: click.Context) -> SessionPaths:
    """Return the runs folder that the verb would use. Click loads no settings for a completion, so load them here."""
    import io

    from critiqor.cli.settings import default_map
    from critiqor.storage.paths import paths_for

    runs_dir = ctx.params.get("runs_dir") or "runs"
    if ctx.get_parameter_source("runs_dir") is click.core.ParameterSource.DEFAULT:
        with redirect_stderr(io.StringIO()):
            runs_dir = default_map(["show"]).get("show", {}).get("runs_dir", runs_dir)
    return paths_for(runs_dir)


def _description(text: str | None) -> str | None:
    """Return a short description on one line: shells read a second line as another value."""
    from critiqor.model.sanitize import collapse_whitespace, sanitize_for_terminal

    if text is None:
        return None
    return sanitize_for_terminal(collapse_whitespace(text[: 2 * MAX_HELP_LENGTH]))[:MAX_HELP_LENGTH]
