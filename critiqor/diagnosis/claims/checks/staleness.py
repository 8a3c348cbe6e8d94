"""A result is reported as the present state, although what it is about was changed after it and not looked at again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from critiqor.diagnosis.claims.arithmetic import Numbers
from critiqor.diagnosis.claims.call_arguments import arguments_of, decoded_arguments
from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.outcomes.call_targets import (
    EXAMINES,
    MAX_TARGET,
    affects,
    covers,
    is_change,
    is_examination,
    is_look,
    targets_of,
)
from critiqor.diagnosis.claims.outcomes.check_classes import check_classes, gives_result
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import Value
from critiqor.diagnosis.signals.text import decode_json, tokens
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

MIN_NAME = 4
"""Minimum number of letters of a word by which a statement names a record or a check."""
MAX_RECORDS = 200
"""Maximum number of records of an output that are compared."""
MAX_LABEL = 80
"""Maximum number of characters between the name of a value and the value."""
MAX_READ = 600
"""Maximum number of characters of a result whose numbers are compared by value; in a longer one, as written."""
_REMOVES = re.compile(
    r"\b(?:drop|delete|remove|destroy|purge|rm|rmdir|dropdb|truncate)\b|(?:delete|remove|drop)_", re.IGNORECASE
)
_SEARCH = re.compile(r"\b(?:grep|rg|ag|find|ls)\b")
"""Searches print places, which belong to the text before the change."""
_SUM = re.compile(
    r"total|\btot\b|\bsum|sub_?total|balance|available|remaining|\bfree|\bleft\b|on_?hand|stock|differen|\bcheck\b|quota|usage"
    r"|saldo|summe|gesamt|verfügbar|bestand|solde|disponib|restant|somma|saldo|differenza|beschikbaar|totaal|voorraad"
    r"|dostępn|suma|łącznie|итог|остат|всего|доступн|toplam|kalan|bakiye|stok|合计|总计|余额|库存|剩余|合計|残|在庫|합계|잔액|재고"
    r"|المجموع|الرصيد|المتبقي",
    re.IGNORECASE,
)
"""Names of values that change with the entries that they are about."""


def check_staleness(episode: Episode) -> list[CheckedClaim]:
    """Return the claim that rests on a result which is older than the last change of what it is about."""
    answer = episode.answer
    if answer is None:
        return []
    calls = [*(call for each in reversed(episode.earlier) for call in each.calls), *episode.calls]
    if not any(call.has_effect for call in calls):
        return []
    speech = episode.speech(answer)
    for find in (_old_result, _old_record, _old_file):
        if (claim := find(speech, answer, calls)) is not None:
            return [claim]
    claim = _unrepeated(speech, answer, calls, episode.calls)
    return [claim] if claim is not None else []


def _old_result(speech: Speech, answer: EpisodeText, calls: list[EpisodeCall]) -> CheckedClaim | None:
    """Return the statement that gives the result of a look from before a change."""
    # A value that was only looked up may be reported as it was: an answer with a caveat may say so in any words.
    has_doubts = any(stance.is_bad_news or stance.is_uncertain for stance in speech.stances)
    latest = {
        call.line.split("|")[0].strip() or f"{call.tool} {call.arguments}": call for call in calls if is_look(call)
    }
    changes = [call for call in calls if is_change(call)]
    for look in latest.values() if changes else ():
        if look.order > changes[-1].order:
            continue
        if look.line and not is_examination(look) and (not speech.values or has_doubts or _SEARCH.search(look.line)):
            continue
        later = [call for call in calls if call.order > look.order]
        # What was removed cannot be looked at any more: it was checked before.
        after = [call for call in changes if call.order > look.order and not _REMOVES.search(call.line or call.tool)]
        change = next((call for call in reversed(after) if affects(call, look)), None)
        if change is None or any(call.order > change.order and covers(call, look) for call in later):
            continue
        if is_examination(look) and _is_disclosed(speech, look):
            continue
        for part in _parts(speech):
            if _rests_on(speech, part, look, later):
                return _stale(answer, part, look, change)
    return None


def _parts(speech: Speech) -> Iterator[Stance]:
    """Yield the statements that give something as a fact, and their clauses."""
    for stance in speech.stances:
        if not stance.is_question:
            for part in (stance, *speech.clauses(stance)):
                if part.is_asserted and not part.is_uncertain:
                    yield part


def _is_disclosed(speech: Speech, look: EpisodeCall) -> bool:
    """Return whether a text has bad news or doubts about a check: that it was not repeated."""
    classes = check_classes(look)
    return any(
        (stance.is_uncertain or (stance.is_bad_news and speech.has(stance, "negations")))
        and (
            any(speech.has(stance, f"subjects.{name}") for name in classes)
            or speech.has(stance, "actions.rerun")
            or (speech.has(stance, "negations") and speech.is_own(stance))  # "and I have not run them again"
        )
        for stance in speech.stances
    )


def _rests_on(speech: Speech, part: Stance, look: EpisodeCall, later: list[EpisodeCall]) -> bool:
    """Return whether a statement gives what a look has shown, and no later result shows the same."""
    numbers = [value for value in speech.values_of(part) if _is_number(value)]
    if look.line or is_examination(look):
        if not part.is_good_news and not _quotes(speech, part, look):
            return False
        if any(_states(look, value) and not any(_states(call, value) for call in later) for value in numbers):
            return True
        return is_examination(look) and (_names(speech, part, look) or _repeats(speech, part, look, later))
    if part.statement.cells or speech.has(part, "formerly") or speech.has(part, "negations"):
        return False
    is_kept = speech.has(part, "persists")
    return any(
        (is_kept or _is_sum(look, value)) and _states(look, value) and not any(_knows(call, value) for call in later)
        for value in numbers
        if len(value.digits) > 1
    )


def _is_number(value: Value) -> bool:
    return (value.kind == "number" and value.number != 0) or _GROUPED.fullmatch(value.text) is not None


_GROUPED = re.compile(r"\d{1,3}(?:\.\d{3})+")
"""A number whose thousands are separated by points, which also has the form of a version."""


def _quotes(speech: Speech, part: Stance, look: EpisodeCall) -> bool:
    """Return whether a clause denies something in the words of the check: a plan that shows no changes."""
    return is_examination(look) and any(
        f"{word} {following[0]}" in look.lowered
        for word in speech.words(part, "negations")
        for _, found, after in (part.lowered.partition(word),)
        if found and (following := after.split())
    )


def _names(speech: Speech, part: Stance, look: EpisodeCall) -> bool:
    """Return whether a statement gives the result of a check by its name."""
    if not look.line:
        names = [text.lower() for name, text in arguments_of(look) if EXAMINES.search(f"{name} {text}")]
        return any(name in part.lowered for name in names if len(name) >= (2 if not name.isascii() else MIN_NAME))
    if {word for word in tokens(look.line) & speech.tokens_of(part) if len(word) >= MIN_NAME}:
        return True
    return gives_result(speech, part, check_classes(look))


def _repeats(speech: Speech, part: Stance, look: EpisodeCall, later: list[EpisodeCall]) -> bool:
    """Return whether a statement has numbers and words of the result of a check that no later result has."""
    numbers = {value.text for value in speech.values_of(part) if value.kind == "number"}
    if not numbers or not numbers <= look.numbers:
        return False
    words = {word for word in speech.tokens_of(part) if len(word) >= MIN_NAME} & tokens(look.text)
    for call in later:
        if len(words) < MIN_REPEATED:
            return False
        words = {word for word in words if word not in call.lowered or word not in tokens(call.text)}
    return len(words) >= MIN_REPEATED


MIN_REPEATED = 2
"""Minimum number of words of a result in a statement that gives it."""


def _states(call: EpisodeCall, value: Value) -> bool:
    """Return whether an output shows a number."""
    if value.text in call.numbers or int(value.digits or 0) in call.digits:
        return len(value.digits) > 1 or value.text in call.numbers
    return len(call.text) <= MAX_READ and value.kind == "number" and _read(call.text).states(value)


def _knows(call: EpisodeCall, value: Value) -> bool:
    return _states(call, value) or value.digits in call.facts.replace(",", "").replace(".", "")


@lru_cache(maxsize=64)
def _read(text: str) -> Numbers:
    numbers = Numbers()
    numbers.add_numbers(text)
    return numbers


def _is_sum(look: EpisodeCall, value: Value) -> bool:
    """Return whether an output names a value as a sum, a balance or what is left, on the same line."""
    for number, written in look.numbers_by_digits().items():
        if number == int(value.digits) or written.rstrip("0") == value.text.replace(",", "").rstrip("0"):
            before = look.text[: look.text.find(written)].rpartition("\n")[2][-MAX_LABEL:]
            label = re.split(r"[\]}{;]", before)[-1]
            return _SUM.search(label.rpartition(",")[2] if ":" in label.rpartition(",")[2] else label) is not None
    return False


def _old_record(speech: Speech, answer: EpisodeText, calls: list[EpisodeCall]) -> CheckedClaim | None:
    """Return the statement that gives a record a value which a later call replaced."""
    if not any(map(str.isdigit, speech.lowered)):
        return None
    changes: dict[str, EpisodeCall] = {}
    for call in calls:
        if not call.line and is_change(call):
            changes |= dict.fromkeys((value for _, value in arguments_of(call) if len(value) <= MAX_TARGET), call)
    looks: dict[str, EpisodeCall] = {}
    for call in calls if changes else ():
        if call.kind in (Kind.LOOKUP, Kind.WAIT) and call.text[:1] in ("[", "{"):
            looks |= dict.fromkeys(changes.keys() & set(_QUOTED.findall(call.text)), call)
    for name, look in looks.items():
        change = changes[name]
        record = _record_of(look.text, name) if look.order < change.order else None
        old = _replaced(record, decoded_arguments(change.arguments) or {}) if record else {}
        later = [call for call in calls if call.order >= change.order] if old else []
        for stance in speech.stances if old else ():
            if stance.is_asserted and _gives(speech, stance, record or {}, old, later):
                return _stale(answer, stance, look, change)
    return None


_QUOTED = re.compile(r'"([^"\\]{2,60})"')


def _record_of(text: str, name: str) -> dict[str, Any] | None:
    """Return the record of an output with an id."""
    try:
        value = decode_json(text)
    except msgspec.DecodeError:
        return None
    lists = [value] if isinstance(value, list) else [each for each in value.values() if isinstance(each, list)]
    records = (record for each in lists for record in each[:MAX_RECORDS] if isinstance(record, dict))
    return next((record for record in records if name in record.values()), None)


def _replaced(record: dict[str, Any], arguments: dict[str, object]) -> dict[str, str]:
    """Return the values of a record that a call replaced, each with the new one."""
    pairs = [(old, arguments.get(name)) for name, old in record.items() if isinstance(old, str)]
    return {old: new for old, new in pairs if isinstance(new, str) and old not in new and any(map(str.isdigit, old))}


def _gives(
    speech: Speech, stance: Stance, record: dict[str, Any], old: dict[str, str], later: list[EpisodeCall]
) -> bool:
    """Return whether a statement names a record with an old value, without the new one or that it was so before."""
    names = {word for value in record.values() if isinstance(value, str) for word in tokens(value) if word.isalpha()}
    if not {word for word in names if len(word) >= MIN_NAME} & speech.tokens_of(stance):
        return False
    given = [value for value in old if value.lower() in stance.lowered]
    # A date with a time is named by its time: `2026-02-17T16:00:00Z` as 16:00.
    new = [part.lower() for value in old.values() for part in (value, value.partition("T")[2][:5]) if part]
    if not given or speech.has(stance, "formerly") or any(part in stance.lowered for part in new):
        return False
    return not any(value in call.arguments or value in call.text for call in later for value in given)


def _unrepeated(
    speech: Speech, answer: EpisodeText, calls: list[EpisodeCall], own: list[EpisodeCall]
) -> CheckedClaim | None:
    """Return the claim that something was checked, after changes only, with values of earlier requests."""
    if not own or not all(map(is_change, own)):
        return None
    for part in _parts(speech):
        numbers = [value for value in speech.values_of(part) if _is_number(value) and len(value.digits) > 1]
        if (
            not numbers
            or not speech.has(part, "actions.inspect")
            or any(_knows(call, one) for call in own for one in numbers)
        ):
            continue
        looks = [call for call in calls if is_look(call) and any(_states(call, value) for value in numbers)]
        if looks:
            return _stale(answer, part, looks[-1], own[-1])
    return None


def _old_file(speech: Speech, answer: EpisodeText, calls: list[EpisodeCall]) -> CheckedClaim | None:
    """Return the report on a file that was sent, although its source was changed after it had been made."""
    uses = [call for call in calls if call.kind is Kind.ACTION and not call.line and "." in call.arguments]
    used = {name: call for call in uses for name in _ATTACHED.findall(call.arguments)}
    made: dict[str, EpisodeCall] = {}
    changed: dict[str, EpisodeCall] = {}
    for call in calls if used else ():
        if not call.has_effect or call.meaning.state == "failure":
            continue
        products = [name for name in used if used[name] is not call and name in call.arguments]
        for name in products:
            changed.pop(name, None)
            # A command may only read the file, so the call that made it first is kept.
            made[name] = made.get(name, call) if call.line else call
        if not products and not call.line and is_change(call):
            for name, maker in made.items():
                if call.order < used[name].order and targets_of(call) & targets_of(maker):
                    changed[name] = call
    if not changed or any(stance.is_bad_news for stance in speech.stances):
        return None
    name, change = next(iter(changed.items()))
    words = {word for word in tokens(used[name].arguments) if len(word) >= MIN_NAME}
    sent = [
        one
        for one in speech.stances
        if one.is_good_news and (speech.has(one, "actions.send") or words & speech.tokens_of(one))
    ]
    stance = next((one for one in sent if not one.is_limited), None)
    return _stale(answer, stance, made[name], change) if stance is not None else None


_ATTACHED = re.compile(r"[\w./~-]*\w\.[A-Za-z]\w{1,4}(?=\")")


def _stale(answer: EpisodeText, stance: Stance, look: EpisodeCall, change: EpisodeCall) -> CheckedClaim:
    return CheckedClaim(
        text=answer,
        start=stance.statement.start,
        end=stance.statement.end,
        kind="check",
        status="unsupported",
        reason=f"{look.name} ran before the last change ({change.name}) and was not repeated",
        calls=[look, change],
        problem=Problem(
            type="unsupported_claim",
            about=("stale check",),
            severity="high",
            confidence=75,
            title=f"Reported the result of {look.name} from before the last change",
            explanation=f"The answer says “{excerpt(stance.statement.text, 100)}”, but {look.name} ran before "
            f"{change.name} and not after it.",
            recommendation="Have the agent repeat its checks after its last change.",
        ),
    )
