"""`critiqor diagnose RUN`."""

from __future__ import annotations

import click

from critiqor.cli.output import answer, json_option, runs_dir_option


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run")
@runs_dir_option
@json_option
def diagnose(run: str, runs_dir: str, as_json: bool) -> None:
    """Diagnose RUN again from its sealed evidence, which stays untouched; an aborted run is sealed first."""
    from critiqor.cli.summary import run_summary
    from critiqor.session import diagnose_run, load_record_head

    diagnosis = diagnose_run(run, runs_dir=runs_dir)
    record = {**load_record_head(run, runs_dir=runs_dir), "diagnosis": diagnosis, "headline": diagnosis["headline"]}
    record |= {name: diagnosis[name] for name in ("trust_score", "confidence_score")}
    answer("diagnose", diagnosis, run_summary(record, runs_dir), as_json=as_json)
