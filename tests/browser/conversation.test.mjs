// The conversation of a session, with scripts and without, by mouse and by keyboard.
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { sessionPage } from "./support/pages.mjs";
import { diagnosisOf, fixtures, runs } from "./support/stage.mjs";
import { settled, Visitor } from "./support/visitor.mjs";

const [MAIN, HELPER] = fixtures.sessions;
const lastClaim = () => diagnosisOf(runs.claim).claims.at(-1);

describe("the conversation", () => {
  let visitor, page;
  before(async () => {
    visitor = await Visitor.arrive();
    ({ page } = visitor);
    await settled(visitor, [runs.claim, runs.misreporting]);
  });
  afterEach(async () => assert.deepEqual(await visitor.problems(), []));
  after(() => visitor.leave());

  test("is the first tab after the overview, and 2 opens it", async () => {
    await visitor.go(`/runs/${runs.claim}`);
    await visitor.follow(() => page.keyboard.press("2"));
    assert.equal(visitor.path, `/runs/${runs.claim}/conversation`);
    assert.match(await visitor.text(), /Fix the test\./);
  });

  test("of the overview has the false sentence, and one click or two keys lead to the event that proves it", async () => {
    const proof = `/runs/${runs.claim}/events/${lastClaim().evidence[0]}`;
    await visitor.go(`/runs/${runs.claim}`);
    await visitor.follow(() => page.click("main a.claim.contradicted"));
    assert.equal(visitor.path, proof);
    await visitor.go(`/runs/${runs.claim}`);
    await page.keyboard.press("j");
    await visitor.follow(() => page.keyboard.press("Enter"));
    assert.equal(visitor.path, proof);
  });

  test("leads from the false sentence to the event that proves it with one click", async () => {
    await visitor.go(`/runs/${runs.claim}/conversation`);
    const sentence = await page.$("a.claim.contradicted");
    assert.match(await sentence.evaluate((each) => each.textContent), /All tests pass/);
    await visitor.follow(() => sentence.click());
    assert.equal(visitor.path, `/runs/${runs.claim}/events/${lastClaim().evidence[0]}`);
  });

  test("keeps tool calls folded, and j and Enter unfold them", async () => {
    await visitor.go(sessionPage(runs.misreporting, MAIN));
    const folded = () => page.$$eval("#chat > li > .tool > details:not(.subagent)", (all) => all.map((each) => each.open));
    const before = await folded();
    assert.ok(before.includes(false));
    for (let presses = 0; presses < 30; presses += 1) {
      await page.keyboard.press("j");
      if (await page.evaluate(() => document.activeElement.matches("summary") && !document.activeElement.parentElement.open)) break;
    }
    await page.keyboard.press("Enter");
    assert.equal((await folded()).filter(Boolean).length, before.filter(Boolean).length + 1);
  });

  test("unfolds everything with one button", async () => {
    await visitor.go(sessionPage(runs.misreporting, MAIN));
    await (await visitor.named("button", "Unfold all")).click();
    assert.ok((await page.$$eval("#chat details", (all) => all.map((each) => each.open))).every(Boolean));
    assert.match(await visitor.text(), /wc -l list\.txt/, "the subagent is nested");
    await (await visitor.named("button", "Fold all")).click();
    assert.ok((await page.$$eval("#chat details", (all) => all.map((each) => each.open))).every((open) => !open));
  });

  test("opens at an event, unfolded", async () => {
    const [event] = lastClaim().evidence;
    await visitor.go(`/runs/${runs.claim}/events/${event}`);
    await visitor.follow(() => page.click("#in-conversation"));
    const shown = await page.evaluate((id) => {
      const box = document.getElementById(id).getBoundingClientRect();
      return { open: document.getElementById(id).closest("details").open, onScreen: box.top > 0 && box.bottom < innerHeight };
    }, event);
    assert.deepEqual(shown, { open: true, onScreen: true });
  });

  test("is searched with /, and a match leads to its place", async () => {
    await visitor.go(sessionPage(runs.misreporting, MAIN));
    await page.keyboard.press("/");
    await page.keyboard.type("pytest");
    await visitor.follow(() => page.keyboard.press("Enter"));
    assert.deepEqual(await page.$$eval("#chat mark", (found) => [...new Set(found.map((each) => each.textContent))]), ["pytest"]);
    await visitor.follow(async () => (await visitor.named("link", "in context")).click());
    assert.match(await visitor.text(), /Count the lines and run the tests/);
  });

  test("leads to the conversation of a subagent and back", async () => {
    await visitor.go(sessionPage(runs.misreporting, MAIN));
    await page.click(".subagent > summary");
    await visitor.follow(async () => (await visitor.named("link", "Open the conversation of the subagent")).click());
    assert.equal(visitor.path, sessionPage(runs.misreporting, HELPER));
    await visitor.follow(async () => (await visitor.named("link", MAIN)).click());
    assert.equal(visitor.path, sessionPage(runs.misreporting, MAIN));
  });
});

test("without scripts, a conversation is complete and tool calls unfold", async () => {
  const visitor = await Visitor.arrive({ javascript: false });
  await visitor.page.goto(new URL(sessionPage(runs.misreporting, MAIN), visitor.page.url()).href);
  const closed = "#chat > li > .tool > details:not([open]):not(.subagent) > summary";
  await visitor.page.click(closed);
  const text = await visitor.page.$eval("main", (main) => main.innerText);
  assert.match(text, /childSessionKey/);
  assert.doesNotMatch(text, /Unfold all/);
  await visitor.leave();
});

test("tags and notes are saved with scripts and without, and shown as text", async () => {
  for (const javascript of [true, false]) {
    const visitor = await Visitor.arrive({ javascript });
    const { page } = visitor;
    const open = (path) => page.goto(new URL(path, page.url()).href);
    await open(`/runs/${runs.circles}`);
    await page.$eval("#tags", (field) => { field.value = ""; });
    await page.type("#tags", `shop, ${fixtures.markup.image.slice(0, 30)}`);
    await Promise.all([page.waitForNavigation(), page.click("#save-annotations")]);
    await open("/runs?tag=shop");
    assert.deepEqual(await page.$$eval("#runs-table .tag", (tags) => tags.map((each) => each.textContent)), [fixtures.markup.image.slice(0, 30), "shop"]);
    await open(`/runs/${runs.circles}/diagnosis`);
    await Promise.all([page.waitForNavigation(), page.click(".judge button")]);
    assert.match(await page.$eval("main", (main) => main.innerText), /You said that this finding is wrong/);
    await Promise.all([page.waitForNavigation(), page.click(".judge button")]);
    if (javascript) assert.deepEqual(await visitor.problems(), []);
    await visitor.leave();
  }
});
