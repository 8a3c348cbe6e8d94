"""Values that a request names exactly once, and others of the same kind or name that the calls used instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from critiqor.diagnosis.claims.call_arguments import arguments_of
from critiqor.diagnosis.claims.destinations.record_lists import Mismatch
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.claims.language import language_of
from critiqor.diagnosis.claims.recorded.slips import is_slip
from critiqor.diagnosis.claims.values import Value, values_in
from critiqor.spans.calls import Kind

_NAME = re.compile(r"(?<![\w@-])[^\W\d_][^\W_]*(?:[_-][^\W_]+)+(?![\w@-])")
_PART = re.compile(r"[^\W_]+")
MIN_NAME = 5
"""Minimum number of characters of a compound name."""
MAX_NAMES = 20
"""Maximum number of names of a request that are looked for."""

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
_CHANNEL = re.compile(r"(?<![\w&/#])#[a-z][\w-]{2,}")
_RELATIVE = re.compile(
    r"\b(?:before|prior|earlier|after|later|until|from|vor|nach|bis|ab|avant|après|antes|después|depois|prima|dopo|voor"
    r"|na|przed|före|innan|efter|från|до|после|önce|sonra)\b|[前后後전후]|قبل|بعد",
    re.IGNORECASE,
)
_AMOUNT_KEY = re.compile(
    r"amount|total|sum|value|price|betrag|montant|importe|valor|importo|kwota|tutar", re.IGNORECASE
)
_DATE_KEY = re.compile(r"date|start|schedul|when|day|due|begin|departure|check_?in|at$|time", re.IGNORECASE)
_MONEY = ("eur", "usd", "gbp")
_NUMBER_MEMBER = re.compile(r'":\s?"?-?\d')


def replaced_values(episode: Episode) -> Iterator[Mismatch]:
    """Yield the values of a request that the calls with an effect replaced by others."""
    calls = [
        call for call in episode.calls if call.has_effect and call.meaning.state != "failure" and not call.is_check
    ]
    if not calls:
        return
    asked = "\n".join([episode.request, *(text.text for each in episode.earlier for text in each.requests)])
    checks: tuple[Callable[[Episode, list[EpisodeCall], str], Iterator[Mismatch]], ...] = (
        _branches,
        _environments,
        _addresses,
        _hosts,
        _channels,
        _identifiers,
        _amounts,
        _dates,
        _sibling_mismatches,
    )
    # Each check looks first at what is rare: a value of its kind in the arguments, or a sign in the request.
    for check in checks:
        yield from check(episode, calls, asked)


def _branches(episode: Episode, calls: list[EpisodeCall], asked: str) -> Iterator[Mismatch]:
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


def _environments(episode: Episode, calls: list[EpisodeCall], asked: str) -> Iterator[Mismatch]:
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


def _addresses(episode: Episode, calls: list[EpisodeCall], asked: str) -> Iterator[Mismatch]:
    if "@" not in asked:
        return
    wanted = {value.text.lower() for value in values_in(asked) if value.kind == "email"}
    everything = "\n".join(call.arguments for call in calls).lower()
    if len(wanted) != 1 or any(address in everything for address in wanted):
        return
    [name] = wanted
    for call in calls:
        if call.kind is not Kind.ACTION:
            continue
        for key, text in arguments_of(call):
            if re.search(r"^(?:to|recipients?|email|address|attendees?|invitees?|cc|user)$", key) and "@" in text[1:]:
                used = text.lower()
                if _is_explained(used, asked.lower()):
                    continue
                yield Mismatch(call=call, kind="address", wanted=name, used=used, used_forms=(used,))
                return


def _is_explained(address: str, asked: str) -> bool:
    """Return whether a request names the person or the company of an address in other words."""
    parts = [part for part in re.findall(r"[^\W\d_]{4,}", address) if part not in ("mail", "gmail", "example")]
    return any(part[:5] in asked.replace(address, "") for part in parts)


_HOST = re.compile(r"(?<![\w@./-])[a-z0-9-]+(?:\.[a-z0-9-]+)+\.[a-z]{2,}(?![\w/-]|\.\w)")


def _hosts(episode: Episode, calls: list[EpisodeCall], asked: str) -> Iterator[Mismatch]:
    """Yield the name of a host that no call with an effect has, while one has a name that differs in one part."""
    asked = asked.lower()
    wanted = set(_HOST.findall(asked)) if "." in asked else set()
    if not wanted:
        return
    reached = [(call, f"{call.arguments}\n{call.text}".lower()) for call in calls if call.kind is Kind.ACTION]
    for name in sorted(wanted)[:MAX_NAMES]:
        if any(name in text for _, text in reached):
            continue
        for call, text in reached:
            others = [other for other in dict.fromkeys(_HOST.findall(text)) if other not in asked]
            for other in others:
                if _differ_in_one_label(name, other):
                    yield Mismatch(call=call, kind="host", wanted=name, used=other, used_forms=(other,))


def _differ_in_one_label(one: str, other: str) -> bool:
    labels, others = one.split("."), other.split(".")
    return len(labels) == len(others) and sum(map(str.__ne__, labels, others)) == 1


def _channels(episode: Episode, calls: list[EpisodeCall], asked: str) -> Iterator[Mismatch]:
    if "#" not in asked:
        return
    wanted = {name.lower() for name in _CHANNEL.findall(asked)}
    everything = "\n".join(call.arguments for call in calls).lower()
    if len(wanted) != 1 or any(name.lstrip("#") in everything for name in wanted):
        return
    [name] = wanted
    for call in calls:
        for key, text in arguments_of(call):
            if re.search(r"^(?:to|channel|target|room)$", key) and _CHANNEL.fullmatch(text.lower()):
                used = text.lower()
                yield Mismatch(call=call, kind="channel", wanted=name, used=used, used_forms=(used,))
                return


def _identifiers(episode: Episode, calls: list[EpisodeCall], asked: str) -> Iterator[Mismatch]:
    """Yield an identifier of which a call used a slip: two digits changed places, or one is another."""
    actions = [call for call in calls if call.kind is Kind.ACTION]
    used = [(call, text) for call in actions for _, text in arguments_of(call) if any(map(str.isdigit, text))]
    if not used:
        return
    values = values_in(asked)
    wanted = {value.text for value in values if value.kind == "identifier" or (_is_long(value) and not value.unit)}
    if len(wanted) > 3:
        return
    outputs = "\n".join(call.text for call in episode.calls)
    everything = "\n".join(call.arguments for call in episode.calls)
    for name in sorted(wanted):
        if name in everything:
            continue
        for call, text in used:
            if _is_same_form(name, text) and text not in outputs and is_slip(_digits(text), _digits(name)):
                yield Mismatch(call=call, kind="number", wanted=name, used=text, used_forms=(text.lower(),))


def _is_long(value: Value) -> bool:
    return value.kind == "number" and not value.decimals and len(value.digits) >= 4


def _is_same_form(one: str, other: str) -> bool:
    return re.sub(r"\d", "0", one.lower()) == re.sub(r"\d", "0", other.lower())


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def _amounts(episode: Episode, calls: list[EpisodeCall], asked: str) -> Iterator[Mismatch]:
    actions = [call for call in calls if call.kind is Kind.ACTION]
    paid = [(call, text) for call in actions for key, text in _arguments_of_numbers(call) if _AMOUNT_KEY.search(key)]
    if len({text for _, text in paid}) != 1:
        return
    values = values_in(asked, episode.request_language)
    wanted = [value for value in values if value.kind == "number" and value.unit in _MONEY]
    if len({value.text for value in wanted}) != 1:
        return
    amount = wanted[0]
    call, used = paid[0]
    number = float(used)
    if any(abs(number - each * scale) < 0.005 for each, _ in amount.readings for scale in (1, 100, -1, -100)):
        return
    shown = (f"{number:g}", f"{number:.2f}", f"{number / 100:.2f}", f"{number / 100:g}")
    forms = tuple(form for each in shown for form in (each, each.replace(".", ",")))
    yield Mismatch(call=call, kind="amount", wanted=amount.text, used=used, used_forms=forms)


def _arguments_of_numbers(call: EpisodeCall) -> list[tuple[str, str]]:
    """Return the numbers in the arguments of a call with their names."""
    if not _NUMBER_MEMBER.search(call.arguments):
        return []
    return re.findall(r'"(\w+)":\s?"?(-?\d+(?:\.\d+)?)"?(?=[,}\]])', call.arguments)


MAX_WORDS_BEFORE_DATE = 3
"""Maximum number of words between a word such as `before` and the date that it is about."""


def _dates(episode: Episode, calls: list[EpisodeCall], asked: str) -> Iterator[Mismatch]:
    """Yield a date that a single entry was made for, other than the one the request names."""
    found: dict[tuple[int, int], tuple[EpisodeCall, str]] = {}
    times: dict[tuple[int, int], set[str]] = {}
    for call in calls:
        if call.line or '"path"' in call.arguments:
            continue
        # A tool whose name does not say what it does has made an entry if its result says so.
        if call.kind not in (Kind.ACTION, Kind.CHANGE) and call.meaning.state != "success":
            continue
        for key, text in arguments_of(call):
            if _DATE_KEY.search(key):
                # The rest of a time with its zone is read as another date.
                day = text.partition("T")[0] if _ISO.match(text) else text
                dates = [each for each in values_in(day) if each.date is not None]
                for each in dates:
                    if each.date is not None:
                        found[each.date[1:]] = (call, text)
                        times.setdefault(each.date[1:], set()).add(text[len(day) :])
    if not found:
        return
    wanted = {value.date[1:]: value for value in values_in(asked, language_of(asked)) if value.date is not None}
    if len(wanted) != 1:
        return
    [(date, value)] = wanted.items()
    if len(found) > 1:
        same = [other for other in found if other != date and times[other] & times.get(date, set()) - {""}]
        for call, used in (found[other] for other in same):
            if call.tool == found[date][0].tool:
                continue  # a series of entries
            # An entry elsewhere for the same time of day has the date that was asked for, so this is no time zone.
            forms = (used.lower(), used[_DAY - 2 : _DAY].lstrip("0"))
            yield Mismatch(call=call, kind="date", wanted=value.text.rstrip(" ,.;"), used=used, used_forms=forms)
        return
    if _RELATIVE.search(" ".join(asked[: value.start].split()[-MAX_WORDS_BEFORE_DATE:])):
        return
    [(other, (call, used))] = found.items()
    # At night, the date in universal time is another one.
    is_near = used.endswith("Z") and abs(other[1] - date[1]) <= 1
    if other == date or is_near:
        return
    forms = (used.lower(), str(other[1]))
    yield Mismatch(call=call, kind="date", wanted=value.text.rstrip(" ,.;"), used=used, used_forms=forms)


_DAY = len("2026-01-31")
_ISO = re.compile(r"\d{4}-\d\d-\d\dT")


def _sibling_mismatches(episode: Episode, calls: list[EpisodeCall], asked: str) -> Iterator[Mismatch]:
    """Yield the names of a request that no call with an effect uses, while one uses a name that differs in one part."""
    wanted = [name for name in dict.fromkeys(_NAME.findall(episode.request.lower())) if len(name) >= MIN_NAME]
    if not wanted:
        return
    used = "\n".join(call.arguments for call in calls).lower()
    shapes = {}
    for name in wanted[:MAX_NAMES]:
        if name not in used:
            shapes[name] = _PART.split(name)
    if not shapes:
        return
    asked = asked.lower()
    for call in calls:
        for other in dict.fromkeys(_NAME.findall(call.arguments.lower())):
            for name, shape in shapes.items():
                if other not in asked and _PART.split(other) == shape and _differ_in_one_part(name, other):
                    yield Mismatch(call=call, kind="name", wanted=name, used=other, used_forms=(other,))


def _differ_in_one_part(one: str, other: str) -> bool:
    pairs = list(zip(_PART.findall(one), _PART.findall(other), strict=True))
    different = [(left, right) for left, right in pairs if left != right]
    # Numbered versions and dates follow each other: to write the next one is what was asked.
    return len(different) == 1 and not (different[0][0].isdigit() and different[0][1].isdigit())
