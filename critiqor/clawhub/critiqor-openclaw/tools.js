// Records tool calls: the start at once, the end with the facts of the source that reports most.

import { isMemoryTool, memoryLookup } from "./events.js";
import { outcomeOf } from "./extract.js";

const TOOLS = "tool_hooks";
const WAIT_FOR_HOOK_MS = 250;

/** Writes `tool_call`, `tool_result` and memory lookups. */
export class ToolCalls {
  constructor(records) {
    this.records = records;
  }

  start(source, run, call) {
    const known = run.toolStarted(source, call.id);
    if (known !== null) return known;
    this.records.settle(run.response);
    const started = run.addTool(call.id, call.name, call.args, call.at ?? this.records.now());
    const payload = call.raw ? { ...call.raw, source: call.source } : { arguments: call.args ?? null, source: call.source };
    if (call.parent) payload.parent_tool_call_id = call.parent;
    this.write("tool_call", run, started, { at: started.at }, payload);
    return started;
  }

  end(source, run, end) {
    let call = run.toolEnded(source, end.id);
    if (call === null) {
      const at = this.records.before(end.durationMs);
      this.start(source, run, { id: end.id, name: end.name, args: end.args, at, source: end.source });
      call = run.latestTool(end.id);
    }
    if (call.written) return;
    for (const key in end) if (end[key] !== undefined) call.result[key] = end[key];
    call.endedAt ??= this.records.now();
    if (source !== "stream" || !this.isMoreExpected(call, end)) this.finish(run, call);
    else if (call.wait === null) {
      run.ending.add(call);
      call.wait = this.records.later(WAIT_FOR_HOOK_MS, () => this.finish(run, call));
    }
  }

  // Whether more follows the stream's event: the hook, or the exit code of a command.
  isMoreExpected(call, end) {
    return this.records.hooksLive || (call.hasOutput && outcomeOf(end).exitCode === undefined);
  }

  output(run, phase, data) {
    const call = run.latestTool(data.toolCallId);
    if (!call || call.written) return;
    call.hasOutput = true;
    if (phase !== "end") return;
    call.result.exitCode = data.exitCode ?? undefined;
    if (call.endedAt !== null && !this.records.hooksLive) this.finish(run, call);
  }

  finish(run, call) {
    if (call.written) return;
    call.written = true;
    run.ending.delete(call);
    this.records.settle(call.wait);
    const { result, durationMs, source, parent, raw } = call.result;
    const { failure, exitCode } = outcomeOf(call.result);
    const payload = raw ? { ...raw, source } : { result: result ?? null, source };
    if (exitCode !== undefined) payload.exit_code = exitCode;
    if (call.updates > 0) payload.updates = call.updates;
    if (parent) payload.parent_tool_call_id = parent;
    const known = { at: call.endedAt, durationMs, status: failure === null ? "ok" : "error", error: failure };
    this.write("tool_result", run, call, known, payload);
    call.args = call.result = call.wait = null;
  }

  write(eventType, run, call, known, payload) {
    const finished = eventType === "tool_result";
    known.toolCallId = call.id;
    known.toolName = call.name;
    // Ids repeat, so the duration is computed from this call and not from the latest start with the same id.
    if (finished) known.durationMs ??= Math.max(0, call.endedAt - call.at);
    this.records.write(eventType, TOOLS, run, known, payload);
    if (!isMemoryTool(call.name)) return;
    const found = finished ? (call.result.result ?? {}) : undefined;
    const lookup = memoryLookup(call.args ?? call.result.args, found, known.status === "error");
    this.records.write(call.name, TOOLS, run, known, { ...payload, observed_as: eventType, ...lookup });
  }
}
