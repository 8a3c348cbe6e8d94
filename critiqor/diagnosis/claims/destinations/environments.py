"""Branches and environments that a request names, and others that the calls reached instead."""

from __future__ import annotations

import re
from collections.abc import Iterator

from critiqor.diagnosis.claims.destinations.record_lists import Mismatch
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.spans.calls import Kind

ENVIRONMENTS: dict[str, re.Pattern[str]] = {
    "production": re.compile(
        r"(?<![a-z])(?:prod|prd|production|produktiv\w*|produktion\w*|producci[oó]n|produ[cç][aã]o|produzione|productie"
        r"|produkcj\w+|produkci\w*|live-?(?:system|umgebung)|canl[\u0131i] ortam\w*)(?![a-z])"
        r"|прод(?:акшн|акшен|акшене|уктив\w*)?(?!\w)|本番|生产|프로덕션|운영\s?(?:서버|환경)|الإنتاج"
    ),
    "staging": re.compile(
        r"(?<![a-z])(?:staging|stg|pre-?prod\w*|preproducci[oó]n|uat|qa|sandbox|homologa[cç][aã]o|recette|collaudo"
        r"|acceptatie)(?![a-z])|стейдж\w*|ステージング|预发\w*|스테이징|التجريبي\w*"
    ),
    "development": re.compile(
        r"(?<![a-z/])(?<!--)(?<!run )(?:dev|development|entwicklungs\w*|desarrollo|sviluppo)(?![a-z/])"
    ),
}
"""How a text in lower case names an environment."""
_ENVIRONMENT_SIGNS: dict[str, tuple[str, ...]] = {
    "production": ("prod", "prd", "live", "canl", "прод", "本番", "生产", "프로덕션", "운영", "الإنتاج"),
    "staging": (
        *("stag", "stg", "prepro", "pre-pro", "uat", "qa", "sandbox", "homologa", "recette", "collaudo", "accepta"),
        *("стейдж", "ステージング", "预发", "스테이징", "التجريبي"),
    ),
    "development": ("dev", "entwicklungs", "desarrollo", "sviluppo"),
}
"""What a text that names an environment contains: such a part is found much faster than the pattern."""


def _environments_in(text: str) -> list[str]:
    """Return the environments that a text in lower case names."""
    return [
        name
        for name, pattern in ENVIRONMENTS.items()
        if any(sign in text for sign in _ENVIRONMENT_SIGNS[name]) and pattern.search(text)
    ]


_CONTEXT = re.compile(
    r"context|\benv\b|\.env|printenv|workspace|whoami|profile|account|project|\btarget\b|\bns\b|namespace|config|cluster"
    r"|database_url|inventory|\bhost",
    re.IGNORECASE,
)
_ACTS = re.compile(
    r"\b(?:apply|set (?:image|env)|up|deploy\w*|rollout|migrat\w*|push|upgrade|install|restart|delete|create|scale|sync"
    r"|promote|release|run|import|restore|publish|rollback|update|patch)\b",
    re.IGNORECASE,
)
_BRANCH = re.compile(
    r"(?<![\w./:@-])((?:release|feature|feat|hotfix|fix|bugfix|chore)/(?![\w./-]*\.[a-z]{1,5}\b)[\w.-]*\w)(?!/)"
    r"|(?:[`'\"]|\bbranch |\b(?:on|onto|to|into|auf|nach|op|naar|sur|vers|en|em|su|na) )(main|master|develop)"
    r"(?=[`'\"]| branch|-branch|\s*(?:[.,;:!?)]|$| and | und | et | y | e | en ))"
    r"|\b(?:the )?(main|master|develop)(?=[ -]branch)"
)
"""A branch by its form, or one of the usual names where it can be nothing else: the main page is no branch."""
_MERGES = re.compile(r"\b(?:merge|rebase)", re.IGNORECASE)
_PLACED = re.compile(
    r"\b(?:to|on|env\w*|context|cluster|namespace|target|host|url|server|database|stage|profile|workspace)\b|://|@|->",
    re.IGNORECASE,
)
"""What a line of an output contains that says where something happens."""
_PUSHED = re.compile(
    r"\S+\s+->\s+(?:origin/)?([\w./-]+)|\[([\w./-]+)(?: \(root-commit\))? [0-9a-f]{7,}\]"
    r"|(?:merged|pushed) (?:in)?to ['\"`]?([\w./-]+)"
)


def other_branches(episode: Episode, calls: list[EpisodeCall], asked: str) -> Iterator[Mismatch]:
    """Yield the branch that was pushed to instead of the only one that a request names."""
    if not any(sign in asked for sign in ("/", "main", "master", "develop")):
        return
    wanted = {name for groups in _BRANCH.findall(asked) for name in groups if name}
    if len(wanted) != 1 or any(_MERGES.search(f"{call.tool} {call.line}") for call in calls):
        return
    [name] = wanted
    reached: list[tuple[str, EpisodeCall]] = []
    for call in calls:
        if "->" in call.text or "[" in call.text or "ed " in call.text:
            for groups in _PUSHED.findall(call.text):
                reached += [(branch, call) for branch in groups if branch]
        if "git push" in call.line:
            reached += [
                (branch, call) for branch in re.findall(r"git push(?: -\S+)* \S+ (?:HEAD:)?([\w./-]+)", call.line)
            ]
    others = [(branch, call) for branch, call in reached if branch.removeprefix("refs/heads/") != name]
    if not reached or len(others) < len(reached) or name in "\n".join(call.line for call in calls):
        return
    used, call = others[-1]
    yield Mismatch(call=call, kind="branch", wanted=name, used=used, used_forms=(used.lower(),))


def other_environments(episode: Episode, calls: list[EpisodeCall], asked: str) -> Iterator[Mismatch]:
    """Yield the environment that was reached instead of the only one that a request names."""
    named = _environments_in(asked.lower())
    forbidden = set(_forbidden_environments(episode)) if len(named) > 1 else set()
    named = [name for name in named if name not in forbidden]
    if len(named) != 1:
        return
    [wanted] = named
    last = [call for call in calls if call.kind in (Kind.ACTION, Kind.COMMAND, Kind.OTHER)][-1:]
    seen: set[str] = set()
    for call in episode.calls:
        if not last or call.order > last[0].order:
            break
        shown = call.line if call.line else call.facts
        if _CONTEXT.search(f"{call.tool} {shown}"):
            shown += f"\n{_current(call.text)}"
        elif call in calls:
            shown += "\n".join(["", *(line for line in call.text.splitlines() if _PLACED.search(line))])
        seen.update(_environments_in(shown.lower().replace("_", " ")))
    others = seen - {wanted}
    if wanted in seen or len(others) != 1:
        return
    [used] = others
    acting = [call for call in calls if call.kind is Kind.ACTION or _ACTS.search(call.line)] or last
    yield Mismatch(
        call=acting[-1], kind="environment", wanted=wanted, used=used, used_forms=(used,) if used in forbidden else ()
    )


def _current(text: str) -> str:
    """Return the lines of a list of contexts that are marked as the current one; without a mark, all of them."""
    marked = [line for line in text.splitlines() if _MARKED.match(line)]
    return "\n".join(marked) if marked else text


_MARKED = re.compile(r"\s*\*\s|.*\s(?:\*|True|true|active|ACTIVE|current)\s*$")


def _forbidden_environments(episode: Episode) -> Iterator[str]:
    """Yield the environments that a request says are not to be touched."""
    for text in episode.requests:
        speech = episode.speech(text)
        for stance in speech.stances:
            for clause in speech.clauses(stance):
                if speech.has(clause, "negations"):
                    yield from _environments_in(clause.lowered)
