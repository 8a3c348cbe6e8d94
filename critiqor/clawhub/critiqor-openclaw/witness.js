// Reports each record to the monitor before it is written. The monitor counts in its own memory, where the agent cannot
// change anything, so that records which are missing, changed or added later can be found. Nothing waits for the monitor,
// and without one the recorder works as before.

import fs from "node:fs";
import net from "node:net";

import { errorCode } from "./journal.js";

/** Characters that may wait for a monitor that does not read; later reports are dropped, which the monitor notices. */
const MAX_WAITING = 4 << 20;

/** Sends reports over the socket of a monitor. Never throws, never waits. */
export class Witness {
  /** @type {net.Socket | null} */
  #socket = null;
  #descriptor = -1;
  #waiting = ""; // until the connection is made

  /**
   * @param {string} address the path of the socket
   * @param {string} writer
   */
  constructor(address, writer) {
    this.#waiting = `hello ${writer}\n`;
    try {
      const socket = (this.#socket = net.connect(address));
      socket.unref(); // it must not keep the agent's process alive
      socket.once("connect", () => this.#connected());
      socket.on("error", () => this.#disconnect());
      socket.on("close", () => this.#disconnect());
      // A Unix socket is connected at once, before the event: a process that ends soon has reported by then. Only a
      // synchronous write is certain to be made before a process that is killed or exits is gone. Node has no public name
      // for the descriptor; without one, writes are queued.
      const handle = /** @type {{ fd?: number } | undefined} */ (Reflect.get(socket, "_handle"));
      this.#descriptor = handle?.fd ?? -1;
      if (this.#descriptor >= 0) this.#sendWaiting();
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

  /** The recorder ends properly. */
  end() {
    this.#send("end\n");
    this.#socket?.end();
    this.#descriptor = -1;
  }

  /** Whether reports can be sent; what they are about need not be computed otherwise. */
  get isPresent() {
    return this.#socket !== null;
  }

  #connected() {
    this.#sendWaiting();
    if (this.#waiting === "" || this.#socket === null) return;
    this.#socket.write(this.#waiting);
    this.#waiting = "";
  }

  /** Sends what waits for the connection, as far as that is possible without waiting. */
  #sendWaiting() {
    if (this.#waiting === "" || this.#descriptor < 0) return;
    this.#waiting = this.#waiting.slice(writeNow(this.#descriptor, this.#waiting));
  }

  /** @param {string} text */
  #send(text) {
    const socket = this.#socket;
    if (socket === null) return;
    try {
      if (this.#waiting !== "" || (socket.connecting && this.#descriptor < 0)) {
        if (this.#waiting.length < MAX_WAITING) this.#waiting += text;
        this.#sendWaiting();
        return;
      }
      let sent = 0;
      if (this.#descriptor >= 0 && socket.writableLength === 0) sent = writeNow(this.#descriptor, text);
      if (sent === text.length) return;
      if (socket.connecting) this.#waiting = text.slice(sent);
      else if (socket.writableLength < MAX_WAITING) socket.write(text.slice(sent));
    } catch {
      this.#disconnect();
    }
  }

  #disconnect() {
    this.#socket = null;
    this.#descriptor = -1;
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
