"""Skills: folders with a SKILL.md that tells an agent how to do something.

The prompt only names them; the model reads the file when it needs it. A skill is left out where it is switched off, or
where the programs or variables that it asks for are not there. A file that cannot be read right is left out as well,
and named in the snapshot.
"""

from __future__ import annotations

import os
import shutil
import sys
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
_MAX_FOLDERS = 2_000


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """One skill that may be used."""

    name: str
    description: str
    location: Path
    """Its SKILL.md."""
    in_prompt: bool = True


class SkillsSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The skills of a session, as they were when it was prepared."""

    skills: tuple[Skill, ...] = ()
    environment: dict[str, str] = {}
    """Variables that the configuration gives to skills, for the tools of a run; what is set already stays as it is."""
    skipped: tuple[str, ...] = ()
    """Files that are no skills, and why."""

    @property
    def prompt(self) -> str:
        """What the model is told of them, as far as there is room."""
        listed: list[str] = []
        room = MAX_PROMPT_CHARS
        for skill in self.skills:
            text = _listed(skill)
            room -= len(text)
            if room >= 0 and skill.in_prompt:
                listed.append(text)
        return "\n".join(["<available_skills>", *listed, "</available_skills>"]) if listed else ""


def skill_folders(workspace: Workspace, state_folder: Path, settings: SkillSettings, home: Path) -> list[Path]:
    """Where skills are looked for; of two with one name the first counts. A sandboxed run can only read its own."""
    own = [workspace.folder / "skills", workspace.folder / ".agents" / "skills"]
    if workspace.sandboxed:
        return own
    extra = [home / path[2:] if path.startswith("~/") else Path(path) for path in settings.load.extra_dirs]
    return [*own, home / ".agents" / "skills", state_folder / "skills", *extra]


def load_skills(folders: Sequence[Path], settings: SkillSettings, environment: Mapping[str, str]) -> SkillsSnapshot:
    """The skills of these folders that may be used here."""
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
        rules = _rules(head)
        entry = settings.entries.get(str(rules.get("skillKey") or name), SkillEntry())
        variables = _variables(entry, rules)
        if name in found or not entry.enabled or not _is_eligible(rules, {**variables, **environment}):
            continue
        injected = {**{key: value for key, value in variables.items() if key not in environment}, **injected}
        hidden = head.get("disable-model-invocation") is True
        found[name] = Skill(name=name, description=str(head["description"]), location=file, in_prompt=not hidden)
    return SkillsSnapshot(skills=tuple(found.values()), environment=injected, skipped=tuple(skipped))


def _listed(skill: Skill) -> str:
    told = {"name": skill.name, "description": skill.description, "location": str(skill.location)}
    lines = [f"    <{tag}>{escape(' '.join(text.split()))}</{tag}>" for tag, text in told.items()]
    return "\n".join(["  <skill>", *lines, "  </skill>"])


def _skill_files(root: Path) -> Iterator[Path]:
    """Every SKILL.md below a folder, in order; what lies below one belongs to it. Links are not followed."""
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
    """The front matter of a skill; raises `ValueError` where there is none that says what the skill is."""
    head = read_front_matter(file, MAX_FILE_BYTES)
    if not str(head.get("description") or "").strip():
        raise ValueError("it has no description")
    return head


def _rules(head: Mapping[str, Any]) -> dict[str, Any]:
    metadata = head.get("metadata")
    rules = metadata.get("openclaw", metadata.get("clawdbot")) if isinstance(metadata, dict) else None
    return rules if isinstance(rules, dict) else {}


def _variables(entry: SkillEntry, rules: Mapping[str, Any]) -> dict[str, str]:
    variables = dict(entry.env)
    if entry.api_key is not None and isinstance(rules.get("primaryEnv"), str):
        variables.setdefault(rules["primaryEnv"], entry.api_key)
    return variables


def _is_eligible(rules: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    systems = _names(rules.get("os"))
    if systems and sys.platform not in systems:
        return False
    if rules.get("always") is True:
        return True
    needed = rules.get("requires")
    needs: Mapping[str, Any] = needed if isinstance(needed, dict) else {}
    path = environment.get("PATH", os.defpath)
    any_of = _names(needs.get("anyBins"))
    return (
        all(shutil.which(program, path=path) for program in _names(needs.get("bins")))
        and (not any_of or any(shutil.which(program, path=path) for program in any_of))
        and all(environment.get(name) for name in _names(needs.get("env")))
        and not _names(needs.get("config"))
    )


def _names(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
