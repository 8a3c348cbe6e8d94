// Every page, light and dark, wide and narrow: no errors, no external requests, no overflow, no accessibility violations.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { EVERY_PAGE, OTHER_RUNS, pagesOf, REFUSALS } from "./support/pages.mjs";
import { runs } from "./support/stage.mjs";
import { DESKTOP, PHONE, settled, Visitor } from "./support/visitor.mjs";

async function flawless(visitor) {
  assert.equal(await visitor.page.$$eval("h1", (headings) => headings.length), 1);
  assert.deepEqual([...(await visitor.problems()), ...(await visitor.overflow()), ...(await visitor.violations())], []);
  assert.deepEqual(await visitor.problems(), [], "while it was examined");
}

describe("without a link", () => {
  let visitor;
  before(async () => {
    visitor = await Visitor.arrive({ opens: null });
  });
  after(() => visitor.leave());

  for (const path of pagesOf(runs.anonymous)) {
    test(`${path} is flawless, and so is where it leads`, async () => {
      await visitor.go(path);
      await flawless(visitor);
      const links = await visitor.page.$$eval("main a[href^='/runs/']", (found) => [...new Set(found.map((each) => each.getAttribute("href").split("#")[0]))]);
      for (const link of links) await visitor.go(link);
      assert.deepEqual(await visitor.problems(), []);
    });
  }
});

for (const scheme of ["light", "dark"]) {
  for (const width of [DESKTOP, PHONE]) {
    describe(`${scheme}, ${width} wide`, () => {
      let visitor;
      before(async () => {
        visitor = await Visitor.arrive({ width, scheme });
        await settled(visitor, Object.values(runs).filter((run) => run !== runs.aborted));
      });
      after(() => visitor.leave());

      for (const path of EVERY_PAGE) {
        test(`${path} is flawless`, async () => {
          await visitor.go(path);
          assert.equal(await visitor.page.evaluate(() => matchMedia("(prefers-color-scheme: dark)").matches), scheme === "dark");
          await flawless(visitor);
        });
      }
      // Other runs differ in content, not in layout: once light on a desktop and once dark on a phone is enough.
      if ((scheme === "dark") === (width === PHONE)) {
        for (const path of OTHER_RUNS) {
          test(`${path} is flawless`, async () => {
            await visitor.go(path);
            await flawless(visitor);
          });
        }
        for (const [path, status] of REFUSALS) {
          test(`${path} is refused with ${status}, flawlessly`, async () => {
            await visitor.go(path, { status });
            await flawless(visitor);
          });
        }
      }
    });
  }
}
