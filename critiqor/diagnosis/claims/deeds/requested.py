"""A deed that the user asked for is reported as done, and none of the calls can have done it."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.checks.actions import CLASSES, is_content, is_form_of
from critiqor.diagnosis.claims.deeds.items import done_clauses, may_do_anything
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.language import Language, normalize
from critiqor.diagnosis.claims.speech import Speech, Stance

MAX_REQUEST = 2_000
"""Maximum number of characters of a request whose verbs are looked for."""
MIN_VERB = 4
_WORD = re.compile(r"[^\W\d_]{4,}")
_SILENT = re.compile(r'"(?:send|notify)\w*":\s?(?:"none"|"false"|"no"|false)', re.IGNORECASE)
"""An argument that says that nobody is to be notified."""
TRACES = {
    "send": CLASSES["send"].trace.pattern,
    "restart": r"restart|reload|reboot|\bstart|\bstop|kill|\bup\b|cycle|respawn|turn_o|power|apply|rollout|deploy",
    "cancel": r"cancel|revok|delet|remov|unsub|terminat|void|refund|stop|disable|close|update|declin|end_|withdraw",
    "upload": r"upload|\bcp\b|scp|rsync|sync|\bput\b|push|curl|post|share|write|create|publish|attach|send|copy|move"
    r"|add",
    "share": r"shar|grant|invit|permission|access|add|member|link|public|acl|chmod|send|post|mail|role|update",
    "commit": r"commit|push|merge|save",
    "push": r"push|publish|upload|sync|deploy|release|\bgh\b|pr[_ ]create|merge",
    "merge": r"merge|rebase|pull|cherry|\bgh\b|glab|api",
    "book": r"book|reserv|order|schedul|calendar|event|create|add|regist|sign|cron|remind|purchas|buy|submit|appoint"
    r"|invit|checkout|place|enrol|update|move",
    "pay": CLASSES["pay"].trace.pattern + r"|bank|send|checkout|book",
    "install": r"install|\badd\b|pip|npm|yarn|pnpm|apt|brew|cargo|\bgem\b|upgrad|updat|dnf|yum|conda|poetry|\buv\b|bump"
    r"|edit|write|get\b",
    "backup": CLASSES["backup"].trace.pattern + r"|write|create",
}
"""What the calls look like that do the deeds of each class."""


def check_requested(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the claims of requested deeds that no call can have done."""
    answer = episode.answer
    effects = [call for call in evidence.calls if call.has_effect]
    if answer is None or not episode.requests or not effects or episode.has_dropped:
        return []
    speech = episode.speech(answer)
    language = speech.language
    if language is None or any(map(may_do_anything, effects)):
        return []
    wanted = _wanted(episode, language)
    claims = []
    for clause in done_clauses(speech) if wanted else ():
        for name in sorted(wanted):
            if _asserts(speech, clause, name, evidence) and not any(_can_do(call, name) for call in effects):
                claims.append(unsupported(answer, clause, name, kind="action"))
                wanted = wanted - {name}
                break
    return claims


def _wanted(episode: Episode, language: Language) -> set[str]:
    """Return the classes of deeds whose verbs the request has in any form."""
    asked = set(_WORD.findall(normalize(episode.requests[-1].text[:MAX_REQUEST])))
    return {
        name
        for name in TRACES
        for entry in language.data.actions.get(name, ())
        if entry.isalpha() and len(entry) >= MIN_VERB and any(is_form_of(verb, entry) for verb in asked)
    }


def _asserts(speech: Speech, clause: Stance, name: str, evidence: Evidence) -> bool:
    words = speech.words(clause, f"actions.{name}")
    return bool(words) and not all(is_content(word, evidence) for word in words)


def _can_do(call: EpisodeCall, name: str) -> bool:
    pattern = re.compile(TRACES[name], re.IGNORECASE)
    return pattern.search(call.tool) is not None or pattern.search(_SILENT.sub("", call.facts)) is not None
