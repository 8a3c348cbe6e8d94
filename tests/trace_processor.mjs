// Asks Perfetto's own trace processor about a trace: node trace_processor.mjs FOLDER TRACE SQL…
// FOLDER holds the files of Perfetto's viewer; the answer is one list of rows a question, as JSON.
// The processor is WebAssembly that was built for a worker of a browser, so it gets what it takes for one.
import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";

const [folder, trace, ...questions] = process.argv.slice(2);
const APPEND = 1, FINALIZE = 2, QUERY = 3;
const APPEND_RESULT = 201, QUERY_RESULT = 203;
const PIECE = 1 << 20;

class FileRequest {
  open(_method, url) {
    this.file = path.join(folder, path.basename(url));
  }
  send() {
    const content = fs.readFileSync(this.file);
    this.response = content.buffer.slice(content.byteOffset, content.byteOffset + content.length);
    this.status = 200;
  }
}

const failures = [];
const location = { href: "http://local/engine_bundle.js", protocol: "http:", host: "local" };
const worker = { location };
const context = vm.createContext({
  self: worker, location, WorkerGlobalScope: class {}, XMLHttpRequest: FileRequest,
  console: { log() {}, warn() {}, error: (...words) => failures.push(words.join(" ")) },
  URL, TextDecoder, TextEncoder, setTimeout, performance, crypto,
});
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), context);
// It is started at once, and what follows that waits for nothing but promises.
await new Promise(setImmediate);

let answers = [];
const port = { postMessage: (bytes) => answers.push(Buffer.from(bytes)) };
worker.onmessage({ data: port });

// Its questions and answers are protocol buffers.
function varint(number) {
  const bytes = [];
  for (let rest = BigInt(number); ; rest >>= 7n) {
    if (rest < 128n) return Buffer.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 127n) | 128);
  }
}
const numeric = (field, number) => Buffer.concat([varint(field * 8), varint(number)]);
const message = (field, content) => Buffer.concat([varint(field * 8 + 2), varint(content.length), content]);

function reader(bytes) {
  let at = 0;
  const next = () => {
    for (let shift = 0n, read = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      read |= BigInt(byte & 127) << shift;
      if (byte < 128) return read;
    }
  };
  return { next, left: () => at < bytes.length, take: (length) => bytes.subarray(at, (at += length)) };
}
function* fields(bytes) {
  const input = reader(bytes);
  while (input.left()) {
    const key = Number(input.next());
    const kind = key & 7;
    if (kind === 0) yield [key >> 3, input.next()];
    else yield [key >> 3, input.take(kind === 2 ? Number(input.next()) : kind === 1 ? 8 : 4)];
  }
}
const inside = (bytes, wanted) => [...fields(bytes)].filter(([field]) => field === wanted).map(([, value]) => value);

const Bytes = vm.runInContext("Uint8Array", context);
let sequence = 0;
function ask(method, ...parts) {
  answers = [];
  port.onmessage({ data: Bytes.from(message(1, Buffer.concat([numeric(1, sequence++), numeric(2, method), ...parts]))) });
  return answers.flatMap((answer) => inside(answer, 1));
}

function query(sql) {
  const columns = [], cells = [];
  for (const result of ask(QUERY, message(103, message(1, Buffer.from(sql)))).flatMap((rpc) => inside(rpc, QUERY_RESULT))) {
    const [error] = inside(result, 2);
    if (error?.length) throw new Error(`${error} in ${sql}`);
    columns.push(...inside(result, 1).map(String));
    for (const batch of inside(result, 3)) {
      const integers = inside(batch, 2).flatMap((packed) => {
        const input = reader(packed), read = [];
        while (input.left()) read.push(Number(BigInt.asIntN(64, input.next())));
        return read;
      });
      const doubles = inside(batch, 3).flatMap((packed) => [...new Float64Array(Uint8Array.from(packed).buffer)]);
      const texts = inside(batch, 5).flatMap((packed) => packed.toString().split("\0"));
      for (const kind of inside(batch, 1).flatMap((packed) => [...packed])) {
        cells.push(kind === 2 ? integers.shift() : kind === 3 ? doubles.shift() : kind === 4 ? texts.shift() : null);
      }
    }
  }
  const rows = [];
  for (let at = 0; at < cells.length; at += columns.length) rows.push(cells.slice(at, at + columns.length));
  return rows;
}

const data = fs.readFileSync(trace);
for (let at = 0; at < data.length; at += PIECE) {
  for (const result of ask(APPEND, message(101, data.subarray(at, at + PIECE))).flatMap((rpc) => inside(rpc, APPEND_RESULT))) {
    failures.push(...inside(result, 2).map(String));
  }
}
ask(FINALIZE);
const rows = questions.map(query);
if (failures.length) throw new Error(failures.join("\n"));
console.log(JSON.stringify(rows));
