"""The policy file: its keys and tables as typed structs, and its mistakes with their places.

A policy is a file of its own, or the tables `limits`, `contracts` and `notify` of `critiqor.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from critiqor.model.diagnosis import SEVERITIES, Severity
from critiqor.model.sanitize import excerpt
from critiqor.policy.contract import PATTERNS, After, AtMost, Before, Contract, Never, OnlyIf
from critiqor.policy.limits import LIMIT_NAMES, Limit, Limits
from critiqor.policy.patterns import CompiledContract, ContractError
from critiqor.policy.places import MAX_KEY, KeyPath, TomlPlaces, format_key

MAX_POLICY_BYTES = 64 * 1024
"""Maximum size of a policy file."""
MAX_CONTRACTS = 200
"""Maximum number of contracts of a policy."""
TABLES = ("limits", "contracts", "notify")
"""The tables of a policy, which can also be in `critiqor.toml`."""
Score = Annotated[int, Meta(ge=0, le=100)]
Count = Annotated[int, Meta(ge=0)]
# TOML can express infinity; the upper bound excludes it.
Money = Annotated[float, Meta(ge=0, le=1e12)]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a user requires of runs: rules of the gate, which are not checked if left out, limits and contracts."""

    min_trust: Score | None = None
    """Minimum trust score; findings of allowed types do not count."""
    min_confidence: Score | None = None
    """Minimum confidence score."""
    max_severity: Severity | None = None
    """Highest severity that a finding may have."""
    forbidden_types: tuple[str, ...] = ()
    """Types of findings that fail the run."""
    allowed_types: tuple[str, ...] = ()
    """Types of findings that do not count."""
    max_findings: Count | None = None
    """Maximum number of findings."""
    max_cost_usd: Money | None = None
    """Maximum cost in dollars."""
    max_tokens: Count | None = None
    """Maximum number of tokens, input and output, cached or not."""
    require_intact: bool = True
    """Whether a run fails if its evidence differs from what was sealed."""
    require_signed: bool = False
    """Whether a run fails unless its evidence and its diagnosis are signed by a trusted signer."""
    require_observed: bool = True
    """Whether a run without a trust score fails."""
    require_finished: bool = True
    """Whether a run fails if it did not finish, or if its end was not observed."""
    allow_unknown_cost: bool = False
    """Whether a run with unknown cost or tokens passes `max_cost_usd` and `max_tokens`."""
    count_extensions: tuple[str, ...] = ()
    """Packages whose findings count like Critiqor's own, or `*` for all. Their detectors must have run."""
    limits: Limits = Limits()
    """What is allowed while an agent works."""
    contracts: tuple[Contract, ...] = ()
    """What must and must not happen."""
    notify: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The table `notify`, as it is in the file."""


RULES = (
    *("require_intact", "require_signed", "require_observed", "require_finished", "count_extensions"),
    *("min_trust", "min_confidence", "max_severity", "forbidden_types", "max_findings", "max_cost_usd", "max_tokens"),
)
"""The rules of the gate, in the order of the results. The other keys only change how rules are applied."""
ALL_EXTENSIONS = "*"
"""The member of `count_extensions` that means all packages."""
DEFAULT_POLICY = Policy(min_trust=70, min_confidence=50, max_severity="medium")
"""Policy that is used if none is given. With a lower confidence, too little was observed for a verdict; readiness has
the same limit."""


class PolicyError(ValueError):
    """The policy is invalid. The message names line and column if they are known, the key, and what is allowed."""


class _Mistake(Exception):  # noqa: N818 - it is raised again as a PolicyError with its place
    """A mistake in the value of a key."""

    def __init__(self, path: KeyPath, message: str, expression: str = "", offset: int = 0) -> None:
        super().__init__(message)
        self.path = path
        self.expression = expression
        self.offset = offset


def parse_policy(
    content: bytes,
    form: Literal["toml", "json"],
    known_types: Collection[str],
    extension_types: Mapping[str, str] = MappingProxyType({}),
) -> Policy:
    """Parse a policy from the content of its file. Raises `PolicyError` if it is invalid.

    `extension_types` are the failure types of installed extensions with their packages.
    """
    document = _decoded(content, form)
    try:
        policy = _converted(document)
        _check_types(policy, known_types, extension_types)
    except _Mistake as mistake:
        raise PolicyError(_located(mistake, content, form)) from mistake
    if not given_rules(policy) and not policy.limits.given and not policy.contracts and not policy.notify:
        raise PolicyError("it has no rules, so every run would pass")
    return policy


def parse_policy_tables(content: bytes) -> Policy:
    """Parse the tables of a policy that are in `critiqor.toml`; other settings in it are ignored.

    The policy has the rules of the default policy. Raises `PolicyError` if a table is invalid.
    """
    document = {name: table for name, table in _decoded(content, "toml").items() if name in TABLES}
    try:
        tables = _converted(document)
    except _Mistake as mistake:
        raise PolicyError(_located(mistake, content, "toml")) from mistake
    return msgspec.structs.replace(DEFAULT_POLICY, **{name: getattr(tables, name) for name in TABLES})


def check_contracts(contracts: tuple[Contract, ...]) -> None:
    """Check contracts of another file by the rules of a policy file. Raises `PolicyError` if one is invalid."""
    try:
        _check_contracts(contracts)
    except _Mistake as mistake:
        raise PolicyError(f"{format_key(mistake.path)}: {mistake}") from mistake


def _decoded(content: bytes, form: Literal["toml", "json"]) -> dict[str, Any]:
    if len(content) > MAX_POLICY_BYTES:
        raise PolicyError(f"it has {len(content)} bytes, at most {MAX_POLICY_BYTES} are allowed")
    try:
        document = tomllib.loads(content.decode()) if form == "toml" else msgspec.json.decode(content)
    # ValueError: neither TOML nor JSON, not UTF-8, or a number with thousands of digits.
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"it cannot be read as {form.upper()}: {error}") from error
    if not isinstance(document, dict):
        raise PolicyError("it must be a table of rules")
    return document


def _converted(document: dict[str, Any]) -> Policy:
    _check_keys(document)
    limits, contracts = document.get("limits", {}), document.get("contracts", [])
    for name, kind, what in (
        ("limits", dict, "table"),
        ("contracts", list, "list of tables, each under [[contracts]]"),
        ("notify", dict, "table"),
    ):
        if not isinstance(document.get(name, kind()), kind):
            raise _Mistake((name,), f"it must be a {what}")
    for name, limit in limits.items():
        if limit is None:
            raise _Mistake(("limits", name), "it has no value; remove the key if you do not want this limit")
    if len(contracts) > MAX_CONTRACTS:
        raise _Mistake(("contracts",), f"there are {len(contracts)} contracts, at most {MAX_CONTRACTS} are allowed")
    given = {**document, "limits": {name: _as_table(value) for name, value in limits.items()}}
    try:
        policy = msgspec.convert(given, Policy)
    except msgspec.ValidationError as error:
        raise _described(error) from error
    _check_contracts(policy.contracts)
    return policy


def _as_table(limit: object) -> object:
    """Return a limit that is given as a number alone as the table that it stands for."""
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
    return {"max": limit} if is_number else limit


def _check_contracts(contracts: tuple[Contract, ...]) -> None:
    ids: dict[str, int] = {}
    for number, contract in enumerate(contracts):
        path: KeyPath = ("contracts", number)
        if contract.id in ids:
            raise _Mistake((*path, "id"), f"contracts[{ids[contract.id]}] has the id {contract.id!r}, too")
        ids[contract.id] = number
        if len(contract.patterns) != 1:
            given = f"it has {', '.join(contract.patterns)}" if contract.patterns else "it has none"
            raise _Mistake(path, f"a contract needs exactly one of {', '.join(PATTERNS)}; {given}")
        try:
            CompiledContract(contract)
        except ContractError as error:
            raise _Mistake((*path, *error.keys), str(error), error.source, error.offset) from error


def _located(mistake: _Mistake, content: bytes, form: Literal["toml", "json"]) -> str:
    """Return the message of a mistake with its place."""
    places = TomlPlaces(content.decode()) if form == "toml" else None
    place = places.find(mistake.path, mistake.expression, mistake.offset) if places is not None else None
    where = f"line {place.line}, column {place.column}: " if place is not None else ""
    return f"{where}{format_key(mistake.path)}: {mistake}" if mistake.path else f"{where}{mistake}"


def given_rules(policy: Policy) -> list[str]:
    """Return the rules that a policy file sets. A limit of 0 is a rule; `false` and an empty list are not."""
    limits = ((rule, getattr(policy, rule)) for rule in RULES)
    return [rule for rule, limit in limits if limit is not None and limit is not False and limit != ()]


def is_counted(policy: Policy, package: str) -> bool:
    """Return whether a policy lists an extension as one whose findings count."""
    counted = map(normalized, policy.count_extensions)
    return ALL_EXTENSIONS in policy.count_extensions or normalized(package) in counted


def normalized(package: str) -> str:
    """Return the name of a package in a policy as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", package).lower()


def _check_keys(document: Mapping[str, Any]) -> None:
    known = Policy.__struct_fields__
    for key, value in document.items():
        if key not in known:
            name = excerpt(key, MAX_KEY)
            rules = f"there is no rule {name!r}{_suggestion(name, known)}; the rules are {', '.join(known)}"
            raise _Mistake((key,), rules)
        # An empty limit, as left by a template, must not switch a rule off.
        if value is None:
            raise _Mistake((key,), "it has no value; remove the key if you do not want this rule")


def _check_types(policy: Policy, own: Collection[str], extension_types: Mapping[str, str]) -> None:
    known = {*own, *extension_types}
    for key in ("forbidden_types", "allowed_types"):
        for name in getattr(policy, key):
            package = extension_types.get(name) if name not in own else None
            if package is not None and not is_counted(policy, package):
                raise _Mistake((key,), f"{name} is a type of the extension {package}; add it to count_extensions")
            if name not in known:
                types = ", ".join(sorted(known))
                text = f"there is no failure type {name!r}{_suggestion(name, known)}; the types are {types}"
                raise _Mistake((key,), text)
    if both := sorted(set(policy.forbidden_types) & set(policy.allowed_types)):
        raise _Mistake(("forbidden_types",), f"{both[0]} is both in forbidden_types and in allowed_types")


def _suggestion(word: str, known: Collection[str]) -> str:
    close = get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


_CHOICES = {
    "max_severity": SEVERITIES,
    "severity": SEVERITIES,
    "per": ("agent_run", "session", "run", "day"),
    "action": ("notify", "stop"),
}
_KEY = re.compile(r"\.([A-Za-z0-9_-]+)|\[(\d+)\]")
_UNKNOWN = re.compile(r"Object contains unknown field (.+)")
_MISSING = re.compile(r"Object missing required field (.+)")


def _described(error: msgspec.ValidationError) -> _Mistake:
    """Return a mistake in a value of a wrong type, with the key that it is about."""
    what, _, where = str(error).replace("`", "").replace(" | null", "").partition(" - at $")
    path: KeyPath = tuple(int(found[2]) if found[2] else found[1] for found in _KEY.finditer(where))
    last = path[-1] if path else ""
    if unknown := _UNKNOWN.fullmatch(what):
        known, name = _known_keys(path), excerpt(unknown[1], MAX_KEY)
        text = f"there is no key {name!r}{_suggestion(name, known)}; the keys are {', '.join(known)}"
        if path == ("limits",) and name in RULES:
            text = f"{name} is a rule for a finished run: put it before the first table"
        return _Mistake((*path, unknown[1]), text)
    if missing := _MISSING.fullmatch(what):
        return _Mistake(path, f"it has no {missing[1]}; the keys are {', '.join(_known_keys(path))}")
    if what.startswith("Expected object"):
        table = f"a table with the keys {', '.join(_known_keys(path))}" if path else "a table"
        return _Mistake(path, f"it must be {'a number or ' if path[:1] == ('limits',) else ''}{table}")
    if last == "id" and "regex" in what:
        return _Mistake(path, "it may consist of letters, digits, dots, hyphens and underscores")
    choices = _CHOICES.get(last) if isinstance(last, str) else None
    if choices and path[0] == "contracts" and last == "per":
        choices = ("agent_run", "session")
    choice = f"; it must be one of {', '.join(choices)}" if choices else ""
    return _Mistake(path, f"{what[:1].lower()}{what[1:]}{choice}")


def _known_keys(path: KeyPath) -> tuple[str, ...]:
    """Return the keys of the table at a path."""
    if path == ("limits",):
        return LIMIT_NAMES
    tables = {"limits": Limit, "never": Never, "before": Before, "after": After, "at_most": AtMost, "only_if": OnlyIf}
    table = path[0] if path[0] == "limits" else path[-1]
    return tables.get(str(table), Contract).__struct_fields__
