"""The CI workflow and the pre-commit hooks run targets of the Makefile, and between them all that `make test` runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent
ACTIONS = {"actions/checkout", "actions/setup-python"}


def document(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def prerequisites() -> dict[str, list[str]]:
    """The targets of the Makefile and what each of them needs."""
    rules = re.findall(r"^([a-z]+):(.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    return {target: needs.split() for target, needs in rules}


def parts() -> set[str]:
    """The targets that `make test` makes."""
    [named] = re.findall(r"^PARTS := (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    return set(named.split())


def steps() -> list[dict[str, Any]]:
    jobs = document(".github/workflows/test.yml")["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


def made(commands: list[str]) -> set[str]:
    """The targets that commands make; each command must be a call of make and nothing else."""
    assert [command for command in commands if not re.fullmatch(r"make (?:-s )?[a-z]+", command)] == []
    return {command.split()[-1] for command in commands}


def test_the_workflow_makes_everything_that_make_test_makes() -> None:
    targets = made([step["run"] for step in steps() if "run" in step])
    assert targets <= prerequisites().keys()
    assert parts() and parts() <= targets
    assert "coverage" in targets


def test_the_workflow_uses_no_action_but_those_that_fetch_the_code_and_python() -> None:
    assert {step["uses"].partition("@")[0] for step in steps() if "uses" in step} == ACTIONS


def test_the_workflow_tries_every_python_from_the_oldest_that_is_supported() -> None:
    versions = document(".github/workflows/test.yml")["jobs"]["python"]["strategy"]["matrix"]["python"]
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"].removeprefix(
        ">="
    )
    assert versions == [f"3.{minor}" for minor in range(int(oldest.split(".")[1]), 15)]


def test_the_hooks_are_local_and_make_what_make_check_makes() -> None:
    repositories = document(".pre-commit-config.yaml")["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    assert made([hook["entry"] for hook in repositories[0]["hooks"]]) == set(prerequisites()["check"])
