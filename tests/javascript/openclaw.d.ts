// What the recorder plugin uses of OpenClaw's plugin API, observed on 2026.6.1 and 2026.9.6. It is declared here so that
// neither the checks nor the plugin need OpenClaw. OpenClaw promises the shape; the values in it come from models, tools and
// other plugins and are `unknown`. Where even the shape is wrong, a handler throws, and its guard counts a lost record.

declare namespace OpenClaw {
  /** What a plugin gets when it is registered. It can be a proxy that throws for what a registration mode does not have. */
  type PluginApi = {
    registrationMode?: unknown;
    /** The plugin's part of the configuration, in the shape of openclaw.plugin.json. */
    pluginConfig?: { attachment?: unknown };
    runtime: {
      version?: unknown;
      events: {
        onAgentEvent(listener: (event: AgentEvent) => void): void;
        onSessionTranscriptUpdate(listener: (update: TranscriptUpdate) => void): void;
      };
    };
    on(name: string, listener: HookListener): void;
  };

  type HookListener = (event: HookEvent, context?: HookContext) => void;

  /** Where something belongs. Hooks about a subagent name its session. */
  type Place = { runId?: string; sessionKey?: string; childSessionKey?: string; targetSessionKey?: string };

  type HookContext = Place & { agentId?: unknown; trigger?: unknown };

  /** The event of any hook: what each of them has is described below. */
  type HookEvent = Place & LlmInput & LlmOutput & ModelCall & ToolHook & AgentEnd & Compaction & ReportedOutcome;

  /** llm_input */
  type LlmInput = {
    systemPrompt?: unknown;
    prompt?: unknown;
    tools?: (Tool | null)[];
    historyMessages?: unknown;
  };

  /** A tool definition, in one of two forms. */
  type Tool = { name?: unknown; function?: { name?: unknown } | null };

  /** llm_output, with the usage of the whole agent run */
  type LlmOutput = { usage?: unknown; provider?: unknown; model?: unknown; harnessId?: unknown };

  /** model_call_started, model_call_ended */
  type ModelCall = {
    callId?: unknown;
    provider?: unknown;
    model?: unknown;
    api?: unknown;
    transport?: unknown;
    contextTokenBudget?: unknown;
    contextWindowSource?: unknown;
    durationMs?: unknown;
    outcome?: unknown;
    errorCategory?: unknown;
    failureKind?: unknown;
    requestPayloadBytes?: unknown;
    responseStreamBytes?: unknown;
    timeToFirstByteMs?: unknown;
  };

  /** before_tool_call, after_tool_call */
  type ToolHook = ToolOutcome & { toolCallId?: unknown; toolName?: unknown; params?: unknown; durationMs?: unknown };

  /** agent_end, with the whole history */
  type AgentEnd = Failure & { success?: unknown; durationMs?: unknown; messages?: (Message | null)[] };

  /** before_compaction, after_compaction, and the compaction stream */
  type Compaction = { messages?: unknown[] };

  /** What an event of any kind says of its own outcome. */
  type ReportedOutcome = Failure & { isError?: unknown; success?: unknown; outcome?: unknown };

  /** Where an error message can be: a text, or an object with a message. */
  type Failure = {
    error?: ErrorValue;
    errorMessage?: ErrorValue;
    message?: ErrorValue;
    result?: ToolResult | null;
  };

  type ErrorValue = { message?: unknown } | null;

  type ToolOutcome = { error?: ErrorValue; isError?: unknown; exitCode?: unknown; result?: ToolResult | null };

  /** The result of a tool. Some tools return only a text or the list of parts: both have no such members. */
  type ToolResult = MemoryResult & {
    content?: (ContentPart | null)[] | string;
    details?: ToolDetails | null;
    /** In results of Codex, which have no details. */
    exitCode?: unknown;
  };

  type ToolDetails = MemoryResult & {
    exitCode?: unknown;
    exitSignal?: unknown;
    timedOut?: unknown;
    noOutputTimedOut?: unknown;
    status?: unknown;
    error?: ErrorValue;
    disabled?: unknown;
    unavailable?: unknown;
  };

  /** The names under which memory tools return what they found. */
  type MemoryResult = { results?: unknown; matches?: unknown; hits?: unknown; text?: unknown };

  /** The arguments of memory tools. */
  type MemoryRequest = { query?: unknown; key?: unknown; path?: unknown; id?: unknown };

  /** A part of a message or of a tool result. */
  type ContentPart = { type?: unknown; text?: unknown; id?: unknown; name?: unknown };

  /** A message of a session transcript. */
  type Message = {
    toolCallId?: unknown;
    role?: unknown;
    content?: (ContentPart | null)[] | string;
    usage?: unknown;
    stopReason?: unknown;
    errorMessage?: unknown;
    provider?: unknown;
    model?: unknown;
    timestamp?: unknown;
  };

  type TranscriptUpdate = Place & { messageId?: unknown; message?: Message | null };

  /** An event of the agent event stream; `stream` says what its data is about. */
  type AgentEvent = Place & {
    agentId?: unknown;
    stream?: unknown;
    seq?: unknown;
    ts?: unknown;
    data?: StreamData | null;
  };

  type StreamData = Failure &
    Compaction & {
      phase?: unknown;
      // lifecycle
      provider?: unknown;
      model?: unknown;
      errorObservation?: ErrorObservation | null;
      stopReason?: unknown;
      aborted?: unknown;
      // tool, command_output
      toolCallId?: unknown;
      parentToolCallId?: unknown;
      name?: unknown;
      args?: unknown;
      isError?: unknown;
      exitCode?: unknown;
      // usage, over the whole agent run
      outputTokens?: unknown;
      // assistant, all that was streamed so far
      text?: unknown;
    };

  type ErrorObservation = { failoverReason?: unknown; providerRuntimeFailureKind?: unknown };

  /** An event under a documented name. No OpenClaw that was observed emits one, so that anything can be in it. */
  type DocumentedEvent = Place &
    Omit<ReportedOutcome, "message"> & {
      [name: string]: unknown;
      message?: Message & { message?: unknown };
      content?: ToolResult["content"];
      details?: ToolDetails | null;
    };
}
