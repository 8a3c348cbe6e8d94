"""One detector a file. Each looks at one agent run, or at the whole recording, and says what it found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from critiqor.diagnosis.detectors import (
    agent_failure,
    child_process_failure,
    compaction_loss,
    context_pollution,
    cost_explosion,
    false_success_claim,
    ignored_tool_output,
    inspection_incomplete,
    latency_stall,
    memory_failure,
    no_progress,
    premature_stop,
    process_failure,
    provider_failure,
    repeated_side_effect,
    repeated_tool_failure,
    retry_storm,
    secret_exposure,
    skill_failure,
    slow_provider,
    slow_startup,
    stuck_session,
    subagent_failure,
    timeout,
    tool_loop,
    tool_misuse,
    unresolved_tool_error,
)
from critiqor.diagnosis.draft import Draft
from critiqor.diagnosis.recording import Recording
from critiqor.model.timeline import TimelineSummary
from critiqor.spans.agent_run import AgentRun

FAILURE_TYPES: dict[str, str] = {
    process_failure.TYPE: "the program itself died",
    timeout.TYPE: "ended by time and not by its own end",
    stuck_session.TYPE: "work was pending, and for a long time nothing happened",
    provider_failure.TYPE: "model calls failed",
    retry_storm.TYPE: "request after request to a provider that does not answer",
    agent_failure.TYPE: "an agent run ended in an error that nothing else explains",
    false_success_claim.TYPE: "the agent says that it worked, and the record says otherwise, or nothing",
    repeated_side_effect.TYPE: "something that must happen once was done twice",
    secret_exposure.TYPE: "credentials in arguments, outputs or replies",
    tool_loop.TYPE: "the same calls again and again, and nothing comes of them",
    repeated_tool_failure.TYPE: "the same failure again and again, without anything being done about it",
    context_pollution.TYPE: "requests that fill or overrun the window",
    compaction_loss.TYPE: "what was known before a compaction is asked for again after it",
    memory_failure.TYPE: "memory that fails, finds nothing again and again, or forgets",
    tool_misuse.TYPE: "unknown tools, rejected arguments, calls that never came back",
    unresolved_tool_error.TYPE: "a tool failed, nothing repaired it, and the answer does not say so",
    ignored_tool_output.TYPE: "the answer asserts what the results do not say",
    subagent_failure.TYPE: "a child failed, timed out, or was declared complete when it was not",
    skill_failure.TYPE: "a skill that was asked for was never opened, or failed",
    cost_explosion.TYPE: "spend far beyond what progress explains",
    premature_stop.TYPE: "announced work was never done, and the run ended as if complete",
    no_progress.TYPE: "many steps that change nothing and learn nothing",
    child_process_failure.TYPE: "a process that OpenClaw had started for itself ended badly",
    latency_stall.TYPE: "the event loop stood still, and everything with it",
    slow_provider.TYPE: "answers of the model came, but very slowly",
    slow_startup.TYPE: "a process needed very long before it could do anything",
    inspection_incomplete.TYPE: "the recorder was blind, or lost something",
}
"""Every type of failure with its meaning. Among failures that are equally grave, the first of these comes first."""

RUN_DETECTORS: tuple[Callable[[AgentRun], list[Draft]], ...] = (
    provider_failure.detect,
    retry_storm.detect,
    agent_failure.detect,
    tool_loop.detect,
    repeated_tool_failure.detect,
    tool_misuse.detect,
    false_success_claim.detect,
    unresolved_tool_error.detect,
    ignored_tool_output.detect,
    repeated_side_effect.detect,
    memory_failure.detect,
    context_pollution.detect,
    skill_failure.detect,
    premature_stop.detect,
    no_progress.detect,
    secret_exposure.detect,
    slow_provider.detect,
)
SESSION_DETECTORS: tuple[Callable[[list[AgentRun]], list[Draft]], ...] = (
    memory_failure.detect_in_session,
    compaction_loss.detect_in_session,
)
"""What shows only from one agent run of a session to the next."""
RECORDING_DETECTORS: tuple[Callable[[Recording], list[Draft]], ...] = (
    process_failure.detect,
    timeout.detect,
    stuck_session.detect,
    subagent_failure.detect,
    inspection_incomplete.detect,
)

_EXPLAINED_BY = {
    unresolved_tool_error.TYPE: {repeated_tool_failure.TYPE, tool_misuse.TYPE, false_success_claim.TYPE},
    no_progress.TYPE: {repeated_tool_failure.TYPE, tool_loop.TYPE},
    repeated_tool_failure.TYPE: {skill_failure.TYPE},
    tool_loop.TYPE: {memory_failure.TYPE},
    memory_failure.TYPE: {tool_misuse.TYPE},
    process_failure.TYPE: {stuck_session.TYPE},
}
"""Failures that say nothing more where another one says it already of the same events."""


def detect_in_run(run: AgentRun) -> list[Draft]:
    """Everything that went wrong in one agent run."""
    found = [draft for detect in RUN_DETECTORS for draft in detect(run)]
    kept = _unexplained(found)
    return [*kept, *cost_explosion.detect(run, kept)]


def detect_in_session(runs: list[AgentRun]) -> list[Draft]:
    """What went wrong from one agent run of a session to the next."""
    return [draft for detect in SESSION_DETECTORS for draft in detect(runs)]


def detect_in_recording(recording: Recording, found: list[Draft]) -> list[Draft]:
    """What went wrong around the agents; an exit code that an agent's failure explains is told there."""
    drafts = [draft for detect in RECORDING_DETECTORS for draft in detect(recording)]
    by_itself = (recording.exit_code or 0) < process_failure.SIGNALS and recording.process_end is not None
    if by_itself and _ended_badly(recording, [*found, *drafts]):
        drafts = [draft for draft in drafts if draft.type != process_failure.TYPE]
    return _unexplained(drafts)


def detect_in_timing(timing: TimelineSummary, recording: Recording, found: list[Draft]) -> list[Draft]:
    """What was slow or failed beside the agents, as the timeline tells it."""
    return [
        *latency_stall.detect(timing),
        *slow_startup.detect(timing),
        *slow_provider.detect_in_timing(timing, found),
        *child_process_failure.detect(timing, recording),
    ]


_FATAL = frozenset((provider_failure.TYPE, context_pollution.TYPE, agent_failure.TYPE, timeout.TYPE))


def _ended_badly(recording: Recording, found: list[Draft]) -> bool:
    """Whether the last thing that an agent did was to fail."""
    last = max(recording.runs, key=lambda run: run.last_order, default=None)
    fatal = (draft for draft in found if draft.type in _FATAL and draft.severity == "high")
    return last is not None and any(draft.scope == last.scope for draft in fatal)


def _unexplained(found: list[Draft]) -> list[Draft]:
    """Without what others say already."""
    explained: dict[str, set[str]] = defaultdict(set)
    for draft in found:
        explained[draft.type] |= draft.explains
    return [draft for draft in found if not _is_explained(draft, explained)]


def _is_explained(draft: Draft, explained: dict[str, set[str]]) -> bool:
    own = draft.explains or frozenset(draft.evidence)
    by = [explained[type_] for type_ in _EXPLAINED_BY.get(draft.type, ()) if type_ in explained]
    return bool(by) and sum(any(event in events for events in by) for event in own) * 5 >= len(own) * 4


__all__ = ["FAILURE_TYPES", "detect_in_recording", "detect_in_run", "detect_in_session", "detect_in_timing"]
