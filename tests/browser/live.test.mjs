// The live page of a run that is being recorded.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { RUN_PAGES } from "./support/pages.mjs";
import { recordAnother } from "./support/stage.mjs";
import { DESKTOP, PHONE, Visitor } from "./support/visitor.mjs";

test("the live page shows what an agent does while it does it, and its end", async (context) => {
  const { run, gate } = await recordAnother();
  context.after(() => writeFileSync(gate, "")); // in any case: only one agent is recorded at a time
  const visitor = await Visitor.arrive();
  await visitor.go(`/runs/${run}/live`);
  await visitor.until(async () => /exec/.test(await visitor.text()));
  assert.doesNotMatch(await visitor.text(), /I went through/);
  await visitor.until(() => visitor.page.$eval("#live-verdict", (part) => !part.hidden));
  assert.match(await visitor.page.$eval("#live-verdict", (part) => part.innerText), /Trust 100 of 100, 0 findings so far[^]*agent:main:main/);
  const rows = await visitor.page.$$eval("main tbody tr", (found) => found.length);
  writeFileSync(gate, "");
  await visitor.until(async () => /I went through/.test(await visitor.text()));
  assert.ok((await visitor.page.$$eval("main tbody tr", (found) => found.length)) > rows);
  await visitor.until(() => visitor.page.$eval("#live-concluded", (link) => !link.hidden));
  assert.match(await visitor.page.$eval('[role="status"]', (state) => state.textContent), /^Sealed and diagnosed: /);
  assert.equal(await visitor.page.$eval("#live-badge", (badge) => `${badge.textContent} ${badge.className}`), "completed badge");
  assert.deepEqual(await visitor.problems(), []);
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
