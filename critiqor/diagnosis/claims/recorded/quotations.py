"""Quotations: words that an answer puts into somebody's mouth, and that appear in nothing that the agent has read."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.call_arguments import decoded_arguments, named_paths
from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.episode import Episode, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.language import Language, language_of, normalize
from critiqor.diagnosis.claims.sentences import Quotation, Statement, quoted_passages
from critiqor.diagnosis.claims.values import Value, values_in
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

TYPE = "unsupported_claim"
MIN_WORDS = 6
"""Minimum number of words of a quotation that is looked up; shorter ones are names and terms."""
MIN_CHARACTERS = 30
MIN_UNSPACED = 12
"""Minimum number of characters in languages that do not separate words."""
REACH = 200
"""Maximum number of characters between a quotation and the statement that says whose words it is."""
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_SPEAKER = re.compile(
    r"(?:^|\n)[\s>*•\d.)-]*([^\W\d][^\n\"“”«»„:：]{1,38}?)[*_\s]*(?:\([^()\n]{1,40}\))?[*_\s]*[:：][*_\s]*[\"“«„「]?\s?$"
)
_SIGNED = re.compile(r"^[\"”»“」]?[*_\s>]*(?:[—–~-]{1,2}|\()\s*[*_]*([^\W\d][^\n,()★☆*_]{1,38})")


def check_quotations(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the quoted_passages of the answer and of texts for others that appear nowhere in what was seen."""
    if not episode.calls:
        return []
    texts = [*episode.messages[-1:], *episode.outgoing]
    asked = any(_is_verbatim(text.text.lower()) for text in episode.requests)
    is_literal = asked or any(_is_verbatim(text.text.lower()) for text in texts)
    claims = [claim for text in texts for claim in _check(episode, evidence, text, is_literal=is_literal, asked=asked)]
    # Of a document, only what is to be literal is looked up: the rest of it is the agent's own work.
    documents = _documents(episode) if is_literal else []
    claims += [claim for text in documents for claim in _check_literal(episode, evidence, text)]
    if not evidence.is_complete:
        for claim in claims:
            claim.status, claim.problem = "unverifiable", None
            claim.reason = "it may be in a part of an output that was cut or redacted"
    return claims


_VERBATIM = re.compile(
    r"\bverbatim|\bword[- ]for[- ]word|\bliteral|\bexact (?:words?|quotes?|lines?|wording)|\bdirect quotes?|\bwörtlich"
    r"|\bwortwörtlich|\bo-ton|\btextual|palabra por palabra|\btextuellement|mot pour mot|\bpalavra por palavra"
    r"|\bna íntegra|\bletterlijk|\btestual|parola per parola|\bdosłown|słowo w słowo|дословн|слово в слово"
    r"|\bkelimesi kelimesine|\baynen\b|原文|逐字|原话|一字一句|そのまま|그대로|원문|حرفي"
    r"|\bquotable|\bquotations?\b(?! for)|\bquotes? (?:from|by|of|that|what|the|him|her|them|it)\b|\bzitat|\bzitier"
    r"|\bcitations? de\b"
    r"|\bcite[rz]? |\bcitas? (?:de|textual|literal)|\bcitaç|\bcitazion|\bciteer|\bcitaten|\bcytat|\bcytuj|цитат"
    r"|процитир|\balıntı"
    r"|\bcitat\b|\bcitera|引用|引述|인용|اقتباس|اقتبس"
)
"""Words with which somebody asks for, or promises, the words of a source as they are."""
_MAY_BE_VERBATIM = re.compile(_VERBATIM.pattern.replace(r"\b", ""))
"""The same in any part of a word. It is much faster, because every match begins with one of a few letters."""


_OWN_WORDS = re.compile(
    r"\b(?:draft|compose|suggest|slogan|tagline|motto|story|poem|speech|toast|caption)|entw[iu]rf|formulier|vorschlag"
    r"|rédige|propose|redact|sugier|propón|escrev|suger|scriv|propon|opstel|stel voor|napisz|zaproponuj|напиши"
    r"|предложи|составь|taslak|öner|föreslå|skriv|起草|写一|草拟|建议|書いて|下書き|提案|초안|제안|اكتب|اقترح",
    re.IGNORECASE,
)
"""Requests for words of the agent itself."""


def _is_verbatim(lowered: str) -> bool:
    return _MAY_BE_VERBATIM.search(lowered) is not None and _VERBATIM.search(lowered) is not None


_PROSE = re.compile(r"\.(?:md|markdown|txt|rst|adoc|html?|docx?|eml|tex)$", re.IGNORECASE)
_CONTENTS = ("content", "text", "newText", "new_string", "new_str", "body", "append")


def _documents(episode: Episode) -> list[EpisodeText]:
    """Return the documents that the agent wrote for people to read."""
    found = []
    for call in episode.calls:
        if call.kind is Kind.CHANGE and any(map(_PROSE.search, named_paths(call.arguments))):
            arguments = decoded_arguments(call.arguments) or {}
            texts = [text for name in _CONTENTS if isinstance(text := arguments.get(name), str)]
            found += [EpisodeText(order=call.order, event_id=call.call_id, text=text, call=call) for text in texts]
    return found


def _check_literal(episode: Episode, evidence: Evidence, text: EpisodeText) -> list[CheckedClaim]:
    """Return the quoted_passages of a text that are in no output, if all of them are to be literal."""
    quoted = [one for one in quoted_passages(text.text) if not one.is_block and _is_checkable(one)]
    quoted += [Quotation(one.start(1), one.end(1), one[1], False) for one in _INLINE.finditer(text.text)]
    known = f"{evidence.results}\n{normalize(episode.request)}"
    source = _language_of_outputs(episode) if quoted else None
    return [
        _invented(text, one)
        for one in quoted
        if not _is_translated(one.text, source) and not _is_quoted_from(one.text, known)
    ]


_INLINE = re.compile(r"`([^`\n]*[^\W\d_]{2,}[ =:][^`\n]*[ =:][^`\n]{8,})`")
"""A line of a log in a sentence."""


def _language_of_outputs(episode: Episode) -> Language | None:
    """Return the language of what the agent has read; None if it is not known."""
    read = [call.text for call in episode.calls if call.kind is Kind.LOOKUP and call.meaning.state != "failure"]
    # Rows of data are in no language.
    lines = [line for text in read for line in text[:4000].splitlines() if line.count(" ") >= MIN_SPACES]
    return language_of("\n".join(lines)[:4000]) if lines else None


MIN_SPACES = 4
"""Minimum number of spaces in a line that is a sentence."""


def _check(
    episode: Episode, evidence: Evidence, text: EpisodeText, *, is_literal: bool, asked: bool
) -> list[CheckedClaim]:
    blocks = [_invented(text, one) for one in _output_like(text.text) if _is_made_up(one, evidence)]
    if not _MARKS.search(text.text):
        return blocks
    if (asked and text.call is None) or (is_literal and _VERBATIM.search(text.text.lower())):
        return blocks + _check_literal(episode, evidence, text)
    attributed = [
        stance.statement
        for stance in episode.speech(text).stances
        if stance.is_attributed and not stance.statement.is_quoted
    ]
    # Other quoted_passages are the agent's own words, such as the draft of a message.
    checkable = [one for one in quoted_passages(text.text) if not one.is_block and _is_checkable(one)]
    spoken = [one for one in checkable if _has_speaker(text.text, one, evidence)]
    # Comments on lines of their own are said to have been read: each with who wrote it, or if the agent only read.
    has_effects = any(call.has_effect for call in episode.calls) or _OWN_WORDS.search(episode.request) is not None
    spoken += [
        one
        for one in quoted_passages(text.text)
        if one not in spoken and _is_comment(text.text, one, is_signed=has_effects or one not in checkable)
    ]
    other = [one for one in checkable if one not in spoken and _is_near(one, attributed)]
    if not spoken and not other:
        return blocks
    source = _language_of_outputs(episode)
    # What the agent wrote into a file itself is no source of what somebody else said.
    given = normalize(episode.request)
    found = [(one, f"{evidence.results}\n{given}") for one in spoken]
    # If texts in several languages were read, what is quoted may be a translation.
    found += [(one, f"{evidence.seen}\n{given}") for one in other if not _has_foreign_lines(one.text, episode)]
    return blocks + [
        _invented(text, quotation)
        for quotation, known in found
        if not _is_translated(quotation.text, source) and not _is_quoted_from(quotation.text, known)
    ]


_MARKS = re.compile(r"[\"“«„「『]")


def _output_like(text: str) -> list[Quotation]:
    """Return the blocks of a text that can be an output: not code, not a command to type."""
    if "```" not in text and "~~~" not in text:
        return []
    found = [one for one in quoted_passages(text) if one.is_block]
    plain = [one for one in found if not _CODE_TAG.search(text[: one.start])]
    return [one for one in plain if not _COMMAND.search(one.text) or _RESULT.search(one.text)]


_COMMAND = re.compile(
    r"^\s*(?:[$#] \w|sudo |curl |git |npm |npx |pip |docker |kubectl |python3? |node |make |ssh |cd |export |apt |brew "
    r"|psql |aws |[A-Z_]{3,}=|\d{1,2} \d{1,2} [\d*]+ [\d*]+ )",
    re.MULTILINE,
)
"""A command to type, or a line of a file to copy."""
_RESULT = re.compile(
    r"\d\d:\d\d:\d\d|^\s*\[?(?:ERROR|WARN\w*|INFO|DEBUG|FATAL)\b|\b\d+ (?:passed|failed|rows?|errors?|ok)\b",
    re.MULTILINE,
)
"""What a command prints: a time, a level, or a count."""
_CODE_TAG = re.compile(
    r"(?:```|~~~)(?:py\w*|js|jsx|tsx?|java\w*|typescript|go|rust|c|cpp|cs|rb|ruby|php|sql|ya?ml|toml|ini|html|css"
    r"|xml|diff"
    r"|patch|dockerfile|make\w*|nginx|hcl|terraform|r|kotlin|swift)[ \t]*\n$",
    re.IGNORECASE,
)


def _is_made_up(block: Quotation, evidence: Evidence) -> bool:
    """Return whether several values of a block appear nowhere and follow from nothing, and its lines are new, too."""
    specific = [value for value in values_in(block.text) if value.kind != "number" or len(value.digits) >= MIN_DIGITS]
    known = f"{evidence.seen}\n{normalize(evidence.episode.request)}"
    unknown = {value.text for value in specific if value.text.lower() not in known and not _follows(value, evidence)}
    unknown |= {time for time in _CLOCK.findall(block.text) if time not in known}
    if len(unknown) < MIN_UNKNOWN or 3 * len(unknown) < len({value.text for value in specific}):
        return False
    lines = [line for line in block.text.splitlines() if _WORD.search(line)]
    return 3 * sum(not _is_quoted_from(line, known) for line in lines) >= 2 * len(lines)


def _follows(value: Value, evidence: Evidence) -> bool:
    return value.kind == "number" and evidence.supports(value)


MIN_DIGITS = 3
"""Minimum number of digits of a number in a block that says where it comes from."""
MIN_UNKNOWN = 2
"""Minimum number of values of a block that appear nowhere else."""
_CLOCK = re.compile(r"\d\d:\d\d:\d\d")


def _is_near(quotation: Quotation, attributed: list[Statement]) -> bool:
    return any(one.start - REACH <= quotation.start <= one.end for one in attributed)


def _has_speaker(text: str, quotation: Quotation, evidence: Evidence) -> bool:
    """Return whether a quotation stands beside the name of somebody whose words were read: `Ana: "…"`, `"…" — Ana`."""
    before = _SPEAKER.search(text[max(0, quotation.start - 80) : quotation.start])
    behind = _SIGNED.match(text[quotation.end : quotation.end + 60])
    for found in (before, behind):
        name = normalize(found[1]).strip(" *_`@") if found else ""
        if len(name) > 1 and name in evidence.results:
            return True
    return False


def _has_foreign_lines(text: str, episode: Episode) -> bool:
    """Return whether a line that the agent has read is in another language than a quotation."""
    own = language_of(text)
    lines = [line for call in episode.calls for line in call.text[:4000].splitlines() if line.count(" ") >= MIN_FOREIGN]
    found = {language_of(line) for line in lines[:MAX_LINES]} - {None, own}
    return own is not None and bool(found)


MIN_FOREIGN = 8
"""Minimum number of spaces in a line whose language is certain."""
MAX_LINES = 40
"""Maximum number of lines whose language is looked at."""


def _is_comment(text: str, quotation: Quotation, *, is_signed: bool) -> bool:
    """Return whether a quotation is a quoted line, with its author if it `is_signed`: `> "…" (customer, DE)`."""
    before = text[text.rfind("\n", 0, quotation.start) + 1 : quotation.start]
    is_line = before.strip(' "“«„').endswith(">") and not before.strip(' >"“«„')
    is_long = len(_WORD.findall(quotation.text)) >= MIN_COMMENT
    return (
        is_line and is_long and (not is_signed or _SIGNED.match(text[quotation.end : quotation.end + 60]) is not None)
    )


MIN_COMMENT = 4
"""Minimum number of words of a comment."""


def _is_translated(text: str, source: Language | None) -> bool:
    """Return whether a quotation is in another language than its source: it cannot be looked up."""
    own = language_of(text)
    return source is not None and own is not None and own is not source


def _is_checkable(quotation: Quotation) -> bool:
    if _UNSPACED.search(quotation.text):
        return len(quotation.text) >= MIN_UNSPACED
    return len(_WORD.findall(quotation.text)) >= MIN_WORDS and len(quotation.text) >= MIN_CHARACTERS


def _is_quoted_from(text: str, known: str) -> bool:
    """Return whether a third of the words of a text follow each other in a known one, too."""
    words, joint, size = _WORD.findall(normalize(text)), " ", 4
    if _UNSPACED.search(text):
        words, joint, size = list("".join(words)), "", 5
    size = min(size, max(1, len(words)))
    squeezed = joint.join(_WORD.findall(known))
    windows = [joint.join(words[at : at + size]) for at in range(len(words) - size + 1)]
    return sum(window in squeezed for window in windows) * 3 >= len(windows)


def _invented(text: EpisodeText, quotation: Quotation) -> CheckedClaim:
    return CheckedClaim(
        text=text,
        start=quotation.start,
        end=quotation.end,
        kind="quote",
        status="unsupported",
        reason="these words appear in nothing that the agent has read",
        problem=Problem(
            type=TYPE,
            about=("quotation",),
            severity="high",
            confidence=70,
            title="Quoted words that appear nowhere in what the agent has read",
            explanation=f"The text quotes “{excerpt(quotation.text, 120)}”, which no output contains.",
            recommendation="Have the agent quote only from texts that it has read, word for word.",
        ),
    )
