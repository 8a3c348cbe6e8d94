"""Reading scenario files, with errors that name the wrong key, and selecting scenarios by name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from critiqor.diagnosis import FAILURE_TYPES
from critiqor.errors import UsageError
from critiqor.lab.model.model_script import ToolUse
from critiqor.lab.scenario import (
    EVERYTHING_ELSE,
    Clock,
    Command,
    DiskError,
    Expectation,
    FaultFree,
    Freeze,
    FullDisk,
    Kill,
    ModelStep,
    Provider,
    Scenario,
    ScriptedTool,
    Tampering,
    ToolAnswer,
    Turn,
    World,
)
from critiqor.model import Coverage
from critiqor.policy.contract import After, AtMost, Before, Contract, Never, OnlyIf
from critiqor.policy.policy_file import PolicyError, check_contracts

MAX_BYTES = 1_000_000
"""Maximum size of a scenario file in bytes."""
SHIPPED = Path(__file__).parent / "scenarios"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")
_UNKNOWN_KEY = re.compile(r"Object contains unknown field `(?P<key>[^`]*)`(?: - at `\$\.?(?P<where>[^`]*)`)?")
_OTHER_ERROR = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<where>[^`]*)`)?", re.DOTALL)
_TABLES: dict[str, type[msgspec.Struct]] = {
    "": Scenario,
    "turns": Turn,
    "turns.steps": ModelStep,
    "turns.steps.tools": ToolUse,
    "world": World,
    "world.commands": Command,
    "world.tools": ScriptedTool,
    "world.tools.answers": ToolAnswer,
    "world.kill": Kill,
    "world.freeze": Freeze,
    "world.full_disk": FullDisk,
    "world.disk_error": DiskError,
    "world.tampering": Tampering,
    "world.clock": Clock,
    "provider": Provider,
    "fault_free": FaultFree,
    "fault_free.commands": Command,
    "fault_free.tools": ScriptedTool,
    "fault_free.tools.answers": ToolAnswer,
    "fault_free.provider": Provider,
    "contracts": Contract,
    "contracts.never": Never,
    "contracts.before": Before,
    "contracts.after": After,
    "contracts.at_most": AtMost,
    "contracts.only_if": OnlyIf,
    "expect": Expectation,
}


def shipped_scenarios() -> list[Scenario]:
    """Return the scenarios that come with Critiqor, sorted by name."""
    return read_scenarios(SHIPPED)


class ScenarioFolder(NamedTuple):
    """The scenarios of a folder."""

    scenarios: list[Scenario]
    """Sorted by name."""
    broken: dict[str, UsageError]
    """Errors of files that are not valid scenarios, by name."""


def read_folder(folder: Path) -> ScenarioFolder:
    """Read every scenario of a folder. Errors of invalid files are collected, or raised if no file is valid."""
    scenarios: list[Scenario] = []
    broken: dict[str, UsageError] = {}
    for file in _files(folder):
        try:
            scenarios.append(read_scenario(file))
        except UsageError as error:
            broken[file.stem] = error
    if not scenarios:
        raise next(iter(broken.values()))
    return ScenarioFolder(scenarios, broken)


def read_scenarios(folder: Path) -> list[Scenario]:
    """Return every scenario of a folder, sorted by name. Raises UsageError if a file is invalid."""
    return [read_scenario(file) for file in _files(folder)]


def _files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.toml"))
    if not files:
        raise UsageError(f"{folder} contains no scenarios (*.toml)", fix="critiqor lab list   shows the shipped ones")
    return files


def select_scenarios(scenarios: Iterable[Scenario], names: Collection[str]) -> list[Scenario]:
    """Return those scenarios of a folder that have these names, in the order of the names; all if no name is given."""
    known = {scenario.name: scenario for scenario in scenarios}
    for name in names:
        if name not in known:
            raise UsageError(f"there is no scenario {name!r}{_suggestion(name, known)}", fix="critiqor lab list")
    return [known[name] for name in dict.fromkeys(names)] if names else list(known.values())


def read_scenario(file: Path) -> Scenario:
    """Read the scenario in a file. Raises UsageError, which names the wrong key."""
    try:
        if not _NAME.fullmatch(file.stem):
            raise _InvalidScenarioError("the file name may contain only lowercase letters, digits, - and _")
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise _InvalidScenarioError(f"it is larger than {MAX_BYTES // 1_000_000} MB")
        return parse_scenario(content, file.stem)
    except _InvalidScenarioError as error:
        raise UsageError(f"{file.name}: {error}", fix=f"correct {file}") from error


class _InvalidScenarioError(Exception):
    """A mistake in a scenario."""


def parse_scenario(content: bytes, name: str) -> Scenario:
    """Parse the content of a scenario file."""
    try:
        document = tomllib.loads(content.decode())
    # ValueError: not TOML, not UTF-8, or a number with thousands of digits.
    except (ValueError, RecursionError) as error:
        raise _InvalidScenarioError(f"it is not valid TOML: {error}") from error
    if "name" in document:
        raise _InvalidScenarioError("name: remove this key; the file name is the scenario's name")
    try:
        # TOML distinguishes 1 from 1.0; a number of seconds may be either.
        scenario = msgspec.convert({**document, "name": name}, Scenario)
    except msgspec.ValidationError as error:
        raise _InvalidScenarioError(_describe(str(error))) from error
    _check(scenario)
    return scenario


def _check(scenario: Scenario) -> None:
    _check_turns(scenario)
    _check_expectation(scenario.expect)
    sessions = {turn.session for turn in scenario.sent_turns}
    for name in scenario.expect.sessions:
        if name not in sessions:
            hint = _suggestion(name, sessions)
            raise _InvalidScenarioError(f"expect.sessions: no turn is of a session {name!r}{hint}")
    paths = [*scenario.world.files, *scenario.world.full, *scenario.fault_free.files]
    for path in paths:
        parts = PurePosixPath(path)
        if not path or parts.is_absolute() or ".." in parts.parts or "\0" in path:
            raise _InvalidScenarioError(f"world.files: {path!r} is not a path inside the workspace")
    for key in ("tools", "helpers"):
        if getattr(scenario.world, key) and "openclaw" in scenario.on:
            raise _InvalidScenarioError(f'world.{key}: only the embedded loop supports them; add on = ["embedded"]')
    try:
        check_contracts(scenario.contracts)
    except PolicyError as error:
        raise _InvalidScenarioError(str(error)) from error
    if scenario.contracts and scenario.world.clock is not None:
        raise _InvalidScenarioError("contracts: a scenario with world.clock cannot have any")
    if len(scenario.on) < 2 and not scenario.because:
        raise _InvalidScenarioError(f"because: missing; explain why the scenario runs on {scenario.on[0]} only")


def _check_turns(scenario: Scenario) -> None:
    messages = [turn.message for turn in scenario.turns]
    for number, turn in enumerate(scenario.turns):
        where = f"turns[{number}]"
        if messages.count(turn.message) > 1:
            raise _InvalidScenarioError(f"{where}.message: another turn has the same one; each message must be unique")
        if not any(step.when != "fault_free" for step in turn.steps):
            problem = 'all steps have when = "fault_free"; at least one must run with the fault'
            raise _InvalidScenarioError(f"{where}.steps: {problem}")
        for count, step in enumerate(turn.steps):
            if any(not tool.name for tool in step.tools):
                raise _InvalidScenarioError(f"{where}.steps[{count}].tools: a call has no name")
    if not scenario.sent_turns:
        raise _InvalidScenarioError("turns: all turns are `spawned`; at least one must be a user message")


def _check_expectation(expect: Expectation) -> None:
    for key, named in (("primary", [expect.primary]), ("findings", expect.findings), ("absent", expect.absent)):
        for name in named:
            if name is None or (key == "absent" and name == EVERYTHING_ELSE) or name in FAILURE_TYPES:
                continue
            hint = _suggestion(name, FAILURE_TYPES)
            raise _InvalidScenarioError(f"expect.{key}: there is no failure type {name!r}{hint}")
    if both := sorted(expect.types & set(expect.absent)):
        raise _InvalidScenarioError(f"expect.absent: {both[0]} is also expected")
    if expect.findings and expect.primary is None:
        raise _InvalidScenarioError("expect.primary: missing; name the main finding")
    for name in expect.coverage:
        if name not in Coverage.__struct_fields__:
            hint = _suggestion(name, Coverage.__struct_fields__)
            raise _InvalidScenarioError(f"expect.coverage: there is no field {name!r}{hint}")
    if expect.trust is not None and expect.trust[0] > expect.trust[1]:
        raise _InvalidScenarioError("expect.trust: the lowest score comes first")


def _describe(error: str) -> str:
    """Rewrite an error of msgspec, with the path of the key."""
    unknown = _UNKNOWN_KEY.fullmatch(error)
    if unknown is not None:
        where, key = unknown["where"] or "", unknown["key"]
        table = _TABLES.get(re.sub(r"\[(?:\d+|\.\.\.)\]", "", where))
        known = [name for name in table.__struct_fields__ if name != "name" or where] if table else []
        path = f"{where}.{key}".lstrip(".")
        return f"there is no key `{path}`{_suggestion(key, known)}; the keys there are {', '.join(known)}"
    wrong = _OTHER_ERROR.fullmatch(error)
    what, where = (wrong["what"], wrong["where"] or "") if wrong else (error, "")
    missing = re.fullmatch(r"Object missing required field `(\w+)`", what)
    if missing is not None:
        return f"`{f'{where}.{missing[1]}'.lstrip('.')}` is missing"
    return f"{where}: {what[:1].lower()}{what[1:]}" if where else what


def _suggestion(word: str, known: Collection[str]) -> str:
    close = get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
