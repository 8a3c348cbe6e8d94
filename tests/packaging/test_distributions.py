"""What is published: the files inside the distributions, and the wheel in an empty virtual environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

import critiqor

ROOT = Path(__file__).parent.parent.parent
# Caches stay: that they are not published is what is tested.
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "node_modules", "build", "*.egg-info", "pytest-cache-files-*")


class Distributions(NamedTuple):
    source: Path
    wheel: Path


def copy_what_is_there(source: str, target: str) -> None:
    """Copy a file, unless another part of `make test` has just removed or renamed it: one that it writes to a cache."""
    with suppress(FileNotFoundError):
        shutil.copy2(source, target)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """Both distributions of a copy of this tree; the wheel is built from the unpacked source distribution."""
    folder = tmp_path_factory.mktemp("distributions")
    shutil.copytree(ROOT, folder / "tree", ignore=NOT_COPIED, copy_function=copy_what_is_there)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(folder / "tree")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [source], [wheel] = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    return Distributions(source, wheel)


@pytest.fixture(scope="module")
def environment(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment with the wheel and what it depends on, and nothing else; returns its programs."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    programs = folder / "bin"
    subprocess.run([str(programs / "pip"), "install", "--quiet", str(distributions.wheel)], check=True)
    return programs


def package_files() -> set[str]:
    """Every file of the package in this tree, except caches."""
    found = [path for path in (ROOT / "critiqor").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(ROOT).as_posix() for path in found}


def run(programs: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the installed command as a user without any settings does."""
    variables = {"PATH": os.pathsep.join((str(programs), os.defpath)), "HOME": str(folder), "LANG": "C.UTF-8"}
    variables["TMPDIR"] = str(folder)
    command = [str(programs / "critiqor"), *arguments]
    return subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, check=False)


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
    metadata = {name for name in names if ".dist-info/" in name}
    assert names - metadata == package_files()
    assert {name.partition("/")[2] for name in metadata} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
        "top_level.txt",
    }


def test_the_recorder_and_the_pages_of_the_dashboard_are_in_the_wheel(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as wheel:
        folders = {str(Path(name).parent) for name in wheel.namelist()}
    data = {"clawhub/critiqor-openclaw", "dashboard/static", "dashboard/templates", "lab/scenarios", "model/schemas"}
    assert {f"critiqor/{folder}" for folder in data} <= folders


def test_the_source_distribution_adds_only_what_is_needed_to_build(distributions: Distributions) -> None:
    with tarfile.open(distributions.source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    others = {name for name in names - package_files() if not name.startswith("critiqor.egg-info/")}
    assert package_files() <= names
    assert others == {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}


def test_the_installed_command_says_its_version(environment: Path, tmp_path: Path) -> None:
    done = run(environment, "--version", folder=tmp_path)
    assert (done.returncode, critiqor.__version__ in done.stdout, done.stderr) == (0, True, "")


def test_the_installed_demo_records_and_diagnoses_its_runs(environment: Path, tmp_path: Path) -> None:
    done = run(environment, "demo", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    acts = json.loads(done.stdout)["data"]["acts"]
    assert [act["diagnosis"]["outcome"]["state"] for act in acts] == ["completed"] * 3
    assert len({act["diagnosis"]["headline"] for act in acts}) == 3
