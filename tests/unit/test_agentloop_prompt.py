"""The prompt and what it is made of: workspace, skills, bootstrap files."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from critiqor.agentloop.context.bootstrap import (
    MAX_ALL_CHARS,
    MAX_FILE_CHARS,
    BootstrapFile,
    load_bootstrap,
    truncate_files,
)
from critiqor.agentloop.context.front_matter import parse_front_matter, read_front_matter
from critiqor.agentloop.context.skills import (
    MAX_PROMPT_CHARS,
    MAX_SKILLS,
    SkillsCache,
    SkillsSnapshot,
    load_skills,
    skill_folders,
)
from critiqor.agentloop.context.system_prompt import PromptSources, build_system_prompt
from critiqor.agentloop.context.workspace import Workspace, prepare_workspace, sandbox_name
from critiqor.agentloop.settings import SkillEntry, SkillFolders, SkillSettings
from critiqor.agentloop.tools.registry import offered_tools
from critiqor.errors import CritiqorError


def prompt(workspace: Path, **facts: Any) -> str:
    tools = facts.pop("tools", offered_tools())
    return build_system_prompt(PromptSources(tools=tools, workspace=workspace, **facts))


def test_the_prompt_names_every_tool_the_workspace_and_the_model(tmp_path: Path) -> None:
    text = prompt(tmp_path, model="lab/scripted", today=date(2026, 1, 2))
    for tool in offered_tools():
        assert f"\n- {tool.name}: " in text
    assert f"Your working directory is: {tmp_path}" in text
    assert "model=lab/scripted" in text
    assert "2026-01-02" in text


def test_the_same_sources_give_the_same_prompt(tmp_path: Path) -> None:
    assert prompt(tmp_path) == prompt(tmp_path)


def test_a_subagent_has_a_shorter_prompt_without_silent_replies(tmp_path: Path) -> None:
    text = prompt(tmp_path, mode="minimal", extra="Find the file.")
    assert "NO_REPLY" not in text
    assert "## Memory" not in text
    assert "## Subagent Context\nFind the file." in text
    assert "NO_REPLY" in prompt(tmp_path)


def test_the_text_of_the_caller_and_the_sandbox_are_in_the_prompt(tmp_path: Path) -> None:
    text = prompt(tmp_path, extra="Be brief.", sandboxed=True)
    assert "Be brief." in text
    assert "cannot leave this folder" in text


def test_bootstrap_files_are_in_the_prompt_and_missing_ones_are_named(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Always greet.\n")
    (tmp_path / "MEMORY.md").write_text("Ada likes tea.\n")
    text = prompt(tmp_path, bootstrap=load_bootstrap(tmp_path))
    assert f"## {tmp_path / 'AGENTS.md'}\nAlways greet." in text
    assert "Ada likes tea." in text
    assert f"[MISSING] Expected at: {tmp_path / 'SOUL.md'}" in text
    assert "USER.md" not in text


def test_a_subagent_gets_only_the_instructions(tmp_path: Path) -> None:
    (tmp_path / "SOUL.md").write_text("Be kind.")
    (tmp_path / "AGENTS.md").write_text("Always greet.")
    assert [file.name for file in load_bootstrap(tmp_path, minimal=True)] == ["AGENTS.md"]


def test_a_long_bootstrap_file_is_cut_in_its_middle_and_the_prompt_says_so(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("begin" + "x" * MAX_FILE_CHARS + "end")
    text = prompt(tmp_path, bootstrap=load_bootstrap(tmp_path))
    assert "beginxxx" in text
    assert "xxxend" in text
    assert "characters left out: read AGENTS.md" in text
    assert "Some of them are truncated" in text


@given(st.lists(st.integers(0, 3 * MAX_FILE_CHARS), max_size=8))
def test_bootstrap_files_together_stay_within_their_bounds(sizes: list[int]) -> None:
    files = [BootstrapFile(name=f"{n}.md", path=f"/{n}.md", content="x" * size) for n, size in enumerate(sizes)]
    kept = truncate_files(files)
    assert len(kept) == len(files)
    assert sum(len(file.content or "") for file in kept) <= MAX_ALL_CHARS + 100 * len(files)
    for before, after in zip(files, kept, strict=True):
        assert after.truncated == (after.content != before.content)


def test_a_bootstrap_file_that_is_a_folder_or_a_pipe_counts_as_missing(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").mkdir()
    os.mkfifo(tmp_path / "SOUL.md")
    assert all(file.content is None for file in load_bootstrap(tmp_path))


def skill(folder: Path, name: str, head: str = "description: helps\n") -> Path:
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(f"---\nname: {name}\n{head}---\n# {name}\n")
    return file


def load(folder: Path, settings: SkillSettings | None = None, **environment: str) -> SkillsSnapshot:
    path = {"PATH": os.environ["PATH"]}
    return load_skills([folder], settings or SkillSettings(), path | environment)


def names(snapshot: SkillsSnapshot) -> list[str]:
    return [one.name for one in snapshot.skills]


def test_skills_are_found_in_folders_and_listed_with_their_place(tmp_path: Path) -> None:
    weather = skill(tmp_path, "weather", "description: tells <the> weather\n")
    skill(tmp_path / "personal", "notes")
    snapshot = load(tmp_path)
    assert names(snapshot) == ["weather", "notes"]
    assert f"<location>{weather}</location>" in snapshot.prompt
    assert "tells &lt;the&gt; weather" in snapshot.prompt
    assert "<name>notes</name>" in prompt(tmp_path, skills=snapshot.prompt)


def test_without_skills_there_is_no_section(tmp_path: Path) -> None:
    assert load(tmp_path / "missing").prompt == ""
    assert "## Skills" not in prompt(tmp_path, skills="")


def test_of_two_skills_with_one_name_the_first_folder_counts(tmp_path: Path) -> None:
    first = skill(tmp_path / "a", "weather")
    skill(tmp_path / "b", "weather")
    found = load_skills([tmp_path / "a", tmp_path / "b"], SkillSettings(), {})
    assert [one.location for one in found.skills] == [first]


def test_a_snapshot_of_skills_is_reused_until_a_folder_changes(tmp_path: Path) -> None:
    workspace = Workspace(folder=tmp_path, agent_folder=tmp_path)
    cache = SkillsCache(tmp_path / "state", tmp_path, SkillSettings(), {"PATH": os.environ["PATH"]})
    skill(tmp_path / "skills", "tea")
    first = cache.snapshot(workspace)
    assert names(first) == ["tea"]
    assert cache.snapshot(workspace) is first
    skill(tmp_path / "skills", "coffee")
    assert names(cache.snapshot(workspace)) == ["coffee", "tea"]


def test_folders_below_a_skill_are_not_searched(tmp_path: Path) -> None:
    skill(tmp_path, "outer")
    skill(tmp_path / "outer", "inner")
    assert names(load(tmp_path)) == ["outer"]


@pytest.mark.parametrize(
    "text", ["no front matter", "---\nname: x\n---\n", "---\ndescription: never ended\n", "---\ndescription: ''\n---\n"]
)
def test_a_broken_skill_is_left_out_and_the_others_stay(tmp_path: Path, text: str) -> None:
    skill(tmp_path, "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "SKILL.md").write_text(text)
    snapshot = load(tmp_path)
    assert names(snapshot) == ["good"]
    assert len(snapshot.skipped) == 1
    assert str(tmp_path / "bad" / "SKILL.md") in snapshot.skipped[0]


@pytest.mark.parametrize(
    ("rules", "eligible"),
    [
        ('{"openclaw": {"requires": {"bins": ["sh"]}}}', True),
        ('{"openclaw": {"requires": {"bins": ["no-such-program-x"]}}}', False),
        ('{"openclaw": {"requires": {"bins": ["no-such-program-x"]}, "always": true}}', True),
        ('{"openclaw": {"requires": {"anyBins": ["no-such-program-x", "sh"]}}}', True),
        ('{"openclaw": {"requires": {"anyBins": ["no-such-program-x"]}}}', False),
        ('{"openclaw": {"requires": {"env": ["GIVEN"]}}}', True),
        ('{"openclaw": {"requires": {"env": ["NOT_GIVEN"]}}}', False),
        ('{"openclaw": {"os": ["linux"]}}', True),
        ('{"openclaw": {"os": ["plan9"], "always": true}}', False),
        ('{"clawdbot": {"requires": {"env": ["NOT_GIVEN"]}}}', False),
        ("\n  {\n    openclaw: { requires: { env: ['NOT_GIVEN'], }, },\n  }", False),
        ('{"openclaw": "nonsense"}', True),
    ],
)
def test_a_skill_is_offered_only_if_its_requirements_are_met(tmp_path: Path, rules: str, eligible: bool) -> None:
    skill(tmp_path, "one", f"description: helps\nmetadata: {rules}\n")
    assert (names(load(tmp_path, GIVEN="yes")) == ["one"]) == eligible


def test_a_skill_can_be_disabled_and_given_variables(tmp_path: Path) -> None:
    skill(tmp_path, "off")
    skill(
        tmp_path,
        "keyed",
        'description: helps\nmetadata: {"openclaw": {"primaryEnv": "KEY", "requires": {"env": ["KEY"]}}}\n',
    )
    settings = SkillSettings(
        entries={"off": SkillEntry(enabled=False), "keyed": SkillEntry(api_key="k", env={"MODE": "x", "KNOWN": "new"})}
    )
    snapshot = load(tmp_path, settings, KNOWN="old")
    assert names(snapshot) == ["keyed"]
    assert snapshot.environment == {"KEY": "k", "MODE": "x"}


def test_a_skill_with_disabled_model_invocation_is_not_in_the_prompt(tmp_path: Path) -> None:
    skill(tmp_path, "hidden", "description: helps\ndisable-model-invocation: true\n")
    snapshot = load(tmp_path)
    assert names(snapshot) == ["hidden"]
    assert snapshot.prompt == ""


def test_skills_are_limited_in_number_and_size(tmp_path: Path) -> None:
    for number in range(MAX_SKILLS + 5):
        skill(tmp_path, f"s{number:03}", f"description: {'x' * 500}\n")
    snapshot = load(tmp_path)
    assert len(snapshot.skills) == MAX_SKILLS
    assert len(snapshot.prompt) <= MAX_PROMPT_CHARS + 200


def test_skills_outside_the_workspace_are_found_except_in_a_sandbox(tmp_path: Path) -> None:
    free = Workspace(folder=tmp_path / "w", agent_folder=tmp_path / "w")
    settings = SkillSettings(load=SkillFolders(extra_dirs=("~/more", "/srv/skills")))
    assert skill_folders(free, tmp_path / "state", settings, tmp_path / "home") == [
        tmp_path / "w/skills",
        tmp_path / "w/.agents/skills",
        tmp_path / "home/.agents/skills",
        tmp_path / "state/skills",
        tmp_path / "home/more",
        Path("/srv/skills"),
    ]
    kept = Workspace(folder=tmp_path / "s", agent_folder=tmp_path / "w", sandboxed=True)
    inside = skill_folders(kept, tmp_path / "state", settings, tmp_path / "home")
    assert all(folder.is_relative_to(tmp_path / "s") for folder in inside)


def test_front_matter_has_strings_booleans_and_folded_lines(tmp_path: Path) -> None:
    text = 'name: "quoted: name"\ndescription: >-\n  first line\n  second line\nuser-invocable: false\nempty:\n'
    assert parse_front_matter(text) == {
        "name": "quoted: name",
        "description": "first line second line",
        "user-invocable": False,
        "empty": "",
    }
    (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbf---\r\nname: windows\r\n---\r\nbody")
    assert read_front_matter(tmp_path / "a.md", 1_000) == {"name": "windows"}


@given(st.text(max_size=200))
def test_any_text_is_parsed_as_front_matter_without_an_error(text: str) -> None:
    assert isinstance(parse_front_matter(text), dict)


def test_a_missing_workspace_is_created(tmp_path: Path) -> None:
    made = prepare_workspace(tmp_path / "a" / "b", "agent:main:main")
    assert made.folder == (tmp_path / "a" / "b").resolve()
    assert made.folder.is_dir()
    assert not made.sandboxed


def test_a_workspace_that_cannot_be_created_is_an_error_that_names_the_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CritiqorError, match=r"agents\.defaults\.workspace"):
        prepare_workspace(tmp_path / "file" / "workspace", "agent:main:main")


def test_a_sandboxed_run_gets_its_own_folder_with_copies_of_instructions_and_memory(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    skill(agent / "skills", "weather")
    (agent / "AGENTS.md").write_text("Always greet.")
    (agent / "private.txt").write_text("mine")
    (tmp_path / "secret").write_text("secret")
    (agent / "skills" / "leak").symlink_to(tmp_path / "secret")
    (agent / "SOUL.md").symlink_to(tmp_path / "secret")
    made = prepare_workspace(agent, "agent:main:chat", tmp_path / "sandboxes")
    assert made.sandboxed
    assert made.agent_folder == agent
    assert made.folder.parent == tmp_path / "sandboxes"
    copied = sorted(str(path.relative_to(made.folder)) for path in made.folder.rglob("*") if path.is_file())
    assert copied == ["AGENTS.md", "skills/weather/SKILL.md"]


def test_a_sandbox_is_kept_as_the_agent_left_it(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "AGENTS.md").write_text("Always greet.")
    made = prepare_workspace(tmp_path / "agent", "agent:main:chat", tmp_path / "sandboxes")
    (made.folder / "AGENTS.md").write_text("changed")
    again = prepare_workspace(tmp_path / "agent", "agent:main:chat", tmp_path / "sandboxes")
    assert again == made
    assert (again.folder / "AGENTS.md").read_text() == "changed"


@given(st.lists(st.text(min_size=1), min_size=2, max_size=5, unique=True))
def test_no_two_sessions_share_a_sandbox(keys: list[str]) -> None:
    folders = [sandbox_name(key) for key in keys]
    assert len(set(folders)) == len(keys)
    assert all(name.replace("-", "").isalnum() and name.isascii() for name in folders)
