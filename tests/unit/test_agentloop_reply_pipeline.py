"""Random agent runs: every text reaches the user once and in order, and a failed tool is reported exactly when it must.

The model's words are numbered, so that a lost, repeated or misplaced one is noticed. `expected_words` derives what must
arrive from the script of the model and the documented rules, without any part of the reply pipeline.

    CRITIQOR_REPLY_CASES=5000 pytest tests/unit/test_agentloop_reply_pipeline.py        # instead of 100
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from agentloop import Echo, Rig, Say, defaults, instantly
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from critiqor.agentloop.models.model_client import FailureKind, ModelFailureError, ModelRequest
from critiqor.agentloop.runs import RunOutcome
from critiqor.agentloop.tools.messaging import Delivery, OutgoingMessage

WORD = re.compile(r"(?:say|why|msg)\d{4}|\(\w+\)|no_reply")
CASES = int(os.environ.get("CRITIQOR_REPLY_CASES", "100"))
SUMMARY, ERROR = "(summary)", "(error)"
KINDS: list[FailureKind] = ["network", "server", "timeout", "rate_limit", "context", "auth"]
SEPARATORS = [" ", ". ", "\n", "\n\n", ".\n\n", "\n```py\n", "\n```\n"]


@dataclass
class Tool:
    """A tool call: `echo` works, `broken` does not, `message` sends a text."""

    name: str
    text: str = ""
    target: str = "ada"
    channel: str = "chat"

    @property
    def is_to_user(self) -> bool:
        return (self.name, self.target, self.channel) == ("message", "ada", "chat")

    def call(self) -> tuple[str, dict[str, Any]]:
        if self.name != "message":
            return self.name, {"text": "x"}
        named = {"channel": self.channel, "target": self.target}
        if self.is_to_user and len(self.text) % 2:
            named = {}  # the same recipient, as the default
        return "message", {"action": "send", "message": self.text, **named}


@dataclass
class Turn:
    """One model call: complete, or failing after a part of its text."""

    text: str = ""
    thinking: str = ""
    tools: list[Tool] = field(default_factory=list)
    failure: FailureKind | None = None
    is_repeated: bool = False
    """Whether the failed text is the beginning of the text of the next complete turn."""

    def say(self, pieces: int) -> Say:
        failure = ModelFailureError("scripted", self.failure) if self.failure else None
        calls = tuple(tool.call() for tool in self.tools)
        return Say(self.text, calls, self.thinking, failure, pieces=pieces)


@dataclass
class Case:
    """A script of the model, and the settings of its run."""

    turns: list[Turn]
    blocks: str
    chunk: dict[str, Any]
    verbose: str
    reasoning: str
    pieces: int
    slow: bool
    refused: int
    """Which attempt to deliver something is refused once; -1 for none."""


class Channel:
    """An outbox that keeps messages, is sometimes slow, and refuses one of them."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._attempts = 0
        self.sent: list[str] = []
        self.refused: list[str] = []

    async def send(self, message: OutgoingMessage) -> Delivery:
        number, self._attempts = self._attempts, self._attempts + 1
        await asyncio.sleep(0.01 if self._case.slow else 0)
        if number == self._case.refused or message.channel != "chat":
            self.refused.append(message.text)
            return Delivery(error="refused")
        self.sent.append(message.text)
        return Delivery(message_id=f"id{number}")


class Broken(Echo):
    """A tool that fails."""

    name = "broken"


@st.composite
def cases(draw: st.DrawFn) -> Case:
    numbers = count()
    messages: list[str] = []

    def words(kind: str, most: int) -> str:
        if draw(st.integers(0, 5)) == 0:
            row = f"{kind}{next(numbers):04} {kind}{next(numbers):04}"
            return "\n".join([row] * draw(st.integers(1, 12)))
        parts = [f"{kind}{next(numbers):04}" for _ in range(draw(st.integers(1, most)))]
        separators = draw(st.lists(st.sampled_from(SEPARATORS), min_size=len(parts), max_size=len(parts)))
        return "".join(part + separator for part, separator in zip(parts, separators, strict=True))

    def text() -> str:
        choice = draw(st.integers(0, 9))
        if choice == 0:
            return draw(st.sampled_from(["", "NO_REPLY", "no_reply", " NO_REPLY\n"]))
        if choice <= 2 and messages:
            sent = draw(st.sampled_from(messages))
            changes = [sent, sent.upper() + " 🎉", f"{sent} {words('say', 3)}", sent[: len(sent) // 2], f"\n{sent}\n"]
            return draw(st.sampled_from(changes))
        return words("say", 30)

    def tool() -> Tool:
        name = draw(st.sampled_from(["echo", "broken", "message", "message"]))
        if name != "message":
            return Tool(name)
        made = Tool(name, words("msg", 8), draw(st.sampled_from(["ada", "ada", "bob"])))
        made.channel = draw(st.sampled_from(["chat", "chat", "chat", "nowhere"]))
        messages.append(made.text)
        return made

    def thinking() -> str:
        return words("why", 3) if draw(st.booleans()) else ""

    def attempts(turn: Turn) -> list[Turn]:
        """The turn, after attempts at it that failed."""
        failures: list[Turn] = []
        is_repeated = draw(st.booleans())
        for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
            failed = Turn(turn.text[: draw(st.integers(0, len(turn.text)))], turn.thinking)
            if not is_repeated:
                failed = Turn(words("say", 12), thinking())
            failed.failure, failed.is_repeated = draw(st.sampled_from(KINDS)), is_repeated
            failures.append(failed)
        return [*failures, turn]

    turns: list[Turn] = []
    for _ in range(draw(st.integers(0, 3))):
        turns += attempts(Turn(text(), thinking(), [tool() for _ in range(draw(st.integers(1, 2)))]))
    turns += attempts(Turn(text(), thinking()))
    small = draw(st.integers(8, 60))  # a block has at least one word
    chunk = {
        "minChars": small,
        "maxChars": small + draw(st.integers(0, 120)),
        "breakPreference": draw(st.sampled_from(["paragraph", "newline", "sentence"])),
    }
    return Case(
        turns=turns,
        blocks=draw(st.sampled_from(["off", "text_end", "text_end", "message_end"])),
        chunk=chunk,
        verbose=draw(st.sampled_from(["off", "on", "full"])),
        reasoning=draw(st.sampled_from(["off", "on"])),
        pieces=draw(st.sampled_from([1, 2, 7, 50, 400])),
        slow=draw(st.booleans()),
        refused=draw(st.sampled_from([-1, -1, -1, -1, -1, 0, 1, 2, 3, 6])),
    )


def words_of(*texts: str) -> list[str]:
    """Return the words of delivered texts. A word may be cut in two by blocks, also in a code block."""
    joined = "".join(ERROR if text[0] == "⚠" else SUMMARY if text[0] in "🧩✉" else text for text in texts if text)
    return WORD.findall("".join(joined.lower().split()).replace("```py", "").replace("`", ""))


def fold(text: str) -> str:
    return " ".join(text.lower().replace("🎉", "").split())


class Played(NamedTuple):
    """What a case led to."""

    outcome: RunOutcome
    channel: Channel
    turns: int
    """How many turns of the script were played."""
    results: list[bool]
    """Whether each tool call has worked."""


class Expectation:
    """What must arrive, by the documented rules."""

    def __init__(self, case: Case, played: Played) -> None:
        self.live: list[tuple[bool, list[str]]] = []
        """With block streaming: words in order; false for those of failed attempts, of which a beginning may arrive."""
        self.by_tools: list[str] = []
        """Words that tools have sent, in order."""
        self._case = case
        self._results = iter(played.results)
        self._to_user: list[str] = []
        self._failed = False
        turns = case.turns[: played.turns]
        failed: list[Turn] = []
        for number, turn in enumerate(turns):
            if turn.failure is None:
                self._complete(turn)
                failed = []
                continue
            failed.append(turn)
            if not turn.is_repeated:
                self._may(turn)
            elif number + 1 == len(turns):
                # No attempt has completed the text, of which a beginning may have arrived.
                self._may(max(failed, key=lambda one: len(one.text)))
        self._begun = self._last_attempt(turns)
        self.payloads = self._payloads(turns, has_failed=turns[-1].failure is not None)
        if ERROR in self.payloads:
            self.live.append((True, [ERROR]))

    @staticmethod
    def _last_attempt(turns: list[Turn]) -> int:
        failures = [number + 1 for number, turn in enumerate(turns[:-1]) if turn.failure is not None]
        return failures[-1] if failures else 0

    def _was_sent(self, text: str) -> bool:
        folded = fold(text)
        return any(folded == sent or (len(folded) >= 10 and folded in sent) for sent in map(fold, self._to_user))

    def _is_visible(self, text: str) -> bool:
        return text.strip() not in ("", "NO_REPLY", "no_reply") and not self._was_sent(text)

    def _thoughts(self, turn: Turn) -> list[str]:
        return words_of(turn.thinking) if self._case.reasoning == "on" else []

    def _may(self, turn: Turn) -> None:
        text = turn.text if self._is_visible(turn.text) else ""
        self.live.append((False, self._thoughts(turn) + words_of(text)))

    def _complete(self, turn: Turn) -> None:
        self.live.append((True, self._thoughts(turn) + (words_of(turn.text) if self._is_visible(turn.text) else [])))
        for tool in turn.tools:
            has_worked = next(self._results)
            is_sent = tool.name == "message" and has_worked
            self._failed |= not has_worked
            if is_sent:
                self.by_tools += words_of(tool.text)
                self.live.append((True, words_of(tool.text)))
            if is_sent and tool.is_to_user:
                self._to_user.append(tool.text)
            if self._case.verbose != "off":
                self.live.append((True, [SUMMARY]))

    def _payloads(self, turns: list[Turn], *, has_failed: bool) -> list[str]:
        complete = [turn for turn in turns[self._begun :] if turn.failure is None]
        found: list[str] = []
        if self._case.verbose != "off":
            found += [SUMMARY for turn in complete for _ in turn.tools]
        found += self._thoughts(complete[-1]) if complete else []
        answer = next((turn.text for turn in reversed(complete) if turn.text.strip()), "")
        if self._is_visible(answer):
            found += words_of(answer)
        elif not has_failed and self._failed and not self._to_user:
            found.append(ERROR)
        return [*found, ERROR] if has_failed else found


def consume(live: list[tuple[bool, list[str]]], arrived: list[str]) -> list[str]:
    """Return what must arrive, if it is `arrived` that arrived: of failed attempts, any beginning."""
    expected: list[str] = []
    for is_certain, words in live:
        for word in words:
            if not is_certain and arrived[len(expected) : len(expected) + 1] != [word]:
                break
            expected.append(word)
    return expected


def play(folder: Path, case: Case) -> Played:
    """Run a case on a real runtime."""
    channel = Channel(case)
    played = 0

    def script(request: ModelRequest) -> Say:
        nonlocal played
        if not request.tools:
            return Say("a summary")  # for a compaction
        if "warm up" in str(request.messages[-1]):
            return Say("ready")
        played += 1
        return case.turns[played - 1].say(case.pieces)

    async def scenario() -> Played:
        over = {
            "blockStreamingDefault": "off" if case.blocks == "off" else "on",
            "blockStreamingBreak": "text_end" if case.blocks == "off" else case.blocks,
            "blockStreamingChunk": case.chunk,
            "reasoningDefault": case.reasoning,
        }
        rig = Rig(folder, settings=defaults(**over), outbox=channel, tools=[Echo(), Broken(fail=ValueError("no"))])
        rig.model.script = script
        if any(turn.failure == "context" for turn in case.turns):
            await rig.ask("warm up")  # something that a compaction can summarise
        outcome = await rig.ask("go", channel="chat", to="ada", deliver=True, verbose=case.verbose)
        await rig.runtime.close()
        ended = [event.data for event in rig.events if event.stream == "tool" and event.data["phase"] == "result"]
        return Played(outcome, channel, played, [not data["isError"] for data in ended])

    return instantly(scenario())


def check(case: Case) -> None:
    with TemporaryDirectory() as folder:
        played = play(Path(folder), case)
    outcome, channel = played.outcome, played.channel
    expectation = Expectation(case, played)
    arrived = words_of(*channel.sent)
    said = words_of(*(payload.text for payload in outcome.payloads))
    assert said == expectation.payloads
    expected = [*expectation.by_tools, *expectation.payloads]
    if case.blocks != "off":
        expected = consume(expectation.live, arrived)
    assert outcome.delivery is not None
    if outcome.delivery.error is None:
        assert arrived == expected
    else:
        assert channel.refused
        assert arrived == expected[: len(arrived)]


@settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_nothing_is_said_twice_lost_or_moved_and_failures_are_reported_exactly_when_due(case: Case) -> None:
    check(case)
