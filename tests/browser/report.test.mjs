// The offline report, opened from the disk: no requests, and nothing missing.
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { firstBadEvent } from "./support/pages.mjs";
import { reportOf, runs } from "./support/stage.mjs";
import { DESKTOP, PHONE, Visitor } from "./support/visitor.mjs";

const KINDS = ["claim", "clean", "forgetful", "stalled", "imported", "anonymous", "hostile", "empty", "broken"];

const made = new Map();
/** The report of a run, written once. */
const fileOf = (run) => {
  if (!made.has(run)) made.set(run, reportOf(run, "html"));
  return made.get(run);
};

/** Open the file of a run; returns its address. */
async function open(visitor, run, place = "") {
  const url = pathToFileURL(fileOf(run)).href;
  await visitor.page.goto(url + place, { waitUntil: "load" });
  return url;
}

/** Problems, except the request that opens the file itself. */
const problems = async (visitor, url) => (await visitor.problems()).filter((each) => each.split("#")[0] !== `request elsewhere: ${url}`);

for (const [scheme, width] of [["light", DESKTOP], ["light", PHONE], ["dark", DESKTOP], ["dark", PHONE]]) {
  describe(`${scheme}, ${width} wide`, () => {
    let visitor;
    before(async () => { visitor = await Visitor.arrive({ scheme, width, opens: null }); });
    after(() => visitor.leave());

    for (const kind of KINDS) {
      test(`the file of the run ${kind} is flawless`, async () => {
        for (const part of ["", "#diagnosis", "#evidence"]) {
          const url = await open(visitor, runs[kind], part);
          assert.deepEqual([...(await problems(visitor, url)), ...(await visitor.overflow()), ...(await visitor.violations())], [], part);
        }
        // The accessibility checker was injected by the browser, not by the page.
        assert.deepEqual(await visitor.problems(), []);
      });
    }
  });
}

test("the keyboard alone leads to the first bad event, without scripts", async () => {
  const visitor = await Visitor.arrive({ javascript: false, opens: null });
  const url = await open(visitor, runs.claim);
  const wanted = `#event-${firstBadEvent(runs.claim)}`;
  for (let presses = 1; ; presses += 1) {
    assert.ok(presses <= 40, `not within ${presses} presses of Tab`);
    await visitor.page.keyboard.press("Tab");
    if ((await visitor.page.evaluate(() => document.activeElement.getAttribute("href"))) === wanted) break;
  }
  await visitor.page.keyboard.press("Enter");
  await visitor.until(() => visitor.page.url() === url + wanted);
  const isSeen = () => visitor.page.$eval(":target", (event) => {
    const { top, bottom } = event.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  });
  await visitor.until(isSeen);
  await visitor.leave();
});

test("the address of an event in the file can be kept", async () => {
  const visitor = await Visitor.arrive({ opens: null });
  await open(visitor, runs.claim, `#event-${firstBadEvent(runs.claim)}`);
  assert.ok((await visitor.page.$eval(":target", (event) => event.textContent)).includes(firstBadEvent(runs.claim)));
  await visitor.leave();
});

test("the file is shown part by part and page by page, without scripts", async () => {
  const visitor = await Visitor.arrive({ javascript: false, opens: null });
  const shown = () => visitor.page.$$eval(".part, .event-page", (parts) => parts.filter((part) => part.checkVisibility()).map((part) => part.id));
  await open(visitor, runs.forgetful);
  assert.deepEqual(await shown(), ["overview"]);
  await visitor.page.click('a[href="#evidence"]');
  assert.deepEqual(await shown(), ["evidence", "events-1"]);
  await visitor.page.click('a[href="#events-2"]');
  assert.deepEqual(await shown(), ["evidence", "events-2"]);
  const height = await visitor.page.evaluate(() => document.documentElement.scrollHeight);
  await visitor.page.click('a[href="#whole-report"]');
  assert.ok((await shown()).includes("playbook"));
  assert.ok(await visitor.page.evaluate(() => document.documentElement.scrollHeight) > 2 * height);
  await visitor.leave();
});

test("the causal graph, the lane chart and the chart of requests are drawn without scripts", async () => {
  const visitor = await Visitor.arrive({ javascript: false, opens: null });
  await open(visitor, runs.claim, "#whole-report");
  for (const picture of ["svg.causes", "#lanes", "svg.chart-plot"]) {
    // A window shows the one of two drawings that suits its width.
    const sizes = await visitor.page.$$eval(picture, (all) => all.map((svg) => svg.getBoundingClientRect().toJSON()));
    assert.equal(sizes.filter(({ width, height }) => width > 100 && height > 30).length, 1, picture);
  }
  await visitor.leave();
});

for (const kind of ["claim", "hostile", "anonymous"]) {
  test(`the run ${kind} is printed`, () => {
    const file = reportOf(runs[kind], "pdf");
    const printed = readFileSync(file);
    assert.equal(printed.subarray(0, 5).toString(), "%PDF-");
    assert.match(printed.subarray(-1024).toString("latin1"), /%%EOF/);
    assert.ok(printed.toString("latin1").match(/\/Type\s*\/Page\b/g).length >= 2);
    assert.equal(statSync(file).mode & 0o777, 0o600);
  });
}
