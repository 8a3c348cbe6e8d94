"""Steps of an ATIF trajectory, read from untyped JSON: their texts, tool calls, results and metrics.

Converters differ in how they fill the format. Harbor's converter of Claude Code makes several steps of one response,
one per tool call, writes a sentence of its own into them, and repeats output and metadata after each result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from critiqor.importers.notes import ImportNotes
from critiqor.importers.values import as_count, as_list, as_ms, as_number, as_object, as_text, parse_json
from critiqor.spans.tool_results import REPORTED_FAILURE

_SOURCES = frozenset(("user", "agent", "system"))
_NOTICES = ("<task-notification>", "<system-reminder>")
"""How messages begin that Claude Code itself puts into the place of the user's."""
_STOP_REASONS = {"end_turn": "stop", "stop_sequence": "stop"}
"""Names that other recorders have for the same reason."""


class Call(msgspec.Struct, frozen=True):
    """A tool call of a step."""

    id: str | None
    name: str | None
    arguments: Any


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A result in the observation of a step."""

    call_id: str | None
    text: str
    is_error: bool
    """Whether it was reported as a failure beside the text."""
    subagents: list[dict[str, Any]]
    """References to the trajectories of subagents that worked for it."""
    cut: dict[str, Any] | None = None
    """Size and digest of the whole text, if Critiqor had recorded only the beginning of it before it was exported."""


class Metrics(msgspec.Struct, frozen=True):
    """Tokens and cost of one model call, or of a whole trajectory; None if not stated."""

    prompt: int | None = None
    """Tokens of the prompt, including cached ones."""
    completion: int | None = None
    cached: int | None = None
    cost_usd: float | None = None
    written: int = 0
    """Tokens written to the cache, as Critiqor's own export states them."""

    @property
    def tokens(self) -> int:
        """Tokens that a step of a trajectory read and wrote."""
        return (self.prompt or 0) + (self.completion or 0)

    def usage(self, cost_usd: float | None = None) -> dict[str, Any] | None:
        """Return the usage as in other events; None if nothing is stated, or no token at all, which is impossible.

        `cost_usd` replaces an unknown cost.
        """
        if not self.tokens and not self.cost_usd:
            return None
        cached = self.cached or 0
        prompt = max((self.prompt or 0) - self.written, 0)
        usage: dict[str, Any] = {
            "input": prompt - cached if prompt >= cached else prompt,
            "output": self.completion or 0,
            "cacheRead": cached,
        }
        if self.written:
            usage["cacheWrite"] = self.written
        cost = cost_usd if self.cost_usd is None else self.cost_usd
        return usage if cost is None else usage | {"cost": {"total": cost}}


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a trajectory."""

    id: str | None
    source: str
    at: int | None
    """Milliseconds since 1970."""
    text: str
    model: str | None
    stop_reason: str | None
    calls: list[Call]
    results: list[Result]
    metrics: Metrics | None
    is_sidechain: bool
    """Whether it belongs to a subagent of Claude Code."""
    is_compaction: bool

    @property
    def is_part(self) -> bool:
        """Whether it only adds tool calls to the response of the step before it."""
        return self.source == "agent" and self.metrics is None and not self.text and bool(self.calls)


def read_steps(document: dict[str, Any], notes: ImportNotes) -> list[Step]:
    """Return the steps of a trajectory that are understood, in the order of their times.

    Harbor's converter of Claude Code puts tool calls without results at the end, whenever they were made.
    """
    steps = list(_understood_steps(document, notes))
    latest = 0
    times: list[int] = []
    for step in steps:
        if step.at is not None and step.at < latest:
            notes.add("steps with a time before the preceding step, placed by their time", f"step {step.id}")
        latest = max(latest, step.at or 0)
        times.append(latest if step.at is None else step.at)
    order = sorted(range(len(steps)), key=times.__getitem__)
    return [steps[position] for position in order]


def _understood_steps(document: dict[str, Any], notes: ImportNotes) -> Iterator[Step]:
    for number, value in enumerate(as_list(document.get("steps")), 1):
        if not isinstance(value, dict) or as_text(value.get("source")) not in _SOURCES:
            what = "not an object" if not isinstance(value, dict) else f"source {as_text(value.get('source'))}"
            notes.add("steps that could not be read", f"{number}: {what[:60]}", not_understood=True)
        elif value.get("is_copied_context") is True:
            notes.add("steps copied from an earlier trajectory, left out")
        else:
            yield _step(value, notes)


def read_metrics(value: Any, prefix: str = "") -> Metrics | None:
    """Return the metrics of a step, or with the prefix `total_` those of a trajectory; None if there are none."""
    if not isinstance(value, dict):
        return None
    prompt, completion, cached = (
        as_count(value.get(f"{prefix}{name}_tokens")) for name in ("prompt", "completion", "cached")
    )
    cost = as_number(value.get(f"{prefix}cost_usd"))
    written = as_count(as_object(value.get("extra")).get("cache_write_tokens")) or 0
    return Metrics(prompt, completion, cached, None if cost is None else float(cost), written)


def _plain_content(content: Any) -> str:
    """Return a message or result as text: a text, or a list of parts of which images are only named."""
    if isinstance(content, str):
        return content
    return "\n".join(_part_text(part) for part in as_list(content) if isinstance(part, dict))


def _part_text(part: dict[str, Any]) -> str:
    if isinstance(part.get("text"), str):
        return str(part["text"])
    source = as_object(part.get("source"))
    names = (as_text(part.get("type")), as_text(source.get("media_type")), as_text(source.get("path")))
    return f"[{' '.join(name for name in names if name) or 'part'}]"


def _step(value: dict[str, Any], notes: ImportNotes) -> Step:
    extra = as_object(value.get("extra"))
    calls = [_call(call) for call in as_list(value.get("tool_calls")) if isinstance(call, dict)]
    results = as_list(as_object(value.get("observation")).get("results"))
    unreadable = len(as_list(value.get("tool_calls"))) - len(calls)
    unreadable += sum(1 for result in results if not isinstance(result, dict))
    if unreadable:
        place = as_text(value.get("step_id")) or ""
        notes.add("tool calls and results that could not be read", place, times=unreadable, not_understood=True)
    reason = as_text(extra.get("stop_reason"))
    text = _plain_content(value.get("message"))
    # Claude Code has no text beside a tool call; its converter fills in one.
    is_filler = any(text == f"Executed {call.name} {call.id}" for call in calls)
    return Step(
        id=as_text(value.get("step_id")),
        source="system" if value["source"] == "user" and text.startswith(_NOTICES) else str(value["source"]),
        at=as_ms(value.get("timestamp")),
        text="" if is_filler else text,
        model=as_text(value.get("model_name")),
        stop_reason=_STOP_REASONS.get(reason or "", reason),
        calls=calls,
        results=[_result(result, extra) for result in results if isinstance(result, dict)],
        metrics=read_metrics(value.get("metrics")),
        is_sidechain=extra.get("is_sidechain") is True,
        is_compaction=value["source"] == "system" and isinstance(extra.get("context_management"), dict),
    )


def _call(value: dict[str, Any]) -> Call:
    return Call(
        as_text(value.get("tool_call_id")), as_text(value.get("function_name")), parse_json(value.get("arguments"))
    )


def _result(value: dict[str, Any], step_extra: dict[str, Any]) -> Result:
    extra = as_object(value.get("extra"))
    references = value.get("subagent_trajectory_ref")
    return Result(
        call_id=as_text(value.get("source_call_id")),
        text=_without_repetition(_plain_content(value.get("content"))),
        is_error=extra.get("is_error") is True or step_extra.get("tool_result_is_error") is True,
        subagents=[item for item in references if isinstance(item, dict)]
        if isinstance(references, list)
        else [references]
        if isinstance(references, dict)
        else [],
        cut=_cut(extra.get("cut")),
    )


def _cut(value: Any) -> dict[str, Any] | None:
    size, digest = as_count(as_object(value).get("size")), as_text(as_object(value).get("digest"))
    return None if size is None or digest is None else {"cut": True, "size": size, "digest": digest}


_OUTPUT, _METADATA = "\n\n[stdout]\n", "\n[metadata] {"


def _without_repetition(text: str) -> str:
    """Return a result without the output and metadata that a converter repeats after it."""
    failure = REPORTED_FAILURE if text.endswith(REPORTED_FAILURE) else ""
    content = text.removesuffix(REPORTED_FAILURE)
    start = content.rfind(_METADATA)
    if start >= 0 and _is_object(content[start + len(_METADATA) - 1 :]):
        content = content[:start].removesuffix("\n")
    start = content.find(_OUTPUT)
    if start >= 0 and content[start + len(_OUTPUT) :].strip().startswith(content[:start].strip()):
        content = content[:start]
    return content + failure


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
