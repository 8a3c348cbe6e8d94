"""An action reached somebody or something else than the request or the answer names."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

import msgspec

from critiqor.diagnosis.claims.call_arguments import arguments_of
from critiqor.diagnosis.claims.checked import CheckedClaim, Problem, claim_on
from critiqor.diagnosis.claims.destinations.record_lists import Mismatch, Record, lists_in
from critiqor.diagnosis.claims.destinations.replaced_values import ENVIRONMENTS, replaced_values
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.recorded.moments import weekdays_in, weekdays_of_dates
from critiqor.diagnosis.claims.speech import Stance
from critiqor.model.sanitize import excerpt, quotation
from critiqor.spans.calls import Kind

TYPE = "wrong_target"
MIN_VALUE = 2
"""Minimum number of characters of an argument that can identify a record."""
MIN_RECORDS = 2
MAX_WORDS_BETWEEN = 4
"""Maximum number of words between a negation and the name that it denies: it is not yet live in production."""
_WORDS = re.compile(r"[\w'-]+")
_WORD = re.compile(r"[^\W_]{3,}")


class _Mixup(NamedTuple):
    """A call that used one record, and the other record that was meant."""

    call: EpisodeCall
    used: Record
    meant: Record
    stance: Stance | None


def check_recipients(episode: Episode) -> list[CheckedClaim]:
    """Return the claims about a target that the calls did not reach."""
    answer = episode.answer
    if answer is None:
        return []
    mixup = _mixup(episode, answer)
    if mixup is not None:
        return [_mixed_up(answer, mixup)]
    for mismatch in replaced_values(episode):
        stance = _claim(episode, answer, mismatch)
        if stance is not None:
            return [_mismatched(answer, stance, mismatch)]
    return []


def _mixup(episode: Episode, answer: EpisodeText) -> _Mixup | None:
    acted = [call for call in episode.calls if _reaches(call)]
    # That a list of payments names somebody does not show that the payment reached them.
    by_tool: dict[str, set[str]] = {}
    by_argument: dict[tuple[str, str], set[str]] = {}
    for call in acted:
        for key, text in arguments_of(call):
            by_tool.setdefault(call.tool, set()).add(text.lower())
            by_argument.setdefault((call.tool, key), set()).add(text.lower())
    said: set[str] = set()
    for call in acted:
        reached = by_tool.get(call.tool, set())
        for key, text in arguments_of(call):
            value = text.lower()
            if len(value) < MIN_VALUE:
                continue
            said = said or _words(answer.text) | _wanted_words(episode)
            for records in _earlier_lists(episode, call, value):
                holding = [record for record in records if record.holds(value)]
                # A transfer has two accounts of one list, but one that gets the money.
                if len(holding) != 1 or _are_several(by_argument[call.tool, key], records):
                    continue
                used = holding[0]
                if (found_day := _on_other_weekday(episode, answer, used, records)) is not None:
                    return _Mixup(call, used, *found_day)
                names = Counter(name.lower() for record in records for name in set(record.names))
                for other in records:
                    if other is used or any(each.lower() in reached for each in other.values if _is_key(each, used)):
                        continue
                    # What several records have, such as a state, names none of them.
                    own = [name for name in other.names if names[name.lower()] == 1 or len(records) == MIN_RECORDS]
                    found = _is_meant(episode, answer, used, msgspec.structs.replace(other, names=tuple(own)), said)
                    if found is not None:
                        return _Mixup(call, used, other, found if isinstance(found, Stance) else None)
    return None


def _on_other_weekday(
    episode: Episode, answer: EpisodeText, used: Record, records: list[Record]
) -> tuple[Record, Stance] | None:
    """Return the record of the weekday that the request names, if the used one has another, and the claim about it."""
    own = weekdays_of_dates(" ".join(used.values))
    speech = episode.speech(answer)
    # The language of a short request may not be recognized; the answer has the same one.
    languages = (episode.request_language, speech.language) if own else ()
    wanted = next((days for each in languages if (days := weekdays_in(episode.request, each))), set())
    if not wanted or own & wanted:
        return None
    meant = [each for each in records if weekdays_of_dates(" ".join(each.values)) & wanted]
    if len(meant) != 1:
        return None
    named = [one for one in speech.stances if weekdays_in(one.statement.text, speech.language) & wanted]
    said = [one for one in named if one.is_asserted and not one.is_uncertain and not speech.has(one, "negations")]
    return (meant[0], said[0]) if said else None


def _wanted_words(episode: Episode) -> set[str]:
    """Return the words of the request, without those that it excludes: from Reserve, not Operating."""
    words = _words(episode.request)
    for match in _EXCLUDED.finditer(episode.request):
        words -= {match[1].lower()}
    return words


_EXCLUDED = re.compile(
    r"\b(?:not|nicht|kein\w*|no|pas|non|não|niet|geen|nie|не|inte|instead of|statt|rather than|anstatt)"
    r" (?:the |from |to |on |den |die |das |vom |le |la |el |il |o |de |het )*([^\W\d_]{3,})",
    re.IGNORECASE,
)


def _reaches(call: EpisodeCall) -> bool:
    """Return whether a call does something to one of several things: sends, pays, books, changes an entry."""
    if call.line or call.kind not in (Kind.ACTION, Kind.OTHER, Kind.CHANGE):
        return False
    return (call.kind is not Kind.CHANGE or '"path"' not in call.arguments) and call.meaning.state != "failure"


def _are_several(values: set[str], records: list[Record]) -> bool:
    """Return whether several records of a list were used, each by a value of its own: then none stands for another."""
    return len({number for value in values for number in _holders(records, value)}) > 1


def _holders(records: list[Record], value: str) -> list[int]:
    found = [number for number, record in enumerate(records) if record.holds(value)]
    return found if len(found) == 1 else []


def _earlier_lists(episode: Episode, call: EpisodeCall, value: str) -> list[list[Record]]:
    """Return the lists of earlier outputs in which a value in lower case may be."""
    earlier = [each for one in episode.earlier for each in one.calls]
    before = [each for each in (*earlier, *episode.calls) if each.order < call.order and each.text]
    may_hold = [each for each in before if value in each.lowered or "\\" in each.text]
    return [records for each in reversed(may_hold) for records in lists_in(each.text)]


def _is_key(value: str, used: Record) -> bool:
    return len(value) >= MIN_VALUE and not used.holds(value.lower())


def _is_meant(
    episode: Episode, answer: EpisodeText, used: Record, other: Record, said: set[str]
) -> Stance | bool | None:
    """Return the statement that names the other record, or True if only the request does; None if neither does."""
    own = {word for word in _spelled(used) - _spelled(other) if not word.isdigit()}
    if own & said:
        return None
    different = _spelled(other) - _spelled(used)
    speech = episode.speech(answer)
    parts = [part for stance in speech.stances for part in (stance, *speech.clauses(stance))]
    for part in parts:
        if _is_told(episode, part) and _names(_words(part.statement.text), other, different):
            return part
    asked = any(_names(_words(line), other, different) for line in re.split(r"[.!?\n]", episode.request))
    return True if asked and any(part.is_good_news for part in parts) else None


def _names(words: set[str], record: Record, different: set[str]) -> bool:
    """Return whether words name a record: all of one of its names, or several that the used record lacks."""
    for name in record.names:
        parts = _words(name) - _LEGAL_FORMS
        own = {part for part in parts & words & different if not part.isdigit()}
        if own and (parts <= words or len(own) >= MIN_OWN_WORDS):
            return True
    return False


MIN_OWN_WORDS = 2
"""Minimum number of words of a name that stand for all of it: the notary's office, of several words and a name."""


_LEGAL_FORMS = frozenset(
    (
        "ltd",
        "limited",
        "gmbh",
        "inc",
        "llc",
        "llp",
        "corp",
        "plc",
        "sarl",
        "sas",
        "srl",
        "spa",
        "ltda",
        "bhd",
        "pty",
        "oyj",
    )
)
"""Words of the names of companies that people leave out."""


def _spelled(record: Record) -> set[str]:
    return _words(" ".join(record.values))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _claim(episode: Episode, answer: EpisodeText, mismatch: Mismatch) -> Stance | None:
    """Return the statement that reports the wanted value as reached; None if the answer tells the other one."""
    speech = episode.speech(answer)
    lowered = answer.text.lower()
    if mismatch.kind == "environment":
        used = [one for one in speech.stances if ENVIRONMENTS[mismatch.used].search(one.lowered)]
        # That the forbidden one was left alone is what the user wants to hear.
        if any(one.is_bad_news or mismatch.used not in mismatch.used_forms for one in used):
            return None
        wanted = ENVIRONMENTS[mismatch.wanted]
        said = [(one, found) for one in speech.stances if (found := wanted.search(one.lowered))]
        named = [one for one, found in said if _is_told(episode, one, found.start())]
        return named[0] if named else None
    if any(_mention(lowered, form) for form in mismatch.used_forms):
        return None
    good = [one for one in speech.stances if one.is_good_news]
    said = [(one, found) for one in speech.stances if (found := _mention(one.lowered, mismatch.wanted.lower()))]
    named = [one for one, found in said if _is_told(episode, one, found.start())]
    if named or mismatch.kind not in ("address", "channel", "branch", "name", "host"):
        return named[0] if named else None
    # Without a claim about the target, a value that was looked up may have a reason: what was asked for is not there.
    earlier = [call.lowered for call in episode.calls if call.order < mismatch.call.order]
    looked_up = any(mismatch.used in shown and mismatch.wanted.lower() not in shown for shown in earlier)
    return good[0] if good and not looked_up else None


def _is_told(episode: Episode, stance: Stance, place: int | None = None) -> bool:
    """Return whether a statement tells that something was reached; a name at `place` must not be denied.

    A sentence can hold bad news about something else: it is live in production, without restarts.
    """
    if stance.is_good_news:
        return True
    if stance.is_question or stance.is_attributed or stance.is_plan or place is None:
        return False
    before = " ".join(_WORDS.findall(stance.lowered[:place])[-MAX_WORDS_BETWEEN:])
    head = EpisodeText(order=0, event_id="", text=before)
    return not any(one.is_bad_news for one in episode.speech(head).stances)


def _mention(text: str, form: str) -> re.Match[str] | None:
    return re.search(rf"(?<![\w.]){re.escape(form)}(?![\w]|[.,]\d)", text)


def _mixed_up(answer: EpisodeText, mixup: _Mixup) -> CheckedClaim:
    used, meant = excerpt(mixup.used.title_beside(mixup.meant), 40), excerpt(mixup.meant.title_beside(mixup.used), 40)
    return _checked(answer, mixup.stance, mixup.call, "record", f"the entry of {used}", f"{meant}")


def _mismatched(answer: EpisodeText, stance: Stance, mismatch: Mismatch) -> CheckedClaim:
    used, wanted = excerpt(mismatch.used, 40), excerpt(mismatch.wanted, 40)
    return _checked(answer, stance, mismatch.call, mismatch.kind, f"the {mismatch.kind} {used}", wanted)


def _checked(
    answer: EpisodeText, stance: Stance | None, call: EpisodeCall, kind: str, used: str, wanted: str
) -> CheckedClaim:
    start, end = claim_on(answer, stance)
    said = quotation(answer.text[start:end], 100)
    return CheckedClaim(
        text=answer,
        start=start,
        end=end,
        kind="action",
        status="contradicted",
        reason=f"{call.name} used {used}, not {wanted}",
        calls=[call],
        problem=Problem(
            type=TYPE,
            about=(kind, call.tool),
            severity="high",
            confidence=75,
            title=f"{call.name} used {used} instead of {wanted}",
            explanation=f"{wanted} was meant, but the call used {used}. The answer says {said}.",
            recommendation=f"Have the agent compare the target of {call.name} with what was asked before it acts.",
        ),
    )
