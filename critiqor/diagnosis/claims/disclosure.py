"""Whether an agent admits a failure: in words that state bad news about it, or by quoting it."""

from __future__ import annotations

import re
from itertools import pairwise

from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText, stems, tokens
from critiqor.diagnosis.claims.language import small_words

COMMON = frozenset(
    (
        *("error", "errors", "failed", "fail", "failure", "false", "true", "null", "none"),
        *("exit", "code", "exited", "command", "with", "status", "http", "message", "reason"),
        *("the", "and", "for", "not", "was", "were", "file", "line", "from"),
        *("this", "that", "being", "been", "has", "have", "had", "due", "set"),
        *("its", "into", "when", "then", "than", "about", "after", "because", "could"),
        *("would", "should"),
    )
)
"""Words of error messages that say nothing about what went wrong."""


MAX_ANSWER = 240
"""Maximum number of characters of a JSON answer that says nothing but how the call ended."""


def failure_words(call: EpisodeCall) -> set[str]:
    """Return the words of the line that says that a call failed, without those of its arguments."""
    quoted = call.meaning.quote
    is_json = call.text.lstrip().startswith(("{", "["))
    if (not quoted and not is_json) or (is_json and len(call.text) <= MAX_ANSWER):
        quoted = f"{quoted} {call.text[-600:]}"  # a short answer says the reason in another member
    return {word for word in tokens(quoted) if len(word) >= 3} - COMMON - small_words() - call.words


def is_disclosed(episode: Episode, call: EpisodeCall, text: EpisodeText) -> bool:
    """Return whether a text admits that a call failed or did not finish.

    Bad news about something else does not count: the statement with the bad news must be at least as much about the
    call as the one with the best news.
    """
    named = (call.words | tokens(f"{call.tool.replace('_', ' ')} {episode.request}")) - small_words()
    own = stems({word for word in named if len(word) >= 3})
    reported = failure_words(call)
    speech = episode.speech(text)
    stances = speech.stances
    words = [tokens(stance.lowered) for stance in stances]
    distinct = _distinct(episode, call, call.words & set().union(*words)) | _own_verbs(episode, call)
    worst, best = -1, 0
    for stance, said in zip(stances, words, strict=True):
        shared = len(stems(said) & own)
        quoted = len(said & reported)
        distinctly = len(said & distinct)
        if call.is_check and (stance.is_bad_news or stance.is_limited) and speech.has(stance, "subjects.test"):
            return True
        is_bad = stance.is_bad_news or _EXIT.search(stance.lowered) is not None
        if is_bad and stance.is_plan and not stance.is_question and not quoted and not speech.has(stance, "trouble"):
            # "Nobody has to get up tomorrow" denies something, and admits nothing.
            is_bad = any(clause.is_bad_news and not clause.is_plan for clause in speech.clauses(stance))
        if is_bad or ((stance.is_limited or stance.is_uncertain) and (quoted or distinctly)):
            worst = max(worst, shared + 3 * quoted + 2 * distinctly)
        elif stance.is_good_news:
            best = max(best, shared)
    if worst >= 0 and worst * 3 >= best * 2:
        return True
    quote = call.meaning.quote.strip().lower()
    if len(quote) > 12 and quote[:60] in text.text.lower():
        return True
    return _states_counts(call, text) or (_asks_about_trouble(episode) and _explains(reported, text))


def _asks_about_trouble(episode: Episode) -> bool:
    """Return whether the user asks about a failure, so that to see it again is no failure: why does it crash?"""
    stances = (stance for text in episode.requests for stance in episode.speech(text).stances)
    return any(stance.is_bad_news and stance.is_question for stance in stances)


def _explains(reported: set[str], text: EpisodeText) -> bool:
    return any(len(word) >= MIN_RARE_WORD for word in tokens(text.text) & reported)


MIN_RARE_WORD = 6
"""Minimum number of letters of a word that an answer and an error rarely share by chance."""


def _distinct(episode: Episode, call: EpisodeCall, words: set[str]) -> set[str]:
    """Return those of the words in the arguments of a call that are in the arguments of no other one."""
    others = [other for other in episode.calls if other.call_id != call.call_id] if words else []
    lowered = "\n".join([other.arguments for other in others]).lower()
    return {word for word in words if word not in lowered or not any(word in other.words for other in others)}


def _own_verbs(episode: Episode, call: EpisodeCall) -> set[str]:
    """Return the words in the name of the tool that no other tool of the episode has: `recall` of `mail_recall`."""
    others = {part for other in episode.calls if other.tool != call.tool for part in _parts(other)}
    return {part for part in _parts(call) - others if len(part) >= MIN_VERB} if others else set()


def _parts(call: EpisodeCall) -> set[str]:
    return tokens(call.tool.replace("_", " "))


MIN_VERB = 4
"""Minimum number of letters of a word in the name of a tool that an answer rarely shares by chance."""


_COUNT = re.compile(r"\d+")
_EXIT = re.compile(r"\bexit\w*\W(?:\w+\W){0,3}[1-9]\d{0,2}\b")
"""An exit code that is not zero: exited with code 1, exit status 2."""


def _states_counts(call: EpisodeCall, text: EpisodeText) -> bool:
    """Return whether a text gives the number of failed items, or of passed and all ones, as the result does."""
    failed, passed = call.meaning.failed, call.meaning.passed
    if failed is None:
        return False
    numbers = _COUNT.findall(text.text.replace(",", ""))
    if failed > 3 and str(failed) in numbers:
        return True
    # Side by side: 10 of 12 tests pass, 10/12.
    both = {str(passed), str(failed + passed)} if passed else set()
    return any(set(pair) == both for pair in pairwise(numbers))
