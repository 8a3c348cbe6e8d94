"""`critiqor dashboard [RUN]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.options import fleet_option, index_option, json_option, runs_dir_option, store_option, tenants_option
from critiqor.cli.output import answer, say
from critiqor.errors import UsageError

if TYPE_CHECKING:
    from critiqor.dashboard.fleet.source import Fleet
    from critiqor.dashboard.web.serving import ServedDashboard


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", required=False, shell_complete=run_names)
@runs_dir_option
@tenants_option
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address or host name to listen on."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 picks a free one.  [default: 4747, or a free one]",
)
@click.option(
    "--require-token",
    "requires_token",
    is_flag=True,
    help="Require a link for every page, even for public runs; mandatory if other machines can reach --host.",
)
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@fleet_option
@index_option
@store_option
@json_option
def dashboard(
    run: str | None,
    runs_dir: str,
    tenant_id: tuple[str, ...],
    host: str,
    port: int | None,
    requires_token: bool,
    no_browser: bool,
    fleet: bool,
    index_url: str | None,
    store_url: str | None,
    as_json: bool,
) -> None:
    """Show the runs of this folder, or RUN, in a browser.

    The dashboard can be opened only on this machine, with the printed link, until you press Ctrl+C. With --fleet, it
    begins with the runs of all hosts, RUN is HOST/RUN, and the runs of this folder are still in it.

    \b
    critiqor dashboard --fleet                                        the runs of all hosts
    critiqor dashboard --tenant ours --tenant theirs                  the runs of both
    critiqor dashboard --host 192.168.1.5 --require-token             from other machines too, over plain HTTP
    """
    from critiqor.cli.browser import dashboard_text, open_link
    from critiqor.dashboard.web.serving import serve
    from critiqor.run.store import RunStore

    def opened(opening: ServedDashboard) -> None:
        for note in opening.notes:
            say(note)
        answer("dashboard", opening._asdict(), dashboard_text(opening), as_json=as_json)
        if not no_browser:
            open_link(opening.link)

    serve(
        RunStore(runs_dir),
        opened,
        run_id=run,
        tenants=tenant_id,
        host=host,
        port=port,
        requires_token=requires_token,
        fleet=_fleet(index_url, store_url, is_wanted=fleet),
    )


def _fleet(index_url: str | None, store_url: str | None, *, is_wanted: bool) -> Fleet | None:
    if not is_wanted:
        if index_url or store_url:
            message = f"{'--index' if index_url else '--store'} has no effect without --fleet"
            raise UsageError(message, fix="critiqor dashboard --fleet")
        return None
    from critiqor.dashboard.fleet.source import Fleet
    from critiqor.fleet.settings import read_fleet

    settings = read_fleet()
    return Fleet(index_url or settings.index, store_url or settings.store)
