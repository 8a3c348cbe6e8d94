"""Scenarios in files: read with errors that name the key, and chosen by name from a folder."""

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
    ToolAnswer,
    Turn,
    World,
)
from critiqor.model import Coverage

LARGEST = 1_000_000
"""Bytes of a scenario file."""
SHIPPED = Path(__file__).parent / "scenarios"
_EVERYTHING_ELSE = "*"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>[^`]*)`(?: - at `\$\.?(?P<where>[^`]*)`)?")
_WRONG = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<where>[^`]*)`)?", re.DOTALL)
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
    "world.clock": Clock,
    "provider": Provider,
    "fault_free": FaultFree,
    "fault_free.commands": Command,
    "fault_free.tools": ScriptedTool,
    "fault_free.tools.answers": ToolAnswer,
    "fault_free.provider": Provider,
    "expect": Expectation,
}


def shipped_scenarios() -> list[Scenario]:
    """Those that come with Critiqor, by name."""
    return scenarios_in(SHIPPED)


class ScenarioFolder(NamedTuple):
    """What a folder holds."""

    scenarios: list[Scenario]
    """By name."""
    broken: dict[str, UsageError]
    """Files that are none, by the name that they would have."""


def read_folder(folder: Path) -> ScenarioFolder:
    """Every scenario of a folder; a file that is none hides no other, and where there is nothing else, is the error."""
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


def scenarios_in(folder: Path) -> list[Scenario]:
    """Every scenario of a folder, by name; a file that is none is an error."""
    return [read_scenario(file) for file in _files(folder)]


def _files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.toml"))
    if not files:
        raise UsageError(
            f"{folder} holds no scenarios (*.toml)", fix="critiqor lab list   shows those that are shipped"
        )
    return files


def chosen(scenarios: Iterable[Scenario], names: Collection[str]) -> list[Scenario]:
    """The scenarios of these names, in the order of the names; all of them where no name is given."""
    known = {scenario.name: scenario for scenario in scenarios}
    for name in names:
        if name not in known:
            raise UsageError(f"there is no scenario {name!r}{_meant(name, known)}", fix="critiqor lab list")
    return [known[name] for name in dict.fromkeys(names)] if names else list(known.values())


def read_scenario(file: Path) -> Scenario:
    """The scenario of a file; what is wrong with it is said with the name of the key."""
    try:
        if not _NAME.fullmatch(file.stem):
            raise _MistakeError("the name of the file must be of small letters, digits, - and _")
        with file.open("rb") as opened:
            content = opened.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise _MistakeError(f"it is larger than {LARGEST // 1_000_000} MB")
        return parse_scenario(content, file.stem)
    except _MistakeError as error:
        raise UsageError(f"{file.name}: {error}", fix=f"correct {file}") from error


class _MistakeError(Exception):
    """What is wrong with a scenario."""


def parse_scenario(content: bytes, name: str) -> Scenario:
    """A scenario from the content of its file."""
    try:
        document = tomllib.loads(content.decode())
    # ValueError: not TOML, not UTF-8, or a number of thousands of digits.
    except (ValueError, RecursionError) as error:
        raise _MistakeError(f"it cannot be read as TOML: {error}") from error
    if "name" in document:
        raise _MistakeError("name: a scenario is named by its file")
    try:
        # TOML tells 1 from 1.0, and a number of seconds may be either.
        scenario = msgspec.convert({**document, "name": name}, Scenario)
    except msgspec.ValidationError as error:
        raise _MistakeError(_plainly(str(error))) from error
    _check(scenario)
    return scenario


def _check(scenario: Scenario) -> None:
    _check_turns(scenario)
    _check_expectation(scenario.expect)
    paths = [*scenario.world.files, *scenario.world.full, *scenario.fault_free.files]
    for path in paths:
        parts = PurePosixPath(path)
        if not path or parts.is_absolute() or ".." in parts.parts or "\0" in path:
            raise _MistakeError(f"world.files: {path!r} is not a path inside the workspace")
    for key in ("tools", "helpers"):
        if getattr(scenario.world, key) and "openclaw" in scenario.on:
            raise _MistakeError(f'world.{key}: only the embedded loop can have them; add on = ["embedded"]')
    if len(scenario.on) < 2 and not scenario.because:
        raise _MistakeError(f"on: say in `because` why it is played on {scenario.on[0]} only")


def _check_turns(scenario: Scenario) -> None:
    messages = [turn.message for turn in scenario.turns]
    for number, turn in enumerate(scenario.turns):
        where = f"turns[{number}]"
        if messages.count(turn.message) > 1:
            raise _MistakeError(f"{where}.message: another turn says the same, and the model would confuse them")
        if not any(step.when != "fault_free" for step in turn.steps):
            raise _MistakeError(f"{where}.steps: nothing is played")
        for count, step in enumerate(turn.steps):
            if any(not tool.name for tool in step.tools):
                raise _MistakeError(f"{where}.steps[{count}].tools: a call has no name")
    if not scenario.told:
        raise _MistakeError("turns: nobody says anything; one of them must not be `spawned`")


def _check_expectation(expect: Expectation) -> None:
    for key, named in (("primary", [expect.primary]), ("findings", expect.findings), ("absent", expect.absent)):
        for name in named:
            if name is None or (key == "absent" and name == _EVERYTHING_ELSE) or name in FAILURE_TYPES:
                continue
            raise _MistakeError(f"expect.{key}: there is no failure type {name!r}{_meant(name, FAILURE_TYPES)}")
    if both := sorted(expect.types & set(expect.absent)):
        raise _MistakeError(f"expect.absent: {both[0]} is expected as well")
    if expect.findings and expect.primary is None:
        raise _MistakeError("expect.primary: which of the findings is the primary one?")
    for name in expect.coverage:
        if name not in Coverage.__struct_fields__:
            raise _MistakeError(f"expect.coverage: there is no {name!r}{_meant(name, Coverage.__struct_fields__)}")
    if expect.trust is not None and expect.trust[0] > expect.trust[1]:
        raise _MistakeError("expect.trust: the least score comes first")


def _plainly(error: str) -> str:
    unknown = _UNKNOWN.fullmatch(error)
    if unknown is not None:
        where, key = unknown["where"] or "", unknown["key"]
        table = _TABLES.get(re.sub(r"\[(?:\d+|\.\.\.)\]", "", where))
        known = [name for name in table.__struct_fields__ if name != "name" or where] if table else []
        told = f"{where}.{key}".lstrip(".")
        return f"there is no key `{told}`{_meant(key, known)}; the keys there are {', '.join(known)}"
    wrong = _WRONG.fullmatch(error)
    what, where = (wrong["what"], wrong["where"] or "") if wrong else (error, "")
    missing = re.fullmatch(r"Object missing required field `(\w+)`", what)
    if missing is not None:
        return f"`{f'{where}.{missing[1]}'.lstrip('.')}` is missing"
    return f"{where}: {what[:1].lower()}{what[1:]}" if where else what


def _meant(word: str, known: Collection[str]) -> str:
    close = get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def others_absent(expect: Expectation) -> frozenset[str]:
    """Every type that must not be found."""
    if expect.primary is None or _EVERYTHING_ELSE in expect.absent:
        return frozenset(FAILURE_TYPES) - expect.types
    return frozenset(expect.absent)
