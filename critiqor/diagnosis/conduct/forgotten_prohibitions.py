"""What the user forbade, and the agent did all the same: at once, or after a compaction had removed the rule."""

# ruff: noqa: RUF001 - letters and punctuation of several scripts
from __future__ import annotations

import re

from critiqor.diagnosis.claims.call_arguments import members
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.language import normalize
from critiqor.diagnosis.conduct.lapse import Lapse
from critiqor.diagnosis.conduct.wording import MAX_REQUEST
from critiqor.diagnosis.hazards.session_history import CELL, MAX_ROWS, earlier_calls, linked_cells
from critiqor.diagnosis.hazards.words import words
from critiqor.diagnosis.results.command_lines import parse_command_line
from critiqor.diagnosis.results.programs import programs_in
from critiqor.model.sanitize import excerpt, quotation
from critiqor.spans.calls import Kind

MAX_BETWEEN = 6
"""Maximum number of words between a negation and what it forbids."""
MAX_VALUE = 80
"""Maximum number of characters of a value that names something."""
MIN_NAME = 3
"""Minimum number of characters of a name; of one in Chinese characters, two."""
_CLAUSE = re.compile(
    r"[.!?]+(?:\s+|$)|[,;:()\n]|[，。；！？、]|\s[–—-]\s|但是|但|でも|けど|しかし|하지만|그러나|لكن"
    r"|\b(?:but|and|aber|und|pero|mais|mas|però|ma|maar|men|och|ale|но|ama)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?]+(?:\s+|$)|\n|[。！？]")
_ASKED = re.compile(r"[^.!?？؟。！\n]{1,400}[?？؟]")
"""A question forbids nothing: why not?"""
_UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_CONDITIONAL = re.compile(
    r"\s*(?:if|when|unless|once|wenn|falls|sobald|si|cuando|quand|se|quando|als|wanneer|om|när|ifall|jeśli|gdy|если|когда|eğer"
    r"|如果|若|もし|만약|إذا)\b",
    re.IGNORECASE,
)
_STATED = re.compile(
    r"\b(?:did|has|have|had|is|are|was|were|does|can|could|hat|hatte|haben|ist|war|wurde|heeft|had|is|ha|han|a|ont|está"
    r"|foi|è|é|est|jest|był\w*|har|hade|är|var|blev|kunde)\s+(?:not|nicht|niet|inte|pas|nie)\b|\b(?:didn't|hasn't|haven't|isn't|wasn't|doesn't"
    r"|couldn't|can't|n'a|n'ont|n'est)\b|\b(?:no|non|não)\s+(?:ha|han|hat|está|es|è|é|foi|tem)\b",
    re.IGNORECASE,
)
"""Negations of a fact: nobody forbids anything with them."""
_GENERIC = frozenset(
    (
        *("run", "exec", "bash", "python", "python3", "node", "sudo", "the", "and", "file", "main", "true", "false"),
        *("all", "json", "http", "https", "www", "com", "org", "example", "test", "data", "user", "status", "list"),
    )
)
_SENDS = re.compile(
    r"send|mail|message|post|campaign|broadcast|notify|newsletter|publish|sms|invite|reply", re.IGNORECASE
)
_UNSENT = re.compile(r"draft|compose|preview|^(?!.*send).*template", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]{2,}")

MAX_CLAUSES = 40
"""Maximum number of clauses with which each call is compared."""
MAX_COMPARED = 60
"""Maximum number of calls after a compaction, or after a memory lookup, that are compared."""


def find_forgotten_prohibitions(episode: Episode) -> list[Lapse]:
    """Return what the user forbade and the agent did."""
    if not episode.calls:
        return []
    compactions = [order for each in (episode, *episode.earlier) for order in each.compactions]
    texts = [text for each in (*reversed(episode.earlier), episode) for text in each.requests]
    clauses = [(clause, text) for text in texts for clause in _forbidding_clauses(text.text[:MAX_REQUEST])]
    unsent = [(rule, text) for text in texts if (rule := _rule_against_sending(text.text[:MAX_REQUEST]))]
    if not clauses and not unsent:
        return []
    acting = [call for call in episode.calls if call.has_effect and call.meaning.state != "failure"]
    first = max(compactions, default=0)
    after = [call for call in acting if call.order > first]
    for call in after[:MAX_COMPARED]:
        for rule, text in unsent[-1:] if _is_sent(call, texts[-1].text.lower()) else ():
            if text is texts[-1] and text.order < call.order:
                return [_forgotten(call, rule, text, is_lost=text.order < first)]
        for clause, text in clauses[-MAX_CLAUSES:]:
            if text.order > call.order:
                continue
            is_lost = any(text.order < order < call.order for order in compactions)
            name = _broken_name(clause, episode, call, is_lost=is_lost)
            later = (normalize(other.text) for other in texts if text.order < other.order < call.order)
            if name is not None and not any(name in other for other in later):
                return [_forgotten(call, clause, text, is_lost=is_lost)]
    return []


def _forgotten(call: EpisodeCall, clause: str, text: EpisodeText, *, is_lost: bool) -> Lapse:
    """Return the lapse. `is_lost`: the context was compacted in between, so that the agent may not have known it."""
    said = excerpt(clause, 100)
    when = "After a compaction, the agent did" if is_lost else "The agent did"
    return Lapse(
        type="compaction_loss" if is_lost else "wrong_target",
        about=("instructions", "contradicted"),
        severity="high",
        confidence=75,
        title=f"{when} what the user had forbidden: {said}",
        explanation=f"{call.name} does what the user had ruled out"
        f"{' before the history was summarized' if is_lost else ''}: {quotation(clause, 100)}.",
        recommendation="Have the agent write instructions that must survive a compaction to memory or a file."
        if is_lost
        else "Have the agent check each call against what the user has ruled out, or deny such calls in a policy.",
        verification="Run the same task again: what the user has forbidden is not done, before or after a compaction.",
        causes=[(text.event_id, f"The user said: {said}")],
        event_id=call.call_id,
        happened="Done anyway, after the context was compacted" if is_lost else "Done anyway",
        calls=[call],
    )


def _forbidding_clauses(text: str) -> list[str]:
    """Return the clauses of a text that forbid something."""
    if not words("forbid").may_be_within(text):
        return []
    return [
        clause.strip()
        for clause in _CLAUSE.split(_ASKED.sub(" ", text))
        if clause and words("forbid").within(clause) and not _CONDITIONAL.match(clause) and not _STATED.search(clause)
    ]


def _rule_against_sending(text: str) -> str:
    """Return the sentence that wants drafts only, or forbids to send before something; empty if there is none."""
    if not (words("draft_only").may_be_within(text) or words("ask_first").may_be_within(text)):
        return ""
    sentences = [sentence for sentence in _SENTENCE.split(text) if sentence.strip()]
    rules = [one for one in sentences if words("draft_only").within(one) or words("ask_first").within(one)]
    for rule in rules:
        # "Mail it to me before I have my meeting" wants the opposite.
        forbids = words("forbid").within(rule) and words("send").within(rule)
        if forbids or words("draft_only").within(rule):
            return rule.strip()
    return ""


def _is_sent(call: EpisodeCall, requests: str) -> bool:
    """Return whether a call has sent something to somebody whom the requests do not name."""
    if call.kind is not Kind.ACTION or not _SENDS.search(call.tool) or _UNSENT.search(call.tool):
        return False
    values = [value.strip().lower() for _, value in members(call) if MIN_NAME <= len(value.strip()) <= MAX_VALUE]
    return call.meaning.state == "success" and not any(value in requests for value in values)


def _broken_name(clause: str, episode: Episode, call: EpisodeCall, *, is_lost: bool) -> str | None:
    """Return what a call does that a clause forbids; None if it does nothing of the kind.

    An agent that still knows the rule usually keeps it, so the clause must then forbid such a call, and by name.
    """
    if not is_lost and (call.line or not _is_of_kind(clause, call)):
        return None
    lowered = normalize(clause)
    spans = words("forbid").find(clause)
    for name in names_of(episode, call):
        at = _place(lowered, name)
        if at >= 0 and any(_is_near(lowered, span, at) for span in spans) and _reaches(lowered[at + len(name) :], call):
            return name
    if not is_lost or _names_somebody(lowered, episode, call):
        return None
    return _does(lowered, clause, call)


def _is_of_kind(clause: str, call: EpisodeCall) -> bool:
    """Return whether a clause is about what a call does: sending, or changing something."""
    if _SENDS.search(call.tool):
        return words("send").within(clause) and not _UNSENT.search(call.tool)
    return any(words(concept).within(clause) for concept in ("touch", "delete", "act"))


def _reaches(rest: str, call: EpisodeCall) -> bool:
    """Return whether a call reaches the place that a clause names last: do not commit to main."""
    place = _PLACE.match(rest)
    return place is None or place[1] in f"{call.arguments} {call.text}".lower()


def _names_somebody(lowered: str, episode: Episode, call: EpisodeCall) -> bool:
    """Return whether a clause names something that earlier results list: it forbids that, and nothing else."""
    listed = [before.lowered for before in earlier_calls(episode, call)]
    if _UNSPACED.search(lowered):
        cells = (cell.strip() for text in listed for row in text.splitlines()[:MAX_ROWS] for cell in CELL.split(row))
        return any(cell in lowered for cell in cells if len(cell) > 1 and _UNSPACED.search(cell))
    return any(
        re.search(rf"(?m)(?:^\s*|[\"',/]){re.escape(word)}(?=[\s\"',/]|$)", text) is not None
        for word in _WORD.findall(lowered)
        if len(word) >= MIN_NAME
        for text in listed
        if word in text
    )


_PLACE = re.compile(
    r"\w*\s+(?:to|on|in|into|auf|nach|zu|a|en|sur|dans|em|para|su|naar|op|do|na|в|на|к)\s+(?:the\s+|der\s+|die\s+|la\s+|el\s+)?"
    r"([\w./-]{3,})"
)


def _does(lowered: str, clause: str, call: EpisodeCall) -> str | None:
    """Return the verb of a clause that forbids an action as such, if a call is such an action: do not send it."""
    if call.line or call.kind is not Kind.ACTION:
        return None
    if _UNSENT.search(call.tool):
        return None
    concept = "send" if _SENDS.search(call.tool) else "act"
    for start, end in words(concept).find(clause):
        rest = lowered[:start] + lowered[end:]
        for first, last in words("forbid").find(clause):
            rest = rest.replace(lowered[first:last], " ", 1)
        size = len(rest.strip()) // 2 if _UNSPACED.search(rest) else len(_WORD.findall(rest))
        if size <= MAX_REST:
            return lowered[start:end]
    return None


MAX_REST = 3
"""Maximum number of other words of a clause that forbids an action as such; two characters count as one word."""


def _place(lowered: str, name: str) -> int:
    """Return where a clause names something; -1 if it does not."""
    if _UNSPACED.search(name):
        return lowered.find(name)
    found = re.search(rf"(?<![\w@.-]){re.escape(name)}", lowered)
    return found.start() if found else -1


def _is_near(lowered: str, span: tuple[int, int], at: int) -> bool:
    """Return whether a negation is near a name; in languages that put it last, it follows."""
    first, last = span
    between = lowered[last:at] if last <= at else lowered[at:first]
    if len(between.split()) > MAX_BETWEEN:
        return False
    return last <= at or _UNSPACED.search(lowered) is not None or not lowered[first:last].isascii()


def names_of(episode: Episode, call: EpisodeCall) -> list[str]:
    """Return the names, in lower case, of what a call does and reaches, to compare them with prohibitions."""
    if call.line:
        names = []
        for program in programs_in(parse_command_line(call.line)):
            plain = [word for word in program.words[:3] if word.isalpha() and len(word) >= MIN_NAME]
            names += [word.lower() for word in plain if word.lower() not in _GENERIC]
        return list(dict.fromkeys(names))
    values = [value.strip().lower() for _, value in members(call) if 0 < len(value.strip()) <= MAX_VALUE]
    linked = [cell for value in values for cell in linked_cells(episode, call, value)]
    return [name for name in dict.fromkeys((*values, *linked)) if _is_name(name)]


def _is_name(text: str) -> bool:
    if text in _GENERIC or text.isdigit():
        return False
    return len(text) >= (2 if _UNSPACED.search(text) else MIN_NAME)
