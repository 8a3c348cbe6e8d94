// What goes into a record is bounded: a long text becomes its size, its digest and an excerpt; a deep or wide value is
// cut, and says so. Nothing here throws, whatever an agent or a tool hands over.

import { createHash } from "node:crypto";

import { isSecretField, mayHoldSecret } from "./redact.js";

export const LIMITS = Object.freeze({
  text: 8192, // characters of one text kept whole
  excerpt: 2048, // characters of a longer one that are kept
  margin: 4096, // looked at beyond an excerpt, so that a secret across its edge is still seen whole
  record: 32768, // characters of one record beyond which longer texts are cut, and twice as many beyond which all is
  short: 64, // characters of a text that is kept even then
  items: 200, // members of one list or object
  key: 256, // characters of the name of a field
  depth: 12, // levels of nesting
});

/** Size, digest and excerpt of a long text, for a record. */
export function cutText(text, redactor) {
  const whole = text.toWellFormed();
  const seen = startOf(whole, LIMITS.excerpt + LIMITS.margin);
  const safe = redactedStart(whole, seen, redactor);
  return {
    cut: true,
    size: Buffer.byteLength(whole),
    // The digest of a short text that holds a secret would give the secret to whoever can guess the rest.
    digest: digestOf(seen.length < whole.length ? whole : safe),
    excerpt: startOf(safe, LIMITS.excerpt),
  };
}

// Redaction can shorten what was seen so much that its far end comes into the excerpt, and there a secret can be cut in
// half, which no rule recognises: that last word is left out.
function redactedStart(whole, seen, redactor) {
  const safe = redactor.text(seen);
  const endIsFar = seen.length === whole.length || safe.length > LIMITS.excerpt + LIMITS.margin / 8;
  return endIsFar || safe.endsWith("]") ? safe : safe.replace(/\S+$/, "");
}

/** The first `length` characters of a text, never half of a surrogate pair. */
function startOf(text, length) {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}

/** The digest by which two large values can be told apart or found equal. */
export function digestOf(text) {
  return `sha256:${createHash("sha256").update(text).digest("hex").slice(0, 32)}`;
}

/** One JSON line for a record: redacted, bounded, well-formed. Small and harmless records take the short way. */
export function serialise(record, redactor) {
  let line;
  try {
    if (!isLarge(record)) line = JSON.stringify(record);
  } catch {
    line = undefined; // a cycle, a BigInt, a hostile getter: bounded below, value by value
  }
  if (line !== undefined && line.length <= LIMITS.record && isHarmless(line)) return line;
  const { payload, ...envelope } = record;
  for (const name in envelope) {
    if (typeof envelope[name] === "string") envelope[name] = boundName(envelope[name], redactor);
  }
  const state = { redactor, left: LIMITS.record, ancestors: new Set() };
  return JSON.stringify({ ...envelope, payload: bound(payload, state, 0) });
}

// The first part of the envelope is OpenClaw's and ours, and is not looked at: `session_key` sounds like a secret. `\ud` in
// the output is a lone surrogate, which strict readers refuse.
function isHarmless(line) {
  const from = Math.max(0, line.indexOf('"tool_name":'));
  return !mayHoldSecret(line, from) && !line.includes("\\ud");
}

// What no tool is called in earnest, what is too long for a word on an error, and the few places where a giant text can
// stand, so that it is not serialised once for nothing.
function isLarge({ tool_name, tool_call_id, error, payload }) {
  if (tool_name?.length > LIMITS.short || tool_call_id?.length > LIMITS.key || error?.length > LIMITS.excerpt) return true;
  const { text, content, result, toJSON } = payload;
  if (toJSON !== undefined || text?.length > LIMITS.record || content?.length > LIMITS.record) return true;
  const parts = result?.content;
  if (!Array.isArray(parts)) return parts?.length > LIMITS.record;
  for (const part of parts) if (part?.text?.length > LIMITS.record || part?.data?.length > LIMITS.record) return true;
  return false;
}

// In the envelope and in the names of fields a text stays a text.
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

// Whether there is no room for one more member; each costs its name and a little.
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
