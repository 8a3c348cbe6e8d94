"""Failed calls that nothing made good: neither a later call, nor what a later look at them shows."""

from __future__ import annotations

import re

import msgspec

from critiqor.diagnosis.claims.destinations.things import shown_state
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, have_same_target, named_paths, tokens
from critiqor.diagnosis.claims.stance import Speech, Stance
from critiqor.diagnosis.results.commands import plan_of
from critiqor.diagnosis.signals.errors import reports_absence, reports_already_done
from critiqor.spans.calls import Kind

_PROGRAM = re.compile(
    r"(?:^|&&|\|\||[;|(]|\bthen\b|\bdo\b)\s*(?:\w+=\S*\s+)*(?:sudo\s+|time\s+|env\s+|npx\s+)*([\w./-]+)(?:\s+(?!-)([\w./:-]+))?"
)
_ID = re.compile(r"[A-Za-z0-9][\w-]{3,}")


def unresolved_failures(episode: Episode) -> list[EpisodeCall]:
    """Return the calls with an effect that failed or did not finish, and that no later call made good."""
    if episode.known_failures is None:
        episode.known_failures = _unresolved_failures(episode)
    return episode.known_failures


def _unresolved_failures(episode: Episode) -> list[EpisodeCall]:
    calls = [_with_later_news(call, episode.calls[number + 1 :]) for number, call in enumerate(episode.calls)]
    failures = [
        call
        for number, call in enumerate(calls)
        if _matters(call)
        and not any(repeats(later, call) or resolves(later, call) for later in calls[number + 1 :])
        and not (call.meaning.state == "not_final" and _is_awaited(call, calls[number + 1 :]))
    ]
    # What a look at a command in the background shows is the failure of that command.
    return list({call.result_id: call for call in reversed(failures)}.values())[::-1]


_BOUNCE = re.compile(
    r"mailer-daemon|delivery status notification|undeliverable|undelivered|address not found|could ?n[o']t be delivered"
    r"|\b55\d[ -]5\.\d|nxdomain|mail delivery|was ?n[o']t delivered|mailbox (?:full|unavailable)"
    r"|user unknown|no such user|delivery (?:has )?failed|bounced",
    re.IGNORECASE,
)
_BOUNCE_SIGNS = (
    "deliver",
    "mailer-daemon",
    "address not",
    "55",
    "nxdomain",
    "mailbox",
    "unknown",
    "no such",
    "bounced",
)
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")


def _with_later_news(call: EpisodeCall, later: list[EpisodeCall]) -> EpisodeCall:
    """Return a call as failed if a later look at it shows that it failed: a bounced mail, a command that has ended."""
    if call.meaning.state == "not_final":
        call = _with_end(call, later)
    if not call.has_effect or call.line or call.meaning.state == "failure":
        return call
    names: set[str] = set()
    shown = None
    for look in later:
        if look.has_effect:
            continue
        if (state := shown_state(call, look)) is not None:
            shown = (look, state)
        bounce = _BOUNCE.search(look.text) if any(sign in look.lowered for sign in _BOUNCE_SIGNS) else None
        if bounce or look.meaning.state == "failure":
            names = names or _names(call)
            if not names & {*_ID.findall(look.text), *_ADDRESS.findall(look.text)}:
                continue
            quote = look.text[max(0, bounce.start() - 20) : bounce.end() + 60] if bounce else look.meaning.quote
            news = msgspec.structs.replace(look.meaning, state="failure", quote=quote, reason="it was returned")
            return msgspec.structs.replace(call, known_meaning=news, result_id=look.result_id)
    if shown is not None and shown[1].state == "failure":
        look, state = shown
        reason = f"{look.name} shows it"
        news = msgspec.structs.replace(
            look.meaning, state="failure", quote=f"{state.name} {state.quote}", reason=reason
        )
        return msgspec.structs.replace(call, known_meaning=news, result_id=look.result_id)
    return call


def _names(call: EpisodeCall) -> set[str]:
    """Return what identifies an action and what it is about: numbers, keys, addresses."""
    names = {word for word in _ID.findall(f"{call.text} {call.arguments}") if any(map(str.isdigit, word))}
    return names | set(_ADDRESS.findall(call.arguments))


def _with_end(call: EpisodeCall, later: list[EpisodeCall]) -> EpisodeCall:
    """Return a call that went on in the background with how it ended, if a later look at it shows a failure."""
    looks = [look for look in later if (look.kind is Kind.WAIT or look.line) and _names_same(look, call)]
    ended = next((look for look in reversed(looks) if look.meaning.state in ("failure", "success")), None)
    if ended is None or ended.meaning.state == "success":
        return call
    return msgspec.structs.replace(call, known_meaning=ended.meaning, result_id=ended.result_id)


def _names_same(look: EpisodeCall, call: EpisodeCall) -> bool:
    """Return whether a later call names what an earlier one printed or was given: the id of a job, of an order."""
    shared = set(_ID.findall(look.arguments)) & {*_ID.findall(call.text), *_ID.findall(call.arguments)}
    return any(not word.isalpha() for word in shared)


_REMOVAL = frozenset(("rm", "rmdir", "unlink", "kill", "pkill", "killall"))
"""Programs after which something is gone, also if they fail because it was not there."""
_MAKING = frozenset(("mkdir", "ln", "touch"))
"""Programs after which something is there, also if they fail because it was there."""


def _is_as_wanted(call: EpisodeCall) -> bool:
    """Return whether a command failed only because what it removes or makes was gone, or there, already."""
    programs = {program.name for program in plan_of(call.line).programs} if call.line else set()
    if not programs:
        return False
    return (programs <= _REMOVAL and reports_absence(call.text)) or (
        programs <= _MAKING and reports_already_done(call.text)
    )


_STAYS = re.compile(
    r"\b(?:dev|serve|server|start|watch|listen|preview|daemon|storybook|tunnel|ngrok|up)\b|http\.server|uvicorn|gunicorn"
    r"|flask run|runserver|redis-server|nginx|tail -f|journalctl -f"
)
"""Command lines of programs that are meant to go on: that they still run is no failure to finish."""


def _matters(call: EpisodeCall) -> bool:
    if call.meaning.state == "failure" and _is_as_wanted(call):
        return False
    if call.meaning.state == "not_final":
        # A plan, a dry run or a server is not meant to finish anything.
        if call.meaning.rule == "dry_run" or _is_named_so(call) or (_STAYS.search(call.line) and not call.is_check):
            return False
        return call.has_effect or call.is_check
    return (call.has_effect or call.is_check) and call.meaning.state == "failure"


def _is_named_so(call: EpisodeCall) -> bool:
    """Return whether a state is that of the thing, not of the call: `modify_pending_order` leaves it pending."""
    state = {word for word in tokens(call.meaning.quote) if len(word) > MAX_SMALL} - {"status", "state"}
    return call.meaning.rule.startswith("json") and bool(
        state & tokens(f"{call.tool.replace('_', ' ')} {call.arguments}")
    )


MAX_SMALL = 3
"""Maximum number of letters of a word that says nothing about a state: on, in, is."""
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


def repeats(later: EpisodeCall, call: EpisodeCall) -> bool:
    """Return whether a later call did the same again, so that only its result counts."""
    return later.tool == call.tool and later.arguments == call.arguments and later.has_result


def resolves(later: EpisodeCall, call: EpisodeCall) -> bool:
    """Return whether a later call made good what a call failed to do, or shows that it has finished."""
    if later.meaning.state == "not_final" or later.meaning.state == "failure":
        return False
    if later.meaning.state == "unknown" and not (_is_quiet(later) if later.is_check else later.has_effect):
        return False
    if call.meaning.state == "not_final" and _names_same(later, call):
        return True
    if call.is_check:
        checked, own = check_classes(later), check_classes(call)
        # Tests that pass show that the build works too.
        covers = not checked or not own or bool(checked & own) or (own == {"build"} and "test" in checked)
        if not later.is_check or not covers:
            return False
        return bool(_programs(later) & _programs(call) or not _programs(call))
    if later.tool == call.tool and have_same_target(later.arguments, call.arguments):
        return True
    if call.line and later.line and later.has_effect:
        if _LACK.search(call.text) or (_INTERRUPTED.search(call.line) and _CONTINUED.search(later.line)):
            return True  # another program was used, or the conflict was dealt with
        return later.meaning.state == "success" and bool(_commands(call) & _commands(later))
    if call.kind is Kind.CHANGE and later.has_effect:
        return bool(_paths(call) & _paths(later))
    return False


_LACK = re.compile(r"command not found|no module named|modulenotfounderror|is not recognized as", re.IGNORECASE)
"""A program or a module that is not installed."""
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
_FILE = re.compile(r"[\w./~-]*\w\.[a-z]\w{0,4}\b")


CHECKS = {
    "test": re.compile(r"test|spec\b|jest|\btox\b|\bnox\b|cypress|playwright|mocha|coverage"),
    "build": re.compile(r"build|compil|\btsc\b|webpack|gradle|\bmvn|cmake"),
    "lint": re.compile(r"lint|ruff|mypy|flake8|\bblack\b|prettier|rubocop|clippy|typecheck|shellcheck"),
}
"""What the command lines of checks look like."""


def check_classes(call: EpisodeCall) -> set[str]:
    """Return what a call checks; empty if its name does not tell."""
    return {name for name, pattern in CHECKS.items() if pattern.search(call.line or call.tool)}


def gives_result(speech: Speech, stance: Stance, classes: set[str]) -> bool:
    """Return whether a statement gives the result of checks of these classes: all tests pass, the build is green."""
    if not any(speech.has(stance, f"subjects.{name}") for name in classes):
        return False
    return speech.has(stance, "totality") or any(speech.has(stance, f"actions.{name}") for name in CHECKS)
