// Calls a running gateway with OpenClaw's own client and credentials, as `openclaw gateway call` does. The process stays, so
// that a call takes no time for starting it. Its argument is the folder of the OpenClaw package. Each line of its input is a
// call, `{"id", "method", "params"}`, and is answered with a line `{"id", "result"}` or `{"id", "error"}`. It connects to no
// gateway before the first call: a gateway that does not know this device yet would grant it the scopes of that call only, and
// then refuse the user's own commands.

import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const TIMEOUT_MS = "8000";

const { resolve } = createRequire(path.join(process.argv[2] ?? "", "package.json"));
const { callGatewayFromCli } = await import(pathToFileURL(resolve("openclaw/plugin-sdk/gateway-runtime")).href);

/**
 * @param {string} method
 * @param {object} params
 */
function call(method, params) {
  return callGatewayFromCli(method, { json: true, timeout: TIMEOUT_MS }, params);
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
