"""The settings of the loop, as OpenClaw's configuration names them; camel case there, the same words here."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

QueueMode = Literal["steer", "followup", "collect", "interrupt"]
DropPolicy = Literal["summarize", "old", "new"]
BlockBreak = Literal["text_end", "message_end"]
SandboxMode = Literal["off", "non-main", "all"]

Amount = Annotated[float, msgspec.Meta(ge=0)]
"""Seconds, milliseconds, dollars: never less than nothing."""
Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]

DEFAULT_MAX_CONCURRENT = 8


class Prices(msgspec.Struct, frozen=True, rename="camel"):
    """US dollars for a million tokens."""

    input: Amount = 0.0
    output: Amount = 0.0
    cache_read: Amount = 0.0
    cache_write: Amount = 0.0


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One model of a provider."""

    id: str
    name: str = ""
    reasoning: bool = False
    """Whether it can reason before it answers."""
    input: tuple[str, ...] = ("text",)
    """What it can be given: `text`, `image`."""
    cost: Prices = Prices()
    context_window: AtLeastOne = 200_000
    """Tokens that a request and its answer may have together."""
    max_tokens: AtLeastOne = 8_192
    """Tokens that an answer may have."""


class SecretReference(msgspec.Struct, frozen=True):
    """A secret that stands elsewhere."""

    source: Literal["env"]
    id: str
    """Name of the environment variable."""


class Provider(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who serves models, and how."""

    id: str = ""
    base_url: str = ""
    api_key: str | SecretReference | None = None
    api: str = "openai-completions"
    timeout_seconds: Positive | None = None
    """For each of its HTTP requests, and for the silence that its streams are allowed."""
    models: tuple[ModelEntry, ...] = ()


class ModelChoice(msgspec.Struct, frozen=True):
    """Which model answers, and which ones after it."""

    primary: str = ""
    fallbacks: tuple[str, ...] = ()


class MidTurnPrecheck(msgspec.Struct, frozen=True):
    """Whether the context is measured between the model calls of a run as well."""

    enabled: bool = False


class CompactionSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When and how history is summarised."""

    enabled: bool = True
    """Before a run; a provider that says "too long" is answered with a compaction in any case."""
    reserve_tokens: Count = 16_384
    """Kept free for the prompt and the answer."""
    reserve_tokens_floor: Count = 20_000
    keep_recent_tokens: Count = 20_000
    """How much of the latest history stays as it is."""
    model: str | None = None
    """Who summarises; the model of the run where nothing is said."""
    mid_turn_precheck: MidTurnPrecheck = MidTurnPrecheck()

    def reserve(self, context_window: AtLeastOne) -> int:
        """Tokens that stay free, which in a small window is never more than half of it."""
        return min(max(self.reserve_tokens, self.reserve_tokens_floor), context_window // 2)


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a failed model call is tried again; a key of this loop, OpenClaw has it built in."""

    max_retries: Count = 8
    min_delay_ms: Amount = 1_000.0
    max_delay_ms: Amount = 30_000.0
    jitter: Amount = 0.1
    max_wait_ms: Amount = 60_000.0
    """A provider that asks for a longer wait is not waited for."""


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which runs are kept inside a folder of their own."""

    mode: SandboxMode = "off"
    workspace_root: str | None = None


class BlockChunk(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How large a block of a streamed reply is."""

    min_chars: AtLeastOne = 800
    max_chars: AtLeastOne = 1_200
    break_preference: Literal["paragraph", "newline", "sentence"] = "paragraph"


class AgentDefaults(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`agents.defaults`."""

    model: ModelChoice | str = ModelChoice()
    timeout_seconds: Amount | None = None
    """For a whole run; 0 for no limit."""
    workspace: str | None = None
    max_concurrent: AtLeastOne = DEFAULT_MAX_CONCURRENT
    """Runs at a time, all sessions together."""
    thinking_default: str = "off"
    verbose_default: Literal["off", "on", "full"] = "off"
    trace_default: Literal["off", "on"] = "off"
    compaction: CompactionSettings = CompactionSettings()
    sandbox: SandboxSettings = SandboxSettings()
    retry: RetrySettings = RetrySettings()
    reasoning_default: Literal["off", "on"] = "off"
    """Whether what the model reasoned is part of the reply; as a stream it is always there."""
    block_streaming_default: Literal["on", "off"] = "off"
    block_streaming_break: BlockBreak = "text_end"
    block_streaming_chunk: BlockChunk = BlockChunk()
    external_idle_seconds: Positive | None = 60.0
    """How long a turn that somebody else makes may show no progress; a key of this loop."""


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`messages.queue`: what a message does that comes while its session is busy."""

    mode: QueueMode = "steer"
    debounce_ms: Amount = 500.0
    cap: AtLeastOne = 20
    drop: DropPolicy = "summarize"
    by_channel: dict[str, QueueMode] = {}

    def mode_for(self, channel: str | None) -> QueueMode:
        """The mode of a channel."""
        return self.by_channel.get(channel or "", self.mode)


class DiagnosticsSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`diagnostics`."""

    enabled: bool = True
    stuck_session_warn_ms: Positive = 120_000.0
    stuck_session_abort_ms: Positive | None = None
    """When a run without progress is ended; never, where nothing is said: a quiet tool or a slow model is no fault."""


class HookEntry(msgspec.Struct, frozen=True):
    """`hooks.internal.entries.<name>`."""

    enabled: bool = True
    env: dict[str, str] = {}


class HookFolders(msgspec.Struct, frozen=True, rename="camel"):
    """`hooks.internal.load`."""

    extra_dirs: tuple[str, ...] = ()


class InternalHookSettings(msgspec.Struct, frozen=True):
    """`hooks.internal`."""

    enabled: bool | None = None
    entries: dict[str, HookEntry] = {}
    load: HookFolders = HookFolders()


class WriteLockSettings(msgspec.Struct, frozen=True, rename="camel"):
    """`session.writeLock`."""

    acquire_timeout_ms: Amount = 60_000.0


class SkillFolders(msgspec.Struct, frozen=True, rename="camel"):
    """`skills.load`."""

    extra_dirs: tuple[str, ...] = ()


class SkillEntry(msgspec.Struct, frozen=True, rename="camel"):
    """`skills.entries.<name>`."""

    enabled: bool = True
    env: dict[str, str] = {}
    api_key: str | None = None


class SkillSettings(msgspec.Struct, frozen=True):
    """`skills`."""

    load: SkillFolders = SkillFolders()
    entries: dict[str, SkillEntry] = {}
