// Replaces secrets before they reach the disk. The rules are data (redaction.json), shared with
// critiqor/storage/redaction.py. A secret becomes [redacted:KIND:TAG]; the tag is keyed per run, so that equal secrets
// stay equal within a run and cannot be looked up in a table of known values.

import { createHash, createHmac } from "node:crypto";
import { readFileSync } from "node:fs";

const RULES_TEXT = readFileSync(new URL("./redaction.json", import.meta.url));
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

const GATES = [...RULES.gates.map((gate) => new RegExp(gate, "g")), fieldGate()];

// Built from the names, so that it matches every spelling that `isSecretField` accepts. Searching the colon first, then a
// last letter and only then a whole name was the fastest variant.
function fieldGate() {
  const between = '[^A-Za-z"\\\\]*';
  const spelling = (name) => [...name].map((letter) => `[${letter}${letter.toUpperCase()}]`).join(between);
  const { names } = RULES.fields;
  const last = new Set(names.map((name) => name.at(-1)));
  const lastLetter = `[${[...last].map((letter) => letter + letter.toUpperCase()).join("")}]`;
  const name = `"${between}(?:${names.map(spelling).join("|")})`;
  return new RegExp(`":["\\[](?<=${lastLetter}${between}":.)(?<=${name}${between}":.)`, "g");
}

/** Whether a serialized record may hold a secret after `from`; false is certain. */
export function mayHoldSecret(serialized, from = 0) {
  for (let index = 0; index < GATES.length; index += 1) {
    const gate = GATES[index];
    gate.lastIndex = from;
    if (gate.test(serialized)) return true;
  }
  return false;
}

/** Whether a field name means that its value is a secret, in any case and with any other characters in between. */
export function isSecretField(name) {
  return name.length <= 40 && FIELDS.has(name.replace(/[^A-Za-z]/g, "").toLowerCase()) && !/["\\\x00-\x1f]/.test(name);
}

// Kinds such as `github_token` look like assignments themselves.
function isWithinMark(text, start) {
  const before = text.slice(Math.max(0, start - MAX_MARK), start);
  const mark = before.lastIndexOf("[redacted:");
  return mark >= 0 && !before.slice(mark).includes("]");
}

/** Replaces secrets with the tags of one run. */
export class Redactor {
  constructor(key) {
    this.key = key;
  }

  tag(kind, secret) {
    return `[redacted:${kind}:${createHmac("sha256", this.key).update(secret).digest("hex").slice(0, 8)}]`;
  }

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

  field(value) {
    if (value.length < RULES.fields.minimum_length || value.startsWith("[redacted:")) return value;
    return this.tag(RULES.fields.kind, value);
  }
}
