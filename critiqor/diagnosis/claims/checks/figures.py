"""A number or date in a text stands for a recorded one and differs from it."""

from __future__ import annotations

from critiqor.diagnosis.claims.arithmetic import Numbers
from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence, Labelled, is_slip, label_of, name_words
from critiqor.diagnosis.claims.stance import Speech, Stance
from critiqor.diagnosis.claims.values import Value
from critiqor.model import ClaimStatus
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

TYPE = "misreported_value"
MIN_DIGITS = 3
"""Minimum number of digits of a number that is compared by its digits alone."""
FEW_NUMBERS = 8
"""With at most so many recorded numbers, two digits are enough."""
MAX_SOURCES = 4
"""Maximum number of calls that are cited for a value that was computed from what they printed."""
MAX_VALUES = 40
"""Maximum number of values of one text that are checked."""


def check_figures(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the numbers and dates of texts, checked."""
    claims = []
    for text in (*episode.messages[-1:], *episode.outgoing):
        speech = episode.speech(text)
        if not speech.values:
            continue
        check = _Check(evidence, text, speech)
        for stance in speech.stances:
            if not stance.is_question:
                claims += [claim for value in speech.values_of(stance) if (claim := check.judge(stance, value))]
    return claims


class _Check:
    """Checks the values of one text."""

    def __init__(self, evidence: Evidence, text: EpisodeText, speech: Speech) -> None:
        self._evidence = evidence
        self._text = text
        self._speech = speech
        self._left = MAX_VALUES

    def judge(self, stance: Stance, value: Value) -> CheckedClaim | None:
        """Return the claim that a value makes; None for one that is not checked."""
        self._left -= 1
        if self._left < 0:
            return None
        if value.date is not None:
            return self._judge_date(stance, value)
        if value.kind != "number":
            return None
        evidence = self._evidence
        lists_all = evidence.episode.lists_all
        if not lists_all and not evidence.is_readable and not evidence.has_slips(value):
            return None  # nothing that was recorded is like it
        if evidence.states(value):
            replaced = self._replaced(stance, value)
            evidence.accept(value)
            return replaced or (self._found(value) if lists_all else None)
        recorded = self._counterpart(stance, value)
        if recorded is not None:
            return self._contradicted(stance, value, recorded.value.text, recorded.call)
        if (total := self._wrong_total(value)) is not None:
            return self._contradicted(stance, value, total, evidence.calls[-1])
        if not evidence.supports(value):
            return self._not_found(value)
        evidence.accept(value)
        if evidence.is_readable:
            return self._derived(value)
        return self._claim(value, "unverifiable", "too many numbers were recorded", [])

    def _judge_date(self, stance: Stance, value: Value) -> CheckedClaim | None:
        year, month, day = value.date or (None, 0, 0)
        dates = self._evidence.dates
        if (
            year is None
            or any(each.date == value.date for each in dates)
            or str(year) in self._evidence.episode.request
        ):
            return None
        for date, call in dates:
            if date[1:] == (month, day) and date[0] is not None and date[0] != year:
                return self._contradicted(stance, value, str(date[0]), call)
        return None

    def _counterpart(self, stance: Stance, value: Value) -> Labelled | None:
        """Return the recorded number that a claimed one stands for."""
        evidence = self._evidence
        cells = stance.statement.cells
        # A row names its number by its first cell, so there any number of that name counts.
        by_name = evidence.is_readable and (len(cells) > 1 or len(evidence.labelled) <= FEW_NUMBERS)
        is_odd = not by_name and evidence.is_readable and len(value.digits) < MIN_DIGITS and self._is_odd(value)
        candidates = evidence.labelled if by_name or is_odd else evidence.slips(value)
        if not candidates:
            return None
        named: frozenset[str] | None = None
        best: tuple[int, Labelled] | None = None
        for recorded in candidates:
            is_alike = self._is_alike(value, recorded, is_odd=is_odd)
            if not (is_alike or len(cells) > 1 or self._has_few):
                continue  # whatever it is called, it is another number
            if named is None:
                named = name_words(cells[0]) if len(cells) > 1 else label_of(self._speech.text, value)
            shared = len(named & recorded.words) if named else 0
            score = self._alignment(value, recorded, shared, is_alike=is_alike, in_row=len(cells) > 1)
            if score and (best is None or score > best[0]):
                best = (score, recorded)
        if best is not None and (best[0] > 3 or not evidence.supports(value)):
            return best[1]
        is_only = by_name and len(candidates) == 1 and len(evidence.episode.calls) == 1
        return candidates[0] if is_only and not evidence.supports(value) else None

    @property
    def _has_few(self) -> bool:
        return self._evidence.is_readable and len(self._evidence.labelled) <= FEW_NUMBERS

    def _is_alike(self, value: Value, recorded: Labelled, *, is_odd: bool) -> bool:
        """Return whether a claimed number is a recorded one with a slip. `is_odd`: the others were copied."""
        claimed = value.digits
        if value.decimals != recorded.value.decimals or not is_slip(claimed, recorded.value.digits):
            return False
        if is_odd and value.unit == recorded.value.unit:
            return all(other.text != recorded.value.text for other in self._speech.values)
        return len(claimed) >= MIN_DIGITS or self._has_few

    def _is_odd(self, value: Value) -> bool:
        """Return whether a number with a unit is the only one of several with this unit that was not recorded."""
        others = [each for each in self._speech.values if each.unit == value.unit and each.text != value.text]
        return bool(value.unit) and len(others) > 1 and all(map(self._evidence.is_written, others))

    def _alignment(self, value: Value, recorded: Labelled, shared: int, *, is_alike: bool, in_row: bool) -> int:
        """Return how certain it is that a claimed number stands for a recorded one: 0 for not at all, up to 4."""
        same_unit = value.unit == recorded.value.unit
        if is_alike:
            size = len(value.digits)
            certain = shared or (same_unit and value.unit)
            return 4 if certain else 3 if same_unit and size >= MIN_DIGITS else 1 if size > 1 else 0
        if shared and in_row:
            return 2
        return 1 if shared and self._has_few and same_unit else 0

    def _wrong_total(self, value: Value) -> str | None:
        """Return the sum of what was recorded, if the claimed number differs from it by a slip only."""
        if len(value.digits) <= MIN_DIGITS or not self._evidence.is_readable or self._evidence.supports(value):
            return None
        for total in sorted(self._evidence.outputs.totals):
            written = f"{total:.{value.decimals}f}"
            if is_slip(value.digits, "".join(filter(str.isdigit, written)).lstrip("0")):
                return f"values that add up to {written}"
        return None

    def _replaced(self, stance: Stance, value: Value) -> CheckedClaim | None:
        """Return a claim with a value that a later run of the same command replaced, unless it compares both."""
        # What an action returned the second time is another thing: two orders have two numbers.
        calls = [call for call in self._evidence.calls if call.kind is not Kind.ACTION]
        if not self._evidence.is_readable or len(calls) < 2 or not stance.is_asserted:
            return None
        if len(value.digits) < 2 or len({(call.tool, call.arguments) for call in calls}) == len(calls):
            return None
        last = {(call.tool, call.arguments): call for call in calls if call.meaning.state != "failure"}
        old = [call for call in calls if last.get((call.tool, call.arguments), call) is not call]
        if not old or self._speech.has(stance, "formerly"):
            return None
        replaced, current = _numbers(old), _numbers([call for call in calls if call not in old])
        if not replaced.states(value) or current.states(value) or self._evidence.requested.states(value):
            return None
        # A text that gives the new value as well compares both.
        others = [each for each in self._speech.values if each.kind == "number" and each.start != value.start]
        source = next(call for call in reversed(old) if _numbers([call]).states(value))
        later = last[source.tool, source.arguments]
        new = _numbers([later])
        if any(new.states(other) and not replaced.states(other) for other in others if len(other.digits) > 1):
            return None
        return self._contradicted(stance, value, f"{excerpt(later.text, 40)} later", later)

    def _found(self, value: Value) -> CheckedClaim:
        calls = self._evidence.calls
        printed = next((call for call in reversed(calls) if value.text in call.text), None)
        if printed is not None:
            return self._claim(value, "supported", f"{printed.name} printed it", [printed])
        given = [text for text in self._evidence.episode.requests if value.text in text.text]
        if given:
            claim = self._claim(value, "supported", "the user gave it", [])
            claim.given = given
            return claim
        named = next((call for call in reversed(calls) if value.text in call.facts), None)
        if named is not None:
            return self._claim(value, "supported", f"it is in the arguments of {named.name}", [named])
        return self._derived(value)

    def _derived(self, value: Value) -> CheckedClaim:
        """Return the claim of a value that was computed, with the last calls that printed numbers."""
        sources = [call for call in self._evidence.calls if call.numbers]
        return self._claim(value, "supported", "it follows from what was recorded", sources[-MAX_SOURCES:])

    def _not_found(self, value: Value) -> CheckedClaim:
        """Return a claim with a value that was not found: that alone is no contradiction."""
        if not self._evidence.is_complete:
            return self._claim(value, "unverifiable", "it may be in a part of an output that was cut", [])
        return self._claim(value, "unsupported", "it was not recorded and does not follow from anything", [])

    def _claim(self, value: Value, status: ClaimStatus, reason: str, calls: list[EpisodeCall]) -> CheckedClaim:
        return CheckedClaim(
            text=self._text,
            start=value.start,
            end=value.end,
            kind="value",
            status=status,
            reason=reason,
            calls=calls,
        )

    def _contradicted(self, stance: Stance, value: Value, recorded: str, call: EpisodeCall) -> CheckedClaim:
        said = excerpt(stance.statement.text, 100)
        claim = self._claim(value, "contradicted", f"{call.name} printed {recorded}", [call])
        claim.problem = Problem(
            type=TYPE,
            about=("number" if value.date is None else "date",),
            severity="high",
            confidence=75,
            title=f"Reported {excerpt(value.text, 30)}, but {call.name} printed {excerpt(recorded, 30)}",
            explanation=f"The text says “{said}”. That value was not recorded and does not follow from the recording.",
            recommendation="Have the agent copy values from the output that it reports on.",
        )
        return claim


def _numbers(calls: list[EpisodeCall]) -> Numbers:
    numbers = Numbers()
    for call in calls:
        numbers.add_text(call.text)
    return numbers
