"""`critiqor diagnose RUN`, `critiqor diagnose session.json`, `critiqor diagnose TRACES.jsonl`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_or_file_names
from critiqor.cli.fleet.background_push import push_sealed
from critiqor.cli.options import contracts_option, json_option, read_policy_option, runs_dir_option
from critiqor.cli.output import answer, warn_if_unsigned

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.importers import ImportedTrace
    from critiqor.policy.contract import Contract
    from critiqor.run.diagnosis import Rediagnosis
    from critiqor.run.store import Run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("what", metavar="RUN|FILE", shell_complete=run_or_file_names)
@runs_dir_option
@contracts_option
@json_option
def diagnose(what: str, runs_dir: str, policy_file: Path | None, as_json: bool) -> None:
    """Diagnose a run again from its sealed evidence, or diagnose a file.

    \b
    critiqor diagnose run_001                 the run again: what changed since the last time, and by which rules
    critiqor diagnose elsewhere/session.json  evidence in any folder; nothing is written
    critiqor diagnose traces.jsonl --json     traces of other recorders: one line of JSON per trace, in order

    The evidence is not changed. An aborted run is sealed first. The contracts of the policy are checked, or those of
    the last diagnosis of the run again.
    """
    from critiqor.run.store import RunStore

    file, store = Path(what), RunStore(runs_dir)
    contracts = read_policy_option(policy_file).contracts
    if what in store or not file.is_file():
        _run(store.run(what), contracts if contracts or policy_file is not None else None, as_json=as_json)
        return
    from critiqor.importers import read_traces

    for trace in read_traces(file):
        if trace.coverage is not None:
            _recorded(file, trace, contracts, as_json=as_json)
        else:
            _trace(trace, contracts, as_json=as_json)


def _run(run: Run, contracts: Sequence[Contract] | None, *, as_json: bool) -> None:
    from msgspec import to_builtins

    from critiqor.cli.texts.show import run_summary
    from critiqor.run.diagnosis import diagnose_again
    from critiqor.run.view import RunView

    change = diagnose_again(run, contracts)
    view = RunView(run)
    text = "\n".join([run_summary(view), *_changed_lines(change)])
    data = {**to_builtins(view.require_diagnosis()), "changed": change}

    def drawing() -> RenderableType:
        from critiqor.cli.drawings.diagnose import rediagnosis_drawing

        return rediagnosis_drawing(view, change)

    answer("diagnose", data, text, as_json=as_json, drawing=drawing)
    warn_if_unsigned(run)
    push_sealed([run])


def _changed_lines(change: Rediagnosis) -> list[str]:
    """Return how a new diagnosis of the same evidence differs from the previous one."""
    if change.previous_rule_set is None:
        return []
    rules = (
        f"rule set {change.rule_set}, unchanged"
        if change.previous_rule_set == change.rule_set
        else f"rule set {change.previous_rule_set} → {change.rule_set}"
    )
    changes = [
        *(f"    gone: {cause}" for cause in change.gone),
        *(f"    new:  {cause}" for cause in change.new),
    ]
    if change.previous_trust != change.trust:
        changes.append(f"    trust: {change.previous_trust} → {change.trust}")
    return ["", f"  Compared with the previous diagnosis ({rules}):", *(changes or ["    nothing changed"])]


def _recorded(file: Path, trace: ImportedTrace, contracts: Sequence[Contract], *, as_json: bool) -> None:
    """Print the diagnosis of evidence of Critiqor: the only trace of its file."""
    from critiqor.cli.output import say
    from critiqor.cli.text_layout import page
    from critiqor.cli.texts.show import diagnosis_lines
    from critiqor.model.verdict import fresh_verdict
    from critiqor.run.diagnosis import diagnose_trace
    from critiqor.storage.seals.digests import file_digest

    for note in trace.notes:
        say(note)
    diagnosis = diagnose_trace(trace, file_digest(file) or "", contracts)

    def drawing() -> RenderableType:
        from critiqor.cli.drawings.diagnose import document_drawing

        return document_drawing(diagnosis)

    text = page([diagnosis.run_id, "", *diagnosis_lines(diagnosis, fresh_verdict(diagnosis))])
    answer("diagnose", diagnosis, text, as_json=as_json, drawing=drawing)


def _trace(trace: ImportedTrace, contracts: Sequence[Contract], *, as_json: bool) -> None:
    """Print one line about a trace of another recorder."""
    import json

    from msgspec import to_builtins

    from critiqor.cli.output import say
    from critiqor.model.sanitize import collapse_whitespace, sanitize_for_terminal
    from critiqor.run.diagnosis import trace_verdict

    verdict = trace_verdict(trace, contracts)
    for note in trace.notes:
        say(f"{trace.trace_id}: {note}")
    if as_json:
        click.echo(json.dumps(to_builtins(verdict)))
        return
    types = ", ".join(dict.fromkeys(f"{finding.severity} {finding.type}" for finding in verdict.findings))
    trust = "-" if verdict.trust_score is None else verdict.trust_score
    trace_id = collapse_whitespace(verdict.trace_id)
    sessions = f"  ({verdict.sessions})" if verdict.sessions else ""
    line = f"{trace_id}  {verdict.outcome}  trust {trust}  {types or 'no findings'}{sessions}"
    click.echo(sanitize_for_terminal(line))
