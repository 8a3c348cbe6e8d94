// Replaces secrets before they reach the disk. The rules are data (redaction.json), shared with
// critiqor/storage/redaction.py. A secret becomes [redacted:KIND:TAG]; the tag is keyed per run, so that equal secrets
// stay equal within a run and cannot be looked up in a table of known values.

import { createHash, createHmac } from "node:crypto";
import { readFileSync } from "node:fs";

/**
 * @typedef {object} Rules
 * @property {string[]} gates
 * @property {{ kind: string, hints: string[], pattern: string }[]} patterns
 * @property {{ kind: string, minimum_length: number, names: string[] }} fields
 */

const RULES_TEXT = readFileSync(new URL("./redaction.json", import.meta.url), "utf8");
/** @type {Rules} */
const RULES = JSON.parse(RULES_TEXT);

/** The version of the rules. Records redacted with the same rules are not searched again when evidence is sealed. */
export const RULES_DIGEST = createHash("sha256").update(RULES_TEXT).digest("hex").slice(0, 16);

const PATTERNS = RULES.patterns.map((rule) => ({
  kind: rule.kind,
  hints: rule.hints,
  regex: new RegExp(rule.pattern, "g"),
}));
const MAX_MARK = 48;
const FIELDS = new Set(RULES.fields.names);
// eslint-disable-next-line no-control-regex -- JSON escapes control characters
const ESCAPED = /["\\\x00-\x1f]/;

const GATES = [...RULES.gates.map((gate) => new RegExp(gate, "g")), fieldGate()];

// Built from the names, so that it matches every spelling that `isSecretField` accepts. Searching the colon first, then a
// last letter and only then a whole name was the fastest variant.
function fieldGate() {
  const between = '[^A-Za-z"\\\\]*';
  /** @param {string} name */
  const spelling = (name) => [...name].map((letter) => `[${letter}${letter.toUpperCase()}]`).join(between);
  const { names } = RULES.fields;
  const last = new Set(names.map((name) => name.slice(-1)));
  const lastLetter = `[${[...last].map((letter) => letter + letter.toUpperCase()).join("")}]`;
  const name = `"${between}(?:${names.map(spelling).join("|")})`;
  return new RegExp(`":["\\[](?<=${lastLetter}${between}":.)(?<=${name}${between}":.)`, "g");
}

/**
 * Whether a serialized record may hold a secret after `from`; false is certain.
 * @param {string} serialized
 */
export function mayHoldSecret(serialized, from = 0) {
  for (const gate of GATES) {
    gate.lastIndex = from;
    if (gate.test(serialized)) return true;
  }
  return false;
}

/**
 * Whether a field name means that its value is a secret, in any case and with any other characters in between.
 * @param {string} name
 */
export function isSecretField(name) {
  return name.length <= 40 && FIELDS.has(name.replace(/[^A-Za-z]/g, "").toLowerCase()) && !ESCAPED.test(name);
}

/**
 * Kinds such as `github_token` look like assignments themselves.
 * @param {string} text
 * @param {number} start
 */
function isWithinMark(text, start) {
  const before = text.slice(Math.max(0, start - MAX_MARK), start);
  const mark = before.lastIndexOf("[redacted:");
  return mark >= 0 && !before.slice(mark).includes("]");
}

/** Replaces secrets with the tags of one run. */
export class Redactor {
  /** @param {Buffer | string} key */
  constructor(key) {
    this.key = key;
  }

  /**
   * @param {string} kind
   * @param {string} secret
   */
  tag(kind, secret) {
    return `[redacted:${kind}:${createHmac("sha256", this.key).update(secret).digest("hex").slice(0, 8)}]`;
  }

  /** @param {string} value */
  text(value) {
    let result = value;
    for (const { kind, hints, regex } of PATTERNS) {
      if (!hints.some((hint) => result.includes(hint))) continue;
      result = result.replace(regex, (match, group, offset, whole) => {
        if (typeof group !== "string") return this.tag(kind, match);
        if (group.startsWith("[redacted:") || isWithinMark(whole, offset)) return match;
        const start = match.lastIndexOf(group);
        return match.slice(0, start) + this.tag(kind, group) + match.slice(start + group.length);
      });
    }
    return result;
  }

  /** @param {string} value */
  field(value) {
    if (value.length < RULES.fields.minimum_length || value.startsWith("[redacted:")) return value;
    return this.tag(RULES.fields.kind, value);
  }
}
