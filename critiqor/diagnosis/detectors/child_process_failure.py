"""`child_process_failure`: a process that OpenClaw started for itself failed."""

from __future__ import annotations

from critiqor.diagnosis.detector import TimelineDetector
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.recording import Recording
from critiqor.model import CausalStep, ms_from_iso
from critiqor.model.event import place_of
from critiqor.model.timeline import ChildProcess, line_id
from critiqor.spans.calls import command_line

TYPE = "child_process_failure"
MEANING = "a process that OpenClaw started for itself failed"
MIN_RESTARTS = 3
"""Minimum number of failures of a program that counts as repeatedly restarted."""
MAX_SAME_END_MS = 1_000
"""Maximum time between the ends of a child process and of an agent's command for both to count as the same process.

Such a process is judged as a tool call."""
_STOP_SIGNALS = frozenset(("SIGTERM", "SIGINT", "SIGHUP"))
"""Signals that ask a program to end."""


class ChildProcessFailure(TimelineDetector[ChildProcess]):
    """Groups the failed child processes in OpenClaw's timeline by program."""

    def __init__(self, recording: Recording) -> None:
        self._commands = [
            place.milliseconds
            for run in recording.runs
            for call in run.actions
            if call.result is not None and command_line(call.arguments) and (place := place_of(call.result)) is not None
        ]
        """Times at which the agent's own commands ended, in milliseconds."""
        self._programs: dict[str, list[ChildProcess]] = {}

    def observe(self, span: ChildProcess, /) -> None:
        ended = ms_from_iso(span.ended_at) or 0
        of_agent = span.agent_run_id is not None or any(abs(at - ended) <= MAX_SAME_END_MS for at in self._commands)
        if span.signal not in _STOP_SIGNALS and not of_agent:
            self._programs.setdefault(span.command or "a program", []).append(span)

    def findings(self) -> list[Draft]:
        return [_draft(program, failures) for program, failures in self._programs.items()]


def _draft(program: str, failures: list[ChildProcess]) -> Draft:
    first, last = failures[0], failures[-1]
    how = f"was killed by {last.signal}" if last.signal else f"ended with exit code {last.exit_code}"
    is_frequent = len(failures) >= MIN_RESTARTS
    return Draft(
        type=TYPE,
        about=(program,),
        severity="medium" if is_frequent else "low",
        confidence=90,
        title=f"`{program}` {how}" + (f", {len(failures)} times" if len(failures) > 1 else ""),
        explanation="OpenClaw started this process for itself or for a plugin. "
        + ("It was restarted repeatedly. " if is_frequent else "")
        + "Features that depend on it did not work.",
        evidence=cite_events(line_id(child.line) for child in failures),
        occurrences=len(failures),
        first_bad_step=line_id(first.line),
        chain=[CausalStep(line_id(first.line), f"`{program}` failed", None)]
        + ([CausalStep(line_id(last.line), "Failed again", "retried")] if len(failures) > 1 else []),
        recommendation=f"Run `{program}` by hand as OpenClaw does and read its output; for an MCP server, check its "
        "entry in the configuration.",
        verification="Run the same task again: `critiqor timeline` shows no failed child process.",
    )
