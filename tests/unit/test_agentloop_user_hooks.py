"""Plugin hooks that users add: entry points of packages, configured modules, and configured scripts."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from critiqor.agentloop.entry.runtime import open_runtime
from critiqor.agentloop.hooks.hook_rules import HOOKS
from critiqor.agentloop.hooks.plugin_hooks import PluginHooks
from critiqor.agentloop.hooks.registration import register_configured_hooks
from critiqor.agentloop.runs import AgentParams, RunOutcome
from critiqor.agentloop.settings import HookScriptSettings, PluginHookSettings
from critiqor.errors import CritiqorError, UsageError
from critiqor.lab.doctor import _check_extensions
from critiqor.lab.model.scripted_model import ScriptedModel, Step, ToolUse
from critiqor.lab.runners.openclaw_home import write_openclaw_home

ROOT = Path(__file__).parent.parent.parent
STEPS = (Step(tools=(ToolUse("call_1", "exec", {"command": "echo hello"}),)), Step(text="Done."))
GUARD = """
def register(hooks):
    hooks.on("before_tool_call", lambda event, context: {"block": True, "blockReason": f"no {event['toolName']} here"})
"""
SCRIPT = """
import json, os, sys
given = json.load(sys.stdin)
command = given["event"]["params"]["command"]
print(json.dumps({"block": True, "blockReason": f"{given['hook']} {command} by {os.environ['WHO']}"}))
"""


def run_configured(folder: Path, plugin: dict[str, Any]) -> tuple[RunOutcome, list[dict[str, Any]]]:
    """Run a message with this `hooks.plugin`. Return its outcome and the requests that reached the model."""

    async def main(model: ScriptedModel) -> RunOutcome:
        environment = write_openclaw_home(folder, model.base_url, {"hooks": {"plugin": plugin}})
        async with open_runtime(environment | {"PATH": "/usr/bin:/bin"}) as runtime:
            accepted = await runtime.agent(AgentParams(message="say hello"))
            return await runtime.outcome(accepted.run_id)

    with ScriptedModel(STEPS) as model:
        outcome = asyncio.run(main(model))
        return outcome, list(model.requests)


def result_of_tool(requests: list[dict[str, Any]]) -> str:
    """Return the result of the tool call, as the model got it."""
    return json.dumps(requests[-1]["messages"][-1]["content"])


def registered(settings: PluginHookSettings, folder: Path) -> PluginHooks:
    hooks = PluginHooks()
    register_configured_hooks(hooks, settings, folder, {"PATH": "/usr/bin:/bin"})
    return hooks


def test_a_module_beside_the_configuration_decides(tmp_path: Path) -> None:
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / ".openclaw" / "guard.py").write_text(GUARD)
    outcome, requests = run_configured(tmp_path, {"modules": ["guard.py"]})
    assert outcome.status == "ok"
    assert "no exec here" in result_of_tool(requests)


def test_a_script_gets_the_event_and_decides(tmp_path: Path) -> None:
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / ".openclaw" / "guard.py").write_text(SCRIPT)
    script = {"hook": "before_tool_call", "command": [sys.executable, "guard.py"], "env": {"WHO": "a script"}}
    _, requests = run_configured(tmp_path, {"scripts": [script]})
    assert "before_tool_call echo hello by a script" in result_of_tool(requests)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("/bin/sh", "-c", "exit 3"), "ended with exit code 3"),
        (("/bin/sh", "-c", "echo no"), "its output is not JSON"),
        (("/bin/sh", "-c", "sleep 60"), "timed out after 0.2 seconds"),
        (("./missing",), "No such file"),
    ],
)
def test_a_script_that_fails_denies_where_hooks_fail_closed_and_is_ignored_elsewhere(
    tmp_path: Path, command: tuple[str, ...], reason: str
) -> None:
    scripts = tuple(
        HookScriptSettings(hook=name, command=command, timeout_seconds=0.2 if "sleep" in command[-1] else 10)
        for name in ("before_tool_call", "message_sending")
    )
    hooks = registered(PluginHookSettings(scripts=scripts), tmp_path)
    denied = asyncio.run(hooks.run("before_tool_call", {}, {}))
    assert denied["block"] is True and reason in denied["blockReason"]
    assert asyncio.run(hooks.run("message_sending", {"content": "x"}, {})) == {}
    assert reason in hooks.failures[-1].reason


def test_priorities_of_scripts_and_modules_are_one_order(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(
        "def register(hooks):\n    hooks.on('message_sending', lambda event, context: {'content': 'module'})\n"
    )
    say = ("/bin/sh", "-c", """echo '{"content": "script"}'""")
    for priority, last in ((5, "module"), (-5, "script")):
        script = HookScriptSettings(hook="message_sending", command=say, priority=priority)
        hooks = registered(PluginHookSettings(modules=("late.py",), scripts=(script,)), tmp_path)
        assert asyncio.run(hooks.run("message_sending", {"content": "x"}, {})) == {"content": last}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (PluginHookSettings(modules=("missing.py",)), "missing.py"),
        (PluginHookSettings(modules=("no.such.module",)), "no.such.module"),
        (PluginHookSettings(modules=("broken.py",)), "ZeroDivisionError"),
        (PluginHookSettings(modules=("empty.py",)), r"register\(hooks\)"),
        (PluginHookSettings(scripts=(HookScriptSettings(hook="before_tol_call", command=("x",)),)), "before_tol_call"),
        (PluginHookSettings(scripts=(HookScriptSettings(hook="tool_result_persist", command=("x",)),)), "synchronous"),
    ],
)
def test_hooks_that_cannot_be_loaded_are_an_error_and_not_left_out(
    tmp_path: Path, settings: PluginHookSettings, words: str
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(UsageError, match=words):
        registered(settings, tmp_path)


def install_hooks(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str) -> None:
    """Install a package with an entry point, as pip does."""
    (folder / "their_hooks.py").write_text(code)
    info = folder / "their_package-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[critiqor.agentloop.hooks]\nguard = their_hooks:register\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "their_hooks", raising=False)


def test_hooks_of_an_installed_package_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    install_hooks(monkeypatch, tmp_path / "site", GUARD)
    _, requests = run_configured(tmp_path / "home", {})
    assert "no exec here" in result_of_tool(requests)


def test_hooks_of_a_package_that_fails_are_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    install_hooks(monkeypatch, tmp_path / "site", "raise RuntimeError('broken')")
    with pytest.raises(CritiqorError, match=r"guard of their-package 2.0 cannot be used.*broken") as caught:
        run_configured(tmp_path / "home", {})
    assert caught.value.fix is not None and "pip uninstall their-package" in caught.value.fix


@pytest.mark.parametrize(("code", "found"), [(GUARD, "ok"), ("raise RuntimeError('broken')", "RuntimeError: broken")])
def test_doctor_lists_hooks_of_packages_and_what_is_wrong_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, found: str
) -> None:
    install_hooks(monkeypatch, tmp_path, code)
    [check] = [check for check in _check_extensions() if "hooks" in check.detail]
    assert (check.ok, check.detail) == (found == "ok", f"hooks guard of their-package 2.0: {found}")


def test_every_hook_that_the_loop_runs_can_be_handled_by_name() -> None:
    code = "".join(path.read_text() for path in (ROOT / "critiqor" / "agentloop").rglob("*.py"))
    run = set(re.findall(r'hooks\.run(?:_sync)?\(\s*"(\w+)"', code)) | {"before_prompt_build", "before_agent_start"}
    assert run == set(HOOKS)
    documented = (ROOT / "docs" / "agentloop.md").read_text()
    assert [name for name in sorted(HOOKS) if f"`{name}`" not in documented] == []
