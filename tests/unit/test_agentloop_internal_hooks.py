"""Internal hooks: real scripts in hook folders that run on events of the loop."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import psutil
import pytest
from agentloop import Rig, Say, Waiting, configuration
from support import wait_until

from critiqor.agentloop.hooks.internal_hooks import InternalHooks, find_hooks
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.settings import HookEntry, HookFolders, InternalHookSettings

LOGGER = """\
import json, os, sys
event = json.load(sys.stdin)
with open(os.environ.get("LOG", "log"), "a") as log:
    log.write(json.dumps(event) + "\\n")
print(json.dumps({"messages": [f"{event['type']}:{event['action']} was seen"]}))
"""


def write_hook(folder: Path, events: list[str], code: str = LOGGER, name: str = "handler.py", key: str = "") -> Path:
    folder.mkdir(parents=True)
    metadata: dict[str, Any] = {"openclaw": {"events": events} | ({"hookKey": key} if key else {})}
    (folder / "HOOK.md").write_text(f"---\nname: {folder.name}\nmetadata: {json.dumps(metadata)}\n---\n\n# Hook\n")
    (folder / name).write_text(code)
    return folder


def found(tmp_path: Path, **settings: Any) -> list[str]:
    chosen = InternalHookSettings(**settings)
    return [script.name for script in find_hooks(chosen, tmp_path / "state", tmp_path / "workspace", tmp_path)]


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


def test_hooks_are_searched_only_if_configured(tmp_path: Path) -> None:
    write_hook(tmp_path / "state" / "hooks" / "one", ["command:new"])
    assert found(tmp_path) == []
    assert found(tmp_path, enabled=True) == ["one"]
    assert found(tmp_path, enabled=False, entries={"one": HookEntry()}) == []


def test_named_entries_exclude_other_hooks_and_a_workspace_hook_must_be_named(tmp_path: Path) -> None:
    write_hook(tmp_path / "state" / "hooks" / "one", ["command:new"])
    write_hook(tmp_path / "state" / "hooks" / "two", ["command:new"])
    write_hook(tmp_path / "workspace" / "hooks" / "three", ["command:new"])
    assert found(tmp_path, enabled=True) == ["one", "two"]
    assert found(tmp_path, entries={"two": HookEntry()}) == ["two"]
    assert found(tmp_path, enabled=True, entries={"one": HookEntry(enabled=False)}) == ["two"]
    assert found(tmp_path, entries={"three": HookEntry()}) == ["three"]


def test_a_workspace_hook_cannot_replace_another_and_extra_folders_are_searched(tmp_path: Path) -> None:
    write_hook(tmp_path / "state" / "hooks" / "one", ["command:new"])
    write_hook(tmp_path / "workspace" / "hooks" / "one", ["command:new"])
    write_hook(tmp_path / "extra" / "four", ["command:new"])
    settings = InternalHookSettings(entries={"one": HookEntry()}, load=HookFolders((str(tmp_path / "extra"),)))
    scripts = find_hooks(settings, tmp_path / "state", tmp_path / "workspace", tmp_path)
    assert {script.name: script.handler.parent.parent for script in scripts} == {
        "four": tmp_path / "extra",
        "one": tmp_path / "state" / "hooks",
    }


def test_a_folder_that_is_not_a_hook_is_ignored(tmp_path: Path) -> None:
    hooks = tmp_path / "state" / "hooks"
    write_hook(hooks / "good", ["command:new"])
    (hooks / "empty").mkdir()
    (hooks / "headless").mkdir()
    (hooks / "headless" / "HOOK.md").write_text("no front matter")
    (hooks / "handlerless").mkdir()
    (hooks / "handlerless" / "HOOK.md").write_text(
        '---\nname: x\nmetadata: {"openclaw": {"events": ["command"]}}\n---\n'
    )
    assert found(tmp_path, enabled=True) == ["good"]


def run_hook(tmp_path: Path, code: str, name: str = "handler.py", timeout: float = 10.0) -> tuple[InternalHooks, Any]:
    folder = write_hook(tmp_path / "state" / "hooks" / "one", ["agent:bootstrap"], code, name)
    if name == "handler":
        (folder / name).chmod(0o755)
    scripts = find_hooks(InternalHookSettings(enabled=True), tmp_path / "state", tmp_path / "workspace", tmp_path)
    hooks = InternalHooks(scripts, {"PATH": "/usr/bin:/bin"}, timeout)
    return hooks, asyncio.run(hooks.emit("agent", "bootstrap", "agent:main:main", {"bootstrapFiles": ["as it was"]}))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("handler.sh", 'cat > /dev/null; echo \'{"messages": ["from a shell"]}\''),
        ("handler", '#!/bin/sh\ncat > /dev/null; echo \'{"messages": ["from a shell"]}\''),
        ("handler.sh", 'echo \'{"messages": ["from a shell"]}\''),
    ],
)
def test_a_handler_may_be_a_shell_script_or_a_program(tmp_path: Path, name: str, code: str) -> None:
    _, answer = run_hook(tmp_path, code, name)
    assert answer.messages == ["from a shell"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import sys; sys.exit(3)", "exit code 3"),
        ("print('hello')", "not JSON"),
        ("print('[1]')", "not a JSON object"),
        ("print('x' * 2_000_000)", "more than"),
        ("import time; time.sleep(60)", "timed out after 0.2 seconds"),
    ],
)
def test_a_failing_script_is_ignored_and_its_failure_is_kept(tmp_path: Path, code: str, reason: str) -> None:
    hooks, answer = run_hook(tmp_path, code, timeout=0.2 if "sleep" in code else 10.0)
    assert answer.messages == []
    assert answer.context == {"bootstrapFiles": ["as it was"]}
    assert reason in hooks.failures[0]


def test_the_exit_of_every_script_is_reported(tmp_path: Path) -> None:
    exits: list[tuple[str, int | None, str | None]] = []

    def on_exit(program: str, duration_ms: float, code: int | None, signal: str | None) -> None:
        exits.append((Path(program).parent.name, code, signal))

    write_hook(tmp_path / "state" / "hooks" / "a", ["command:new"], "pass")
    write_hook(tmp_path / "state" / "hooks" / "b", ["command:new"], "raise SystemExit(4)")
    write_hook(tmp_path / "state" / "hooks" / "c", ["command:stop"], "import time; time.sleep(60)")
    scripts = find_hooks(InternalHookSettings(enabled=True), tmp_path / "state", tmp_path / "workspace", tmp_path)
    for action, patience in (("new", 30.0), ("stop", 0.2)):
        hooks = InternalHooks(scripts, {"PATH": "/usr/bin:/bin"}, patience, on_exit)
        asyncio.run(hooks.emit("command", action, "agent:main:main", {}))
    assert exits == [("a", 0, None), ("b", 4, None), ("c", None, "SIGKILL")]


def test_child_processes_of_a_script_are_killed_with_it(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\np = subprocess.Popen(['sleep', '60'])\nopen('pid', 'w').write(str(p.pid))\nprint('{}')"
    )
    run_hook(tmp_path, code)
    pid = int((tmp_path / "state" / "hooks" / "one" / "pid").read_text())
    wait_until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def enabled(**entries: Any) -> Any:
    return configuration(hooks={"internal": {"enabled": True, "entries": entries}})


def test_a_bootstrap_hook_adds_and_removes_files_of_the_prompt(tmp_path: Path) -> None:
    code = """\
import json, sys
event = json.load(sys.stdin)
files = [file for file in event["context"]["bootstrapFiles"] if file["name"] != "SOUL.md"]
files.append({"name": "EXTRA.md", "path": "/virtual/EXTRA.md", "content": "Extra words."})
print(json.dumps({"bootstrapFiles": files + ["nonsense"]}))
"""
    write_hook(tmp_path / "state" / "hooks" / "extra", ["agent:bootstrap"], code)
    workspace = tmp_path / "state" / "workspace"
    workspace.mkdir()
    (workspace / "SOUL.md").write_text("Soul words.")
    (workspace / "AGENTS.md").write_text("Agent words.")

    async def scenario() -> None:
        rig = Rig(tmp_path, settings=enabled())
        await rig.ask()
        prompt = rig.model.requests[0].system_prompt
        assert "Extra words." in prompt
        assert "Agent words." in prompt
        assert "Soul words." not in prompt

    asyncio.run(scenario())


def test_commands_run_their_hooks_and_reply_with_their_messages(tmp_path: Path) -> None:
    folder = write_hook(tmp_path / "state" / "hooks" / "commands", ["command"])
    exact = write_hook(tmp_path / "state" / "hooks" / "exact", ["command:reset"])

    async def scenario() -> None:
        tool = Waiting()
        rig = Rig(tmp_path, settings=enabled(), tools=[tool])
        await rig.ask("hello")
        assert [payload.text for payload in (await rig.ask("/new")).payloads] == ["command:new was seen"]
        assert len((await rig.ask("/reset")).payloads) == 2
        rig.model.says = [Say("x", (("waiting", {}),))]
        await rig.runtime.agent(AgentParams(message="work", run_id="r"))
        await tool.started.wait()
        stopped = await rig.ask("/stop")
        assert [payload.text for payload in stopped.payloads] == ["Stopped.", "command:stop was seen"]

    asyncio.run(scenario())
    events = log_of(folder)
    assert [event["action"] for event in events] == ["new", "reset", "stop"]
    assert events[0]["sessionKey"] == "agent:main:main"
    context = events[0]["context"]
    assert context["previousSessionEntry"]["sessionId"] != context["sessionEntry"]["sessionId"]
    assert [event["action"] for event in log_of(exact)] == ["reset"]


def test_a_hook_gets_the_environment_variables_of_its_entry(tmp_path: Path) -> None:
    write_hook(tmp_path / "state" / "hooks" / "one", ["command:new"])
    log = tmp_path / "elsewhere"

    async def scenario() -> None:
        rig = Rig(tmp_path, settings=enabled(one={"env": {"LOG": str(log)}}))
        await rig.ask("/new")

    asyncio.run(scenario())
    assert json.loads(log.read_text())["action"] == "new"
