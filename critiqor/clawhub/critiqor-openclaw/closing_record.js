// The closing record of a recorder: how many records it produced and how many of them it could not write. Its space is
// reserved when the recorder starts, so that it can be written on a full disk too. If it is missing, the recorder did not
// end properly, and records at the end may be missing.

import fs from "node:fs";

/** Bytes of the file; critiqor/storage/audit/closing_records.py writes as many. */
const SIZE = 512;

/** The file of one recorder, open from its first record to its end. */
export class ClosingRecord {
  #descriptor = -1;

  /**
   * Creates the file without counts.
   * @param {string} file
   * @param {string} writer
   */
  reserve(file, writer) {
    if (this.#descriptor >= 0) return;
    try {
      this.#descriptor = fs.openSync(file, "w", 0o600);
      this.#write({ writer, pid: process.pid });
    } catch {
      // a disk that is full from the start: the journal has the same problem, and a later attempt may succeed
      this.release();
    }
  }

  /** @param {{ writer: string, produced: number, lost: number }} counts */
  write({ writer, produced, lost }) {
    if (this.#descriptor < 0) return;
    try {
      this.#write({ writer, pid: process.pid, produced, lost });
    } catch {
      // its absence shows that the recorder did not end properly
    }
    this.release();
  }

  /** @param {object} content */
  #write(content) {
    const bytes = Buffer.from(`${JSON.stringify(content).padEnd(SIZE - 1)}\n`);
    fs.writeSync(this.#descriptor, bytes, 0, bytes.length, 0);
  }

  /** Closes the file as it is. */
  release() {
    try {
      if (this.#descriptor >= 0) fs.closeSync(this.#descriptor);
    } catch {
      // the descriptor is unusable either way
    }
    this.#descriptor = -1;
  }
}
