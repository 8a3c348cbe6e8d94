// Reports each record to the monitor before it is written. The monitor counts in its own memory, where the agent cannot
// change anything, so that records which are missing, changed or added later can be found. Nothing waits for the monitor
// except the end of the process, for a moment, and without a monitor the recorder works as before.

import fs from "node:fs";
import net from "node:net";

import { errorCode } from "./journal.js";

/** Characters that may wait for a monitor that does not read; later reports are dropped, which the monitor notices. */
const MAX_WAITING = 4 << 20;
const MAX_SENT = 1 << 16; // characters at once
const PAUSE_MS = 2; // between two attempts to send what waits
const TRIES_AT_EXIT = 50;

/** Sends reports over the socket of a monitor. Never throws, and waits only at the end. */
export class Witness {
  /** @type {net.Socket | null} */
  #socket = null;
  #waiting = ""; // until the connection is made, and while the monitor is slower than this recorder
  /** @type {NodeJS.Timeout | null} */
  #retry = null;
  #retryAt = 0; // a long computation lets no timer fire

  /**
   * @param {string} address the path of the socket
   * @param {string} writer
   */
  constructor(address, writer) {
    this.#waiting = `hello ${writer}\n`;
    try {
      const socket = (this.#socket = net.connect(address));
      socket.unref(); // it must not keep the agent's process alive
      socket.once("connect", () => this.#flush());
      socket.on("error", () => this.#disconnect());
      socket.on("end", () => this.#disconnect());
      socket.on("close", () => this.#disconnect());
      // A Unix socket is connected at once, before the event: a process that ends soon has reported by then. Only a
      // synchronous write is certain to be made before a process that is killed or exits is gone.
      this.#flush();
    } catch {
      this.#disconnect();
    }
  }

  /**
   * A record is about to be written.
   * @param {number} sequence
   * @param {string} digest
   */
  record(sequence, digest) {
    this.#send(`${sequence} ${digest}\n`);
  }

  /**
   * A record was not written.
   * @param {number} sequence
   */
  lost(sequence) {
    this.#send(`lost ${sequence}\n`);
  }

  /** The recorder found that the run is sealed, and writes nothing any more. */
  sealed() {
    this.#send("sealed\n");
  }

  /** The recorder ends properly. Waits a moment if the monitor is too busy to read, so that its counts are complete. */
  end() {
    this.#send("end\n");
    for (let attempt = 0; attempt < TRIES_AT_EXIT && this.#descriptor >= 0 && this.#waiting !== ""; attempt += 1) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS);
      this.#flush();
    }
    this.#socket?.end();
    this.#socket = null;
  }

  /** Reports nothing any more, although the recorder goes on. */
  leave() {
    this.#socket?.destroy();
    this.#disconnect();
  }

  /** The descriptor of the socket. Node has no public name for it; without one, writes are queued. */
  get #descriptor() {
    // Not kept: once the socket is closed, the number can be that of one of the agent's own files.
    const handle = /** @type {{ fd?: number } | null | undefined} */ (Reflect.get(this.#socket ?? {}, "_handle"));
    return handle?.fd ?? -1;
  }

  /** Whether reports can be sent; what they are about need not be computed otherwise. */
  get isPresent() {
    return this.#socket !== null;
  }

  /** @param {string} text */
  #send(text) {
    if (this.#socket === null) return;
    if (this.#waiting === "") this.#waiting = text;
    else if (this.#waiting.length < MAX_WAITING) this.#waiting += text;
    // An attempt that fails costs several times as much as a record.
    if (this.#retry === null || performance.now() >= this.#retryAt) this.#flush();
  }

  /** Sends what waits, as far as that is possible without waiting. */
  #flush() {
    try {
      const descriptor = this.#descriptor;
      if (descriptor >= 0) this.#write(descriptor);
      else if (this.#socket?.connecting === false) {
        this.#socket.write(this.#waiting);
        this.#waiting = "";
      }
    } catch {
      this.#disconnect();
    }
    if (this.#waiting === "") return;
    this.#retryAt = performance.now() + PAUSE_MS;
    this.#retry ??= setTimeout(() => {
      this.#retry = null;
      if (this.#waiting !== "") this.#flush();
    }, PAUSE_MS).unref();
  }

  /** @param {number} descriptor */
  #write(descriptor) {
    const text = this.#waiting;
    // Only a part of what waits, so that a monitor that does not read costs the agent little.
    const sent = writeNow(descriptor, text.length > MAX_SENT ? text.slice(0, MAX_SENT) : text);
    this.#waiting = sent === text.length ? "" : text.slice(sent);
  }

  #disconnect() {
    this.#socket = null;
    this.#waiting = "";
  }
}

/**
 * Returns how many characters could be written without waiting. Reports are ASCII, so that they are as many bytes.
 * @param {number} descriptor
 * @param {string} text
 */
function writeNow(descriptor, text) {
  try {
    return fs.writeSync(descriptor, text);
  } catch (error) {
    if (errorCode(error) === "EAGAIN") return 0;
    throw error;
  }
}
