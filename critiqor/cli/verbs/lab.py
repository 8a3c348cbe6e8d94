"""`critiqor lab list`, `critiqor lab run`, `critiqor lab from-run RUN`, `critiqor lab model SCRIPT`."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names, scenario_names, scenario_or_file_names
from critiqor.cli.options import json_option, openclaw_command_option, refuse_unused_command, runs_dir_option
from critiqor.cli.output import answer, say
from critiqor.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.lab.batch import ProgressCallback, ScenarioResult
    from critiqor.lab.scenario import Platform
    from critiqor.lab.scenario_file import ScenarioFolder

_HELP = {"help_option_names": ["-h", "--help"]}
_scenarios_option = click.option(
    "--scenarios",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder with your own scenarios, used instead of the built-in ones.",
)


@click.group(context_settings=_HELP)
def lab() -> None:
    """Run scripted scenarios that make agents fail, and check that the diagnosis finds the failures."""


@lab.command("list", context_settings=_HELP)
@_scenarios_option
@json_option
@click.pass_context
def list_(ctx: click.Context, folder: Path | None, as_json: bool) -> None:
    """List the scenarios with their expected findings."""
    from critiqor.cli.text_layout import page, table
    from critiqor.model.formatting import counted

    scenarios, broken = _scenarios(folder, ())
    rows = [(one.name, one.expect.primary or "nothing", " ".join(one.on), one.description) for one in scenarios]
    following = "critiqor lab run" + ("" if folder is None else f" --scenarios {quote(str(folder))}")
    text = page([*table(rows, indent=""), "", f"{counted(len(rows), 'scenario')}. Next: {following}"])
    data = [
        {"name": one.name, "description": one.description, "on": one.on, "because": one.because, "expect": one.expect}
        for one in scenarios
    ]

    def drawing() -> RenderableType:
        from critiqor.cli.drawings.lab import scenarios_drawing

        return scenarios_drawing(rows, following)

    answer("lab list", data, text, as_json=as_json, drawing=drawing)
    ctx.exit(ExitCode.USAGE if broken else ExitCode.OK)


@lab.command(context_settings=_HELP)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=scenario_names)
@click.option(
    "--on",
    "place",
    type=click.Choice(["embedded", "openclaw"]),
    default="embedded",
    show_default=True,
    help="Run on the embedded agent loop, or on a real OpenClaw with a temporary home folder.",
)
@click.option(
    "--repeat", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many times to run each scenario."
)
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), help="Write what was found to this file, as Markdown."
)
@_scenarios_option
@openclaw_command_option
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    /,
    names: tuple[str, ...],
    place: Platform,
    repeat: int,
    report: Path | None,
    folder: Path | None,
    openclaw_command: str,
    as_json: bool,
) -> None:
    """Run all scenarios, or those with a NAME, through the real recorder and diagnosis.

    Exit code 3 if an expected finding is missing or an unexpected one was found; 2 if a file is not a valid scenario
    and all others pass. On OpenClaw each takes about half a minute.

    \b
    critiqor lab run
    critiqor lab run false_claim_tests --repeat 5
    critiqor lab run --scenarios tests/incidents --on openclaw --report lab.md
    """
    from critiqor.cli.text_layout import page
    from critiqor.lab.batch import run_batch
    from critiqor.lab.report import failure_lines, lab_lines, lab_markdown
    from critiqor.lab.runners.runner import Runner

    if place != "openclaw":
        refuse_unused_command(ctx, "--on openclaw")
    scenarios, broken = _scenarios(folder, names)
    if not any(place in one.on for one in scenarios):
        why = next((one.because for one in scenarios if one.because), "")
        raise UsageError(
            f"no scenario can run on {place}. {why}".strip(), fix="critiqor lab list   shows where each scenario runs"
        )
    if report is not None:
        report.open("a", encoding="utf-8").close()  # fail now rather than after all scenarios have run
    drawn = sys.stderr.isatty() and not as_json
    with _progress(sum(place in one.on for one in scenarios), drawn) as report_result:
        result = run_batch(scenarios, Runner(place, openclaw_command), repeat, report_result)
    if report is not None:
        report.write_text(lab_markdown(result), encoding="utf-8")
    lines = failure_lines(result) if drawn and sys.stdout.isatty() else lab_lines(result)
    answer("lab run", result, page(lines), as_json=as_json)
    _say_broken(broken)  # again, because the first message has scrolled away
    ctx.exit(ExitCode.GATE_FAILED if not result.passed else ExitCode.USAGE if broken else ExitCode.OK)


@lab.command("from-run", context_settings=_HELP)
@click.argument("run_id", metavar="RUN", shell_complete=run_names)
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Output file (.toml).")
@runs_dir_option
@json_option
def from_run(run_id: str, output: Path | None, runs_dir: str, as_json: bool) -> None:
    """Create a scenario from a recorded RUN: the answers of its model and its tools become the script.

    Keep it with the agent's tests to detect a failure that comes back: `critiqor lab run --scenarios FOLDER`.
    """
    from critiqor.lab.from_run import scenario_from_run
    from critiqor.lab.scenario_text import scenario_text

    if output is not None and output.exists():
        raise UsageError(f"{output} already exists", fix=f"name another file, or: rm {quote(str(output))}")
    drafted = scenario_from_run(run_id, runs_dir)
    text = scenario_text(drafted.scenario, "\n".join(drafted.notes))
    if output is not None:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
        say(f"wrote {output}. Next: critiqor lab run {quote(output.stem)} --scenarios {quote(str(output.parent))}")
    data = {"scenario": text, "notes": drafted.notes, "output": str(output) if output else None}
    answer("lab from-run", data, "" if output else text.rstrip("\n"), as_json=as_json)


@lab.command(context_settings=_HELP)
@click.argument("script", shell_complete=scenario_or_file_names)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1.  [default: a free one]")
@json_option
def model(script: str, port: int, as_json: bool) -> None:
    """Serve the scripted model of SCRIPT, a scenario's name or file, until Ctrl-C; prints the base URL of its API.

    Any agent that uses an OpenAI-compatible endpoint can connect to it. Each user message of the scenario is answered
    with its steps, starting from the first one in every session.
    """
    import threading

    from critiqor.lab.model.scripted_model import ScriptedModel
    from critiqor.lab.scenario_file import read_scenario

    file = Path(script)
    if file.suffix == ".toml" and not file.exists():
        raise UsageError(f"there is no file {file}", fix="critiqor lab list   names the scenarios that can be served")
    scenario = read_scenario(file) if file.suffix == ".toml" else _scenarios(None, (script,)).scenarios[0]
    with ScriptedModel(scripts=scenario.scripts(), summary=scenario.summary, port=port) as served:
        try:
            answer("lab model", {"base_url": served.base_url}, served.base_url, as_json=as_json)
            sys.stdout.flush()
            say("serving until Ctrl-C")
            threading.Event().wait()
        except KeyboardInterrupt:
            from critiqor.model.formatting import counted

            say(f"answered {counted(len(served.requests), 'request')}")


def _scenarios(folder: Path | None, names: tuple[str, ...]) -> ScenarioFolder:
    """Return the selected scenarios, and the files of the folder that are not valid scenarios."""
    from critiqor.lab.scenario_file import ScenarioFolder, read_folder, select_scenarios, shipped_scenarios

    if folder is None:
        return ScenarioFolder(select_scenarios(shipped_scenarios(), names), {})
    found = read_folder(folder)
    for name in names:
        if name in found.broken:
            raise found.broken[name]
    broken = {} if names else found.broken
    _say_broken(broken)
    return ScenarioFolder(select_scenarios(found.scenarios, names), broken)


def _say_broken(broken: dict[str, UsageError]) -> None:
    for error in broken.values():
        say(f"left out: {error}")


def _progress(count: int, drawn: bool) -> AbstractContextManager[ProgressCallback]:
    if not drawn:
        return nullcontext(_say_result)
    from critiqor.cli.terminal.live_table import live_table

    return live_table(count)


def _say_result(name: str, result: ScenarioResult | None) -> None:
    if result is not None:
        say(f"{name}: {'as expected' if result.passed else 'FAILED'}")
