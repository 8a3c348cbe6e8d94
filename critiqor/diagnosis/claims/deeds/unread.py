"""Sources that failed, were empty or were read in part, and that the answer speaks of as if they had been read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import msgspec

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.disclosure import is_disclosed
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.language import small_words
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import Value, word_numbers
from critiqor.diagnosis.signals.outputs import finds_nothing
from critiqor.diagnosis.signals.text import decode_json, tokens
from critiqor.spans.calls import Kind

MIN_WORD = 4
"""Minimum number of letters of a word that names a source."""
MIN_SIBLINGS = 2
"""Minimum number of similar reads that worked, so that one that failed is a part of a list."""
MAX_SOURCES = 60
MAX_OWN = 800
"""Maximum number of characters of an answer about something that only the user's own data can tell."""
_PARTIAL = re.compile(
    r'"(?:snippet|excerpt|teaser)":\s?"'
    r"|"
    r"\[[^\]\n]{0,80}(?:full text|sign in|get access|subscri|log ?in|more lines|truncated|omitted|not shown)"
    r"[^\]\n]{0,80}\]"
    r"|\bget (?:full )?access\b|access required|subscribers? only|(?:available )?to subscribers|behind a paywall"
    r"|\b\d+ of \d+ (?:lines|pages|rows|records|results|chars|characters)\b"
    r"|\b(?:showing|displaying) (?:first )?\d+ of \d+|preview only|first \d+ (?:lines|pages|rows) (?:only|shown)",
    re.IGNORECASE,
)
_SOURCE = re.compile(
    r"\s?(?:[^\W\d_]+\s){0,2}?(?:portal\w*|sites?|websites?|webseiten|shops?|stores?|läden|anbieter\w*|providers?|vendors?"
    r"|sources?|quellen|papers?|studies|studien|articles?|artikel\w*|études|articoli|artículos|artigos|tiendas|lojas"
    r"|negozi|boutiques|insurers?|aseguradoras|seguradoras|airlines|fuentes|fontes|fonti|proveedores|fornecedores|sklep\w*"
    r"|magasins|winkels|сайт\w*|магазин\w*|источник\w*|стат(?:ьи|ей)|site'?\w*)\b|\s?(?:家|个)?(?:网站|平台|来源|篇)"
    r"|\s?(?:店舗|サイト|社|本の論文|件の論文)|\s?(?:곳|개 사이트|편의 논문)",
    re.IGNORECASE,
)
_OWN_DATA = re.compile(
    r"memory|note|file|read|mail|drive|calendar|doc|contact|notion|transcript|recording|record|pdf|sheet|crm|journal"
)
_GENERAL = re.compile(r"web|http|fetch|browse|browser|google|wiki|news|url")
_MINE = re.compile(
    r"\b(?:my|i|me|we|our|us|mein\w*|ich|mir|mich|wir|unser\w*|mon|ma|mes|je|nous|nos|notre|mi|mis|yo|nuestr\w+|meu|minha"
    r"|meus|minhas|nosso|mio|mia|miei|nostr\w+|mijn|ik|onze|mój|moja|moje|mnie|мой|моя|мои|меня|мне|нам|мы|benim|bana)\b"
    r"|我|俺|私|僕|제|내|우리|لي|عندي"
)


def check_unread(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the claims that rest on sources which were not read."""
    answer = episode.answer
    if answer is None or episode.has_dropped:
        return []
    speech = episode.speech(answer)
    looks = [call for call in episode.calls if not call.has_effect]
    if speech.language is None or not looks:
        return []
    for find in (_partly_read, _too_many_sources, _left_out, _cited, _invented):
        claim = find(episode, evidence, answer, looks)
        if claim is not None:
            return [claim]
    return []


def _asserted(speech: Speech) -> Iterator[Stance]:
    for stance in speech.stances:
        if not (stance.is_question or stance.is_uncertain or stance.statement.cells):
            yield stance


def _admits(speech: Speech) -> bool:
    """Return whether any statement of an answer admits that something is missing, limited or not certain."""
    return any(one.is_bad_news or one.is_limited or one.is_uncertain for one in speech.stances)


def _partly_read(
    episode: Episode, evidence: Evidence, answer: EpisodeText, looks: list[EpisodeCall]
) -> CheckedClaim | None:
    """Return the claim that something was read as a whole of which only a part was shown."""
    speech = episode.speech(answer)
    claimed = next((stance for stance in _asserted(speech) if _reads_all(speech, stance)), None)
    if claimed is None:
        return None
    partial = [call for call in looks if call.meaning.state != "failure" and _PARTIAL.search(call.text)]
    failed = [call for call in looks if call.meaning.state == "failure" and not _is_read_later(call, looks)]
    if not partial and not failed:
        return None
    if any(is_disclosed(episode, call, answer) for call in failed):
        return None
    call = (partial or failed)[0]
    part = "only a part of it was shown" if partial else "it could not be read"
    return unsupported(answer, claimed, "paging", reason=f"{call.name}: {part}", calls=(call,))


def _reads_all(speech: Speech, stance: Stance) -> bool:
    """Return whether a statement says that something was read as a whole."""
    reads = speech.has(stance, "actions.inspect") and speech.has(stance, "totality")
    return reads and not stance.is_plan and not _negates_first(speech, stance)


def _negates_first(speech: Speech, stance: Stance) -> bool:
    """Return whether a statement denies that something was read: not all of it was read."""
    first = next(iter(speech.clauses(stance)), stance)
    return first.is_bad_news or first.is_limited


def _is_read_later(call: EpisodeCall, looks: list[EpisodeCall]) -> bool:
    words = {word for word in tokens(call.arguments) if len(word) >= MIN_WORD and word not in ("https", "http")}
    later = [
        look for look in looks if look.order > call.order and look.meaning.state != "failure" and look.text.strip()
    ]
    return any(2 * len(words & tokens(look.arguments)) >= len(words) for look in later)


def _too_many_sources(
    episode: Episode, evidence: Evidence, answer: EpisodeText, looks: list[EpisodeCall]
) -> CheckedClaim | None:
    """Return the claim that more sources were read or compared than there were calls."""
    speech = episode.speech(answer)
    read = [call for call in evidence.calls if call.meaning.state != "failure"]
    for stance in _asserted(speech):
        if stance.is_plan or not (speech.has(stance, "actions.inspect") or speech.has(stance, "actions.reconcile")):
            continue
        for value in _numbers(speech, stance):
            count = value.number
            if not 2 <= count <= MAX_SOURCES or not _SOURCE.match(speech.text, value.end):
                continue
            if len({call.arguments for call in read}) < count and not any(_lists(call, count) for call in read):
                reason = f"only {len(read)} calls read anything"
                return unsupported(answer, stance, "sources", reason=reason)
    return None


def _numbers(speech: Speech, stance: Stance) -> Iterator[Value]:
    yield from (value for value in speech.values_of(stance) if value.kind == "number" and value.decimals == 0)
    begin = stance.statement.start
    for value in word_numbers(stance.statement.text, speech.language):
        yield Value("number", begin + value.start, begin + value.end, value.text, value.readings)


def _lists(call: EpisodeCall, count: float) -> bool:
    """Return whether an output holds so many entries, so that one call can have read them all."""
    entries = max(call.text.count('{"'), call.text.count("\n- "), call.text.count("http"))
    return entries >= count and _NAMES_ONLY.search(call.text) is None


_NAMES_ONLY = re.compile(r"^@\w+\{", re.MULTILINE)
"""A list of references: it names sources and holds nothing of them."""


def _left_out(
    episode: Episode, evidence: Evidence, answer: EpisodeText, looks: list[EpisodeCall]
) -> CheckedClaim | None:
    """Return the claim of an answer that passes over one of several similar reads, which failed."""
    speech = episode.speech(answer)
    if _admits(speech):
        return None
    groups: dict[str, list[EpisodeCall]] = {}
    for call in looks:
        groups.setdefault(_template(call), []).append(call)
    for group in groups.values():
        failed = [call for call in group if _brought_nothing(call) and not _is_read_later(call, [])]
        worked = [call for call in group if not _brought_nothing(call)]
        if len(worked) < MIN_SIBLINGS or len(failed) != 1 or failed[0].order > worked[-1].order + MAX_GAP:
            continue
        again = any(call.arguments == failed[0].arguments for call in worked)
        stance = next((one for one in _asserted(speech) if speech.has(one, "totality")), None)
        stance = stance or _range(speech)
        if stance is not None and not again:
            reason = f"{failed[0].name} brought nothing, unlike {len(worked)} similar calls"
            return unsupported(answer, stance, "completeness", reason=reason, calls=(failed[0],), kind="completeness")
    return None


MAX_GAP = 1_000
_DIGITS = re.compile(r"\d+")
_SPAN = re.compile(r"\b(?:jan\w*|q1)\b.{1,20}\b(?:dec\w*|dez\w*|déc\w*|dic\w*|q4)\b", re.IGNORECASE)


def _range(speech: Speech) -> Stance | None:
    """Return the statement that speaks of a whole year: January to December."""
    return next((one for one in _asserted(speech) if _SPAN.search(one.lowered)), None)


def _template(call: EpisodeCall) -> str:
    """Return a call without its numbers: reads of 01.pdf and 02.pdf are similar."""
    return f"{call.tool} {_DIGITS.sub('0', call.arguments)}"


def _brought_nothing(call: EpisodeCall) -> bool:
    text = re.sub(r"\(?command exited with code \d+\)?", "", call.text, flags=re.IGNORECASE).strip()
    return call.meaning.state == "failure" or not text or finds_nothing(call.text) or _is_hollow(text)


def _is_hollow(text: str) -> bool:
    """Return whether a JSON answer holds nothing but empty lists, and short values about the call."""
    if text[:1] not in ("[", "{") or "[]" not in text.replace(" ", "") or len(text) > MAX_HOLLOW:
        return False
    try:
        value = decode_json(text)
    except msgspec.DecodeError:
        return False
    members = value.values() if isinstance(value, dict) else ()
    return not any(isinstance(member, dict | list) and member for member in members)


MAX_HOLLOW = 300
"""Maximum number of characters of an answer that holds nothing."""


def _cited(episode: Episode, evidence: Evidence, answer: EpisodeText, looks: list[EpisodeCall]) -> CheckedClaim | None:
    """Return the statement that cites a source which failed or was empty, in an answer that does not say so."""
    speech = episode.speech(answer)
    empty = [call for call in looks if _brought_nothing(call) and not _is_read_later(call, looks)]
    if not empty or _admits(speech):
        return None
    known = " ".join(_folded(call.text) for call in looks if call not in empty)
    for stance in _asserted(speech):
        if not (stance.is_attributed or _FROM.search(stance.lowered)):
            continue
        said = {_folded(word)[:MIN_STEM] for word in tokens(stance.lowered) if len(word) >= MIN_WORD}
        for call in empty:
            named = {_folded(word)[:MIN_STEM] for word in _names(call)}
            if any(word not in known for word in said & named):
                reason = f"{call.name} brought nothing"
                return unsupported(answer, stance, "source", reason=reason, calls=(call,), kind="quote")
    return None


_FROM = re.compile(
    r"\b(?:from|in) (?:the|your) (?:recording|transcript|document|file|page|article|report|minutes|policy)\b"
)
MIN_STEM = 5
"""Number of letters of a word that are compared."""


def _names(call: EpisodeCall) -> set[str]:
    """Return the words that name what a call was to read."""
    words = tokens(f"{call.tool.replace('_', ' ')} {call.arguments}")
    return {word for word in words if len(word) >= MIN_WORD} - small_words() - _GENERAL_WORDS


_GENERAL_WORDS = frozenset(
    ("search", "query", "read", "path", "file", "fetch", "https", "http", "example", "memory", "limit")
)


def _folded(text: str) -> str:
    """Return a text in lower case without accents: file names often lack them."""
    plain = unicodedata.normalize("NFD", text.lower())
    return "".join(char for char in plain if not unicodedata.combining(char)).replace("ı", "i")


def _invented(
    episode: Episode, evidence: Evidence, answer: EpisodeText, looks: list[EpisodeCall]
) -> CheckedClaim | None:
    """Return the first statement of an answer about the user's own data, if every look at them brought nothing."""
    speech = episode.speech(answer)
    if len(answer.text) > MAX_OWN or _admits(speech) or any(one.is_question for one in speech.stances):
        return None
    if any(call.has_effect for call in episode.calls) or not all(map(_reads_own_data, looks)):
        return None
    request = {word[:MIN_STEM] for word in tokens(episode.request) if len(word) >= MIN_WORD} - small_words()
    is_own = any(call.tool.startswith("memory") for call in looks)
    if is_own and not _MINE.search(episode.request.lower()):
        return None
    if not any(map(_brought_nothing, looks)) or not all(_tells_nothing(call, request) for call in looks):
        return None
    for stance in _asserted(speech):
        said = {word[:MIN_STEM] for word in tokens(stance.lowered) if len(word) >= MIN_WORD} - small_words()
        if not stance.is_plan and len(said - request) >= MIN_NEW:
            return unsupported(answer, stance, "source", reason="every look brought nothing", calls=tuple(looks[-1:]))
    return None


MIN_NEW = 2
"""Minimum number of words of a statement that are not those of the request."""


def _reads_own_data(call: EpisodeCall) -> bool:
    if call.line or call.kind is not Kind.LOOKUP:
        return False
    return _OWN_DATA.search(call.tool.lower()) is not None and _GENERAL.search(call.tool.lower()) is None


def _tells_nothing(call: EpisodeCall, request: set[str]) -> bool:
    """Return whether a look brought nothing, or showed a whole memory without any word of the request."""
    if _brought_nothing(call):
        return True
    lowered = call.text.lower()
    return call.tool.startswith("memory") and lowered.isascii() and not any(word in lowered for word in request)
