// How an OpenClaw that outlives a run learns where to record. `critiqor attach` names a small file in the plugin's
// configuration. The file names a run, and the active slot of its runs folder says whether that run takes events. Both are
// looked at when they change and when an agent run begins, and an agent run stays with the run in which it was first seen.

import fs from "node:fs";
import path from "node:path";

import { isRunId } from "./journal.js";
import { Recording } from "./recording.js";

const LOOK_EVERY_MS = 1000;
const MOST_BYTES = 1 << 16;
const MOST_REMEMBERED = 1000;

/** Hands what OpenClaw emits to the run that it belongs to, if there is one. */
export class Attachment {
  constructor(file, version) {
    this.file = file;
    this.version = version;
    this.isGateway = isGateway(process.argv);
    this.current = null;
    this.owners = new Map(); // of agent runs, and of what is saved of a session; null where nobody records them
    this.presences = new Map();
    this.watched = new Set();
    this.stopped = false;
    // An error in a listener of Node's would end the agent's process.
    this.look = () => {
      try {
        this.refresh();
      } catch {
        // the next look may do better
      }
    };
  }

  /** Says who is watching, to every run that there will be. */
  announce(mode, presence) {
    this.presences.set(mode, { ...presence, attached: true });
    this.refresh();
    this.introduce();
  }

  hook(name, event, context) {
    this.ownerOf(event, context)?.recorder.hook(name, event, context);
  }

  documented(eventType, layer, event, context) {
    this.ownerOf(event, context)?.recorder.documented(eventType, layer, event, context);
  }

  agentEvent(event) {
    this.ownerOf(event)?.recorder.agentEvent(event);
  }

  // Most saved messages name no run; they follow the start of theirs.
  transcriptUpdate(update) {
    const owner = update?.runId === undefined ? this.owners.get(`session ${update?.sessionKey}`) : undefined;
    (owner === undefined ? this.ownerOf(update) : owner)?.recorder.transcriptUpdate(update);
  }

  ownerOf(event, context) {
    const runId = event?.runId ?? context?.runId;
    let owner = typeof runId === "string" ? this.owners.get(runId) : this.current;
    if (owner === undefined) {
      this.refresh();
      owner = this.current;
      this.remember(runId, owner);
      const sessionKey = event?.sessionKey ?? context?.sessionKey;
      if (sessionKey !== undefined) this.remember(`session ${sessionKey}`, owner);
    }
    if (owner?.announced.size === 0) this.introduce(true);
    return owner;
  }

  remember(key, owner) {
    this.owners.delete(key); // to the end, as the latest
    this.owners.set(key, owner);
    if (this.owners.size > MOST_REMEMBERED) this.owners.delete(this.owners.keys().next().value);
  }

  // Any command of OpenClaw may load its plugins. Of a gateway it is certain that it will work; otherwise the first fact
  // shows it.
  introduce(certain = this.isGateway && this.presences.has("full")) {
    if (!certain || this.current === null) return;
    for (const [mode, presence] of this.presences) this.current.announce(mode, presence);
  }

  /** Begins and ends recordings as the files say. */
  refresh() {
    const told = this.stopped ? null : readSmall(this.file);
    const run = told === null ? null : runOf(told);
    this.watch(told === null ? [] : run === null ? [this.file] : [this.file, run.slot]);
    const active = run !== null && isActive(run) ? run : null;
    if (active !== null && this.current?.runId === active.runId && this.current.runsDir === active.runsDir) return;
    this.end();
    // Its folder was made when the session was created. One that is gone was removed on purpose.
    if (active !== null) this.current = new Recording(active.runId, active.runsDir, { makesFolder: false });
    this.introduce();
  }

  watch(files) {
    for (const file of this.watched) if (!files.includes(file)) fs.unwatchFile(file, this.look);
    // Looked at by a thread of Node's own, without waiting for it and without keeping the process alive.
    const options = { interval: LOOK_EVERY_MS, persistent: false };
    const added = files.filter((file) => !this.watched.has(file));
    for (const file of added) fs.watchFile(file, options, this.look);
    this.watched = new Set(files);
    // What changed between our look and Node's first one is no change to Node.
    if (added.length > 0) setTimeout(this.look, LOOK_EVERY_MS).unref();
  }

  end() {
    const ended = this.current;
    if (ended === null) return;
    this.current = null;
    for (const [key, owner] of this.owners) if (owner === ended) this.owners.set(key, null);
    ended.end();
  }

  /** Makes way for another, for good: what OpenClaw once subscribed may still be called. */
  stop() {
    this.stopped = true;
    this.refresh();
  }
}

// `openclaw gateway` and `openclaw gateway run`, and not `openclaw gateway status`.
function isGateway(words) {
  const next = words[words.indexOf("gateway") + 1];
  return words.includes("gateway") && (next === undefined || next === "run" || next.startsWith("-"));
}

function runOf({ run_id: runId, runs_dir: runsDir }) {
  if (!isRunId(runId) || typeof runsDir !== "string" || !path.isAbsolute(runsDir)) return null;
  return { runId, runsDir, slot: path.join(runsDir, "active_session.json") };
}

function isActive({ runId, slot }) {
  const held = readSmall(slot);
  return held?.run_id === runId && held.status === "MONITORING";
}

// An object, empty where the file holds something else; null where there is no file.
function readSmall(file) {
  try {
    const stat = fs.statSync(file); // reading a pipe would wait for its other end
    const value = stat.isFile() && stat.size <= MOST_BYTES ? JSON.parse(fs.readFileSync(file, "utf8")) : null;
    return value !== null && typeof value === "object" ? value : {};
  } catch (error) {
    return error.code === "ENOENT" || error.code === "ENOTDIR" ? null : {};
  }
}
