"""Snapshots of skills, taken once and used again as long as none of their folders has changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

from critiqor.agentloop.context.skills import SkillsSnapshot, load_skills, skill_folders
from critiqor.agentloop.context.workspace import Workspace
from critiqor.agentloop.settings import SkillSettings

KEPT_SNAPSHOTS = 64


class SkillsCache:
    """Snapshots by workspace."""

    def __init__(self, state_folder: Path, home: Path, settings: SkillSettings, environment: Mapping[str, str]) -> None:
        self._state_folder = state_folder
        self._home = home
        self._settings = settings
        self._environment = environment
        self._kept: OrderedDict[Path, tuple[tuple[int, ...], SkillsSnapshot]] = OrderedDict()

    def snapshot(self, workspace: Workspace) -> SkillsSnapshot:
        """The skills of a workspace; what changes inside of a skill's folder is for the model to read."""
        folders = skill_folders(workspace, self._state_folder, self._settings, self._home)
        changed = tuple(_changed_at(folder) for folder in folders)
        kept = self._kept.get(workspace.folder)
        if kept is not None and kept[0] == changed:
            return kept[1]
        snapshot = load_skills(folders, self._settings, self._environment)
        self._kept[workspace.folder] = changed, snapshot
        if len(self._kept) > KEPT_SNAPSHOTS:
            self._kept.popitem(last=False)
        return snapshot


def _changed_at(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0
