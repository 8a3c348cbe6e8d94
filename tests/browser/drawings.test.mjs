// The causal graph and the charts, by mouse, keyboard and touch.
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { runs } from "./support/stage.mjs";
import { DESKTOP, PHONE, settled, Visitor } from "./support/visitor.mjs";

const FRAME = '[aria-label="Causal graph"]';
const shownBoxes = `${FRAME} svg.causes a`;

/** Where the graph is scrolled to, and how large it is. */
const view = (page) => page.$eval(FRAME, (frame) => {
  const svg = [...frame.querySelectorAll("svg.causes")].find((each) => each.getClientRects().length);
  return { left: frame.scrollLeft, top: frame.scrollTop, scale: svg.getBoundingClientRect().width / svg.viewBox.baseVal.width };
});
/** The middle of the graph in the window. */
const middle = async (page) => {
  const frame = await page.waitForSelector(FRAME);
  await frame.scrollIntoView();
  const { x, y, width, height } = await frame.boundingBox();
  return [x + width / 2, y + height / 2];
};
const focusedLabel = (page) => page.evaluate(() => document.activeElement.getAttribute("aria-label"));

for (const width of [DESKTOP, PHONE]) {
  describe(`${width} wide`, () => {
    let visitor, page;
    before(async () => {
      visitor = await Visitor.arrive({ width });
      ({ page } = visitor);
      await settled(visitor, [runs.claim, runs.large]);
    });
    afterEach(async () => assert.deepEqual(await visitor.problems(), []));
    after(() => visitor.leave());

    test("a click on a node opens its event or finding", async () => {
      await visitor.go(`/runs/${runs.claim}/diagnosis`);
      const links = await page.$$(shownBoxes);
      const [shown] = (await Promise.all(links.map(async (link) => ((await link.isVisible()) ? [link] : [])))).flat();
      const target = await shown.evaluate((link) => link.getAttribute("href"));
      await shown.click();
      await visitor.until(() => visitor.path === target);
    });

    test("arrow keys move the graph, and + - 0 change its size", async () => {
      await visitor.go(`/runs/${runs.large}/diagnosis`);
      await page.focus(FRAME);
      const start = await view(page);
      await page.keyboard.press("ArrowDown");
      await visitor.until(async () => (await view(page)).top > start.top);
      await page.keyboard.press("+");
      const larger = await view(page);
      assert.ok(larger.scale > start.scale);
      await page.keyboard.press("-");
      await page.keyboard.press("-");
      assert.ok((await view(page)).scale < start.scale);
      await page.keyboard.press("0");
      const all = await page.$eval(FRAME, ({ scrollHeight, clientHeight, scrollWidth, clientWidth }) => scrollHeight <= clientHeight && scrollWidth <= clientWidth);
      assert.ok(all, "all of it is in view");
    });

    test("Tab leads to a node, arrow keys to the nodes around it, Enter opens one", async () => {
      await visitor.go(`/runs/${runs.large}/diagnosis`);
      await page.focus(FRAME);
      await page.keyboard.press("Tab");
      const first = await focusedLabel(page);
      await page.keyboard.press("ArrowUp");
      const second = await page.evaluate(() => {
        const { activeElement: link } = document;
        const box = link.getBoundingClientRect();
        const frame = link.closest(".causes-frame").getBoundingClientRect();
        return { isBox: "box" in link.dataset, href: link.getAttribute("href"), isSeen: box.top < frame.bottom && box.bottom > frame.top };
      });
      assert.ok(first && second.isBox && second.isSeen);
      assert.notEqual(await page.$eval(`${shownBoxes}[tabindex="0"]`, (link) => link.dataset.box), "0");
      assert.equal((await page.$$(`${shownBoxes}[tabindex="0"]`)).length, 1, "one tab stop");
      await visitor.until(async () => (await page.$$(`${FRAME} .arrow.near`)).length > 0);
      await page.keyboard.press("Enter");
      await visitor.until(() => visitor.path === second.href);
      // The events of this run exist only in its diagnosis.
      await visitor.page.goBack();
      await visitor.problems();
    });

    test("arrow keys read the values of a chart", async () => {
      await visitor.go(`/runs/${runs.large}/context`);
      const chart = await page.waitForSelector('figure.chart [role="slider"]');
      await chart.evaluate((plot) => plot.focus());
      const text = () => chart.evaluate((plot) => [plot.getAttribute("aria-valuetext"), plot.closest("figure").querySelector(".read-out").innerText]);
      const last = await text();
      assert.match(last[0], /^Request 400: [\d,]+ tokens/);
      assert.equal(last[0], last[1]);
      await page.keyboard.press("ArrowLeft");
      assert.match((await text())[1], /^Request 399:/);
      await page.keyboard.press("Home");
      assert.match((await text())[1], /^Request 1:/);
      assert.ok(await page.$eval("figure.chart .reader circle", (dot) => dot.checkVisibility()));
    });
  });
}

describe("with a mouse", () => {
  let visitor, page;
  before(async () => {
    visitor = await Visitor.arrive();
    ({ page } = visitor);
    await settled(visitor, [runs.large]);
  });
  afterEach(async () => assert.deepEqual(await visitor.problems(), []));
  after(() => visitor.leave());

  test("dragging moves the graph and opens nothing; the wheel zooms with the control key", async () => {
    await visitor.go(`/runs/${runs.large}/diagnosis`);
    const here = visitor.path;
    const [x, y] = await middle(page);
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move(x, y - 150, { steps: 5 });
    await page.mouse.up();
    const moved = await view(page);
    assert.ok(Math.abs(moved.top - 150) <= 6, JSON.stringify(moved));
    assert.equal(visitor.path, here);
    await page.keyboard.down("Control");
    await page.mouse.wheel({ deltaY: -100 });
    await visitor.until(async () => (await view(page)).scale > moved.scale);
    await page.keyboard.up("Control");
  });

  test("the neighbours of the node under the pointer are marked", async () => {
    await visitor.go(`/runs/${runs.large}/diagnosis`);
    await (await page.waitForSelector(`${FRAME} a[data-box="1"] rect`)).hover();
    await visitor.until(async () => (await page.$$(`${FRAME} .box.near`)).length === 2);
    assert.equal((await page.$$(`${FRAME} .arrow.near`)).length, 1);
    await page.mouse.move(5, 5);
    await visitor.until(async () => (await page.$$(`${FRAME} .near`)).length === 0);
  });

  test("a chart says the value under the pointer, and a click opens the run", async () => {
    await visitor.go("/runs");
    const plot = await page.waitForSelector('figure.chart [role="slider"]');
    await plot.scrollIntoView();
    const { x, y, height } = await plot.boundingBox();
    const readOut = () => page.$eval("figure.chart .read-out", (place) => place.innerText);
    const range = await readOut();
    assert.match(range, / UTC$/);
    await page.mouse.move(x + 4, y + height / 2);
    assert.match(await readOut(), new RegExp(`^12, ${runs.large}, 2024-10-04 00:00$`));
    await visitor.follow(() => page.mouse.click(x + 4, y + height / 2));
    assert.equal(visitor.path, `/runs/${runs.large}`);
  });
});

describe("by touch", () => {
  let visitor, page, session;
  before(async () => {
    visitor = await Visitor.arrive({ width: PHONE });
    ({ page } = visitor);
    await settled(visitor, [runs.large]);
    await page.setViewport({ width: PHONE, height: 900, isMobile: true, hasTouch: true });
    session = await page.createCDPSession();
  });
  afterEach(async () => assert.deepEqual(await visitor.problems(), []));
  after(() => visitor.leave());

  const touch = (type, ...points) => session.send("Input.dispatchTouchEvent", { type, touchPoints: points.map(([x, y], id) => ({ x, y, id })) });

  test("one finger moves the graph, two fingers zoom it", async () => {
    await visitor.go(`/runs/${runs.large}/diagnosis`);
    const [x, y] = await middle(page);
    await touch("touchStart", [x, y]);
    for (let by = 20; by <= 160; by += 20) await touch("touchMove", [x, y - by]);
    await touch("touchEnd");
    await visitor.until(async () => (await view(page)).top > 50);
    const { scale } = await view(page);
    await touch("touchStart", [x - 40, y], [x + 40, y]);
    for (let by = 50; by <= 90; by += 10) await touch("touchMove", [x - by, y], [x + by, y]);
    await touch("touchEnd");
    await visitor.until(async () => (await view(page)).scale > scale * 1.5);
    assert.equal(await page.evaluate(() => visualViewport.scale), 1, "the page itself is not zoomed");
  });

  test("a tap on a node opens it", async () => {
    await visitor.go(`/runs/${runs.large}/diagnosis`);
    const link = await page.waitForSelector(`${FRAME} a[href*="#finding_"]`);
    const target = await link.evaluate((box) => box.getAttribute("href"));
    await link.evaluate((box) => box.scrollIntoView({ block: "center", inline: "center" }));
    await link.tap();
    await visitor.until(() => visitor.path === target);
  });

  test("a finger reads the values of a chart and opens nothing", async () => {
    await visitor.go(`/runs/${runs.large}/context`);
    const here = visitor.path;
    const plot = await page.waitForSelector('figure.chart [role="slider"]');
    await plot.scrollIntoView();
    const { x, y, width, height } = await plot.boundingBox();
    const readOut = () => page.$eval("figure.chart .read-out", (place) => place.innerText);
    await touch("touchStart", [x + width / 4, y + height / 2]);
    const first = await readOut();
    await touch("touchMove", [x + width / 2, y + height / 2]);
    await visitor.until(async () => (await readOut()) !== first);
    await touch("touchEnd");
    assert.match(await readOut(), /^Request \d+: [\d,]+ tokens/);
    assert.equal(visitor.path, here);
  });
});
