"""Words with which an English text admits a failure: weak evidence, for the detectors of the way an agent works."""

from __future__ import annotations

import re

from critiqor.diagnosis.signals.fast_patterns import pattern_check

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
