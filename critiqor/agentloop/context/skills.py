"""Skills: folders with a SKILL.md that explains to an agent how to do something.

The prompt lists their names; the model reads a file when it needs it. A skill is left out if it is disabled, or if
required programs or variables are missing. Invalid files are left out and named in the snapshot. Snapshots are cached
until one of the folders changes.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import msgspec

from critiqor.agentloop.context.front_matter import read_front_matter
from critiqor.agentloop.context.workspace import Workspace
from critiqor.agentloop.settings import SkillEntry, SkillSettings

MAX_SKILLS = 150
MAX_DEPTH = 6
MAX_FILE_BYTES = 256 * 1024
MAX_PROMPT_CHARS = 18_000
MAX_SNAPSHOTS = 64
"""Workspaces whose snapshot is kept."""
_MAX_FOLDERS = 2_000


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill that can be used."""

    name: str
    description: str
    location: Path
    """Path of its SKILL.md."""
    in_prompt: bool = True


class SkillsSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The skills of a workspace at one point in time."""

    skills: tuple[Skill, ...] = ()
    environment: dict[str, str] = {}
    """Variables that the configuration sets for skills; they do not override the environment of the process."""
    skipped: tuple[str, ...] = ()
    """Invalid files, each with the reason."""

    @property
    def prompt(self) -> str:
        """List of the skills for the prompt, up to its size limit."""
        listed: list[str] = []
        room = MAX_PROMPT_CHARS
        for skill in self.skills:
            text = _prompt_entry(skill)
            room -= len(text)
            if room >= 0 and skill.in_prompt:
                listed.append(text)
        return "\n".join(["<available_skills>", *listed, "</available_skills>"]) if listed else ""


def skill_folders(workspace: Workspace, state_folder: Path, settings: SkillSettings, home: Path) -> list[Path]:
    """Return the folders to search for skills by precedence; a sandboxed run has only those in its workspace."""
    own = [workspace.folder / "skills", workspace.folder / ".agents" / "skills"]
    if workspace.sandboxed:
        return own
    extra = [home / path[2:] if path.startswith("~/") else Path(path) for path in settings.load.extra_dirs]
    return [*own, home / ".agents" / "skills", state_folder / "skills", *extra]


def load_skills(folders: Sequence[Path], settings: SkillSettings, environment: Mapping[str, str]) -> SkillsSnapshot:
    """Load the skills of these folders that can be used here."""
    found: dict[str, Skill] = {}
    injected: dict[str, str] = {}
    skipped: list[str] = []
    for file in (file for folder in folders for file in _skill_files(folder)):
        if len(found) >= MAX_SKILLS:
            skipped.append(f"{file}: there are more than {MAX_SKILLS} skills")
            break
        try:
            head = _read_head(file)
        except ValueError as error:
            skipped.append(f"{file}: {error}")
            continue
        name = str(head.get("name") or file.parent.name)
        requirements = _requirements(head)
        entry = settings.entries.get(str(requirements.get("skillKey") or name), SkillEntry())
        variables = _variables(entry, requirements)
        if name in found or not entry.enabled or not _is_eligible(requirements, {**variables, **environment}):
            continue
        injected = {**{key: value for key, value in variables.items() if key not in environment}, **injected}
        hidden = head.get("disable-model-invocation") is True
        found[name] = Skill(name=name, description=str(head["description"]), location=file, in_prompt=not hidden)
    return SkillsSnapshot(skills=tuple(found.values()), environment=injected, skipped=tuple(skipped))


class SkillsCache:
    """Snapshots of skills by workspace."""

    def __init__(self, state_folder: Path, home: Path, settings: SkillSettings, environment: Mapping[str, str]) -> None:
        self._state_folder = state_folder
        self._home = home
        self._settings = settings
        self._environment = environment
        self._kept: OrderedDict[Path, tuple[tuple[int, ...], SkillsSnapshot]] = OrderedDict()

    def snapshot(self, workspace: Workspace) -> SkillsSnapshot:
        """Return the skills of a workspace.

        Only changes of the folders are noticed; the model itself reads the files of a skill.
        """
        folders = skill_folders(workspace, self._state_folder, self._settings, self._home)
        modified = tuple(_modified_at(folder) for folder in folders)
        kept = self._kept.get(workspace.folder)
        if kept is not None and kept[0] == modified:
            return kept[1]
        snapshot = load_skills(folders, self._settings, self._environment)
        self._kept[workspace.folder] = modified, snapshot
        if len(self._kept) > MAX_SNAPSHOTS:
            self._kept.popitem(last=False)
        return snapshot


def _modified_at(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def _prompt_entry(skill: Skill) -> str:
    fields = {"name": skill.name, "description": skill.description, "location": str(skill.location)}
    lines = [f"    <{tag}>{escape(' '.join(text.split()))}</{tag}>" for tag, text in fields.items()]
    return "\n".join(["  <skill>", *lines, "  </skill>"])


def _skill_files(root: Path) -> Iterator[Path]:
    """Yield every SKILL.md below a folder, in order, except those inside another skill. Links are not followed."""
    folders = [root]
    seen = 0
    while folders and seen < _MAX_FOLDERS:
        folder = folders.pop(0)
        seen += 1
        if (folder / "SKILL.md").is_file():
            yield folder / "SKILL.md"
            continue
        if len(folder.relative_to(root).parts) >= MAX_DEPTH:
            continue
        try:
            inside = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
        except OSError:
            continue
        folders += [Path(path) for path in inside if not Path(path).name.startswith((".", "node_modules"))]


def _read_head(file: Path) -> dict[str, Any]:
    """Read the front matter of a skill; raises `ValueError` if it has no description."""
    head = read_front_matter(file, MAX_FILE_BYTES)
    if not str(head.get("description") or "").strip():
        raise ValueError("the front matter has no description")
    return head


def _requirements(head: Mapping[str, Any]) -> dict[str, Any]:
    metadata = head.get("metadata")
    requirements = metadata.get("openclaw", metadata.get("clawdbot")) if isinstance(metadata, dict) else None
    return requirements if isinstance(requirements, dict) else {}


def _variables(entry: SkillEntry, requirements: Mapping[str, Any]) -> dict[str, str]:
    variables = dict(entry.env)
    if entry.api_key is not None and isinstance(requirements.get("primaryEnv"), str):
        variables.setdefault(requirements["primaryEnv"], entry.api_key)
    return variables


def _is_eligible(requirements: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    systems = _strings(requirements.get("os"))
    if systems and sys.platform not in systems:
        return False
    if requirements.get("always") is True:
        return True
    needed = requirements.get("requires")
    needs: Mapping[str, Any] = needed if isinstance(needed, dict) else {}
    path = environment.get("PATH", os.defpath)
    any_of = _strings(needs.get("anyBins"))
    return (
        all(shutil.which(program, path=path) for program in _strings(needs.get("bins")))
        and (not any_of or any(shutil.which(program, path=path) for program in any_of))
        and all(environment.get(name) for name in _strings(needs.get("env")))
        and not _strings(needs.get("config"))
    )


def _strings(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
