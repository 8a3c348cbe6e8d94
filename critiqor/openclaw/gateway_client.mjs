// Calls a running gateway with OpenClaw's own client and credentials, as `openclaw gateway call` does. The process stays, so
// that a call takes no time for starting it. Its argument is the folder of the OpenClaw package. Each line of its input is a
// call, `{"id", "method", "params"}`, and is answered with a line `{"id", "result"}` or `{"id", "error"}`.

import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const TIMEOUT_MS = "8000";
const WARM_UP_ATTEMPTS = 40;
const WARM_UP_PAUSE_MS = 3000;

const { resolve } = createRequire(path.join(process.argv[2] ?? "", "package.json"));
const { callGatewayFromCli } = await import(pathToFileURL(resolve("openclaw/plugin-sdk/gateway-runtime")).href);

/**
 * @param {string} method
 * @param {object} params
 */
function call(method, params) {
  return callGatewayFromCli(method, { json: true, timeout: TIMEOUT_MS }, params);
}

/** A first call loads what the later ones need; the gateway may only be starting. */
async function warmUp() {
  for (let attempt = 0; attempt < WARM_UP_ATTEMPTS; attempt += 1) {
    try {
      await call("health", {});
      return;
    } catch {
      await sleep(WARM_UP_PAUSE_MS, undefined, { ref: false });
    }
  }
}

/** @param {string} line */
async function answer(line) {
  const { id, method, params } = JSON.parse(line);
  try {
    return { id, result: await call(method, params) };
  } catch (error) {
    return { id, error: error instanceof Error ? error.message : String(error) };
  }
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  void answer(line).then((answered) => process.stdout.write(`${JSON.stringify(answered)}\n`));
});
lines.on("close", () => process.exit(0));
await warmUp();
