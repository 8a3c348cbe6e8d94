"""What attaching changes in a user's settings, and what detaching restores."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from critiqor.errors import UsageError
from critiqor.openclaw import Attachment, AttachmentFolder, AttachmentPlan, locate_configuration, plugin_folder
from critiqor.openclaw.config_patch import apply_patch, as_patch, merge_setting, patch_between, setting_at
from critiqor.openclaw.saved_file import find_original

META = '"meta": {"lastTouchedVersion": "2026.9.6"}'
PLAIN = '{"gateway": {"mode": "local"}, ' + META + "}"


class Home:
    """A user's home folder whose OpenClaw is attached by hand: what its commands would do is done here."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / ".openclaw"
        self.state.mkdir()
        self.environment = {"HOME": str(folder)}
        self.file = self.state / "openclaw.json"
        self.installed = self.state / "extensions" / "critiqor"

    @property
    def folder(self) -> AttachmentFolder:
        return AttachmentFolder(locate_configuration([], self.environment))

    def configure(self, text: str) -> None:
        self.file.write_text(text, encoding="utf-8")

    def settings(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.file.read_text("utf-8"))
        return document

    def patch(self, patch: dict[str, Any]) -> None:
        """As OpenClaw does it: in its own format, and with a backup."""
        self.rewrite(self.file, json.dumps(apply_patch(self.settings(), patch), indent=2))

    def rewrite(self, file: Path, text: str) -> None:
        backups = [file, *(file.with_name(f"{file.name}.bak{age}") for age in ("", ".1", ".2", ".3", ".4"))]
        for newer, older in reversed(list(pairwise(backups))):
            if newer.exists():
                shutil.copy(newer, older)
        file.write_text(text, encoding="utf-8")

    def restore(self, attachment: Attachment) -> list[str]:
        """Put back what there are originals of; returns the files that are not what they were."""
        return [saved.path for saved in self.folder.restore(attachment, self.folder.originals(attachment))]

    def attach(self) -> Attachment:
        plan = self.folder.plan()
        attachment = self.folder.save(plan)
        if plan.installs:
            shutil.copytree(plugin_folder(), self.installed, dirs_exist_ok=True)
        self.patch(plan.patch)
        attachment = self.folder.with_digests(attachment)
        self.folder.write(attachment)
        return attachment

    def detach(self, attachment: Attachment) -> None:
        self.patch(self.folder.undo_patch(attachment))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def changed(plan: AttachmentPlan) -> dict[str, Any]:
    return {".".join(setting.keys): setting.after for setting in plan.settings}


def test_a_plain_configuration_needs_the_plugin_and_its_entry_with_access_to_conversations(home: Home) -> None:
    home.configure(PLAIN)
    plan = home.folder.plan()
    assert plan.installs
    assert changed(plan) == {
        "plugins.entries.critiqor": {
            "enabled": True,
            "hooks": {"allowConversationAccess": True},
            "config": {"attachment": str(home.state / "critiqor" / "attachment.json")},
        }
    }


def test_what_is_attached_needs_nothing_more(home: Home) -> None:
    home.configure(PLAIN)
    home.attach()
    plan = home.folder.plan()
    assert (plan.installs, plan.settings, plan.patch) == (False, (), {})


def test_a_plugin_of_another_version_is_copied_again(home: Home) -> None:
    home.configure(PLAIN)
    home.attach()
    (home.installed / "event_router.js").write_text("// older")
    plan = home.folder.plan()
    assert (plan.installs, plan.settings) == (True, ())


def test_a_plugin_that_the_user_loads_from_a_folder_is_not_copied(home: Home) -> None:
    home.configure(json.dumps({"plugins": {"load": {"paths": [7, "/nowhere", str(plugin_folder())]}}}))
    assert not home.folder.plan().installs


def test_the_recorder_joins_a_list_of_allowed_plugins_and_makes_none(home: Home) -> None:
    home.configure('{plugins: {allow: ["memory-core"]}}')
    assert changed(home.folder.plan())["plugins.allow"] == ["memory-core", "critiqor"]
    home.configure("{plugins: {allow: []}}")
    assert "plugins.allow" not in changed(home.folder.plan())


def test_where_plugins_are_off_only_the_recorder_is_turned_on(home: Home) -> None:
    home.configure('{"plugins": {"enabled": false, "entries": {"telegram": {"enabled": true}}}}')
    before = home.settings()
    attachment = home.attach()
    plugins = home.settings()["plugins"]
    assert (plugins["enabled"], plugins["allow"], plugins["deny"]) == (True, ["critiqor"], ["telegram"])
    assert plugins["slots"] == {"memory": "none"}
    home.detach(attachment)
    assert home.settings() == before


def test_other_settings_of_the_entry_stay(home: Home) -> None:
    entry = {"enabled": False, "hooks": {"timeoutMs": 5}}
    home.configure(json.dumps({"plugins": {"entries": {"critiqor": entry}}}))
    [(keys, after)] = [(setting.keys, setting.after) for setting in home.folder.plan().settings]
    assert keys == ("plugins", "entries", "critiqor")
    assert (after["enabled"], after["hooks"]) == (True, {"timeoutMs": 5, "allowConversationAccess": True})


@pytest.mark.parametrize(
    ("text", "said", "fix"),
    [
        (None, "no OpenClaw configuration", "openclaw onboard"),
        ("{", "is not JSON5", "openclaw doctor"),
        ('{plugins: {deny: ["critiqor"]}}', "denies the recorder", "plugins.deny"),
    ],
    ids=["missing", "broken", "denied"],
)
def test_where_the_recorder_cannot_be_it_is_said_with_the_way_out(
    home: Home, text: str | None, said: str, fix: str
) -> None:
    if text is not None:
        home.configure(text)
    with pytest.raises(UsageError) as error:
        home.folder.plan()
    assert said in error.value.message
    assert fix in str(error.value.fix)


@pytest.mark.parametrize(
    "text",
    [
        '{"gateway": {"mode": "local"}}',
        '{"plugins": {}}',
        '{"plugins": {"entries": {}}}',
        '{"plugins": {"entries": {"telegram": {"enabled": true}}}}',
        '{"plugins": {"allow": ["memory-core"], "deny": ["x"]}}',
        '{"plugins": {"enabled": false, "slots": {"memory": "lancedb"}}}',
        '{"plugins": {"entries": {"critiqor": {"enabled": false}}}}',
    ],
)
def test_undoing_makes_the_settings_what_they_were(home: Home, text: str) -> None:
    home.configure(text)
    attachment = home.attach()
    assert home.settings() != json.loads(text)
    home.detach(attachment)
    assert home.settings() == json.loads(text)
    assert home.folder.undo_patch(attachment) == {}


def test_undoing_leaves_what_the_user_has_changed_meanwhile(home: Home) -> None:
    home.configure('{"plugins": {"allow": ["a", "b"], "enabled": false}}')
    attachment = home.attach()
    home.patch({"plugins": {"allow": ["b", "critiqor", "c"], "slots": {"memory": "mine"}}, "ui": {"x": 1}})
    home.detach(attachment)
    plugins = {"allow": ["b", "c"], "enabled": False, "slots": {"memory": "mine"}}
    assert home.settings() == {"plugins": plugins, "ui": {"x": 1}}


def test_an_untouched_configuration_is_put_back_byte_for_byte_with_its_comments_and_rights(home: Home) -> None:
    text = "// mine\n{ gateway: { mode: 'local' },\n  " + META + ", /* the end */ }\n"
    home.configure(text)
    home.file.chmod(0o640)
    folder = home.folder
    plan = folder.plan()
    attachment = folder.save(plan)
    ours = {"gateway": {"mode": "local"}, "meta": {"lastTouchedVersion": "1"}, **plan.patch}
    home.rewrite(home.file, json.dumps(ours))
    attachment = folder.with_digests(attachment)
    assert folder.is_untouched(attachment)
    assert home.restore(attachment) == []
    assert home.file.read_text("utf-8") == text
    assert home.file.stat().st_mode & 0o777 == 0o640


def test_an_included_file_is_put_back_as_well_and_one_that_did_not_change_is_left_alone(home: Home) -> None:
    home.configure('{plugins: {$include: "./plugins.json5"}, agents: {$include: ["agents.json5"]}}')
    included, other = home.state / "plugins.json5", home.state / "agents.json5"
    included.write_text("{ /* mine */ }")
    other.write_text("{defaults: {}}")
    attachment = home.folder.save(home.folder.plan())
    assert {Path(saved.path).name for saved in attachment.files} == {"openclaw.json", "plugins.json5", "agents.json5"}
    home.rewrite(included, '{"entries": {}}')
    attachment = home.folder.with_digests(attachment)
    before = other.stat().st_ino
    assert home.restore(attachment) == []
    assert included.read_text() == "{ /* mine */ }"
    assert other.stat().st_ino == before


@pytest.mark.parametrize(
    "text",
    ['{"gateway": {"mode": "local"}}', "{" + META + "}", '{"gateway": {"mode": "local"}, "meta": {}}'],
    ids=["no meta", "no mode", "empty meta"],
)
def test_a_configuration_that_openclaw_would_take_for_damaged_is_not_put_back(home: Home, text: str) -> None:
    home.configure(text)
    attachment = home.folder.save(home.folder.plan())
    home.rewrite(home.file, '{"gateway": {"mode": "local"}, "meta": {"lastTouchedVersion": "2026.9.6"}}')
    attachment = home.folder.with_digests(attachment)
    assert home.restore(attachment) == [str(home.file)]
    backup = find_original(attachment.files[0])
    assert backup is not None
    assert backup.read_text() == text


def test_a_backup_that_openclaw_has_no_more_cannot_be_put_back(home: Home) -> None:
    home.configure(PLAIN)
    attachment = home.attach()
    home.file.with_name("openclaw.json.bak").write_text("{}")
    assert home.folder.originals(attachment) == {}
    assert home.restore(attachment) == [str(home.file)]


def test_the_backup_of_a_linked_configuration_is_found_beside_its_target(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles" / "claw[1].json"
    target.parent.mkdir()
    target.write_text(PLAIN)
    home.file.symlink_to(target)
    attachment = home.folder.save(home.folder.plan())
    home.rewrite(target, json.dumps(apply_patch(json.loads(PLAIN), home.folder.plan().patch)))
    attachment = home.folder.with_digests(attachment)
    assert home.restore(attachment) == []
    assert (home.file.is_symlink(), target.read_text()) == (True, PLAIN)


@pytest.mark.parametrize("changed_since", [False, True], ids=["as it was", "changed since"])
def test_a_link_that_openclaw_has_replaced_by_a_file_is_put_back_while_it_leads_to_the_same(
    home: Home, tmp_path: Path, changed_since: bool
) -> None:
    target = tmp_path / "dotfiles.json"
    target.write_text(PLAIN)
    home.file.symlink_to("../dotfiles.json")
    attachment = home.folder.save(home.folder.plan())
    ours = json.dumps(apply_patch(json.loads(PLAIN), home.folder.plan().patch))
    home.file.with_name("openclaw.json.bak").write_text(PLAIN)
    home.file.unlink()
    home.file.write_text(ours)
    attachment = home.folder.with_digests(attachment)
    if changed_since:
        target.write_text("{}")
    assert home.restore(attachment) == ([str(home.file)] if changed_since else [])
    assert home.file.is_symlink() is not changed_since
    assert target.read_text() == ("{}" if changed_since else PLAIN)


def test_a_configuration_that_somebody_has_changed_is_not_put_back(home: Home) -> None:
    home.configure(PLAIN)
    attachment = home.attach()
    home.patch({"ui": {"x": 1}})
    assert not home.folder.is_untouched(attachment)
    home.file.unlink()
    assert not home.folder.is_untouched(attachment)


def test_attaching_again_keeps_what_was_before_the_first_time(home: Home) -> None:
    home.configure(PLAIN)
    first = home.attach()
    (home.installed / "event_router.js").unlink()
    second = home.attach()
    assert second == first
    assert home.restore(second) == []
    assert home.file.read_text() == PLAIN


def test_attaching_again_after_somebody_changed_the_configuration_never_undoes_that(home: Home) -> None:
    home.configure(PLAIN)
    home.attach()
    home.patch({"ui": {"x": 1}, "plugins": {"entries": {"critiqor": {"enabled": False}}}})
    attachment = home.attach()
    assert not home.folder.is_untouched(attachment)
    home.detach(attachment)
    assert home.settings() == {**json.loads(PLAIN), "ui": {"x": 1}}


def test_attaching_after_the_settings_were_removed_by_hand_installs_again(home: Home) -> None:
    home.configure(PLAIN)
    home.attach()
    changed_since = '{"ui": {"x": 1}, ' + PLAIN[1:]
    home.configure(changed_since)
    attachment = home.attach()
    assert attachment.installed
    assert home.restore(attachment) == []
    assert home.file.read_text() == changed_since


def test_an_attachment_can_be_read_again_and_only_by_its_owner(home: Home) -> None:
    home.configure(PLAIN)
    attachment = home.attach()
    assert home.folder.read() == attachment
    for file in (home.state / "critiqor").iterdir():
        assert file.stat().st_mode & 0o077 == 0
    home.folder.remove()
    assert home.folder.read() is None


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 100_000])
def test_an_attachment_file_that_cannot_be_read_is_an_error(home: Home, content: bytes) -> None:
    home.folder.path.mkdir()
    home.folder.file.write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read"):
        home.folder.read()


def test_two_configurations_of_one_state_folder_are_distinguished(home: Home, tmp_path: Path) -> None:
    home.configure(PLAIN)
    home.attach()
    home.environment |= {"OPENCLAW_CONFIG_PATH": str(tmp_path / "other.json"), "OPENCLAW_STATE_DIR": str(home.state)}
    with pytest.raises(UsageError, match=r"attached to .*openclaw\.json"):
        home.folder.read()


def test_a_patch_is_applied_as_openclaw_applies_it() -> None:
    document = {"a": {"b": 1, "c": [1]}, "d": 2}
    assert apply_patch(document, {"a": {"b": None, "c": [2]}, "e": {"f": {"g": 1}}}) == {
        "a": {"c": [2]},
        "d": 2,
        "e": {"f": {"g": 1}},
    }
    assert document == {"a": {"b": 1, "c": [1]}, "d": 2}
    assert as_patch({("a", "b"): 1, ("a", "c"): None, ("d",): 2}) == {"a": {"b": 1, "c": None}, "d": 2}
    wanted = {"a": {"c": [2]}, "d": 2, "e": {}}
    assert apply_patch(document, patch_between(document, wanted)) == wanted
    assert setting_at(document, ("a", "c")) == [1]
    assert setting_at(document, ("d", "c")) is None
    assert merge_setting({"a": [1], "b": {"c": 1}}, {"a": [1, 2], "b": {"d": 2}}) == {
        "a": [1, 2],
        "b": {"c": 1, "d": 2},
    }
