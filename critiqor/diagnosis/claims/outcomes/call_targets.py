"""What calls are about: which of them look at something, which change it, and whether a change affects a look."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.call_arguments import arguments_of, members, named_paths
from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.results.check_commands import is_check
from critiqor.diagnosis.results.command_results import plan_of
from critiqor.spans.calls import Kind

MIN_TARGET, MAX_TARGET = 3, 60
"""Minimum and maximum number of characters of an argument that says what a call is about."""
_MANNER = frozenset(
    (
        *("limit", "format", "lang", "language", "currency", "units", "timezone", "mode", "channel", "action"),
        *("from", "to", "date", "sheet_range", "range", "type", "status", "fields", "sort", "order", "unit"),
    )
)
"""Arguments that say how something is done or which part of it is meant, not to what."""
_PROSE = re.compile(r"\.(?:md|rst|txt|adoc|log|csv)\b|changelog|readme|license", re.IGNORECASE)
_PIPELINE = re.compile(r"\.github/|\.gitlab-ci|\.circleci/|Jenkinsfile|\.pre-commit|azure-pipelines|\.drone\.yml")
"""Files that say which checks run elsewhere: what a check found here does not depend on them."""
_FILE = re.compile(r"(?<![\w./~-])[\w./~-]*\w\.[a-zA-Z]\w{0,4}\b")
_TABLE = re.compile(r"\b(?:from|join|into|update|(?:alter|drop|truncate) table)\s+[\"`]?([\w.]{3,})", re.IGNORECASE)
_WRITES = re.compile(
    r"\bsed -\w*i|\btee\b|>\s?(?![\w./~-]*\.(?:log|out|err|txt)\b)[\w./~-]+\.\w|\bpatch\b"
    r"|\bgit (?:checkout(?!(?: -\w+)* -[bB]\b)|revert|apply|stash|merge|rebase|cherry-pick|reset)\b"
    r"|\bmv\b|\bcp\b|\s-o\s?\S|--out(?:put)?\b"
)
_RELOADS = re.compile(
    r"\b(?:restart|reload|apply|deploy(?!/)|upgrade|rollout|up -d|migrate|install|scale|set (?:env|image|resources))\b"
    r"|\bALTER\b|\bCREATE INDEX\b"
)
_PROBE = re.compile(
    r"\bcurl\b|\bwget\b|\bhttp(?:ie)?\b|\bping\b|\bnc -\w*z|systemctl (?:is-active|status)"
    r"|rollout status|kubectl\b.*\bget\b(?! (?:secret|cm|configmap|pvc|sa|ns|node))"
    r"|\b(?:k6|wrk2?|ab|hey|vegeta|locust|artillery|siege|lighthouse|pgbench|sysbench)\b"
)
"""Command lines that look at, or measure, something that runs."""
_PREVIEW = re.compile(
    r"\b(?:terraform|tofu|terragrunt) (?:plan|validate)\b|\bpulumi preview\b|\bhelm (?:diff|template|lint)\b"
    r"|\bkubectl diff\b|\bcdk (?:diff|synth)\b|\bansible-playbook\b.*--check\b|\bnginx -t\b"
    r"|\b(?:visudo|sshd|named-checkconf|apachectl) -?\w*t\b"
    r"|\bdocker[ -]compose config\b|\bpromtool check\b"
)
"""Command lines that say what the files of a configuration would do."""
EXAMINES = re.compile(
    r"check|verif|valid|test(?!er)|lint|audit|reconcil|scan|inspect|diff\b|compare|health|bench|measur|preview|simul|dry.?run",
    re.IGNORECASE,
)
"""Tools, and arguments of tools, that examine something."""
_CHANGES_TARGET = re.compile(
    _WRITES.pattern + r"|\b(?:update|delete|insert|alter|truncate|drop|merge)\s+\w", re.IGNORECASE
)
_PATCHED = re.compile(r"(?:\bFile: |\+\+\+ (?:b/)?)([^\s\\\"]+)")
_AMOUNT = re.compile(r"[:\[]\s?(-?\d[\d.]*)")
"""A number in the arguments: how much is reserved, paid or added."""


def is_examination(call: EpisodeCall) -> bool:
    """Return whether a call examines its targets, and does not only print them."""
    if call.line or call.is_check:
        return call.is_check or _PREVIEW.search(call.line) is not None
    if call.kind not in (Kind.OTHER, Kind.COMMAND, Kind.LOOKUP) or call.meaning.state == "failure":
        return False
    return any(map(EXAMINES.search, (call.tool, *(text for _, text in arguments_of(call)))))


def is_look(call: EpisodeCall) -> bool:
    is_read = call.kind in (Kind.LOOKUP, Kind.WAIT) or bool(call.line) or is_examination(call)
    return is_read and call.meaning.state != "failure"


def is_change(call: EpisodeCall) -> bool:
    """Return whether a call may have changed its targets, and did not fail."""
    if not call.has_effect or call.meaning.state == "failure" or is_examination(call):
        return False
    return not call.line or not _keeps_files(call.line)


_DISCARDS = re.compile(r"(?:sleep \S+; *)?curl(?![^|;&]* (?:-X|--request|-d|--data|-F|-T)\b)[^|;&]* -o /dev/null\b")


def is_probe(line: str) -> bool:
    """Return whether a command line only probes its target: the answer is thrown away, except for its status."""
    return _DISCARDS.match(line) is not None


def _keeps_files(line: str) -> bool:
    """Return whether a command line only reads, or records in a repository what is there: what was checked stays."""
    plan = plan_of(line)
    if plan.reads_only or is_probe(line):
        return True
    names = {program.names[-2] if len(program.names) > 1 else program.name for program in plan.doers}
    return bool(names) and names <= _RECORDING and _SWITCHES.search(line) is None


_RECORDING = frozenset(("git commit", "git push", "git add", "git tag", "git branch", "git log", "git status"))
_SWITCHES = re.compile(r"\bgit (?:checkout|switch)(?! (?:-\w+ )*-[bcB]\b)|\bgit (?:checkout|switch)\b.*\s--?\s")
"""What replaces files; a new branch begins with those that are there."""


def targets_of(call: EpisodeCall) -> set[str]:
    """Return the targets of a call: files, tables, and the values of the arguments that identify something."""
    if call.known_targets is None:
        call.known_targets = _targets(call)
    return call.known_targets


def _targets(call: EpisodeCall) -> set[str]:
    if call.line:
        return {name.rsplit("/", 1)[-1].lower() for name in _FILE.findall(call.line)} | _tables(call.line)
    found = {
        text.rsplit("/", 1)[-1].lower()
        for name, text in arguments_of(call)
        if MIN_TARGET <= len(text) <= MAX_TARGET and name.lower() not in _MANNER
    }
    return found.union(*(_tables(text) for _, text in members(call)))


def _tables(text: str) -> set[str]:
    return {name.lower() for name in _TABLE.findall(text)} if " " in text else set()


def affects(change: EpisodeCall, look: EpisodeCall) -> bool:
    """Return whether a change has the same targets as an earlier look, so that what was seen may be outdated."""
    if change.line:
        if look.line and _PROBE.search(look.line) and _RELOADS.search(change.line):
            return True
        if _WRITES.search(change.line) and look.line and is_examination(look):
            return not _PIPELINE.search(change.line)
        return bool(_CHANGES_TARGET.search(change.line)) and bool(targets_of(change) & targets_of(look))
    if look.line:
        path = _path(change) if change.kind is Kind.CHANGE else ""
        return bool(path) and (
            (is_examination(look) and not _PROSE.search(path) and not _PIPELINE.search(path))
            or path.rsplit("/", 1)[-1] in look.line
        )
    shared = targets_of(change) & targets_of(look)
    # To send something does not change it; to reserve, pay or add so much of it does.
    return bool(shared) and (change.kind is Kind.CHANGE or not shared.issuperset(_AMOUNT.findall(change.arguments)))


def _path(change: EpisodeCall) -> str:
    """Return the file that a call writes, by its argument or in the patch that it applies."""
    paths = named_paths(change.arguments) or _PATCHED.findall(change.arguments)
    return paths[0] if paths else ""


def covers(later: EpisodeCall, look: EpisodeCall) -> bool:
    """Return whether a later call examines the targets of an earlier one again, whether or not it fails."""
    if look.line:
        return later.has_result and is_examination(later) and bool(_programs(later) & _programs(look))
    is_same = later.tool == look.tool or (is_look(later) and not is_examination(look))
    if not is_same or is_change(later) or not targets_of(later) & targets_of(look):
        return False
    # Of the same sheet, the names of the new rows do not show its sum.
    shown = set(_MEMBER.findall(look.text[:MAX_MEMBERS]))
    return (
        later.arguments == look.arguments or not shown or bool(shown & set(_MEMBER.findall(later.text[:MAX_MEMBERS])))
    )


_MEMBER = re.compile(r'"([\w-]+)"\s*:')
MAX_MEMBERS = 4_000
"""Maximum number of characters of an answer whose members are compared."""


_STEP = re.compile(r"&&|\|\||[;|\n]")
_WITH_SUBCOMMAND = frozenset(
    (
        *("terraform", "cargo", "go", "npm", "pnpm", "yarn", "kubectl", "git", "docker", "gh", "helm", "make"),
        *("bundle", "mvn", "gradle"),
    )
)


def _programs(call: EpisodeCall) -> set[str]:
    """Return the programs of a command line, with the subcommand where there is one; of checks, not what they need."""
    names = set()
    parts = _STEP.split(call.line)
    for part in [part for part in parts if is_check(part)] or parts:
        words = [word for word in part.split() if "=" not in word and not word.startswith("-")]
        if words:
            name = words[0].rsplit("/", 1)[-1]
            names.add(" ".join(words[:2]) if name in _WITH_SUBCOMMAND else name)
    return names - {"cd", "echo", "tail", "head", "grep", "cat"}
