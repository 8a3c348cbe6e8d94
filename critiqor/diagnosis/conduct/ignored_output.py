"""What a result says, and the agent writes or states otherwise: values under a name, rates, opposites, open states."""

# ruff: noqa: RUF001 - letters of several scripts
from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from critiqor.diagnosis.claims.call_arguments import argument_text, members, path_of
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.claims.language import language_of, normalize
from critiqor.diagnosis.claims.recorded.slips import is_slip
from critiqor.diagnosis.claims.speech import Stance
from critiqor.diagnosis.claims.vocabulary import Hit
from critiqor.diagnosis.conduct.lapse import Lapse
from critiqor.diagnosis.loops.settled import reported_state
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

TYPE = "ignored_tool_output"
MAX_WRITTEN = 4_000
"""Maximum number of characters of a written text that are compared with results."""
MAX_PAIRS = 40
"""Maximum number of values of written texts, and of statements, that are compared."""
_ENDPOINT = re.compile(r"((?:\d{1,3}\.){3}\d{1,3}|localhost|[a-z][\w-]*(?:\.[a-z][\w-]*)+):(\d{2,5})(?![\d.:])")
_SETTING = re.compile(r"(?m)^\s*[\"']?([a-z][\w.-]{2,40})[\"']?\s*[=:]\s*[\"']?(\d{2,9})[\"']?\s*[,;]?\s*$")
_MAY_BE_ENDPOINT = re.compile(r":\d\d")
_MAY_BE_SETTING = re.compile(r"(?m)[=:]\s*[\"']?\d{2,9}[\"']?\s*[,;]?\s*$")
_PER = r"(?:per|pro|je|por|par|al|a|na|на|/)"
_RATE = re.compile(
    rf"(?<![\d.,])(\d{{1,12}}(?:[.,]\d{{1,9}})?)\s?([a-zµа-я%€$£]{{1,10}})\s?{_PER}\s?(\d{{1,12}}(?:[.,]\d{{1,9}})?)?\s?([a-zа-я]{{1,12}})(?![\w])",
    re.IGNORECASE,
)
_MAY_BE_RATE = re.compile(r"\d\s?[a-zµа-я%€$£]{1,10}\s?(?:/|[a-zна])", re.IGNORECASE)
_TOKEN = re.compile(r"[^\W_][\w-]*")
_CAPITAL = re.compile(r"[A-ZА-Я]")
MAX_REST = 3
"""Maximum number of words between a negation and the word that it denies."""
MIN_PREDICATE = 4
"""Minimum number of characters of a word that is affirmed in one place and denied in another."""
_WORD = re.compile(r"[^\W\d_]{4,}")


def find_ignored_output(episode: Episode) -> list[Lapse]:
    """Return where the agent wrote or stated something else than the results say, at most one place."""
    if not episode.calls:
        return []
    for check in (_other_values, _other_rates, _opposites, _unsettled):
        found = check(episode)
        if found is not None:
            return [found]
    return []


def _written(episode: Episode) -> Iterator[EpisodeCall]:
    return (call for call in episode.calls if call.kind is Kind.CHANGE and call.meaning.state != "failure")


def _other_values(episode: Episode) -> Lapse | None:
    """Return a value that was written under a name for which the results have another, similar one."""
    left = MAX_PAIRS
    for call in _written(episode):
        text = argument_text(call)[:MAX_WRITTEN]
        pairs = _pairs(text)[: max(0, left)]
        left -= len(pairs)
        for name, value in pairs:
            source = _source_of_other(episode, call, name, value)
            if source is not None and source[1] not in text:
                return _lapse(
                    source[0],
                    call.call_id,
                    f"The result says {excerpt(name, 40)} {source[1]}, but the agent wrote {value}",
                    f"{call.name} wrote {excerpt(name, 40)} {value}, which no result and no request contains.",
                )
    return None


def _pairs(text: str) -> list[tuple[str, str]]:
    """Return the names of a text with their values: ports of hosts, and settings."""
    endpoints = _ENDPOINT.findall(text) if _MAY_BE_ENDPOINT.search(text) else []
    return endpoints + (_SETTING.findall(text) if _MAY_BE_SETTING.search(text) else [])


def _source_of_other(episode: Episode, call: EpisodeCall, name: str, value: str) -> tuple[EpisodeCall, str] | None:
    """Return the result that has only another value under a name, and that value."""
    if value in episode.request:
        return None
    before = [each for each in episode.calls if each.order < call.order]
    if any(value in each.text or value in each.facts for each in before):
        return None
    for each in reversed(before):
        if name.lower() not in each.lowered or (path_of(each) and path_of(each) == path_of(call)):
            continue
        found = [other for key, other in _pairs(each.text) if key == name]
        # The next number is often meant: the next version, the next free port.
        if found and is_slip(value, found[-1]) and int(value) != int(found[-1]) + 1:
            return each, found[-1]
    return None


class _Rate(NamedTuple):
    """An amount per quantity in a result."""

    call: EpisodeCall
    match: re.Match[str]


def _other_rates(episode: Episode) -> Lapse | None:
    """Return a rate that has the amount of a recorded one, for another quantity: 15 g per 10 l became 15 g per l."""
    answer = episode.answer
    texts = [(call.call_id, argument_text(call), call.order) for call in _written(episode)]
    texts += [(answer.event_id, answer.text, answer.order)] if answer is not None else []
    written = [(event_id, match, order) for event_id, text, order in texts for match in _rates(text[:MAX_WRITTEN])]
    recorded: dict[tuple[str, str, str], list[_Rate]] = {}
    for call in episode.calls if written else ():
        for match in _rates(call.text) if not call.has_effect else ():
            recorded.setdefault((*_amount(match), _unit(match)), []).append(_Rate(call, match))
    for event_id, match, order in written:
        rates = [rate for rate in recorded.get((*_amount(match), _unit(match)), ()) if rate.call.order < order]
        if rates and all(_per(rate.match) != _per(match) for rate in rates):
            return _lapse(
                rates[0].call,
                event_id,
                f"The result says {excerpt(rates[0].match[0], 40)}, but the agent wrote {excerpt(match[0], 40)}",
                "The amount is the recorded one, the quantity that it is for is not.",
            )
    return None


def _rates(text: str) -> Iterator[re.Match[str]]:
    if _MAY_BE_RATE.search(text):
        yield from _RATE.finditer(text)


def _amount(rate: re.Match[str]) -> tuple[str, str]:
    return rate[1].replace(",", "."), rate[2].lower()


def _per(rate: re.Match[str]) -> float:
    return float((rate[3] or "1").replace(",", "."))


def _unit(rate: re.Match[str]) -> str:
    return rate[4].lower()[:1]


def _is_name(token: str) -> bool:
    """Return whether a word names a model or a product: it has a digit, and a capital or a second digit."""
    digits = sum(map(str.isdigit, token))
    return len(token) >= MIN_PREDICATE and digits > 0 and (digits > 1 or _CAPITAL.search(token) is not None)


def _opposites(episode: Episode) -> Lapse | None:
    """Return a statement that affirms of something what a result denies of it."""
    answer = episode.answer
    # An action may have changed what was denied before.
    looks = list(takewhile(lambda call: not call.has_effect, reversed(episode.calls)))
    if answer is None or not looks:
        return None
    speech = episode.speech(answer)
    for stance in speech.stances[:MAX_PAIRS]:
        names = {token.lower() for token in _TOKEN.findall(stance.statement.text) if _is_name(token)}
        if stance.is_question or not any(name in call.lowered for name in names for call in looks):
            continue
        clauses = [each for each in speech.clauses(stance) if each.is_good_news and not each.is_uncertain]
        affirmed = {word[:MIN_STEM] for each in clauses for word in _WORD.findall(each.lowered)}
        if affirmed and (found := _denial(looks, names, affirmed)) is not None:
            return _lapse(
                found[0],
                answer.event_id,
                f"The result says the opposite: {excerpt(found[1], 80)}",
                f"The agent said: “{excerpt(stance.statement.text, 140)}”",
            )
    return None


MIN_STEM = 6
"""Number of characters at the beginning of a word by which it is compared."""


def _denial(looks: list[EpisodeCall], names: set[str], affirmed: set[str]) -> tuple[EpisodeCall, str] | None:
    """Return a line of a result, of the last one first, that names one of these and denies what is affirmed of it."""
    for call in looks:
        if not any(name in call.lowered for name in names):
            continue
        lines = [line for line in call.text.splitlines() if any(name in line.lower() for name in names)]
        denied = [(line, stems) for line in lines if (stems := _denied(line, affirmed))]
        for line, stems in denied:
            others = [other.lower() for other in lines if other != line]
            if not any(stem in other for stem in stems for other in others):
                return call, line.strip()
        if any(stem in line.lower() for stem in affirmed for line in lines):
            return None  # this result affirms it
    return None


def _denied(line: str, affirmed: set[str]) -> set[str]:
    """Return the beginnings of the affirmed words that a line denies: those right behind a negation."""
    lowered = normalize(line)
    if not any(stem in lowered for stem in affirmed) or (language := language_of(line)) is None:
        return set()
    found: set[str] = set()
    for hit in language.vocabulary.find("negations", lowered):
        after = _words_after(lowered, hit)
        found |= {word[:MIN_STEM] for word in after if len(word) >= MIN_PREDICATE}
    return found & affirmed


def _words_after(text: str, hit: Hit) -> list[str]:
    rest = re.split(r"[,;:.!?()]", text[hit.end : hit.end + 60], maxsplit=1)[0]
    return rest.split()[:MAX_REST]


_UNSETTLED = re.compile(
    r"waitlist|wait_list|pending|unconfirmed|tentativ|provisional|on_?request|on_?hold|backorder|requires|awaiting|option"
    r"|needs_|unpaid",
    re.IGNORECASE,
)
_SENDING = re.compile(r"send|mail|message|post|notify|sms|deploy|publish|upload|submit", re.IGNORECASE)


def _unsettled(episode: Episode) -> Lapse | None:
    """Return a state that a result reports, open or failed, if the answer calls everything done or in order."""
    answer = episode.answer
    if answer is None:
        return None
    speech = episode.speech(answer)
    if any(_admits(stance) or stance.is_plan for stance in speech.stances) or not speech.stances:
        return None
    for call in episode.calls:
        if call.line or call.order > answer.order:
            continue
        if any(each.order > call.order and each.tool == call.tool for each in episode.calls):
            continue
        if not (_is_open(call) if call.kind is Kind.ACTION else _is_dead(episode, call)):
            continue
        said = call.meaning.reason or call.meaning.quote or reported_state(call.text, is_report=False).settled
        return _lapse(
            call,
            answer.event_id,
            f"The result says {excerpt(said, 60)}, but the answer calls it done",
            f"The agent said: “{excerpt(answer.text, 140)}”",
        )
    return None


def _is_open(action: EpisodeCall) -> bool:
    """Return whether an action is not settled according to its result."""
    meaning = action.meaning
    is_open = meaning.state == "not_final" and _UNSETTLED.search(f"{meaning.quote} {meaning.reason}") is not None
    return is_open and not _SENDING.search(action.tool)


def _is_dead(episode: Episode, look: EpisodeCall) -> bool:
    """Return whether what was looked at has failed or is cancelled, and the agent speaks of it without that word."""
    if look.kind not in (Kind.LOOKUP, Kind.WAIT) or len(look.text) > MAX_WRITTEN:
        return False
    state = reported_state(look.text, is_report=False).settled.partition("_")[0]
    if not state:
        return False
    said = "\n".join(text.text.lower() for text in (*episode.messages, *episode.outgoing))
    if state in said:
        return False
    names = {_plain(value) for _, value in members(look) if any(map(str.isdigit, value))}
    plain = _plain(said)
    return any(len(name) >= MIN_PREDICATE and name in plain for name in names)


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def _admits(stance: Stance) -> bool:
    return stance.is_bad_news or stance.is_limited or stance.is_uncertain or stance.is_question


def _lapse(source: EpisodeCall, event_id: str, title: str, explanation: str) -> Lapse:
    return Lapse(
        type=TYPE,
        about=(source.tool,),
        confidence=65,
        title=title,
        explanation=explanation,
        recommendation="Have the agent copy values from results, and name the result behind each statement.",
        verification="Run the same task again: what is written and stated agrees with the results.",
        causes=[(source.result_id, f"{source.name} returned: {excerpt(source.text, 80)}")],
        event_id=event_id,
        happened=title,
    )
