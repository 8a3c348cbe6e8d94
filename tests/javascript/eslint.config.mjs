// Rules for JavaScript: the recommended ones, and those that keep the recorder plugin what it is.

import { createRequire } from "node:module";

// The packages are in the user's cache, beside the running eslint.
const { configs } = createRequire(process.argv[1])("@eslint/js");

const GLOBALS = [
  "Buffer", "clearInterval", "clearTimeout", "console", "performance", "process", "setImmediate", "setInterval",
  "setTimeout", "URL",
];

export default [
  configs.recommended,
  {
    languageOptions: { globals: Object.fromEntries(GLOBALS.map((name) => [name, "readonly"])) },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "eqeqeq": "error",
      "no-shadow": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_$", ignoreRestSiblings: true }],
      "no-use-before-define": ["error", { functions: false, classes: false, variables: false }],
      "no-var": "error",
      "object-shorthand": ["error", "always", { avoidQuotes: true }],
      "prefer-const": ["error", { destructuring: "all" }],
    },
  },
  {
    // Some of its functions run in a page.
    files: ["benchmarks/drawings.mjs"],
    languageOptions: { globals: { location: "readonly", requestAnimationFrame: "readonly" } },
  },
  {
    files: ["critiqor/clawhub/**"],
    rules: {
      "max-lines": ["error", 400],
      "max-params": ["error", 5],
      // It must load in every OpenClaw: nothing but Node and its own files.
      "no-restricted-imports": ["error", { patterns: [{ regex: "^(?!node:|\\./)" }] }],
      // Its output would be in the midst of the agent's, and it sends nothing anywhere.
      "no-console": "error",
      "no-restricted-globals": ["error", "fetch", "WebSocket", "XMLHttpRequest"],
    },
  },
];
