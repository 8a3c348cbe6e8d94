// Preloaded into OpenClaw: from the Nth write of the recorder into the runs folder on, the disk is full. As on a real one,
// the Nth write itself has room for a part, and space that was reserved before can still be overwritten. FULL_DISK_COUNT
// names a file for the number of writes.

import fs from "node:fs";

const from = Number(process.env.FULL_DISK_FROM);
const { writeSync, writeFileSync } = fs;
let writes = 0;

function isFull(target) {
  const file = typeof target === "number" ? fs.readlinkSync(`/proc/self/fd/${target}`) : String(target);
  if (!file.startsWith(process.env.CRITIQOR_RUNS_DIR)) return false;
  if (!file.includes("/openclaw/")) writes += 1; // there is OpenClaw's own timeline, which has hundreds of lines
  return writes >= from;
}

function refuse() {
  throw Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
}

fs.writeSync = (descriptor, data, ...rest) => {
  const isReserved = rest[2] === 0 && fs.fstatSync(descriptor).size > 0;
  if (isReserved || !isFull(descriptor)) return writeSync(descriptor, data, ...rest);
  const [start = 0, length] = rest;
  return writes === from && length > 1 ? writeSync(descriptor, data, start, length >> 1) : refuse();
};
fs.writeFileSync = (file, ...rest) => (isFull(file) ? refuse() : writeFileSync(file, ...rest));

const { FULL_DISK_COUNT: count } = process.env;
// OpenClaw is a tree of processes, of which one records.
if (count) process.on("exit", () => writes > 0 && writeFileSync(count, String(writes)));
