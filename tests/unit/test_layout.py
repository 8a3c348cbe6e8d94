"""The tree of the package: small folders, few loose modules, and a description that names every one of them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "critiqor"
MAX_MODULES = 14
MAX_LOOSE_MODULES = 6
UNBOUNDED = {"detectors", "verbs", "scenarios"}
"""Folders with one file per detector, verb or scenario: their number is that of the product's."""
NOT_PYTHON = {"__pycache__", "static", "templates", "schemas"}


def folders() -> list[Path]:
    found = [path for path in PACKAGE.rglob("*") if path.is_dir() and not NOT_PYTHON & set(path.parts)]
    return sorted(path for path in found if any(path.glob("*.py")))


def modules(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.py")} - {"__init__"}


def described() -> dict[str, set[str]]:
    """What docs/architecture.md says each folder holds: its modules, and its subfolders with a slash."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    lists = re.findall(r"^- `critiqor/([\w/]+)/`: .*?\. Holds (.+?)\.$", text, re.MULTILINE)
    return {folder: set(re.findall(r"`([\w/]+)`", names)) for folder, names in lists}


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: str(folder.relative_to(PACKAGE)))
def test_a_folder_is_small_and_described_module_by_module(folder: Path) -> None:
    if folder.name not in UNBOUNDED:
        assert len(modules(folder)) <= MAX_MODULES
    inside = {f"{path.name}/" for path in folders() if path.parent == folder}
    assert described()[str(folder.relative_to(PACKAGE))] == modules(folder) | inside


def test_only_existing_folders_are_described() -> None:
    assert set(described()) == {str(folder.relative_to(PACKAGE)) for folder in folders()}


def test_few_modules_lie_beside_the_packages_and_each_is_described() -> None:
    assert len(modules(PACKAGE)) <= MAX_LOOSE_MODULES
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    assert [name for name in modules(PACKAGE) if f"- `critiqor/{name}.py`: " not in text] == []


def test_the_drawing_of_the_package_has_every_folder() -> None:
    drawing = (ROOT / "docs" / "architecture.md").read_text("utf-8").split("critiqor/\n")[1].split("```")[0]
    drawn = {name for line in drawing.splitlines() for name in re.findall(r"(\w+)/", line.strip().split("  ")[0])}
    assert {folder.name for folder in folders() if folder.parent == PACKAGE} - drawn == set()


def test_the_layers_are_described_as_they_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    checked = [set(re.findall(r"critiqor\.(\w+)", layer)) for layer in contracts[0]["layers"]]
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8").split("layers below it: ")[1].split(". ")[0]
    assert [set(re.findall(r"`(\w+)`", layer)) for layer in text.split("→")] == checked


def test_the_session_functions_load_no_detector_and_few_modules() -> None:
    code = "import sys, critiqor.session; print(*(name for name in sys.modules if name.startswith('critiqor')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if name.startswith("critiqor.diagnosis")] == []
    assert len(loaded) <= 30
