"""`ignored_tool_output`: the answer states something that the results do not contain."""

from __future__ import annotations

import re

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.call_groups import CallGroup
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Message, ToolCall

TYPE = "ignored_tool_output"
MEANING = "the answer states something that no tool result contains"
MIN_FRUITLESS_LOOKUPS = 2
"""Minimum number of lookups, all without a result, after which a definite answer has no source."""
MAX_UNREAD_TESTS = 64
"""Maximum number of test runs that are kept until their output is read."""
_DEFINITE = re.compile(r"\d[\d.,]*\d|[\"“`][^\"”`]{3,}[\"”`]")
_COUNT = re.compile(r"\b(\d+) (failed|failures?|errors?|passed|skipped)\b", re.IGNORECASE)


class IgnoredToolOutput(RunDetector[ToolCall | Message]):
    """Keeps whether any lookup found something, which counts test runs showed, and the last message of the agent."""

    NEEDS = (Message,)
    OBSERVES = (ToolCall, Message)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._reply: Message | None = None
        self._fruitless: CallGroup | None = None
        self._has_found = False
        """Whether any lookup found something."""
        self._tests: list[ToolCall] = []
        self._is_one_suite = True
        """Whether all test runs were the same call; with several suites, the numbers in the answer may be sums."""
        self._shown: set[tuple[str, str]] = set()
        """The counts in the outputs of the first `_read` test runs."""
        self._read = 0
        """Number of test runs whose output was read."""

    def observe(self, span: ToolCall | Message, /) -> None:
        if isinstance(span, Message):
            if not span.is_user:
                self._reply = span
        elif span.result and span.kind is not Kind.THOUGHT:
            self._observe_source(span)
            if span.is_test and self._is_one_suite:
                self._is_one_suite = not self._tests or self._tests[-1].same_call == span.same_call
                self._tests.append(span)
                if len(self._tests) > MAX_UNREAD_TESTS:
                    self._read_tests()
                    self._tests, self._read = self._tests[-1:], 1

    def _observe_source(self, call: ToolCall) -> None:
        if self._has_found or not _is_source(call):
            return
        if not (call.failed or call.nothing_found or call.echo):
            self._has_found, self._fruitless = True, None
        elif self._fruitless is None:
            self._fruitless = CallGroup(call)
        else:
            self._fruitless.add(call)

    def findings(self) -> list[Draft]:
        reply = self._reply
        if reply is None or not reply.text or reply.asks_tools:
            return []
        return self._without_source(reply) or self._other_count(reply)

    def _without_source(self, reply: Message) -> list[Draft]:
        """Report a definite answer if every lookup found nothing, failed or only echoed the question."""
        fruitless = self._fruitless
        if fruitless is None or len(fruitless) < MIN_FRUITLESS_LOOKUPS or reply.admits_failure:
            return []
        if not _DEFINITE.search(reply.text):
            return []
        title = f"The answer states facts although {counted(len(fruitless), 'lookup')} found nothing"
        explanation = f"Every lookup was empty, failed or only echoed the question. The agent said: {_quote(reply)}"
        return [self._draft(reply, fruitless, title, explanation, 60)]

    def _other_count(self, reply: Message) -> list[Draft]:
        """Report an answer with a number of passed or failed tests that no test run showed."""
        if not self._tests or not self._is_one_suite:
            return []
        counts = _counts(reply.text)
        if not counts:
            return []
        self._read_tests()
        test = self._tests[-1]
        last = _counts(test.output)
        for what, number in counts.items():
            if what in last and (what, number) not in self._shown:
                title = f"The answer says {number} {what}, but the last test run says {last[what]}"
                return [self._draft(reply, CallGroup(test), title, f"The agent said: {_quote(reply)}", 75)]
        return []

    def _read_tests(self) -> None:
        for test in self._tests[self._read :]:
            self._shown |= _counts(test.output).items()
        self._read = len(self._tests)

    def _draft(self, reply: Message, against: CallGroup, title: str, explanation: str, confidence: int) -> Draft:
        last = against.last
        return Draft(
            type=TYPE,
            about=tuple(sorted(against.tools)),
            severity="medium",
            confidence=confidence,
            title=title,
            explanation=explanation,
            evidence=against.citations.cited(reply.event_id),
            occurrences=len(against),
            first_bad_step=reply.event_id,
            chain=[
                CausalStep(last.evidence, f"`{last.tool}` returned: {excerpt(last.output, 80)}", None),
                CausalStep(reply.event_id, "The answer contradicts this result or goes beyond it", "ignored"),
            ],
            explained_calls=against.calls,
            scope=self.run.scope,
            recommendation="Have the agent name the result behind each statement, and say so when it found nothing.",
            verification="Run the same task again: the answer quotes a result, or says that there is none.",
        )


def _is_source(call: ToolCall) -> bool:
    """Return whether a call could be the source of the answer. Memory lookups do not count: most are empty."""
    only_waited = call.kind is Kind.WAIT and call.nothing_found
    return not only_waited and not call.tool.startswith("memory_") and "answer" not in call.tool


def _counts(text: str) -> dict[str, str]:
    return {what.lower().rstrip("s"): number for number, what in _COUNT.findall(text)}


def _quote(reply: Message) -> str:
    return f"“{excerpt(reply.text, 140)}”"
