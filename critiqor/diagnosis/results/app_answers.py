"""What the answer of an app tool means, that is of a tool which runs no command line."""

from __future__ import annotations

import re
from functools import cache, lru_cache

from critiqor.diagnosis.results.json_answers import decoded, leaves_of_xml, meaning_of_json
from critiqor.diagnosis.results.lines import read_lines
from critiqor.diagnosis.results.meaning_struct import MAX_QUOTE, UNKNOWN, Meaning
from critiqor.diagnosis.results.rules import ANY_ACTION, ANY_ANSWER, RuleSet, rules_for, short_set
from critiqor.diagnosis.results.state_words import has_same_stem, state_words
from critiqor.diagnosis.signals.tool_calls import kind_of, words_of_tool
from critiqor.spans.calls import Kind

_PROCESS_WORDS = frozenset(
    [
        "job",
        "build",
        "deploy",
        "deployment",
        "run",
        "workflow",
        "pipeline",
        "check",
        "checks",
        "delivery",
        "status",
        "health",
        "export",
        "import",
        "migration",
        "backup",
    ]
)
_LIST_WORDS = frozenset(("list", "search", "find", "history", "log", "logs", "query"))
_DRY_RUN = re.compile(r'"(?:dry_?run|preview_?only|validate_?only|simulate|what_?if)":(?:true|"true")', re.IGNORECASE)
_SQL_CHANGE = re.compile(
    r'"(?:sql|query|statement|stmt|queries|statements)":\[?"(?:[^"\\]|\\.){0,400}?(?<![\w.])'
    r"(?:update|insert\s+into|delete\s+from|merge\s+into|alter\s+\w+|create\s+\w+|drop\s+\w+|truncate|copy)\s",
    re.IGNORECASE,
)
"""A statement that changes a database, in the arguments of a tool."""
_MAX_STATEMENT = 400
"""Maximum number of characters of an answer of a lookup that is a statement about the call and no content."""
_MAX_OPENING = 600


def meaning_of_answer(tool: str, arguments: str, text: str, reported_failure: bool) -> Meaning:
    """Return what the answer of an app tool means. `text` has no terminal colours."""
    kind = kind_of(tool, arguments)
    parts = words_of_tool(tool)
    is_lookup = kind is Kind.LOOKUP and (parts.isdisjoint(_PROCESS_WORDS) or not parts.isdisjoint(_LIST_WORDS))
    is_lookup = is_lookup or (kind is Kind.OTHER and not app_tool_changes(tool, arguments))
    value = decoded(text)
    if value is None and text.lstrip()[:1] == "<":
        value = leaves_of_xml(text)
    if value is not None:
        said = meaning_of_json(value, text, parts, lookup=is_lookup, arguments=arguments)
        if said.state == "unknown" and isinstance(value, dict) and len(value) <= 4:
            said = _message(value, text, is_lookup)
    elif _SQL_CHANGE.search(arguments):
        said = read_lines(text, _database_rules()) or UNKNOWN
    else:
        said = _statement(text, is_lookup or kind is Kind.LOOKUP)
    if reported_failure and said.state != "failure":
        return Meaning("failure", "reported as failed", rule="reported")
    if said.state in ("unknown", "success") and '":' in arguments and _DRY_RUN.search(arguments):
        return Meaning("not_final", "dry run", rule="dry_run")
    return said


def app_tool_changes(tool: str, arguments: str) -> bool:
    """Return whether a tool with unknown words changes something: `train_reserve` does, `sprint_board` does not."""
    return _has_verb(words_of_tool(tool)) or any(
        _has_verb(words_of_tool(found)) for found in _ACTION.findall(arguments)
    )


@lru_cache(maxsize=512)
def _has_verb(parts: frozenset[str]) -> bool:
    verbs = state_words().lists["acting_verbs"]
    if not verbs.isdisjoint(parts) or any(part.removesuffix("s") in verbs for part in parts):
        return True
    # Other forms of long verbs: `prenota` of `prenotare`.
    return any(
        has_same_stem(part, verb) for part in parts if len(part) >= _MIN_VERB for verb in verbs if len(verb) > _MIN_VERB
    )


_MIN_VERB = 6
_ACTION = re.compile(r'"(?:action|service|operation|op|method|verb)":"([\w.-]{1,60})"')


def _statement(text: str, is_lookup: bool) -> Meaning:
    """Return what an answer in plain words says in its first lines."""
    size = len(text)
    if is_lookup and size > _MAX_STATEMENT:
        return UNKNOWN
    end = size
    if is_lookup or size > _MAX_OPENING:
        first = len(text) - len(text.lstrip())
        end = text.find("\n", first, first + _MAX_OPENING)
        end = min(size, first + _MAX_OPENING) if end < 0 else end
    return read_lines(text, _rules(is_lookup), limit=end) or UNKNOWN


@cache
def _database_rules() -> RuleSet:
    """Return the rules for the answer to a statement: tools pass on what the client of the database prints."""
    databases = rules_for("psql", "mysql", "mariadb", "sqlite3", "mongosh").rules
    return short_set((*databases, *rules_for(ANY_ANSWER).rules))


@lru_cache(maxsize=2)
def _rules(is_lookup: bool) -> RuleSet:
    if not is_lookup:
        return short_set(rules_for(ANY_ANSWER, ANY_ACTION).rules)
    return short_set(rule for rule in rules_for(ANY_ANSWER).rules if rule.data.state == "failure")


def _message(value: dict[str, object], text: str, is_lookup: bool) -> Meaning:
    """Return what the message of a small JSON object says, such as `{"message": "Not Found"}`."""
    message = next((value[name] for name in ("message", "detail", "msg", "text") if name in value), None)
    if not isinstance(message, str) or len(message) > _MAX_STATEMENT:
        return UNKNOWN
    said = read_lines(message, _rules(is_lookup))
    if said is None or said.state == "success":
        return UNKNOWN
    start = text.find(message[:60])
    return Meaning(said.state, said.reason, message[:MAX_QUOTE], start, said.rule)
