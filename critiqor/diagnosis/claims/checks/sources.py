"""Identifiers, quotations and facts that appear in no source that the agent has read."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.language import Language, language_of, normalize
from critiqor.diagnosis.claims.sentences import Quotation, quotations
from critiqor.diagnosis.claims.stance import Stance
from critiqor.diagnosis.claims.values import Value
from critiqor.diagnosis.signals.outputs import finds_nothing
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

TYPE = "unsupported_claim"
MIN_QUOTED_WORDS = 6
"""Minimum number of words of a quotation that is looked up; shorter ones are names and terms."""
MIN_QUOTED_CHARACTERS = 30
MIN_UNKNOWN_VALUES = 3
"""Minimum number of specific values without any source that make an answer unfounded."""
_WORD = re.compile(r"[^\W_]+")
_CODE = re.compile(r"`[^`\n]*[\s(=][^`\n]*`")
"""A command or an expression: something to type, not something that was read."""


def check_sources(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the identifiers, quotations and groups of values that appear nowhere in what was seen."""
    answer = episode.answer
    if answer is None or not episode.calls:
        return []
    claims = [
        *_identifiers(episode, evidence, answer),
        *_quotations(episode, evidence, answer),
        *_invented_rows(episode, evidence, answer),
    ]
    claims = claims or _unknown_values(episode, evidence, answer)
    return claims if evidence.is_complete else [_unverifiable(claim, evidence) for claim in claims]


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
    claims = []
    speech = episode.speech(answer)
    codes = list(_CODE.finditer(speech.text))
    for stance in speech.stances:
        if stance.is_question or stance.is_plan:
            continue
        for value in speech.values_of(stance):
            in_code = any(code.start() <= value.start < code.end() for code in codes)
            if value.kind == "identifier" and not in_code and not _is_known(value, evidence):
                claims.append(_unsupported(answer, stance, value, "identifier"))
    return claims


def _is_known(value: Value, evidence: Evidence) -> bool:
    text = value.text.lower()
    given = evidence.episode.request.lower()
    if text in evidence.seen or text in given:
        return True
    bare = re.sub(r"[\W_]", "", text)
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


def _quotations(episode: Episode, evidence: Evidence, answer: EpisodeText) -> list[CheckedClaim]:
    attributed = [stance.statement for stance in episode.speech(answer).stances if stance.is_attributed]
    # Other quotations are the agent's own words, such as the draft of a message.
    checkable = [
        quotation
        for quotation in (quotations(answer.text) if attributed else ())
        if not quotation.is_block
        and _is_checkable(quotation)
        and any(one.start - 200 <= quotation.start <= one.end for one in attributed)
    ]
    if not checkable:
        return []
    read = [call.text for call in episode.calls if call.kind is Kind.LOOKUP and call.meaning.state != "failure"]
    source = language_of("\n".join(read)[:4000]) if read else None
    squeezed = " ".join(_WORD.findall(f"{evidence.seen}\n{normalize(episode.request)}"))
    return [
        _invented(answer, quotation)
        for quotation in checkable
        if not _is_translated(quotation.text, source) and not _is_quoted_from(quotation.text, squeezed)
    ]


def _is_translated(text: str, source: Language | None) -> bool:
    """Return whether a quotation is in another language than its source: it cannot be looked up."""
    own = language_of(text)
    return source is not None and own is not None and own is not source


def _is_checkable(quotation: Quotation) -> bool:
    return len(_WORD.findall(quotation.text)) >= MIN_QUOTED_WORDS and len(quotation.text) >= MIN_QUOTED_CHARACTERS


def _is_quoted_from(text: str, squeezed: str) -> bool:
    words = _WORD.findall(normalize(text))
    size = 4
    windows = [" ".join(words[at : at + size]) for at in range(len(words) - size + 1)]
    return sum(window in squeezed for window in windows) * 3 >= len(windows)


def _invented(answer: EpisodeText, quotation: Quotation) -> CheckedClaim:
    return CheckedClaim(
        text=answer,
        start=quotation.start,
        end=quotation.end,
        kind="quote",
        status="unsupported",
        reason="these words appear in nothing that the agent has read",
        problem=Problem(
            type=TYPE,
            about=("quotation",),
            severity="high",
            confidence=70,
            title="Quoted words that appear nowhere in what the agent has read",
            explanation=f"The answer quotes “{excerpt(quotation.text, 120)}”, which no output contains.",
            recommendation="Have the agent quote only from texts that it has read, word for word.",
        ),
    )


def _invented_rows(episode: Episode, evidence: Evidence, answer: EpisodeText) -> list[CheckedClaim]:
    """Return the rows of a table of which no value was recorded, while the values of all other rows were."""
    speech = episode.speech(answer)
    rows = []
    for stance in speech.stances:
        cells = [value for value in speech.values_of(stance) if value.kind == "number"]
        if stance.statement.cells and len(cells) > 1:
            rows.append(
                (stance, cells, sum(evidence.is_written(value) or evidence.outputs.states(value) for value in cells))
            )
    invented = [(stance, cells[0]) for stance, cells, known in rows if not known]
    certain = [known == len(cells) for _, cells, known in rows if known]
    if len(invented) == 1 and len(certain) > 1 and all(certain):
        return [_unsupported(answer, *invented[0], "values")]
    return []


def _unknown_values(episode: Episode, evidence: Evidence, answer: EpisodeText) -> list[CheckedClaim]:
    """Return a claim for an answer that gives several specific values, none of which was seen or follows."""
    speech = episode.speech(answer)
    unknown: list[tuple[Stance, Value]] = []
    for stance in speech.stances:
        if stance.is_question or stance.is_plan or stance.is_bad_news:
            continue
        values = [value for value in speech.values_of(stance) if _is_specific(value)]
        missing = [value for value in values if not _is_supported(value, evidence)]
        row = len(stance.statement.cells) > 2
        if row and len(values) > 1 and len(missing) < len(values):
            missing = []
        unknown += [(stance, value) for value in missing]
    # An empty memory does not count as a failed source: the agent may know the answer.
    sources = [call for call in episode.calls if not call.tool.startswith("memory")]
    needed = 1 if sources and all(_is_empty(call) for call in episode.calls) else MIN_UNKNOWN_VALUES
    weight = sum(2 if len(value.digits) > 3 else 1 for _, value in unknown)
    if weight < needed:
        return []
    stance, value = unknown[0]
    claim = _unsupported(answer, stance, value, "values")
    claim.calls = sources if needed == 1 else []
    claim.reason = f"{counted(len(unknown), 'value')} of the answer: neither recorded nor following from the recording"
    return [claim]


def _is_empty(call: EpisodeCall) -> bool:
    """Return whether a call brought nothing to report."""
    return call.meaning.state == "failure" or not re.search(r"\d", call.text) or finds_nothing(call.text)


def _is_supported(value: Value, evidence: Evidence) -> bool:
    if value.date is not None:
        _, month, day = value.date
        return any(date[1:] == (month, day) for date, _ in evidence.dates) or str(day) in evidence.seen
    return evidence.supports(value)


def _is_specific(value: Value) -> bool:
    if value.date is not None:
        return True
    return value.kind == "number" and (bool(value.unit) or len(value.digits) >= 3 or len(value.readings) > 1)
