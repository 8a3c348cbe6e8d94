"""A value was read, then what it belongs to was changed, and the old value is reported as the current one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from critiqor.diagnosis.claims.call_arguments import arguments_of, decoded_arguments
from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import Value
from critiqor.diagnosis.signals.text import decode_json, tokens
from critiqor.spans.calls import Kind

MIN_IDENTITY = 3
"""Minimum number of characters of an argument that says what a call is about."""
MIN_NAME = 4
"""Minimum number of letters of a word by which a statement names a record."""
MAX_RECORDS = 200
"""Maximum number of records of an output that are compared."""
_GENERAL = frozenset(
    ("limit", "format", "lang", "language", "currency", "units", "timezone", "mode", "channel", "action")
)
"""Arguments that say how something is done, not to what."""


def check_outdated(episode: Episode) -> list[CheckedClaim]:
    """Return the claim of a current value that was read before the last change of what it belongs to."""
    answer = episode.answer
    if answer is None:
        return []
    calls = [*(call for each in reversed(episode.earlier) for call in each.calls), *episode.calls]
    if not any(call.has_effect for call in calls):
        return []
    for find in (_still_as_read, _old_record, _unrepeated, _old_file):
        claim = find(episode, answer, calls)
        if claim is not None:
            return [claim]
    return []


def _is_look(call: EpisodeCall) -> bool:
    return call.kind in (Kind.LOOKUP, Kind.WAIT) and call.meaning.state != "failure"


def _is_change(call: EpisodeCall) -> bool:
    return call.has_effect and not call.line and not call.is_check and call.meaning.state != "failure"


def _clauses(speech: Speech) -> Iterator[Stance]:
    """Yield the clauses that state something as a fact. A difference of zero is no trouble, but a denial is one."""
    for stance in speech.stances:
        if not (stance.is_question or stance.is_uncertain or stance.statement.cells):
            for clause in speech.clauses(stance):
                if clause.is_asserted and not clause.is_uncertain and not speech.has(clause, "negations"):
                    yield clause


def _still_as_read(episode: Episode, answer: EpisodeText, calls: list[EpisodeCall]) -> CheckedClaim | None:
    """Return the claim that a value is still as it was read, although the same object was changed since."""
    speech = episode.speech(answer)
    pairs = list(_outdated_looks(calls)) if speech.values else []
    latest: dict[str, int] = {}
    for clause in _clauses(speech) if pairs else ():
        persists = speech.has(clause, "persists")
        for value in _numbers(speech, clause) if not speech.has(clause, "formerly") else ():
            for look, change in pairs:
                if not _shows(look, value) or not (persists or _is_sum(look, value)):
                    continue
                if value.text not in latest:
                    latest[value.text] = max((call.order for call in calls if _knows(call, value)), default=-1)
                if latest[value.text] < change.order:
                    return _outdated(answer, clause, look, change, value.text)
    return None


_SUM = re.compile(
    r"total|\btot\b|\bsum|sub_?total|balance|available|remaining|\bfree|\bleft\b|on_?hand|stock|differen|\bcheck\b|quota|usage"
    r"|saldo|summe|gesamt|verfügbar|bestand|solde|disponib|restant|somma|saldo|differenza|beschikbaar|totaal|voorraad"
    r"|dostępn|suma|łącznie|итог|остат|всего|доступн|toplam|kalan|bakiye|stok|合计|总计|余额|库存|剩余|合計|残|在庫|합계|잔액|재고"
    r"|المجموع|الرصيد|المتبقي",
    re.IGNORECASE,
)
"""Names of values that change with the entries that they are about."""
MAX_LABEL = 80
"""Maximum number of characters between the name of a value and the value."""


def _is_sum(look: EpisodeCall, value: Value) -> bool:
    """Return whether an output names a value as a sum, a balance or what is left, on the same line."""
    for number, written in look.numbers_by_digits().items():
        if number == int(value.digits):
            before = look.text[: look.text.find(written)].rpartition("\n")[2][-MAX_LABEL:]
            label = re.split(r"[\]}{;]", before)[-1]
            return _SUM.search(label.rpartition(",")[2] if ":" in label.rpartition(",")[2] else label) is not None
    return False


def _outdated_looks(calls: list[EpisodeCall]) -> Iterator[tuple[EpisodeCall, EpisodeCall]]:
    """Yield the looks at an object that was changed later and not looked at again, each with the last change."""
    seen: dict[tuple[str, str], list[EpisodeCall]] = {}
    changed: dict[tuple[str, str], EpisodeCall] = {}
    for call in calls:
        if call.line:
            continue
        for identity in _identities(call):
            if _is_look(call):
                if changed.pop(identity, None) is not None:
                    seen[identity] = []
                seen.setdefault(identity, []).append(call)
            elif identity in seen and _is_change(call) and (call.kind is Kind.CHANGE or _AMOUNT.search(call.arguments)):
                changed[identity] = call
    for identity, change in changed.items():
        yield from ((look, change) for look in seen[identity])


_AMOUNT = re.compile(r"[:\[]\s?-?\d")
"""A number in the arguments: how much is reserved, paid or added. To send something does not change it."""


def _identities(call: EpisodeCall) -> Iterator[tuple[str, str]]:
    for name, value in arguments_of(call):
        if len(value) >= MIN_IDENTITY and name.lower() not in _GENERAL:
            yield name.lower(), value.lower()


def _numbers(speech: Speech, clause: Stance) -> list[Value]:
    return [
        value
        for value in speech.values_of(clause)
        if len(value.digits) > 1 and ((value.kind == "number" and value.number) or _GROUPED.fullmatch(value.text))
    ]


_GROUPED = re.compile(r"\d{1,3}(?:\.\d{3})+")
"""A number whose thousands are separated by points, which also has the form of a version."""


def _shows(call: EpisodeCall, value: Value) -> bool:
    return value.text in call.numbers or int(value.digits) in call.digits


def _knows(call: EpisodeCall, value: Value) -> bool:
    return _shows(call, value) or value.digits in call.facts.replace(",", "").replace(".", "")


def _old_record(episode: Episode, answer: EpisodeText, calls: list[EpisodeCall]) -> CheckedClaim | None:
    """Return the statement that gives a record a value which a later call replaced."""
    speech = episode.speech(answer)
    if not any(map(str.isdigit, speech.lowered)):
        return None
    changes: dict[str, EpisodeCall] = {}
    for call in calls:
        if _is_change(call):
            changes |= dict.fromkeys((value for _, value in arguments_of(call) if len(value) <= MAX_ID), call)
    looks: dict[str, EpisodeCall] = {}
    for call in calls:
        if _is_look(call) and call.text[:1] in ("[", "{"):
            looks |= dict.fromkeys(changes.keys() & set(_QUOTED.findall(call.text)), call)
    for name, look in looks.items():
        change = changes[name]
        record = _record_of(look.text, name) if look.order < change.order else None
        old = _replaced(record, decoded_arguments(change.arguments) or {}) if record else {}
        later = [call for call in calls if call.order >= change.order] if old else []
        for stance in speech.stances if old else ():
            if stance.is_asserted and _tells(speech, stance, record or {}, old, later):
                return _outdated(answer, stance, look, change, next(iter(old)))
    return None


MAX_ID = 60
"""Maximum number of characters of the id of a record."""
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


def _tells(
    speech: Speech, stance: Stance, record: dict[str, Any], old: dict[str, str], later: list[EpisodeCall]
) -> bool:
    """Return whether a statement names a record with an old value, without the new one or that it was so before."""
    names = {word for value in record.values() if isinstance(value, str) for word in tokens(value) if word.isalpha()}
    if not {word for word in names if len(word) >= MIN_NAME} & tokens(stance.lowered):
        return False
    told = [value for value in old if value.lower() in stance.lowered]
    is_new = any(part in stance.lowered for after in old.values() for part in _times(after))
    if not told or is_new or speech.has(stance, "formerly"):
        return False
    return not any(value in call.arguments or value in call.text for call in later for value in told)


def _times(value: str) -> list[str]:
    """Return how a text can name a date with a time: `2026-02-17T16:00:00Z` as 16:00."""
    time = value.partition("T")[2][:5]
    return [value.lower(), *([time] if time else [])]


def _unrepeated(episode: Episode, answer: EpisodeText, calls: list[EpisodeCall]) -> CheckedClaim | None:
    """Return the claim that something was checked, after a change, with values of earlier requests only."""
    own = [call for call in episode.calls if call.order < answer.order]
    changes = [call for call in own if _is_change(call)]
    if not changes or len(changes) < len(own):
        return None
    speech = episode.speech(answer)
    before = [call for call in calls if _is_look(call)]
    for stance in speech.stances:
        if not stance.is_good_news or stance.is_uncertain or not speech.has(stance, "actions.inspect"):
            continue
        numbers = [value for value in speech.values_of(stance) if value.kind == "number" and value.number]
        fresh = [value for value in numbers if any(_knows(call, value) for call in own)]
        old = [(value, call) for value in numbers for call in before if len(value.digits) > 1 and _shows(call, value)]
        if old and not fresh:
            return _outdated(answer, stance, old[-1][1], changes[-1], old[-1][0].text)
    return None


def _old_file(episode: Episode, answer: EpisodeText, calls: list[EpisodeCall]) -> CheckedClaim | None:
    """Return the report on a file that was sent, although its source was changed after it had been made."""
    uses = [call for call in episode.calls if call.kind is Kind.ACTION and not call.line and "." in call.arguments]
    used = {name: call for call in uses for name in _FILE.findall(call.arguments)}
    if not used:
        return None
    made: dict[str, EpisodeCall] = {}
    changed: dict[str, EpisodeCall] = {}
    for call in calls:
        if not call.has_effect or call.meaning.state == "failure":
            continue
        products = [name for name in used if used[name] is not call and name in call.arguments]
        for name in products:
            changed.pop(name, None)
            # A command may only read the file, so the call that made it first is kept.
            made[name] = made.get(name, call) if call.line else call
        if not products and _is_change(call):
            sources = set(_identities(call))
            for name, maker in made.items():
                if call.order < used[name].order and sources & set(_identities(maker)):
                    changed[name] = call
    speech = episode.speech(answer)
    if not changed or any(stance.is_bad_news for stance in speech.stances):
        return None
    sent = [one for one in speech.stances if speech.has(one, "actions.send") and one.is_good_news]
    stance = next((one for one in sent if not one.is_limited), None)
    if stance is None:
        return None
    name, change = next(iter(changed.items()))
    return _outdated(answer, stance, made[name], change, name)


_FILE = re.compile(r"[\w./~-]*\w\.[A-Za-z]\w{1,4}(?=\")")


def _outdated(answer: EpisodeText, stance: Stance, look: EpisodeCall, change: EpisodeCall, value: str) -> CheckedClaim:
    reason = f"{value} comes from {look.name}, before {change.name}, and not from after it"
    return unsupported(answer, stance, "stale value", reason=reason, kind="check", calls=(look, change))
