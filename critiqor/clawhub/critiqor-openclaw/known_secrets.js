// Remembers the secrets that were recognized in a run, so that each is also replaced where nothing shows that it is one:
// as it is, escaped in JSON, encoded for a URL, or in base64. critiqor/storage/redaction does the same.

const MIN_LENGTH = 8;
const MAX_LENGTH = 4096;
const MAX_SECRETS = 100;
// A word with a number behind it, such as `password1`, would be replaced in texts that have nothing to do with it.
const ORDINARY = /^[A-Za-z]*[-_. ]?[0-9]{0,4}$/;

/**
 * Whether a secret is so distinctive that the same characters elsewhere are the same secret.
 * @param {string} secret
 */
export function isDistinctive(secret) {
  if (secret.length < MIN_LENGTH || secret.length > MAX_LENGTH || ORDINARY.test(secret)) return false;
  return /[0-9]/.test(secret) && /[A-Za-z]/.test(secret);
}

/** @param {string} text */
const escaped = (text) => JSON.stringify(text).slice(1, -1);

/** @param {string} secret */
function formsOf(secret) {
  const base64 = Buffer.from(secret).toString("base64").replace(/=+$/, "");
  return [...new Set([secret, escaped(secret), encodeURIComponent(secret), base64])];
}

/** The distinctive secrets of one run; the oldest are forgotten first. */
export class KnownSecrets {
  /** @type {Map<string, { mark: string, forms: string[], serialized: string[] }>} */
  #secrets = new Map();

  /**
   * @param {string} secret
   * @param {string} mark what replaces it
   */
  add(secret, mark) {
    if (this.#secrets.has(secret) || !isDistinctive(secret) || secret.includes("[redacted:") || !secret.isWellFormed()) return;
    const forms = formsOf(secret);
    this.#secrets.set(secret, { mark, forms, serialized: forms.map(escaped) });
    if (this.#secrets.size <= MAX_SECRETS) return;
    const [oldest = ""] = this.#secrets.keys();
    this.#secrets.delete(oldest);
  }

  /**
   * Whether a serialized record holds one of them after `from`.
   * @param {string} record
   */
  areIn(record, from = 0) {
    for (const { serialized } of this.#secrets.values()) {
      for (const form of serialized) if (record.includes(form, from)) return true;
    }
    return false;
  }

  /**
   * @param {string} text
   * @param {(text: string, position: number) => boolean} isExempt
   */
  replaceIn(text, isExempt) {
    let result = text;
    for (const { mark, forms } of this.#secrets.values()) {
      for (const form of forms) {
        if (result.includes(form)) {
          result = result.replaceAll(form, (match, offset, whole) => (isExempt(whole, offset) ? match : mark));
        }
      }
    }
    return result;
  }
}
