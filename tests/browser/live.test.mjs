// The live page of a run that is being recorded.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { RUN_PAGES } from "./support/pages.mjs";
import { recordAnother } from "./support/stage.mjs";
import { DESKTOP, PHONE, Visitor } from "./support/visitor.mjs";

test("the live page shows what an agent does while it does it, and leads to the finished run by itself", async (context) => {
  const { run, gate } = await recordAnother();
  context.after(() => writeFileSync(gate, "")); // in any case: only one agent is recorded at a time
  const visitor = await Visitor.arrive();
  await visitor.go(`/runs/${run}/live`);
  await visitor.until(async () => /exec/.test(await visitor.text()));
  assert.doesNotMatch(await visitor.text(), /I went through/);
  await visitor.until(() => visitor.page.$eval("#live-verdict", (part) => !part.hidden));
  assert.match(await visitor.page.$eval("#live-verdict", (part) => part.innerText), /Trust 100 of 100, 0 findings so far[^]*agent:main:main/);
  await visitor.follow(async () => writeFileSync(gate, ""));
  assert.equal(visitor.path, `/runs/${run}`);
  assert.match(await visitor.text(), /I went through/);
  assert.deepEqual(await visitor.problems(), []);
  await visitor.leave();
});

test("the live page of a session can be filtered and paused, and waits for who reads it", async (context) => {
  const { run, gate } = await recordAnother();
  context.after(() => writeFileSync(gate, ""));
  const visitor = await Visitor.arrive();
  await visitor.go(`/runs/${run}/live`);
  await visitor.until(() => visitor.page.$("#live-sessions a").then(Boolean));
  // The table is drawn again with every verdict, so the link is found and clicked at once.
  await visitor.follow(() => visitor.page.$eval("#live-sessions a", (link) => link.click()));
  assert.equal(visitor.path, `/runs/${run}/live?session=agent%3Amain%3Amain`);
  const shown = () => visitor.page.$$eval("#live-rows tr", (found) => found.filter((row) => !row.hidden).map((row) => row.children[1].textContent));
  await visitor.until(async () => (await shown()).includes("tool_call"));
  assert.ok(!(await shown()).includes("agent_start"), "events without content are folded");
  await visitor.page.click("#live-all");
  assert.ok((await shown()).includes("agent_start"));
  await visitor.page.type("#live-filter", "exec");
  assert.deepEqual(await shown(), ["tool_call"]);
  await visitor.page.$eval("#live-filter", (field) => { field.value = ""; field.dispatchEvent(new Event("input")); });
  await visitor.page.click("#live-pause");
  writeFileSync(gate, "");
  await visitor.until(() => visitor.page.$eval("#live-concluded", (part) => !part.hidden));
  assert.ok(!(await shown()).includes("tool_output"), "it stands still");
  assert.match(await visitor.page.$eval("#live-waiting", (part) => part.textContent), /new events?$/);
  assert.equal(await visitor.page.$eval("#live-badge", (badge) => `${badge.textContent} ${badge.className}`), "completed badge");
  await visitor.follow(() => visitor.page.click("#live-pause"));
  assert.equal(visitor.path, `/runs/${run}/sessions/agent%3Amain%3Amain`);
  assert.deepEqual(await visitor.problems(), []);
  await visitor.leave();
});

test("stopping an agent needs a second click", async (context) => {
  const { run, gate } = await recordAnother();
  context.after(() => writeFileSync(gate, ""));
  const visitor = await Visitor.arrive({ javascript: false });
  const open = () => visitor.page.goto(new URL(`/runs/${run}/live`, visitor.page.url()).href);
  await open();
  assert.match(await visitor.text(), /Verdict so far[^]*agent:main:main/, "the verdict is there without scripts");
  const isOpen = () => visitor.page.$eval("details:has(#stop-confirm)", (part) => part.open);
  assert.equal(await isOpen(), false);
  await visitor.page.click(".stop > summary");
  assert.equal(await isOpen(), true);
  writeFileSync(gate, "");
  await visitor.until(async () => { await open(); return /no longer being recorded/.test(await visitor.text()); });
  await visitor.leave();
});

test("every page of a run that is being recorded is flawless", async (context) => {
  const { run, gate } = await recordAnother();
  context.after(() => writeFileSync(gate, ""));
  for (const [scheme, width] of [["light", DESKTOP], ["dark", PHONE]]) {
    const visitor = await Visitor.arrive({ scheme, width });
    for (const path of ["/runs", ...RUN_PAGES.map((page) => `/runs/${run}${page}`)]) {
      await context.test(`${scheme}, ${width} wide, ${path}`, async () => {
        await visitor.go(path);
        assert.deepEqual([...(await visitor.problems()), ...(await visitor.overflow()), ...(await visitor.violations())], []);
      });
    }
    await visitor.leave();
  }
});
