"""The agent says that it read, compared or tested something, and no call has looked at that."""

from __future__ import annotations

import re
from collections.abc import Iterator

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.deeds.capabilities import is_opaque
from critiqor.diagnosis.claims.deeds.looks import (
    Reference,
    brought_nothing,
    folded,
    is_answered_search,
    is_wall,
    references,
    refers_only,
)
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.disclosure import is_disclosed
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.language import small_words
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import Value, word_numbers
from critiqor.diagnosis.signals.text import stems, tokens
from critiqor.diagnosis.signals.tool_calls import words_of_tool
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

READING = ("inspect", "reconcile")
LOOKING = (*READING, "test", "visual", "rerun")
"""Classes of verbs with which an agent says that it looked at something."""
MIN_WORD = 4
"""Minimum number of letters of a word that names a source."""
MIN_SHARED = 2
"""Minimum number of words of a reference, and of nothing that was read, that name it."""
MAX_COUNT = 60
"""Maximum number of things that are counted."""
MIN_STEM = 4
STEM = 5
"""Number of letters by which words are compared: in any part of a call, and as the beginning of a word."""
MAX_STATEMENT = 500
"""Maximum number of characters of a statement that is examined."""
_BULK = re.compile(r"\*|\bfor \w+ in\b|\bxargs\b|-exec\b|\s-[rR]\b|--all\b|\bwhile\b|\bglob\(|\.iterdir\(|os\.walk")
"""Commands that read many files at once."""


def check_inspections(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the claims of looks for which there is no call."""
    if not episode.calls or episode.has_dropped:
        return []
    claims = []
    for text in (*episode.messages[-1:], *episode.outgoing):
        speech = episode.speech(text)
        if speech.language is None or not any(speech.mentions(f"actions.{name}") for name in LOOKING):
            continue
        for clause in _clauses(speech):
            claim = _claim(episode, evidence, text, speech, clause)
            if claim is not None:
                claims.append(claim)
    return claims


def _clauses(speech: Speech) -> Iterator[Stance]:
    """Yield the parts of statements that say that something was looked at."""
    for stance in speech.stances:
        if stance.is_question or stance.is_uncertain or stance.statement.cells or stance.statement.is_quoted:
            continue
        if len(stance.lowered) <= MAX_STATEMENT and any(speech.has(stance, f"actions.{name}") for name in LOOKING):
            yield from (part for part in _parts_of(speech, stance) if _looks(speech, part))


def _looks(speech: Speech, stance: Stance) -> bool:
    """Return whether a statement says that something was looked at; bad news may follow: I read it, and it is wrong."""
    verbs = [word for name in LOOKING for word in speech.words(stance, f"actions.{name}")]
    if not verbs:
        return False
    end = min(stance.lowered.find(word) + len(word) for word in verbs)
    before = speech.between(stance, 0, end)
    return not (before.is_bad_news or before.is_limited or _is_denied(speech, stance, end))


def _is_denied(speech: Speech, stance: Stance, end: int) -> bool:
    """Return whether the clause of a verb that ends at a place denies it: geprüft habe ich das nicht."""
    place = stance.statement.start + end
    return any(
        clause.is_bad_news and speech.negates_after and speech.has(clause, "negations")
        for clause in speech.clauses(stance)
        if clause.statement.start < place <= clause.statement.end
    )


def _parts_of(speech: Speech, stance: Stance) -> Iterator[Stance]:
    """Yield the parts of a statement that are facts, as long as only commas separate them: they are in lists."""
    start = stance.statement.start
    begin = end = 0
    for clause in speech.clauses(stance):
        place = clause.statement.start - start
        is_fact = not (clause.is_plan or clause.is_uncertain)
        if not is_fact or stance.lowered[end:place].strip() not in _COMMAS:
            if end > begin:
                yield speech.between(stance, begin, end)
            begin = place if is_fact else clause.statement.end - start
        end = clause.statement.end - start
    if end > begin:
        yield speech.between(stance, begin, end)


_COMMAS = ("", ",", "，", "、", "،")


def _claim(
    episode: Episode, evidence: Evidence, text: EpisodeText, speech: Speech, clause: Stance
) -> CheckedClaim | None:
    reads = any(speech.has(clause, f"actions.{name}") for name in READING)
    if reads and text.call is None:
        found = _unopened(evidence, clause)
        if found is not None:
            reason = f"{excerpt(found.key, 60)} was listed and never opened"
            return unsupported(text, clause, "source", reason=reason)
        reason = _too_few(evidence, speech, clause) or _partly_read(episode, text, speech, clause)
        if reason:
            return unsupported(text, clause, "sources", reason=reason)
        name = _unseen(evidence, speech, clause)
        if name:
            return unsupported(text, clause, "source", reason=f"{excerpt(name, 40)} appears in no call")
    if text.call is None and _is_unmatched(episode, evidence, speech, clause):
        return unsupported(text, clause, "look", reason="every recorded call is about something else")
    left = _left_out(evidence, text, clause)
    if left:
        names = ", ".join(excerpt(name, 30) for name in left[:3])
        return unsupported(text, clause, "check", reason=f"no call names {names}", kind="check")
    return None


def _opened(evidence: Evidence) -> list[EpisodeCall]:
    """Return the calls that can have shown the content of something."""
    return [call for call in evidence.calls if not refers_only(call) and not brought_nothing(call)]


def _unopened(evidence: Evidence, clause: Stance) -> Reference | None:
    """Return a reference that a clause names and that no call has opened."""
    listed = [(call, one) for call in evidence.calls for one in references(call)]
    if not listed:
        return None
    opened = _opened(evidence)
    arguments = " ".join(folded(call.arguments) for call in evidence.calls if not refers_only(call))
    said = stems(_content(clause.lowered))
    # Words that were read elsewhere, or searched for, do not name what was not opened.
    for call in opened:
        said = {stem for stem in said if not call.has_stem(stem)} - stems(call.words)
    for call, _ in listed:
        said -= stems(call.words)
    left = [one for _, one in listed if not _is_opened(one, arguments)]
    for _, one in listed:
        if one not in left:
            said -= stems(tokens(_words(one.text)))
    return next((one for one in left if len(said & stems(_content(one.text))) >= MIN_SHARED), None)


def _is_opened(one: Reference, arguments: str) -> bool:
    key = folded(one.key).removeprefix("https://").removeprefix("http://").removeprefix("www.")
    host, slash, _ = key.partition("/")
    return key.rsplit("/", 1)[-1] in arguments or (bool(slash) and host in arguments)


def _words(text: str) -> str:
    return re.sub(r"[_./-]", " ", text)


def _content(text: str) -> set[str]:
    return {word for word in tokens(_words(text)) if len(word) >= MIN_WORD} - small_words()


def _too_few(evidence: Evidence, speech: Speech, clause: Stance) -> str:
    """Return why fewer things were read than a clause says; empty if not."""
    counts = list(_counts(speech, clause))
    for value in counts:
        if _SOURCE.match(speech.text, value.end) and not any(map(is_opaque, evidence.calls)):
            read = {
                call.arguments for call in evidence.calls if not brought_nothing(call) and not is_answered_search(call)
            }
            if len(read) < value.number and not any(_lists(call, value.number) for call in evidence.calls):
                return f"only {counted(len(read), 'call')} read anything"
            continue
        noun = _NOUN.match(speech.lowered, value.end)
        if noun is None:
            continue
        stem = folded(noun[1])[:5]
        lists = [{folded(one.key).rsplit("/", 1)[-1] for one in references(call)} for call in evidence.calls]
        named = {name for names in lists for name in names if stem in name}
        if len(named) < value.number:
            # A list with just as many entries is what is counted, whatever they are called.
            named = next((names for names in lists if len(names) == value.number), set())
        opened = _opened(evidence)
        if len(named) < value.number or any(_BULK.search(call.line) for call in opened):
            continue
        seen = {name for name in named if any(name in folded(call.arguments) for call in opened)}
        is_stated = any(one.number <= len(seen) for one in counts)  # three of the four
        if seen and len(seen) < value.number and not is_stated:
            return f"only {len(seen)} of {len(named)} listed files were opened"
    return ""


_SOURCE = re.compile(
    r"\s?(?:[^\W\d_]+\s){0,2}?(?:portal\w*|sites?|websites?|webseiten|shops?|stores?|läden|anbieter\w*|providers?"
    r"|vendors?"
    r"|sources?|quellen|papers?|studies|studien|articles?|artikel\w*|études|articoli|artículos|artigos|tiendas|lojas"
    r"|negozi|boutiques|insurers?|aseguradoras|seguradoras|airlines|fuentes|fontes|fonti|proveedores|fornecedores"
    r"|sklep\w*"
    r"|magasins|winkels|bronnen|źród\w+|källor|kaynak\w*|сайт\w*|магазин\w*|источник\w*|стат(?:ьи|ей)|site'?\w*)\b"
    r"|\s?(?:家|个)?(?:网站|平台|来源|篇)"
    r"|\s?(?:店舗|サイト|社|つのサイト|[本件]の論文|곳|개 사이트|편의 논문|مصادر)",
    re.IGNORECASE,
)
"""Things that are read one by one, and whose names need not be in the call."""


def _lists(call: EpisodeCall, count: float) -> bool:
    """Return whether an output holds so many entries, so that one call can have read them all."""
    if is_answered_search(call):
        return False
    return max(call.text.count('{"'), call.text.count("\n- "), call.text.count("http")) >= count > 0 and (
        _NAMES_ONLY.search(call.text) is None
    )


_NAMES_ONLY = re.compile(r"^@\w+\{", re.MULTILINE)
"""A list of references: it names sources and holds nothing of them."""


def _counts(speech: Speech, clause: Stance) -> Iterator[Value]:
    begin = clause.statement.start
    found = [value for value in speech.values_of(clause) if value.kind == "number" and value.decimals == 0]
    for value in word_numbers(clause.statement.text, speech.language):
        found.append(Value("number", begin + value.start, begin + value.end, value.text, value.readings))
    yield from (value for value in found if value.readings and 2 <= value.number <= MAX_COUNT)


_NOUN = re.compile(r"\s?([^\W\d_]{2,})")


def _partly_read(episode: Episode, text: EpisodeText, speech: Speech, clause: Stance) -> str:
    """Return why something was not read as a whole; empty if it may have been, or nobody says so."""
    if not speech.has(clause, "totality") or clause.is_bad_news:
        return ""
    for call in episode.calls:
        is_part = call.meaning.state != "failure" and (is_wall(call) or _SNIPPET.search(call.text))
        if is_part and not is_disclosed(episode, call, text):
            return f"{call.name}: only a part of it was shown"
    return ""


_SNIPPET = re.compile(r'"(?:snippet|excerpt|teaser)":\s?"')


def _unseen(evidence: Evidence, speech: Speech, clause: Stance) -> str:
    """Return the name of that with which the agent says it compared something, if it appears nowhere."""
    language = speech.language
    if language is None or language.code == "de" or not language.conduct.mentions("self", clause.lowered):
        return ""  # in German, every noun looks like a name
    hits = [clause.lowered.find(word) for word in speech.words(clause, "actions.reconcile")]
    names = [match[0] for match in _PROPER.finditer(clause.statement.text, min(hits))] if hits else []
    dates = {*language.months, *language.weekdays} if names else set()
    names = [name for name in names if name.lower() not in dates]
    known = f"{evidence.seen}\n{evidence.episode.request.lower()}\n{' '.join(call.tool for call in evidence.calls)}"
    return names[0] if names and not any(name.lower() in known for name in names) else ""


_PROPER = re.compile(r"(?<=[\w,] )[A-Z][\w&-]{3,}|(?<=[\w,] )[A-Z]{3,}\b")


def _is_unmatched(episode: Episode, evidence: Evidence, speech: Speech, clause: Stance) -> bool:
    """Return whether the agent says that it looked at something else, too, and no call is left for that.

    Each call is what another statement is about, or cannot look at anything.
    """
    if len(episode.request) > MAX_REQUEST:
        return False
    looks = [call for call in evidence.calls if call.kind not in (Kind.ACTION, Kind.CHANGE)]
    stance = next(one for one in speech.stances if one.statement.start <= clause.statement.start < one.statement.end)
    if not speech.is_own(clause):
        return False
    verbs = {part for name in LOOKING for verb in speech.words(stance, f"actions.{name}") for part in verb.split()}
    said = {word for word in _topic(stance.lowered) - verbs if _OWN_WORK.search(word) is None}
    # What follows may be what the look has shown: I checked the cluster. All pods are running.
    start = stance.statement.start
    elsewhere = stems(_topic(speech.lowered[:start]))
    is_asked = _asks_for(episode, {word for word in said if word[:STEM] not in elsewhere})
    if not said or not (is_asked or not looks or _TOO.search(clause.lowered)):
        return False
    numbers = {value.digits for value in speech.values if value.start < start}
    for call in evidence.calls:
        around = f"{call.tool} {call.facts} {call.text}".lower()
        if any(word[:MIN_STEM] in around for word in said) or is_opaque(call):
            return False
        about = stems(call.words) | stems(set(words_of_tool(call.tool)))
        is_reported = not elsewhere.isdisjoint(about) or any(map(call.has_stem, elsewhere))
        if call in looks and not (is_reported or numbers & {str(digits) for digits in call.digits}):
            return False  # it may be the look that the clause speaks of
    return True


def _asks_for(episode: Episode, said: set[str]) -> bool:
    """Return whether the user has named what a clause is about, in English: the names of tools are, too."""
    language = episode.language
    is_english = language is not None and language.code == "en"
    return is_english and any(len(word) >= MIN_NAMED and word in episode.topics for word in said)


MIN_NAMED = 6
"""Minimum number of letters of a word of the request that says what was to be looked at."""
_TOO = re.compile(
    r"\b(?:also|too|as well|additional(?:ly)?|in addition|besides|furthermore|moreover|on top|auch|zusätzlich"
    r"|außerdem|zudem"
    r"|ebenfalls|darüber hinaus|aussi|également|en plus|par ailleurs|también|además|igualmente|também|além disso|ainda"
    r"|anche|inoltre|ook|daarnaast|bovendien|tevens|też|także|również|ponadto|dodatkowo|также|тоже|кроме того|ayrıca"
    r"|också"
    r"|även|dessutom)\b|另外|还|還|也|此外|同时|また|も確認|さらに|加えて|또한|추가로|도 확인|أيضا|كذلك"
)


def _topic(text: str) -> set[str]:
    return {word for word in tokens(text) if len(word) >= MIN_WORD or not word.isascii()} - small_words()


MAX_REQUEST = 300
"""Maximum number of characters of a request that holds no material of its own."""
_OWN_WORK = re.compile(
    r"arithm|calcul|comput|\bsum|total|math|spell|gramm|typo|wording|draft|logic|formul|figure|number|rechn|summ"
    r"|tipp|schreib"
    r"|zahl|cálcul|número|cuenta|calc|orto|chiffre|somm|conti|cijfer|reken|liczb|oblicz|расч|числ|сумм|hesap|sayı"
    r"|räkn|siffr"
)
"""What an agent checks without any call: its own arithmetic and its own words."""
_NAME = r"(?:[A-Z][\w.+-]*\w|[A-Z]{2,}\d*)"
_LIST = re.compile(rf"{_NAME}(?:(?:,| and| und| et| y| e| en| och| i| ve| oraz|,? &|/)\s?{_NAME})+")
_SPLIT = re.compile(r", | (?:and|und|et|y|e|en|och|i|ve|oraz) | & |/|,")


def _left_out(evidence: Evidence, text: EpisodeText, clause: Stance) -> list[str]:
    """Return the names of a list that no call mentions, if the arguments of one select another name of it."""
    for match in _LIST.finditer(clause.statement.text):
        names = [name.strip() for name in _SPLIT.split(match[0]) if len(name.strip()) >= 3]
        calls = [call for call in evidence.calls if call is not text.call]
        left = [name for name in names if not any(name.lower() in part for call in calls for part in _parts(call))]
        selected = [name for name in names if any(name.lower() in call.facts.lower() for call in calls)]
        if left and selected and len(left) + len(selected) == len(names):
            return left
    return []


def _parts(call: EpisodeCall) -> tuple[str, str]:
    return call.facts.lower(), call.lowered
