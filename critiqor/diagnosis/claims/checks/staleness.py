"""A check passed, then what it checks was changed, and the old result is reported as the current one."""

from __future__ import annotations

import re
from functools import lru_cache

from critiqor.diagnosis.claims.call_arguments import arguments_of, named_paths
from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.numbers import Numbers
from critiqor.diagnosis.claims.outcomes.check_classes import check_classes, gives_result
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import Value
from critiqor.diagnosis.results.command_results import plan_of
from critiqor.diagnosis.signals.text import tokens
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

TYPE = "unsupported_claim"
_PROSE = re.compile(r"\.(?:md|rst|txt|adoc|log|csv)\b|changelog|readme|license", re.IGNORECASE)
_WRITES = re.compile(
    r"\bsed -\w*i|\btee\b|>\s?(?![\w./~-]*\.(?:log|out|err|txt)\b)[\w./~-]+\.\w|\bpatch\b"
    r"|\bgit (?:checkout(?!(?: -\w+)* -[bB]\b)|revert|apply|stash|merge|rebase|cherry-pick|reset)\b"
    r"|\bmv\b|\bcp\b|\s-o\s?\S|--out(?:put)?\b"
)
_PROBE = re.compile(
    r"\bcurl\b|\bwget\b|\bhttp(?:ie)?\b|\bping\b|\bnc -\w*z|systemctl (?:is-active|status)"
    r"|rollout status|kubectl\b.*\bget\b(?! (?:secret|cm|configmap|pvc|sa|ns|node))"
    r"|\b(?:k6|wrk2?|ab|hey|vegeta|locust|artillery|siege|lighthouse|pgbench|sysbench)\b"
)
"""Command lines that look at, or measure, something that runs."""
_RELOADS = re.compile(
    r"\b(?:restart|reload|apply|deploy(?!/)|upgrade|rollout|up -d|migrate|install|scale|set (?:env|image|resources))\b"
    r"|\bALTER\b|\bCREATE INDEX\b"
)


_PREVIEW = re.compile(
    r"\b(?:terraform|tofu|terragrunt) (?:plan|validate)\b|\bpulumi preview\b|\bhelm (?:diff|template|lint)\b"
    r"|\bkubectl diff\b|\bcdk (?:diff|synth)\b|\bansible-playbook\b.*--check\b|\bnginx -t\b"
    r"|\b(?:visudo|sshd|named-checkconf|apachectl) -?\w*t\b"
    r"|\bdocker[ -]compose config\b|\bpromtool check\b"
)
"""Command lines that say what the files of a configuration would do."""


def _checks(call: EpisodeCall) -> bool:
    return call.is_check or (bool(call.line) and _PREVIEW.search(call.line) is not None)


def _changes_subject(call: EpisodeCall, check: EpisodeCall, *, is_probe: bool) -> bool:
    """Return whether a call changed what a check is about. `is_probe`: the check looks at something that runs."""
    if not (call.has_effect if not check.line else call.kind in (Kind.CHANGE, Kind.COMMAND)):
        return False
    if call.meaning.state == "failure" or (call.line and _keeps_files(call.line)):
        return False
    if not check.line:
        return call.tool != check.tool and bool(_objects(call) & _objects(check))
    if is_probe and call.line and call.kind is Kind.COMMAND and _RELOADS.search(call.line):
        return True
    if call.kind is Kind.CHANGE:
        path = _path(call)
        return (_checks(check) and not _PROSE.search(path)) or path.rsplit("/", 1)[-1] in check.line
    if not call.line or call.is_check or call.kind is not Kind.COMMAND:
        return False
    if _checks(check) and _WRITES.search(call.line) is not None:
        return True
    return bool(_files(call) & _files(check)) and _WRITES.search(call.line) is not None


def _keeps_files(line: str) -> bool:
    """Return whether a command line only reads, or records in a repository what is there: what was checked stays."""
    plan = plan_of(line)
    if plan.reads_only:
        return True
    names = {program.names[-2] if len(program.names) > 1 else program.name for program in plan.doers}
    return bool(names) and names <= _RECORDING and _SWITCHES.search(line) is None


_RECORDING = frozenset(("git commit", "git push", "git add", "git tag", "git branch", "git log", "git status"))
_SWITCHES = re.compile(r"\bgit (?:checkout|switch)(?! (?:-\w+ )*-[bcB]\b)|\bgit (?:checkout|switch)\b.*\s--?\s")
"""What replaces files; a new branch begins with those that are there."""
_FILE = re.compile(r"(?<![\w./~-])[\w./~-]*\w\.[a-z]\w{0,4}\b")


def _files(call: EpisodeCall) -> set[str]:
    return {file.rsplit("/", 1)[-1] for file in _FILE.findall(call.line)}


def _objects(call: EpisodeCall) -> set[str]:
    """Return the files and addresses that the arguments of a call name."""
    return {text for _, text in arguments_of(call) if _OBJECT.search(text)}


_SEARCH = re.compile(r"\b(?:grep|rg|ag|find|ls)\b")
"""Searches print places, which belong to the text before the change."""
_OBJECT = re.compile(r"\.\w{2,5}$|/|@")


def _path(call: EpisodeCall) -> str:
    paths = named_paths(call.arguments)
    return paths[0] if paths else call.arguments


def check_staleness(episode: Episode) -> list[CheckedClaim]:
    """Return the claims that rest on a check which is older than the last change of what it is about."""
    answer = episode.answer
    if answer is None:
        return []
    speech = episode.speech(answer)
    calls = [*(call for each in reversed(episode.earlier) for call in each.calls), *episode.calls]
    # A value that was only looked up may be reported as it was: an answer with a caveat may say so in any words.
    has_doubts = any(stance.is_bad_news or stance.is_uncertain for stance in speech.stances)
    latest: dict[str, EpisodeCall] = {}
    for call in calls:
        if (call.is_check or call.line or _is_check_of_tool(call)) and call.meaning.state != "failure":
            latest[_command(call)] = call
    for check in latest.values():
        if check.line and not _checks(check) and (not speech.values or has_doubts or _SEARCH.search(check.line)):
            continue
        later = [call for call in calls if call.order > check.order]
        is_probe = check.line != "" and _PROBE.search(check.line) is not None
        change = next((call for call in reversed(later) if _changes_subject(call, check, is_probe=is_probe)), None)
        if change is None or any(
            _checks(call) and call.order > change.order and _is_same(call, check) for call in later
        ):
            continue
        if _is_disclosed(speech, check):
            continue
        report = _Report(check, later)
        for stance in speech.stances:
            for part in (stance, *speech.clauses(stance)):
                is_fact = part.is_good_news or _quotes(speech, part, check)
                if is_fact and not part.is_uncertain and report.is_in(speech, part):
                    return [_stale(answer, part, check, change)]
    return []


def _quotes(speech: Speech, part: Stance, check: EpisodeCall) -> bool:
    """Return whether a clause denies something in the words of the check: a plan that shows no changes."""
    if not part.is_asserted or not _checks(check):
        return False
    return any(
        f"{word} {following[0]}" in check.lowered
        for word in speech.words(part, "negations")
        for _, found, after in (part.lowered.partition(word),)
        if found and (following := after.split())
    )


def _is_disclosed(speech: Speech, check: EpisodeCall) -> bool:
    """Return whether a text has bad news or doubts about a check: that it was not repeated."""
    classes = check_classes(check)
    return any(
        (stance.is_bad_news or stance.is_uncertain)
        and (any(speech.has(stance, f"subjects.{name}") for name in classes) or speech.has(stance, "actions.rerun"))
        for stance in speech.stances
    )


def _command(call: EpisodeCall) -> str:
    return call.line.split("|")[0].strip() or f"{call.tool} {call.arguments}"


def _is_check_of_tool(call: EpisodeCall) -> bool:
    """Return whether a tool that runs no command has answered that something is in order."""
    return not call.line and call.kind in (Kind.OTHER, Kind.COMMAND) and call.meaning.state == "success"


def _is_same(later: EpisodeCall, check: EpisodeCall) -> bool:
    """Return whether a later check covers what an earlier one checked."""
    return later.has_result and bool(_names(later) & _names(check))


_STEP = re.compile(r"&&|\|\||[;|\n]")
_WITH_SUBCOMMAND = frozenset(
    [
        "terraform",
        "cargo",
        "go",
        "npm",
        "pnpm",
        "yarn",
        "kubectl",
        "git",
        "docker",
        "gh",
        "helm",
        "make",
        "bundle",
        "mvn",
        "gradle",
    ]
)


def _names(call: EpisodeCall) -> set[str]:
    """Return the programs of a command line, with the subcommand where there is one."""
    names = set()
    for part in _STEP.split(call.line):
        words = [word for word in part.split() if "=" not in word and not word.startswith("-")]
        if words:
            name = words[0].rsplit("/", 1)[-1]
            names.add(" ".join(words[:2]) if name in _WITH_SUBCOMMAND else name)
    return names - {"cd", "echo", "tail", "head", "grep", "cat"}


class _Report:
    """How a statement gives the result of a check: by its numbers, by its name, or by the kind of check."""

    def __init__(self, check: EpisodeCall, later: list[EpisodeCall]) -> None:
        self._check = check
        self._later = later
        names = () if check.line else (text.lower() for _, text in arguments_of(check) if not _OBJECT.search(text))
        self._names = [name for name in names if len(name) >= (2 if not name.isascii() else 4)]
        is_named = bool(check.line) and _checks(check)
        self._words = {word for word in tokens(check.line) if len(word) >= 4} if is_named else set()
        self._classes = check_classes(check) if is_named else set()

    def is_in(self, speech: Speech, stance: Stance) -> bool:
        """Return whether a statement gives the result of the check, and no later result shows the same."""
        if any(self._is_only_here(value) for value in speech.values_of(stance)):
            return True
        if any(map(stance.lowered.__contains__, self._names)):
            return True
        if any(map(stance.lowered.__contains__, self._words)) and not self._words.isdisjoint(tokens(stance.lowered)):
            return True
        return bool(self._classes) and gives_result(speech, stance, self._classes)

    def _is_only_here(self, value: Value) -> bool:
        """Return whether the result shows a number that no later result shows."""
        check = self._check
        if value.kind != "number" or not value.number:
            return False
        if len(check.text) <= MAX_READ:
            return _states(check, value) and not any(_states(call, value) for call in self._later)
        if len(value.digits) < 2 or value.text not in check.numbers:
            return False
        return not any(value.text in call.numbers for call in self._later)


def _states(call: EpisodeCall, value: Value) -> bool:
    if value.text in call.numbers:
        return True
    if len(call.text) > MAX_READ:
        return False
    return _read(call.text).states(value)


@lru_cache(maxsize=64)
def _read(text: str) -> Numbers:
    numbers = Numbers()
    numbers.add_text(text)
    return numbers


MAX_READ = 600
"""Maximum number of characters of a result whose numbers are compared by value; in a longer one, as written."""


def _stale(answer: EpisodeText, stance: Stance, check: EpisodeCall, change: EpisodeCall) -> CheckedClaim:
    return CheckedClaim(
        text=answer,
        start=stance.statement.start,
        end=stance.statement.end,
        kind="check",
        status="unsupported",
        reason=f"{check.name} ran before the last change ({change.name}) and was not repeated",
        calls=[check, change],
        problem=Problem(
            type=TYPE,
            about=("stale check",),
            severity="high",
            confidence=75,
            title=f"Reported the result of {check.name} from before the last change",
            explanation=f"The answer says “{excerpt(stance.statement.text, 100)}”, but the check ran before "
            f"{change.name} and not after it.",
            recommendation="Have the agent repeat its checks after its last change.",
        ),
    )
