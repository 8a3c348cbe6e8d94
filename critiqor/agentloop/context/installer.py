"""Installation of skills and plugins: scan the files, let plugins block the installation, copy them to their folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from critiqor.agentloop.context.front_matter import read_front_matter
from critiqor.agentloop.hooks.plugin_hooks import PluginHooks
from critiqor.errors import CritiqorError, UsageError

MAX_FILES = 1_000
MAX_FILE_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RULES = (
    ("pipe-to-shell", re.compile(rb"\b(?:curl|wget)\b[^\n|]*\|\s*(?:sudo\s+)?(?:ba|z)?sh\b")),
    ("decoded-code", re.compile(rb"\bbase64\s+(?:-d|--decode)\b[^\n|]*\|")),
    ("private-key", re.compile(rb"\.ssh/id_|BEGIN [A-Z ]*PRIVATE KEY")),
)


class Installable(NamedTuple):
    """What can be installed."""

    type: str
    """Its type in the event of `before_install`."""
    description: str
    """The file with its front matter, which names it."""
    folder: str
    """Where it is installed, in the state folder."""


SKILL = Installable("skill", "SKILL.md", "skills")
PLUGIN = Installable("plugin", "HOOK.md", "hooks")
"""A folder with internal hooks."""


class InstallBlockedError(CritiqorError):
    """A plugin has blocked an installation."""


class ScanFinding(msgspec.Struct, frozen=True, rename="camel"):
    """A suspicious line in a file, or a file that is too large to scan (line 0)."""

    rule_id: str
    file: str
    line: int


def scan(folder: Path) -> list[ScanFinding]:
    """Scan the files of a skill or plugin; raises `UsageError` for too many files and for symbolic links."""
    findings: list[ScanFinding] = []
    files = sorted(folder.rglob("*"))
    if len(files) > MAX_FILES:
        raise UsageError(
            f"{folder} has more than {MAX_FILES} files",
            fix="give the folder of the skill or plugin, not a parent folder",
        )
    for file in files:
        if file.is_symlink():
            raise UsageError(f"{file} is a symbolic link", fix="replace the link with a copy of its target")
        if not file.is_file():
            continue
        if file.stat().st_size > MAX_FILE_BYTES:
            findings.append(ScanFinding("large-file", str(file.relative_to(folder)), 0))
            continue
        data = file.read_bytes()
        for rule, pattern in _RULES:
            for found in pattern.finditer(data):
                line = data.count(b"\n", 0, found.start()) + 1
                findings.append(ScanFinding(rule, str(file.relative_to(folder)), line))
    return findings


async def install(kind: Installable, source: Path, state_folder: Path, hooks: PluginHooks) -> Path:
    """Install the skill or plugin in a folder and return its new folder. An installed one of that name is replaced."""
    try:
        head = read_front_matter(source / kind.description, MAX_FILE_BYTES)
    except ValueError as error:
        problem = f"{source} does not contain a {kind.type}: {error}"
        raise UsageError(problem, fix=f"give a folder that contains {kind.description}") from error
    name = str(head.get("name") or source.name)
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is not a valid {kind.type} name", fix="use letters, digits, dots and dashes")
    findings = scan(source)
    scanned = {"status": "findings" if findings else "ok", "findings": msgspec.to_builtins(findings)}
    event: dict[str, Any] = {
        "targetType": kind.type,
        "targetName": name,
        "sourcePath": str(source),
        "sourcePathKind": "directory",
        "request": {"kind": f"{kind.type}-install", "mode": "install"},
        "builtinScan": scanned,
    }
    decided = await hooks.run("before_install", event, {"origin": "critiqor"})
    if decided.get("block") is True:
        raise InstallBlockedError(
            f"{name} was not installed: {decided.get('blockReason') or 'a plugin blocked it'}",
            fix="check the configuration of that plugin",
        )
    folder = state_folder / kind.folder
    target, staged = folder / name, folder / f".{name}-{uuid4().hex[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copytree(source, staged)
        if target.exists():
            shutil.rmtree(target)
        staged.rename(target)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return target
