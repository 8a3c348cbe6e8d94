// Browsers with unusual preferences: no scripts, reduced motion, high contrast, forced colors.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { EVERY_PAGE, pagesOf } from "./support/pages.mjs";
import { runs } from "./support/stage.mjs";
import { PHONE, settled, Visitor } from "./support/visitor.mjs";

/** The visible headings, table rows and links of a page. */
const content = (visitor) => visitor.page.evaluate(() => {
  const seen = (selector) => [...document.querySelectorAll(selector)].filter((each) => each.checkVisibility({ checkOpacity: true }));
  return {
    headings: seen("main h1, main h2, main h3").map((each) => each.innerText),
    drawings: seen("main svg[aria-label]").map((each) => each.getAttribute("class").split(" ")[0]),
    rows: seen("main tr").map((each) => each.innerText),
    links: seen("main a").map((each) => each.getAttribute("href")),
  };
});

describe("without scripts", () => {
  let visitor, usual;
  before(async () => {
    usual = await Visitor.arrive();
    await settled(usual, [runs.claim, runs.clean]);
    visitor = await Visitor.arrive({ javascript: false });
  });
  after(() => Promise.all([visitor.leave(), usual.leave()]));

  for (const path of EVERY_PAGE) {
    test(`${path} has the same content`, async () => {
      await usual.go(path);
      await visitor.page.goto(usual.page.url(), { waitUntil: "load" });
      const [without, { headings, ...rest }] = [await content(visitor), await content(usual)];
      assert.ok(headings.length > 0);
      assert.deepEqual(without, { headings, ...rest });
      assert.deepEqual(await visitor.problems(), []);
    });
  }
});

const CIRCUMSTANCES = {
  "with reduced motion": [{ name: "prefers-reduced-motion", value: "reduce" }],
  "with more contrast": [{ name: "prefers-contrast", value: "more" }],
  "with forced colors": [{ name: "forced-colors", value: "active" }],
};
for (const [name, media] of Object.entries(CIRCUMSTANCES)) {
  describe(name, () => {
    let visitor;
    before(async () => {
      visitor = await Visitor.arrive({ media, scheme: "dark", width: PHONE });
      await settled(visitor, [runs.claim]);
    });
    after(() => visitor.leave());

    for (const path of ["/runs", ...pagesOf(runs.claim)]) {
      test(`${path} is flawless`, async () => {
        await visitor.go(path);
        assert.deepEqual([...(await visitor.problems()), ...(await visitor.overflow()), ...(await visitor.violations())], []);
        if (name !== "with reduced motion") return;
        const moving = await visitor.page.evaluate(() => document.getAnimations().map((each) => each.animationName ?? String(each)));
        assert.deepEqual(moving, []);
      });
    }

    test("bars of the timeline differ from what is behind them", async () => {
      await visitor.go(`/runs/${runs.claim}/timeline`);
      const [bars, back] = await visitor.page.evaluate(() => [
        [...document.querySelectorAll('[aria-label="Lane chart"] a rect')].map((bar) => getComputedStyle(bar).fill),
        getComputedStyle(document.body).backgroundColor,
      ]);
      assert.ok(bars.length > 0);
      assert.deepEqual(bars.filter((fill) => fill === back || fill === "none"), []);
    });
  });
}
