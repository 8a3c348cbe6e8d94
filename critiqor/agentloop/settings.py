"""Settings of the loop, named as in OpenClaw's configuration, where they are in camel case."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

QueueMode = Literal["steer", "followup", "collect", "interrupt"]
DropPolicy = Literal["summarize", "old", "new"]
BlockBreak = Literal["text_end", "message_end"]
SandboxMode = Literal["off", "non-main", "all"]

NonNegative = Annotated[float, msgspec.Meta(ge=0)]
"""Seconds, milliseconds or dollars."""
Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]

DEFAULT_MAX_CONCURRENT = 8


class Prices(msgspec.Struct, frozen=True, rename="camel"):
    """US dollars per million tokens."""

    input: NonNegative = 0.0
    output: NonNegative = 0.0
    cache_read: NonNegative = 0.0
    cache_write: NonNegative = 0.0


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One model of a provider."""

    id: str
    name: str = ""
    reasoning: bool = False
    """Whether the model supports reasoning."""
    input: tuple[str, ...] = ("text",)
    """Supported input: `text`, `image`."""
    cost: Prices = Prices()
    context_window: AtLeastOne = 200_000
    """Maximum tokens of a request and its response together."""
    max_tokens: AtLeastOne = 8_192
    """Maximum tokens of a response."""


class SecretReference(msgspec.Struct, frozen=True):
    """Reference to a secret outside of the configuration."""

    source: Literal["env"]
    id: str
    """Name of the environment variable."""


Secret = str | SecretReference
"""A secret in the configuration; a text may contain `${VARIABLE}`."""


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`models.providers.<id>.request.tls`. Certificates and keys are PEM, or paths of files that contain it."""

    ca: Secret | None = None
    """Certificate authorities to trust in place of those of the system."""
    cert: Secret | None = None
    """Certificate of this client."""
    key: Secret | None = None
    passphrase: Secret | None = None
    server_name: str | None = None
    """Name that the certificate of the server must have, if it is not that of the URL."""
    insecure_skip_verify: bool = False


class ProxySettings(msgspec.Struct, frozen=True, kw_only=True):
    """`models.providers.<id>.request.proxy`."""

    mode: Literal["env-proxy", "explicit-proxy"] = "env-proxy"
    """`env-proxy`: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY of the environment, as without this setting."""
    url: str | None = None


class RequestSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`models.providers.<id>.request`: how HTTP requests reach the provider."""

    proxy: ProxySettings | None = None
    tls: TlsSettings | None = None


class Provider(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A model provider."""

    id: str = ""
    base_url: str = ""
    api_key: Secret | None = None
    api: str = "openai-completions"
    timeout_seconds: Positive | None = None
    """Timeout of each HTTP request, and maximum time without data in its response stream."""
    request: RequestSettings = RequestSettings()
    models: tuple[ModelEntry, ...] = ()


class ModelChoice(msgspec.Struct, frozen=True):
    """The primary model and its fallbacks."""

    primary: str = ""
    fallbacks: tuple[str, ...] = ()


class MidTurnPrecheck(msgspec.Struct, frozen=True):
    """Whether the context size is also checked between the model calls of a run."""

    enabled: bool = False


class CompactionSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When and how the history is compacted."""

    enabled: bool = True
    """Whether to compact before a run. A provider's "context too long" error causes a compaction in any case."""
    reserve_tokens: Count = 16_384
    """Tokens kept free for the prompt and the response."""
    reserve_tokens_floor: Count = 20_000
    keep_recent_tokens: Count = 20_000
    """Tokens of the latest history that are kept unchanged."""
    model: str | None = None
    """The model that writes summaries. Default: the model of the run."""
    mid_turn_precheck: MidTurnPrecheck = MidTurnPrecheck()

    def reserve(self, context_window: AtLeastOne) -> int:
        """Return the tokens to keep free, at most half of the context window."""
        return min(max(self.reserve_tokens, self.reserve_tokens_floor), context_window // 2)


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Retries of failed model calls. Only this loop has this key; in OpenClaw it is not configurable."""

    max_retries: Count = 8
    min_delay_ms: NonNegative = 1_000.0
    max_delay_ms: NonNegative = 30_000.0
    jitter: NonNegative = 0.1
    max_wait_ms: NonNegative = 60_000.0
    """Longest wait that a provider may request; beyond it, the call is not retried."""


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which runs are confined to a separate workspace."""

    mode: SandboxMode = "off"
    workspace_root: str | None = None


class BlockChunk(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Size of the blocks of a streamed reply."""

    min_chars: AtLeastOne = 800
    max_chars: AtLeastOne = 1_200
    break_preference: Literal["paragraph", "newline", "sentence"] = "paragraph"


class ExternalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`agents.defaults.external`: a program that answers in place of the loop. Only this loop has this key."""

    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """Program and arguments; it is started in the folder of the configuration file."""
    env: dict[str, str] = {}


class AgentDefaults(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`agents.defaults`."""

    model: ModelChoice | str = ModelChoice()
    timeout_seconds: NonNegative | None = None
    """Time limit of a run; 0 for no limit."""
    workspace: str | None = None
    max_concurrent: AtLeastOne = DEFAULT_MAX_CONCURRENT
    """Concurrent runs of all sessions together."""
    thinking_default: str = "off"
    verbose_default: Literal["off", "on", "full"] = "off"
    trace_default: Literal["off", "on"] = "off"
    compaction: CompactionSettings = CompactionSettings()
    sandbox: SandboxSettings = SandboxSettings()
    retry: RetrySettings = RetrySettings()
    reasoning_default: Literal["off", "on"] = "off"
    """Whether the reply includes the model's reasoning, which is always streamed."""
    block_streaming_default: Literal["on", "off"] = "off"
    block_streaming_break: BlockBreak = "text_end"
    block_streaming_chunk: BlockChunk = BlockChunk()
    external: ExternalSettings | None = None
    external_idle_seconds: Positive | None = 60.0
    """Longest time that an external agent may make no progress. Only this loop has this key."""


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`messages.queue`: what happens to a message that arrives while its session is busy."""

    mode: QueueMode = "steer"
    debounce_ms: NonNegative = 500.0
    cap: AtLeastOne = 20
    drop: DropPolicy = "summarize"
    by_channel: dict[str, QueueMode] = {}

    def mode_for(self, channel: str | None) -> QueueMode:
        """Return the queue mode of a channel."""
        return self.by_channel.get(channel or "", self.mode)


class DiagnosticsSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`diagnostics`."""

    enabled: bool = True
    stuck_session_warn_ms: Positive = 120_000.0
    stuck_session_abort_ms: Positive | None = None
    """Milliseconds without progress after which a run is aborted. Default: never, because a quiet tool or a slow model
    is not a fault."""


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


class HookScriptSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`hooks.plugin.scripts[]`: a program that handles a plugin hook."""

    hook: str
    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """Program and arguments; it is started in the folder of the configuration file."""
    priority: int = 0
    """Handlers of higher priorities run first."""
    timeout_seconds: Positive = 10.0
    env: dict[str, str] = {}


class PluginHookSettings(msgspec.Struct, frozen=True):
    """`hooks.plugin`. Only this loop has this key."""

    modules: tuple[str, ...] = ()
    """Python files or dotted names of modules with a function `register(hooks)`."""
    scripts: tuple[HookScriptSettings, ...] = ()


class WriteLockSettings(msgspec.Struct, frozen=True, rename="camel"):
    """`session.writeLock`."""

    acquire_timeout_ms: NonNegative = 60_000.0


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


class StdoutChannel(msgspec.Struct, frozen=True, tag_field="outbox", tag="stdout"):
    """`channels.<name>` with `"outbox": "stdout"`: messages are printed by the process that sends them."""


class FileChannel(msgspec.Struct, frozen=True, kw_only=True, tag_field="outbox", tag="file"):
    """`channels.<name>` with `"outbox": "file"`: messages are appended to a file, as JSON Lines."""

    path: Annotated[str, msgspec.Meta(min_length=1)]


class WebhookChannel(msgspec.Struct, frozen=True, kw_only=True, tag_field="outbox", tag="webhook"):
    """`channels.<name>` with `"outbox": "webhook"`: each message is the JSON body of a POST request."""

    url: Annotated[str, msgspec.Meta(pattern=r"^(https?://|\$\{)")]
    """May contain `${VARIABLE}`, like the values of `headers`."""
    headers: dict[str, str] = {}


class MemoryChannel(msgspec.Struct, frozen=True, tag_field="outbox", tag="memory"):
    """`channels.<name>` with `"outbox": "memory"`: messages are kept in the process, for tests."""


ChannelSettings = StdoutChannel | FileChannel | WebhookChannel | MemoryChannel
