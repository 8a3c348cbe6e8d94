// Bounds and redacts records: a long text becomes its size, digest and excerpt; a deep or wide value is cut and marked as
// cut. Nothing here throws, whatever an agent or a tool provides. critiqor/storage/bounds.py has the same limits.

import { createHash } from "node:crypto";

import { isSecretField, mayHoldSecret } from "./redact.js";

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

/** Returns the size, digest and excerpt that stand for a long text. */
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

// Redaction can shorten the start so much that its far end comes into the excerpt. A secret that is cut in half there
// matches no rule, so the last word is left out.
function redactedStart(whole, start, redactor) {
  const safe = redactor.text(start);
  const endIsFar = start.length === whole.length || safe.length > LIMITS.excerpt + LIMITS.margin / 8;
  return endIsFar || safe.endsWith("]") ? safe : safe.replace(/\S+$/, "");
}

/** Returns the first `length` characters of a text, never half of a surrogate pair. */
function startOf(text, length) {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}

/** Returns the digest by which large values can be compared. */
export function digestOf(text) {
  return `sha256:${createHash("sha256").update(text).digest("hex").slice(0, 32)}`;
}

/**
 * Returns a record as one JSON line: bounded, redacted, well-formed. A small record without anything that looks like a
 * secret is serialized as it is.
 */
export function serializeRecord(record, redactor) {
  let line;
  try {
    if (!isLarge(record)) line = JSON.stringify(record);
  } catch {
    line = undefined; // a cycle, a BigInt, a getter that throws: bounded below, value by value
  }
  if (line !== undefined && line.length <= LIMITS.record && isHarmless(line)) return line;
  const { payload, ...envelope } = record;
  for (const name in envelope) {
    if (typeof envelope[name] === "string") envelope[name] = boundName(envelope[name], redactor);
  }
  const state = { redactor, left: LIMITS.record, ancestors: new Set() };
  return JSON.stringify({ ...envelope, payload: bound(payload, state, 0) });
}

// The beginning of the envelope is not searched, because `session_key` looks like a secret. `\ud` in the output is a lone
// surrogate, which strict readers refuse.
function isHarmless(line) {
  const from = Math.max(0, line.indexOf('"tool_name":'));
  return !mayHoldSecret(line, from) && !line.includes("\\ud");
}

// Whether a name is implausibly long or one of the usual places holds a giant text, so that serializing first is wasted.
function isLarge({ tool_name, tool_call_id, error, payload }) {
  if (tool_name?.length > LIMITS.short || tool_call_id?.length > LIMITS.key || error?.length > LIMITS.excerpt) return true;
  const { text, content, result, toJSON } = payload;
  if (toJSON !== undefined || text?.length > LIMITS.record || content?.length > LIMITS.record) return true;
  const parts = result?.content;
  if (!Array.isArray(parts)) return parts?.length > LIMITS.record;
  for (const part of parts) if (part?.text?.length > LIMITS.record || part?.data?.length > LIMITS.record) return true;
  return false;
}

// In the envelope and in field names a text stays a text.
function boundName(text, redactor, length = LIMITS.excerpt) {
  const whole = text.toWellFormed();
  return startOf(redactedStart(whole, startOf(whole, length + LIMITS.margin), redactor), length);
}

function bound(value, state, depth) {
  switch (typeof value) {
    case "string":
      return boundText(value, state);
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
  if (state.ancestors.has(value)) return cutFor("cycle");
  if (depth >= LIMITS.depth) return cutFor("depth");
  state.ancestors.add(value);
  try {
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
    if (ArrayBuffer.isView(value)) return cutFor("binary", value.byteLength);
    if (value instanceof Error) return boundObject({ name: value.name, message: value.message }, state, depth);
    return Array.isArray(value) ? boundList(value, state, depth) : boundObject(value, state, depth);
  } catch {
    return cutFor("unreadable");
  } finally {
    state.ancestors.delete(value);
  }
}

const cutFor = (reason, size) => ({ cut: true, reason, size });

function boundText(text, state) {
  const fits = text.length <= LIMITS.text && text.length <= state.left;
  if (fits || text.length <= LIMITS.short) {
    state.left -= text.length;
    return state.redactor.text(text.toWellFormed());
  }
  const cut = cutText(text, state.redactor);
  if (cut.excerpt.length > state.left) cut.excerpt = startOf(cut.excerpt, LIMITS.short);
  state.left -= cut.excerpt.length + LIMITS.short;
  return cut;
}

// Whether there is no room for one more member; a member costs its name and 8 characters.
function isFull(state, count, name = "") {
  state.left -= name.length + 8;
  return count >= LIMITS.items || state.left < -LIMITS.record;
}

function boundList(list, state, depth, boundItem = bound) {
  const kept = [];
  for (let index = 0; index < list.length; index += 1) {
    if (isFull(state, index)) {
      kept.push(cutFor("items", list.length));
      break;
    }
    kept.push(boundItem(list[index], state, depth + 1) ?? null);
  }
  return kept;
}

function boundObject(object, state, depth) {
  const kept = Object.create(null); // a field can be called __proto__
  const keys = Object.keys(object);
  for (const [index, key] of keys.entries()) {
    const name = boundName(key, state.redactor, LIMITS.key);
    if (isFull(state, index, name)) {
      kept["…"] = cutFor("items", keys.length);
      break;
    }
    kept[name] = boundField(object, key, state, depth + 1);
  }
  return kept;
}

function boundField(object, key, state, depth) {
  let value;
  try {
    value = object[key];
  } catch {
    return cutFor("unreadable");
  }
  return isSecretField(key) ? boundSecret(value, state, depth) : bound(value, state, depth);
}

// A header such as set-cookie has a list of values, each of them secret.
function boundSecret(value, state, depth) {
  if (typeof value === "string") return state.redactor.field(value.toWellFormed());
  const isList = Array.isArray(value) && depth < LIMITS.depth;
  return isList ? boundList(value, state, depth, boundSecret) : bound(value, state, depth);
}
