// Secrets are replaced before they touch the disk, wherever they are in an event.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";

import { attach, inProcess, newRun, PLUGIN, plugin } from "./support/harness.mjs";

const { isSecretField, mayHoldSecret, Redactor } = await import(new URL("redact.js", PLUGIN));
const RULES = JSON.parse(fs.readFileSync(new URL("redaction.json", PLUGIN), "utf8"));
const context = { runId: "r1", sessionKey: "s1" };
const letters = (count) => "a1B2c3D4e5F6g7H8".repeat(10).slice(0, count);

const hex = (count) => "0a1b2c3d4e5f6789".repeat(10).slice(0, count);
const body = (characters, count) => (characters === "0-9a-f" ? hex(count) : characters === "A-Z0-9" ? letters(count).toUpperCase() : letters(count));

// One of each kind, in pieces, so that nobody takes this file for a leak.
const PREFIXED = RULES.prefixes.rules.flatMap(({ kind, prefixes, characters, minimum }) =>
  prefixes.map((prefix) => ({ kind, secret: `${prefix}${body(characters, minimum)}` })));
const MATCHED = [
  { kind: "private_key", secret: `-----BEGIN ${"PRIVATE"} KEY-----\nMIIE${letters(60)}\n${letters(64)}\n-----END ${"PRIVATE"} KEY-----` },
  { kind: "putty_key", secret: letters(64), text: (secret) => `Private-Lines: 1\n${secret}\nPrivate-MAC: 0` },
  { kind: "aws_access_key", secret: `${"AKIA"}${"ABCDEFGH12345678"}` },
  { kind: "cloud_access_key", secret: `${"LTAI"}${letters(20)}` },
  { kind: "google_key", secret: `${"AIza"}${letters(35)}` },
  { kind: "aws_bedrock_key", secret: `${"ABSK"}${letters(100)}` },
  { kind: "yandex_key", secret: `${"AQVN"}${letters(36)}` },
  { kind: "atlassian_token", secret: `${"ATATT3"}${letters(60)}` },
  { kind: "gitlab_runner_token", secret: `${"GR1348941"}${letters(20)}` },
  { kind: "facebook_token", secret: `EAA${letters(90)}` },
  { kind: "registry_key", secret: `${"AKCp"}${letters(69)}` },
  { kind: "easypost_key", secret: `EZAK${letters(54)}` },
  { kind: "encoded_token", secret: `fm2_${letters(40)}/+${letters(20)}` },
  { kind: "twilio_key", secret: `SK${hex(32)}` },
  { kind: "azure_client_secret", secret: `a1B8Q~${letters(34)}` },
  { kind: "databricks_token", secret: `dapi${hex(32)}` },
  { kind: "registry_key", secret: `cio${letters(32)}` },
  { kind: "google_refresh_token", secret: `1//0${letters(40)}` },
  { kind: "cloudflare_key", secret: `v1.0-${hex(24)}-${hex(146)}` },
  { kind: "terraform_token", secret: `${letters(14)}.atlasv1.${letters(60)}` },
  { kind: "mailchimp_key", secret: `${hex(32)}-us12` },
  { kind: "airtable_token", secret: `pat${letters(14)}.${hex(64)}` },
  { kind: "telegram_token", secret: `123456789:${"AA"}${letters(33)}` },
  { kind: "asana_token", secret: `1/1204567890123456:${hex(32)}` },
  { kind: "discord_token", secret: `M${letters(23)}.${letters(6)}.${letters(38)}` },
  { kind: "jwt", secret: `${"eyJ"}${letters(20)}.${"eyJ"}${letters(20)}.${letters(20)}` },
  { kind: "mapbox_token", secret: `sk.${"eyJ"}${letters(60)}.${letters(22)}` },
  { kind: "encoded_key", secret: `${"eyJrIjoi"}${letters(60)}` },
  { kind: "password_hash", secret: `$2b$12$${letters(53)}` },
  { kind: "braintree_token", secret: `access_token$production$${hex(16)}$${hex(32)}` },
  { kind: "url_password", secret: "pa55:w0rd", text: (secret) => `postgres://ada:${secret}@db/x` },
  { kind: "url_token", secret: letters(40), text: (secret) => `https://${secret}@host/x` },
  { kind: "webhook", secret: `T0/B0/${letters(24)}`, text: (secret) => `https://hooks.slack.com/services/${secret}` },
  { kind: "url_parameter", secret: letters(24), text: (secret) => `https://host/path?a=b&sig=${secret}` },
  { kind: "bearer", secret: `~${letters(20)}`, text: (secret) => `curl -H 'X-Auth: Bearer ${secret}'` },
  { kind: "basic_auth", secret: letters(24), text: (secret) => `Authorization: Basic ${secret}` },
  { kind: "authorization", secret: hex(32), text: (secret) => `Authorization: Digest username="ada", response="${secret}"` },
  { kind: "authorization", secret: letters(24), text: (secret) => `Authorization: ApiKey ${secret}` },
  { kind: "cookie", secret: letters(24), text: (secret) => `Cookie: sid=${secret}; theme=dark` },
  { kind: "cookie", secret: letters(24), text: (secret) => `--cookie sid=${secret}` },
  { kind: "option", secret: "hunter2", text: (secret) => `--db-password ${secret}` },
  { kind: "assignment", secret: "hunter2hunter2", text: (secret) => `export DB_PASSWORD=${secret}` },
  { kind: "assignment", secret: "kfjOZaLcRKjZy", text: (secret) => `password=${secret}` },
  { kind: "assignment", secret: letters(24), text: (secret) => `SOME_KEY=${secret}` },
  { kind: "element", secret: "hunter2", text: (secret) => `<password>${secret}</password>` },
  { kind: "stated_secret", secret: "hunter2hunter2", text: (secret) => `the password for the database is ${secret}.` },
  { kind: "named_value", secret: "hunter2hunter2", text: (secret) => `name: DB_PASSWORD\n  value: ${secret}` },
  { kind: "shell_variable", secret: "hunter2", text: (secret) => `setx DB_PASSWORD ${secret}` },
  { kind: "netrc_password", secret: "hunter", text: (secret) => `machine host login ada password ${secret}` },
  { kind: "assignment", secret: "hunter2hunter2", text: (secret) => `//host/:_auth=${secret}` },
  { kind: "piped_password", secret: "hunter2", text: (secret) => `echo ${secret} | docker login -u ada --password-stdin` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `gh secret set NAME --body ${secret}` },
  { kind: "command_password", secret: "hunter2hunter2", text: (secret) => `vault login ${secret}` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `requirepass ${secret}` },
  { kind: "seed_phrase", secret: "lion apple tree ".repeat(4).trim(), text: (secret) => `mnemonic: ${secret}` },
  { kind: "basic_auth", secret: letters(20), text: (secret) => `{"auths": {"host": {"auth": "${secret}"}}}` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `curl -s -u ada:${secret} https://host` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `http -a ada:${secret} host` },
  { kind: "cookie", secret: letters(24), text: (secret) => `curl -b 'sid=${secret}' host` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `mysql -u root -p${secret} db` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `sshpass -p ${secret} ssh host` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `redis-cli -h host -a ${secret} ping` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `smbclient -L host -U ada%${secret}` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `htpasswd -bc file ada ${secret}` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `openssl rsa -in key.pem -passin pass:${secret}` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `net use z: /user:ada ${secret}` },
  { kind: "assignment", secret: "hunter2hunter2", text: (secret) => `define('DB_PASSWORD', '${secret}');` },
  { kind: "pgpass_password", secret: "hunter2", text: (secret) => `host:5432:db:ada:${secret}` },
  { kind: "listed_secret", secret: letters(24), text: (secret) => `req.Header.Set('X-Api-Key', '${secret}')` },
  { kind: "assignment", secret: letters(24), text: (secret) => `speech_key: ${secret}` },
  { kind: "stated_secret", secret: letters(24), text: (secret) => `rejected the API key ${secret}` },
  { kind: "cookie", secret: letters(26), text: (secret) => `cookies={'PHPSESSID': '${secret}'}` },
  { kind: "named_value", secret: letters(24), text: (secret) => `--type SecureString --value '${secret}'` },
  { kind: "named_value", secret: letters(24), text: (secret) => `[type=extra_forbidden, input_value='${secret}']` },
  { kind: "encrypted_block", secret: hex(80), text: (secret) => `$ANSIBLE_VAULT;1.1;AES256\n${secret}` },
  { kind: "private_key", secret: hex(64), text: (secret) => `-----BEGIN OpenVPN Static key V1-----\n${secret}\n-----END` },
  { kind: "private_key", secret: "LS0tLS1CRUdJTi" + letters(80) },
  { kind: "encoded_key", secret: letters(44), text: (secret) => `base64:${secret}` },
  { kind: "wallet_key", secret: "xprv" + "a2B3c4D5a2B3c4D5a2B3c4D5a2B3c4D5a2B3c4D5a2B3c4D5a2B3c4D5a2B3c4D5a2B3c4D5a2B3c4D5" },
  { kind: "bearer", secret: "AAAAAAAAAAAAAAAAAAAAAA" + letters(40) },
  { kind: "google_key", secret: "AQ.Ab" + letters(40) },
  { kind: "oauth_token", secret: "WPL_AP1.0" + letters(24) },
  { kind: "azure_key", secret: letters(40) + "AzFua1B2c3D4" },
  { kind: "azure_key", secret: letters(52) + "JQQJ99" + letters(26) },
  { kind: "database_password", secret: "hunter2", text: (secret) => `CREATE USER ada IDENTIFIED BY '${secret}'` },
  { kind: "login", secret: "hunter2hunter2", text: (secret) => `requests.get(url, auth=('ada', '${secret}'))` },
  { kind: "login", secret: "hunter2", text: (secret) => `ConvertTo-SecureString '${secret}' -AsPlainText` },
  { kind: "stated_secret", secret: "Hunter2024!x", text: (secret) => `Das Passwort lautet ${secret}` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `ipmitool -H host -U ADMIN -P ${secret} chassis status` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `xfreerdp /v:host /u:ada /p:${secret}` },
  { kind: "command_password", secret: hex(32), text: (secret) => `evil-winrm -i host -u admin -H ${secret}` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `snmpwalk -v3 -u ada -a SHA -A ${secret} host` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `lftp -u ada,${secret} sftp://host` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `curl -skuada:${secret} https://host` },
  { kind: "webhook", secret: letters(32), text: (secret) => `https://eth-mainnet.g.alchemy.com/v2/${secret}` },
  { kind: "assignment", secret: "horse-apple-river-stone", text: (secret) => `RESTIC_PASSWORD='${secret}'` },
  { kind: "assignment", secret: "hun\\\\\"ter2!", text: (secret) => `{"password":"${secret}"}` },
  { kind: "element", secret: "hunter2", text: (secret) => `<Pass encoding="base64">${secret}</Pass>` },
  { kind: "recovery_code", secret: "12ab3-45cd6 78ef9-01ab2 34cd5-67ef8", text: (secret) => `recovery codes:\n${secret}` },
  { kind: "recovery_code", secret: "A1B2-A1B2-A1B2-A1B2-A1B2-A1B2", text: (secret) => `recovery key: ${secret}` },
  { kind: "one_time_code", secret: "48151623", text: (secret) => `Your verification code is ${secret}.` },
  { kind: "one_time_code", secret: "48151623", text: (secret) => `The PIN for the safe is ${secret}.` },
  { kind: "one_time_code", secret: "48151623", text: (secret) => `npm publish --otp=${secret}` },
  { kind: "totp_secret", secret: "ABCD2345EFGH6723", text: (secret) => `setup key: ${secret}` },
  { kind: "totp_secret", secret: "ABCD2345EFGH6723", text: (secret) => `otpauth%3A%2F%2Ftotp%3Fsecret%3D${secret}` },
  { kind: "private_key", secret: "MIIF7gIBAzCC" + letters(60) },
  { kind: "oauth_code", secret: "4/0A" + letters(60) },
  { kind: "monitoring_key", secret: hex(36) + "NRAL" },
  { kind: "service_token", secret: "a1b2c3d4e5mshf1a2b3c4d5e6f70p1a2b3cjsna1b2c3d4e5f6" },
  { kind: "cluster_token", secret: "K10" + hex(64) },
  { kind: "service_token", secret: "00Da1B2c3D4e5F6!AQ" + letters(60) },
  { kind: "service_token", secret: "api-0a1b2c3d-4e5f-6789-0a1b-2c3d4e5f6789" },
  { kind: "saml_response", secret: letters(80), text: (secret) => `SAMLResponse=${secret}` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `sqlplus ada/${secret}@hosthost` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `127.0.0.1:6379> AUTH ${secret}` },
  { kind: "wallet_key", secret: "K" + "a2B3c4D5e6a2B3c4D5e6a2B3c4D5e6a2B3c4D5e6a2B3c4D5e6f", text: (secret) => `btc_wif: ${secret}` },
  { kind: "encryption_key", secret: letters(43) + "=", text: (secret) => `Fernet(b'${secret}')` },
  { kind: "private_key", secret: letters(43), text: (secret) => `{"kty":"oct","k":"${secret}"}` },
  { kind: "seed_phrase", secret: "lion apple tree lion apple tree lion apple tree lion apple tree", text: (secret) => `Account.from_mnemonic('${secret}')` },
  { kind: "wallet_key", secret: "0x" + hex(64), text: (secret) => `accounts: ['${secret}']` },
  { kind: "payment_key", secret: "live_" + letters(30) },
  { kind: "database_password", secret: "npg_" + letters(12) },
  { kind: "authorization", secret: letters(24), text: (secret) => `proxy_set_header Authorization 'Basic ${secret}'` },
  { kind: "command_password", secret: letters(40), text: (secret) => `vault operator unseal ${secret}` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `crypto isakmp key ${secret} address 10.0.0.1` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `rabbitmqctl add_user ada ${secret}` },
  { kind: "command_password", secret: "hunter2", text: (secret) => `poetry config http-basic.private ada ${secret}` },
  { kind: "command_password", secret: "hunter2hunter2", text: (secret) => `mc alias set local http://host:9000 ada ${secret}` },
  { kind: "wifi_password", secret: "hunter2", text: (secret) => `WIFI:T:WPA;S:home;P:${secret};;` },
  { kind: "stated_secret", secret: "hunter2", text: (secret) => `A temporary password is generated for root@localhost: ${secret}` },
  { kind: "csv_secret", secret: letters(24), text: (secret) => `service,owner,some_token\nhost,ada,${secret}` },
];
const SECRETS = [...PREFIXED, ...MATCHED].map(({ kind, secret, text = (value) => value }) => ({ kind, secret, text }));
// One prefix of each kind is enough where a whole run is recorded.
const EXAMPLES = SECRETS.filter(({ kind, secret }) => PREFIXED.find((other) => other.kind === kind)?.secret === secret || MATCHED.some((other) => other.secret === secret && other.kind === kind));

function assertGone(run, secret) {
  const written = fs.readdirSync(run.folder).filter((name) => name !== "redaction.key").map((name) => fs.readFileSync(path.join(run.folder, name), "utf8")).join("\n");
  for (const part of secret.split("\n")) {
    assert.ok(!written.includes(part), `${part.slice(0, 12)}… was written`);
    if (part.length > 12) assert.ok(!written.includes(part.slice(0, 12)) || part.startsWith("-----"), `the beginning of ${part.slice(0, 12)}… was written`);
  }
}

test("there is an example of every rule", () => {
  assert.deepEqual(MATCHED.map(({ kind }) => kind), RULES.groups.flatMap((group) => group.rules.map((rule) => rule.kind)));
});

test("a secret of every kind is replaced", () => {
  for (const { kind, secret, text } of SECRETS) {
    const safe = new Redactor("key").text(text(secret));
    assert.ok(safe.includes(`[redacted:${kind}:`), `${kind}: ${safe}`);
    assert.ok(!safe.includes(secret), kind);
    assert.ok(mayHoldSecret(JSON.stringify({ text: text(secret) })), kind);
  }
});

for (const [number, { kind, secret, text }] of EXAMPLES.entries()) {
  test(`${kind} (${number}) is replaced in arguments, outputs, errors, messages, keys and lists`, (t) => {
    const run = newRun(t);
    const claw = attach();
    const leak = text(secret);
    claw.hook("before_tool_call", { toolCallId: "c1", toolName: "exec", params: { command: `set -e\n${leak}\nls` } }, context);
    claw.hook("after_tool_call", { toolCallId: "c1", toolName: "exec", result: { content: [{ type: "text", text: `first\n${leak}` }] }, error: leak, durationMs: 1 }, context);
    claw.hook("message_received", { content: leak, list: [["x", leak]], [leak]: 1 }, context);
    claw.transcript({ sessionKey: "s1", messageId: "m", message: { role: "assistant", content: [{ text: leak }], stopReason: "error", errorMessage: leak } });
    claw.stream("lifecycle", { phase: "start" });
    claw.stream("lifecycle", { phase: "error", error: `failed: ${leak}` });
    claw.hook("after_tool_call", { toolCallId: "c2", toolName: leak, params: {}, error: "Tool not found" }, context);
    plugin.updateSessionSummary();
    assertGone(run, secret);
    const tags = [...run.text().matchAll(/\[redacted:[a-z_]+:[0-9a-f]{8}\]/g)].map(String);
    assert.ok(tags.length >= 8);
    assert.equal(run.of("tool_result")[0].payload.result.content[0].text.startsWith("first\n"), true);
  });
}

test("equal secrets have equal tags in all processes of a run, and other tags in another run", async (t) => {
  const first = newRun(t);
  const script = `attach().hook("message_received", { content: "use " + "sk-" + "${letters(40)}" });`;
  await Promise.all([inProcess(first, script).ended, inProcess(first, script).ended, inProcess(first, script).ended]);
  const second = newRun(t);
  await inProcess(second, script).ended;
  const tags = (run) => run.lines().filter((event) => event.event_type === "message_received").map((event) => event.payload.content);
  assert.equal(tags(first).length, 3);
  assert.equal(new Set(tags(first)).size, 1);
  assert.match(tags(first)[0], /^use \[redacted:openai_key:[0-9a-f]{8}\]$/);
  assert.notEqual(tags(first)[0], tags(second)[0]);
});

test("different secrets have different tags", () => {
  const redactor = new Redactor(Buffer.from("key"));
  assert.notEqual(redactor.text(`sk-${letters(30)}`), redactor.text(`sk-${letters(31)}`));
});

test("a field is secret by its name, in every spelling, whatever its value", (t) => {
  const run = newRun(t);
  const claw = attach();
  const values = ["correct horse battery", "a b c d", 'quo"te', "back\\slash", "tab\there", "größe"];
  const names = ["password", "API_KEY", "api-key", "apiKey", "X-Api-Key", "Client Secret", "accessToken2", "Set-Cookie", "pass_word", "PassPhrase", "🔑token"];
  for (const name of names) {
    for (const value of values) {
      assert.ok(isSecretField(name), name);
      claw.hook("message_received", { headers: { [name]: value } }, context);
    }
  }
  for (const event of run.events()) {
    const [value] = Object.values(event.payload.headers);
    assert.match(value, /^\[redacted:field:[0-9a-f]{8}\]$/);
  }
  assert.equal(run.events().length, names.length * values.length);
});

test("a secret field with a list of values has none of them written", (t) => {
  const run = newRun(t);
  attach().hook("message_received", { headers: { "set-cookie": ["sid=topsecret1", "x", "sid=topsecret2"] } }, context);
  assert.doesNotMatch(run.text(), /topsecret/);
});

test("names and values that only resemble secrets are kept", (t) => {
  const run = newRun(t);
  const kept = { tokens: 5, token: "abc", tokenCount: "12345678", keyboard: "qwertyuiop", monkey: "bananas12", note: "the password is safe", total_tokens: "1234567890" };
  attach().hook("message_received", { ...kept, content: "risk-based, task_list; password: string; token=null" }, context);
  const [{ payload }] = run.events();
  assert.equal(payload.content, "risk-based, task_list; password: string; token=null");
  for (const [name, value] of Object.entries(kept)) assert.deepEqual(payload[name], value, name);
});

test("a secret across the edge of an excerpt is replaced whole", (t) => {
  const run = newRun(t);
  const claw = attach();
  const secret = `sk-${letters(48)}`;
  for (let before = 1990; before <= 2060; before += 5) {
    claw.hook("message_received", { content: `${"x ".repeat(before / 2).padEnd(before)} ${secret} ${"y ".repeat(6000)}` }, context);
    claw.hook("after_tool_call", { toolCallId: `${before}`, toolName: "exec", error: `${"x ".repeat(before / 2)} ${secret} ${"y ".repeat(6000)}` }, context);
    claw.hook("after_tool_call", { toolCallId: `r${before}`, toolName: "exec", result: { content: [{ text: `${"x ".repeat(before / 2)} ${secret} ${"y ".repeat(600)}` }], details: { status: "failed" } } }, context);
    claw.hook("message_received", { [`${"k ".repeat((before - 1800) / 2)} ${secret}`]: 1 }, context);
  }
  assertGone(run, secret);
  assert.match(run.text(), /\[redacted:openai_key/);
});

test("what redaction moves into an excerpt from the far end of what was seen is no half of a secret", (t) => {
  const run = newRun(t);
  const claw = attach();
  const key = `-----BEGIN ${"PRIVATE"} KEY-----\n${letters(100)}\n-----END ${"PRIVATE"} KEY-----\n`.padEnd(200);
  const secret = `sk-${letters(48)}`;
  for (let shift = 0; shift < 60; shift += 7) {
    const before = `${key.repeat(28)}${"z ".repeat(250)}`.slice(0, 6144 - shift);
    claw.hook("message_received", { content: `${before} ${secret} ${"y ".repeat(3000)}` }, context);
  }
  assertGone(run, secret);
});

test("a private key that is longer than what is looked at leaves its tag and nothing else", (t) => {
  const run = newRun(t);
  attach().hook("message_received", { content: `here: -----BEGIN RSA ${"PRIVATE"} KEY-----\n${`${letters(64)}\n`.repeat(300)}` }, context);
  assert.doesNotMatch(run.text(), new RegExp(letters(20)));
  assert.match(run.events()[0].payload.content.excerpt, /^here: \[redacted:private_key:[0-9a-f]{8}\]$/);
});

test("the digest of a short text with a secret does not give the secret away", (t) => {
  const run = newRun(t);
  const fill = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`fill${index}`, "f ".repeat(4096)]));
  const text = `password=hunter2hunter2 ${"and so on ".repeat(8)}`;
  attach().hook("message_received", { ...fill, last: text }, context);
  attach().hook("message_received", { ...fill, last: text.replace("hunter2", "hunter3") }, context);
  const [first, second] = run.events().map((event) => event.payload.last);
  assert.equal(first.cut, true);
  assert.doesNotMatch(run.text(), /hunter[23]/);
  assert.notEqual(first.digest, second.digest); // tags differ, as the secrets do
});

// ── the gate ──

function randomness(seed) {
  let value = seed;
  const next = () => {
    value = (Math.imul(value, 1664525) + 1013904223) >>> 0;
    return value / 2 ** 32;
  };
  const below = (limit) => Math.floor(next() * limit);
  const pick = (list) => list[below(list.length)];
  return { below, pick };
}

/** Whether the rules would change anything in a value. */
function wouldRedact(value, redactor, secretField = false) {
  if (typeof value === "string") return (secretField ? redactor.field(value) : redactor.text(value)) !== value;
  if (Array.isArray(value)) return value.some((item) => wouldRedact(item, redactor, secretField));
  if (value === null || typeof value !== "object") return false;
  return Object.entries(value).some(([key, item]) => redactor.text(key) !== key || wouldRedact(item, redactor, isSecretField(key)));
}

const NAMES = ["password", "Password", "PASSWORD", "passwd", "Passwd", "PASSWD", "secret", "SECRET", "Secret", "token", "TOKEN", "api_key", "api-key", "apikey", "apiKey", "Api_Key", "api_Key", "API_KEY", "APIKEY", "access_key", "accesskey", "accessKey", "access_Key", "ACCESS_KEY", "ACCESSKEY", "Authorization", "authorization"];
const SPACES = ["", " ", "  ", "\n", "\t", "\r\n", "\n\t ", "\u000b", "\f", "\u00a0", "\u2028"];
const QUOTES = ["", '"', "'"];
const CHARACTERS = ["a", "Z", "7", "1", "\\", "/", "+", "-", "_", ".", "~", "!", "@", "#", "%", "^", "*", "=", ":", "|", "?", "$", "ü", "😀", "\u0001", "\b", " ", '"', "'", "n", "r", "t", "u"];
const SEPARATORS = ["", "", "", "_", "-", " ", ".", "1", "é", "😀", "\u2028", "\u007f", "/", "'"];

test("the gate is never stricter than the rules", () => {
  const { below, pick } = randomness(20_260_906);
  const word = (length) => Array.from({ length }, () => pick(CHARACTERS)).join("");
  const spelled = (name) => [...name].map((letter) => (below(2) ? letter : letter.toUpperCase()) + pick(SEPARATORS)).join("").slice(0, 40);
  const makers = [
    () => `${pick(NAMES)}${pick(QUOTES)}${pick(SPACES)}${pick(["=", ":"])}${pick(SPACES)}${pick(QUOTES)}${word(4 + below(12))}`,
    () => `${pick(NAMES)}${pick(QUOTES)}${pick(SPACES)}${pick(["=", ":"])}${pick(SPACES)}${pick(QUOTES)}${pick(["Basic ", "basic  ", "Bearer ", "bearer   "])}${word(2)}${letters(4 + below(20))}`,
    () => `${pick(["Bearer", "bearer"])}${" ".repeat(1 + below(2))}${pick(["", ".", "~", "+", "/", "=", "-"])}${letters(8 + below(12))}`,
    () => `x://${word(below(4))}:${word(1 + below(6))}@host`,
    () => { const { text, secret } = pick(SECRETS); return text(secret.slice(0, below(8) ? undefined : -below(30))); },
  ];
  const record = () => {
    const leak = `${pick(["", "x ", "\n", '"', "\\", "é"])}${pick(makers)()}${pick(["", " y", "\n", '"', "\\"])}`;
    const field = spelled(pick(RULES.fields.names));
    const value = pick([() => word(2 + below(8)), () => [word(1 + below(6)), word(6)], () => letters(4 + below(4)), () => leak])();
    return pick([
      () => ({ text: leak }),
      () => ({ list: [1, { deep: leak }] }),
      () => ({ [leak]: 1 }),
      () => ({ json: JSON.stringify({ said: leak }) }),
      () => ({ json: JSON.stringify({ [pick(NAMES)]: letters(12) }, null, below(3)) }),
      () => ({ a: 1, [field]: value }),
      () => ({ headers: { [field]: value } }),
    ])();
  };
  let redacted = 0;
  for (let index = 0; index < 30_000; index += 1) {
    const payload = record();
    if (!wouldRedact(payload, new Redactor("key"))) continue;
    redacted += 1;
    const line = JSON.stringify({ session_key: "agent:main:main", status: "ok", error: null, payload });
    assert.ok(mayHoldSecret(line, line.indexOf('"status":')), `the gate lets by ${line}`);
  }
  assert.ok(redacted > 5000, `${redacted} records with secrets`);
});

test("a mark is not taken for a secret, whatever its kind is called", () => {
  const redactor = new Redactor("key");
  for (const { text, secret } of SECRETS) {
    const once = redactor.text(text(secret));
    assert.equal(once.match(/\[redacted:/g).length, 1, once);
    assert.equal(redactor.text(once), once);
  }
});

test("text made to be hard to search costs no more than its length", () => {
  const redactor = new Redactor("key");
  // A pattern that goes back and forth would need millions of steps here, and hold the agent for as long.
  const steps = (unit, times) => {
    const text = unit.repeat(times);
    const began = process.cpuUsage().user;
    redactor.text(text);
    return process.cpuUsage().user - began;
  };
  for (const unit of ["eyJ", "eyJaaaaaaaaaaa.", "token=", "://a:b", "-----BEGIN PRIVATE KEY-----", "sk-", "key='"]) {
    steps(unit, 4000);
    const [short, long] = [steps(unit, 4000), steps(unit, 32_000)].map((cost) => cost + 10_000);
    assert.ok(long < short * 32, `${unit}: ${short} µs for 4,000 and ${long} µs for 32,000`);
  }
});

test("a value that a tool has masked already is no secret", (t) => {
  const run = newRun(t);
  attach().hook("message_received", { content: 'DB_PASSWORD="********" token: ••••••••', password: "********", sessionKey: "s1" });
  assert.equal(run.text().includes("[redacted:"), false);
});

for (const reference of ["vault:kv/db#password", "op://vault/item/field", "/run/secrets/db_password", "${DB_PASSWORD}", "{{ secrets.TOKEN }}"]) {
  test(`${reference} names where a secret is kept, and is not redacted`, (t) => {
    const run = newRun(t);
    attach().hook("message_received", { content: `DB_PASSWORD="${reference}"`, password: reference, sessionKey: "s1" });
    assert.equal(run.text().includes("[redacted:"), false);
    attach().hook("message_received", { content: "x", password: `${reference}!Xk29`, sessionKey: "s1" });
    assert.equal(run.text().includes("[redacted:"), true);
  });
}
