"""The record and the events of a run, without a word that was said in it."""

from __future__ import annotations

from typing import Any

import msgspec

from critiqor.model import Coverage, Event, Metadata, Seal, Timestamps, Transition
from critiqor.model.evidence import RecorderFacts
from critiqor.model.report import RunHead
from critiqor.privacy import vocabulary
from critiqor.privacy.vocabulary import AGENT, WITHHELD, anonymous_name

_FIGURES = (
    *("requestPayloadBytes", "timeToFirstByteMs", "contextTokenBudget", "exit_code", "exitCode", "attempt", "turn"),
    *("maxAttempts", "delayMs", "compactedCount", "tokensBefore", "tokensAfter", "left_running"),
)
_FLAGS = ("aborted", "completed", "success")
_WORDS = {
    "lookup": frozenset({"pending", "found", "empty", "error"}),
    "role": frozenset({"user", "assistant", "tool", "toolResult", "system"}),
}
_USAGE = ("input", "output", "cacheRead", "cacheWrite", "total", "totalTokens")
_KINDS_OF_DAMAGE_AND_SECRETS = """
    torn_tail invalid_json invalid_utf8 lone_surrogate too_deep too_long number_out_of_range not_an_object wrong_type
    lifecycle private_key anthropic_key openai_key github_token gitlab_token slack_token aws_access_key google_key
    npm_token stripe_key telegram_token jwt bearer basic_auth url_password assignment field
"""
_KINDS = frozenset(_KINDS_OF_DAMAGE_AND_SECRETS.split())
_CALLS = {"callId": "request", "parent_tool_call_id": "call"}


class Aliases:
    """Names for the ids of one run, in the order in which they come: what belongs together can still be told."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def of(self, kind: str, name: str) -> str:
        """The same for the same id."""
        given = self._given.get((kind, name))
        if given is None:
            self._counts[kind] = number = self._counts.get(kind, 0) + 1
            given = self._given[kind, name] = f"{kind}_{number}"
        return given


def anonymous_run(run: RunHead) -> RunHead:
    """The head of a record that does not say whose it is."""
    chosen = {
        name: vocabulary.metadata_word(name, getattr(run.metadata, name))
        for name in ("framework", "benchmark_id", "difficulty_tier")
    }
    times, seal = run.timestamps, run.seal
    return RunHead(
        run_id=run.run_id,
        status=run.status,
        lifecycle=[Transition(step.state, vocabulary.moment(step.timestamp)) for step in run.lifecycle],
        timestamps=Timestamps(
            vocabulary.moment(times.created_at),
            vocabulary.optional_moment(times.started_at),
            vocabulary.optional_moment(times.finalized_at),
        ),
        metadata=Metadata(agent_id=AGENT, tenant_id=WITHHELD, visibility=run.metadata.visibility, **chosen),
        cut=run.cut,
        seal=None
        if seal is None
        else Seal(vocabulary.digest(seal.digest), seal.bytes, seal.events, vocabulary.moment(seal.sealed_at)),
    )


def anonymous_head(head: dict[str, Any]) -> dict[str, Any]:
    """The same for a head as it is read from a record."""
    scores = {name: head[name] for name in ("trust_score", "confidence_score")}
    told: dict[str, Any] = msgspec.to_builtins(anonymous_run(msgspec.convert(head, RunHead)))
    return {**told, **scores, "owner": None, "headline": None}


def anonymous_event(event: Event, aliases: Aliases | None = None) -> Event:
    """That something happened, when, how long it took and whether it failed; with aliases, what it belongs to."""
    payload = event.payload
    told: dict[str, Any] = {name: value for name in _FIGURES if _is_figure(value := payload.get(name))}
    told |= {name: value for name in _FLAGS if isinstance(value := payload.get(name), bool)}
    told |= {name: value for name, known in _WORDS.items() if _is_word(value := payload.get(name), known)}
    if isinstance(payload.get("usage"), dict):
        told["usage"] = _usage(payload["usage"])
    ids: dict[str, str] = {}
    if aliases is not None:
        told |= {
            name: aliases.of(kind, value)
            for name, kind in _CALLS.items()
            if isinstance(value := payload.get(name), str)
        }
        named = {"session": event.session_key, "agent_run": event.agent_run_id, "call": event.tool_call_id}
        fields = {"session": "session_key", "agent_run": "agent_run_id", "call": "tool_call_id"}
        ids = {fields[kind]: aliases.of(kind, value) for kind, value in named.items() if value is not None}
    return Event(
        event_id=vocabulary.cited(event.event_id),
        event_type=anonymous_name("event_type", event.event_type),
        timestamp=vocabulary.moment(event.timestamp),
        source_layer=anonymous_name("source_layer", event.source_layer),
        tool_name=None if event.tool_name is None else vocabulary.tool(event.tool_name),
        status=anonymous_name("status", event.status),
        duration_ms=event.duration_ms,
        payload=told,
        **ids,
    )


def anonymous_coverage(coverage: Coverage) -> Coverage:
    """What was seen and not seen, in figures."""
    figures: dict[str, Any] = {
        name: value for name in coverage.__struct_fields__ if isinstance(value := getattr(coverage, name), bool | int)
    }
    versions = [recorder.openclaw_version for recorder in coverage.recorders]
    return Coverage(
        **figures,
        recorders=[
            RecorderFacts(openclaw_version=None if told is None else vocabulary.version(told)) for told in versions
        ],
        # Kinds of damage and of secrets are words of ours, and the recorder's own rules.
        damage_by_kind=_counted(coverage.damage_by_kind),
        secrets_redacted=_counted(coverage.secrets_redacted),
        sources={vocabulary.source(name): live for name, live in coverage.sources.items()},
    )


def _counted(kinds: dict[str, int]) -> dict[str, int]:
    known = {kind: count for kind, count in kinds.items() if kind in _KINDS}
    others = sum(count for kind, count in kinds.items() if kind not in _KINDS)
    return known | ({WITHHELD: others} if others else {})


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {name: value for name in _USAGE if _is_figure(value := usage.get(name))}
    cost = usage.get("cost")
    if isinstance(cost, dict) and _is_figure(cost.get("total")):
        told["cost"] = {"total": cost["total"]}
    return told


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_word(value: object, known: frozenset[str]) -> bool:
    return isinstance(value, str) and value in known
