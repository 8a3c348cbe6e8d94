"""Identifiers, addresses and facts that appear in no source that the agent has read."""

from __future__ import annotations

import re
from itertools import accumulate

from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.deeds.looks import brought_nothing, is_answered_search
from critiqor.diagnosis.claims.disclosure import is_disclosed
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.recorded.sorted_numbers import Sorted
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import Value
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt

TYPE = "unsupported_claim"
MIN_PHONE = 7
"""Number of digits at the end of a phone number that are compared."""
MIN_ROW_DIGITS = 2
"""A row with one number of more digits than these can be invented."""
MIN_UNKNOWN_VALUES = 3
"""Minimum number of specific values without any source that make an answer unfounded."""
_CODE = re.compile(r"`[^`\n]*[\s(=][^`\n]*`")
"""A command or an expression: something to type, not something that was read."""


def check_sources(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the identifiers, addresses and groups of values that appear nowhere in what was seen."""
    answer = episode.answer
    if answer is None or not episode.calls:
        return []
    claims = [
        *_identifiers(episode, evidence, answer),
        *_addresses(episode, evidence, answer),
        *_invented_rows(episode, evidence, answer),
    ]
    for text in (answer, *episode.outgoing):
        claims = claims or _unknown_values(episode, evidence, text)
    return claims if not claims or evidence.is_complete else [_unverifiable(claim, evidence) for claim in claims]


def _unverifiable(claim: CheckedClaim, evidence: Evidence) -> CheckedClaim:
    """Return a claim about something that was not found, but may be in a part that is not there."""
    claim.status = "unverifiable"
    claim.reason = "it may be in a part of an output that was cut or redacted"
    is_identifier = claim.problem is not None and claim.problem.about == ("identifier",)
    if is_identifier:
        claim.lookup = claim.quote
    if not is_identifier or not evidence.is_recorded:
        claim.problem = None
    return claim


def _identifiers(episode: Episode, evidence: Evidence, answer: EpisodeText) -> list[CheckedClaim]:
    return [
        _unsupported(answer, stance, value, "identifier")
        for stance, value in _reported(episode, answer, "identifier")
        if not _STANDARD.match(value.text) and not _is_known(value, evidence)
    ] + [
        _unsupported(answer, stance, value, "identifier")
        for stance, value in _reported(episode, answer, "number", _LONG)
        if not value.unit and not _is_known(value, evidence) and not evidence.supports(value)
    ]


def _addresses(episode: Episode, evidence: Evidence, answer: EpisodeText) -> list[CheckedClaim]:
    """Return the web addresses with a part that only their server can know, and that was never seen."""
    reported = _reported(episode, answer, "url")
    known = f"{evidence.seen}\n{episode.request.lower()}" if reported else ""
    return [
        _unsupported(answer, stance, value, "identifier")
        for stance, value in reported
        if value.text.lower() not in known and any(part not in known for part in _own_parts(value.text.lower()))
    ]


def _own_parts(address: str) -> list[str]:
    """Return the parts of an address that nobody guesses: ids, DOIs, the port of a local server."""
    doi = _DOI.search(address)
    return [*_OWN_PART.findall(address), *([doi[0]] if doi else ())]


def _reported(
    episode: Episode, answer: EpisodeText, kind: str, form: re.Pattern[str] | None = None
) -> list[tuple[Stance, Value]]:
    """Return the values of a kind that an answer gives as facts: not in a question, a plan or a command to type.

    `form`: what the whole of a value looks like.
    """
    speech = episode.speech(answer)
    wanted = {
        value.start
        for value in speech.values
        if value.kind == kind and (form is None or form.fullmatch(value.text) is not None)
    }
    if not wanted:
        return []
    codes = list(_CODE.finditer(speech.text))
    found = []
    for stance in speech.stances:
        values = [value for value in speech.values_of(stance) if value.start in wanted]
        if not values or stance.is_question:
            continue
        planned = [each.statement for each in speech.clauses(stance) if each.is_plan] if stance.is_plan else []
        for value in values:
            is_phone = value.text.startswith("+")  # it can be reached at …
            in_plan = not is_phone and any(clause.start <= value.start < clause.end for clause in planned)
            if not in_plan and not _is_typed(stance, value, codes):
                found.append((stance, value))
    return found


def _is_typed(stance: Stance, value: Value, codes: list[re.Match[str]]) -> bool:
    """Return whether a value is an example, or in a command to type."""
    if _EXAMPLE.search(stance.lowered, 0, value.start - stance.statement.start):
        return True
    return any(code.start() <= value.start < code.end() for code in codes)


_EXAMPLE = re.compile(
    r"\be\.g\.|\bfor (?:example|instance)\b|\bsuch as\b|\bz\. ?b\.|\bzum beispiel\b|\bp\. ?ej\."
    r"|\bpor (?:ejemplo|exemplo)\b|\bpar exemple\b|\bad esempio\b|\bbijv|\bnp\.|\bnaprzykład\b"
    r"|\bнапример\b|\börneğin\b|例如|比如|例えば|たとえば|예를 들|مثلا"
)
_LONG = re.compile(r"\d{6,9}")
"""A number without separators that can be an identifier."""
_STANDARD = re.compile(r"(?:ISO|RFC|SHA|UTF|IEEE|DIN|EN|ASCII|HTTP|ANSI|WCAG|IPV|MP|ES|CP|COVID)[-_ ]?\d", re.I)
"""Names of standards, which everybody knows."""
_OWN_PART = re.compile(
    r"(?<=localhost:)\d{2,5}|(?<=127\.0\.0\.1:)\d{2,5}"
    r"|(?<=[/=])(?=[\w-]*\d)(?=[\w-]*[a-z])[a-z0-9][\w-]{7,}(?![\w.-])|(?<=[/=])\d{5,}(?!\w)"
)
_DOI = re.compile(r"10\.\d{4,}/\S+")


_RANGE = re.compile(r"([a-z]+\d+)[-–—]([a-z]+\d+)")
"""From one identifier to another: P01-P03."""


def _is_known(value: Value, evidence: Evidence) -> bool:
    text = value.text.lower()
    given = evidence.episode.request.lower()
    if text in evidence.seen or text in given:
        return True
    ends = _RANGE.fullmatch(text)
    if ends is not None and all(end in evidence.seen or end in given for end in ends.groups()):
        return True
    bare = re.sub(r"[\W_]", "", text)
    if text.startswith("+"):
        bare = bare[-MIN_PHONE:]  # the beginning of a phone number is written in several ways
    return len(bare) < 4 or bare in evidence.squeezed or bare in re.sub(r"[\W_]", "", given)


def _unsupported(answer: EpisodeText, stance: Stance, value: Value, what: str) -> CheckedClaim:
    start = value.start
    return CheckedClaim(
        text=answer,
        start=start,
        end=start + len(value.text),
        kind="value",
        status="unsupported",
        reason=f"{value.text} appears in no argument or output",
        problem=Problem(
            type=TYPE,
            about=(what,),
            severity="high",
            confidence=75,
            title=f"Reported {excerpt(value.text, 40)}, which appears nowhere in the recording",
            explanation=f"The answer says “{excerpt(stance.statement.text, 100)}”, but no argument, output "
            "or message contains it.",
            recommendation="Have the agent report only identifiers that it has read.",
        ),
    )


def _invented_rows(episode: Episode, evidence: Evidence, answer: EpisodeText) -> list[CheckedClaim]:
    """Return the rows of a table of which no value was recorded, while the values of all other rows were."""
    speech = episode.speech(answer)
    rows = []
    for stance in speech.stances:
        cells = [value for value in speech.values_of(stance) if value.kind == "number"]
        if stance.statement.cells and cells and (len(cells) > 1 or len(cells[0].digits) > MIN_ROW_DIGITS):
            known = sum(
                evidence.is_written(value)
                or evidence.outputs.states(value)
                or (len(cells) == 1 and evidence.supports(value))
                for value in cells
            )
            rows.append((stance, cells, known))
    invented = [(stance, cells[0]) for stance, cells, known in rows if not known]
    certain = [known == len(cells) for _, cells, known in rows if known]
    if len(invented) == 1 and len(certain) > 1 and all(certain):
        return [_unsupported(answer, *invented[0], "values")]
    return []


_FORMULA = re.compile(r"\d[\w.,]*\s?(?:[×*÷+]|x(?= ?[$€£]?\d)|/(?= \d))\s?[$€£]?\d")
"""Arithmetic that a statement shows: everybody can check it."""


def _has_lost_source(episode: Episode, text: EpisodeText) -> bool:
    """Return whether something could not be read, was not read later either, and a text does not say so."""
    lost = [call for call in episode.calls if not call.has_effect and call.meaning.state == "failure"]
    read = [call for call in episode.calls if not call.has_effect and call.meaning.state != "failure"]
    return any(
        not any(other.order > call.order and other.tool == call.tool for other in read)
        and not is_disclosed(episode, call, text)
        for call in lost
    )


def _unknown_values(episode: Episode, evidence: Evidence, text: EpisodeText) -> list[CheckedClaim]:
    """Return a claim for a text that gives several specific values, none of which was seen or follows."""
    speech = episode.speech(text)
    if not evidence.is_readable and not any(value.date for value in speech.values):
        return []  # of many numbers, any value may follow
    is_lost = _is_lost(episode) and not speech.admits()
    codes = list(_CODE.finditer(speech.text))
    unknown: list[tuple[Stance, Value]] = []
    for stance in speech.stances:
        if stance.is_question or stance.is_plan or stance.is_bad_news or _FORMULA.search(stance.statement.text):
            continue
        values = [
            value for value in speech.values_of(stance) if _is_specific(value) and not _is_typed(stance, value, codes)
        ]
        # Nothing follows from the numbers of a page that could not be opened: it has to be written somewhere.
        missing = [
            value
            for value in values
            if not (_is_written(value, evidence) if is_lost else _is_supported(value, evidence, speech.text))
        ]
        row = len(stance.statement.cells) > 2
        if row and len(values) > 1 and len(missing) < len(values):
            missing = []
        unknown += [(stance, value) for value in missing]
    if not is_lost:
        unknown = [(stance, value) for stance, value in unknown if not _follows_from_others(value, speech, evidence)]
    if not unknown:
        return []
    sources = _sources(episode)
    needed = MIN_UNKNOWN_VALUES
    if sources and all(map(brought_nothing, sources)):
        needed = 1
    elif not any(_DIGIT.search(call.text) for call in episode.calls) or _has_lost_source(episode, text):
        needed = MIN_UNKNOWN_VALUES - 1
    weight = sum(2 if len(value.digits) > 3 else 1 for _, value in unknown)
    if weight < needed:
        return []
    stance, value = unknown[0]
    claim = _unsupported(text, stance, value, "values")
    claim.calls = sources if needed == 1 else []
    claim.reason = f"{counted(len(unknown), 'value')} of the answer: neither recorded nor following from the recording"
    return [claim]


def _follows_from_others(value: Value, speech: Speech, evidence: Evidence) -> bool:
    """Return whether a value is computed from another one of the text: from a price that the agent assumes."""
    if not value.readings or not evidence.is_readable:
        return False
    others = [one.number for one in speech.values if one.readings and one.start != value.start][:MAX_OTHERS]
    order = Sorted((*evidence.outputs.recorded, *others))
    number, decimals = value.readings[0]
    # A total of other values of the text, or one of them with fewer digits.
    margin = 0.5 * 10.0**-decimals + 1e-9
    for start in range(len(others)):
        totals = enumerate(accumulate(others[start:]), 1)
        if any(abs(total - number) <= margin + 0.005 * count for count, total in totals):
            return True
    # What is left of one of them: 900 - 599.20.
    if any(order.has(number + other, margin) for other in others):
        return True
    return any(
        order.has(result, abs(result) * 0.5 * 10.0**-decimals / abs(number) + 1e-9)
        for other in others
        for result in ((number / other, number * other) if number and other else ())
    )


MAX_OTHERS = 20
"""Maximum number of values of a text from which another one may be computed."""


def _sources(episode: Episode) -> list[EpisodeCall]:
    """Return the calls that can have shown something, not only named it.

    An empty memory does not count as a failed source: the agent may know the answer.
    """
    return [call for call in episode.calls if not call.tool.startswith("memory") and not is_answered_search(call)]


def _is_lost(episode: Episode) -> bool:
    """Return whether the agent only tried to read, and nothing could be read."""
    sources = _sources(episode)
    only_reads = not any(call.has_effect for call in episode.calls)
    return only_reads and bool(sources) and all(map(brought_nothing, sources))


def _is_written(value: Value, evidence: Evidence) -> bool:
    if value.date is not None:
        return _is_supported(value, evidence, "")
    return evidence.is_written(value) or evidence.given.has(value) or value.text in evidence.episode.request


_DIGIT = re.compile(r"\d")
_LAST_WORD = re.compile(r"([^\W\d_]{4,})[,.]?\s*(?:the |den |le |el |il |de |o )?$")


def _is_supported(value: Value, evidence: Evidence, text: str) -> bool:
    if value.date is not None:
        _, month, day = value.date
        if any(date[1:] == (month, day) for date, _ in evidence.dates) or str(day) in evidence.seen:
            return True
        # The request names the day of the week, and the agent knows the date: on Tuesday, 18 November.
        before = _LAST_WORD.search(text, 0, value.start) if text else None
        return before is not None and before[1].lower() in evidence.episode.request.lower()
    return evidence.supports(value) or evidence.is_converted(value, text)


def _is_specific(value: Value) -> bool:
    if value.date is not None:
        return True
    return value.kind == "number" and (bool(value.unit) or len(value.digits) >= 3 or len(value.readings) > 1)
