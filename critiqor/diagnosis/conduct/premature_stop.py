"""The agent stops although work is left: it only announces it, asks for leave that it has, or leaves items out."""

# ruff: noqa: RUF001 - punctuation of several languages
from __future__ import annotations

import re

from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.language import Language, normalize
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.conduct.lapse import Lapse
from critiqor.diagnosis.conduct.leftovers import find_leftovers
from critiqor.diagnosis.conduct.stops import only_urges, stop
from critiqor.diagnosis.conduct.wording import asks, content_stems, request_language, requests, says, says_somehow
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

LAST_STATEMENTS = 3
"""Number of statements at the end of an answer in which work is announced or leave is asked for."""
MIN_CONTENT = 4
"""Minimum number of words behind a colon that are what was announced."""
MAX_CLOSING = 4
"""Maximum number of words of a statement that only closes a message: thank you."""
MIN_PLANS = 3
"""Minimum number of answers in a row that are only plans."""
MIN_SHARED = 2
"""Minimum number of words that announced work has in common with the request, if something runs in the background."""
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
    if answer is None or not episode.is_over or not episode.requests:
        return []
    if episode.calls and episode.calls[-1].order > answer.order:
        return []
    for check in (_leave_that_was_granted, _only_plans, _announced, find_leftovers):
        found = check(episode, answer)
        if found is not None:
            return [found]
    return []


def _leave_that_was_granted(episode: Episode, answer: EpisodeText) -> Lapse | None:
    """Return that the agent asks whether to do what it was asked to do without asking."""
    if not asks(episode, "granted") or any(call.has_effect for call in episode.calls):
        return None
    speech = episode.speech(answer)
    if any(stance.is_bad_news for stance in speech.stances):
        return None  # it found a reason to ask
    last = speech.stances[-LAST_STATEMENTS:]
    known = (speech.language, request_language(episode))  # a short question may look like another language
    asking = [one for one in last if any(says_somehow(each, "asks_leave", one.lowered) for each in known)]
    if not asking:
        return None
    return stop(
        episode,
        answer,
        "permission",
        "The agent asked for leave that the request had already given, and did nothing",
        f"The agent's last message: “{excerpt(asking[0].statement.text, 160)}”",
    )


def _announced(episode: Episode, answer: EpisodeText) -> Lapse | None:
    """Return that the agent announces work, and nothing follows."""
    following = episode.following
    if following is not None and not only_urges(following):
        return None
    if asks(episode, "plan_wanted") or asks(episode, "standing"):
        return None
    speech = episode.speech(answer)
    last = speech.stances[-LAST_STATEMENTS:]
    if any(stance.is_question for stance in last) or any(_waits(speech, stance) for stance in last):
        return None
    is_hindered = any(stance.is_bad_news for stance in last)
    for stance in reversed(last):
        if is_hindered and _CONSEQUENCE.search(stance.lowered):
            return None  # "Log in again and I'll send it."
        if not _announces(speech, stance):
            if len(stance.lowered.split()) > MAX_CLOSING:
                return None  # what follows an announcement is what was announced
            continue
        if _is_undone(episode, stance):
            return stop(
                episode,
                answer,
                "announced",
                "The agent announced more work, then the agent run ended",
                f"The agent's last message: “{excerpt(stance.statement.text, 160)}”",
            )
    return None


def _waits(speech: Speech, stance: Stance) -> bool:
    """Return whether a statement asks the user for something or names a condition, so that the agent has to wait."""
    if says(speech.language, "patience", stance.lowered):
        return False  # "Please wait" asks for nothing
    return any(says(speech.language, name, stance.lowered) for name in ("asks_leave", "conditions"))


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
    told = first.answer or answer
    return stop(
        first,
        told,
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
