"""`critiqor explain RUN [FINDING]`, `critiqor explain RUN --answer`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import finding_names, run_names
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer, say_if_unproven
from critiqor.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.run.explanation import Explanation
    from critiqor.run.view import RunView


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@click.argument("finding", required=False, shell_complete=finding_names)
@click.option("--answer", "is_answer", is_flag=True, help="Show the final answers with every claim checked instead.")
@runs_dir_option
@json_option
def explain(run: str, finding: str | None, is_answer: bool, runs_dir: str, as_json: bool) -> None:
    """Explain FINDING of RUN, by its id, its number or its type: the causal chain step by step, with its events.

    Without FINDING, the main finding is explained. With --answer, the final answer of each session is shown with its
    claims: which of them the recording supports or contradicts, and the events that decide it.

    \b
    critiqor explain run_001
    critiqor explain run_001 2
    critiqor explain run_001 false_success_claim
    critiqor explain run_001 --answer
    """
    from critiqor.cli.texts.explain import explanation_text
    from critiqor.run.explanation import explain_finding
    from critiqor.run.store import RunStore
    from critiqor.run.view import RunView

    view = RunView(RunStore(runs_dir).run(run))
    if is_answer:
        if finding is not None:
            raise UsageError("--answer explains no finding", fix=f"critiqor explain {run} --answer")
        _explain_answers(view, as_json=as_json)
        return
    explanation = explain_finding(view, _name(view, finding))
    say_if_unproven(view)
    text = explanation_text(run, explanation)
    answer("explain", explanation, text, as_json=as_json, drawing=lambda: _drawing(run, explanation))


def _explain_answers(view: RunView, *, as_json: bool) -> None:
    from critiqor.cli.texts.explain import answers_text
    from critiqor.run.explanation import explain_answers

    answers = explain_answers(view)
    say_if_unproven(view)

    def drawing() -> RenderableType:
        from critiqor.cli.drawings.explain import answers_drawing

        return answers_drawing(view.run_id, answers)

    answer("explain", answers, answers_text(view.run_id, answers), as_json=as_json, drawing=drawing)


def _name(view: RunView, wanted: str | None) -> str:
    """Return the id or the type of the finding to explain."""
    if wanted is not None:
        is_number = wanted.isascii() and wanted.isdigit() and len(wanted) < 10
        return f"finding_{int(wanted):03d}" if is_number else wanted
    main = view.require_diagnosis().primary_diagnosis
    return "" if main is None else main.finding_id


def _drawing(run: str, explanation: Explanation) -> RenderableType:
    from critiqor.cli.drawings.explain import finding_drawing

    return finding_drawing(run, explanation)
