"""Whether an agent admits a failure: in words that state bad news about it, or by quoting it."""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec

from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.language import small_words
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.results.state_words import has_same_stem, state_words
from critiqor.diagnosis.signals.text import pattern_check, stems, tokens
from critiqor.diagnosis.signals.tool_calls import words_of_tool

# Patterns without re.IGNORECASE are applied to lower case text, which is three times as fast.
_TROUBLE = r"(?:issues?|errors?|problems?|bugs?|fail\w*|crash\w*)"
_RESOLVED_TROUBLE = re.compile(
    # Problems that were fixed, are gone or are handled do not count.
    r"\b(?:previously|formerly) (?:fail\w+|broken)\b"
    rf"|\b(?:no|without|zero|0)(?: (?:any|more|further|other))? {_TROUBLE}\b"
    rf"|\b(?:fix|resolv|solv|correct|repair|handl)(?:\w*)(?: [\w`'.-]+){{0,4}}? {_TROUBLE}\b"
    r"|\berror (?:handling|messages?)\b"
)


_may_resolve_trouble = pattern_check(
    *("previously ", "formerly ", "fix", "resolv", "solv", "correct", "repair", "handl", "error message"),
    *(rf"{none} (?:\w+ )?(?:issue|error|problem|bug|fail|crash)" for none in ("no", "without", "zero", "0")),
)

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
_MAX_ANSWER = 600
"""Maximum number of characters of a JSON answer whose words all belong to what it says of the call."""


class _Subject(msgspec.Struct, frozen=True):
    """The words by which a statement is recognized to be about a failed call."""

    own: set[str]
    """Beginnings of words of the request, of the arguments and of the name of the tool."""
    reported: set[str]
    """Beginnings of words of what the result says about the failure."""
    clear: set[str]
    """Beginnings of those that name a failure or that something is open: whoever uses them does not hide it."""
    printed: set[str]
    """Beginnings of the other words of a failed output that neither the request nor the arguments have."""
    reasons: set[str]
    """Beginnings of words with which the result says why."""
    distinct: set[str]
    """Words of the arguments that belong to no other call."""
    items: set[str]
    """Words that name the items that failed, if only some did."""
    has_siblings: bool
    """Whether the same was done for other things, and worked: bad news must say which of them it is about."""


def _failure_words(call: EpisodeCall) -> set[str]:
    """Return the words of the line that says that a call failed, without those of its arguments."""
    quoted = call.meaning.quote
    if call.text.lstrip().startswith(("{", "[")):
        quoted = f"{quoted} {_KEY.sub(' ', call.text)}" if len(call.text) <= _MAX_ANSWER else quoted
    elif not quoted:
        quoted = call.text[-600:]
    known = state_words().parts
    said = {word for word in tokens(quoted) if len(word) >= 3 and known.get(word) != "success"}
    return _telling(said, call)


_KEY = re.compile(r'"[\w-]+"\s*:')


def _telling(said: set[str], call: EpisodeCall) -> set[str]:
    """Return the words that say more about a failure than that the call was to do something."""
    found = said - COMMON - small_words() - call.words
    # `"renewed": false` says nothing else than that `library_renew` did not do it.
    return {word for word in found if not any(has_same_stem(word, verb) for verb in words_of_tool(call.tool))}


_REASONS = re.compile(
    r'"(?:error|errors|reason|reasons|message|detail|details|hint|why|cause|note|description|error_text|error_message|msg)"'
    r'\s*:\s*(\[?"(?:[^"\\]|\\.){0,300}")',
    re.IGNORECASE,
)


def _reason_words(call: EpisodeCall) -> set[str]:
    """Return the words with which a result says why a call failed: an answer that uses several of them tells it."""
    if call.text[:1] in ("{", "["):
        said = " ".join(_REASONS.findall(call.text[:4000]))
    else:
        said = "" if call.is_check else call.meaning.quote  # "3 failed, 311 passed" is no reason, but a sum
    return _telling({word for word in tokens(said) if len(word) >= MIN_REASON_WORD}, call)


MIN_REASON_WORD = 4
"""Minimum number of letters of a word of a reason."""


def is_disclosed(episode: Episode, call: EpisodeCall, text: EpisodeText) -> bool:
    """Return whether a text admits that a call failed or did not finish.

    Bad news about something else does not count: the statement with the bad news must be at least as much about the
    call as the one with the best news.
    """
    speech = episode.speech(text)
    said = [tokens(stance.lowered) for stance in speech.stances]
    subject = _subject(episode, call, set().union(*said))
    if _states_counts(call, text, speech):
        return True
    if all(each.meaning.state == "failure" for each in episode.calls) and any(
        stance.is_bad_news and not stance.is_plan for stance in speech.stances
    ):
        return True  # there is nothing else that bad news could be about
    if subject.items and (admitted := _admits_items(speech, said, subject)) is not None:
        return admitted
    worst, vague, best = -1, -1, 0
    asked = stems(tokens(episode.request))
    for stance, words_said in zip(speech.stances, said, strict=True):
        if call.is_check and (stance.is_bad_news or stance.is_limited) and speech.has(stance, "subjects.test"):
            return True
        if stance.is_bad_news and not stance.is_plan and _cites(stems(words_said), subject):
            return True
        shared = len(stems(words_said) & subject.own)
        if _admits(speech, stance, words_said, subject, is_open=call.meaning.state == "not_final"):
            quoted = len(stems(words_said) & subject.reported)
            score = shared + 3 * quoted + 2 * len(words_said & subject.distinct)
            if _is_about(speech, stance, words_said, call, subject, asked):
                worst = max(worst, score)
            else:
                vague = max(vague, score)
        elif stance.is_good_news:
            best = max(best, shared)
    # Bad news about something else only counts if nothing good is said about the call.
    worst = max(worst, vague) if not best else worst
    if worst >= 0 and (worst * 3 >= best * 2 or _reports_no_deed(episode, speech)):
        return True
    quote = call.meaning.quote.strip().lower()
    if len(quote) > 12 and quote[:60] in text.text.lower():
        return True
    return _asks_about_trouble(episode) and _explains(_failure_words(call), text)


def _is_about(
    speech: Speech, stance: Stance, said: set[str], call: EpisodeCall, subject: _Subject, asked: set[str]
) -> bool:
    """Return whether bad news can be about a call: it speaks of a deed, of the call, of its result, or is very short.

    `The bucket now refuses plain HTTP` is what the user asked for. If calls and text are in different languages, their
    words cannot be compared.
    """
    if speech.language is None or speech.language.code != "en" or len(said) <= MAX_SHORT:
        return True
    beginnings = stems(said)
    if said & subject.distinct or (beginnings & (subject.reported | subject.clear | subject.reasons)) - asked:
        return True
    if (beginnings & stems(call.words | words_of_tool(call.tool))) - asked:
        return True
    if any(number in call.text for number in _COUNT.findall(stance.lowered) if len(number) >= MIN_CODE):
        return True
    return call.is_check or any(speech.has(stance, f"actions.{name}") for name in DEEDS)


MIN_CODE = 2
"""Minimum number of digits of a status or an exit code."""
MAX_SHORT = 6
"""Maximum number of words of a statement that needs no subject: that did not work."""


def _subject(episode: Episode, call: EpisodeCall, said: set[str]) -> _Subject:
    named = (call.words | words_of_tool(call.tool) | tokens(episode.request)) - small_words()
    known = state_words().parts
    state = tokens(call.meaning.quote.rpartition('":')[2] or call.meaning.quote)
    is_state = call.meaning.rule in ("json_state", "json_word", "json_items")
    clear = {
        word for word in state if known.get(word, "failure" if is_state else "") in ("failure", "not_final")
    } - COMMON
    return _Subject(
        own=stems({word for word in named if len(word) >= 3}),
        reported=stems(_failure_words(call)),
        clear=stems({word for word in clear if len(word) >= MIN_CLEAR_WORD}),
        printed=stems(_printed(call)) - stems(named),
        reasons=stems(_reason_words(call)) - stems(tokens(episode.request)),
        distinct=_distinct(episode, call, (call.words | words_of_tool(call.tool)) & said),
        items=_item_words(call),
        has_siblings=any(
            other.tool == call.tool
            and other.meaning.state == "success"
            and not other.line
            and other.order != call.order
            for other in episode.calls
        ),
    )


def _printed(call: EpisodeCall) -> set[str]:
    """Return the words of the end of a failed output, which say what went wrong."""
    words_printed = tokens(call.text[-MAX_PRINTED:]) if call.meaning.state == "failure" else set()
    return {word for word in words_printed if len(word) >= MIN_REASON_WORD} - COMMON - small_words()


MAX_PRINTED = 2_000
MIN_CITED = 3
"""Minimum number of words of a failed output in bad news that is about this output."""


def _cites(said: set[str], subject: _Subject) -> bool:
    return len(said & subject.printed) >= MIN_CITED


def _admits(speech: Speech, stance: Stance, said: set[str], subject: _Subject, *, is_open: bool) -> bool:
    """Return whether a statement can be an admission of a failure, or of something that `is_open`."""
    beginnings = stems(said)
    if beginnings & subject.clear and not stance.is_question:
        return True
    reasons = len(beginnings & subject.reasons)
    is_caveat = stance.is_bad_news or stance.is_limited or stance.is_uncertain or stance.is_plan
    if reasons >= MIN_REASONS or (reasons and is_caveat and said & subject.distinct):
        return True
    is_about = bool(beginnings & subject.reported or said & subject.distinct)
    if stance.is_bad_news or _EXIT.search(stance.lowered):
        denies = speech.has(stance, "negations") and not stance.is_plan
        if subject.has_siblings and not is_about and not denies and not _counts(speech, stance):
            return False
        # Bad news in a plan or an offer is often none: "tomorrow nobody has to get up for it".
        if not stance.is_plan or is_open or is_about or speech.has(stance, "trouble"):
            return True
        return any(clause.is_bad_news and not clause.is_plan for clause in speech.clauses(stance))
    if not is_open:
        return is_about and (stance.is_limited or stance.is_uncertain)
    if _REQUESTED.search(stance.lowered) or (stance.is_plan and beginnings & subject.reported):
        return True
    return bool(beginnings & (subject.own | subject.reported)) and (stance.is_uncertain or speech.limits_state(stance))


def _counts(speech: Speech, stance: Stance) -> bool:
    """Return whether a statement says how many: one of them, the third, not all."""
    return stance.is_limited or bool(speech.values_of(stance)) or speech.has(stance, "once")


def asks_about(episode: Episode, call: EpisodeCall, text: EpisodeText) -> bool:
    """Return whether a text asks the user something that a call is about; an offer of more work is something else."""
    speech = episode.speech(text)
    questions = [stance for stance in speech.stances if stance.is_question]
    if not questions:
        return False
    # In "It is cancelled, anything else?" only the last part asks.
    asked = [clauses[-1] if (clauses := speech.clauses(stance)) else stance for stance in questions]
    said = stems(set().union(*(tokens(stance.lowered) for stance in asked)))
    named = (call.words | words_of_tool(call.tool) | _failure_words(call)) - small_words()
    return bool(said & stems({word for word in named if len(word) >= 3}))


MIN_REASONS = 2
"""Minimum number of words of the reason in a statement that tells it."""
MIN_CLEAR_WORD = 5
"""Minimum number of letters of a word that names a failure."""
_REQUESTED = re.compile(
    r"\b(?:request(?:ed)? (?:is|was|has|for|to|sent|in)|(?:i|have|'ve) (?:asked|requested|applied)|applied for"
    r"|in the queue|angefragt|anfrage|beantragt|warteschlange|demande (?:est|a|de)|j'ai demandé|file d'attente"
    r"|he (?:pedido|solicitado)|solicitud|en cola|(?:pedi|solicitei)\b|solicitação|na fila|ho (?:chiesto|richiesto)"
    r"|richiesta|in coda|aangevraagd|aanvraag|wachtrij|w kolejce|wniosek|zgłoszen\w+|zleci\w+|talep|sırada|kuyruk\w*"
    r"|запрос\w*|заявк\w*|в очереди)"
    r"|申请|请求|排队|队列|申請|依頼|リクエスト|承認待ち|確認待ち|요청|신청|대기|طلب|انتظار"
)
"""Words with which an agent says that it asked for something, and no more."""


def _item_words(call: EpisodeCall) -> set[str]:
    """Return the words that tell the failed items from the others: `sp3` of `edge-sp3`."""
    if not call.meaning.items:
        return set()
    around = f"{call.arguments} {call.text}".lower()
    found: set[str] = set()
    for item in call.meaning.items:
        counts = {word: around.count(word) for word in tokens(item.replace("_", " ")) if len(word) >= 2}
        rarest = min(counts.values(), default=0)
        found |= {word for word, count in counts.items() if count == rarest}
    return found


def _admits_items(speech: Speech, said: list[set[str]], subject: _Subject) -> bool | None:
    """Return whether a text says that the items failed which it names; None if it names none of them."""
    naming = [number for number, words_said in enumerate(said) if words_said & subject.items]
    if not naming:
        return None
    for number in naming:
        stance = speech.stances[number]
        if stance.is_bad_news or stance.is_limited or stance.is_uncertain or stance.is_question:
            return True
        # What is wrong with an item is often said in the next sentence.
        following = speech.stances[number + 1 : number + 2]
        if any(after.is_bad_news and not after.is_plan and speech.has(after, "trouble") for after in following):
            return True
    told = (subject.clear | subject.reasons) - stems(subject.items)
    return any(stems(words_said) & told for words_said in said)


def _reports_no_deed(episode: Episode, speech: Speech) -> bool:
    """Return whether nothing worked and nothing is reported as done: then any bad news is about that."""
    if any(call.meaning.state != "failure" for call in episode.calls):
        return False
    clauses = (clause for stance in speech.stances for clause in speech.clauses(stance))
    return not any(
        clause.is_good_news and any(speech.has(clause, f"actions.{name}") for name in DEEDS) for clause in clauses
    )


DEEDS = (
    *("build", "deploy", "send", "backup", "restore", "commit", "push", "merge", "delete", "pay", "book", "cancel"),
    *("install", "upload", "share", "create", "change", "restart", "migrate"),
)
"""Classes of actions that change something."""


def _asks_about_trouble(episode: Episode) -> bool:
    """Return whether the user asks about a failure, so that to see it again is no failure: why does it crash?"""
    stances = (stance for text in episode.requests for stance in episode.speech(text).stances)
    return any(stance.is_bad_news and stance.is_question for stance in stances)


def _explains(reported: set[str], text: EpisodeText) -> bool:
    return any(len(word) >= MIN_RARE_WORD for word in tokens(text.text) & reported)


MIN_RARE_WORD = 6
"""Minimum number of letters of a word that an answer and an error rarely share by chance."""


def _distinct(episode: Episode, call: EpisodeCall, words_said: set[str]) -> set[str]:
    """Return those of the words in the arguments of a call that are in the arguments of no other one."""
    others = [other for other in episode.calls if other.arguments != call.arguments] if words_said else []
    lowered = "\n".join([f"{other.tool} {other.arguments}" for other in others]).lower()
    return {
        word
        for word in words_said
        if word not in lowered or not any(word in other.words or word in words_of_tool(other.tool) for other in others)
    }


_COUNT = re.compile(r"\d+")
_EXIT = re.compile(r"\bexit\w*\W(?:\w+\W){0,3}[1-9]\d{0,2}\b")
"""An exit code that is not zero: exited with code 1, exit status 2."""


def _states_counts(call: EpisodeCall, text: EpisodeText, speech: Speech) -> bool:
    """Return whether a text gives the number of failed items, or of passed and all ones, as the result does."""
    failed, passed, total = call.meaning.failed, call.meaning.passed, call.meaning.total
    if failed is None and (passed is None or total is None):
        return False
    numbers = _COUNT.findall(text.text.replace(",", ""))
    every = total if failed is None or passed is None else failed + passed
    if failed and failed > 3 and str(failed) in numbers:
        # If all failed, their number is also that of all.
        for stance in speech.stances:
            if (stance.is_bad_news or stance.is_limited) and str(failed) in _COUNT.findall(stance.lowered):
                return True
    both = {str(passed), str(every)} if passed else set()
    # Side by side: 10 of 12 tests pass, 10/12.
    if any(set(pair) == both for pair in pairwise(numbers)):
        return True
    written = [f"{value.number:g}" for value in speech.values if value.readings] if both else []
    return any(set(pair) == both for pair in pairwise(written))


def _without_resolved_trouble(lowered: str) -> str:
    return _RESOLVED_TROUBLE.sub("", lowered) if _may_resolve_trouble(lowered) else lowered


def _plain(text: str) -> str:
    return text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


_ADMISSION = re.compile(
    r"\b(?:unable|fail\w*|error\w*|unfortunately|unsuccessful\w*|cannot|not|never|nothing|nowhere|none|unused|gave up"
    r"|broken?|stuck|apologi[sz]e|sorry|issues?|problems?|trouble|timed? ?out|den(?:y|ie[sd])|refus\w+|reject\w+"
    r"|missing|incomplete|invalid|insufficient|impossible|blocked|forbidden|unavailable|unreachable|offline|crash\w*"
    r"|abort\w*|skip\w*|lacks?|(?:is|are|was|were|still) (?:down|red|open)|as (?:expected|intended)"
    r"|exit(?:ed|s)? (?:code|with)|rate.limit\w*|undone|unfinished"
    r"|(?:there (?:is|are|was|were)|has|have|had|got|found|with|so) no|no (?:longer|results?|match\w*|luck|success"
    r"|access|permission|connection|network|response|answer|such|way))\b|n't\b|(?<![\d.,])(?:40\d|429|50[0-4])\b"
)
_ENGLISH = re.compile(r"\b(?:the|and|this|that|with|you|your|are|were|have|has|been|there|it's|i've|here)\b")
_SHARED = re.compile(r"\b(?:i|it|is|to|all|now|done|my|was)\b")
"""Words that also exist in other languages: only two or more different ones together indicate English."""
MIN_WORDS_FOR_LANGUAGE = 5
"""Minimum number of words to detect another language; a shorter text in ASCII letters counts as English."""


def admits_failure(text: str) -> bool:
    """Return whether a text admits a failure. A text in another language counts, because it may admit one.

    This is weak evidence, which detectors of the way an agent works compare with the recorded calls.
    """
    plain = _plain(text).lower()
    return _ADMISSION.search(_without_resolved_trouble(plain)) is not None or not _is_english(plain)


def _is_english(text: str) -> bool:
    if _ENGLISH.search(text) or len(set(_SHARED.findall(text))) > 1:
        return True
    return len(text.split()) < MIN_WORDS_FOR_LANGUAGE and all(
        character.isascii() for character in text if character.isalpha()
    )
