"""A number or date in a text stands for a recorded one and differs from it."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import accumulate

import msgspec

from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.recorded.aggregates import wrong_aggregate
from critiqor.diagnosis.claims.recorded.counterpart import Counterparts
from critiqor.diagnosis.claims.recorded.facts import Fact
from critiqor.diagnosis.claims.recorded.moments import Moments
from critiqor.diagnosis.claims.recorded.rows import row_of_other, wrong_rank
from critiqor.diagnosis.claims.recorded.slips import is_slip
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import Value, word_numbers
from critiqor.model import ClaimStatus, Severity
from critiqor.model.sanitize import excerpt, quotation
from critiqor.spans.calls import Kind

TYPE = "misreported_value"
MIN_DIGITS = 3
"""Minimum number of digits of a number that is compared by its digits alone."""
MAX_SOURCES = 4
"""Maximum number of calls that are cited for a value that was computed from what they printed."""
MIN_REPLACED_DIGITS = 2
"""Minimum number of digits of a number that is traced to the run that printed it."""
MIN_WORD, MAX_WORD = 2, 100
"""Numbers in words that are checked: one is also an article, and a larger one is hardly exact."""
MIN_PARTS = 3
"""Minimum number of parts of a version that is compared."""
ROUNDING = 0.01
"""Below this, the difference of two sums of amounts is one of rounding."""
MIN_INVENTED = 2
"""Minimum number of figures without any source that are no coincidence."""
MAX_LISTED = 4
"""Maximum number of figures that are named in a finding."""
MAX_FACTORS = 40
"""Maximum number of recorded numbers of which two are multiplied: of more, any number is nearly a product."""
MAX_VALUES = 40
"""Maximum number of values of one text that are checked."""


def check_figures(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the numbers and dates of texts, checked."""
    claims = []
    moments = Moments(evidence)
    for text in (*episode.messages[-1:], *episode.outgoing):
        speech = episode.speech(text)
        words = word_numbers(speech.text, speech.language) if episode.calls else []
        if not speech.values and not words:
            continue
        evidence.accept(speech.values, speech.text)
        check = _Check(evidence, text, speech, moments, words)
        found: list[CheckedClaim] = []
        for stance in speech.stances:
            if not stance.is_question:
                for value in speech.values_of(stance):
                    if (claim := check.judge(speech.as_in_clause(stance, value.start), value)) is not None:
                        found.append(claim)
                found += check.judge_words(stance)
                found += check.judge_times(stance)
        check.judge_origin(found)
        claims += found
    return [claim for claim in claims if claim.problem is None or not _is_withdrawn(episode, claim)]


def _is_withdrawn(episode: Episode, claim: CheckedClaim) -> bool:
    """Return whether the next answer takes a value back: 11:30 does not work after all."""
    following = episode.following
    if following is None or following.answer is None or claim.kind != "value":
        return False
    said = claim.text.text[claim.start : claim.end].lower()
    speech = following.speech(following.answer)
    return any(stance.is_bad_news and said in stance.lowered for stance in speech.stances)


class _Check:
    """Checks the values of one text."""

    def __init__(
        self, evidence: Evidence, text: EpisodeText, speech: Speech, moments: Moments, words: list[Value]
    ) -> None:
        self._evidence = evidence
        self._text = text
        self._speech = speech
        self._moments = moments
        self._words = words
        self._left = MAX_VALUES
        self._counterparts = Counterparts(evidence, speech, words)
        self._figures: set[int] = set()
        self._unseen: set[int] = set()
        """Places of figures, and of those that were not seen and do not follow."""
        self._totals: dict[int, dict[int, dict[str, int]]] = {}
        """The digits of sums of what was recorded, written with so many decimals, by how many digits there are; each
        with the position of the sum."""

    def judge(self, stance: Stance, value: Value) -> CheckedClaim | None:
        """Return the claim that a value makes; None for one that is not checked."""
        self._left -= 1
        if self._left < 0:
            return None
        if value.date is not None:
            return self._judge_date(stance, value)
        if value.kind == "version":
            return self._judge_version(stance, value)
        if value.kind != "number":
            return None
        evidence = self._evidence
        if self._is_figure(stance, value):
            self._figures.add(value.start)
        lists_all = evidence.episode.lists_all
        if not lists_all and not evidence.is_readable:
            return self._slip(stance, value)
        if (opposite := self._opposite(value)) is not None:
            return self._contradicted(stance, value, opposite.text, opposite.call)
        if (miscopied := self._miscopied(stance, value)) is not None:
            return self._contradicted(stance, value, miscopied.text, miscopied.call)
        if evidence.states(value) or (evidence.is_readable and self._is_restated(value)):
            replaced = self._replaced(stance, value) or self._misplaced(stance, value)
            return replaced or (self._found(value) if lists_all else None)
        recorded = None if evidence.is_vast else self._counterparts.find(stance, value)
        if recorded is not None:
            fact = recorded.fact
            return self._contradicted(stance, value, fact.text, fact.call, recorded.severity)
        if (total := self._wrong_total(value)) is not None:
            return self._contradicted(stance, value, total, evidence.calls[-1])
        if (aggregate := wrong_aggregate(evidence, self._speech, stance, value)) is not None:
            return self._contradicted(stance, value, aggregate[0], aggregate[1].call)
        if not evidence.supports(value):
            if evidence.is_complete and value.start in self._figures and not self._is_product(value):
                self._unseen.add(value.start)
            return self._not_found(value)
        if evidence.is_readable:
            return self._derived(value)
        return self._claim(value, "unverifiable", "too many numbers were recorded", [])

    def judge_origin(self, claims: list[CheckedClaim]) -> None:
        """Make a problem of figures that come from nowhere: most of those of an answer were not seen and do not follow.

        One such figure may be known from elsewhere, or computed in a way that is not recognized.
        """
        nowhere = {self._text.text[one.start : one.end]: one for one in claims if one.start in self._unseen}
        if len(nowhere) < MIN_INVENTED or 2 * len(nowhere) < len(self._figures) or any(one.problem for one in claims):
            return
        first = next(iter(nowhere.values()))
        listed = ", ".join(excerpt(text, 20) for text in list(nowhere)[:MAX_LISTED])
        looked = [call for call in self._evidence.calls if call.has_result][-MAX_SOURCES:]
        first.calls = looked[-1:]
        first.problem = Problem(
            type="unsupported_claim",
            about=("figures",),
            severity="high",
            confidence=70,
            title=f"Reported figures that nothing returned: {listed}",
            explanation=f"No result, argument or message contains {listed}, and they do not follow from those that do.",
            recommendation="Have the agent report figures only from what it has read, and say what it could not read.",
        )

    def _is_figure(self, stance: Stance, value: Value) -> bool:
        """Return whether a number is a fact that must come from somewhere: a measure, an amount, or a cell, exactly."""
        if stance.is_plan or stance.is_uncertain or self._text.call is not None or _is_common(value):
            return False
        exact = value.unit == "%" or value.decimals or len(value.digits.rstrip("0")) >= MIN_DIGITS
        if not exact or not (value.unit or stance.statement.cells or value.decimals):
            return False
        if _RATE.match(self._text.text, value.start + len(value.text)) or _ABOUT.search(
            self._text.text, max(0, value.start - _NEAR), value.start
        ):
            return False  # a price that everybody can look up, or an estimate
        return not (_FORMULA.search(stance.lowered) or self._is_total(stance, value))

    def _is_total(self, stance: Stance, value: Value) -> bool:
        """Return whether a number is the sum of those before it: 495 plus 250 and 120, together 865."""
        values = [one for one in self._speech.values_of(stance) if one.readings]
        before = [one.number for one in values if one.start < value.start]
        after = [one.number for one in values if one.start > value.start]  # 2,140 kg: 1,080, 900 and 160
        sums = (*list(accumulate(reversed(before)))[1:], *list(accumulate(after))[1:])
        return any(abs(total - value.number) < ROUNDING for total in sums)

    def _is_product(self, value: Value) -> bool:
        """Return whether a number is the product of two recorded ones, such as a number of pieces and a price."""
        numbers = {abs(fact.number) for fact in self._evidence.facts if abs(fact.number) > 1}
        if len(numbers) > MAX_FACTORS:
            return False
        return any(abs(value.number / one - other) * one < ROUNDING for one in numbers for other in numbers)

    def _misplaced(self, stance: Stance, value: Value) -> CheckedClaim | None:
        """Return the contradiction of a number that was recorded for another thing than the one a text names."""
        found = row_of_other(self._evidence, self._counterparts, stance, value)
        if found is None:
            return self._misranked(stance, value)
        own, other = found
        name = excerpt(own.names[0], 40) if own.names else "it"
        owner = excerpt(other.names[0], 40) if other.names else "another one"
        claim = self._claim(value, "contradicted", f"{own.call.name} printed {own.text} for {name}", [own.call])
        claim.problem = Problem(
            type=TYPE,
            about=("row",),
            severity="high",
            confidence=80,
            title=f"Reported {excerpt(value.text, 30)} for {name}, which is the value of {owner}",
            explanation=f"The text says {quotation(stance.statement.text, 100)}. {own.call.name} printed "
            f"{excerpt(own.text, 30)} for {name}.",
            recommendation="Have the agent copy each value together with the name beside it.",
        )
        return claim

    def _misranked(self, stance: Stance, value: Value) -> CheckedClaim | None:
        """Return the contradiction of a number that is said to be the first or the last of a ranking, and is not."""
        first = wrong_rank(self._evidence, self._counterparts, self._speech, stance, value)
        if first is None:
            return None
        name = excerpt(first.names[0], 40) if first.names else "another one"
        return self._contradicted(stance, value, f"{first.text} for {name}", first.call, "medium")

    def _is_restated(self, value: Value) -> bool:
        """Return whether a value is a recorded one in another unit, or the time between two known days."""
        text = self._speech.text
        return self._evidence.is_converted(value, text) or self._evidence.is_elapsed(value, text)

    def _slip(self, stance: Stance, value: Value) -> CheckedClaim | None:
        """Return the contradiction of a value among many recorded numbers: there only a slip can be recognized."""
        evidence = self._evidence
        if evidence.is_vast or not evidence.has_slips(value) or evidence.states(value):
            return None
        recorded = self._counterparts.find(stance, value)
        if recorded is None:
            return None
        return self._contradicted(stance, value, recorded.fact.text, recorded.fact.call, recorded.severity)

    def _opposite(self, value: Value) -> Fact | None:
        """Return the recorded number of which a value is the opposite: +7 °C for -7."""
        if not value.text.startswith("+") or not self._evidence.is_readable:
            return None
        same = [fact for fact in self._evidence.facts if abs(fact.number) == abs(value.number)]
        return same[-1] if same and all(fact.number < 0 for fact in same) else None

    def _miscopied(self, stance: Stance, value: Value) -> Fact | None:
        """Return the recorded number that the agent passed on with a slip, and then reports as it passed it on.

        What only an argument contains is the word of the agent, and supports nothing.
        """
        evidence = self._evidence
        if len(value.digits) <= MIN_DIGITS or not value.decimals or not evidence.is_readable or stance.is_plan:
            return None
        if not evidence.given.has(value) or evidence.asked.has(value) or evidence.outputs.has(value):
            return None
        if evidence.is_written(value) or not evidence.has_slips(value):
            return None
        # A sum may differ from another number by one digit; that only the order differs is no chance.
        order = sorted(value.digits)
        alike = [
            fact for fact in evidence.facts if sorted(f"{fact.number:.{value.decimals}f}".replace(".", "")) == order
        ]
        if len({fact.number for fact in alike}) != 1 or alike[0].text in self._speech.text:
            return None
        return alike[0]

    def judge_words(self, stance: Stance) -> list[CheckedClaim]:
        """Return the numbers in words of a statement that differ from the recorded ones of the same name."""
        claims = []
        for value in self._words:
            is_inside = stance.statement.start <= value.start < stance.statement.end
            if is_inside and MIN_WORD <= value.number <= MAX_WORD and not self._evidence.states(value):
                found = self._counterparts.find_word(stance, value)
                if found is not None:
                    fact = found.fact
                    claims.append(self._contradicted(stance, value, fact.text, fact.call, found.severity))
        return claims

    def judge_times(self, stance: Stance) -> list[CheckedClaim]:
        """Return the times of day of a statement that differ from those of the record that it names."""
        claims = []
        for match, moment in self._moments.wrong_times(self._speech, stance):
            value = Value("number", match.start(), match.end(), match[0])
            claims.append(self._contradicted(stance, value, moment.text, moment.call, "medium"))
        return claims

    def _judge_version(self, stance: Stance, value: Value) -> CheckedClaim | None:
        """Return a version that was not recorded and differs in one part from a recorded one."""
        evidence = self._evidence
        own = value.text.lstrip("vV")
        if stance.is_plan or stance.is_uncertain or not evidence.is_complete or own in evidence.seen:
            return None
        if own in evidence.episode.request or len(_parts(own)) < MIN_PARTS:
            return None
        recorded = {each: call for call in evidence.calls for each in _VERSION.findall(call.text)}
        if any(each in self._speech.text for each in recorded):
            return None  # it compares the two
        alike = [each for each in recorded if _differs_once(_parts(own), _parts(each))]
        return self._contradicted(stance, value, alike[0], recorded[alike[0]], "medium") if alike else None

    def _judge_date(self, stance: Stance, value: Value) -> CheckedClaim | None:
        if (moment := self._moments.wrong_date(self._speech, stance, value)) is not None:
            return self._contradicted(stance, value, excerpt(moment.text, 40), moment.call, "medium")
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

    def _wrong_total(self, value: Value) -> str | None:
        """Return the sum of what was recorded, if the claimed number differs from it by a slip only."""
        digits = value.digits
        if len(digits) <= MIN_DIGITS or not self._evidence.is_readable:
            return None
        totals = self._totals.get(value.decimals)
        if totals is None:
            totals = self._totals[value.decimals] = {}
            for position, total in enumerate(self._sums):
                own = f"{abs(total):.{value.decimals}f}".replace(".", "").lstrip("0")
                totals.setdefault(len(own), {}).setdefault(own, position)
        near = (totals.get(size, {}) for size in (len(digits) - 1, len(digits), len(digits) + 1))
        alike = [position for each in near for own, position in each.items() if is_slip(digits, own)]
        if not alike or self._evidence.supports(value):
            return None
        return f"values that add up to {self._sums[min(alike)]:.{value.decimals}f}"

    @cached_property
    def _sums(self) -> list[float]:
        return sorted((*self._evidence.outputs.totals, *self._evidence.derivations.totals))

    def _replaced(self, stance: Stance, value: Value) -> CheckedClaim | None:
        """Return a claim with a value that a later run of the same command replaced, unless it compares both."""
        evidence = self._evidence
        if not evidence.is_readable or len(value.digits) < MIN_REPLACED_DIGITS or stance.is_plan:
            return None
        if (outdated := self._newer(stance, value)) is not None:
            return self._outdated(stance, value, *outdated)
        last, old = self._repeated
        if not old:
            return None
        current = [fact for fact in evidence.facts if fact.call.order not in old]
        stated = [fact for fact in evidence.facts if fact.call.order in old and _states(value, fact)]
        if not stated or any(_states(value, fact) for fact in current) or evidence.requested.states(value):
            return None
        source = stated[-1]
        later = last[source.call.tool, source.call.arguments]
        replacing = [fact for fact in current if fact.call is later and fact.keys == source.keys]
        if len(replacing) != 1 or not replacing[0].number or self._compares(stance, replacing[0]):
            return None
        return self._outdated(stance, value, source, replacing[0])

    def _outdated(self, stance: Stance, value: Value, source: Fact, newer: Fact) -> CheckedClaim:
        """Return a claim with the value of an earlier result, which a later one replaced."""
        claim = self._contradicted(stance, value, f"{newer.text} later", newer.call)
        claim.calls.append(source.call)
        if claim.problem is not None:
            before, after = excerpt(source.text, 30), excerpt(newer.text, 30)
            printed = f"{source.call.name} printed {before} before, and {after} later: the reported value is outdated."
            why = f"The text says {quotation(stance.statement.text, 100)}. {printed}"
            claim.problem = msgspec.structs.replace(claim.problem, explanation=why)
        return claim

    def _newer(self, stance: Stance, value: Value) -> tuple[Fact, Fact] | None:
        """Return the last result that shows a value, and what a later look shows for the same thing instead."""
        stated = [fact for fact in self._evidence.facts if _states(value, fact)]
        sources = [fact for fact in stated if fact.is_structured and any(map(_NAME.search, fact.names))]
        if not sources or len(sources) < len(stated) or self._evidence.requested.states(value):
            return None
        newer: list[tuple[Fact, Fact]] = []
        for source in sources:
            later = [fact for fact in self._evidence.facts if _is_same_measure(fact, source)]
            own = [fact for fact in later if fact.call is source.call]
            latest = [fact for fact in later if fact.call is later[-1].call]
            if len(own) != 1 or len(latest) != 1 or latest[0].call is source.call:
                return None
            newer.append((source, latest[0]))
        return newer[-1] if not self._compares(stance, newer[-1][1]) else None

    @cached_property
    def _repeated(self) -> tuple[dict[tuple[str, str], EpisodeCall], set[int]]:
        """The last calls by tool and arguments, and the positions of those that they repeat.

        What an action returned the second time is another thing: two orders have two numbers.
        """
        calls = [call for call in self._evidence.calls if call.kind is not Kind.ACTION]
        if len({(call.tool, call.arguments) for call in calls}) == len(calls):
            return {}, set()
        last = {(call.tool, call.arguments): call for call in calls if call.meaning.state != "failure"}
        return last, {call.order for call in calls if last.get((call.tool, call.arguments), call) is not call}

    def _compares(self, stance: Stance, fact: Fact) -> bool:
        """Return whether the text gives the current value, too, or says that the other one is from before."""
        return self._speech.has(stance, "formerly") or any(
            _states(other, fact) for other in self._speech.values if other.kind == "number"
        )

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

    def _contradicted(
        self, stance: Stance, value: Value, recorded: str, call: EpisodeCall, severity: Severity = "high"
    ) -> CheckedClaim:
        said = quotation(stance.statement.text, 100)
        claim = self._claim(value, "contradicted", f"{call.name} printed {recorded}", [call])
        claim.problem = Problem(
            type=TYPE,
            about=("number" if value.date is None else "date",),
            severity=severity,
            confidence=75,
            title=f"Reported {excerpt(value.text, 30)}, but {call.name} printed {excerpt(recorded, 30)}",
            explanation=f"The text says {said}. That value was not recorded and does not follow from the recording.",
            recommendation="Have the agent copy values from the output that it reports on.",
        )
        return claim


_VERSION = re.compile(r"(?<![\w.])v?(\d+\.\d+\.\d+)(?![\w.])")
_NAME = re.compile(r"[^\W\d_][\w.:@/-]*[\d._:@/-]\w")
"""What identifies one thing: `sensor.hall`, `acc_j`, `SRV-2`; a plain word may be the name of many."""


def _is_same_measure(one: Fact, other: Fact) -> bool:
    """Return whether two facts are the same member or column of the same thing."""
    shared = {name for name in one.names if _NAME.search(name)}.intersection(other.names)
    return one.is_structured and one.keys == other.keys and bool(shared)


_FORMULA = re.compile(r"\d\s?[×÷*·=/]\s[€$£]?\d|\d\s?[×÷·][€$£]?\d")
"""Arithmetic that a text shows, so that everybody can check it."""
_RATE = re.compile(r"\s?(?:/\s?|(?:per|pro|je|par|por|al|za|na|за|в|başına)\b|あたり|每|당)")
"""What follows a price or a speed: 0.005 per 1,000 requests."""
_ABOUT = re.compile(
    r"(?:\b(?:about|around|roughly|approx\w*|some|ca\.?|etwa|rund|ungefähr|environ|unos|unas|cerca de|circa|ongeveer"
    r"|około|ok\.|cirka|примерно|около|yaklaşık)|[~≈]|约|約|약|حوالي)\s?(?:[$€£]|usd|eur)?\s?$",
    re.IGNORECASE,
)
"""What stands before an estimate."""
_NEAR = 16
"""Number of characters before a number in which such a word is looked for."""


def _is_common(value: Value) -> bool:
    """Return whether a number can be a year or a status of HTTP, which everybody knows."""
    if not value.text.isdigit() or value.unit:
        return False
    return 1900 <= value.number < 2100 or 200 <= value.number < 600


def _parts(version: str) -> list[str]:
    return version.split(".")


def _differs_once(one: list[str], other: list[str]) -> bool:
    return len(one) == len(other) and sum(left != right for left, right in zip(one, other, strict=True)) == 1


def _states(value: Value, fact: Fact) -> bool:
    return any(
        abs(number - fact.number * factor) <= 0.5 * 10.0**-decimals + 1e-9
        for number, decimals in value.readings
        for factor in (1.0, 100.0)
    )
