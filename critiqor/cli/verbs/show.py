"""`critiqor show RUN`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer

if TYPE_CHECKING:
    from critiqor.model.integrity import Proof


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@runs_dir_option
@json_option
def show(run: str, runs_dir: str, as_json: bool) -> None:
    """Show RUN: the verdict, the findings, and what the recorder did not see."""
    from critiqor.cli.summary import run_drawing, run_summary
    from critiqor.run.diagnosis import load_proof
    from critiqor.run.lifecycle import load_record_head

    record, proof = load_record_head(run, runs_dir=runs_dir), load_proof(run, runs_dir)
    record["evidence"] = proof
    record["diagnosis"] = _told(run, runs_dir, proof) if record["seal"] else None
    text = run_summary(record, runs_dir)
    answer("show", record, text, as_json=as_json, drawing=lambda: run_drawing(record, runs_dir))


def _told(run: str, runs_dir: str, proof: Proof) -> Any:
    from msgspec import convert, to_builtins

    from critiqor.diagnosis.integrity import as_proven
    from critiqor.model import Diagnosis
    from critiqor.run.diagnosis import load_diagnosis

    return to_builtins(as_proven(convert(load_diagnosis(run, runs_dir=runs_dir), Diagnosis), proof))
