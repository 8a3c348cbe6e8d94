"""`child_process_failure`: a process that OpenClaw had started for itself ended badly."""

from __future__ import annotations

from critiqor.diagnosis.draft import Draft, cite
from critiqor.diagnosis.recording import Recording
from critiqor.model import CausalStep, ms_from_iso
from critiqor.model.event import place_of
from critiqor.model.timeline import ChildProcess, TimelineSummary, line_id
from critiqor.spans.calls import command_line

TYPE = "child_process_failure"
OFTEN = 3
"""So many times: it is started again and again and does not stay."""
SAME_MS = 1_000
"""A command of the agent that ended so close to it is what it was, and is judged as a tool."""
_ASKED_TO_STOP = frozenset(("SIGTERM", "SIGINT", "SIGHUP"))
"""How a program is meant to be ended."""


def detect(timing: TimelineSummary, recording: Recording) -> list[Draft]:
    """Child processes that failed, by program, without commands of the agent, which are judged as its tools."""
    commands = [
        place.milliseconds
        for run in recording.runs
        for step in run.actions
        if step.result is not None and command_line(step.arguments) and (place := place_of(step.result)) is not None
    ]
    programs: dict[str, list[ChildProcess]] = {}
    for child in timing.children.failures:
        ended = ms_from_iso(child.ended_at) or 0
        of_agent = child.agent_run_id is not None or any(abs(moment - ended) <= SAME_MS for moment in commands)
        if child.signal not in _ASKED_TO_STOP and not of_agent:
            programs.setdefault(child.command or "a program", []).append(child)
    return [_draft(program, failures) for program, failures in programs.items()]


def _draft(program: str, failures: list[ChildProcess]) -> Draft:
    last = failures[-1]
    how = f"was ended by {last.signal}" if last.signal else f"ended with exit code {last.exit_code}"
    often = len(failures) >= OFTEN
    return Draft(
        type=TYPE,
        about=(program,),
        severity="medium" if often else "low",
        confidence=90,
        title=f"`{program}` {how}" + (f", {len(failures)} times" if len(failures) > 1 else ""),
        explanation="OpenClaw had started it, for itself or for a plugin. "
        + ("It is started again and again, and does not stay. " if often else "")
        + "What depended on it had to do without.",
        evidence=cite(line_id(child.line) for child in failures),
        occurrences=len(failures),
        first_bad_step=line_id(failures[0].line),
        chain=[CausalStep(line_id(failures[0].line), f"`{program}` failed", None)]
        + ([CausalStep(line_id(last.line), "and again", "retried")] if len(failures) > 1 else []),
        recommendation=f"Run `{program}` by hand as OpenClaw does, and look at what it says; for an MCP server, "
        "check its entry in the configuration.",
        verification="Run the same task again: `critiqor timeline` tells of no failed child process.",
    )
