// Replaces secrets before they reach the disk. The rules are data (redaction.json), shared with critiqor/storage/redaction;
// a user can add rules and exceptions for a run. A secret becomes [redacted:KIND:TAG]; the tag is keyed per run, so that
// equal secrets stay equal within a run and cannot be looked up in a table of known values.

import { createHash, createHmac } from "node:crypto";
import { readFileSync } from "node:fs";

import { KnownSecrets } from "./known_secrets.js";

/**
 * @typedef {{ kind: string, pattern: string }} Rule
 * @typedef {object} Rules
 * @property {Record<string, string>} parts
 * @property {{ gate: string, rules: { kind: string, prefixes: string[], characters: string, minimum: number }[] }} prefixes
 * @property {{ words: string[], gate?: string, rules: Rule[] }[]} groups
 * @property {string} references a pattern of whole values that name a secret which is kept elsewhere
 * @property {{ kind: string, minimum_length: number, names: string[] }} fields
 *
 * @typedef {object} UserRules What a user adds for a run: redaction.json of the run, written by critiqor/storage/redaction.
 * @property {Rule[]} rules
 * @property {string[]} fields names of fields whose value is a secret
 * @property {string[]} allow patterns of whole values that are not secret
 *
 * @typedef {{ kind: string, regex: RegExp }} CompiledRule
 */

const RULES_TEXT = readFileSync(new URL("./redaction.json", import.meta.url), "utf8");
/** @type {Rules} */
const RULES = JSON.parse(RULES_TEXT);

/** The version of the rules. Records redacted with the same rules are not searched again when evidence is sealed. */
export const RULES_DIGEST = digestOf(RULES_TEXT);

/** @param {string} text */
function digestOf(text) {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

/**
 * Returns a pattern with its parts in place of their names.
 * @param {string} pattern
 */
function expand(pattern, word = "") {
  /** @type {Record<string, string>} */
  const parts = { ...RULES.parts, word: literal(word) };
  let expanded = pattern;
  while (expanded.includes("<<")) expanded = expanded.replace(/<<(\w+)>>/g, (_, name) => parts[name] ?? "");
  return expanded;
}

const BODY_START = RULES.parts.body ?? "";

/** @param {string} text */
function literal(text) {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
}

/**
 * Rules that are tried on a text that matches a gate.
 * @typedef {object} Gate
 * @property {RegExp | null} regex null if the word is enough
 * @property {boolean} isCaseSensitive whether it is tried on the text as it is, not in small letters
 * @property {number} position of its rules in the order of all rules
 */

/** @type {CompiledRule[][]} */
const COMPILED = [
  ...RULES.prefixes.rules.map(({ kind, prefixes, characters, minimum }) => {
    // An escaped line break before it ends with a letter.
    const start = `(?:(?<![A-Za-z0-9_-])|(?<=\\\\[nrt]))(?:${prefixes.map(literal).join("|")})`;
    return [{ kind, regex: new RegExp(`${start}${BODY_START}[${characters}]{${minimum},}`, "g") }];
  }),
  ...RULES.groups.map(({ rules }) => rules.map(({ kind, pattern }) => ({ kind, regex: new RegExp(expand(pattern), "g") }))),
];

/** @type {Map<string, Gate[]>} */
const GATES = new Map(); // by word, in small letters
/** @type {{ word: string, regex: RegExp, position: number }[]} */
const SHORT = []; // gates of single characters: they begin with it, and a search for it is fast

/**
 * @param {string} word
 * @param {Gate} gate
 */
function addGate(word, gate) {
  GATES.set(word, [...(GATES.get(word) ?? []), gate]);
}

for (const [position, { prefixes, characters, minimum }] of RULES.prefixes.rules.entries()) {
  for (const prefix of prefixes) {
    const regex = new RegExp(`${literal(prefix)}${BODY_START}[${characters}]{${minimum}}`, "g");
    addGate(prefix.toLowerCase(), { regex, isCaseSensitive: true, position });
  }
}
for (const [index, { words, gate }] of RULES.groups.entries()) {
  const position = RULES.prefixes.rules.length + index;
  /** @param {string} word */
  const regexOf = (word) => (gate === undefined ? null : new RegExp(expand(gate, word), "g"));
  const isCaseSensitive = words.some((word) => word !== word.toLowerCase());
  for (const word of words) {
    if (word.length === 1) SHORT.push({ word, regex: new RegExp(expand(gate ?? "<<word>>", word), "y"), position });
    else addGate(word.toLowerCase(), { regex: regexOf(word), isCaseSensitive, position });
  }
}

const MARK = "[redacted:";
const MAX_MARK = 48;
const FIELDS = new Set(RULES.fields.names);
// eslint-disable-next-line no-control-regex -- JSON escapes control characters
const ESCAPED = /["\\\x00-\x1f]/;
const FIELD_GATE = fieldGate();

// Built from the names, so that it matches every spelling that `isSecretField` accepts. Searching the colon first, then the
// last two letters and only then a whole name was the fastest variant.
function fieldGate() {
  const between = '[^A-Za-z"\\\\]*';
  /** @param {string} name */
  const spelling = (name) => [...name].map((letter) => `[${letter}${letter.toUpperCase()}]`).join(between);
  const { names } = RULES.fields;
  const lastLetters = [...new Set(names.map((name) => name.slice(-2)))].map(spelling).join("|");
  const name = `"${between}(?:${names.map(spelling).join("|")})`;
  return new RegExp(`":["\\[](?<=(?:${lastLetters})${between}":.)(?<=${name}${between}":.)`, "g");
}

/**
 * @param {RegExp} regex
 * @param {string} text
 */
function matches(regex, text, from = 0) {
  regex.lastIndex = from;
  return regex.test(text);
}

// Searching for each word would cost more than all else. One pass over the text finds the words of which the rarest three
// characters occur in it; for most texts there are few.
const FREQUENT = 'etaoinsrlhdcmufpgwyb":,-_./ 0123456789';
const IN_EVERY_RECORD = '"tool_name":"tool_call_id":"status":"error":"duration_ms":"payload":"arguments":"result":"exit_code":';
const MASK = (1 << 15) - 1;
const LIST_AT = new Uint16Array(MASK + 1); // by a hash of three characters: the number of a list, or 0
const IS_LISTED = new Uint8Array(MASK + 1); // whether there is one: a smaller table stays in a faster cache
/** @type {string[][]} */
const LISTS = [[]];
const FOUND_IN = new Float64Array(GATES.size + 1); // the latest search that found each list
let searches = 0;
const CHUNK = Buffer.allocUnsafeSlow(1 << 15);
const BLOCK = 128; // bytes

/** @param {string} text */
function rarity(text) {
  if (IN_EVERY_RECORD.includes(text)) return 0;
  return [...text].reduce((sum, character) => sum + (FREQUENT.indexOf(character) + 1 || 2 * FREQUENT.length), 0);
}

/**
 * Returns the hash of the last three characters, given that of those before; capital letters count as small ones.
 * @param {number} hash
 * @param {number} code
 */
function nextHash(hash, code) {
  return ((hash << 5) ^ (code | 32)) & MASK;
}

for (const word of GATES.keys()) {
  const triples = [...word.slice(2)].map((_, index) => word.slice(index, index + 3));
  const [rarest = ""] = triples.reverse().sort((one, other) => rarity(other) - rarity(one));
  // The search sees one byte of each character.
  const hash = [...rarest].reduce((before, character) => nextHash(before, character.charCodeAt(0) & 255), 0);
  if (LIST_AT[hash] === 0) LIST_AT[hash] = LISTS.push([]) - 1;
  LISTS[LIST_AT[hash] ?? 0]?.push(word);
  IS_LISTED[hash] = 1;
}

/**
 * Adds the words of the lists of a block of `CHUNK`.
 * @param {number} first
 * @param {number} end
 * @param {number} before the hash of the characters before it
 * @param {string[]} found
 */
function addWords(first, end, before, found) {
  for (let index = first, hash = before; index < end; index += 1) {
    hash = nextHash(hash, CHUNK[index] ?? 0);
    const list = LIST_AT[hash] ?? 0;
    if (list === 0 || FOUND_IN[list] === searches) continue;
    FOUND_IN[list] = searches;
    found.push(...(LISTS[list] ?? []));
  }
}

/**
 * Returns the words that may be in a text.
 * @param {string} text
 * @param {number} from
 */
function possibleWords(text, from) {
  searches += 1;
  /** @type {string[]} */
  const found = [];
  const chunk = CHUNK; // in the loop, names of the module would cost a third more
  const isListed = IS_LISTED;
  let hash = 0;
  // A pass over bytes costs half of a pass over the characters of a string.
  for (let start = 0; start < text.length; start += chunk.length) {
    const length = chunk.write(start === 0 ? text : text.slice(start), "latin1");
    for (let index = Math.max(0, from - start); index < length; ) {
      const first = index;
      const before = hash;
      const end = Math.min(index + BLOCK, length);
      // A loop without a branch for each byte takes half of the time; few blocks have anything that is listed.
      let any = 0;
      for (; index < end; index += 1) {
        hash = (hash << 5) ^ ((chunk[index] ?? 0) | 32); // as `nextHash`
        any |= isListed[hash & MASK] ?? 0;
      }
      if (any !== 0) addWords(first, end, before, found);
    }
  }
  return found;
}

/**
 * Whether a text has a character at which a sticky pattern matches.
 * @param {string} character
 * @param {RegExp} regex
 * @param {string} text
 * @param {number} from
 */
function matchesAt(character, regex, text, from) {
  for (let at = text.indexOf(character, from); at >= 0; at = text.indexOf(character, at + 1)) {
    if (matches(regex, text, at)) return true;
  }
  return false;
}

/**
 * Calls `open` with the position of every gate that a text passes, until it returns true; returns whether it did.
 * @param {string} text
 * @param {number} from
 * @param {(position: number) => boolean} open
 */
function passGates(text, from, open) {
  for (const { word, regex, position } of SHORT) {
    if (matchesAt(word, regex, text, from) && open(position)) return true;
  }
  const words = possibleWords(text, from);
  if (words.length === 0) return false;
  const rest = from === 0 ? text : text.slice(from);
  const small = rest.toLowerCase();
  for (const word of words) {
    if (!small.includes(word)) continue;
    for (const { regex, isCaseSensitive, position } of GATES.get(word) ?? []) {
      const passes = regex === null || matches(regex, isCaseSensitive ? rest : small);
      if (passes && open(position)) return true;
    }
  }
  return false;
}

/**
 * Whether a serialized record may hold a secret after `from`; false is certain.
 * @param {string} serialized
 */
export function mayHoldSecret(serialized, from = 0) {
  return matches(FIELD_GATE, serialized, from) || passGates(serialized, from, () => true);
}

/** @param {string} name */
function lettersOf(name) {
  return name.replace(/[^A-Za-z]/g, "").toLowerCase();
}

/**
 * Whether a field name means that its value is a secret, in any case and with any other characters in between.
 * @param {string} name
 */
export function isSecretField(name, fields = FIELDS) {
  return name.length <= 40 && fields.has(lettersOf(name)) && !ESCAPED.test(name);
}

/**
 * Kinds such as `github_token` look like assignments themselves.
 * @param {string} text
 * @param {number} start
 */
function isWithinMark(text, start) {
  const before = text.slice(Math.max(0, start - MAX_MARK), start);
  const mark = before.lastIndexOf(MARK);
  return mark >= 0 && !before.slice(mark).includes("]");
}

const REFERENCE = new RegExp(`^${RULES.references}$`);

/**
 * Whether a value in the place of a secret is harmless: masked by a tool, or the name of where the secret is kept.
 * @param {string} value
 */
function isNoSecret(value) {
  return !/[\p{L}\p{N}]/u.test(value) || REFERENCE.test(value);
}

/** Replaces secrets with the tags of one run, also where a secret that was recognized once recurs without its context. */
export class Redactor {
  #fields = FIELDS;
  /** @type {CompiledRule[]} */
  #rules = [];
  /** @type {RegExp[]} */
  #allowed = [];
  #hasUserRules = false;

  /**
   * @param {Buffer | string} key
   * @param {string | null} userRules the text of the file with the user's rules
   */
  constructor(key, userRules = null) {
    this.key = key;
    this.known = new KnownSecrets();
    /** The version of all rules that are applied. */
    this.digest = RULES_DIGEST;
    if (userRules !== null) this.#add(userRules);
  }

  /**
   * Critiqor has checked the rules. If they cannot be read here, the digest shows that they were not applied.
   * @param {string} text
   */
  #add(text) {
    try {
      /** @type {UserRules} */
      const { rules, fields, allow } = JSON.parse(text);
      const compiled = rules.map(({ kind, pattern }) => ({ kind, regex: new RegExp(pattern, "g") }));
      this.#allowed = allow.map((pattern) => new RegExp(`^(?:${pattern})$`));
      this.#fields = new Set([...RULES.fields.names, ...fields.map(lettersOf)]);
      this.#rules = compiled;
      this.#hasUserRules = rules.length + fields.length > 0;
      this.digest = digestOf(RULES_TEXT + text);
    } catch {
      // the rules of redaction.json are applied
    }
  }

  /** @param {string} name */
  isSecretField(name) {
    return isSecretField(name, this.#fields);
  }

  /**
   * Whether a serialized record may hold a secret after `from`; false is certain. There is no gate for a user's rules.
   * @param {string} serialized
   */
  mayHoldSecret(serialized, from = 0) {
    return this.#hasUserRules || mayHoldSecret(serialized, from) || this.known.areIn(serialized, from);
  }

  /**
   * @param {string} kind
   * @param {string} secret
   */
  tag(kind, secret) {
    if (this.#allowed.some((regex) => regex.test(secret))) return secret;
    const mark = `${MARK}${kind}:${createHmac("sha256", this.key).update(secret).digest("hex").slice(0, 8)}]`;
    this.known.add(secret, mark);
    return mark;
  }

  /** @param {string} value */
  text(value) {
    let result = value;
    /** @type {Set<number>} */
    const positions = new Set();
    passGates(value, 0, (position) => {
      positions.add(position);
      return false;
    });
    for (const position of [...positions].sort((one, other) => one - other)) {
      for (const rule of COMPILED[position] ?? []) result = this.#replace(rule, result);
    }
    for (const rule of this.#rules) result = this.#replace(rule, result);
    return this.known.replaceIn(result, isWithinMark);
  }

  /**
   * @param {CompiledRule} rule
   * @param {string} text
   */
  #replace({ kind, regex }, text) {
    return text.replace(regex, (match, ...rest) => {
      const [offset, whole] = rest.slice(-2);
      const secret = typeof rest[0] === "string" ? rest[0] : match;
      const start = match.lastIndexOf(secret);
      if (secret.startsWith(MARK.slice(0, -1)) || isWithinMark(whole, offset + start) || isNoSecret(secret)) return match;
      return match.slice(0, start) + this.tag(kind, secret) + match.slice(start + secret.length);
    });
  }

  /** @param {string} value */
  field(value) {
    if (value.length < RULES.fields.minimum_length || value.startsWith(MARK) || isNoSecret(value)) return value;
    return this.tag(RULES.fields.kind, value);
  }
}
