from __future__ import annotations

import os
from pathlib import Path

import pytest

from critiqor.openclaw import (
    ConfigurationFile,
    PluginPolicy,
    command_words,
    container_of,
    is_detached_exec,
    locate_configuration,
    profile_of,
    read_plugin_policy,
    writes_configuration,
)


def touch(path: Path, text: str = "{}") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def locate(home: Path, *arguments: str, **environment: str) -> ConfigurationFile:
    return locate_configuration(arguments, {"HOME": str(home), **environment})


def test_default_file_is_in_the_home_folder(tmp_path: Path) -> None:
    found = locate(tmp_path)
    assert found.path == tmp_path / ".openclaw/openclaw.json"
    assert not found.exists
    assert found.chosen_by == "default"
    assert found.state_folder == tmp_path / ".openclaw"


def test_openclaw_home_replaces_home(tmp_path: Path) -> None:
    file = touch(tmp_path / "claw/.openclaw/openclaw.json")
    found = locate(tmp_path, OPENCLAW_HOME="~/claw")
    assert (found.path, found.exists) == (file, True)


def test_legacy_file_name_counts_where_it_exists(tmp_path: Path) -> None:
    file = touch(tmp_path / ".openclaw/clawdbot.json")
    assert locate(tmp_path).path == file
    newer = touch(tmp_path / ".openclaw/openclaw.json")
    assert locate(tmp_path).path == newer


def test_legacy_folder_counts_where_the_new_one_is_missing(tmp_path: Path) -> None:
    file = touch(tmp_path / ".clawdbot/clawdbot.json")
    assert locate(tmp_path).path == file
    assert locate(tmp_path).state_folder == tmp_path / ".clawdbot"


def test_legacy_file_counts_where_the_new_folder_has_none(tmp_path: Path) -> None:
    (tmp_path / ".openclaw").mkdir()
    file = touch(tmp_path / ".clawdbot/openclaw.json")
    assert locate(tmp_path).path == file
    assert locate(tmp_path).state_folder == tmp_path / ".openclaw"


def test_missing_file_is_expected_in_the_legacy_folder_where_only_that_exists(tmp_path: Path) -> None:
    (tmp_path / ".clawdbot").mkdir()
    assert locate(tmp_path).path == tmp_path / ".clawdbot/openclaw.json"


def test_state_folder_from_the_environment_does_not_fall_back_to_the_default(tmp_path: Path) -> None:
    touch(tmp_path / ".openclaw/openclaw.json")
    found = locate(tmp_path, OPENCLAW_STATE_DIR="~/state")
    assert found == ConfigurationFile(
        path=tmp_path / "state/openclaw.json",
        exists=False,
        chosen_by="OPENCLAW_STATE_DIR",
        state_folder=tmp_path / "state",
        installs_folder=tmp_path / "state",
    )


def test_what_is_installed_is_beside_a_file_that_is_named_unless_a_state_folder_is_named_as_well(
    tmp_path: Path,
) -> None:
    touch(tmp_path / "etc/claw.json")
    assert locate(tmp_path).installs_folder == tmp_path / ".openclaw"
    named = {"OPENCLAW_CONFIG_PATH": "~/etc/claw.json"}
    assert locate(tmp_path, **named).installs_folder == tmp_path / "etc"
    assert locate(tmp_path, **named, OPENCLAW_STATE_DIR="~/state").installs_folder == tmp_path / "state"
    assert locate(tmp_path, "--profile", "work", **named).installs_folder == tmp_path / ".openclaw-work"


def test_state_folder_from_the_environment_may_hold_the_legacy_name(tmp_path: Path) -> None:
    file = touch(tmp_path / "state/clawdbot.json")
    assert locate(tmp_path, OPENCLAW_STATE_DIR=str(tmp_path / "state")).path == file


def test_explicit_path_wins_over_everything(tmp_path: Path) -> None:
    file = touch(tmp_path / "mine.json5")
    found = locate(tmp_path, "--profile", "work", OPENCLAW_CONFIG_PATH="~/mine.json5", OPENCLAW_STATE_DIR="~/state")
    assert (found.path, found.exists, found.chosen_by) == (file, True, "OPENCLAW_CONFIG_PATH")
    assert found.state_folder == tmp_path / "state"


def test_relative_explicit_path_is_relative_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert locate(tmp_path, OPENCLAW_CONFIG_PATH="mine.json").path == tmp_path / "mine.json"


def test_blank_settings_count_as_absent(tmp_path: Path) -> None:
    found = locate(tmp_path, OPENCLAW_CONFIG_PATH="  ", OPENCLAW_STATE_DIR="", OPENCLAW_HOME="undefined")
    assert found.path == tmp_path / ".openclaw/openclaw.json"


@pytest.mark.parametrize("line", ["OPENCLAW_CONFIG_PATH={}", 'export OPENCLAW_CONFIG_PATH="{}" # mine'])
def test_explicit_path_may_be_saved_in_the_state_folder(tmp_path: Path, line: str) -> None:
    file = touch(tmp_path / "elsewhere.json")
    touch(tmp_path / ".openclaw/.env", "# keys\nOTHER=1\n" + line.format(file))
    found = locate(tmp_path)
    assert found.path == file
    assert found.chosen_by.startswith("OPENCLAW_CONFIG_PATH in ")
    assert locate(tmp_path, "--profile", "default").path == tmp_path / ".openclaw/openclaw.json"


@pytest.mark.parametrize(
    "arguments", [["--profile", "work", "chat"], ["--profile=work", "chat"], ["chat", "--profile", "work"]]
)
def test_profile_flag_selects_its_own_folder(tmp_path: Path, arguments: list[str]) -> None:
    touch(tmp_path / ".openclaw-work/clawdbot.json")
    found = locate(tmp_path, *arguments)
    # Under a profile the old file name does not count.
    assert (found.path, found.exists) == (tmp_path / ".openclaw-work/openclaw.json", False)
    assert found.chosen_by == "--profile work"
    assert found.state_folder == tmp_path / ".openclaw-work"


def test_dev_flag_is_a_profile(tmp_path: Path) -> None:
    found = locate(tmp_path, "--dev", "chat")
    assert (found.path, found.chosen_by) == (tmp_path / ".openclaw-dev/openclaw.json", "--dev")


def test_default_profile_is_the_default_folder(tmp_path: Path) -> None:
    assert locate(tmp_path, "--profile", "default").path == tmp_path / ".openclaw/openclaw.json"


def test_state_folder_from_the_environment_wins_over_a_profile(tmp_path: Path) -> None:
    found = locate(tmp_path, "--profile", "work", OPENCLAW_STATE_DIR=str(tmp_path / "state"))
    assert (found.path, found.chosen_by) == (tmp_path / "state/openclaw.json", "OPENCLAW_STATE_DIR")


def test_profile_in_the_environment_selects_nothing_by_itself(tmp_path: Path) -> None:
    assert locate(tmp_path, OPENCLAW_PROFILE="work").path == tmp_path / ".openclaw/openclaw.json"


def test_profile_flag_replaces_what_a_surrounding_profile_set(tmp_path: Path) -> None:
    found = locate(
        tmp_path,
        "--profile",
        "other",
        OPENCLAW_PROFILE="work",
        OPENCLAW_STATE_DIR=str(tmp_path / ".openclaw-work"),
        OPENCLAW_CONFIG_PATH=str(tmp_path / ".openclaw-work/openclaw.json"),
    )
    assert found.path == tmp_path / ".openclaw-other/openclaw.json"
    assert found.state_folder == tmp_path / ".openclaw-other"


@pytest.mark.parametrize(
    ("arguments", "profile"),
    [
        ([], None),
        (["chat"], None),
        (["--profile", "a", "--profile", "b"], "b"),
        (["--profile"], None),
        (["--profile", "--dev"], "dev"),
        (["agent", "--message", "hello", "--dev"], "dev"),
        (["gateway", "run", "--dev"], None),
        (["--dev", "gateway", "run"], "dev"),
        (["agent", "--", "--profile", "work"], None),
        (["qa", "matrix", "--profile", "smoke"], None),
    ],
)
def test_profile_of_a_command_line(arguments: list[str], profile: str | None) -> None:
    assert profile_of(arguments) == profile


def test_container_comes_from_the_flag_or_the_environment() -> None:
    assert container_of(["chat"], {}) is None
    assert container_of(["chat"], {"OPENCLAW_CONTAINER": "box"}) == "box"
    assert container_of(["--container=crate", "chat"], {"OPENCLAW_CONTAINER": "box"}) == "crate"


def test_command_words_leave_out_global_options() -> None:
    assert command_words(["--profile", "work", "--no-color", "models", "--agent", "main", "auth", "login"]) == (
        "models",
        "auth",
        "login",
    )


@pytest.mark.parametrize(
    "line",
    [
        "configure",
        "onboard",
        "setup",
        "setup --wizard",
        "config",
        "config --section model",
        "config set gateway.port 1",
        "config patch --stdin",
        "config unset gateway.port",
        "plugins install x",
        "plugins enable x",
        "plugins disable x",
        "channels add",
        "channels --agent main remove",
        "models set a/b",
        "models auth login",
        "models fallbacks clear",
        "agents add x",
        "hooks enable x",
        "mcp set x {}",
        "webhooks gmail setup",
        "--profile work configure",
        "doctor --fix",
        "security audit --fix",
        "gateway install",
        "gateway run --dev --reset",
        "update",
        "--update",
        "reset",
    ],
)
def test_commands_that_exist_to_change_settings_are_known(line: str) -> None:
    assert writes_configuration(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "",
        "chat",
        "agent --local --message configure",
        "agent --message setup",
        "gateway run --port 1",
        "config get gateway.port",
        "config file",
        "config set gateway.port 1 --dry-run",
        "configure --help",
        "plugins list",
        "channels status",
        "models",
        "models auth list",
        "models aliases",
        "update status",
        "doctor",
        "security audit",
        "migrate plan",
        "cron add",
        "message send -- configure",
    ],
)
def test_other_commands_may_be_recorded(line: str) -> None:
    assert not writes_configuration(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "agent exec --isolated hello",
        "agent exec hello --auth-env-only",
        "agent exec --config other.json hello",
        "agent exec --config=other.json hello",
        "--profile work agent exec --isolated hello",
        "agent --agent main --model a/b exec --isolated hello",
    ],
)
def test_exec_that_leaves_the_configuration_aside_is_known(line: str) -> None:
    assert is_detached_exec(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "",
        "agent",
        "agent exec hello",
        "agent exec --model a/b --message-file task.md",
        "agent exec hello -- --isolated",
        "agent exec --isolated --help",
        "agent --isolated --message exec",
        "agent --isolated -m exec",
        "agent --isolated --message=exec",
        "chat --isolated agent exec",
        "exec --isolated",
    ],
)
def test_other_turns_are_not_detached(line: str) -> None:
    assert not is_detached_exec(line.split())


def test_policy_of_a_plain_file(tmp_path: Path) -> None:
    file = touch(
        tmp_path / "openclaw.json",
        """{ // mine
          plugins: {
            enabled: false, allow: ['telegram', 7], deny: ["noisy",],
            entries: {mine: {}}, slots: {memory: 'mem', contextEngine: 'none'},
          },
          channels: {defaults: {}, telegram: {botToken: 'x'}},
        }""",
    )
    assert read_plugin_policy(file) == PluginPolicy(
        enabled=False, allow=("telegram",), deny=("noisy",), named=("mine", "mem", "telegram")
    )


def test_file_without_plugins_says_nothing(tmp_path: Path) -> None:
    assert read_plugin_policy(touch(tmp_path / "a.json")) == PluginPolicy()
    assert read_plugin_policy(touch(tmp_path / "b.json", "{plugins: {allow: []}}")) == PluginPolicy(allow=())


def test_include_at_the_root_is_merged_under_its_siblings(tmp_path: Path) -> None:
    touch(tmp_path / "parts/base.json5", "{plugins: {enabled: false, allow: ['a'], deny: ['d']}}")
    file = touch(tmp_path / "openclaw.json", "{$include: './parts/base.json5', plugins: {enabled: true, allow: ['b']}}")
    assert read_plugin_policy(file) == PluginPolicy(enabled=True, allow=("a", "b"), deny=("d",))


def test_include_in_plugins_replaces_the_object(tmp_path: Path) -> None:
    touch(tmp_path / "plugins.json", "{allow: ['a']}")
    file = touch(tmp_path / "openclaw.json", "{plugins: {$include: 'plugins.json'}}")
    assert read_plugin_policy(file).allow == ("a",)


def test_list_of_includes_is_merged_in_order(tmp_path: Path) -> None:
    touch(tmp_path / "a.json", "{enabled: false, allow: ['a']}")
    touch(tmp_path / "b.json", "{enabled: true, allow: ['b']}")
    file = touch(tmp_path / "openclaw.json", "{plugins: {$include: ['a.json', 'b.json'], allow: ['c']}}")
    assert read_plugin_policy(file) == PluginPolicy(enabled=True, allow=("a", "b", "c"))


def test_nested_include_is_relative_to_the_including_file(tmp_path: Path) -> None:
    touch(tmp_path / "deep/er/plugins.json", "{deny: ['x']}")
    touch(tmp_path / "deep/base.json", "{plugins: {$include: 'er/plugins.json'}}")
    absolute = str(tmp_path / "deep/base.json").replace("\\", "/")
    file = touch(tmp_path / "openclaw.json", f"{{$include: '{absolute}'}}")
    assert read_plugin_policy(file).deny == ("x",)


def test_include_of_a_linked_file_is_looked_for_beside_the_link(tmp_path: Path) -> None:
    target = touch(tmp_path / "dotfiles/claw.json", "{plugins: {$include: './plugins.json'}}")
    touch(tmp_path / ".openclaw/plugins.json", "{deny: ['x']}")
    link = tmp_path / ".openclaw/openclaw.json"
    link.symlink_to(target)
    assert read_plugin_policy(link).deny == ("x",)


def test_ten_includes_in_a_row_are_followed_and_eleven_are_a_problem(tmp_path: Path) -> None:
    touch(tmp_path / "0.json", "{plugins: {deny: ['x']}}")
    for depth in range(1, 12):
        touch(tmp_path / f"{depth}.json", f"{{$include: '{depth - 1}.json'}}")
    assert read_plugin_policy(tmp_path / "10.json").deny == ("x",)
    assert "more than 10 files deep" in (read_plugin_policy(tmp_path / "11.json").problem or "")


def test_cycle_of_includes_is_a_problem(tmp_path: Path) -> None:
    touch(tmp_path / "other.json", "{$include: 'openclaw.json'}")
    file = touch(tmp_path / "openclaw.json", "{$include: 'other.json'}")
    assert "include each other" in (read_plugin_policy(file).problem or "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{plugins: ", "line 1, column 11"),
        ("[]", "does not contain a JSON object"),
        ("{$include: 7}", "neither a path nor a list"),
        ("{$include: ['a', 7]}", "neither a path nor a list"),
        ("{$include: 'missing.json'}", "missing.json could not be read"),
        ("{$include: 'a\\0b'}", "could not be read"),
        ("{$include: 'list.json', a: 1}", "does not contain a JSON object"),
        ("[" * 100_000, "nested more than"),
    ],
)
def test_bad_file_is_a_problem_and_never_an_exception(tmp_path: Path, text: str, problem: str) -> None:
    touch(tmp_path / "list.json", "[]")
    policy = read_plugin_policy(touch(tmp_path / "openclaw.json", text))
    assert problem in (policy.problem or "")
    assert policy.enabled


@pytest.mark.parametrize("plugins", ["7", "[]", "{allow: {}, deny: 'x', entries: [], slots: 7, enabled: 'no'}"])
def test_odd_values_count_as_absent(tmp_path: Path, plugins: str) -> None:
    assert (
        read_plugin_policy(touch(tmp_path / "openclaw.json", f"{{plugins: {plugins}, channels: 1}}")) == PluginPolicy()
    )


def test_unreadable_files_are_a_problem(tmp_path: Path) -> None:
    assert "could not be read" in (read_plugin_policy(tmp_path / "missing.json").problem or "")
    assert "could not be read" in (read_plugin_policy(tmp_path).problem or "")
    binary = tmp_path / "binary.json"
    binary.write_bytes(os.urandom(64) + b"\xff\xfe\xff")
    assert read_plugin_policy(binary).problem
