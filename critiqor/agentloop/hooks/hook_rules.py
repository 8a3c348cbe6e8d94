"""What the handlers of each plugin hook may decide, how decisions are merged, and how long a handler may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Decision = dict[str, Any]
Merge = Callable[[Decision, Decision], Decision]

_JOINED = ("prependContext", "appendContext", "prependSystemContext", "appendSystemContext")


class Rule(NamedTuple):
    """How a hook treats its handlers."""

    timeout: float | None = None
    """Seconds that an async handler may take; None for as long as it likes."""
    merge: Merge | None = None
    """None for an observer: what it returns decides nothing."""
    ends: Callable[[Decision], bool] = lambda decided: False
    """Whether no further handler is asked."""
    when_broken: Callable[[str], Decision] | None = None
    """What a handler that fails decides; None where it decides nothing."""


def rule_of(name: str) -> Rule:
    """The rule of a hook; an unknown one is an observer."""
    return RULES.get(name, _OBSERVER)


def _first_wins(decided: Decision, said: Decision) -> Decision:
    return {name: value for name, value in said.items() if value is not None} | decided


def merge_prompts(decided: Decision, said: Decision) -> Decision:
    """Texts are joined, tools allowed by both remain, and of anything else the first one holds."""
    merged = _first_wins(decided, said)
    for name in _JOINED:
        texts = [text for text in (decided.get(name), said.get(name)) if text]
        if texts:
            merged[name] = "\n\n".join(texts)  # which fails where one of them is no text
    allowed = [set(one["toolsAllow"]) for one in (decided, said) if one.get("toolsAllow") is not None]
    if allowed:
        merged["toolsAllow"] = sorted(set.intersection(*allowed))
    return merged


def _tool_call(decided: Decision, said: Decision) -> Decision:
    merged = dict(decided)
    # Whatever was put up for approval is what will run.
    if said.get("params") is not None and "requireApproval" not in decided:
        merged["params"] = said["params"]
    if said.get("requireApproval") is not None:
        merged.setdefault("requireApproval", said["requireApproval"])
    return merged | _said_yes(said, "block", "blockReason")


def _sending(decided: Decision, said: Decision) -> Decision:
    content = {"content": said["content"]} if isinstance(said.get("content"), str) else {}
    return decided | content | _said_yes(said, "cancel", "cancelReason")


def _install(decided: Decision, said: Decision) -> Decision:
    findings = [*decided.get("findings", []), *(said.get("findings") or [])]
    return decided | ({"findings": findings} if findings else {}) | _said_yes(said, "block", "blockReason")


def _run_gate(decided: Decision, said: Decision) -> Decision:
    return decided | said if said.get("outcome") == "block" else decided


def _claim(decided: Decision, said: Decision) -> Decision:
    return said if said.get("handled") is True else decided


def _said_yes(said: Decision, name: str, reason: str) -> Decision:
    """A true decision with its reason; a false one is no decision and takes nothing back."""
    if said.get(name) is not True:
        return {}
    return {name: True} | ({reason: said[reason]} if said.get(reason) else {})


def _block(reason: str) -> Decision:
    return {"block": True, "blockReason": reason}


def _is_true(name: str) -> Callable[[Decision], bool]:
    return lambda decided: decided.get(name) is True


_OBSERVER = Rule()
RULES = {
    "before_model_resolve": Rule(merge=_first_wins),
    "before_prompt_build": Rule(timeout=15.0, merge=merge_prompts),
    "before_agent_start": Rule(timeout=15.0, merge=merge_prompts),
    "before_agent_reply": Rule(merge=_claim, ends=_is_true("handled")),
    "before_agent_run": Rule(
        timeout=15.0,
        merge=_run_gate,
        ends=lambda decided: decided.get("outcome") == "block",
        when_broken=lambda reason: {"outcome": "block", "reason": reason},
    ),
    "before_tool_call": Rule(timeout=15.0, merge=_tool_call, ends=_is_true("block"), when_broken=_block),
    "before_install": Rule(timeout=15.0, merge=_install, ends=_is_true("block"), when_broken=_block),
    "message_sending": Rule(timeout=15.0, merge=_sending, ends=_is_true("cancel")),
    # OpenClaw does not wait for these two at all; here they are in order, and soon.
    "model_call_started": Rule(timeout=2.0),
    "model_call_ended": Rule(timeout=2.0),
    "agent_end": Rule(timeout=30.0),
    "before_compaction": Rule(timeout=30.0),
    "after_compaction": Rule(timeout=30.0),
    "gateway_stop": Rule(timeout=5.0),
}
"""Every hook that is more than an observer without a limit. `tool_result_persist` is run synchronously."""
