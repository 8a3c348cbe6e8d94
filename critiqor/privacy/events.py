"""Anonymized events and coverage."""

from __future__ import annotations

from typing import Any

from critiqor.model import Coverage, Event
from critiqor.model.evidence import RecorderFacts
from critiqor.privacy import replacements
from critiqor.privacy.replacements import WITHHELD, Aliases, anonymous_name

_NUMBERS = (
    *("requestPayloadBytes", "timeToFirstByteMs", "contextTokenBudget", "exit_code", "exitCode", "attempt", "turn"),
    *("maxAttempts", "delayMs", "compactedCount", "tokensBefore", "tokensAfter", "left_running"),
)
_FLAGS = ("aborted", "completed", "success")
_WORDS = {
    "lookup": frozenset({"pending", "found", "empty", "error"}),
    "role": frozenset({"user", "assistant", "tool", "toolResult", "system"}),
}
_USAGE = ("input", "output", "cacheRead", "cacheWrite", "total", "totalTokens")
_DAMAGE_AND_SECRET_KINDS = """
    torn_tail invalid_json invalid_utf8 lone_surrogate too_deep too_long number_out_of_range not_an_object wrong_type
    huggingface_token groq_key xai_key perplexity_key replicate_token model_provider_key fireworks_key
    sendgrid_key mail_service_key notion_token linear_key vault_token digitalocean_token shopify_token
    package_registry_token hosting_token monitoring_key build_service_token work_service_token payment_key
    google_secret amazon_token age_key yandex_token putty_key cloud_access_key aws_bedrock_key yandex_key
    atlassian_token gitlab_runner_token facebook_token registry_key easypost_key encoded_token twilio_key
    azure_client_secret databricks_token google_refresh_token cloudflare_key terraform_token mailchimp_key
    airtable_token asana_token discord_token mapbox_token encoded_key password_hash braintree_token url_token
    webhook url_parameter authorization cookie option element stated_secret named_value shell_variable
    netrc_password piped_password command_password seed_phrase pgpass_password azure_key cluster_token csv_secret
    database_password encrypted_block encryption_key listed_secret login oauth_code oauth_token one_time_code
    recovery_code saml_response service_token totp_secret wallet_key wifi_password
    in_source lifecycle private_key anthropic_key openai_key github_token gitlab_token slack_token aws_access_key
    google_key npm_token stripe_key telegram_token jwt bearer basic_auth url_password assignment field
"""
_KINDS = frozenset(_DAMAGE_AND_SECRET_KINDS.split())
_CALLS = {"callId": "request", "parent_tool_call_id": "call"}


def anonymous_event(event: Event, aliases: Aliases | None = None) -> Event:
    """Return type, time, duration and status of an event; with aliases, also the ids it belongs to."""
    payload = event.payload
    kept: dict[str, Any] = {name: value for name in _NUMBERS if _is_number(value := payload.get(name))}
    kept |= {name: value for name in _FLAGS if isinstance(value := payload.get(name), bool)}
    kept |= {name: value for name, known in _WORDS.items() if _is_word(value := payload.get(name), known)}
    if isinstance(payload.get("usage"), dict):
        kept["usage"] = _usage(payload["usage"])
    ids: dict[str, str] = {}
    if aliases is not None:
        kept |= {
            name: aliases.of(kind, value)
            for name, kind in _CALLS.items()
            if isinstance(value := payload.get(name), str)
        }
        named = {"session": event.session_key, "agent_run": event.agent_run_id, "call": event.tool_call_id}
        fields = {"session": "session_key", "agent_run": "agent_run_id", "call": "tool_call_id"}
        ids = {fields[kind]: aliases.of(kind, value) for kind, value in named.items() if value is not None}
    return Event(
        event_id=replacements.cited(event.event_id),
        event_type=anonymous_name("event_type", event.event_type),
        timestamp=replacements.timestamp(event.timestamp),
        source_layer=anonymous_name("source_layer", event.source_layer),
        tool_name=None if event.tool_name is None else replacements.tool(event.tool_name),
        status=anonymous_name("status", event.status),
        duration_ms=event.duration_ms,
        payload=kept,
        **ids,
    )


def anonymous_coverage(coverage: Coverage) -> Coverage:
    """Return the numbers of the coverage of events, without names and notes."""
    numbers: dict[str, Any] = {
        name: value for name in coverage.__struct_fields__ if isinstance(value := getattr(coverage, name), bool | int)
    }
    versions = [recorder.openclaw_version for recorder in coverage.recorders]
    return Coverage(
        **numbers,
        recorders=[
            RecorderFacts(openclaw_version=None if version is None else replacements.version(version))
            for version in versions
        ],
        # Kinds of damage and of secrets are named by Critiqor and by the rules of the recorder.
        damage_by_kind=_counted(coverage.damage_by_kind),
        secrets_redacted=_counted(coverage.secrets_redacted),
        sources={replacements.source(name): live for name, live in coverage.sources.items()},
    )


def _counted(kinds: dict[str, int]) -> dict[str, int]:
    known = {kind: count for kind, count in kinds.items() if kind in _KINDS}
    others = sum(count for kind, count in kinds.items() if kind not in _KINDS)
    return known | ({WITHHELD: others} if others else {})


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {name: value for name in _USAGE if _is_number(value := usage.get(name))}
    cost = usage.get("cost")
    if isinstance(cost, dict) and _is_number(cost.get("total")):
        kept["cost"] = {"total": cost["total"]}
    return kept


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_word(value: object, known: frozenset[str]) -> bool:
    return isinstance(value, str) and value in known
