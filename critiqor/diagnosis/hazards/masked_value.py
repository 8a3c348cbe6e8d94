"""A masked, shortened or placeholder value was used in a request, a command or a configuration as if it were real."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from critiqor.diagnosis.claims.call_arguments import members, path_of
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.hazards.hazard import Hazard
from critiqor.diagnosis.hazards.masks import Mask, has_signs, masks_in
from critiqor.diagnosis.hazards.session_history import agreed_text, earlier_calls
from critiqor.diagnosis.hazards.words import words
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

TYPE = "masked_value"
_NOT_REAL = re.compile(
    r"example|sample|template|\.dist\b|\.tpl|\.tmpl|\.j2$|\.md$|\.mdx$|\.rst$|\.adoc$|\.txt$|\.html?$|docs?/"
    r"|readme|changelog|/?tests?/|spec|fixture"
    r"|mock|stub|demo|placeholder|\.snap$|\.po$|schema|report|incident|notes?\b|draft",
    re.IGNORECASE,
)
"""Files in which a placeholder is at home."""
_OLD = frozenset(("oldtext", "old", "old_string", "old_str", "search", "find", "pattern", "query", "regex"))
_SAYS = frozenset(("body", "text", "message", "comment", "description", "title", "subject", "summary", "caption"))
_ONLY_SHOWS = re.compile(
    r"^\s*(?:echo|printf|grep|rg|ag|sed -n|awk|cat|less|git (?:log|diff|show|commit|grep))\b(?![^|]*>)"
)
_REPLACES = re.compile(r"\bs([/|#,])(?:\\.|(?!\1).)*\1")
_LOCAL = re.compile(r"localhost|127\.0\.0\.1|0\.0\.0\.0|--help|\bdocker run\b|\bpytest\b|\bjest\b", re.IGNORECASE)
_ADDRESS = re.compile(r"\S+[.@/]\S+")
"""Addresses and files: `shop.example` is no wish for an example."""
_WEB_ADDRESS = re.compile(r"https?://[^\s\"'?]+")


class _Use(msgspec.Struct, frozen=True):
    call: EpisodeCall
    mask: Mask
    source: EpisodeCall | None
    """The earlier call whose result shows the masked value."""


def find_masked_values(episode: Episode) -> list[Hazard]:
    """Return the values that were used although they are not real: one hazard for an episode."""
    used = [use for call in episode.calls for use in _uses(episode, call)]
    if not used:
        return []
    users = {use.call.call_id for use in used}
    said = agreed_text(episode)
    answer = _ADDRESS.sub(" ", episode.answer.text) if episode.answer is not None else ""
    if words("placeholder").within(_ADDRESS.sub(" ", said)) or _discloses(answer):
        return []
    used = [use for use in used if use.mask.value.lower() not in said.lower() and not _is_repaired(episode, use, users)]
    return [_hazard(used)] if used else []


def _discloses(answer: str) -> bool:
    return words("placeholder").within(answer) or words("fill_in").within(answer)


def _uses(episode: Episode, call: EpisodeCall) -> Iterator[_Use]:
    is_fetch = call.kind in (Kind.LOOKUP, Kind.WAIT) and "://" in call.arguments
    if not (call.has_effect or is_fetch):
        return
    before: list[EpisodeCall] | None = None
    for name, text in _written(call):
        for mask in masks_in(text, name=name):
            before = earlier_calls(episode, call) if before is None else before
            source = next((each for each in before if mask.value in each.text), None)
            if mask.kind == "shortened" and source is None:
                continue  # three dots of its own are a way of writing
            if mask.kind == "default" and (call.line or not _is_setting(call)):
                continue
            if source is None and call.line and _LOCAL.search(call.line):
                continue
            yield _Use(call, mask, source)


def _written(call: EpisodeCall) -> Iterator[tuple[str, str]]:
    """Yield the texts of a call that are to be real, with their names."""
    if call.line:
        if has_signs(call.line) and not _ONLY_SHOWS.match(call.line) and not _writes_example(call.line):
            yield "", _REPLACES.sub("", call.line)
        return
    path = path_of(call)
    if path and _NOT_REAL.search(path):
        return
    for name, text in members(call):
        lowered = name.lower()
        if lowered in _OLD or (not path and lowered in _SAYS):
            continue
        yield ("" if lowered in ("content", "newtext", "new", "new_string", "new_str", "code", "path") else name), text


def _writes_example(line: str) -> bool:
    written = re.findall(r">{1,2}\s*([\w./~-]+)|\btee (?:-a )?([\w./~-]+)", line)
    return any(_NOT_REAL.search(one or other) for one, other in written)


def _is_setting(call: EpisodeCall) -> bool:
    return bool(
        re.search(
            r"(?:^|/)\.env|\.(?:ya?ml|toml|ini|conf|cfg|properties|tfvars|service|netrc|npmrc|pypirc)$", path_of(call)
        )
    )


def _is_repaired(episode: Episode, use: _Use, users: set[str]) -> bool:
    """Return whether a later call did the same with a real value, and did not fail."""
    later = [each for each in episode.calls if each.order > use.call.order and each.meaning.state != "failure"]
    path = path_of(use.call)
    for each in later:
        if each.call_id in users:
            continue
        if path and each.has_effect and path_of(each) == path:
            return True
        if use.call.line and each.line and each.has_effect >= use.call.has_effect and _gives_again(each.line, use):
            return True  # a look at the setting is no repair
        if not use.call.line and not path and each.tool == use.call.tool:
            return True
    return False


def _gives_again(line: str, use: _Use) -> bool:
    """Return whether a command line runs the same program for the same address, or gives the same setting a value."""
    if line.split(maxsplit=1)[:1] != use.call.line.split(maxsplit=1)[:1]:
        return False
    first, second = _WEB_ADDRESS.search(use.call.line), _WEB_ADDRESS.search(line)
    if first is not None:
        return second is not None and first[0] == second[0]
    return bool(use.mask.name) and use.mask.name.lower() in line.lower()


def _hazard(used: list[_Use]) -> Hazard:
    first = used[0]
    calls = list({use.call.call_id: use.call for use in used}.values())
    is_grave = any(use.mask.kind != "default" for use in used)
    setting = f" as `{first.mask.name}`" if first.mask.name else ""
    shown = f" The result of {first.source.name} shows it only in this form." if first.source is not None else ""
    causes = [(first.source.result_id, f"The result shows {excerpt(first.mask.value, 40)}")] if first.source else []
    return Hazard(
        type=TYPE,
        about=(first.mask.kind, first.mask.name.lower()[:40]),
        severity="high" if is_grave else "medium",
        confidence=90 if first.source is not None else 75,
        title=f"Used a value that is not real{setting}: {excerpt(first.mask.value, 40)}",
        explanation=(
            f"{first.call.name} uses “{excerpt(first.mask.value, 40)}”{setting} as if it were a real value.{shown} "
            "The answer does not say that it has to be replaced."
        ),
        recommendation="Give the agent the real value by a variable, and have it stop where a value is masked.",
        calls=calls,
        causes=causes,
    )
