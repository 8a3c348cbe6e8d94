// Bounds and redacts records: a long text becomes its size, digest and excerpt; a deep or wide value is cut and marked as
// cut. Nothing here throws, whatever an agent or a tool provides. critiqor/storage/bounds.py has the same limits.

import { createHash } from "node:crypto";

/**
 * @import { EventRecord, Facts } from "./events.js"
 * @import { Redactor } from "./redact.js"
 */

/**
 * @typedef {object} Bounds What is left to one record while its values are bounded.
 * @property {Redactor} redactor
 * @property {number} left characters
 * @property {Set<object>} ancestors of the current value
 */

/** @typedef {(value: unknown, bounds: Bounds, depth: number) => unknown} BoundValue */

export const LIMITS = Object.freeze({
  text: 8192, // characters of a text that is kept whole
  excerpt: 2048, // characters kept of a longer text
  margin: 4096, // characters looked at beyond an excerpt, so that a secret across its edge is still recognized
  record: 32768, // characters of one record; beyond it texts are cut, beyond twice as many everything is
  short: 64, // characters of a text that is kept in any case
  items: 200, // members of one list or object
  key: 256, // characters of a field name
  depth: 12, // levels of nesting
});
const MIN_ENVELOPE = 150; // characters of a line before the name of the tool, at least
const MAX_WORD = 16384; // characters left out at most where a text was cut within a word

/**
 * Returns the size, digest and excerpt that stand for a long text.
 * @param {string} text
 * @param {Redactor} redactor
 */
export function cutText(text, redactor) {
  const whole = text.toWellFormed();
  const start = startOf(whole, LIMITS.excerpt + LIMITS.margin);
  const safe = redactedStart(whole, start, redactor);
  return {
    cut: true,
    size: Buffer.byteLength(whole),
    // The digest of a short text with a secret would let somebody who guesses the rest find the secret.
    digest: digestOf(start.length < whole.length ? whole : safe),
    excerpt: startOf(safe, LIMITS.excerpt),
  };
}

/**
 * Redaction can shorten the start so much that its far end comes into the excerpt. A secret that is cut in half there
 * matches no rule, so the last word is left out.
 * @param {string} whole
 * @param {string} start
 * @param {Redactor} redactor
 */
function redactedStart(whole, start, redactor) {
  const safe = redactor.text(start);
  const endIsFar = start.length === whole.length || safe.length > LIMITS.excerpt + LIMITS.margin / 8;
  return endIsFar ? safe : withoutLastWord(safe);
}

/**
 * Returns a redacted text that was cut, without its last word unless that is a secret that was recognized.
 * @param {string} safe
 */
export function withoutLastWord(safe) {
  if (safe.endsWith("]")) return safe;
  const start = startOf(safe, Math.max(0, safe.length - MAX_WORD));
  // Without the condition before the word, a long one that is not the last would be tried from each of its characters.
  return start + safe.slice(start.length).replace(/(?<!\S)\S+$/, "");
}

/**
 * Returns the first `length` characters of a text, never half of a surrogate pair.
 * @param {string} text
 * @param {number} length
 */
export function startOf(text, length) {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}

/**
 * Returns the digest by which large values can be compared.
 * @param {string} text
 */
export function digestOf(text) {
  return `sha256:${createHash("sha256").update(text).digest("hex").slice(0, 32)}`;
}

/**
 * Returns a record as one JSON line: bounded, redacted, well-formed. A small record without anything that looks like a
 * secret is serialized as it is.
 * @param {EventRecord} record
 * @param {Redactor} redactor
 */
export function serializeRecord(record, redactor) {
  let line;
  try {
    if (!isLarge(record)) line = JSON.stringify(record);
  } catch {
    line = undefined; // a cycle, a BigInt, a getter that throws: bounded below, value by value
  }
  if (line !== undefined && line.length <= LIMITS.record && isHarmless(line, redactor)) return line;
  const safe = boundRecord(record, redactor);
  // A value can precede the name that shows that it is a secret.
  return redactor.known.areIn(safe) ? boundRecord(record, redactor) : safe;
}

/**
 * @param {EventRecord} record
 * @param {Redactor} redactor
 */
function boundRecord({ payload, ...envelope }, redactor) {
  const bounded = Object.entries(envelope).map(([name, value]) => [name, boundMember(value, redactor)]);
  const bounds = { redactor, left: LIMITS.record, ancestors: new Set() };
  return JSON.stringify({ ...Object.fromEntries(bounded), payload: bound(payload, bounds, 0) });
}

/**
 * The beginning of the envelope is not searched, because `session_key` looks like a secret. `\ud` in the output is a lone
 * surrogate, which strict readers refuse.
 * @param {string} line
 * @param {Redactor} redactor
 */
function isHarmless(line, redactor) {
  const place = line.indexOf('"tool_name":', MIN_ENVELOPE);
  const from = place >= 0 ? place : Math.max(0, line.indexOf('"tool_name":'));
  return !redactor.mayHoldSecret(line, from) && !line.includes("\\ud");
}

/**
 * Whether a name is implausibly long or one of the usual places holds a giant text, so that serializing first is wasted.
 * @param {EventRecord} record
 */
function isLarge({ tool_name, tool_call_id, error, payload }) {
  if (isLonger(tool_name, LIMITS.short) || isLonger(tool_call_id, LIMITS.key)) return true;
  if (isLonger(error, LIMITS.excerpt)) return true;
  const { text, content, result, toJSON } = payload;
  if (toJSON !== undefined || isLonger(text, LIMITS.record) || isLonger(content, LIMITS.record)) return true;
  const parts = typeof result === "object" && result !== null && "content" in result ? result.content : undefined;
  if (!Array.isArray(parts)) return isLonger(parts, LIMITS.record);
  for (const part of parts) if (isLonger(part?.text, LIMITS.record) || isLonger(part?.data, LIMITS.record)) return true;
  return false;
}

/**
 * @param {unknown} value
 * @param {number} length
 */
function isLonger(value, length) {
  return typeof value === "string" && value.length > length;
}

/**
 * @param {unknown} value
 * @param {Redactor} redactor
 */
function boundMember(value, redactor) {
  return typeof value === "string" ? boundName(value, redactor) : value;
}

/**
 * In the envelope and in field names a text stays a text.
 * @param {string} text
 * @param {Redactor} redactor
 * @param {number} length
 */
function boundName(text, redactor, length = LIMITS.excerpt) {
  const whole = text.toWellFormed();
  return startOf(redactedStart(whole, startOf(whole, length + LIMITS.margin), redactor), length);
}

/** @type {BoundValue} */
function bound(value, bounds, depth) {
  switch (typeof value) {
    case "string":
      return boundText(value, bounds);
    case "number":
      return Number.isFinite(value) ? value : null;
    case "boolean":
      return value;
    case "bigint":
      return BigInt.asIntN(64, value) === value ? String(value) : cutFor("size");
    case "object":
      break;
    default:
      return undefined;
  }
  if (value === null) return null;
  if (bounds.ancestors.has(value)) return cutFor("cycle");
  if (depth >= LIMITS.depth) return cutFor("depth");
  bounds.ancestors.add(value);
  try {
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
    if (ArrayBuffer.isView(value)) return cutFor("binary", value.byteLength);
    if (value instanceof Error) return boundObject({ name: value.name, message: value.message }, bounds, depth);
    if (Array.isArray(value)) return boundList(value, bounds, depth);
    return boundObject(/** @type {Facts} */ (value), bounds, depth);
  } catch {
    return cutFor("unreadable");
  } finally {
    bounds.ancestors.delete(value);
  }
}

/**
 * @param {string} reason
 * @param {number} [size]
 */
const cutFor = (reason, size) => ({ cut: true, reason, size });

/**
 * @param {string} text
 * @param {Bounds} bounds
 */
function boundText(text, bounds) {
  const fits = text.length <= LIMITS.text && text.length <= bounds.left;
  if (fits || text.length <= LIMITS.short) {
    bounds.left -= text.length;
    return bounds.redactor.text(text.toWellFormed());
  }
  const cut = cutText(text, bounds.redactor);
  if (cut.excerpt.length > bounds.left) cut.excerpt = startOf(cut.excerpt, LIMITS.short);
  bounds.left -= cut.excerpt.length + LIMITS.short;
  return cut;
}

/**
 * Whether there is no room for one more member; a member costs its name and 8 characters.
 * @param {Bounds} bounds
 * @param {number} count
 */
function isFull(bounds, count, name = "") {
  bounds.left -= name.length + 8;
  return count >= LIMITS.items || bounds.left < -LIMITS.record;
}

/**
 * @param {unknown[]} list
 * @param {Bounds} bounds
 * @param {number} depth
 */
function boundList(list, bounds, depth, boundItem = bound) {
  const kept = [];
  for (let index = 0; index < list.length; index += 1) {
    if (isFull(bounds, index)) {
      kept.push(cutFor("items", list.length));
      break;
    }
    kept.push(boundItem(list[index], bounds, depth + 1) ?? null);
  }
  return kept;
}

/**
 * @param {Facts} object
 * @param {Bounds} bounds
 * @param {number} depth
 */
function boundObject(object, bounds, depth) {
  const kept = Object.create(null); // a field can be called __proto__
  const keys = Object.keys(object);
  for (const [index, key] of keys.entries()) {
    const name = boundName(key, bounds.redactor, LIMITS.key);
    if (isFull(bounds, index, name)) {
      kept["…"] = cutFor("items", keys.length);
      break;
    }
    kept[name] = boundField(object, key, bounds, depth + 1);
  }
  return kept;
}

/**
 * @param {Facts} object
 * @param {string} key
 * @param {Bounds} bounds
 * @param {number} depth
 */
function boundField(object, key, bounds, depth) {
  let value;
  try {
    value = object[key];
  } catch {
    return cutFor("unreadable");
  }
  return bounds.redactor.isSecretField(key) ? boundSecret(value, bounds, depth) : bound(value, bounds, depth);
}

/**
 * A header such as set-cookie has a list of values, each of them secret.
 * @type {BoundValue}
 */
function boundSecret(value, bounds, depth) {
  if (typeof value === "string") return bounds.redactor.field(value.toWellFormed());
  const isList = Array.isArray(value) && depth < LIMITS.depth;
  return isList ? boundList(value, bounds, depth, boundSecret) : bound(value, bounds, depth);
}
