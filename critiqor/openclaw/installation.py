"""Find the OpenClaw that a command starts, and its version, without starting it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from critiqor.errors import OpenClawNotFoundError

_INSTALL = "Install Node 24, then: npm install -g openclaw"

_Triple = tuple[int, int, int]
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?P<suffix>-[\w.-]+)?(?:\+[\w.-]+)?")
_COMPARATOR = re.compile(
    r"(?P<operator>>=|<=|>|<|=|\^|~)?\s*v?(?P<major>\d+|[xX*])(?:\.(?P<minor>\d+|[xX*]))?(?:\.(?P<patch>\d+|[xX*]))?"
)
_HYPHEN_RANGE = re.compile(r"(\S+)\s+-\s+(\S+)")

_MAX_SHIM_BYTES = 16 * 1024
_SHELL_SCRIPT = re.compile(r"#!\s*/\S*\b(?:ba|da|k|z)?sh\b|#!\s*/usr/bin/env (?:ba|da|k|z)?sh\b")
_OWN_FOLDER = re.compile(r"""\$\(dirname (?:-- )?"\$0"\)""")
_SCRIPT_PATH = re.compile(r"""(["'])(?P<quoted>[^"'\n]+\.[cm]?js)\1|(?P<bare>[^\s"']+\.[cm]?js)(?=\s)""")

# The oldest OpenClaw that was observed to ignore a plugins folder outside its own package.
_IGNORES_BUNDLED_PLUGINS_DIR_SINCE: _Triple = (2026, 6, 1)


class Installation(msgspec.Struct, frozen=True):
    """An OpenClaw on this machine."""

    command: str
    """Absolute path of the executable."""
    arguments: tuple[str, ...] = ()
    """Arguments between the executable and OpenClaw's own arguments, such as `openclaw.mjs` in `node openclaw.mjs`."""
    version: str | None = None
    """OpenClaw's version, such as "2026.9.6"; None if its package was not found."""
    node_requirement: str | None = None
    """npm range of the Node versions that it accepts, such as ">=24.16.0 <25 || >=26.1.0"."""
    node_version: str | None = None
    """The version of the Node that will run it, without the leading v."""
    node: str | None = None
    """Absolute path of that Node."""
    package: Path | None = None
    """Folder of OpenClaw's package; None if it was not found."""


class _Package(msgspec.Struct):
    """The fields of package.json that are used."""

    name: str = ""
    version: str | None = None
    bin: Any = None
    engines: Any = None
    folder: Path | None = None


def find_openclaw(command: str, environment: Mapping[str, str]) -> Installation:
    """Find the OpenClaw that a command starts. Raise `OpenClawNotFoundError` if there is none.

    A command is a name or a path; if that does not exist, it is split into a name or path with arguments, as in a
    shell. The version is read from the package on disk. Only `node --version` is run.
    """
    search_path = environment.get("PATH", os.defpath)
    executable, arguments = _find_command(command, search_path)
    node = str(executable) if executable.name == "node" else shutil.which("node", path=search_path)
    package = _package_behind(executable, arguments, search_path)
    engines = package.engines if isinstance(package.engines, dict) else {}
    requirement = engines.get("node")
    return Installation(
        command=str(executable),
        arguments=arguments,
        version=package.version,
        node_requirement=requirement if isinstance(requirement, str) else None,
        node_version=_node_version(node, environment) if node else None,
        node=node,
        package=package.folder,
    )


def node_satisfies(version: str, requirement: str) -> bool | None:
    """Return whether a Node version is in an npm range; None if either cannot be parsed, or for a pre-release.

    >>> node_satisfies("24.16.0", ">=24.16 <25 || >=26.1")
    True
    """
    parsed = _VERSION.fullmatch(version.strip())
    if not parsed or parsed["suffix"]:
        return None
    actual = _triple(parsed)
    alternatives = [_bounds(alternative) for alternative in requirement.split("||")]
    if any(bounds is None for bounds in alternatives):
        return None
    return any(all(low <= actual < high for low, high in bounds) for bounds in alternatives if bounds is not None)


def ignores_bundled_plugins_dir(version: str | None) -> bool:
    """Return whether this OpenClaw ignores `OPENCLAW_BUNDLED_PLUGINS_DIR` outside its own package.

    In that case the variable is safe to set. False only for versions that are known to be older, which could lose their
    own plugins.
    """
    parsed = _VERSION.fullmatch((version or "").strip())
    if not parsed:
        return True
    numbers = _triple(parsed)
    # "2026.6.1-2" is a correction of 2026.6.1 and newer; "2026.6.1-beta.2" is older.
    preview = bool(parsed["suffix"]) and not parsed["suffix"][1:].isdecimal()
    since = _IGNORES_BUNDLED_PLUGINS_DIR_SINCE
    return numbers > since or (numbers == since and not preview)


def _find_command(command: str, search_path: str) -> tuple[Path, tuple[str, ...]]:
    """Return the absolute path of the executable, and the arguments that are part of the command."""
    try:
        split = shlex.split(command)
    except ValueError:
        split = []
    for first, *rest in filter(None, ([command], split)):
        wanted = str(Path(first).expanduser()) if first.startswith("~") else first
        if found := shutil.which(wanted, path=search_path):
            return Path(found).absolute(), tuple(rest)
        if os.path.dirname(wanted) and Path(wanted).is_file():  # noqa: PTH120 - "./openclaw" has a folder, "openclaw" not
            raise OpenClawNotFoundError(
                f"{first} is a file, but it cannot be executed.", fix=f"chmod +x {shlex.quote(first)}, or: {_INSTALL}"
            )
    raise OpenClawNotFoundError(f"OpenClaw was not found: there is no command {command!r}.", fix=_INSTALL)


def _package_behind(executable: Path, arguments: tuple[str, ...], search_path: str) -> _Package:
    """Return the OpenClaw package of a command.

    The executable is its program, a shim of it, or launches one of these, which is then an argument.
    """
    launched = (Path(shutil.which(word, path=search_path) or word) for word in arguments)
    for start in (executable, *launched):
        for program in (start, *_shim_targets(start)):
            if package := _package_of(program):
                return package
    return _Package()


def _shim_targets(shim: Path) -> list[Path]:
    """Return the paths of the JavaScript files in a shell script, such as the shims that pnpm writes."""
    try:
        with shim.open("rb") as file:
            text = file.read(_MAX_SHIM_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return []
    if not _SHELL_SCRIPT.match(text):
        return []
    targets = [match["quoted"] or match["bare"] for match in _SCRIPT_PATH.finditer(_OWN_FOLDER.sub("$basedir", text))]
    return [shim.parent / target.replace("${basedir}", "$basedir").replace("$basedir", ".", 1) for target in targets]


def _package_of(path: Path) -> _Package | None:
    """Return the OpenClaw package whose program is this file, or None.

    npm links the command into the package. A wrapper script may be inside another package, so the package must name
    this file as its program.
    """
    try:
        program = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    for folder in program.parents:
        try:
            package = msgspec.json.decode((folder / "package.json").read_bytes(), type=_Package)
            package.folder = folder
        except FileNotFoundError:
            continue
        except (OSError, msgspec.DecodeError):
            break
        programs = package.bin.values() if isinstance(package.bin, dict) else [package.bin]
        targets = [folder / target for target in programs if isinstance(target, str)]
        if package.name == "openclaw" and any(target.resolve() == program for target in targets):
            return package
        break
    return None


def _node_version(node: str, environment: Mapping[str, str]) -> str | None:
    try:
        answer = subprocess.run(
            [node, "--version"], env=dict(environment), capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    version = answer.stdout.strip()
    return version.removeprefix("v") if answer.returncode == 0 and _VERSION.fullmatch(version) else None


_Bounds = list[tuple[_Triple, _Triple]]
_LOWEST: _Triple = (0, 0, 0)
_HIGHEST: _Triple = (10**9, 0, 0)


def _bounds(alternative: str) -> _Bounds | None:
    """Return the half-open intervals that must all contain the version; None if the range cannot be parsed."""
    text = _HYPHEN_RANGE.sub(r">=\1 <=\2", alternative.strip())
    bounds: _Bounds = []
    at = 0
    while at < len(text):
        comparator = _COMPARATOR.match(text, at)
        if not comparator or not (text[comparator.end() :] + " ")[0].isspace():
            return None
        bounds.append(_interval(comparator))
        at = len(text) - len(text[comparator.end() :].lstrip())
    return bounds


def _interval(comparator: re.Match[str]) -> tuple[_Triple, _Triple]:
    numbers: list[int] = []
    for part in (comparator["major"], comparator["minor"], comparator["patch"]):
        if part is None or part in "xX*":
            break
        numbers.append(int(part))
    low = _padded(numbers)
    # The first version after the range that a partial version covers: after 24 comes 25.0.0.
    after = _next(numbers, len(numbers))
    match comparator["operator"]:
        case ">=":
            return low, _HIGHEST
        case ">":
            return after, _HIGHEST
        case "<":
            return _LOWEST, low
        case "<=":
            return _LOWEST, after
        case "~":
            return low, _next(numbers, min(len(numbers), 2))
        case "^":
            leading = next((index for index, number in enumerate(numbers) if number), len(numbers) - 1)
            return low, _next(numbers, leading + 1)
        case _:
            return low, after


def _next(numbers: list[int], length: int) -> _Triple:
    """Return the first version after all versions that start with the first `length` numbers."""
    if length < 1:
        return _HIGHEST
    return _padded([*numbers[: length - 1], numbers[length - 1] + 1])


def _padded(numbers: list[int]) -> _Triple:
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    return major, minor, patch


def _triple(parsed: re.Match[str]) -> _Triple:
    return int(parsed[1]), int(parsed[2]), int(parsed[3])
