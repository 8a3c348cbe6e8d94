"""What the answer to an HTTP request means that `curl`, `wget` or HTTPie printed."""

from __future__ import annotations

import re
from functools import lru_cache

from critiqor.diagnosis.results.json_answers import decoded, meaning_of_json
from critiqor.diagnosis.results.meaning_struct import MAX_QUOTE, UNKNOWN, Meaning
from critiqor.diagnosis.results.programs import Program
from critiqor.diagnosis.results.state_words import http_state

_STATUS_LINE = re.compile(r"^(?:< )?HTTP/[\d.]{1,3} (\d{3})\b[^\n]{0,80}", re.MULTILINE)
_ERROR_PAGE = re.compile(r"<(?:title|h1)>\s*([45]\d\d) [A-Z][\w -]{2,40}</", re.IGNORECASE)
_SENDING = re.compile(r"(?:-X|--request)=?(?:POST|PUT|PATCH|DELETE)$", re.IGNORECASE)
_DATA = ("-d", "--data", "-F", "--form", "-T", "--upload-file", "--json", "--post-data", "--post-file", "--mail-rcpt")
_PROCESS = re.compile(
    r"/(?:status|health\w*|ready\w*|live\w*|jobs?|builds?|deploy\w*|runs?|pipelines?|workflows?|tasks|exports?|imports?|checks?)"
    r"(?:[/?.]|$)"
)
_METHODS = frozenset(("POST", "PUT", "PATCH", "DELETE"))


def sends(program: Program) -> bool:
    """Return whether an HTTP request changes something, so that its answer and not its arrival matters."""
    words = program.words
    for index, word in enumerate(words):
        if word in _METHODS or word.startswith(_DATA) or _SENDING.match(word):
            return True
        if word in ("-X", "--request", "--method") and index + 1 < len(words) and words[index + 1].upper() in _METHODS:
            return True
    return False


def meaning_of_transfer(program: Program, text: str) -> Meaning:
    """Return what the answer to an HTTP request means; unknown if it says nothing."""
    body, body_start, meaning = text, 0, UNKNOWN
    if "HTTP/" in text[:8000]:
        statuses = list(_STATUS_LINE.finditer(text, 0, 8000))
        if statuses:
            last = statuses[-1]
            meaning = _status_meaning(int(last[1]), last[0], last.start())
            gap = re.compile(r"\n\s*\n|\n(?=[{\[])").search(text, last.end())
            body_start = gap.end() if gap else len(text)
            body = text[body_start:]
    elif (pattern := _printed_status(program)) and (found := pattern.search(text, max(0, len(text) - 400))):
        meaning = _status_meaning(int(found[1]), found[1], found.start(1))
        body = text[: found.start(1)]
    if meaning.state == "failure":
        return meaning
    value = _json(body)
    if value is not None:
        verbs = frozenset(part for word in program.words[1:] for part in re.findall(r"[a-z]+", word[:200].lower()))
        is_lookup = not sends(program) and not any(_PROCESS.search(word) for word in program.words)
        said = meaning_of_json(value, text, verbs & _INTENT, lookup=is_lookup)
        if said.state in ("failure", "not_final") or meaning.state == "unknown":
            return said
    elif len(body) < 2048 and (page := _ERROR_PAGE.search(body)):
        return _status_meaning(int(page[1]), page[0], body_start + page.start())
    return meaning


_INTENT = frozenset(
    ("cancel", "draft", "drafts", "schedule", "queue", "stop", "abort", "reject", "void", "revoke", "terminate")
)


def _printed_status(program: Program) -> re.Pattern[str] | None:
    """Return the pattern of what `-w '%{http_code} %{time_total}'` prints after the answer; None without it."""
    word = next((word for word in program.words if "http_code}" in word or "response_code}" in word), None)
    return _status_pattern(word) if word else None


@lru_cache(maxsize=64)
def _status_pattern(form: str) -> re.Pattern[str]:
    # What comes before the status on its line may also end the answer.
    _, _, after = re.split(r"(%\{(?:http_code|response_code)\})", form, maxsplit=1)
    after = re.sub(r"\\[nrt]|\s+", " ", after)
    parts = [re.escape(part).replace(r"\ ", r"\s+") for part in re.split(r"%\{\w+\}", after.rstrip())]
    return re.compile(r"(?<![\d.])([1-5]\d\d)" + r"\S{1,40}".join(parts) + r"\s*$")


def _json(body: str) -> object:
    value = decoded(body)
    if value is None and body[:1] in "{[" and "\n" in body:
        value = decoded(body.strip().rpartition("\n")[0])  # a printed figure may follow
    return value


def _status_meaning(status: int, quote: str, start: int) -> Meaning:
    state = http_state(status)
    if state is None:
        return UNKNOWN
    return Meaning(state, f"HTTP status {status}", quote.strip()[:MAX_QUOTE], start, "http_status")
