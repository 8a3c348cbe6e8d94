// Slots: small files that name the run which takes the events of a recording. A recording that is cut into segments goes on
// in another run, and every process of it follows the slot there.

import fs from "node:fs";
import path from "node:path";

import { errorCode, isRunId } from "./journal.js";

/** @import { Facts } from "./events.js" */
/** @import { RunRecorder } from "./run_recorder.js" */

const MAX_FILE_BYTES = 1 << 16;
const POLL_INTERVAL_MS = 1000;

/**
 * Returns the run of a recording that takes events; null if there is none.
 * @param {string} slot
 * @param {string} recording its first run
 */
export function activeRun(slot, recording) {
  const { run_id: runId, recording: named, status } = readSmallFile(slot) ?? {};
  if (!isRunId(runId) || status !== "MONITORING") return null;
  return runId === recording || named === recording ? runId : null;
}

/**
 * The file with the address of the witness of a run, while there is one.
 * @param {string} runsDir
 * @param {string} runId
 */
export function witnessFile(runsDir, runId) {
  return path.join(runsDir, runId, "guard.json");
}

/**
 * The address of the witness of a run; empty if there is none.
 * @param {string} runsDir
 * @param {string} runId
 */
export function witnessOf(runsDir, runId) {
  const address = readSmallFile(witnessFile(runsDir, runId))?.witness;
  return typeof address === "string" ? address : "";
}

/**
 * Lets the recorder of a monitored run follow its slot, as long as the process lives.
 * @param {string} slot
 * @param {string} recording
 * @param {() => RunRecorder} recorder
 * @returns {() => void} what looks at the slot
 */
export function followSlot(slot, recording, recorder) {
  const follow = () => {
    // An exception in a listener of Node's would end the agent's process.
    try {
      const current = recorder();
      const runId = activeRun(slot, recording);
      if (runId !== null && runId !== current.runId) current.handOver(runId, witnessOf(current.runsDir, runId));
    } catch {
      // the next poll tries again
    }
  };
  fs.watchFile(slot, { interval: POLL_INTERVAL_MS, persistent: false }, follow);
  setTimeout(follow, POLL_INTERVAL_MS).unref(); // Node does not report a change before its first poll
  return follow;
}

/**
 * Returns an object, empty if the file holds something else; null if there is no file.
 * @param {string} file
 * @returns {Facts | null}
 */
export function readSmallFile(file) {
  try {
    const stat = fs.statSync(file); // reading a pipe would block
    const value = stat.isFile() && stat.size <= MAX_FILE_BYTES ? JSON.parse(fs.readFileSync(file, "utf8")) : null;
    return value !== null && typeof value === "object" ? value : {};
  } catch (error) {
    const code = errorCode(error);
    return code === "ENOENT" || code === "ENOTDIR" ? null : {};
  }
}
