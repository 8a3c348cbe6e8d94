"""`unresolved_tool_error`: a tool failed, nothing repaired it, and the answer does not mention it."""

from __future__ import annotations

import re

from critiqor.diagnosis.collections.orders import Orders
from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.detectors.tool_misuse import is_tool_misuse
from critiqor.diagnosis.drafts.call_groups import name_calls
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.signals.admissions import admits_failure
from critiqor.diagnosis.signals.errors import reports_absence, reports_already_done
from critiqor.diagnosis.signals.text import words
from critiqor.diagnosis.signals.tool_calls import does_nothing, runs_commands, tool_call_likeness
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Message, ToolCall

TYPE = "unresolved_tool_error"
MEANING = "a tool failed, no later call fixed it, and the answer does not mention it"
MAX_TRACKED = 50
"""Maximum number of kinds of failures that are tracked; the latest are kept."""
MAX_REQUESTED = 20_000
"""Maximum number of different words of the user's messages; of more, those of the latest messages count."""
MIN_SIMILARITY = 0.3
"""Minimum share of common words of two calls of a tool for the later one to count as the fix of the earlier one."""
MIN_SIMILARITY_OF_TOOLS = 0.5
"""The same for a call of another tool of the same kind."""
MIN_PART = 0.8
"""Minimum share of the words of a failed call in a later one that contains it."""
MIN_RARE_WORD_CHARACTERS = 6
"""Minimum number of characters of a word that two texts rarely share by chance."""
_READING = (Kind.LOOKUP, Kind.WAIT)
_DEEDS = (Kind.ACTION, Kind.CHANGE, Kind.OTHER)
_FILE = re.compile(r"[\w-]+\.[A-Za-z]\w{0,5}\b")
_TOKEN = re.compile(r"[A-Z_]+")


class _Failure:
    """The last failure of one kind, and whether it was resolved or reported."""

    __slots__ = (
        "_files",
        "call",
        "first_reply",
        "is_admitted",
        "is_lookup",
        "is_repaired",
        "is_resolved_by_tool",
    )

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        absent = reports_absence(call.error or "")
        self.is_lookup = call.kind in _READING or absent
        """Whether the call only looked something up, such as whether a file exists."""
        self.is_resolved_by_tool = self.is_lookup and (not runs_commands(call.tool) or absent)
        """Whether any successful call of the same tool resolves the failure."""
        self.is_repaired = False
        self.is_admitted = False
        """Whether a message that the agent sent through a tool admits a failure."""
        self.first_reply: Message | None = None
        self._files: frozenset[str] | None = None

    @property
    def files(self) -> frozenset[str]:
        """Files that a fix would have to change."""
        if self._files is None:
            call = self.call
            named = call.arguments if call.kind is Kind.CHANGE else "" if call.is_test else call.output
            self._files = frozenset(_FILE.findall(named))
        return self._files

    def is_repaired_by(self, call: ToolCall) -> bool:
        """Return whether a later successful call resolves the failure."""
        failed = self.call
        if self.is_lookup and (call.kind in _READING or (self.is_resolved_by_tool and call.tool == failed.tool)):
            return True  # another lookup found something
        comparable = call.tool == failed.tool and call.is_test == failed.is_test
        if comparable and tool_call_likeness(call.arguments, failed.arguments) >= MIN_SIMILARITY:
            return True
        if comparable and _is_part(failed.arguments, call.arguments):
            return True
        is_alike = call.kind == failed.kind and call.kind in _DEEDS and not runs_commands(call.tool)
        if is_alike and tool_call_likeness(call.arguments, failed.arguments) >= MIN_SIMILARITY_OF_TOOLS:
            return True  # another tool did the same with the same things
        # The file that could not be changed, or that the error names, was changed by another call.
        return call.kind in (Kind.CHANGE, Kind.COMMAND) and any(file in call.arguments for file in self.files)

    def is_answer(self, requested: set[str]) -> bool:
        """Return whether the error is itself an answer, such as a missing file that the user did not ask about."""
        error = self.call.error or ""
        if reports_already_done(error):
            return True
        if self.call.kind not in _READING or not reports_absence(error):
            return False
        return not any(words(name) <= requested for name in _FILE.findall(self.call.arguments))

    def is_mentioned(self, last_reply: Message | None) -> bool:
        """Return whether the agent reported the failure, right after it or at the end."""
        if self.is_admitted or self.first_reply is None or last_reply is None:
            # An agent run without a message after the failure claims nothing; other detectors judge its end.
            return True
        replies = (self.first_reply, last_reply)
        return any(reply.admits_failure or _quotes(reply.text, self.call) for reply in replies)


class UnresolvedToolError(RunDetector[ToolCall | Message]):
    """Tracks the last failure of each tool and kind until it is resolved or the agent reports it."""

    NEEDS = ("failed call",)
    OBSERVES = (ToolCall, Message)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._failures: dict[tuple[str, str], _Failure] = {}
        """The last failure by tool and kind of error, in order of time."""
        self._worked: set[str] = set()
        """Tools that have succeeded."""
        self._requested: set[str] = set()
        """Words of the user's messages."""
        self._last_reply: Message | None = None
        self._is_at_work = False
        """Whether the agent went on after its last text, other than with an action such as sending a message."""

    def observe(self, span: ToolCall | Message, /) -> None:
        if isinstance(span, Message):
            self._observe_message(span)
            return
        if span.kind is Kind.ACTION and not span.failed and self._failures and admits_failure(span.arguments):
            for failure in self._failures.values():
                failure.is_admitted = True
        if not span.result or span.kind is Kind.THOUGHT:
            return
        self._is_at_work |= span.kind is not Kind.ACTION
        if not span.failed:
            if self._failures and does_nothing(span.tool, span.arguments):
                return
            self._worked.add(span.tool)
            for failure in self._failures.values():
                if not failure.is_repaired:
                    failure.is_repaired = failure.is_repaired_by(span)
        elif not span.tool.startswith("memory_") and not is_tool_misuse(span):
            key = (span.tool, span.error_kind)
            self._failures.pop(key, None)
            failure = self._failures[key] = _Failure(span)
            failure.is_repaired = failure.is_resolved_by_tool and span.tool in self._worked
            if len(self._failures) > MAX_TRACKED:
                del self._failures[next(iter(self._failures))]

    def _observe_message(self, message: Message) -> None:
        if message.is_user:
            self._requested |= words(message.text)
            if len(self._requested) > MAX_REQUESTED:
                self._requested = set(words(message.text))
        # A single word in capitals, such as NO_REPLY or HEARTBEAT_OK, is a signal to OpenClaw, not to a person.
        elif message.text and not _TOKEN.fullmatch(message.text):
            self._last_reply, self._is_at_work = message, False
            for failure in self._failures.values():
                if failure.first_reply is None:
                    failure.first_reply = message

    def findings(self) -> list[Draft]:
        if self._is_at_work:
            return []  # what there was to report, the agent had no occasion to report
        left = [
            failure
            for failure in self._failures.values()
            if not failure.is_repaired
            and not failure.is_answer(self._requested)
            and not failure.is_mentioned(self._last_reply)
        ]
        return [self._draft(left)] if left else []

    def _draft(self, left: list[_Failure]) -> Draft:
        calls = [failure.call for failure in left]
        first, last = calls[0], calls[-1]
        reply = self.run.final_reply
        matters = any(not failure.is_lookup for failure in left)
        names = name_calls(calls)
        answer = [CausalStep(reply.event_id, "The answer does not mention it", "ignored")] if reply is not None else []
        return Draft(
            type=TYPE,
            about=(*sorted({call.tool for call in calls}), first.error_kind),
            severity="medium" if matters else "low",
            confidence=70 if matters else 55,
            title=f"{names} failed; no later call fixed it, and the answer does not mention it",
            explanation=f"{counted(len(calls), 'failure')} unresolved, the last one: {excerpt(last.error or '', 160)}",
            evidence=cite_events([*(call.evidence for call in calls), *([reply.event_id] if reply else [])]),
            occurrences=len(calls),
            first_bad_step=first.evidence,
            chain=[
                CausalStep(first.evidence, f"{first.name} failed: {excerpt(first.error or '', 80)}", None),
                *answer,
            ],
            explained_calls=Orders(call.order for call in calls),
            scope=self.run.scope,
            recommendation=f"Have the agent fix what made {names} fail, or report the failure in its answer.",
            verification="Run the same task again: the call succeeds in the end, or the answer reports the failure.",
        )


def _is_part(failed: str, later: str) -> bool:
    """Return whether a call contains an earlier one: the command succeeds as the first of several."""
    given = words(failed)
    return len(given) > 1 and len(given & words(later)) >= MIN_PART * len(given)


def _quotes(answer: str, failed: ToolCall) -> bool:
    """Return whether an answer has words of the error that are not in the arguments, so that it reports the error."""
    shared = (words(answer) & words(failed.output)) - words(failed.arguments)
    return any(len(word) >= MIN_RARE_WORD_CHARACTERS for word in shared) or sum(len(word) > 3 for word in shared) > 1
