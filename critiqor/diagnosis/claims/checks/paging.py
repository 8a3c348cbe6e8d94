"""A list had more pages that were never read, and the agent speaks of all of it."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from critiqor.diagnosis.claims.call_arguments import MIN_LIKENESS, arguments_of
from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.checks.completeness import concerns
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.claims.speech import Speech
from critiqor.diagnosis.claims.values import values_in, word_numbers
from critiqor.diagnosis.signals.text import decode_json
from critiqor.diagnosis.signals.tool_calls import tool_call_likeness
from critiqor.model.sanitize import quotation
from critiqor.spans.calls import Kind

TYPE = "unsupported_claim"
_MORE = re.compile(
    r'"@?(?:odata\.)?next_?(?:page(?:_?(?:token|url|link))?|cursor|link|url|offset|start)?":\s?(?:"[^"]+"|[1-9]\d*|\{[^}])'
    r'|"continuation(?:_?token)?":\s?"[^"]+"'
    r'|"(?:has_?more|has_?next(?:_?page)?|(?:is_?)?truncated|incomplete_results|more|limit_?reached)":\s?true',
    re.IGNORECASE,
)
_PAGE_NUMBER = re.compile(r'"(?:current_?)?page(?:_?(?:no|number|index|num))?":\s?"?(\d+)', re.IGNORECASE)
_PAGES = re.compile(
    r'"(?:(?:total|num|number_?of)_?pages|pages|page_?count|(?:last|max)_?page)":\s?"?(\d+)', re.IGNORECASE
)
_TOTAL = re.compile(
    r'"(?:(?:total|count|matches|hits)(?P<sure>_?(?:count|results|items|hits|records|entries|matches|size|elements|rows))?'
    r'|(?P<found>num_?found|result_?size_?estimate|result_?count))":\s?"?(?P<number>\d{1,9})"?\s?[,}]',
    re.IGNORECASE,
)
_OF = r"(?:of|out of|von|sur|de|di|van|z|ze|из|av|共|/)"
_SHOWN = re.compile(
    r"(?:(?:showing|displaying|shown|page|rows?|results?|records?|items?|entries|hits|matches|first|top|seite|zeigt?\w*"
    r"|einträge|treffer|affich\w+|résultats|página|mostrando|resultados|pagina|risultati|resultaten|strona|wynik\w*"
    r"|страниц\w*|показан\w*|sayfa|sida|visar)\D{0,12}(?:\d+\s?[-–]\s?)?|(?<![\d-])1\s?[-–]\s?)"
    rf"(?P<shown>\d+)\s?{_OF}\s?(?P<total>\d+)(?!\d*[.,:/-]\d)",
    re.IGNORECASE,
)
_MAY_SHOW = re.compile(rf"\d\s?{_OF}\s?\d", re.IGNORECASE)
_ELLIPSIS = re.compile(r"\W{0,4}(?:and )?(\d+) more\b", re.IGNORECASE)
_LIMIT = re.compile(
    r'"(?:limit|per_?page|page_?size|max_?results|max|count|top|first|size|rows|n)":\s?"?(\d+)', re.IGNORECASE
)
_RETURNED = re.compile(
    r'"(?:returned|shown|fetched|per_?page|page_?size|limit|size)(?:_?count)?":\s?"?(\d+)', re.IGNORECASE
)
_PAGE = re.compile(
    r"\bpages?\b|\bseiten?\b|p[aá]gin|\bstron|страниц|sayfa|[页頁]|ページ|페이지|صفح|\bfirst \d+|\btop \d+|\bsample"
)
"""Words with which an answer says how much of a list was read."""
MIN_QUERY = 6
"""Minimum number of characters of a search term that a call for everything repeats."""


class _Remainder(NamedTuple):
    """What a call left out of a list: how many entries it showed, and how many there are, as far as that is known."""

    call: EpisodeCall
    shown: int | None
    total: int | None


_LOGS = re.compile(r"(?:^|[_.])logs?(?:$|[_.])", re.IGNORECASE)
"""Nobody reads all lines of a log."""


def check_paging(episode: Episode) -> list[CheckedClaim]:
    """Return the claim of completeness about a list of which a part was left out."""
    answer = episode.answer
    calls = [call for call in episode.calls if call.text]
    if answer is None or not calls:
        return []
    speech = episode.speech(answer)
    # What was to be done with everything is reported as done with everything, unless the answer says otherwise.
    wants_all = any(episode.speech(request).mentions("totality") for request in episode.requests)
    if not wants_all and not speech.mentions("totality"):
        return []
    for number, call in enumerate(calls):
        later = calls[number + 1 :]
        rest = _remainder(call) if not any(_goes_on(one, call) for one in later) else None
        if rest is None or _is_wanted(episode, rest) or _LOGS.search(call.tool):
            continue
        if any(_PAGE.search(stance.lowered) for stance in speech.stances) or _states(speech, rest):
            return []
        if any(_covers(one, call) for one in later):
            continue
        for part in (part for stance in speech.stances for part in (stance, *speech.clauses(stance))):
            is_whole = speech.has(part, "totality") or (wants_all and rest.total is not None)
            if part.is_good_news and is_whole and concerns(episode, part, call):
                return [_incomplete(episode, rest, part.statement.start, part.statement.end)]
    return []


def _goes_on(later: EpisodeCall, call: EpisodeCall) -> bool:
    """Return whether a later call asks the same source: that one shows whether something is left."""
    if later.tool != call.tool:
        return False
    return not call.line or tool_call_likeness(later.line, call.line) >= MIN_LIKENESS


def _remainder(call: EpisodeCall) -> _Remainder | None:
    """Return what a call left out of a list; None if nothing shows that it did."""
    if said := _SHOWN.search(call.text) if _MAY_SHOW.search(call.text) else None:
        first, every = int(said["shown"]), int(said["total"])
        is_page = said["shown"] == "1"
        return _Remainder(call, None if is_page else first, None if is_page else every) if first < every else None
    if '":' not in call.text or call.kind in (Kind.ACTION, Kind.CHANGE):
        return None
    more = _MORE.search(call.text) is not None or _has_pages(call.text)
    found = _TOTAL.search(call.text)
    limits = {int(limit) for limit in _LIMIT.findall(call.arguments)}
    shown = _length(call.text) if more or found else None
    if shown is None and (more or found) and len(limits | _returned(call.text)) == 1:
        [shown] = limits | _returned(call.text)
    if found and shown:
        total = int(found["number"])
        # A bare total may be a sum of money.
        if shown < total and (more or found["sure"] or found["found"] or shown in limits):
            return _Remainder(call, shown, total)
        if shown >= total:
            return None
    return _Remainder(call, shown, None) if more else None


def _returned(text: str) -> set[int]:
    """Return how many entries a JSON answer says that it has."""
    return {int(number) for number in _RETURNED.findall(text)}


def _has_pages(text: str) -> bool:
    """Return whether a JSON answer is one of several pages, and not the last."""
    page, pages = _PAGE_NUMBER.search(text), _PAGES.search(text)
    return page is not None and pages is not None and int(page[1]) < int(pages[1])


def _length(text: str) -> int | None:
    """Return the number of entries of the longest list in a JSON answer."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = decode_json(text)
    except msgspec.DecodeError:
        return None
    lists = [value] if isinstance(value, list) else [each for each in value.values() if isinstance(each, list)]
    longest = max(lists, key=len, default=None)
    if longest is None:
        return None
    hidden = [int(found[1]) for each in longest if isinstance(each, str) and (found := _ELLIPSIS.match(each))]
    return len(longest) - len(hidden) + sum(hidden)


def _is_wanted(episode: Episode, rest: _Remainder) -> bool:
    """Return whether the user asked for no more than was shown: the ten newest."""
    language = episode.request_language
    values = [*values_in(episode.request, language), *word_numbers(episode.request, language)]
    return rest.shown is not None and any(value.number == rest.shown for value in values if value.readings)


def _states(speech: Speech, rest: _Remainder) -> bool:
    """Return whether an answer tells how many entries were left out, or both how many there are and were dealt with."""
    if rest.shown is None or rest.total is None:
        return False
    values = [*speech.values, *word_numbers(speech.text, speech.language)]
    stated = {value.number for value in values if value.readings}
    return {rest.shown, rest.total} <= stated or rest.total - rest.shown in stated


def _covers(later: EpisodeCall, call: EpisodeCall) -> bool:
    """Return whether a later call is about everything that a search finds: it repeats the search terms."""
    terms = [text for _, text in arguments_of(call) if len(text) >= MIN_QUERY]
    return later.has_effect and bool(terms) and all(term.lower() in later.arguments.lower() for term in terms)


def _incomplete(episode: Episode, rest: _Remainder, start: int, end: int) -> CheckedClaim:
    answer = episode.answer
    assert answer is not None
    call = rest.call
    how_many = f" ({rest.shown} of {rest.total})" if rest.total is not None else ""
    return CheckedClaim(
        text=answer,
        start=start,
        end=end,
        kind="completeness",
        status="unsupported",
        reason=f"{call.name} answered that there is more{how_many}, and the rest was not read",
        calls=[call],
        problem=Problem(
            type=TYPE,
            about=("paging",),
            severity="high",
            confidence=75,
            title=f"Spoke of everything, but read only a part of what {call.name} found",
            explanation=f"The answer says {quotation(answer.text[start:end], 100)}. The result says that there is "
            f"more{how_many}, which no call requested.",
            recommendation="Have the agent read all pages, or say how many it has read.",
        ),
    )
