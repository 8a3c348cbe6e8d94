"""Failed calls that nothing made good: neither a later call, nor what a later look at them shows."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.call_arguments import decoded_arguments, have_same_target, named_paths
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.claims.outcomes.alternatives import corrects, reaches_same
from critiqor.diagnosis.claims.outcomes.call_targets import is_probe
from critiqor.diagnosis.claims.outcomes.check_classes import check_classes
from critiqor.diagnosis.claims.outcomes.news import name_same, with_later_news
from critiqor.diagnosis.claims.outcomes.parts import RULE as PARTS
from critiqor.diagnosis.claims.outcomes.parts import with_bad_parts
from critiqor.diagnosis.results.command_results import plan_of
from critiqor.diagnosis.signals.errors import names_no_program, reports_absence, reports_already_done
from critiqor.spans.calls import Kind

_PROGRAM = re.compile(
    r"(?:^|&&|\|\||[;|(]|\bthen\b|\bdo\b)\s*(?:\w+=\S*\s+)*(?:sudo\s+|time\s+|env\s+|npx\s+)*([\w./-]+)(?:\s+(?!-)([\w./:-]+))?"
)


def unresolved_failures(episode: Episode) -> list[EpisodeCall]:
    """Return the calls with an effect that failed or did not finish, and that no later call repaired."""
    if episode.known_failures is None:
        episode.known_failures = _unresolved_failures(episode)
    return episode.known_failures


def _unresolved_failures(episode: Episode) -> list[EpisodeCall]:
    calls = [with_bad_parts(episode, call) for call in with_later_news(episode.calls, episode.language)]
    identifying = _identifying_arguments(calls)
    failures = [
        call
        for number, call in enumerate(calls)
        if _matters(call)
        and not any(
            repeats(later, call) or (not _is_other_item(later, call, identifying) and resolves(later, call))
            for later in calls[number + 1 :]
        )
        and not (call.meaning.state == "not_final" and _is_awaited(call, calls[number + 1 :]))
        and not _are_looked_at_again(call, calls[number + 1 :])
        and not _shows_removal(call, calls[:number])
    ]
    # What a look at a command in the background shows is the failure of that command.
    return list({call.result_id: call for call in reversed(failures)}.values())[::-1]


_GONE = re.compile(r"not found|no such|(?:does|do|did)(?:n't| not) exist|\b404\b|notfound|cannot find", re.IGNORECASE)
_TAKES_AWAY = re.compile(r"delet|remov|\brm\b|\bdrop|destroy|purge|uninstall|revok|terminat|archiv", re.IGNORECASE)


def _shows_removal(call: EpisodeCall, earlier: list[EpisodeCall]) -> bool:
    """Return whether a call failed because what it asks for is gone, and an earlier one took it away."""
    if not _GONE.search(call.text):
        return False
    names = {word for word in call.words if len(word) >= MIN_NAME and word in call.lowered}
    return bool(names) and any(
        _TAKES_AWAY.search(f"{each.tool} {each.arguments}") is not None
        and each.meaning.state != "failure"
        and not names.isdisjoint(each.words)
        for each in earlier
    )


MIN_NAME = 3
"""Minimum number of letters of a word that names what was removed."""
MIN_SERIES = 2
"""Minimum number of calls that worked, each for another thing, of a tool that is called for one thing after another."""


def _identifying_arguments(calls: list[EpisodeCall]) -> dict[str, set[str]]:
    """Return the arguments by which the calls of a tool differ that is called for one thing after another.

    If only one call worked, the others were attempts at the same.
    """
    groups: dict[str, list[dict[str, object]]] = {}
    for call in calls:
        if not call.line and call.has_effect and call.meaning.state != "failure":
            arguments = decoded_arguments(call.arguments)
            if arguments is not None:
                groups.setdefault(call.tool, []).append(arguments)
    return {
        tool: {
            name
            for name in group[0]
            if len({str(each.get(name)) for each in group}) == len(group) and all(name in each for each in group)
        }
        for tool, group in groups.items()
        if len(group) >= MIN_SERIES
    }


def _is_other_item(later: EpisodeCall, call: EpisodeCall, identifying: dict[str, set[str]]) -> bool:
    """Return whether a later call of the same tool is about another thing of a series."""
    names = identifying.get(call.tool) if later.tool == call.tool else None
    if not names:
        return False
    first, second = decoded_arguments(later.arguments), decoded_arguments(call.arguments)
    if first is None or second is None:
        return False
    return any(name in second and first.get(name) != second[name] for name in names)


_REMOVAL = frozenset(("rm", "rmdir", "unlink", "kill", "pkill", "killall"))
"""Programs after which something is gone, also if they fail because it was not there."""
_MAKING = frozenset(
    ("mkdir", "ln", "touch", "useradd", "adduser", "groupadd", "addgroup", "createdb", "createuser", "ssh-keygen")
)
"""Programs after which something is there, also if they fail because it was there."""


_STOPPED = re.compile(r"systemctl (?:stop|disable)\b.*\bis-active\b")


def _is_as_wanted(call: EpisodeCall) -> bool:
    """Return whether a command failed only because what it removes or makes was gone, or there, already."""
    programs = {program.name for program in plan_of(call.line).programs} if call.line else set()
    if not programs:
        return False
    if _STOPPED.search(call.line) and call.text.strip() == "inactive":
        return True
    return (programs <= _REMOVAL and reports_absence(call.text)) or (
        programs <= _MAKING and reports_already_done(call.text)
    )


_STAYS = re.compile(
    r"\b(?:dev|serve|server|start|watch|listen|preview|daemon|storybook|tunnel|ngrok|up)\b|http\.server|uvicorn|gunicorn"
    r"|flask run|runserver|redis-server|nginx|tail -f|journalctl -f"
    r"|\b(?:nc|ncat|netcat|socat|telnet|websocat|tcpdump)\b"
)
"""Command lines of programs that are meant to go on: that they still run, or a time limit ended them, is no failure."""


def _matters(call: EpisodeCall) -> bool:
    if call.line and not call.is_check and plan_of(call.line).reads_only:
        return False  # what could not be read was not changed either
    if call.meaning.state == "failure" and (_is_as_wanted(call) or names_no_program(call.line, call.text)):
        return False
    if call.meaning.state == "not_final":
        # A plan, a dry run or a server is not meant to finish anything.
        if call.meaning.rule == "dry_run" or (_STAYS.search(call.line) and not call.is_check):
            return False
        return call.has_effect or call.is_check
    return (call.has_effect or call.is_check or call.meaning.rule == PARTS) and call.meaning.state == "failure"


_PROCESS = re.compile(r"\bsession ([\w-]+)")


def _is_awaited(call: EpisodeCall, later: list[EpisodeCall]) -> bool:
    """Return whether later looks at something unfinished show that it has ended: the last look says something else."""
    process = _PROCESS.search(call.text)
    waiting: set[tuple[str, str]] = set()
    for look in later:
        name = (look.tool, look.arguments)
        about = name in waiting or (process is not None and process[1] in look.arguments)
        if look.meaning.state == "not_final":
            waiting.add(name)
        elif about and look.meaning.state != "failure":
            return True
    return False


def _are_looked_at_again(call: EpisodeCall, later: list[EpisodeCall]) -> bool:
    """Return whether each item that failed is the subject of a later call that did not fail."""
    bad = ("failure", "not_final")
    # The look that shows the failure is not a further one.
    shown = max((number for number, each in enumerate(later) if each.result_id == call.result_id), default=-1)
    later = later[shown + 1 :]
    return bool(call.meaning.items) and all(
        any(item in each.arguments and each.meaning.state not in bad for each in later) for item in call.meaning.items
    )


def repeats(later: EpisodeCall, call: EpisodeCall) -> bool:
    """Return whether a later call can repair a failed one: it did the same again, so that only its result counts."""
    return later.tool == call.tool and later.arguments == call.arguments and later.has_result


def resolves(later: EpisodeCall, call: EpisodeCall) -> bool:
    """Return whether a later call repaired what a call failed to do, or shows that it has finished."""
    if corrects(later, call):
        return True
    if is_probe(call.line) and later.has_effect and later.meaning.state == "success":
        return True  # what was to be reached was reached
    # What a result means is read last: most calls are of another kind than those that can repair this one.
    is_of_kind = later.is_check if call.is_check else later.has_effect or later.tool == call.tool
    if not is_of_kind and call.meaning.state != "not_final":
        return False
    if later.meaning.state == "not_final" or later.meaning.state == "failure":
        return False
    if later.meaning.state == "unknown" and not (_is_quiet(later) if later.is_check else later.has_effect):
        return False
    if call.meaning.state == "not_final" and name_same(later, call):
        return True
    if call.is_check:
        checked, own = check_classes(later), check_classes(call)
        # Tests that pass show that the build works too.
        covers = not checked or not own or bool(checked & own) or (own == {"build"} and "test" in checked)
        if not later.is_check or not covers:
            return False
        return bool(_programs(later) & _programs(call) or not _programs(call))
    may_repair = later.has_effect or not call.has_effect  # to look at something does not change it
    is_same = later.tool == call.tool and may_repair
    if is_same and (have_same_target(later.arguments, call.arguments) or _differs_by_means(later, call)):
        return True
    if call.line and later.line and later.has_effect:
        if GIVES_UP.search(later.line):
            return False
        if _LACK.search(call.text) or (_INTERRUPTED.search(call.line) and _CONTINUED.search(later.line)):
            return True  # another program was used, or the conflict was dealt with
        return later.meaning.state == "success" and bool(_commands(call) & _commands(later))
    if call.kind is Kind.CHANGE and later.has_effect and _paths(call) & _paths(later):
        return True
    return reaches_same(later, call)


_MEANS = re.compile(
    r"card|payment|pay|method|via|provider|gateway|mode|format|timeout|retr|force|idempoten|attempt|engine|proxy|mirror"
    r"|service|action|operation"
)
"""Arguments that say how something is done, not what: to pay with another card is no other order."""


def _differs_by_means(later: EpisodeCall, call: EpisodeCall) -> bool:
    """Return whether a later call names the same things, and differs only in how it is done."""
    first, second = decoded_arguments(later.arguments), decoded_arguments(call.arguments)
    if first is None or second is None:
        return False
    names = first.keys() | second.keys()
    different = [name for name in names if first.get(name) != second.get(name)]
    return len(different) < len(names) and all(_MEANS.search(name.lower()) for name in different)


_LACK = re.compile(r"command not found|no module named|modulenotfounderror|is not recognized as", re.IGNORECASE)
"""A program or a module that is not installed."""
GIVES_UP = re.compile(r"\s--(?:abort|skip|quit|rollback|revert|undo)\b|\bROLLBACK\b")
"""Commands that end what failed without doing it."""
_INTERRUPTED = re.compile(r"\bgit (?:\S+ )?(?:merge|rebase|cherry-pick|pull|stash|revert|am)\b")
_CONTINUED = re.compile(r"\bgit (?:\S+ )?(?:commit\b|\w[\w-]* --continue)")
"""Commands that end what a conflict interrupted."""


def _is_quiet(call: EpisodeCall) -> bool:
    """Return whether a check was not reported as failed, and nothing in its command line hides its exit code."""
    return not call.reported_failure and all(program.covered for program in plan_of(call.line).programs)


def _programs(call: EpisodeCall) -> set[str]:
    return {match[0].rsplit("/", 1)[-1] for match in _PROGRAM.findall(call.line)} - {
        "cd",
        "echo",
        "tail",
        "head",
        "export",
    }


_NEUTRAL = frozenset(
    [
        "cd",
        "echo",
        "tail",
        "head",
        "grep",
        "cat",
        "ls",
        "export",
        "sleep",
        "for",
        "do",
        "done",
        "while",
        "if",
        "then",
        "fi",
        "set",
        "true",
    ]
)
"""Programs and words of a command line that say nothing about what it is for."""


def _commands(call: EpisodeCall) -> set[tuple[str, str]]:
    found = {(match[0].rsplit("/", 1)[-1], match[1]) for match in _PROGRAM.findall(call.line)}
    return {pair for pair in found if pair[0] not in _NEUTRAL}


def _paths(call: EpisodeCall) -> set[str]:
    paths = (*named_paths(call.arguments), *_PATCHED.findall(call.arguments), *_FILE.findall(call.line))
    return {path.rsplit("/", 1)[-1] for path in paths}


_PATCHED = re.compile(r"\*\*\* (?:Update|Add|Delete) File: ([^\s\\]+)")
_FILE = re.compile(r"(?<![\w./~-])[\w./~-]*\w\.[a-z]\w{0,4}\b")
