"""Share of a turn's time that is attributed, on a real OpenClaw, in every way to run it.

    python benchmarks/attribution.py [--all] [--json]

The modes are one turn, the terminal UI, a gateway with two turns of a client, and an agent that is killed with all its
processes while a tool runs; with --all on every pinned version. The model responds after a third of a second, which is
fast: OpenClaw's own ten milliseconds between a request and a tool, which are unattributed, weigh more. The exit code is
1 if a limit is missed.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from openclaw.install import VERSIONS
from openclaw.rig import FINAL_WORDS, LOCAL_TURN, STEPS, Gateway, Rig, chat, rig, wait_until

from critiqor.lab.model.scripted_model import Step, ToolUse
from critiqor.model.formatting import format_duration
from critiqor.model.timeline import TimelineSummary, Turn

MAX_UNATTRIBUTED = 0.1
RESPONSE_SECONDS = 0.3
USUAL = tuple(msgspec.structs.replace(step, delay_s=RESPONSE_SECONDS) for step in STEPS)
NEVER_ENDS = (Step(tools=(ToolUse("call_1", "exec", {"command": "sleep 300"}),)), Step(text=FINAL_WORDS))


class Mode(NamedTuple):
    """One way to run an agent."""

    play: Callable[[Rig], None]
    steps: tuple[Step, ...] = USUAL
    turns: int = 1
    killed: bool = False


class Figures(msgspec.Struct, kw_only=True):
    """Measurements of one mode."""

    version: str
    mode: str
    present: bool
    events: int
    parse_errors: int
    torn_tail: int
    """Parse errors that are a last line that was cut off."""
    turns: int
    """Turns that took place."""
    turns_seen: int
    """Agent runs in the evidence."""
    turns_attributed: int
    """Those whose time is split."""
    turns_joined: int
    """Those that are in the timeline too."""
    unattributed: float
    """The largest unattributed share of a turn."""
    largest_gap: str
    """The largest unattributed gap of all turns."""
    missed: list[str]
    """Limits that were missed."""


def play_local(made: Rig) -> None:
    done = made.monitor(*LOCAL_TURN)
    if done.returncode:
        raise SystemExit(f"the turn failed: {done.stderr}")


def play_chat(made: Rig) -> None:
    chat(made, "do the thing", FINAL_WORDS)


def play_gateway(made: Rig) -> None:
    gateway = Gateway(made)
    gateway.turn()
    made.model.rewind()
    gateway.turn("and once more")
    gateway.stop()


def play_killed(made: Rig) -> None:
    monitor = made.start_monitor(*LOCAL_TURN)
    journal = made.runs / "run_001" / "journal.jsonl"
    wait_until(lambda: journal.exists() and '"event_type":"tool_call"' in journal.read_text())
    for process in made.openclaw_processes():
        process.kill()
    monitor.wait(60)


MODES = {
    "one turn": Mode(play_local),
    "terminal UI": Mode(play_chat),
    "gateway": Mode(play_gateway, turns=2),
    "killed": Mode(play_killed, NEVER_ENDS, killed=True),
}


def measure(version: str, name: str) -> Figures:
    """Record one mode, and compare the timeline with the evidence."""
    mode = MODES[name]
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        rig(Path(folder), version, mode.steps) as made,
    ):
        try:
            mode.play(made)
        finally:
            for process in made.openclaw_processes():
                process.kill()
        made.finalize()
        seen = {event["agent_run_id"] for event in made.events("agent_start")}
        answer = made.critiqor("timeline", "run_001", "--json")
    if answer.returncode:
        raise SystemExit(f"critiqor timeline failed: {answer.stdout}{answer.stderr}")
    summary = msgspec.convert(json.loads(answer.stdout)["data"], TimelineSummary)
    known = [turn for turn in summary.turns if turn.agent_run_id in seen]
    figures = Figures(
        version=version,
        mode=name,
        present=summary.present,
        events=summary.events,
        parse_errors=summary.parse_errors,
        torn_tail=sum(problem.count for problem in summary.unreadable if problem.kind == "torn_tail"),
        turns=mode.turns,
        turns_seen=len(seen),
        turns_attributed=sum(is_split(turn) for turn in known),
        turns_joined=sum("timeline" in turn.sources for turn in known),
        unattributed=max(
            (turn.split.unattributed_ms / turn.duration_ms for turn in known if turn.duration_ms), default=1.0
        ),
        largest_gap=largest_gap(known),
        missed=[],
    )
    figures.missed = list(missed(figures, may_be_torn=mode.killed))
    return figures


def largest_gap(turns: list[Turn]) -> str:
    gaps = [gap for turn in turns for gap in turn.split.gaps]
    if not gaps:
        return "none"
    worst = max(gaps, key=lambda gap: gap.duration_ms)
    return f"{format_duration(worst.duration_ms)} between {worst.after} and {worst.before}"


def is_split(turn: Turn) -> bool:
    return turn.requests > 0 and turn.split.with_provider_ms > 0


def missed(figures: Figures, *, may_be_torn: bool) -> list[str]:
    errors = figures.parse_errors - (figures.torn_tail if may_be_torn else 0)
    return [
        limit
        for limit, kept in (
            ("a timeline", figures.present and figures.events > 0),
            ("no parse errors", errors == 0),
            ("all turns attributed", figures.turns == figures.turns_seen == figures.turns_attributed),
            (f"at most {MAX_UNATTRIBUTED:.0%} unattributed", figures.unattributed <= MAX_UNATTRIBUTED),
        )
        if not kept
    ]


HEADS = (
    "version",
    "mode",
    "present",
    "events",
    "parse errors",
    "turns",
    "seen",
    "attributed",
    "joined",
    "unattributed",
)
LIMITS = ("", "limit", "yes", "", "0 (killed: torn tail)", "", "all", "all", "", f"at most {MAX_UNATTRIBUTED:.0%}")
WIDTHS = (9, 12, 8, 7, 22, 6, 5, 11, 7, 14)


def row(*cells: object) -> str:
    return "".join(str(cell).ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


def format_figures(figures: Figures) -> str:
    errors = f"{figures.parse_errors} ({figures.torn_tail} torn)" if figures.torn_tail else figures.parse_errors
    turns = (figures.turns, figures.turns_seen, figures.turns_attributed, figures.turns_joined)
    present = "yes" if figures.present else "no"
    line = row(figures.version, figures.mode, present, figures.events, errors, *turns, f"{figures.unattributed:.1%}")
    if not figures.missed:
        return line
    return f"{line}  MISSED: {', '.join(figures.missed)} (largest gap: {figures.largest_gap})"


def main() -> None:
    versions = VERSIONS if "--all" in sys.argv else VERSIONS[:1]
    as_json = "--json" in sys.argv
    if not as_json:
        print(row(*HEADS), row(*LIMITS), sep="\n", flush=True)
    measured = []
    for version in versions:
        for mode in MODES:
            measured.append(measure(version, mode))
            if not as_json:
                print(format_figures(measured[-1]), flush=True)
    if as_json:
        print(json.dumps({"measured": msgspec.to_builtins(measured), "most_unattributed": MAX_UNATTRIBUTED}))
    sys.exit(any(figures.missed for figures in measured))


if __name__ == "__main__":
    main()
