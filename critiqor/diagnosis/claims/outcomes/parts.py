"""Parts of a result that are in trouble although the call as a whole succeeded: rows, counts, items and remarks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.claims.language import Language, language_of
from critiqor.diagnosis.claims.outcomes.troubled_rows import (
    MAX_LINES,
    SHARE,
    Judge,
    Part,
    Row,
    bad_word,
    is_harmless,
    parts_of_rows,
    parts_of_text,
)
from critiqor.diagnosis.claims.speech import Speech
from critiqor.diagnosis.results import Meaning
from critiqor.diagnosis.results.app_answers import app_tool_changes
from critiqor.diagnosis.results.command_results import plan_of
from critiqor.diagnosis.results.json_answers import decoded, states_of
from critiqor.diagnosis.results.json_items import item_name, names_of
from critiqor.diagnosis.results.meaning_struct import MAX_QUOTE
from critiqor.diagnosis.results.state_words import has_same_stem, name_of, state_words
from critiqor.diagnosis.signals.outputs import printed_lines
from critiqor.diagnosis.signals.text import STEM, tokens
from critiqor.diagnosis.signals.tool_calls import words_of_tool
from critiqor.spans.calls import Kind

RULE = "parts"
"""The rule of the meaning of a call with such parts."""
MAX_ITEMS = 50
MAX_DEPTH = 4
MAX_REMARK = 300
"""Maximum number of characters of an answer in plain words, or of a remark in an answer; more are content."""
MAX_VALUE = 60
_REMARKS = ("message", "note", "warning", "warnings", "detail", "hint", "info", "notice", "remark", "comment")
_WARNINGS = ("warning", "warnings")
"""Members with what an answer adds in words."""
_LAST_WORD = re.compile(r"[\W_]+")
_LEAVING_OUT = ("exclude", "ignore", "skip", "except", "omit", "without")
"""Arguments that say what is to be left out."""


def with_bad_parts(episode: Episode, call: EpisodeCall) -> EpisodeCall:
    """Return a call that changed something and succeeded except for some parts with that as its meaning."""
    meaning = _meaning(episode, call) if _may_have_parts(call) else None
    return call if meaning is None else msgspec.structs.replace(call, known_meaning=meaning)


def _may_have_parts(call: EpisodeCall) -> bool:
    if call.is_check or not printed_lines(call.text) or call.meaning.state not in ("success", "unknown"):
        return False
    if not call.has_effect:
        # To translate, to convert or to read a scan changes nothing, and is work all the same.
        return not call.line and _LAST_WORD.split(call.tool.lower())[-1] in state_words().lists["acting_verbs"]
    if call.line:
        # If the output of a program is understood, what that says as a whole counts.
        return call.meaning.rule in ("", "exit_code") and not plan_of(call.line).reads_only
    return call.kind is not Kind.OTHER or app_tool_changes(call.tool, call.arguments)


def says_bad_news(language: Language | None, text: str) -> bool:
    """Return whether a part of a result is a remark that something is wrong, in its own language or this one."""
    speech = Speech(text[:MAX_REMARK], language_of(text) or language)
    bad = [stance for stance in speech.stances if stance.is_bad_news and not stance.is_plan]
    return any(not _NONE.search(stance.lowered) for stance in bad) and not is_harmless(text.lower())


_NONE = re.compile(r"(?<![\d.,])0(?![.,]?\d)")
"""That there is none: `Errors: 0`."""


def _meaning(episode: Episode, call: EpisodeCall) -> Meaning | None:
    value = decoded(call.text) if call.text[:1] in ("{", "[") else None
    verbs = words_of_tool(call.tool)
    judge = states_of(verbs, call.arguments)
    is_bad_news = partial(says_bad_news, episode.language)
    if value is not None:
        parts = list(_json_parts(value, verbs, judge, is_bad_news, 0))
        remarks = [text for text in _remarks(value, call.meaning.state == "success") if len(text) <= MAX_REMARK]
    else:
        parts = parts_of_text(call.text, judge, is_bad_news, _given_names(call))
        # A table has its own words: `no amplification` in a column is what a test should show.
        is_remark = not call.line and len(call.text) <= MAX_REMARK and "\n" not in call.text
        remarks = [call.text] if is_remark else []
    parts = [part for part in parts if not _is_wanted(episode, call, part)]
    if not parts and remarks:
        said = set(tokens(call.arguments.lower()))
        parts = [Part("", text) for text in remarks if is_bad_news(text) and bad_word(text.lower()) not in said]
    if not parts:
        return None
    counts = [part for part in parts if part.number]
    items = tuple(dict.fromkeys(part.name for part in parts if part.name))[:MAX_ITEMS]
    number = counts[0].number if counts else len(items) or None
    line = (counts or parts)[0].line.strip()[:MAX_QUOTE]
    reason = f"{number} left out or failed" if number else line[:80]
    share = SHARE.search(line)
    passed, total = (int(share[1]), int(share[2])) if share else (call.meaning.passed, None)
    number = total - passed if share and total is not None and passed is not None else number
    return Meaning("failure", reason, line, call.text.find(line), RULE, number, passed, total, items)


def _given_names(call: EpisodeCall) -> frozenset[str]:
    """Return the names in the lists that a call was given, in lower case."""
    given = decoded(call.arguments) if "[" in call.arguments else None
    lists = [member for member in given.values() if isinstance(member, list)] if isinstance(given, dict) else []
    return frozenset(
        str(item).lower() for member in lists for item in member[:MAX_LINES] if isinstance(item, str | int)
    )


def _is_wanted(episode: Episode, call: EpisodeCall, part: Part) -> bool:
    """Return whether the user asked for what is said of a part, or the answer only repeats what it was given."""
    if not part.word:
        return False
    if part.word[:STEM] in episode.asked or (part.word in call.arguments.lower() and part.word in call.words):
        return True
    return part.word in state_words().lists["left_out_words"] and any(
        f'"{name}' in call.arguments or f"--{name}" in call.line for name in _LEAVING_OUT
    )


def _remarks(value: Any, has_succeeded: bool) -> Iterator[str]:
    """Yield what an answer adds in words; if it says that the call succeeded, only warnings."""
    if isinstance(value, dict):
        for key, member in value.items():
            if name_of(key) in (_WARNINGS if has_succeeded else _REMARKS):
                yield from (one for one in (member if isinstance(member, list) else [member]) if isinstance(one, str))


def _json_parts(
    value: Any, verbs: frozenset[str], judge: Judge, is_bad_news: Callable[[str], bool], depth: int
) -> Iterator[Part]:
    """Yield what an answer says was left out, and items in another state than the others."""
    ignored = state_words().lists["ignored_members"]
    if isinstance(value, list):
        yield from parts_of_rows(_items(value), judge, is_bad_news)
        members = [("", member) for member in value[:MAX_LINES]]
    elif isinstance(value, dict):
        yield from _counts(value, verbs)
        texts = [(key, member) for key, member in value.items() if isinstance(member, str) and len(member) <= MAX_VALUE]
        if len(texts) == len(value):
            yield from parts_of_rows((Row(key, text, text) for key, text in texts), judge, is_bad_news, alike=True)
        members = [(key, member) for key, member in value.items() if name_of(key) not in ignored]
    else:
        return
    for _, member in members:
        if isinstance(member, dict | list) and depth < MAX_DEPTH:
            yield from _json_parts(member, verbs, judge, is_bad_news, depth + 1)


def _items(items: list[Any]) -> Iterator[Row]:
    """Yield the items of a list that have a name and a state."""
    members = state_words().lists["state_members"]
    for item in items[:MAX_LINES]:
        if isinstance(item, dict):
            states = [text for key, text in item.items() if isinstance(text, str) and name_of(key) in members]
            if states and (name := item_name(item)):
                yield Row(name, states[0][:MAX_VALUE], states[0][:MAX_VALUE])


def _counts(value: dict[str, Any], verbs: frozenset[str]) -> Iterator[Part]:
    """Yield the counts beside that of what was done: 3 retained beside 28 deleted, 2 skipped, 1 not renewed."""
    known = state_words()
    if any(isinstance(member, str) and is_harmless(member.lower()) for member in value.values()):
        return
    counts = {
        key: len(member) if isinstance(member, list | dict) else member
        for key, member in value.items()
        if type(member) in (int, list, dict)
    }
    done = [key for key in counts if _is_deed(name_of(key), verbs)]
    for key, number in counts.items():
        words = name_of(key).split("_")
        if number < 1 or is_harmless(" ".join(words)) or is_harmless(str(value[key]).lower()):
            continue
        left_out = next((word for word in words if word in known.lists["left_out_words"]), "")
        is_denied = words[0] in known.lists["negating_words"]
        # Only numbers are sums: an order has more `items` than the `return_items` that were sent back.
        beside = {
            count
            for other, count in counts.items()
            if other in done and type(value[other]) is type(value[key]) is int
            if set(name_of(other).split("_")) > set(words)
        }
        if beside and min(beside) < number:
            yield Part("", f'"{key}"', "", number - min(beside))
        is_other = bool(done) and key not in done and key.endswith("ed") and len(words) == 1 and key not in _neutral()
        if left_out or is_denied or is_other:
            yield Part("", f'"{key}"', left_out or words[-1], number)
            yield from (Part(name, f'"{key}"', left_out or words[-1]) for name in names_of(value[key]))


def _is_deed(name: str, verbs: frozenset[str]) -> bool:
    """Return whether a member counts what a call was to do: `deleted`, `pages_sent`."""
    parts = state_words().parts
    return any(
        parts.get(word) == "success" or has_same_stem(word, verb) for word in name.split("_") for verb in (*verbs, "")
    )


def _neutral() -> frozenset[str]:
    """Return participles that count what was done, or looked at, beside the deed itself."""
    known = state_words()
    return known.lists["neutral_words"] | {word for word, state in known.parts.items() if state == "success"}
