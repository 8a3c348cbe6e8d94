"""`critiqor demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from critiqor.cli.options import json_option, openclaw_command_option, refuse_unused_command
from critiqor.cli.output import answer, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.lab.demo import Act


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--openclaw", "on_openclaw", is_flag=True, help="Run the demo on a real OpenClaw, in a temporary home folder."
)
@openclaw_command_option
@json_option
@click.pass_context
def demo(ctx: click.Context, on_openclaw: bool, openclaw_command: str, as_json: bool) -> None:
    """Show what Critiqor does: three short runs of an agent, recorded, sealed and diagnosed.

    It needs no account, no network and no OpenClaw: the agent is the loop that comes with Critiqor, its model follows a
    script, and everything else is real. It takes a few seconds; on OpenClaw about a minute.
    """
    import shutil
    import tempfile

    from critiqor.lab.demo import ACTS, play_acts
    from critiqor.lab.runners.runner import Runner

    if not on_openclaw:
        refuse_unused_command(ctx, "--openclaw")
    folder = Path(tempfile.mkdtemp(prefix="critiqor-demo-"))
    runner = Runner("openclaw" if on_openclaw else "embedded", openclaw_command)
    acts: list[Act] = []
    try:
        for act in play_acts(runner, folder):
            acts.append(act)
            say(f"recorded {len(acts)} of {len(ACTS)}")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    data = {"runs_dir": str(folder / "runs"), "acts": acts}
    text = _text(acts, folder / "runs")
    answer("demo", data, text, as_json=as_json, drawing=lambda: _drawing(acts, folder / "runs"))


def _drawing(acts: list[Act], runs: Path) -> RenderableType:
    from critiqor.cli.drawings.demo import acts_drawing

    return acts_drawing(acts, _following(acts, runs))


def _text(acts: list[Act], runs: Path) -> str:
    from critiqor.cli.text_layout import page
    from critiqor.cli.texts.show import diagnosis_lines
    from critiqor.model.verdict import fresh_verdict

    lines = []
    for number, act in enumerate(acts, 1):
        lines += ["", f"{number}. {act.lesson} ({act.run_id})", f"   {act.description}", ""]
        lines += diagnosis_lines(act.diagnosis, fresh_verdict(act.diagnosis))
    lines += ["", "Next:", *(f"  {command}   {purpose}" for command, purpose in _following(acts, runs))]
    return page(lines[1:])


def _following(acts: list[Act], runs: Path) -> list[tuple[str, str]]:
    """Return the suggested next commands, each with its purpose."""
    from shlex import quote

    from critiqor.cli.hints import critiqor_command

    worst, folder, critiqor = acts[-1], quote(str(runs)), critiqor_command()
    finding = worst.diagnosis.primary_diagnosis
    explain = [] if finding is None else [f"{critiqor} explain {worst.run_id} {finding.finding_id} --runs-dir {folder}"]
    return [
        *((command, "event by event") for command in explain),
        (f"{critiqor} dashboard --runs-dir {folder}", "all three in a browser"),
        (f"{critiqor} timeline {worst.run_id} --runs-dir {folder}", "where its time went"),
        (f"{critiqor} lab list", f"list more scenarios; {critiqor} lab run runs them"),
        (f"{critiqor} doctor --probe && {critiqor} monitor openclaw", "your own agent"),
        (f"rm -r {quote(str(runs.parent))}", "delete the three demo runs"),
    ]
