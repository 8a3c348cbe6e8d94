"""Detect what an agent claims, admits and announces in its messages.

This is weak evidence, which detectors compare with the recorded calls. Only English is supported: a text in another
language makes no claims, and is assumed to admit a failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from critiqor.diagnosis.signals.text import gate
from critiqor.spans.calls import Claim

# Patterns without re.IGNORECASE are applied to lower case text, which is three times as fast.
MAX_CLAIM_CHARACTERS = 400
"""Maximum number of characters of a claim; a longer sentence is content that the agent worked on."""
_QUOTED = re.compile(r"```.*?(?:```|\Z)|^\s*>[^\n]*|\"[^\"\n]*\"|“[^”\n]*”", re.MULTILINE | re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+|,? (?=(?:so|and) you can\b)")
_NOT_FACTUAL = re.compile(
    # Questions, plans, conditions, attempts, and what happened before.
    r"\?\s*$|\b(?:will|would|can|could|should|shall|may|might|must|if|once|unless|until|when|after|before|please"
    r"|let me|let's|going to|need to|needs to|want|wish|like to|proceed|plan to|try|trying|attempt\w*|to be|expected"
    r"|example|e\.g|make sure|ensure|so that|to (?:make|get|have|let)|you (?:asked|said|told|wanted|requested)"
    r"|(?:task|request) (?:is|was) to|goal|earlier|previously|already|yesterday|ago)\b"
)
_NEGATED = re.compile(
    r"\b(?:not|no|nothing|never|cannot|none|neither|nor|without|unable|fail\w*|error\w*|unfortunately|wrong|broken|stuck"
    r"|unsuccessful\w*|incomplete|denied|refused|timed out|gave up|issues?|problem\w*|rejected|impossible|skipp?ed"
    r"|partial\w*|instead|except|apart from|aside from|other than|but (?:one|two|\d+))\b|n't\b"
)
_TROUBLE = r"(?:issues?|errors?|problems?|bugs?|fail\w*|crash\w*)"
_RESOLVED_TROUBLE = re.compile(
    # Problems that were fixed, are gone or are handled do not count.
    r"\b(?:previously|formerly) (?:fail\w+|broken)\b"
    rf"|\b(?:no|without|zero|0)(?: (?:any|more|further|other))? {_TROUBLE}\b"
    rf"|\b(?:fix|resolv|solv|correct|repair|handl)(?:\w*)(?: [\w`'.-]+){{0,4}}? {_TROUBLE}\b"
    r"|\berror (?:handling|messages?)\b"
)

_BY_ME = r"\b(?:i|we)(?:'ve| have)?(?: (?:just|now|also|then|successfully))*"
_PERFECT = r"\b(?:has|have)(?: (?:now|just|also|successfully))* been"
_IT_WAS = r"(?:^|[,;:] )(?:it|(?:the|your|this|that) \w+) (?:was|were)"
_BARE = r"^\W*(?:(?:done|ok|okay|great|success|all set)\W+)?"
_REPORTED = rf"(?:{_BY_ME} |(?:{_PERFECT}|{_IT_WAS})(?: successfully)? |{_BARE}(?:successfully )?)"
_SAYS = rf"(?:{_REPORTED}|\b(?:was|were|been|(?:is|are|has|have) now)(?: successfully)? )"
_HEADLINE = r"^\W*(?:[\w`./'-]+ ){1,3}"
_PATH = r"[`'*]*(?:[\w.~-]*/[\w./-]+|[\w-]+\.[a-z]\w{0,4}\b)"
_TO_PATH = rf"\b(?:to|into|at|as|under) {_PATH}"
_NAMED = r"(?-i:\b[a-z][\w-]*\.[a-z]{2,4}\b)"
_OUTSIDE = (
    rf"(?:{_TO_PATH}|`[^`\s]*[./][^`\s]*`|\b[\w-]+/[\w./-]*\w|{_NAMED}|\b(?:files?|folder|directory|database|repository|branch"
    r"|calendar|reminder|ticket|memory|server|account|order|reservation|booking|flight)\b)"
)
_SENT = r"(?:sent|e-?mailed|posted|published|deployed|pushed|notified|forwarded)\b"
_KEPT = r"(?:saved|stored|committed)\b"
_MADE = r"(?:written|wrote|created|added)\b"
_DEALT = r"(?:cancell?ed|booked|refunded|exchanged|returned|transferred|rescheduled|installed|migrated|deleted)\b"
_ALTERED = r"(?:updated|changed|modified|upgraded|processed|removed|applied|renamed|moved|configured)\b"
_FIXED = r"(?:fixed|repaired|resolved|solved|implemented)\b"
_PASSING = (
    r"(?:(?: (?!that\b|which\b|to\b|files?\b|cases?\b)[\w`./()'-]+){0,6}? pass(?:es|ed|ing)?\b"
    r"|(?: (?:is|are|was|were|runs?|ran|now|all|again|have|has|been))+ (?:green|ok|successful(?:ly)?)\b"
    r"|(?: (?:now|all|again|have|has))* succeed(?:s|ed)?\b)"
)
_PASS = (
    rf"\b(?:tests?|suite|specs?|pytest)`?{_PASSING}"
    r"|\bpass(?:es|ed|ing)? (?:all|the|every)(?: \w+){0,3} tests?\b|\b\d+ passed\b"
)
_FULL = r"\b(?:done|complete|completed|finished)\b"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_CLAIMS = (
    (Claim.TESTS, _any(_PASS)),
    (Claim.SENT, _any(_SAYS + _SENT, rf"{_HEADLINE}{_SENT}\W*$")),
    (
        Claim.SAVED,
        _any(
            _SAYS + _KEPT,
            _REPORTED + _MADE,
            rf"{_HEADLINE}{_KEPT}\W*$",
            rf"\b(?:saved|written)\b.{{0,30}}?{_TO_PATH}",
        ),
    ),
    (
        Claim.CHANGED,
        _any(_SAYS + _DEALT, _SAYS + _ALTERED, rf"{_HEADLINE}(?:{_DEALT}|{_ALTERED})\W*$", r"\bsuccessfully \w+ed\b"),
    ),
    (
        Claim.WORKS,
        _any(
            _SAYS + _FIXED,
            rf"\b(?:build|ci|checks|lint\w*)`?{_PASSING}",
            r"\b(?:everything|it|it all|that) (?:now )?works\b",
            r"\b(?:is|are) (?:now )?(?:(?:set up|up) and running|running|live|online)\b",
        ),
    ),
    (
        Claim.DONE,
        _any(
            rf"^\W*(?:all )?{_FULL}",
            rf"\b(?:is|are|was|were|been|all|everything(?:'s| is)?) (?:now )?{_FULL}",
            rf"\btask (?:is )?{_FULL}",
            rf"{_HEADLINE}{_FULL}\W*$",
            r"\b(?:\w+ed|ran|went) successfully\b|\bwent (?:through|well)\b",
            r"\bsuccessful\W*$",
        ),
    ),
)
_DEEDS = (
    (Claim.TESTS, _any(_PASS)),
    (Claim.SENT, _any(_REPORTED + _SENT, rf"{_HEADLINE}{_SENT}\W*$")),
    (
        Claim.SAVED,
        _any(
            _REPORTED + _KEPT,
            f"{_REPORTED}{_MADE}.*{_OUTSIDE}",
            rf"{_HEADLINE}{_KEPT}\W*$",
            rf"\b(?:saved|written) {_TO_PATH}",
        ),
    ),
    (
        Claim.CHANGED,
        _any(
            _REPORTED + _DEALT,
            f"{_REPORTED}{_ALTERED}.*{_OUTSIDE}",
            f"{_OUTSIDE}.*{_REPORTED}{_ALTERED}",
            rf"{_HEADLINE}{_DEALT}\W*$",
        ),
    ),
    (Claim.WORKS, _any(f"{_REPORTED}{_FIXED}.*{_OUTSIDE}")),
    (Claim.DONE, _any(r"^\W*(?:all )?done\b")),
)
_WORDS: dict[Claim, tuple[str, ...]] = {
    Claim.TESTS: ("pass", "green", r"ok\b", "succe"),
    Claim.SENT: ("sent", "mailed", "posted", "published", "deployed", "pushed", "notified", "forwarded"),
    Claim.SAVED: ("saved", "stored", "committed", "written", "wrote", "created", "added"),
    Claim.CHANGED: (
        *("cancel", "booked", "refunded", "exchanged", "returned", "transferred", "scheduled", "installed", "migrated"),
        *("deleted", "updated", "changed", "modified", "upgraded", "processed", "removed", "applied", "renamed"),
        *("moved", "configured", "successfully"),
    ),
    Claim.WORKS: (
        *("fixed", "repaired", "solved", "implemented", r"works\b", "running", r"live\b", "online", "pass", "green"),
        *(r"ok\b", "succe"),
    ),
    Claim.DONE: ("done", "complete", "finished", "succe", r"went\b"),
}
"""Patterns of words by kind of claim, in lower case; a text without any of them does not make that claim."""
_MAY_CLAIM = {claim: gate(*words) for claim, words in _WORDS.items()}
_may_claim = gate(*dict.fromkeys(word for words in _WORDS.values() for word in words))


class Stated(NamedTuple):
    """Claims that a text states as fact: not those that are negated, questions, wishes, quotations or plans."""

    claims: tuple[Claim, ...] = ()
    deeds: tuple[Claim, ...] = ()
    """Claims that require a tool call: a poem can be written in the answer itself, a file cannot."""


def claims_in(text: str) -> Stated:
    """Return the claims that a text states as fact."""
    if not _may_claim(text.lower()):
        return Stated()
    sentences = list(_assertions(text))
    return Stated(_found(_CLAIMS, sentences, text), _found(_DEEDS, sentences, text))


def _found(patterns: tuple[tuple[Claim, re.Pattern[str]], ...], sentences: list[str], text: str) -> tuple[Claim, ...]:
    found: dict[Claim, None] = {}
    for sentence in sentences:
        lowered = sentence.lower()
        for claim, pattern in patterns:
            if claim in found or not _MAY_CLAIM[claim](lowered) or not pattern.search(sentence):
                continue
            if not (claim is Claim.TESTS and _is_partial(lowered)):
                found[claim] = None
    if Claim.TESTS in found and _RED.search(_RESOLVED_TROUBLE.sub("", _plain(text).lower())):
        del found[Claim.TESTS]  # the text also says that tests fail
    return tuple(found)


def _assertions(text: str) -> Iterator[str]:
    """Yield the sentences of a text that may contain claims stated as fact."""
    for sentence in _SENTENCE.split(_QUOTED.sub(" ", _plain(text))):
        lowered = sentence.lower()
        if 4 <= len(sentence) <= MAX_CLAIM_CHARACTERS and _may_claim(lowered):
            unresolved = _RESOLVED_TROUBLE.sub("", lowered)
            if not _NOT_FACTUAL.search(unresolved) and not _NEGATED.search(unresolved):
                yield sentence


def _plain(text: str) -> str:
    return text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


_RED = re.compile(
    r"\b(?:tests?|suites?|specs?|checks)\b[^.!?;\n]{0,80}\b(?:fail(?:s|ed|ing)?|red|broken)\b"
    r"|\bfailing [^.!?;\n]{0,40}\btests?\b|\b[1-9]\d* (?:fail(?:s|ed|ing|ures?)?)\b"
)
_PART = re.compile(r"\b(\d+) ?(?:/|of|out of) ?(\d+)\b")
_SOME = re.compile(r"\b(?:most|some|half|almost|nearly|mostly|many|several)\b")


def _is_partial(sentence: str) -> bool:
    """Return whether a sentence says that only some of the tests pass."""
    return _SOME.search(sentence) is not None or any(some != all_ for some, all_ in _PART.findall(sentence))


_REQUESTS = {
    Claim.TESTS: r"tests?|check|verify|fix|implement|build",
    Claim.SENT: r"send|e-?mail|mail|post|publish|deploy|push|notify|forward|message",
    Claim.SAVED: r"save|store|write|create|add|commit|record|put|remember",
    Claim.CHANGED: r"update|change|modify|cancel|book|upgrade|refund|exchange|return|transfer|process|reschedule|remove"
    r"|delete|install|apply|rename|move|migrate|configure",
    Claim.WORKS: r"fix|repair|resolve|solve|implement|make",
}
_ASKS_FOR = {claim: re.compile(rf"\b(?:{verbs})\b", re.IGNORECASE) for claim, verbs in _REQUESTS.items()}
_ASKS_FOR[Claim.DONE] = re.compile(rf"\b(?:{'|'.join(_REQUESTS.values())})\b", re.IGNORECASE)
_ASKS_FOR_TEXT = re.compile(
    r"\b(?:draft|compose|translate|rewrite|rephrase|summari[sz]e|proofread|story|poem|essay|letter"
    r"|write (?:me |us )?an?)\b",
    re.IGNORECASE,
)
_ASKS_WHETHER = re.compile(
    r"^\W*(?:did|have|has|had|was|were|is|are|do|does|what|when|where|who|why|which|how)\b", re.IGNORECASE
)


def asks_for(text: str, claim: Claim) -> bool:
    """Return whether a user requests an action of this kind, not a text about it and not whether it was done."""
    if _ASKS_FOR_TEXT.search(text) or _ASKS_WHETHER.search(text):
        return False
    return _ASKS_FOR[claim].search(text) is not None


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
    """Return whether a text admits a failure. A text in another language counts, because it may admit one."""
    plain = _plain(text).lower()
    return _ADMISSION.search(_RESOLVED_TROUBLE.sub("", plain)) is not None or not _is_english(plain)


def _is_english(text: str) -> bool:
    if _ENGLISH.search(text) or len(set(_SHARED.findall(text))) > 1:
        return True
    return len(text.split()) < MIN_WORDS_FOR_LANGUAGE and all(
        character.isascii() for character in text if character.isalpha()
    )


_PLAN = re.compile(
    r"\b(?:i(?:'ll| will| am going to|'m going to)|let me|next,? i|now i(?:'ll| will)|i need to (?:now )?)\s+"
    r"(?!know|be happy|assist|wait|help|be able|be glad)\w+"
)


def plans_work(text: str) -> bool:
    """Return whether an agent ends its message with the claim that it will do more work."""
    sentences = [sentence for sentence in _SENTENCE.split(_plain(text).strip()) if sentence.strip()]
    if not sentences:
        return False
    last = sentences[-1].lower()
    return "?" not in last and _PLAN.search(last) is not None
