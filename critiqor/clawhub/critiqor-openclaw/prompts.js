// Records what the model was sent, if the user has asked for it: each distinct text once, and requests name the texts by their
// digests. A text is redacted as a whole and split into records, because a record holds only short texts.

import { digestOf, startOf, withoutLastWord } from "./payload.js";

/**
 * @import { Facts } from "./events.js"
 * @import { AgentRunRecords } from "./record_writer.js"
 */

/** @typedef {(text: string) => string | null} Redact Null if nothing can be written now. */

const EXTENSION = "extension_api";
const MAX_PART = 8000; // characters of one record
const MAX_TEXT = 1 << 19; // characters of one text
const MAX_TOTAL = 1 << 23; // characters of all texts of this process
const MAX_TEXTS = 10_000;
const MAX_MESSAGES = 150; // messages of one request that are named: the last ones

/** The texts of prompts that were recorded in this process. */
export class Prompts {
  #redact;
  #left = MAX_TOTAL;
  /** @type {Map<string, string>} */
  #digests = new Map(); // of recorded texts, by the digest of the text before it was redacted

  /** @param {Redact} redact */
  constructor(redact) {
    this.#redact = redact;
  }

  /** Forgets what was recorded: the next segment has to be complete by itself. */
  restart() {
    this.#left = MAX_TOTAL;
    this.#digests.clear();
  }

  /**
   * Records the texts of a prompt that were not recorded before. Returns how the request refers to them.
   * @param {OpenClaw.LlmInput} event
   * @param {AgentRunRecords} records
   * @returns {Facts}
   */
  capture(event, records) {
    const history = Array.isArray(event.historyMessages) ? event.historyMessages.slice(-MAX_MESSAGES) : [];
    const keep = (/** @type {string} */ role, /** @type {unknown} */ value) => this.#keep(role, value, records);
    return {
      prompt: {
        system: keep("system", event.systemPrompt),
        tools: keep("tools", event.tools),
        messages: [...history.map((message) => keep("message", message)), keep("user", event.prompt)],
      },
    };
  }

  /**
   * Returns the digest of a text, null if it is not recorded: there is none, or there are too many.
   * @param {string} role
   * @param {unknown} value
   * @param {AgentRunRecords} records
   */
  #keep(role, value, records) {
    const text = textOf(value);
    if (text === "") return null;
    const key = digestOf(text);
    const known = this.#digests.get(key);
    if (known !== undefined) return known;
    if (this.#left <= 0 || this.#digests.size >= MAX_TEXTS) return null;
    const isCut = text.length > MAX_TEXT;
    const safe = this.#redact(startOf(text, MAX_TEXT));
    if (safe === null) return null;
    // A secret that is cut in half matches no rule.
    const redacted = isCut ? withoutLastWord(safe) : safe;
    if (redacted === "") return null;
    this.#left -= redacted.length;
    // The digest of a short text before it was redacted would let somebody find a secret in it by guessing.
    const digest = digestOf(redacted);
    this.#digests.set(key, digest);
    const parts = partsOf(redacted);
    const facts = { digest, role, size: Buffer.byteLength(redacted), parts: parts.length, cut: isCut };
    for (const [index, part] of parts.entries()) {
      records.write("prompt_text", EXTENSION, {}, { ...facts, part: index + 1, text: part });
    }
    return digest;
  }
}

/** @param {unknown} value */
function textOf(value) {
  if (typeof value === "string") return value;
  if (value === undefined || value === null) return "";
  // Images are long and say nothing in a text.
  const isImage = (/** @type {string} */ name, /** @type {unknown} */ item) => name === "data" && typeof item === "string";
  try {
    return JSON.stringify(value, (name, item) => (isImage(name, item) ? `[${item.length} characters]` : item)) ?? "";
  } catch {
    return ""; // a cycle, or a getter that throws
  }
}

/**
 * Splits a text at line breaks where it can, and never within a surrogate pair.
 * @param {string} text
 */
function partsOf(text) {
  const parts = [];
  for (let rest = text; rest !== ""; ) {
    const piece = startOf(rest, MAX_PART);
    const lineEnd = piece.length < rest.length ? piece.lastIndexOf("\n") + 1 : piece.length;
    const part = lineEnd > MAX_PART / 2 ? piece.slice(0, lineEnd) : piece;
    parts.push(part);
    rest = rest.slice(part.length);
  }
  return parts;
}
