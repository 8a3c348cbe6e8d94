// Everything from an agent is shown as text.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { pagesOf, sessionPage } from "./support/pages.mjs";
import { address, runs, fixtures } from "./support/stage.mjs";
import { DESKTOP, PHONE, settled, Visitor } from "./support/visitor.mjs";

const visible = (text) => text.replaceAll(/\s+/g, " ").trim();

/** Elements, attributes and invisible characters that no template contains. */
const intruders = (visitor) => visitor.page.evaluate(() => {
  const found = [];
  for (const element of document.querySelectorAll("*")) {
    const said = element.outerHTML.slice(0, 200);
    if (["IMG", "IFRAME", "OBJECT", "EMBED", "BASE", "STYLE"].includes(element.tagName)) found.push(said);
    if (element.tagName === "SCRIPT" && !element.src && element.type !== "application/json") found.push(said);
    for (const { name, value } of element.attributes) {
      if (name.startsWith("on")) found.push(said);
      // Our own addresses start with a slash or stay within the page.
      if (["href", "src", "action", "formaction"].includes(name) && !/^([/](?![/])|[#?]|$)/.test(value)) found.push(said);
      if (/[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/.test(value)) found.push(`${name} of ${said}`);
    }
  }
  const hidden = document.documentElement.textContent.match(/.{0,20}[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/);
  return hidden ? [...found, `invisible characters after ${hidden[0]}`] : found;
});

/** Texts that are not displayed from left to right. */
const turned = (visitor) => visitor.page.evaluate(() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.data.trim() || !node.parentElement.checkVisibility()) continue;
    let last = null;
    for (let at = 0; at < Math.min(node.length, 200); at += 1) {
      range.setStart(node, at);
      range.setEnd(node, at + 1);
      const [box] = range.getClientRects();
      if (!box || box.width === 0) continue;
      if (last && Math.abs(box.top - last.top) < 2 && box.left < last.left - 1) {
        found.push(node.data.slice(0, 80));
        break;
      }
      last = box;
    }
  }
  return found;
});

describe("a run with hostile text everywhere", () => {
  for (const [scheme, width] of [["light", DESKTOP], ["dark", PHONE]]) {
    describe(`${scheme}, ${width} wide`, () => {
      let visitor;
      before(async () => {
        visitor = await Visitor.arrive({ scheme, width });
        await settled(visitor, [runs.hostile]);
      });
      after(() => visitor.leave());

      const compared = `/compare?run=${runs.clean}&run=${runs.hostile}`;
      const searched = `/runs/${runs.hostile}/evidence?q=${encodeURIComponent(fixtures.markup.attribute)}`;
      const asked = `/runs?q=${encodeURIComponent(fixtures.markup.script_end)}`;
      const sessions = fixtures.hostile_sessions.map((key) => sessionPage(runs.hostile, key));
      const found = sessionPage(runs.hostile, fixtures.hostile_sessions[0], `?q=${encodeURIComponent(fixtures.markup.attribute)}`);
      const ofSession = fixtures.hostile_sessions.flatMap((key) => ["timeline", "context", "evidence"].map((page) => `/runs/${runs.hostile}/${page}?session=${encodeURIComponent(key)}`));
      const ofAll = ["/costs?by=session", "/costs?by=agent", `/runs/removal?run=${runs.hostile}`, `/runs/${runs.hostile}/evidence?all=1`, `${compared}&calls=all`];
      for (const path of ["/runs", ...ofSession, ...ofAll, "/sessions", `/search?q=${fixtures.mark}`, `/runs/${runs.hostile}/sessions`, asked, compared, searched, found, ...sessions, ...pagesOf(runs.hostile)]) {
        test(`${path} shows it as text, and nothing runs`, async () => {
          await visitor.go(path);
          assert.deepEqual([...(await visitor.problems()), ...(await intruders(visitor)), ...(await turned(visitor))], []);
          assert.deepEqual([...(await visitor.overflow()), ...(await visitor.violations())], []);
          assert.deepEqual(await visitor.problems(), []);
        });
      }
    });
  }

  test("the words of every text can be read in the evidence and on the page of its event", async () => {
    const visitor = await Visitor.arrive();
    await visitor.go(`/runs/${runs.hostile}/evidence`);
    const addresses = new Set();
    const seen = [];
    for (;;) {
      seen.push(await visitor.text());
      const links = await visitor.page.$$eval('main tr:has(td) a[href*="/events/"]', (found) => found.map((each) => each.getAttribute("href")));
      links.forEach((each) => addresses.add(each));
      const next = await visitor.page.$('a[rel="next"]');
      if (!next) break;
      await visitor.follow(() => next.click());
    }
    const listed = visible(seen.join(" "));
    for (const [name, text] of Object.entries(fixtures.markup)) assert.ok(listed.includes(visible(text)), `${name} in the list`);
    assert.ok(addresses.size > 100);
    // One kind of event after the other, each with another text.
    const chosen = [...addresses].filter((_, number) => number % 7 === 3);
    const read = [];
    for (const path of chosen) {
      await visitor.go(path);
      assert.deepEqual([...(await visitor.problems()), ...(await intruders(visitor))], [], path);
      read.push(await visitor.text());
    }
    const pages = visible(read.join(" "));
    for (const [name, text] of Object.entries(fixtures.markup)) {
      assert.ok(pages.includes(visible(JSON.stringify(text).slice(1, -1))), `${name} on the page of an event`);
    }
    await visitor.leave();
  });

  test("raw JSON is served as JSON", async () => {
    const visitor = await Visitor.arrive();
    await visitor.go(`/runs/${runs.hostile}/evidence?q=script`);
    const path = await visitor.page.$eval('main a[href*="/events/"]', (each) => each.getAttribute("href"));
    await visitor.go(`${path}/raw`);
    assert.deepEqual(await visitor.problems(), []);
    const answer = await visitor.page.evaluate(async (url) => (await fetch(url)).headers.get("content-type"), `${address}${path}/raw`);
    assert.match(answer, /^application\/json/);
    await visitor.leave();
  });

  test("a guest with a link sees it as text too", async () => {
    const owner = await Visitor.arrive();
    await owner.go(`/runs/${runs.hostile}/trust`);
    await owner.follow(async () => (await owner.named("button", "Create a link")).click());
    const guest = await Visitor.arrive({ opens: (await owner.text()).match(/http:\/\/\S+\/share\/\S+/)[0] });
    for (const path of pagesOf(runs.hostile)) {
      await guest.go(path);
      assert.deepEqual([...(await guest.problems()), ...(await intruders(guest))], [], path);
    }
    await Promise.all([owner.leave(), guest.leave()]);
  });
});
