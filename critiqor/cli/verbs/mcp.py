"""`critiqor mcp`."""

from __future__ import annotations

import click

from critiqor.cli.options import runs_dir_option, tenants_option


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@runs_dir_option
@tenants_option
def mcp(runs_dir: str, tenant_id: tuple[str, ...]) -> None:
    """Serve the runs of this folder to an agent or an assistant, as tools of the Model Context Protocol.

    It reads requests from standard input, answers on standard output, changes nothing, and ends with its input. It
    needs the extra `mcp`; from a checkout: pip install ".[mcp]"

    \b
    openclaw mcp add critiqor --command "$(command -v critiqor)" --arg mcp --arg --runs-dir --arg "$PWD/runs"
    openclaw mcp probe critiqor
    """
    from critiqor.errors import CritiqorError
    from critiqor.mcp.visible_runs import VisibleRuns
    from critiqor.run.store import RunStore

    runs = VisibleRuns(RunStore(runs_dir), tenant_id)
    try:
        from critiqor.mcp.server import serve
    except ImportError as error:
        message = f"the SDK of the Model Context Protocol is not installed ({error.name} is missing)"
        raise CritiqorError(message, fix='pip install ".[mcp]"   in a checkout of Critiqor') from error
    serve(runs)
