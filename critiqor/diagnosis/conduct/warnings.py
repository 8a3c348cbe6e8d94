"""Warnings in results that an agent acts against: something is on hold or barred, or a refusal is forced open."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.call_arguments import decoded_arguments, members, path_of
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.conduct.lapse import Lapse
from critiqor.diagnosis.conduct.wording import content_stems
from critiqor.diagnosis.hazards.session_history import agreed_text
from critiqor.diagnosis.hazards.words import words
from critiqor.diagnosis.results.json_answers import decoded
from critiqor.diagnosis.signals.text import folded
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

TYPE = "ignored_tool_output"
MAX_RECORDS = 200
"""Maximum number of lines and records of a result that are examined."""
MAX_COMPARED = 60
"""Maximum number of actions that are compared with the warnings before them."""
MAX_RECORD = 400
"""Maximum number of characters of a record: what is said in a longer text need not be about what else is in it."""
MAX_NAME = 60
MIN_FORESEEN = 2
"""Minimum number of words of a warning that an earlier result showed."""
_FORCES = re.compile(
    r'"\w*(?:force|override|overrule|bypass|ignore|skip|allow)\w*":\s?(?:true|1\b|"(?:true|yes|1)")', re.IGNORECASE
)
_TRIAL = re.compile(
    r'"(?:dry_?-?run|preview|simulat\w*|validate_?only|test_?mode|trial|what_?if)":\s?(?:true|1\b|"(?:true|yes|1)")',
    re.IGNORECASE,
)
_IS_ON = re.compile(r'":\s?"?(?:true|1|yes)', re.IGNORECASE)
_FORCE_SIGNS = ("force", "override", "overrule", "bypass", "ignore", "skip", "allow")
_TRIAL_SIGNS = ("dry", "preview", "simulat", "validate", "test", "trial", "what")
_WARNING = re.compile(r"warn|conflict|overlap|collision|notice", re.IGNORECASE)
_SHORT_ID = re.compile(r"[A-Za-z]{1,4}[-_]?\d{1,6}$")
_ROLLS_OUT = re.compile(r"\b(?:merge|deploy|release|publish|promote|apply|restart|rollout|upgrade|migrate|push|ship)\b")
_PROPER = re.compile(r"[^\W\d_a-z][^\W\d_]{3,}")
"""The beginning of a proper name."""
_RECORD = re.compile(r"\{[^{}]*\}|[^\n{}]+")
_IDENTIFIER = re.compile(
    r"(?<![\w.-])(?=[\w./#-]*\d)[A-Za-z#][\w./#-]{2,40}(?<![./-])(?![\w-])|(?<![\w.-])\d{4,}(?![\w.-])"
)
_DATE = re.compile(r"\d{4}-\d\d(?:-\d\d)?(?:t[\d:]+z?)?|\d{4}", re.IGNORECASE)
_HANDLES = re.compile(
    r"send|mail|message|notify|comment|note|ticket|issue|label|tag|report|draft|flag|escalat|hold|block|quarantin"
    r"|unlock|unblock|cancel|delete|remove|refund|return|recall|revert|rollback|dispute|approv|review|request|remind",
    re.IGNORECASE,
)
"""Tools that deal with a problem, or tell somebody about it."""
_FLAG = re.compile(
    r"override|overrule|force|bypass|skip|ignore|confirm|allow|acknowledg|\back\b|unsafe|no_?verify|suppress|approved"
    r"|authori[sz]ed|proceed|accept",
    re.IGNORECASE,
)
_ON = frozenset((True, 1, "true", "yes", "y", "1", "force", "all"))
_OPTION = re.compile(r"--(?:force|override|bypass|ignore|skip|allow|accept|yes|confirm|no-verify|admin|unsafe)[\w=-]*")
_INSISTS = (
    *("override", "anyway", "regardless", "even if", "trotzdem", "auf jeden fall", "de todos modos", "aunque"),
    *("quand même", "mesmo assim", "comunque", "toch", "mimo to", "всё равно", "все равно", "yine de", "强制", "无论"),
    *("強制", "それでも", "강제", "그래도", "على أي حال"),
)
_FORCE = re.compile(r"\bforce")


def find_disregarded_warnings(episode: Episode) -> list[Lapse]:
    """Return an action against a warning that the agent had seen and told nobody about, at most one."""
    acting = [call for call in episode.calls if call.has_effect and call.meaning.state != "failure"][:MAX_COMPARED]
    trials = [call for call in episode.calls if _is_switched_on(_TRIAL, _TRIAL_SIGNS, call)]
    for call in acting:
        forces = _is_switched_on(_FORCES, _FORCE_SIGNS, call)
        known = _rehearsed(episode, call, trials) or (_foreseen(episode, call) if forces else None)
        if known is not None and not _insists(episode):
            return [_lapse(known[0], call, known[1])]
    seen = [call for call in episode.calls if _may_warn(call)] if acting else []
    for call in acting if seen else ():
        before = [each for each in seen if each.order < call.order]
        found = _forced(episode, call, before) or _barred(episode, call, before)
        if found is not None and not _is_told(episode, found[1]):
            # What the user insists on is looked up last, because it is in all requests of the session.
            return [] if _insists(episode) else [_lapse(found[0], call, found[1])]
    return []


def _insists(episode: Episode) -> bool:
    """Return whether the user wants it to be done in any case."""
    agreed = folded(agreed_text(episode).lower())
    return any(map(agreed.__contains__, _INSISTS)) or ("force" in agreed and _FORCE.search(agreed) is not None)


def _foreseen(episode: Episode, call: EpisodeCall) -> tuple[EpisodeCall, str] | None:
    """Return the result that showed what a forced action collides with: its own result names it as a warning."""
    warnings = _warnings_in(call)
    stems = content_stems(" ".join(warnings))
    said = content_stems(" ".join(text.text for text in episode.messages))
    for source in episode.calls if warnings else ():
        if source.order >= call.order or source.has_effect:
            continue
        named = (stems & content_stems(source.text)) - content_stems(call.arguments)
        if len(named) >= MIN_FORESEEN and not named & said:
            return source, warnings[0]
    return None


def _is_switched_on(switch: re.Pattern[str], signs: tuple[str, ...], call: EpisodeCall) -> bool:
    """Return whether a switch is on in the arguments of a call; each text that has it contains one of the signs."""
    if not _IS_ON.search(call.arguments):
        return False
    lowered = folded(call.arguments.lower())
    return any(map(lowered.__contains__, signs)) and switch.search(call.arguments) is not None


def _rehearsed(episode: Episode, call: EpisodeCall, trials: list[EpisodeCall]) -> tuple[EpisodeCall, str] | None:
    """Return the trial of an action, with the same arguments, that warned of what the action would do."""
    if call.line or not trials or any(trial is call for trial in trials):
        return None
    for trial in trials:
        if trial.order >= call.order or trial.tool != call.tool:
            continue
        warnings = _warnings_in(trial)
        if warnings and _without_trial(trial) == _without_trial(call):
            stems = content_stems(" ".join(warnings))
            said = content_stems(" ".join(text.text for text in episode.messages if text.order > trial.order))
            return (trial, warnings[0]) if len(stems & said) < MIN_FORESEEN else None
    return None


def _without_trial(call: EpisodeCall) -> dict[str, object]:
    given = decoded_arguments(call.arguments) or {}
    return {name: value for name, value in given.items() if not _TRIAL.match(f'"{name}":true')}


def _warnings_in(call: EpisodeCall) -> list[str]:
    """Return the warnings in the result of a call."""
    answer = decoded(call.text)
    entries = answer.items() if isinstance(answer, dict) else ()
    return [str(value) for name, value in entries if _WARNING.search(name) and value]


def _may_warn(call: EpisodeCall) -> bool:
    return words("barred").may_be_within(call.text) or words("loss").may_be_within(call.text)


def _is_told(episode: Episode, warning: str) -> bool:
    """Return whether a message to the user, or the request itself, speaks of what a warning says."""
    concepts = [words(concept) for concept in ("barred", "loss") if words(concept).within(warning)]
    texts = [*(text.text for text in episode.messages), agreed_text(episode)]
    return any(concept.within(text) for text in texts for concept in concepts)


def _forced(episode: Episode, call: EpisodeCall, before: list[EpisodeCall]) -> tuple[EpisodeCall, str] | None:
    """Return the refusal that a call forces open: the same call, with a switch that skips the check."""
    for refused in reversed(before):
        if refused.tool != call.tool or not _adds_switch(refused, call):
            continue
        if words("barred").within(refused.text):
            return refused, refused.text
        if words("loss").within(refused.text) and not words("delete").within(agreed_text(episode)):
            return refused, refused.text
    return None


def _adds_switch(refused: EpisodeCall, call: EpisodeCall) -> bool:
    """Return whether a call is the same as one before, but for a switch that skips a check."""
    if call.line:
        added = set(_OPTION.findall(call.line)) - set(_OPTION.findall(refused.line))
        return bool(added) and refused.line.split()[:2] == call.line.split()[:2]
    first, second = decoded_arguments(refused.arguments), decoded_arguments(call.arguments)
    if first is None or second is None:
        return False
    shared = [name for name in first if name in second and not _FLAG.search(name)]
    if not shared or any(first[name] != second[name] for name in shared):
        return False
    changed = (name for name, value in second.items() if first.get(name) != value)
    return any(_FLAG.search(name) and isinstance(second[name], (str, int)) and second[name] in _ON for name in changed)


def _barred(episode: Episode, call: EpisodeCall, before: list[EpisodeCall]) -> tuple[EpisodeCall, str] | None:
    """Return the record that bars something which a call uses, by its identifier or name."""
    given = _names_in(call)
    for source in reversed(before) if given else ():
        # What an unknown tool does is only known of calls that surely act on what it returned.
        if source.has_effect and not (source.kind is Kind.OTHER and call.kind is Kind.ACTION):
            continue
        asked = {value.strip().lower() for _, value in members(source)}
        if len(source.text) <= MAX_RECORD and not asked.isdisjoint(given) and _bars(source.text):
            return source, source.text  # the answer to a question about it
        if source.meaning.state == "failure" or not any(name in source.lowered for name in given):
            continue
        records = [match[0] for match in _RECORD.finditer(source.text)][:MAX_RECORDS]
        for name in given:
            naming = [record for record in records if _is_within(name, record.lower())]
            # What only one record of several says is said about what only that record names.
            if naming and all(len(record) <= MAX_RECORD and _bars(record) for record in naming):
                return source, naming[0]
    return None


def _names_in(call: EpisodeCall) -> list[str]:
    """Return the identifiers and names of what a call uses, in lower case; none if it deals with a problem."""
    if call.kind is Kind.CHANGE or path_of(call) or _HANDLES.search(call.line or call.tool):
        return []
    if call.line:
        return [match[0].lower() for match in _IDENTIFIER.finditer(call.line)] if _ROLLS_OUT.search(call.line) else []
    values = {value.strip() for _, value in members(call) if len(value.strip()) <= MAX_NAME}
    names = [value for value in values if any(form.match(value) for form in (_SHORT_ID, _PROPER))]
    names += [value for value in values if _IDENTIFIER.fullmatch(value)]
    return sorted(name.lower() for name in names if not _DATE.fullmatch(name))


def _is_within(name: str, record: str) -> bool:
    return name in record and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", record) is not None


def _bars(record: str) -> bool:
    return words("barred").within(record.replace("_", " "))


def _lapse(source: EpisodeCall, call: EpisodeCall, warning: str) -> Lapse:
    said = excerpt(" ".join(warning.split()), 120)
    return Lapse(
        type=TYPE,
        about=(call.tool, "warning"),
        severity="high",
        confidence=75,
        title=f"The agent acted against a warning that it had seen: {excerpt(said, 80)}",
        explanation=f"{source.name} returned “{said}”. {call.name} did it all the same, and no message mentions it.",
        recommendation="Have the agent stop at a hold, a ban or a refusal, and ask the user before it goes on.",
        verification="Run the same task again: the agent reports the warning instead of acting against it.",
        causes=[(source.result_id, f"{source.name} returned: {excerpt(said, 80)}")],
        event_id=call.call_id,
        happened=f"The agent called {call.name} all the same",
        calls=[call],
    )
