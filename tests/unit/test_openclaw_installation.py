from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import critiqor.openclaw
from critiqor.errors import ExitCode, OpenClawNotFoundError
from critiqor.openclaw import find_openclaw, ignores_bundled_plugins_dir, node_satisfies


def executable(path: Path, text: str = "#!/bin/sh\nexit 0\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def package(folder: Path, **fields: Any) -> Path:
    """An OpenClaw as npm installs it; returns the link in `.bin`."""
    program = executable(folder / "node_modules/openclaw/openclaw.mjs")
    described = {
        "name": "openclaw",
        "version": "2026.9.6",
        "bin": {"openclaw": "openclaw.mjs"},
        "engines": {"node": ">=24.16.0 <25 || >=26.1.0"},
        **fields,
    }
    (program.parent / "package.json").write_text(json.dumps(described), encoding="utf-8")
    link = folder / "node_modules/.bin/openclaw"
    link.parent.mkdir(parents=True)
    link.symlink_to("../openclaw/openclaw.mjs")
    return link


def test_version_is_read_from_the_package_behind_the_link(tmp_path: Path) -> None:
    link = package(tmp_path)
    found = find_openclaw("openclaw", {"PATH": str(link.parent)})
    assert found.command == str(link)
    assert found.version == "2026.9.6"
    assert found.node_requirement == ">=24.16.0 <25 || >=26.1.0"
    assert found.node_version is None


def test_command_may_be_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = package(tmp_path)
    monkeypatch.chdir(link.parent)
    assert find_openclaw(str(link), {}).version == "2026.9.6"
    assert find_openclaw("./openclaw", {}).command == str(link)


def test_node_on_the_search_path_is_asked_for_its_version(tmp_path: Path) -> None:
    link = package(tmp_path)
    node = executable(tmp_path / "bin/node", "#!/bin/sh\necho v24.18.0\n")
    found = find_openclaw("openclaw", {"PATH": f"{link.parent}:{node.parent}"})
    assert found.node_version == "24.18.0"


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho hello\n", "#!/does/not/exist\n"])
def test_broken_node_has_no_version(tmp_path: Path, script: str) -> None:
    link = package(tmp_path)
    executable(link.parent / "node", script)
    assert find_openclaw("openclaw", {"PATH": str(link.parent)}).node_version is None


def test_wrapper_script_has_no_version_and_breaks_nothing(tmp_path: Path) -> None:
    shim = executable(tmp_path / "project/node_modules/.bin/openclaw", '#!/bin/sh\nexec node ../x "$@"\n')
    (tmp_path / "project/package.json").write_text('{"name": "openclaw", "version": "1.0.0"}', encoding="utf-8")
    found = find_openclaw("openclaw", {"PATH": str(shim.parent)})
    assert found.command == str(shim)
    assert (found.version, found.node_requirement) == (None, None)


PNPM_SHIM = """#!/bin/sh
basedir=$(dirname "$(echo "$0" | sed -e 's,\\\\,/,g')")

case `uname` in
    *CYGWIN*|*MINGW*|*MSYS*)
        if command -v cygpath > /dev/null 2>&1; then
            basedir=`cygpath -w "$basedir"`
        fi
    ;;
esac

if [ -x "$basedir/node" ]; then
  exec "$basedir/node"  "$basedir/TARGET" "$@"
else
  exec node  "$basedir/TARGET" "$@"
fi
"""


@pytest.mark.parametrize(
    "shim",
    [
        PNPM_SHIM,
        '#!/bin/sh\nexec node "$(dirname "$0")/TARGET" "$@"\n',
        '#!/usr/bin/env bash\nexec node "${basedir}/TARGET" "$@"\n',
        '#!/bin/bash\nexec FOLDER/TARGET "$@"\n',
        "#!/bin/sh\nexec 'FOLDER/TARGET'\n",
    ],
    ids=["pnpm", "dirname", "braces", "absolute", "single quotes"],
)
def test_version_is_read_from_the_package_behind_a_shim(tmp_path: Path, shim: str) -> None:
    package(tmp_path)
    text = shim.replace("TARGET", "../node_modules/openclaw/openclaw.mjs").replace("FOLDER", str(tmp_path / "bin"))
    command = executable(tmp_path / "bin/openclaw", text)
    found = find_openclaw("openclaw", {"PATH": str(command.parent)})
    assert (found.command, found.version) == (str(command), "2026.9.6")


def test_command_with_arguments_is_split_as_a_shell_would(tmp_path: Path) -> None:
    program = package(tmp_path / "with space").resolve()
    node = executable(tmp_path / "bin/node", "#!/bin/sh\necho v24.18.0\n")
    found = find_openclaw(f"node --no-warnings '{program}'", {"PATH": str(node.parent)})
    assert (found.command, found.arguments) == (str(node), ("--no-warnings", str(program)))
    assert (found.version, found.node_version) == ("2026.9.6", "24.18.0")


def test_node_that_is_part_of_the_command_is_the_one_that_is_asked(tmp_path: Path) -> None:
    program = package(tmp_path).resolve()
    other = executable(tmp_path / "bin/node", "#!/bin/sh\necho v20.1.0\n")
    node = executable(tmp_path / "node24/node", "#!/bin/sh\necho v24.18.0\n")
    assert find_openclaw(f"{node} {program}", {"PATH": str(other.parent)}).node_version == "24.18.0"


def test_openclaw_behind_a_launcher_is_found_on_the_search_path(tmp_path: Path) -> None:
    link = package(tmp_path)
    launcher = executable(link.parent / "nice")
    found = find_openclaw("nice -n 5 openclaw", {"PATH": str(link.parent)})
    assert (found.command, found.arguments) == (str(launcher), ("-n", "5", "openclaw"))
    assert found.version == "2026.9.6"


def test_path_with_a_space_is_one_command(tmp_path: Path) -> None:
    command = executable(tmp_path / "my tools/openclaw")
    found = find_openclaw(str(command), {"PATH": ""})
    assert (found.command, found.arguments) == (str(command), ())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": 7}', '{"name": "openclaw", "bin": 7, "engines": 7}'])
def test_odd_package_has_no_version_and_breaks_nothing(tmp_path: Path, text: str) -> None:
    link = package(tmp_path)
    (tmp_path / "node_modules/openclaw/package.json").write_text(text, encoding="utf-8")
    assert find_openclaw("openclaw", {"PATH": str(link.parent)}).version is None


def test_package_without_engines_has_no_requirement(tmp_path: Path) -> None:
    link = package(tmp_path, bin="openclaw.mjs", engines=None)
    found = find_openclaw("openclaw", {"PATH": str(link.parent)})
    assert (found.version, found.node_requirement) == ("2026.9.6", None)


@pytest.mark.parametrize("command", ["openclaw", "", "no/such/openclaw", "npx openclaw", "'openclaw", "''", "  "])
def test_missing_command_names_what_to_install(tmp_path: Path, command: str) -> None:
    with pytest.raises(OpenClawNotFoundError, match="npm install -g openclaw") as caught:
        find_openclaw(command, {"PATH": str(tmp_path)})
    assert "Node 24" in str(caught.value)
    assert caught.value.exit_code is ExitCode.NOT_FOUND


def test_file_that_is_not_executable_says_so(tmp_path: Path) -> None:
    file = tmp_path / "openclaw"
    file.write_text("", encoding="utf-8")
    with pytest.raises(OpenClawNotFoundError, match="cannot be executed"):
        find_openclaw(str(file), {"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("version", "requirement", "satisfied"),
    [
        ("24.16.0", ">=24.16 <25 || >=26.1", True),
        ("v24.16.0", ">=24.16.0 <25 || >=26.1.0", True),
        ("24.15.9", ">=24.16 <25 || >=26.1", False),
        ("25.0.0", ">=24.16 <25 || >=26.1", False),
        ("26.0.9", ">=24.16 <25 || >=26.1", False),
        ("26.1.0", ">=24.16 <25||>=26.1", True),
        ("22.19.0", ">=22.19.0", True),
        ("22.18.9", ">= 22.19.0", False),
        ("22.12.5", "^22.12.0", True),
        ("23.0.0", "^22.12.0", False),
        ("0.2.9", "^0.2.3", True),
        ("0.3.0", "^0.2.3", False),
        ("22.12.9", "~22.12", True),
        ("22.13.0", "~22.12.1", False),
        ("22.99.1", "22.x", True),
        ("23.0.0", "22.x.x", False),
        ("22.1.0", "22", True),
        ("22.1.1", "=22.1.0", False),
        ("25.0.0", ">24", True),
        ("24.9.9", ">24", False),
        ("24.9.9", "<=24", True),
        ("20.5.0", "18 - 20", True),
        ("21.0.0", "18 - 20", False),
        ("1.2.3", "*", True),
        ("1.2.3", "", True),
    ],
)
def test_node_version_in_a_range(version: str, requirement: str, satisfied: bool) -> None:
    assert node_satisfies(version, requirement) is satisfied


@pytest.mark.parametrize(
    ("version", "requirement"),
    [("24", ">=22"), ("new", ">=22"), ("24.0.0-nightly", ">=22"), ("24.0.0", "lts/*"), ("24.0.0", ">=22 || latest")],
)
def test_range_that_is_not_understood_is_neither_yes_nor_no(version: str, requirement: str) -> None:
    assert node_satisfies(version, requirement) is None


@pytest.mark.parametrize(
    ("version", "ignores"),
    [
        ("2026.6.1", True),
        ("2026.6.1-2", True),
        ("2026.9.6", True),
        ("2026.7.1-beta.1", True),
        ("2027.1.1", True),
        ("2026.6.1-beta.3", False),
        ("2026.5.31", False),
        ("2025.12.1", False),
        ("latest", True),
        (None, True),
    ],
)
def test_only_versions_known_to_be_older_are_spared_the_bundled_plugins_folder(
    version: str | None, ignores: bool
) -> None:
    assert ignores_bundled_plugins_dir(version) is ignores


def test_facade_offers_what_it_lists() -> None:
    assert sorted(critiqor.openclaw.__all__) == sorted(set(critiqor.openclaw.__all__))
    assert all(hasattr(critiqor.openclaw, name) for name in critiqor.openclaw.__all__)
