"""Rules of the plugin hooks: what handlers may decide, how decisions are merged, and handler timeouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Decision = dict[str, Any]
Merge = Callable[[Decision, Decision], Decision]

_JOINED = ("prependContext", "appendContext", "prependSystemContext", "appendSystemContext")


class Rule(NamedTuple):
    """How the results of a hook's handlers are used."""

    timeout: float | None = None
    """Timeout of an async handler in seconds; None for no limit."""
    merge: Merge | None = None
    """Merges the decisions so far with what a handler returned; None for an observer, whose result is ignored."""
    is_final: Callable[[Decision], bool] = lambda decided: False
    """Whether the remaining handlers are skipped."""
    on_failure: Callable[[str], Decision] | None = None
    """The decision of a handler that fails, from an error message; None to ignore the handler."""


def get_rule(name: str) -> Rule:
    """Return the rule of a hook. Unknown hooks are observers."""
    return RULES.get(name, _OBSERVER)


def _first_wins(decided: Decision, returned: Decision) -> Decision:
    return {name: value for name, value in returned.items() if value is not None} | decided


def merge_prompts(decided: Decision, returned: Decision) -> Decision:
    """Merge decisions of hooks: join texts, intersect allowed tools, and keep the first value of everything else."""
    merged = _first_wins(decided, returned)
    for name in _JOINED:
        texts = [text for text in (decided.get(name), returned.get(name)) if text]
        if texts:
            merged[name] = "\n\n".join(texts)  # raises TypeError if one of them is not a string
    allowed = [set(one["toolsAllow"]) for one in (decided, returned) if one.get("toolsAllow") is not None]
    if allowed:
        merged["toolsAllow"] = sorted(set.intersection(*allowed))
    return merged


def _merge_tool_call(decided: Decision, returned: Decision) -> Decision:
    merged = dict(decided)
    # Parameters must not change after approval was requested for them.
    if returned.get("params") is not None and "requireApproval" not in decided:
        merged["params"] = returned["params"]
    if returned.get("requireApproval") is not None:
        merged.setdefault("requireApproval", returned["requireApproval"])
    return merged | _accept_true(returned, "block", "blockReason")


def _merge_sending(decided: Decision, returned: Decision) -> Decision:
    content = {"content": returned["content"]} if isinstance(returned.get("content"), str) else {}
    return decided | content | _accept_true(returned, "cancel", "cancelReason")


def _merge_install(decided: Decision, returned: Decision) -> Decision:
    findings = [*decided.get("findings", []), *(returned.get("findings") or [])]
    return decided | ({"findings": findings} if findings else {}) | _accept_true(returned, "block", "blockReason")


def _merge_run_gate(decided: Decision, returned: Decision) -> Decision:
    return decided | returned if returned.get("outcome") == "block" else decided


def _merge_claim(decided: Decision, returned: Decision) -> Decision:
    return returned if returned.get("handled") is True else decided


def _accept_true(returned: Decision, name: str, reason: str) -> Decision:
    """Return a decision that is true, with its reason. False is no decision and does not revoke an earlier one."""
    if returned.get(name) is not True:
        return {}
    return {name: True} | ({reason: returned[reason]} if returned.get(reason) else {})


def _block(reason: str) -> Decision:
    return {"block": True, "blockReason": reason}


def _is_true(name: str) -> Callable[[Decision], bool]:
    return lambda decided: decided.get(name) is True


_OBSERVER = Rule()
RULES = {
    "before_model_resolve": Rule(merge=_first_wins),
    "before_prompt_build": Rule(timeout=15.0, merge=merge_prompts),
    "before_agent_start": Rule(timeout=15.0, merge=merge_prompts),
    "before_agent_reply": Rule(merge=_merge_claim, is_final=_is_true("handled")),
    "before_agent_run": Rule(
        timeout=15.0,
        merge=_merge_run_gate,
        is_final=lambda decided: decided.get("outcome") == "block",
        on_failure=lambda reason: {"outcome": "block", "reason": reason},
    ),
    "before_tool_call": Rule(timeout=15.0, merge=_merge_tool_call, is_final=_is_true("block"), on_failure=_block),
    "before_install": Rule(timeout=15.0, merge=_merge_install, is_final=_is_true("block"), on_failure=_block),
    "message_sending": Rule(timeout=15.0, merge=_merge_sending, is_final=_is_true("cancel")),
    # OpenClaw does not await these two. Here they are awaited briefly, which keeps them in order.
    "model_call_started": Rule(timeout=2.0),
    "model_call_ended": Rule(timeout=2.0),
    "agent_end": Rule(timeout=30.0),
    "before_compaction": Rule(timeout=30.0),
    "after_compaction": Rule(timeout=30.0),
    "gateway_stop": Rule(timeout=5.0),
}
"""All hooks except observers without a timeout."""
SYNCHRONOUS_HOOKS = frozenset({"tool_result_persist"})
"""Hooks whose handlers must not be async."""
HOOKS = frozenset(
    {
        *RULES,
        *SYNCHRONOUS_HOOKS,
        *("after_tool_call", "before_reset", "gateway_start", "llm_input", "llm_output", "message_received"),
        *("message_sent", "session_end", "session_start", "subagent_ended", "subagent_spawned", "user_bash"),
    }
)
"""The names of all plugin hooks."""
