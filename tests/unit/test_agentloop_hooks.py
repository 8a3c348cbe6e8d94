"""Plugin hooks: order, decisions, and handlers that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from critiqor.agentloop.hooks.hook_rules import Decision
from critiqor.agentloop.hooks.plugin_hooks import Handler, PluginHooks


def always(decision: Decision, event: dict[str, Any], context: dict[str, Any]) -> Decision:
    """A handler with a constant result."""
    return decision


def decided(name: str, *handlers: Any, event: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the merged decision of handlers: functions, constant results, or pairs of either and a priority."""
    hooks = PluginHooks()
    for one in handlers:
        handler, priority = one if isinstance(one, tuple) else (one, 0)
        hooks.on(name, handler if callable(handler) else partial(always, handler), priority)
    return asyncio.run(hooks.run(name, event or {}, {}))


def note(names: list[str], name: str, event: dict[str, Any], context: dict[str, Any]) -> None:
    """A handler that notes its own name."""
    names.append(name)


def fail(event: dict[str, Any], context: dict[str, Any]) -> None:
    raise RuntimeError("broken plugin")


async def hang(event: dict[str, Any], context: dict[str, Any]) -> None:
    await asyncio.Event().wait()


def test_higher_priorities_run_first_and_equal_ones_in_the_order_of_registration() -> None:
    seen: list[str] = []
    hooks = PluginHooks()
    for name, priority in (("a", 0), ("b", 10), ("c", 0), ("d", -5), ("e", 10)):
        hooks.on("before_prompt_build", partial(note, seen, name), priority)
    asyncio.run(hooks.run("before_prompt_build", {}, {}))
    assert seen == ["b", "e", "a", "c", "d"]


@pytest.mark.parametrize("name", ["before_tool_call", "before_install"])
def test_a_block_is_final_and_handlers_of_lower_priority_are_not_called(name: str) -> None:
    called: list[str] = []
    decision = decided(
        name,
        ({"block": True, "blockReason": "no"}, 10),
        (lambda event, context: called.append("low"), 0),
    )
    assert decision == {"block": True, "blockReason": "no"}
    assert called == []


@pytest.mark.parametrize(
    ("name", "key"), [("before_tool_call", "block"), ("before_install", "block"), ("message_sending", "cancel")]
)
def test_a_false_decision_decides_nothing_and_revokes_nothing(name: str, key: str) -> None:
    assert decided(name, {key: False}) == {}
    assert decided(name, ({key: False}, 10), ({key: True}, 5))[key] is True
    assert decided(name, ({key: True}, 10), ({key: False}, 5))[key] is True


def test_a_cancel_is_final_and_handlers_of_lower_priority_are_not_called() -> None:
    called: list[str] = []
    decision = decided(
        "message_sending",
        ({"cancel": True}, 1),
        (lambda event, context: called.append("low"), 0),
        event={"content": "x"},
    )
    assert decision == {"cancel": True}
    assert called == []


def test_the_last_text_of_an_outgoing_message_counts_and_each_handler_sees_the_original() -> None:
    seen: list[str] = []

    def first(event: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
        seen.append(event["content"])
        event["content"] = "spoiled"
        return {"content": "first"}

    def second(event: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
        seen.append(event["content"])
        return {"content": "second"}

    assert decided("message_sending", first, second, event={"content": "original"}) == {"content": "second"}
    assert seen == ["original", "original"]


def test_parameters_do_not_change_after_approval_was_requested() -> None:
    decision = decided(
        "before_tool_call",
        ({"params": {"a": 1}}, 10),
        ({"requireApproval": {"title": "ask"}, "params": {"a": 2}}, 5),
        ({"params": {"a": 3}}, 0),
    )
    assert decision["params"] == {"a": 2}
    assert decision["requireApproval"] == {"title": "ask"}


def test_prompt_additions_are_joined_in_order_and_allowed_tools_are_those_that_all_allow() -> None:
    decision = decided(
        "before_prompt_build",
        ({"prependContext": "one", "systemPrompt": "mine", "toolsAllow": ["exec", "read"]}, 10),
        ({"prependContext": "two", "systemPrompt": "yours", "toolsAllow": ["read", "write"]}, 0),
    )
    assert decision == {"prependContext": "one\n\ntwo", "systemPrompt": "mine", "toolsAllow": ["read"]}


def test_the_first_model_override_wins() -> None:
    decision = decided(
        "before_model_resolve", ({"modelOverride": "a"}, 10), ({"modelOverride": "b", "providerOverride": "p"}, 0)
    )
    assert decision == {"modelOverride": "a", "providerOverride": "p"}


def test_a_message_is_claimed_by_the_first_handler_that_handles_it() -> None:
    decision = decided(
        "before_agent_reply", {"handled": False}, {"handled": True, "reply": {"text": "mine"}}, {"handled": True}
    )
    assert decision == {"handled": True, "reply": {"text": "mine"}}


def test_findings_of_an_installation_are_combined() -> None:
    decision = decided("before_install", {"findings": ["a"]}, {"findings": ["b"]})
    assert decision == {"findings": ["a", "b"]}


@pytest.mark.parametrize("handler", [fail, hang])
@pytest.mark.parametrize(
    ("name", "closed"),
    [
        ("before_tool_call", lambda decision: decision["block"] is True),
        ("before_install", lambda decision: decision["block"] is True),
        ("before_agent_run", lambda decision: decision["outcome"] == "block"),
    ],
)
def test_gates_fail_closed_when_a_handler_fails_or_hangs(
    name: str, closed: Callable[[Decision], bool], handler: Handler
) -> None:
    hooks = PluginHooks()
    hooks.on(name, handler, timeout=0.005)
    assert closed(asyncio.run(hooks.run(name, {}, {})))
    assert hooks.failures[0].hook == name


@pytest.mark.parametrize("handler", [fail, hang])
def test_other_hooks_ignore_a_handler_that_fails_or_hangs(handler: Handler) -> None:
    hooks = PluginHooks()
    hooks.on("before_prompt_build", handler, priority=10, timeout=0.005)
    hooks.on("before_prompt_build", lambda event, context: {"prependContext": "kept"})
    assert asyncio.run(hooks.run("before_prompt_build", {}, {})) == {"prependContext": "kept"}
    assert len(hooks.failures) == 1


@pytest.mark.parametrize("nonsense", [{"prependContext": 5}, {"toolsAllow": 7}, {"toolsAllow": [[]]}])
def test_an_invalid_decision_is_ignored_and_the_others_count(nonsense: Decision) -> None:
    hooks = PluginHooks()
    hooks.on("before_prompt_build", lambda event, context: {"prependContext": "kept", "toolsAllow": ["read"]})
    hooks.on("before_prompt_build", lambda event, context: nonsense)
    assert asyncio.run(hooks.run("before_prompt_build", {}, {})) == {"prependContext": "kept", "toolsAllow": ["read"]}
    assert [failure.hook for failure in hooks.failures] == ["before_prompt_build"]


def test_a_gate_fails_closed_on_an_invalid_decision() -> None:
    assert decided("before_install", {"findings": 3})["block"] is True


def test_observers_decide_nothing_and_run_concurrently() -> None:
    seen: list[str] = []
    both = asyncio.Event()

    async def waits(event: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
        await both.wait()
        seen.append("waited")
        return {"block": True}

    async def frees(event: dict[str, Any], context: dict[str, Any]) -> None:
        both.set()

    hooks = PluginHooks()
    hooks.on("agent_end", fail)
    hooks.on("agent_end", waits)
    hooks.on("agent_end", frees)
    assert asyncio.run(hooks.run("agent_end", {}, {})) == {}
    assert seen == ["waited"]


def test_a_synchronous_hook_passes_the_message_on_and_ignores_async_handlers() -> None:
    hooks = PluginHooks()

    async def late(event: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
        return {"message": "late"}

    hooks.on("tool_result_persist", lambda event, context: {"message": event["message"] + "a"}, 10)
    hooks.on("tool_result_persist", late, 5)
    hooks.on("tool_result_persist", fail, 4)
    hooks.on("tool_result_persist", lambda event, context: {"message": event["message"] + "b"}, 0)
    assert hooks.run_sync("tool_result_persist", {"message": "x"}, {}) == {"message": "xab"}
    assert len(hooks.failures) == 2


def test_a_removed_handler_is_not_called() -> None:
    seen: list[int] = []
    hooks = PluginHooks()
    remove = hooks.on("agent_end", lambda event, context: seen.append(1))
    assert hooks.has_handlers("agent_end")
    remove()
    assert not hooks.has_handlers("agent_end")
    asyncio.run(hooks.run("agent_end", {}, {}))
    assert seen == []


def test_the_number_of_kept_failures_is_limited() -> None:
    hooks = PluginHooks()
    hooks.on("agent_end", fail)

    async def scenario() -> None:
        for _ in range(150):
            await hooks.run("agent_end", {}, {})

    asyncio.run(scenario())
    assert len(hooks.failures) == 100
