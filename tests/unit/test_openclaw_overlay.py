from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from critiqor.openclaw import (
    PLUGIN_ID,
    ConfigurationFile,
    Overlay,
    PluginPolicy,
    locate_configuration,
    plugin_folder,
    why_blocked,
    write_overlay,
)


class Home:
    """A user's home folder, and the overlay that a run makes from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"HOME": str(folder)}
        self.file = folder / ".openclaw" / "openclaw.json"

    def configure(self, text: str) -> None:
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text(text, encoding="utf-8")

    def locate(self) -> ConfigurationFile:
        return locate_configuration([], self.environment)

    def overlay(self) -> Overlay:
        return write_overlay(self.folder / "run", self.locate(), self.environment)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def document(overlay: Overlay) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(overlay.path.read_text("utf-8"))
    return loaded


def test_overlay_includes_the_users_file_and_adds_the_plugin(home: Home) -> None:
    home.configure("{agents: {}}")
    overlay = home.overlay()
    assert document(overlay) == {
        "$include": str(home.file),
        "plugins": {
            "load": {"paths": [str(plugin_folder())]},
            "entries": {PLUGIN_ID: {"enabled": True, "hooks": {"allowConversationAccess": True}}},
        },
    }
    assert overlay.path == home.folder / "run" / "openclaw.json"
    assert overlay.blocked is None


def test_environment_leads_to_the_overlay_and_keeps_the_users_state(home: Home) -> None:
    home.configure("{}")
    assert home.overlay().environment == {
        "OPENCLAW_CONFIG_PATH": str(home.folder / "run" / "openclaw.json"),
        "OPENCLAW_INCLUDE_ROOTS": str(home.file.parent),
        "OPENCLAW_STATE_DIR": str(home.file.parent),
    }


def test_nothing_of_the_users_changes(home: Home) -> None:
    home.configure("// mine\n{}")
    before = home.file.stat()
    home.overlay()
    assert home.file.read_text("utf-8") == "// mine\n{}"
    assert home.file.stat().st_mtime_ns == before.st_mtime_ns
    assert list(home.file.parent.iterdir()) == [home.file]


def test_overlay_is_private(home: Home) -> None:
    overlay = home.overlay()
    for file in (overlay.path, overlay.path.parent / "base.json"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_overlay_can_be_written_again(home: Home) -> None:
    home.configure("{}")
    assert home.overlay() == home.overlay()
    assert [path.name for path in (home.folder / "run").iterdir()] == ["openclaw.json"]


def test_overlay_is_never_written_over_the_users_file(home: Home) -> None:
    home.configure("{}")
    with pytest.raises(ValueError, match="own configuration"):
        write_overlay(home.file.parent, home.locate(), home.environment)
    assert home.file.read_text("utf-8") == "{}"


def test_allow_list_is_extended_where_the_user_has_one(home: Home) -> None:
    home.configure("{plugins: {allow: ['telegram']}}")
    # OpenClaw joins this list to the user's.
    assert document(home.overlay())["plugins"]["allow"] == [PLUGIN_ID]


@pytest.mark.parametrize("text", ["{}", "{plugins: {allow: []}}"])
def test_no_allow_list_is_started_for_the_user(home: Home, text: str) -> None:
    home.configure(text)
    assert "allow" not in document(home.overlay())["plugins"]


def test_with_plugins_turned_off_only_the_recorder_is_loaded(home: Home) -> None:
    home.configure(
        "{plugins: {enabled: false, allow: ['mine'], entries: {other: {enabled: true}, critiqor: {}}},"
        " channels: {telegram: {}}}"
    )
    overlay = home.overlay()
    plugins = document(overlay)["plugins"]
    assert plugins["enabled"] is True
    assert plugins["allow"] == [PLUGIN_ID]
    assert plugins["deny"] == ["mine", "other", "telegram"]
    assert plugins["slots"] == {"memory": "none"}
    assert any("plugins.enabled" in note for note in overlay.notes)


def test_denied_plugin_is_reported_as_blocked(home: Home) -> None:
    home.configure("{plugins: {deny: ['critiqor']}}")
    assert "plugins.deny" in (home.overlay().blocked or "")


def test_hard_linked_configuration_is_reported_as_blocked(home: Home) -> None:
    home.configure("{}")
    os.link(home.file, home.folder / "second-name.json")
    assert "hard link" in (home.overlay().blocked or "")


def test_configuration_too_large_to_include_is_reported_as_blocked(home: Home) -> None:
    home.configure("{}" + " " * (2 * 1024 * 1024))
    assert "two megabytes" in (home.overlay().blocked or "")


def test_obstacle_names_reason_and_fix_apart(home: Home) -> None:
    home.configure("{}")
    assert why_blocked(home.locate(), PluginPolicy()) is None
    obstacle = why_blocked(home.locate(), PluginPolicy(deny=(PLUGIN_ID,)))
    assert obstacle is not None
    assert "denies the recorder" in obstacle.reason
    assert str(home.file) in obstacle.fix
    assert str(obstacle) == f"{obstacle.reason}: {obstacle.fix}."


def test_without_a_configuration_an_empty_base_is_included(home: Home) -> None:
    overlay = home.overlay()
    base = overlay.path.parent / "base.json"
    assert document(overlay)["$include"] == str(base)
    assert json.loads(base.read_text("utf-8")) == {}
    assert any("openclaw onboard" in note for note in overlay.notes)
    assert not home.file.parent.exists()


def test_notes_always_name_the_way_to_change_settings(home: Home) -> None:
    home.configure("{}")
    assert ["openclaw configure" in note for note in home.overlay().notes] == [True]


def test_broken_configuration_is_noted_and_left_to_openclaw(home: Home) -> None:
    home.configure("{plugins: ")
    overlay = home.overlay()
    assert document(overlay)["$include"] == str(home.file)
    assert any("line 1, column 11" in note and "openclaw doctor" in note for note in overlay.notes)


def test_include_roots_of_the_user_are_kept(home: Home) -> None:
    home.configure("{}")
    home.environment["OPENCLAW_INCLUDE_ROOTS"] = os.pathsep.join(["/srv/claw", "~/shared", ""])
    roots = home.overlay().environment["OPENCLAW_INCLUDE_ROOTS"].split(os.pathsep)
    assert roots == ["/srv/claw", "~/shared", str(home.file.parent)]


def test_include_roots_saved_in_the_state_folder_are_kept(home: Home) -> None:
    home.configure("{}")
    (home.file.parent / ".env").write_text("OPENCLAW_INCLUDE_ROOTS=/srv/claw\n", encoding="utf-8")
    roots = home.overlay().environment["OPENCLAW_INCLUDE_ROOTS"].split(os.pathsep)
    assert roots == ["/srv/claw", str(home.file.parent)]


def test_folder_behind_a_linked_configuration_is_an_include_root(home: Home) -> None:
    target = home.folder / "dotfiles" / "claw.json"
    target.parent.mkdir()
    target.write_text("{}", encoding="utf-8")
    home.file.parent.mkdir()
    home.file.symlink_to(target)
    overlay = home.overlay()
    assert document(overlay)["$include"] == str(home.file)
    roots = overlay.environment["OPENCLAW_INCLUDE_ROOTS"].split(os.pathsep)
    assert roots == [str(home.file.parent), str(target.parent.resolve())]


def test_webhook_transforms_are_found_beside_the_overlay(home: Home) -> None:
    home.configure("{}")
    transforms = home.file.parent / "hooks" / "transforms"
    transforms.mkdir(parents=True)
    for overlay in (home.overlay(), home.overlay()):
        assert (overlay.path.parent / "hooks" / "transforms").resolve() == transforms.resolve()


def test_folders_beside_an_explicit_configuration_are_named_when_they_are_not_used(home: Home) -> None:
    file = home.folder / "etc" / "claw.json"
    (file.parent / "extensions" / "mine").mkdir(parents=True)
    file.write_text("{}", encoding="utf-8")
    home.environment["OPENCLAW_CONFIG_PATH"] = str(file)
    overlay = home.overlay()
    assert overlay.environment["OPENCLAW_STATE_DIR"] == str(home.folder / ".openclaw")
    assert any("extensions" in note and "OPENCLAW_STATE_DIR" in note for note in overlay.notes)
    home.environment["OPENCLAW_STATE_DIR"] = str(file.parent)
    assert len(home.overlay().notes) == 1


def test_the_recorder_that_was_attached_beside_an_explicit_configuration_is_not_missed(home: Home) -> None:
    file = home.folder / "etc" / "claw.json"
    for name in ("critiqor", ".openclaw-install-backups"):
        (file.parent / "extensions" / name).mkdir(parents=True)
    file.write_text("{}", encoding="utf-8")
    home.environment["OPENCLAW_CONFIG_PATH"] = str(file)
    assert len(home.overlay().notes) == 1


def test_every_note_is_one_line(home: Home) -> None:
    home.configure("{plugins: {enabled: false}}")
    assert all("\n" not in note and note.endswith(".") for note in home.overlay().notes)


def test_plugin_folder_is_in_the_package() -> None:
    assert plugin_folder().parts[-3:] == ("critiqor", "clawhub", "critiqor-openclaw")
