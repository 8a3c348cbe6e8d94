// Finds the run to record in an OpenClaw that was not launched by the monitor. `critiqor attach` puts the path of a small
// file into the plugin's configuration. The file names a run, and the active slot of its runs folder shows whether that run
// takes events. Both are read when they change and when an agent run begins. All events of an agent run go to the run in
// which the agent run was first seen.

import fs from "node:fs";
import path from "node:path";

import { isRunId } from "./journal.js";
import { RunRecorder } from "./run_recorder.js";

const POLL_INTERVAL_MS = 1000;
const MAX_FILE_BYTES = 1 << 16;
const MAX_OWNERS = 1000;

/** Passes OpenClaw's events to the recorder of the run that they belong to, if there is one. */
export class Attachment {
  constructor(file, version) {
    this.file = file;
    this.version = version;
    this.isGateway = isGateway(process.argv);
    this.current = null;
    this.owners = new Map(); // run recorder by agent run and by session; null where they are not recorded
    this.announcements = new Map(); // by registration mode
    this.watched = new Set();
    this.stopped = false;
    // An exception in a listener of Node's would end the agent's process.
    this.poll = () => {
      try {
        this.refresh();
      } catch {
        // the next poll tries again
      }
    };
  }

  /** Keeps the announcement of a registration, for the current run and every later one. */
  announce(mode, presence) {
    this.announcements.set(mode, { ...presence, attached: true });
    this.refresh();
    this.writeAnnouncements();
  }

  hook(name, event, context) {
    this.ownerOf(event, context)?.router.hook(name, event, context);
  }

  documented(eventType, layer, event, context) {
    this.ownerOf(event, context)?.router.documented(eventType, layer, event, context);
  }

  agentEvent(event) {
    this.ownerOf(event)?.router.agentEvent(event);
  }

  // Most saved messages name no agent run; they belong to the one that started last in their session.
  transcriptUpdate(update) {
    const owner = update?.runId === undefined ? this.owners.get(`session ${update?.sessionKey}`) : undefined;
    (owner === undefined ? this.ownerOf(update) : owner)?.router.transcriptUpdate(update);
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
    if (owner?.announced.size === 0) this.writeAnnouncements(true);
    return owner;
  }

  remember(key, owner) {
    this.owners.delete(key); // moves it to the end, as the latest
    this.owners.set(key, owner);
    if (this.owners.size > MAX_OWNERS) this.owners.delete(this.owners.keys().next().value);
  }

  // Any OpenClaw command may load plugins. A gateway is certain to run agents; for other commands the first fact shows it.
  writeAnnouncements(runsAgents = this.isGateway && this.announcements.has("full")) {
    if (!runsAgents || this.current === null) return;
    for (const [mode, presence] of this.announcements) this.current.announce(mode, presence);
  }

  /** Starts and ends recording according to the files. */
  refresh() {
    const target = this.stopped ? null : readSmallFile(this.file);
    const run = target === null ? null : runOf(target);
    this.watch(target === null ? [] : run === null ? [this.file] : [this.file, run.slot]);
    const active = run !== null && isActive(run) ? run : null;
    if (active !== null && this.current?.runId === active.runId && this.current.runsDir === active.runsDir) return;
    this.end();
    // The folder was created with the session. If it is missing, it was removed on purpose.
    if (active !== null) this.current = new RunRecorder(active.runId, active.runsDir, { makesFolder: false });
    this.writeAnnouncements();
  }

  watch(files) {
    for (const file of this.watched) if (!files.includes(file)) fs.unwatchFile(file, this.poll);
    // A thread of Node's polls the files; nothing waits for it, and it does not keep the process alive.
    const options = { interval: POLL_INTERVAL_MS, persistent: false };
    const added = files.filter((file) => !this.watched.has(file));
    for (const file of added) fs.watchFile(file, options, this.poll);
    this.watched = new Set(files);
    // Node does not report a change between our read and its first poll.
    if (added.length > 0) setTimeout(this.poll, POLL_INTERVAL_MS).unref();
  }

  end() {
    const ended = this.current;
    if (ended === null) return;
    this.current = null;
    for (const [key, owner] of this.owners) if (owner === ended) this.owners.set(key, null);
    ended.end();
  }

  /** Stops permanently, for a replacement: OpenClaw may still call the old handlers. */
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
  const held = readSmallFile(slot);
  return held?.run_id === runId && held.status === "MONITORING";
}

// Returns an object, empty if the file holds something else; null if there is no file.
function readSmallFile(file) {
  try {
    const stat = fs.statSync(file); // reading a pipe would block
    const value = stat.isFile() && stat.size <= MAX_FILE_BYTES ? JSON.parse(fs.readFileSync(file, "utf8")) : null;
    return value !== null && typeof value === "object" ? value : {};
  } catch (error) {
    return error.code === "ENOENT" || error.code === "ENOTDIR" ? null : {};
  }
}
