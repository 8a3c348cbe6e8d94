"""`critiqor dashboard [RUN]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.output import answer, json_option, runs_dir_option

if TYPE_CHECKING:
    from critiqor.dashboard.serving import Opening


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", required=False)
@runs_dir_option
@click.option(
    "--tenant",
    "tenant_id",
    envvar="CRITIQOR_TENANT_ID",
    help="Whose runs to show.  [default: those of RUN, or of the only tenant]",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1.  [default: a free one]")
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@json_option
def dashboard(
    run: str | None, runs_dir: str, tenant_id: str | None, port: int, no_browser: bool, as_json: bool
) -> None:
    """Look at the runs of this folder, or at RUN, in a browser.

    It can be reached from this machine alone, by the link that is printed, until it is ended with Ctrl+C.
    """
    from critiqor.dashboard.serving import serve
    from critiqor.storage.paths import paths_for

    def opened(opening: Opening) -> None:
        answer("dashboard", opening._asdict(), _text(opening), as_json=as_json)
        if not no_browser:
            _show(opening)

    serve(paths_for(runs_dir), run, tenant_id, port, opened)


def open_dashboard(run_id: str, runs_dir: str) -> None:
    """Open the dashboard at a run, for verbs that end with one."""
    from critiqor.cli.output import say
    from critiqor.dashboard.serving import serve
    from critiqor.storage.paths import paths_for

    def opened(opening: Opening) -> None:
        say(_text(opening))
        _show(opening)

    serve(paths_for(runs_dir), run_id, None, 0, opened)


def _text(opening: Opening) -> str:
    return f"The dashboard is at\n  {opening.link}\nCtrl+C ends it."


def _show(opening: Opening) -> None:
    from critiqor.cli.browser import open_link

    open_link(opening.link)
