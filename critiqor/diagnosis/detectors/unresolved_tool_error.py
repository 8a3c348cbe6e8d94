"""`unresolved_tool_error`: a tool failed, nothing repaired it, and the answer does not mention it."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.assertions import admits_failure
from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.detectors.tool_misuse import is_misuse
from critiqor.diagnosis.draft import Draft, cite, name_calls
from critiqor.diagnosis.signals.text import is_already_so, likeness_of_calls, tells_of_absence, words
from critiqor.diagnosis.signals.tools import runs_commands
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Message, ToolCall

TYPE = "unresolved_tool_error"
MEANING = "a tool failed, nothing repaired it, and the answer does not mention it"
MAX_JUDGED = 50
"""Kinds of failures that are followed, the latest ones."""
SAME_PURPOSE = 0.3
"""Share of common words from which a later call of the same tool is the repair of an earlier one."""
LONG_WORD = 6
"""Characters of a word that is rarely shared by chance."""
_READING = (Kind.LOOKUP, Kind.WAIT)
_FILE = re.compile(r"[\w-]+\.[A-Za-z]\w{0,5}\b")
_TOKEN = re.compile(r"[A-Z_]+")


class _Failure:
    """The last failure of one kind, and whether anything was done about it."""

    __slots__ = ("call", "files", "first_reply", "is_admitted", "is_look", "is_repaired", "named_files", "rests")

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        absent = tells_of_absence(call.error or "")
        self.is_look = call.kind in _READING or absent
        """Whether it only wanted to know something, such as whether a thing exists."""
        self.rests = self.is_look and (not runs_commands(call.tool) or absent)
        """Whether other results of the same tool make up for it."""
        self.is_repaired = False
        self.is_admitted = False
        """Whether the agent sent a message through a tool that admits a failure."""
        self.first_reply: Message | None = None
        named = call.arguments if call.kind is Kind.CHANGE else "" if call.is_test else call.output
        self.files = frozenset(_FILE.findall(named))
        """Files that a repair would have to change."""
        self.named_files = [words(name) for name in _FILE.findall(call.arguments)]

    def is_repaired_by(self, call: ToolCall) -> bool:
        """Return whether a later call that succeeded makes up for the failure."""
        failed = self.call
        if self.is_look and (call.kind in _READING or (self.rests and call.tool == failed.tool)):
            return True  # it looked elsewhere and found something
        comparable = call.tool == failed.tool and call.is_test == failed.is_test
        if comparable and likeness_of_calls(call.arguments, failed.arguments) >= SAME_PURPOSE:
            return True
        # What could not be changed was changed in another way, or what the error names was changed.
        return call.kind in (Kind.CHANGE, Kind.COMMAND) and any(file in call.arguments for file in self.files)

    def is_answer(self, requested: set[str]) -> bool:
        """Return whether the error is itself an answer: a missing file is, unless the user asked about that file."""
        error = self.call.error or ""
        if is_already_so(error):
            return True
        if self.call.kind not in _READING or not tells_of_absence(error):
            return False
        return not any(name <= requested for name in self.named_files)

    def is_mentioned(self, last_reply: Message | None) -> bool:
        """Return whether the agent reported the failure, right after it or at the end."""
        if self.is_admitted or self.first_reply is None or last_reply is None:
            # An agent run that ended without a message claims nothing; other detectors judge how it ended.
            return True
        replies = (self.first_reply, last_reply)
        return any(reply.admits_failure or _quotes(reply.text, self.call) for reply in replies)


class UnresolvedToolError(RunDetector[ToolCall | Message]):
    """Follows the last failure of each tool and kind until something repairs it or the agent reports it."""

    NEEDS = ("failed call",)
    OBSERVES = (ToolCall, Message)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._failures: dict[tuple[str, str], _Failure] = {}
        """The latest last."""
        self._worked: set[str] = set()
        """Tools that have succeeded."""
        self._requested: set[str] = set()
        """Words of the user."""
        self._last_reply: Message | None = None

    def observe(self, span: ToolCall | Message, /) -> None:
        if isinstance(span, Message):
            self._observe_message(span)
            return
        if span.kind is Kind.ACTION and not span.failed and self._failures and admits_failure(span.arguments):
            for failure in self._failures.values():
                failure.is_admitted = True
        if not span.result or span.kind is Kind.THOUGHT:
            return
        if not span.failed:
            self._worked.add(span.tool)
            for failure in self._failures.values():
                if not failure.is_repaired:
                    failure.is_repaired = failure.is_repaired_by(span)
        elif not span.tool.startswith("memory_") and not is_misuse(span):
            key = (span.tool, span.error_kind)
            self._failures.pop(key, None)
            failure = self._failures[key] = _Failure(span)
            failure.is_repaired = failure.rests and span.tool in self._worked
            if len(self._failures) > MAX_JUDGED:
                del self._failures[next(iter(self._failures))]

    def _observe_message(self, message: Message) -> None:
        if message.is_user:
            self._requested |= words(message.text)
        # A bare word in capitals is a signal to OpenClaw and not to a person: NO_REPLY, HEARTBEAT_OK.
        elif message.text and not _TOKEN.fullmatch(message.text):
            self._last_reply = message
            for failure in self._failures.values():
                if failure.first_reply is None:
                    failure.first_reply = message

    def findings(self) -> list[Draft]:
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
        matters = any(not failure.is_look for failure in left)
        names = name_calls(calls)
        answer = [CausalStep(reply.event_id, "The answer does not mention it", "ignored")] if reply is not None else []
        return Draft(
            type=TYPE,
            about=(*sorted({call.tool for call in calls}), first.error_kind),
            severity="medium" if matters else "low",
            confidence=70 if matters else 55,
            title=f"{names} failed; no later call fixed it, and the answer does not mention it",
            explanation=f"{counted(len(calls), 'failure')} unresolved, the last one: {excerpt(last.error or '', 160)}",
            evidence=cite([*(call.evidence for call in calls), *([reply.event_id] if reply else [])]),
            occurrences=len(calls),
            first_bad_step=first.evidence,
            chain=[
                CausalStep(first.evidence, f"{first.name} failed: {excerpt(first.error or '', 80)}", None),
                *answer,
            ],
            explains=frozenset(call.evidence for call in calls),
            scope=self.run.scope,
            recommendation=f"Have the agent fix what made {names} fail, or report the failure in its answer.",
            verification="Run the same task again: the call succeeds in the end, or the answer reports the failure.",
        )


def _quotes(answer: str, failed: ToolCall) -> bool:
    """Return whether an answer has words that can only come from the error: quoting it is not ignoring it."""
    shared = (words(answer) & words(failed.output)) - words(failed.arguments)
    return any(len(word) >= LONG_WORD for word in shared) or sum(len(word) > 3 for word in shared) > 1
