"""`critiqor lab list`, `critiqor lab run`, `critiqor lab from-run RUN`, `critiqor lab model SCRIPT`."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from critiqor.cli.names import run_names
from critiqor.cli.output import answer, json_option, openclaw_command_option, runs_dir_option, say
from critiqor.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from critiqor.lab.batch import ScenarioResult, Told
    from critiqor.lab.scenario import Place, Scenario

_HELP = {"help_option_names": ["-h", "--help"]}
_scenarios_option = click.option(
    "--scenarios",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder of your own scenarios, instead of those that come with Critiqor.",
)


@click.group(context_settings=_HELP)
def lab() -> None:
    """Play scripted scenarios, break agents on purpose, and see whether it is noticed."""


@lab.command("list", context_settings=_HELP)
@_scenarios_option
@json_option
def list_(folder: Path | None, as_json: bool) -> None:
    """List the scenarios, with what each must lead to."""
    from critiqor.cli.wording import page, table
    from critiqor.diagnosis.text import counted

    scenarios = _scenarios(folder, ())
    rows = [(one.name, one.expect.primary or "nothing", " ".join(one.on), one.description) for one in scenarios]
    text = page([*table(rows, indent=""), "", f"{counted(len(rows), 'scenario')}. Next: critiqor lab run"])
    told = [
        {"name": one.name, "description": one.description, "on": one.on, "because": one.because, "expect": one.expect}
        for one in scenarios
    ]
    answer("lab list", told, text, as_json=as_json)


@lab.command(context_settings=_HELP)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--on",
    "place",
    type=click.Choice(["embedded", "openclaw"]),
    default="embedded",
    show_default=True,
    help="The loop that comes with Critiqor, or a real OpenClaw in a home of its own.",
)
@click.option("--repeat", type=click.IntRange(1, 1000), default=1, show_default=True, help="How often each is played.")
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
    place: Place,
    repeat: int,
    report: Path | None,
    folder: Path | None,
    openclaw_command: str,
    as_json: bool,
) -> None:
    """Play scenarios through the real recorder and diagnosis, all of them or those with a NAME.

    Exit code 3 if anything was missed, or found where nothing is. On OpenClaw each takes about half a minute.

    \b
    critiqor lab run
    critiqor lab run false_claim_tests --repeat 5
    critiqor lab run --scenarios tests/incidents --on openclaw --report lab.md
    """
    from critiqor.cli.wording import page
    from critiqor.lab.batch import run_batch
    from critiqor.lab.report import failure_lines, lab_lines, lab_markdown
    from critiqor.lab.runner import Runner

    scenarios = _scenarios(folder, names)
    if not any(place in one.on for one in scenarios):
        why = next((one.because for one in scenarios if one.because), "")
        raise UsageError(
            f"nothing to play on {place}. {why}".strip(), fix="critiqor lab list   says where each is played"
        )
    if report is not None:
        report.open("a", encoding="utf-8").close()  # rather now than when everything was played
    drawn = sys.stderr.isatty() and not as_json
    with _progress(sum(place in one.on for one in scenarios), drawn) as tell:
        result = run_batch(scenarios, Runner(place, openclaw_command), repeat, tell)
    if report is not None:
        report.write_text(lab_markdown(result), encoding="utf-8")
    lines = failure_lines(result) if drawn and sys.stdout.isatty() else lab_lines(result)
    answer("lab run", result, page(lines), as_json=as_json)
    ctx.exit(ExitCode.OK if result.passed else ExitCode.GATE_FAILED)


@lab.command("from-run", context_settings=_HELP)
@click.argument("run_id", metavar="RUN", shell_complete=run_names)
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write it to this .toml file.")
@runs_dir_option
@json_option
def from_run(run_id: str, output: Path | None, runs_dir: str, as_json: bool) -> None:
    """Make a scenario of a recorded RUN: what its model said and what its tools answered becomes the script.

    Keep it beside the agent, and a failure that was repaired stays repaired: `critiqor lab run --scenarios FOLDER`.
    """
    from critiqor.lab.from_run import scenario_from_run
    from critiqor.lab.scenario_text import scenario_text

    drafted = scenario_from_run(run_id, runs_dir)
    text = scenario_text(drafted.scenario, "\n".join(drafted.notes))
    if output is not None:
        output.write_text(text, encoding="utf-8")
        say(f"wrote {output}. Next: critiqor lab run {output.stem} --scenarios {output.parent}")
    told = {"scenario": text, "notes": drafted.notes, "output": str(output) if output else None}
    answer("lab from-run", told, "" if output else text.rstrip("\n"), as_json=as_json)


@lab.command(context_settings=_HELP)
@click.argument("script")
@json_option
def model(script: str, as_json: bool) -> None:
    """Serve the model of SCRIPT, a scenario's name or file, until Ctrl-C; prints the base URL of its API.

    Any agent that talks to an OpenAI-compatible endpoint can be pointed to it. Each message of the scenario's user is
    answered with its steps, whichever session it comes from.
    """
    import threading

    from critiqor.lab.scenario_file import read_scenario
    from critiqor.lab.scripted_model import ScriptedModel

    file = Path(script)
    scenario = read_scenario(file) if file.suffix == ".toml" else _scenarios(None, (script,))[0]
    with ScriptedModel(scripts=scenario.scripts(), summary=scenario.summary) as served:
        answer("lab model", {"base_url": served.base_url}, served.base_url, as_json=as_json)
        sys.stdout.flush()
        say("serving until Ctrl-C")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            say(f"answered {len(served.requests)} requests")


def _scenarios(folder: Path | None, names: tuple[str, ...]) -> list[Scenario]:
    from critiqor.lab.scenario_file import chosen, scenarios_in, shipped_scenarios

    return chosen(shipped_scenarios() if folder is None else scenarios_in(folder), names)


def _progress(count: int, drawn: bool) -> AbstractContextManager[Told]:
    if not drawn:
        return nullcontext(_say_result)
    from critiqor.cli.live_table import live_table

    return live_table(count)


def _say_result(name: str, result: ScenarioResult | None) -> None:
    if result is not None:
        say(f"{name}: {'as expected' if result.passed else 'FAILED'}")
