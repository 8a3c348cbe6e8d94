"""One request to an agent and everything it led to, as the checks of claims see it: calls, results and texts."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from critiqor.diagnosis.claims.language import Language, language_of, normalize
from critiqor.diagnosis.claims.speech import Speech
from critiqor.diagnosis.results import Meaning, meaning_of
from critiqor.diagnosis.signals.text import STEM, stems, tokens
from critiqor.model.sanitize import excerpt, sanitize_line
from critiqor.spans.calls import Kind

MAX_CALLS = 400
"""Maximum number of calls of an episode that are kept; of a longer one, the last."""
MAX_TOPICS = 4_000
"""Maximum number of characters of a request whose words are what it is about."""
MAX_ARGUMENTS = 6_000
MAX_OUTPUT = 12_000
"""Maximum number of characters that are kept of the arguments and of the output of a call: beginning and end."""
_EFFECTS = (Kind.ACTION, Kind.CHANGE, Kind.COMMAND, Kind.OTHER)
"""Kinds of calls that may change something. In a tuple, they are compared by identity, which is fast."""
_RAW_NUMBER = re.compile(r"\d(?:[\d.,]*\d)?")
MAX_DIGITS = 40
"""Maximum number of characters of a number that is compared by its digits."""


class EpisodeCall(msgspec.Struct, kw_only=True):
    """A tool call with its texts and the meaning of its result."""

    order: int
    call_id: str
    """Event id of the call."""
    result_id: str
    """Event id of its result, or of the call if there is none."""
    tool: str
    kind: Kind
    arguments: str
    facts: str
    """The arguments without texts for others: what the agent only says is no evidence."""
    line: str = ""
    """Its command line; empty if it runs no command."""
    text: str = ""
    exit_code: int | None = None
    reported_failure: bool = False
    known_meaning: Meaning | None = None
    """The meaning of the result, once it was asked for."""
    known_numbers: frozenset[str] | None = None
    known_digits: frozenset[int] | None = None
    known_lowered: str | None = None
    """Numbers and words of the output, once they were asked for: they are read once, and compared often."""
    known_values: list[tuple[str, str]] | None = None
    known_members: list[tuple[str, str]] | None = None
    known_path: str | None = None
    """Values, members and file of its arguments, once they were asked for."""
    known_identities: frozenset[str] | None = None
    """What it names, once it was asked for."""
    known_words: set[str] | None = None
    """The words of its arguments, once they were asked for."""
    known_targets: set[str] | None = None
    """What it is about, once it was asked for."""
    known_bounce: str | None = None
    """The words with which its output says that a message was returned, once they were asked for."""
    known_cut: bool | None = None
    """Whether a part of its output is missing, or its tool says so, once that was asked for."""
    known_failed_check: bool | None = None
    """Whether it shows that a check failed, once that was asked for."""
    known_records: object = None
    """The records of its output, once they were asked for."""
    known_facts: object = None
    """The numbers of these records, once they were asked for."""
    known_rows: bool | None = None
    """Whether there are objects or rows among its records, once that was asked for."""
    known_tables: object = None
    """The tables in its output, once they were asked for."""
    known_hazards: object = None
    """What the search for hazards has read from it."""
    is_check: bool = False
    """Whether it runs tests, a build or another check."""
    has_result: bool = True
    is_cut: bool = False
    """Whether a part of its output was not recorded or is redacted."""
    is_shortened: bool = False
    """Whether a part of its output is only in the recording, and not here."""

    @property
    def meaning(self) -> Meaning:
        """What its result means. It is read when it is first needed: most results never are."""
        if self.known_meaning is None:
            self.known_meaning = meaning_of(
                tool=self.tool,
                arguments=self.arguments,
                text=self.text,
                exit_code=self.exit_code,
                reported_failure=self.reported_failure,
            )
        return self.known_meaning

    @property
    def numbers(self) -> frozenset[str]:
        """The numbers of its output, as they are written."""
        if self.known_numbers is None:
            self.known_numbers = frozenset(_RAW_NUMBER.findall(self.text) if self.text else ())
        return self.known_numbers

    @property
    def digits(self) -> frozenset[int]:
        """The digits of each number of its output, read as one number."""
        if self.known_digits is None:
            self.known_digits = frozenset(_by_digits(self.numbers))
        return self.known_digits

    def numbers_by_digits(self) -> dict[int, str]:
        """Return the numbers of its output by their digits; of several with the same digits, the last."""
        return _by_digits(_RAW_NUMBER.findall(self.text))

    def forget_readings(self) -> None:
        """Forget what was read from its texts and is as large as they are; that it has no records is kept.

        Garbage collection is paused while a run is diagnosed, so what refers to each other would never be freed.
        """
        self.known_records = self.known_records and None
        self.known_facts = self.known_facts and None
        self.known_tables = self.known_tables and None
        self.known_numbers = self.known_lowered = self.known_words = self.known_members = None

    def has_stem(self, stem: str) -> bool:
        """Return whether its output has a word with this beginning, as `stems` returns it."""
        lowered = self.lowered
        at = lowered.find(stem)
        while at >= 0:
            end = at + len(stem)
            is_begun = at == 0 or not lowered[at - 1].isalnum()
            if is_begun and (len(stem) == STEM or not lowered[end : end + 1].isalnum()):
                return True
            at = lowered.find(stem, end)
        return False

    @property
    def lowered(self) -> str:
        """Its output in lower case."""
        if self.known_lowered is None:
            self.known_lowered = self.text.lower()
        return self.known_lowered

    @property
    def words(self) -> set[str]:
        """The words of its arguments."""
        if self.known_words is None:
            self.known_words = tokens(self.arguments)
        return self.known_words

    @property
    def size(self) -> int:
        """Number of characters of its texts."""
        return len(self.arguments) + len(self.line) + len(self.text)

    @property
    def has_effect(self) -> bool:
        """Whether it may have changed something."""
        return self.kind in _EFFECTS

    @property
    def name(self) -> str:
        """Its name in a sentence."""
        return f"`{excerpt(self.line, 60)}`" if self.line else f"`{sanitize_line(self.tool)}`"


def _by_digits(numbers: Collection[str]) -> dict[int, str]:
    if numbers and len(max(numbers, key=len)) > MAX_DIGITS:
        numbers = [number for number in numbers if len(number) <= MAX_DIGITS]
    digits = "\n".join(numbers).replace(".", "").replace(",", "").split("\n") if numbers else ()
    return dict(zip(map(int, digits), numbers, strict=True))


class EpisodeText(msgspec.Struct, kw_only=True):
    """A text of the user or the agent."""

    order: int
    event_id: str
    text: str
    call: EpisodeCall | None = None
    """The call that carries a text for others; None for a message."""
    offset: int = 0
    """Position of the text in the text of its event."""
    timestamp: str = ""
    """The time of a message; empty if it is not known."""
    speech: Speech | None = None
    known_language: tuple[Language | None] | None = None
    """Its own language in a tuple, once it was asked for."""

    @property
    def language(self) -> Language | None:
        """The language that it is written in; None if it is not known."""
        if self.known_language is None:
            self.known_language = (language_of(self.text),)
        return self.known_language[0]


class Episode(msgspec.Struct, kw_only=True):
    """One request and everything it led to."""

    session_key: str | None
    agent_run_id: str | None
    requests: list[EpisodeText] = msgspec.field(default_factory=list)
    calls: list[EpisodeCall] = msgspec.field(default_factory=list)
    messages: list[EpisodeText] = msgspec.field(default_factory=list)
    """What the agent says to the user, in order."""
    outgoing: list[EpisodeText] = msgspec.field(default_factory=list)
    """What it writes for others."""
    earlier: list[Episode] = msgspec.field(default_factory=list)
    """Earlier episodes of the same session, the latest first; only a few are kept."""
    known_language: tuple[Language | None] | None = None
    """Its language in a tuple, once it was asked for."""
    lists_all: bool = True
    """Whether claims that are no problem are wanted, too: only so many are listed."""
    known_topics: frozenset[str] | None = None
    """The words of the request, once they were asked for."""
    known_asked: frozenset[str] | None = None
    """The beginnings of these words, once they were asked for."""
    known_failures: list[EpisodeCall] | None = None
    """The calls that failed and were not made good, once they were asked for."""
    known_weakenings: object = None
    """What made a check weaker, once it was asked for."""
    following: Episode | None = None
    """The next episode of the same session: it may repair what is left open here."""
    size: int = 0
    """Number of characters of its texts."""
    has_dropped: bool = False
    """Whether calls of the session were dropped, so that a value that is not found may still have been seen."""

    ended_at: int | None = None
    """Position of the last end of an agent run; None if none has ended."""
    was_broken_off: bool = False
    """Whether that agent run failed or was stopped."""
    compactions: list[int] = msgspec.field(default_factory=list)
    """Positions at which the history of the session was replaced by a summary."""

    def release(self) -> None:
        """Forget the episodes around it, and what was only needed to judge it."""
        self.earlier, self.following = [], None
        self.known_failures = self.known_weakenings = None
        for text in (*self.requests, *self.messages, *self.outgoing):
            text.speech = None

    @property
    def answer(self) -> EpisodeText | None:
        """The last message to the user."""
        return self.messages[-1] if self.messages else None

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it follows the end of its last agent run."""
        if self.ended_at is None:
            return False
        orders = [*(text.order for text in self.messages[-1:]), *(call.order for call in self.calls[-1:])]
        return all(order <= self.ended_at for order in orders)

    @property
    def is_over(self) -> bool:
        """Whether the agent has ended its work by itself."""
        return self.has_ended and not self.was_broken_off

    @property
    def request(self) -> str:
        """What the user asked for."""
        return "\n".join(text.text for text in self.requests)

    @property
    def language(self) -> Language | None:
        """The language of the answer, else of the request."""
        if self.known_language is None:
            answer = self.answer
            self.known_language = ((answer.language if answer else None) or self.request_language,)
        return self.known_language[0]

    @property
    def request_language(self) -> Language | None:
        """The language of the request."""
        return self.requests[0].language if len(self.requests) == 1 else language_of(self.request)

    @property
    def topics(self) -> frozenset[str]:
        """The words of the request."""
        if self.known_topics is None:
            self.known_topics = frozenset(tokens(normalize(self.request[:MAX_TOPICS])))
        return self.known_topics

    @property
    def asked(self) -> frozenset[str]:
        """The beginnings of the words of the whole request."""
        if self.known_asked is None:
            self.known_asked = frozenset(stems(tokens(self.request)))
        return self.known_asked

    def speech(self, text: EpisodeText) -> Speech:
        """Return the statements of a text."""
        if text.speech is None:
            text.speech = Speech(text.text, text.language or self.language, self.topics)
        return text.speech

    @property
    def texts(self) -> list[EpisodeText]:
        """All texts of the agent, in order."""
        return sorted((*self.messages, *self.outgoing), key=lambda text: text.order)

    @property
    def seen(self) -> str:
        """Everything that was seen or given, in lower case: arguments and outputs of this and earlier episodes."""
        parts = [part for call in self.calls for part in (call.facts, call.text)]
        for episode in self.earlier:
            parts += [part for call in episode.calls for part in (call.facts, call.text)]
            parts += [text.text for text in (*episode.requests, *episode.messages)]
        return "\n".join(parts).lower()
