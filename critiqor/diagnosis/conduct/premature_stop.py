"""The agent stops although work is left: it only announces it, asks for leave that it has, or leaves items out."""

# ruff: noqa: RUF001 - punctuation of several languages
from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from critiqor.diagnosis.claims.destinations.item_lists import (
    BULK,
    Items,
    is_named_by,
    requested_items,
    shown_items,
    stem_of,
)
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.language import Language, normalize
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import values_in, word_numbers
from critiqor.diagnosis.conduct.lapse import Lapse
from critiqor.diagnosis.conduct.wording import asks, content_stems, requests, says, says_somehow, wording_language
from critiqor.diagnosis.hazards.words import words
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

MIN_LEFT_OUT = 1 / 3
"""Minimum share of items that are left out: a single one of many may have been dealt with in another way."""
MAX_LISTS = 8
"""Maximum number of lists of items that are compared with the calls."""
MIN_QUESTIONS = 2
MAX_QUESTIONS = 12
"""Minimum and maximum number of questions of a request that are looked up in the answer one by one."""
_FOLDER = re.compile(r"(?<![\w.~-])[\w.~-]*/[\w./~-]*")
_NUMBERED = re.compile(r"(?:^|[\s(:])\(?(\d{1,2}|[a-h])[.):]\)?\s+(?=\S)")
_QUESTION = re.compile(r"[^.!?？؟。\n]{6,}+[?？؟]")
_ENUMERATED = re.compile(r"[,;，、；]|\s[–—-]\s")
TYPE = "premature_stop"
MAX_URGING = 6
"""Maximum number of words of a message with which a user only urges the agent to go on."""
LAST_STATEMENTS = 3
"""Number of statements at the end of an answer in which work is announced or leave is asked for."""
MIN_CONTENT = 4
"""Minimum number of words behind a colon that are what was announced."""
MAX_HEAD = 12
"""Number of characters at the beginning of a statement in which it turns to the next part."""
MAX_CLOSING = 4
"""Maximum number of words of a statement that only closes a message: thank you."""
MIN_PLANS = 3
"""Minimum number of answers in a row that are only plans."""
MIN_PLANNED = 3
"""Minimum number of words of the request in a plan for what is left of it: fewer may be advice to the user."""
MIN_SHARED = 2
"""Minimum number of words that announced work has in common with the request, if something runs in the background."""
_WITHOUT_SUBJECT = frozenset(("ja", "ko", "zh", "es", "it", "pt", "pl", "tr"))
"""Languages in which a sentence often has no word for its subject."""
_LOOKING = (Kind.LOOKUP, Kind.WAIT, Kind.COMMAND)
_DELEGATING = re.compile(
    r"cron|automation|schedul|remind|alarm|timer|spawn|subagent|yield|delegate|heartbeat|webhook", re.I
)
_SCHEDULES = re.compile(r"\bcrontab\b|\bat (?:now|\d|-f)|\bsystemd-run\b|\bschtasks\b|\blaunchctl\b|\bbatch\b", re.I)
_REMINDER_FILE = re.compile(r"HEARTBEAT\.md|reminders?\.\w+|todo\.\w+|TODO\.\w+", re.IGNORECASE)
_BACKGROUND = re.compile(r"still running \(session |\"background\":true|running in (?:the )?background", re.IGNORECASE)
_SHELL_BACKGROUND = re.compile(
    r"\bnohup\b|\bsetsid\b|[^&]&\s*(?:$|echo|disown)|\btmux new\b|\bscreen -d", re.IGNORECASE
)
_CLAUSE = re.compile(r"[,;:()—–，、；：（）]")
_CONSEQUENCE = re.compile(
    r"^(?!i\b|i'|ich\b|je\b|ik\b|я\b).*?\b(?:and|und|y|e|et|en|и|ve|then|dann)\s(?:i'll|i\b|ich|je|ik|я)"
)
_MARKUP = re.compile(r"[*_`#>]+")


def find_premature_stop(episode: Episode) -> list[Lapse]:
    """Return why an agent stopped too early, at most one reason."""
    answer = episode.answer
    if not episode.requests or not (episode.is_over or episode.following is not None):
        return []
    if answer is None or (episode.calls and episode.calls[-1].order > answer.order):
        return _unanswered(episode)
    # Only the end of the agent run shows that nothing follows; a question is over as soon as the user replies. One that
    # the user answers with more than a yes had to be asked.
    is_answered = episode.following is not None and not _only_urges(episode.following)
    asking = () if is_answered else (_stopped_midway, _leave_that_was_granted)
    later = (_only_plans, _announced, _leftovers) if episode.is_over else ()
    for check in (*asking, *later):
        found = check(episode, answer)
        if found is not None:
            return [found]
    return []


def _unanswered(episode: Episode) -> list[Lapse]:
    """Return that the agent run ended with a look at something, and the user got no answer."""
    talks = episode.messages or any(each.messages for each in episode.earlier)
    if not talks or not episode.is_over or episode.following is not None:
        return []
    last = episode.calls[-1] if episode.calls else None
    if last is None or not last.text.strip() or last.kind not in _LOOKING or any(map(_delegates, episode.calls)):
        return []
    request = episode.requests[-1]
    title = f"The agent run ended after {last.name}, without an answer"
    return [
        Lapse(
            type=TYPE,
            about=("no text",),
            confidence=70,
            title=title,
            explanation=f"No message follows its result: “{excerpt(last.text, 140)}”",
            recommendation="Instruct the agent to go on until the request is fulfilled, and to end with what it did.",
            verification="Run the same task again: the agent run ends with an answer.",
            causes=[(request.event_id, f"The user asked: {excerpt(request.text, 80)}")],
            event_id=last.result_id,
            happened=title,
            calls=[last],
        )
    ]


def _leave_that_was_granted(episode: Episode, answer: EpisodeText) -> Lapse | None:
    """Return that the agent asks whether to do what it was asked to do without asking."""
    if not asks(episode, "granted"):
        return None
    speech = episode.speech(answer)
    asking = _questions_for_leave(episode, speech)
    acting = [call for call in episode.calls if call.has_effect]
    if acting:
        # Work beyond the request may be offered; what it names, and nothing was done about, was to be done.
        done = [f"{call.tool} {call.arguments} {call.text}" for call in acting]
        done += [one.lowered for one in speech.stances if not (one.is_question or one.is_plan or one.is_bad_news)]
        wanted = content_stems(requests(episode)) - content_stems("\n".join(done))
        asking = [one for one in asking if content_stems(one.lowered) & wanted]
    if any(_is_reason(episode, stance, asking) for stance in speech.stances):
        return None
    if not asking:
        return None
    return _stop(
        episode,
        answer,
        "permission",
        f"The agent asked for leave that it had been given, and did {'only a part' if acting else 'nothing'}",
        f"The agent's last message: “{excerpt(asking[0].statement.text, 160)}”",
    )


def _is_reason(episode: Episode, stance: Stance, asking: list[Stance]) -> bool:
    """Return whether bad news is a reason to ask for leave again: not what the action entails, which was known."""
    if not stance.is_bad_news or stance.is_question:
        return stance.is_bad_news
    said, known = content_stems(stance.lowered), content_stems(requests(episode))
    seen = content_stems("\n".join(call.text for call in episode.calls)) - known
    entailed = known & content_stems(" ".join(one.lowered for one in asking))
    return not said & entailed or len(said & seen) >= MIN_SHARED


def _questions_for_leave(episode: Episode, speech: Speech) -> list[Stance]:
    """Return the statements at the end of an answer that ask the user whether to do something."""
    last = speech.stances[-LAST_STATEMENTS:]
    known = (speech.language, wording_language(episode))  # a short question may look like another language
    return [one for one in last if any(says_somehow(each, "asks_leave", one.lowered) for each in known)]


def _stopped_midway(episode: Episode, answer: EpisodeText) -> Lapse | None:
    """Return that the agent did a part, says so, and asks whether to go on, although all was wanted at once."""
    if not episode.calls or not words("proceed").may_be_within(answer.text):
        return None
    language = wording_language(episode)
    wants_all = language is not None and language.vocabulary.mentions("totality", requests(episode).lower())
    if not (asks(episode, "granted") or (wants_all and not asks(episode, "plan_wanted"))):
        return None
    speech = episode.speech(answer)
    asking = [one for one in _questions_for_leave(episode, speech) if words("proceed").within(one.statement.text)]
    if not asking or any(one.is_bad_news for one in speech.stances if one not in asking):
        return None
    # Work beyond the request may be offered: only what is left of it was to be done without a question.
    if not any(words("remaining").within(one.statement.text) for one in speech.stances):
        return None
    return _stop(
        episode,
        answer,
        "midway",
        "The agent did a part of what was wanted, and stopped to ask whether to go on",
        f"The agent's last message: “{excerpt(asking[0].statement.text, 160)}”",
    )


def _announced(episode: Episode, answer: EpisodeText) -> Lapse | None:
    """Return that the agent announces work, and nothing follows."""
    following = episode.following
    if following is not None and not _only_urges(following):
        return None
    if asks(episode, "plan_wanted") or asks(episode, "standing"):
        return None
    speech = episode.speech(answer)
    last = speech.stances[-LAST_STATEMENTS:]
    if any(stance.is_question for stance in last) or any(_waits(speech, stance) for stance in last):
        return None
    is_hindered = any(stance.is_bad_news for stance in speech.stances)
    for stance in reversed(last):
        if is_hindered and _CONSEQUENCE.search(stance.lowered):
            return None  # "Log in again and I'll send it."
        is_plan = _announces(speech, stance) or _plans_the_rest(episode, speech, stance, last)
        if not (is_plan or _goes_on(episode, speech, stance)):
            if len(stance.lowered.split()) > MAX_CLOSING:
                return None  # what follows an announcement is what was announced
            continue
        if _is_undone(episode, stance):
            return _stop(
                episode,
                answer,
                "announced",
                "The agent announced more work, then the agent run ended",
                f"The agent's last message: “{excerpt(stance.statement.text, 160)}”",
            )
    return None


def _plans_the_rest(episode: Episode, speech: Speech, stance: Stance, last: list[Stance]) -> bool:
    """Return whether a statement plans what the request asks for and no call has dealt with, and nothing is in the way.

    How a language announces something hardly matters then.
    """
    if not stance.is_plan or any(one.is_bad_news for one in last if one is not stance):
        return False
    plan = " ".join(one.lowered for one in speech.clauses(stance) if one.is_plan)
    planned = content_stems(plan) & content_stems(requests(episode))
    if len(planned) < MIN_PLANNED:
        return False
    done = content_stems("\n".join(call.arguments for call in episode.calls if call.has_effect))
    return len(planned - done) >= MIN_PLANNED


def _goes_on(episode: Episode, speech: Speech, stance: Stance) -> bool:
    """Return whether a statement turns to a part of the request that no call has dealt with, in a language that need
    not say who does it: 続いて資料を移動します.
    """
    language = speech.language
    if language is None or language.code not in _WITHOUT_SUBJECT or stance.statement.cells:
        return False
    text = stance.lowered
    if (
        not says(language, "soon", text[:MAX_HEAD])
        or says(language, "perfect", text)
        or says(language, "policies", text)
    ):
        return False
    done = content_stems("\n".join(f"{call.arguments} {call.text}" for call in episode.calls))
    return len(content_stems(text) & content_stems(requests(episode)) - done) >= MIN_SHARED


def _waits(speech: Speech, stance: Stance) -> bool:
    """Return whether a statement asks the user for something or names a condition, so that the agent has to wait."""
    if says(speech.language, "patience", stance.lowered):
        return False  # "Please wait" asks for nothing
    if says(speech.language, "conditions", stance.lowered):
        return True
    if speech.language is None or not says(speech.language, "asks_leave", stance.lowered):
        return False
    # Where the verb comes second, an announcement can contain a question: "Nu ska jag" is not "Ska jag".
    text = normalize(stance.lowered)
    announced = speech.language.conduct.find("announces", text)
    asked = speech.language.conduct.find("asks_leave", text)
    return not all(any(one.start < hit.start and hit.end <= one.end for one in announced) for hit in asked)


def _announces(speech: Speech, stance: Stance) -> bool:
    """Return whether a statement says that the agent does something now or soon, by itself."""
    language = speech.language
    if language is None or stance.statement.cells:
        return False
    text = _MARKUP.sub("", stance.lowered)
    if says(language, "standing", text):
        return False
    if says(language, "patience", text):
        return True
    head, colon, rest = text.partition(":")
    if colon and len(rest.split()) >= MIN_CONTENT and not says(language, "soon", head) and "now" not in head.split():
        return False  # "Let me summarize: …" is followed by the summary
    return any(_is_announcement(language, clause) for clause in _CLAUSE.split(text))


def _is_announcement(language: Language, clause: str) -> bool:
    if says(language, "policies", clause):
        return False
    if says(language, "announces", clause) or says(language, "returns", clause):
        return True
    is_own = says(language, "self", clause) and says(language, "soon", clause)
    return is_own and not says(language, "perfect", clause)


def _is_undone(episode: Episode, stance: Stance) -> bool:
    """Return whether nothing was set up that does the announced work later."""
    if any(_delegates(call) for call in episode.calls):
        return False
    if any(_BACKGROUND.search(call.text) or _BACKGROUND.search(call.arguments) for call in episode.calls):
        return False
    if not any(_SHELL_BACKGROUND.search(call.line) for call in episode.calls):
        return True
    # A command goes on by itself. What else was asked for is not done by it.
    return len(content_stems(stance.lowered) & content_stems(requests(episode))) >= MIN_SHARED


def _delegates(call: EpisodeCall) -> bool:
    """Return whether a call schedules work, hands it to another agent, or notes it where the agent looks again."""
    if call.meaning.state == "failure":
        return False
    if _DELEGATING.search(call.tool) or (call.line and _SCHEDULES.search(call.line)):
        return True
    return call.kind is not Kind.LOOKUP and _REMINDER_FILE.search(call.arguments) is not None


def _only_plans(episode: Episode, answer: EpisodeText) -> Lapse | None:
    """Return that the agent answers request after request with plans, and never begins."""
    episodes = [episode, *episode.earlier]
    if episode.following is not None or any(asks(each, "plan_wanted") for each in episodes[-1:]):
        return None
    planned = 0
    for each in episodes:
        last = each.answer
        if last is None or each.calls or not _is_only_plan(each, last):
            break
        planned += 1
    if planned < MIN_PLANS:
        return None
    first = episodes[planned - 1]
    last_words = first.answer or answer
    return _stop(
        first,
        last_words,
        "planned",
        f"The agent answered {planned} requests in a row with plans, and did nothing",
        f"Its last message: “{excerpt(answer.text, 160)}”",
    )


def _is_only_plan(episode: Episode, answer: EpisodeText) -> bool:
    """Return whether an answer only says what the agent is going to do."""
    speech = episode.speech(answer)
    if speech.language is None:
        return False
    lowered = normalize(answer.text)
    plans = any(stance.is_plan for stance in speech.stances) or says(speech.language, "plan_wanted", lowered)
    return plans and not any(stance.is_question for stance in speech.stances[-1:])


def _only_urges(episode: Episode) -> bool:
    """Return whether the request of an episode only urges the agent to go on with the one before."""
    return len(episode.request.split()) <= MAX_URGING


def _stop(episode: Episode, answer: EpisodeText, how: str, title: str, explanation: str) -> Lapse:
    """Return that the agent stopped too early with an answer."""
    request = episode.requests[-1] if episode.requests else None
    return Lapse(
        type=TYPE,
        about=(how,),
        confidence=70,
        title=title,
        explanation=explanation,
        recommendation="Instruct the agent to go on until the request is fulfilled, and to end with what it did.",
        verification="Run the same task again: the last message reports results and announces no more work.",
        causes=[(request.event_id, f"The user asked: {excerpt(request.text, 80)}")] if request is not None else [],
        event_id=answer.event_id,
        happened=title,
    )


def _leftovers(episode: Episode, answer: EpisodeText) -> Lapse | None:
    """Return the items or questions that an agent left out without a word."""
    if episode.following is not None and not _only_urges(episode.following):
        return None
    return _items_left_out(episode, answer) or _questions_left_out(episode, answer)


def _items_left_out(episode: Episode, answer: EpisodeText) -> Lapse | None:
    speech = episode.speech(answer)
    stated = [stance for stance in speech.stances if not stance.is_question]
    asks_to_go_on = _asks_to_go_on(episode, speech)
    # A plan for the rest tells of no obstacle, whatever the files in it are called.
    if any(stance.is_bad_news and not stance.is_plan for stance in stated):
        return None
    if any(stance.is_limited for stance in stated) and not asks_to_go_on:
        return None
    for items in islice(_lists(episode), MAX_LISTS):
        missing = _missing(episode, items)
        if len(missing) < MIN_LEFT_OUT * len(items.names):
            continue
        naming = [one for one in stated if any(stem_of(name) in one.lowered for name in missing)]
        is_planned = all(one.is_plan for one in naming) and bool(_unseen(episode, items, missing))
        if naming and not (is_planned or asks_to_go_on):
            continue
        names = ", ".join(excerpt(name, 40) for name in missing[:3]) + (" …" if len(missing) > 3 else "")
        done = len(items.names) - len(missing)
        title = f"The agent dealt with {done} of {counted(len(items.names), 'item')}, and stopped"
        silence = "only announces them" if naming else "is silent about it"
        silence = "only asks whether to go on" if asks_to_go_on else silence
        why = f"No recorded call deals with {names}, and the answer {silence}."
        lapse = _stop(episode, answer, "items", title, why)
        lapse.calls += [items.call] if items.call is not None else []
        return lapse
    return None


def _unseen(episode: Episode, items: Items, missing: list[str]) -> list[str]:
    """Return the items of which nothing was seen after they were listed: what an answer says of them is a plan."""
    later = [call for call in episode.calls if call.order > items.order]
    seen = "\n".join(call.lowered for call in later)
    return [name for name in missing if name.lower() not in seen and not any(is_named_by(call, name) for call in later)]


def _asks_to_go_on(episode: Episode, speech: Speech) -> bool:
    """Return whether the agent stopped in the middle to ask for leave, although everything was wanted."""
    language = wording_language(episode)
    wants_all = language is not None and language.vocabulary.mentions("totality", requests(episode).lower())
    asks = any(says(speech.language, "asks_leave", stance.lowered) for stance in speech.stances)
    return asks and wants_all


def _lists(episode: Episode) -> Iterator[Items]:
    """Yield the lists of items that the user wants to have dealt with: by name, by their number, or all in a folder."""
    yield from requested_items(episode)
    request = requests(episode)
    language = wording_language(episode)
    values = [*values_in(request, language), *word_numbers(request, language)]
    counts = {value.number for value in values if value.readings}
    wants_all = language is not None and language.vocabulary.mentions("totality", request.lower())
    folders = {folder.strip("./") for folder in _FOLDER.findall(request)} - {""} if wants_all else set()
    for items in shown_items(episode) if counts or folders else ():
        listed_by = items.call.arguments if items.call is not None else ""
        if len(items.names) in counts or any(folder in listed_by for folder in folders):
            yield items


def _missing(episode: Episode, items: Items) -> list[str]:
    """Return the items that no call deals with although calls of the same kind deal with others; empty if unknown."""
    later = [call for call in episode.calls if call.order > items.order and call.kind is not Kind.THOUGHT]
    if any(BULK.search(call.line) for call in later):
        return []
    acting = [call for call in later if call.has_effect]
    for calls in (acting, later):
        missing = [name for name in items.names if not any(is_named_by(call, name) for call in calls)]
        if len(missing) < len(items.names):
            return missing
    return []


def _questions_left_out(episode: Episode, answer: EpisodeText) -> Lapse | None:
    """Return questions of which the answer does not contain a word, if it is too short to answer all of them."""
    questions = _questions(requests(episode))
    speech = episode.speech(answer)
    if not MIN_QUESTIONS <= len(questions) <= MAX_QUESTIONS or len(speech.stances) >= len(questions):
        return None
    if any(stance.is_bad_news or stance.is_question or stance.is_plan for stance in speech.stances):
        return None
    said = content_stems(answer.text)
    own = [content_stems(question) for question in questions]
    common = set.intersection(*own) if own else set()
    open_ones = [question for question, words in zip(questions, own, strict=True) if not (words - common) & said]
    parts = len(_ENUMERATED.findall(answer.text)) + len(speech.stances)
    if not open_ones or len(open_ones) == len(questions) or parts >= len(questions):
        return None
    title = (
        f"The agent answered {len(questions) - len(open_ones)} of {counted(len(questions), 'question')}, and stopped"
    )
    return _stop(episode, answer, "questions", title, f"Not answered: “{excerpt(open_ones[0], 120)}”")


def _questions(request: str) -> list[str]:
    """Return the questions of a request: numbered parts, or sentences with a question mark."""
    marks = list(_NUMBERED.finditer(request))
    if len(marks) >= MIN_QUESTIONS and "?" in request:
        ends = [*(mark.start() for mark in marks[1:]), len(request)]
        return [request[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)]
    return [match[0].strip() for match in _QUESTION.finditer(request)]
