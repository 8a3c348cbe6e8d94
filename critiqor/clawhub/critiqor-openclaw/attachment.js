// Finds the run to record in an OpenClaw that was not launched by the monitor. `critiqor attach` puts the path of a small
// file into the plugin's configuration. The file names a recording by its first run, and a slot of the runs folder, which
// names the run that takes events. Both are read when they change and when an agent run begins. All events of an agent run
// go to the run in which the agent run was first seen.

import fs from "node:fs";
import path from "node:path";

import { isRunId } from "./journal.js";
import { RunRecorder } from "./run_recorder.js";
import { activeRun, readSmallFile, witnessFile, witnessOf } from "./slot.js";

/** @import { Facts } from "./events.js" */

/**
 * The recording by its first run, and the slot that names its current one.
 * @typedef {{ recording: string, runsDir: string, slot: string }} Target
 */

const POLL_INTERVAL_MS = 1000;
const MAX_OWNERS = 1000;

/** Passes OpenClaw's events to the recorder of the run that they belong to, if there is one. */
export class Attachment {
  #isGateway = isGateway(process.argv);
  /** @type {Map<string, Facts>} */
  #announcements = new Map(); // by registration mode
  /** @type {Set<string>} */
  #watched = new Set();
  #isStopped = false;
  /** @type {Target | null} */
  #followed = null; // what the current recorder records

  /**
   * @param {string} file
   * @param {string} version
   */
  constructor(file, version) {
    this.file = file;
    this.version = version;
    /** @type {RunRecorder | null} */
    this.current = null;
    /** @type {Map<string, RunRecorder | null>} */
    this.owners = new Map(); // by agent run and by session; null where they are not recorded
    // An exception in a listener of Node's would end the agent's process.
    this.poll = () => {
      try {
        this.refresh();
      } catch {
        // the next poll tries again
      }
    };
  }

  /**
   * Keeps the announcement of a registration, for the current run and every later one.
   * @param {string} mode
   * @param {Facts} presence
   */
  announce(mode, presence) {
    this.#announcements.set(mode, { ...presence, attached: true });
    this.refresh();
    this.#writeAnnouncements();
  }

  /**
   * @param {string} name
   * @param {OpenClaw.HookEvent} event
   * @param {OpenClaw.HookContext} [context]
   */
  hook(name, event, context) {
    this.#ownerOf(event, context)?.router.hook(name, event, context);
  }

  /**
   * @param {string} eventType
   * @param {string} layer
   * @param {OpenClaw.HookEvent} event
   * @param {OpenClaw.HookContext} [context]
   */
  documented(eventType, layer, event, context) {
    this.#ownerOf(event, context)?.router.documented(eventType, layer, event, context);
  }

  /** @param {OpenClaw.AgentEvent} event */
  agentEvent(event) {
    this.#ownerOf(event)?.router.agentEvent(event);
  }

  /**
   * Most saved messages name no agent run; they belong to the one that started last in their session.
   * @param {OpenClaw.TranscriptUpdate | null | undefined} update
   */
  transcriptUpdate(update) {
    const owner = update?.runId === undefined ? this.owners.get(`session ${update?.sessionKey}`) : undefined;
    (owner === undefined ? this.#ownerOf(update) : owner)?.router.transcriptUpdate(update);
  }

  /** Starts and ends recording according to the files. */
  refresh() {
    const target = this.#isStopped ? null : readSmallFile(this.file);
    const found = target === null ? null : targetOf(target);
    const runId = found === null ? null : activeRun(found.slot, found.recording);
    const guard = found === null || runId === null ? [] : [witnessFile(found.runsDir, runId)];
    this.#watch(target === null ? [] : found === null ? [this.file] : [this.file, found.slot, ...guard]);
    const witness = found === null || runId === null ? "" : witnessOf(found.runsDir, runId);
    const { current } = this;
    if (current !== null && found !== null && runId !== null && isSame(found, this.#followed)) {
      if (current.runId === runId) current.reportTo(witness);
      else current.handOver(runId, witness);
      return;
    }
    this.#end();
    this.#followed = found;
    if (found !== null && runId !== null) {
      // The folder was created with the session. If it is missing, it was removed on purpose.
      const options = { makesFolder: false, witness, follow: this.poll };
      this.current = new RunRecorder(runId, found.runsDir, options);
    }
    this.#writeAnnouncements();
  }

  /** Stops permanently, for a replacement: OpenClaw may still call the old handlers. */
  stop() {
    this.#isStopped = true;
    this.refresh();
  }

  /**
   * @param {OpenClaw.Place | null | undefined} event
   * @param {OpenClaw.Place} [context]
   */
  #ownerOf(event, context) {
    const runId = event?.runId ?? context?.runId;
    const known = typeof runId === "string" ? this.owners.get(runId) : this.current;
    const owner = known === undefined ? this.#assign(runId, event?.sessionKey ?? context?.sessionKey) : known;
    if (owner?.announced.size === 0) this.#writeAnnouncements(true);
    return owner;
  }

  /**
   * Returns the current recorder, which a new agent run and its session belong to from now on.
   * @param {string | undefined} runId
   * @param {string | undefined} sessionKey
   */
  #assign(runId, sessionKey) {
    this.refresh();
    if (runId !== undefined) this.#remember(runId);
    if (sessionKey !== undefined) this.#remember(`session ${sessionKey}`);
    return this.current;
  }

  /** @param {string} key */
  #remember(key) {
    this.owners.delete(key); // moves it to the end, as the latest
    this.owners.set(key, this.current);
    if (this.owners.size <= MAX_OWNERS) return;
    const [oldest = ""] = this.owners.keys();
    this.owners.delete(oldest);
  }

  // Any OpenClaw command may load plugins. A gateway is certain to run agents; for other commands the first fact shows it.
  #writeAnnouncements(runsAgents = this.#isGateway && this.#announcements.has("full")) {
    if (!runsAgents || this.current === null) return;
    for (const [mode, presence] of this.#announcements) this.current.announce(mode, presence);
  }

  /** @param {string[]} files */
  #watch(files) {
    for (const file of this.#watched) if (!files.includes(file)) fs.unwatchFile(file, this.poll);
    // A thread of Node's polls the files; nothing waits for it, and it does not keep the process alive.
    const options = { interval: POLL_INTERVAL_MS, persistent: false };
    const added = files.filter((file) => !this.#watched.has(file));
    for (const file of added) fs.watchFile(file, options, this.poll);
    this.#watched = new Set(files);
    // Node does not report a change between our read and its first poll.
    if (added.length > 0) setTimeout(this.poll, POLL_INTERVAL_MS).unref();
  }

  #end() {
    const ended = this.current;
    if (ended === null) return;
    this.current = null;
    for (const [key, owner] of this.owners) if (owner === ended) this.owners.set(key, null);
    ended.end();
  }
}

/**
 * Whether the command is `openclaw gateway` or `openclaw gateway run`, and not `openclaw gateway status`.
 * @param {string[]} words
 */
function isGateway(words) {
  const next = words[words.indexOf("gateway") + 1];
  return words.includes("gateway") && (next === undefined || next === "run" || next.startsWith("-"));
}

/**
 * @param {Facts} target
 * @returns {Target | null}
 */
function targetOf({ run_id: recording, runs_dir: runsDir, slot = null }) {
  if (!isRunId(recording) || typeof runsDir !== "string" || !path.isAbsolute(runsDir)) return null;
  const file = typeof slot === "string" && isRunId(slot) ? path.join(".slots", `${slot}.json`) : "active_session.json";
  return { recording, runsDir, slot: path.join(runsDir, file) };
}

/**
 * @param {Target} one
 * @param {Target | null} other
 */
function isSame(one, other) {
  return one.recording === other?.recording && one.slot === other.slot;
}
