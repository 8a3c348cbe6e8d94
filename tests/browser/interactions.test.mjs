// Interactions with the dashboard, by mouse and by keyboard.
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { firstBadEvent, firstBadEventPage } from "./support/pages.mjs";
import { runs } from "./support/stage.mjs";
import { PHONE, settled, Visitor } from "./support/visitor.mjs";

describe("on a desktop", () => {
  let visitor, page;
  before(async () => {
    visitor = await Visitor.arrive();
    ({ page } = visitor);
    await settled(visitor, [runs.claim, runs.clean]);
  });
  afterEach(async () => assert.deepEqual(await visitor.problems(), []));
  after(() => visitor.leave());

  test("the keyboard leads from the overview to the first bad event, with a visible focus", async () => {
    await visitor.go(`/runs/${runs.claim}`);
    const wanted = firstBadEventPage(runs.claim);
    for (let presses = 1; ; presses += 1) {
      assert.ok(presses <= 40, `not within ${presses} presses of Tab`);
      await page.keyboard.press("Tab");
      const focus = await page.evaluate(() => {
        const { activeElement: element } = document;
        const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element);
        const box = element.getBoundingClientRect();
        return {
          path: element.pathname,
          html: element.outerHTML.slice(0, 120),
          isMarked: (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || boxShadow !== "none",
          isOnScreen: box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
        };
      });
      assert.ok(focus.isMarked && focus.isOnScreen, JSON.stringify(focus));
      if (presses === 1) assert.match(focus.html, /#main/, "the first stop leads past the navigation");
      if (focus.path === wanted) break;
    }
    await visitor.follow(() => page.keyboard.press("Enter"));
    assert.equal(visitor.path, wanted);
    assert.ok((await visitor.text()).includes(firstBadEvent(runs.claim)));
  });

  test("the first tab stop skips to the content", async () => {
    await visitor.go(`/runs/${runs.claim}`);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.tagName), "MAIN");
  });

  test("the prompt for a coding assistant is copied by one click", async () => {
    await visitor.go(`/runs/${runs.claim}/playbook`);
    const button = await visitor.named("button", "Copy");
    await page.bringToFront();
    await button.click();
    await visitor.until(async () => /Copied/.test(await visitor.text()));
    const shown = await page.$eval('pre[aria-label="Prompt"]', (prompt) => prompt.textContent);
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), shown);
    assert.match(shown, /pytest/);
  });

  test("dragging across the timeline zooms in, and going back shows the whole run again", async () => {
    await visitor.go(`/runs/${runs.claim}/timeline`);
    const whole = visitor.path;
    const bars = await page.$$eval('a[href*="/events/"]', (links) => links.length);
    const chart = await visitor.named("group", "Activity over time, from left to right");
    await chart.scrollIntoView();
    const { x, y, width, height } = await chart.boundingBox();
    await page.mouse.move(x + width * 0.5, y + height - 4);
    await page.mouse.down();
    await page.mouse.move(x + width * 0.8, y + height - 4, { steps: 5 });
    await visitor.follow(() => page.mouse.up());
    const { searchParams } = new URL(page.url());
    assert.ok(Number(searchParams.get("to")) > Number(searchParams.get("from")), page.url());
    await visitor.follow(() => page.goBack());
    assert.equal(visitor.path, whole);
    assert.equal(await page.$$eval('a[href*="/events/"]', (links) => links.length), bars);
  });

  test("a bar of the timeline says what it is and leads to its event", async () => {
    await visitor.go(`/runs/${runs.claim}/timeline`);
    const bar = await page.waitForSelector('[aria-label="Lane chart"] a[href*="/events/"] rect');
    const [name, target] = await bar.evaluate((rect) => ["aria-label", "href"].map((each) => rect.closest("a").getAttribute(each)));
    await bar.hover();
    const said = () => page.$$eval('[role="status"], [aria-live]', (places) => places.map((each) => each.innerText));
    await visitor.until(async () => (await said()).includes(name));
    await visitor.follow(() => bar.click());
    assert.equal(visitor.path, target);
  });

  test("two marked runs are compared", async () => {
    await visitor.go("/runs");
    for (const run of [runs.clean, runs.claim]) await (await visitor.named("checkbox", `Select ${run}`)).click();
    const button = await page.waitForSelector('form[action="/compare"] button[type="submit"]');
    await visitor.follow(() => button.click());
    assert.match(visitor.path, /^\/compare\?/);
    assert.match(await visitor.text(), new RegExp(`${runs.clean}.*${runs.claim}`));
  });

  test("a search of the evidence has an address, and going back undoes it", async () => {
    await visitor.go(`/runs/${runs.claim}/evidence`);
    const rows = () => page.$$eval("main tbody tr", (found) => found.length);
    const all = await rows();
    await (await page.waitForSelector('input[type="search"]')).type("pytest");
    await visitor.follow(() => page.keyboard.press("Enter"));
    const found = await rows();
    assert.ok(found > 0 && found < all, `${found} of ${all}`);
    const kept = visitor.path;
    await visitor.follow(() => page.goBack());
    assert.equal(await rows(), all);
    await visitor.go(kept);
    assert.equal(await rows(), found);
  });
});

for (const [scheme, other] of [["light", "dark"], ["dark", "light"]]) {
  test(`switching from ${scheme} to ${other} is remembered on every page`, async () => {
    const visitor = await Visitor.arrive({ scheme, width: PHONE });
    const back = () => visitor.page.evaluate(() => {
      const [red, green, blue] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
      return red + green + blue > 384 ? "light" : "dark";
    });
    await visitor.go("/runs");
    assert.equal(await back(), scheme);
    await (await visitor.page.waitForSelector('button[aria-label*="light and dark"]')).click();
    assert.equal(await back(), other);
    await visitor.go(`/runs/${runs.claim}/timeline`);
    assert.equal(await back(), other);
    await visitor.page.reload();
    assert.equal(await back(), other);
    assert.deepEqual([...(await visitor.problems()), ...(await visitor.violations())], []);
    await visitor.leave();
  });
}

test("a link to a run opens in another browser until it is revoked, and opens nothing else", async () => {
  const owner = await Visitor.arrive();
  await owner.go(`/runs/${runs.shared}/trust`);
  await owner.follow(async () => (await owner.named("button", "Create a link")).click());
  const [opens] = (await owner.text()).match(/http:\/\/\S+\/share\/\S+/);
  const guest = await Visitor.arrive({ opens });
  assert.match(guest.path, new RegExp(`^/runs/${runs.shared}`));
  await guest.go(`/runs/${runs.shared}/diagnosis`);
  assert.match(await guest.text(), /1 failed, 11 passed/);
  await guest.go(`/runs/${runs.claim}`, { status: 404 });
  await guest.go("/runs", { status: 403 });
  await owner.follow(async () => (await owner.page.waitForSelector('button[aria-label^="Revoke link"]')).click());
  await guest.go(`/runs/${runs.shared}`, { status: 403 });
  const late = await Visitor.arrive({ opens: null });
  await late.go(new URL(opens).pathname, { status: 403 });
  assert.doesNotMatch(await late.text(), /1 failed, 11 passed/);
  for (const each of [owner, guest, late]) {
    assert.deepEqual(await each.problems(), []);
    await each.leave();
  }
});

test("a phone shows every tab, the finding of the timeline and no help for a mouse", async () => {
  const visitor = await Visitor.arrive({ width: PHONE });
  const { page } = visitor;
  await settled(visitor, [runs.claim]);
  await visitor.go(`/runs/${runs.claim}/timeline`);
  const outside = await page.$$eval('nav[aria-label="Pages of this run"] a', (links) =>
    links.filter((link) => { const box = link.getBoundingClientRect(); return box.left < 0 || box.right > innerWidth; }).length);
  assert.equal(outside, 0);
  const shown = await page.$eval("main", (main) => main.innerText);
  assert.doesNotMatch(shown, /Hover over|arrow keys/);
  const left = await page.$eval('[aria-label="Findings in the chart"] a', (link) => link.getBoundingClientRect().left);
  assert.ok(left >= 0 && left < PHONE);
  assert.deepEqual(await visitor.problems(), []);
  await visitor.leave();
});
