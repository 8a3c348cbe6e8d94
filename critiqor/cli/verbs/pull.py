"""`critiqor pull HOST/RUN`."""

from __future__ import annotations

from pathlib import Path

import click

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option, store_option
from critiqor.cli.output import answer


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("runs", metavar="HOST/RUN...", nargs=-1, required=True)
@store_option
@runs_dir_option
@json_option
def pull(runs: tuple[str, ...], store_url: str | None, runs_dir: str, as_json: bool) -> None:
    """Fetch runs of other machines from an object store into the runs folder, where every verb reads them.

    A run is compared with its manifest and its seal before it appears. HOST/RUN@DIGITS names one of several runs by the
    first digits of its seal. It needs the extra `fleet`; from a checkout: pip install ".[fleet]"

    \b
    critiqor pull build-7/run_012 --runs-dir runs-build-7
    """
    from critiqor.fleet.reference import find_run, parse_reference
    from critiqor.fleet.settings import required_store
    from critiqor.fleet.store.bundle import unpack_bundle
    from critiqor.fleet.store.object_store import open_store

    references = [parse_reference(text) for text in runs]
    store = open_store(required_store(store_url))
    data, lines = [], []
    for reference in references:
        manifest = find_run(store, reference)
        run = unpack_bundle(store, manifest, Path(runs_dir))
        data.append({"name": manifest.name, "run_id": run.id, "runs_dir": str(run.paths.runs_dir)})
        lines.append(f"{manifest.name} is in {run.paths.runs_dir}\n  → {add_runs_dir(f'critiqor show {run.id}')}")
    answer("pull", data, "\n".join(lines), as_json=as_json)
