// Somebody with a browser profile of their own, who notices everything that is wrong with what they see.
import assert from "node:assert/strict";
import { address, AXE, browser, link, PATIENCE_MS } from "./stage.mjs";

export const DESKTOP = 1280;
export const PHONE = 390;

export class Visitor {
  /** What was wrong since it was last asked for. */
  #wrongs = [];
  /** Answers that are errors on purpose. */
  #expected = new Set();

  static async arrive({ width = DESKTOP, scheme = "light", media = [], javascript = true, opens = link } = {}) {
    const visitor = new Visitor();
    visitor.context = await browser.createBrowserContext();
    await visitor.context.overridePermissions(address, ["clipboard-read", "clipboard-write", "clipboard-sanitized-write"]);
    visitor.page = await visitor.context.newPage();
    await visitor.#listen();
    await visitor.page.setViewport({ width, height: 900, isMobile: false });
    const session = await visitor.page.createCDPSession();
    await session.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }, ...media] });
    if (!javascript) await visitor.page.setJavaScriptEnabled(false);
    if (opens) {
      await visitor.page.goto(opens, { timeout: PATIENCE_MS });
      // The link answers with a page that goes on by itself.
      await visitor.until(() => /^\/(runs|$)/.test(new URL(visitor.page.url()).pathname));
    }
    return visitor;
  }

  async #listen() {
    const { page } = this;
    const wrong = (...words) => this.#wrongs.push(words.join(" "));
    page.setDefaultTimeout(PATIENCE_MS);
    page.on("console", (message) => {
      const about = message.location().url ?? "";
      if (["error", "warn"].includes(message.type()) && !this.#expected.has(about)) wrong("console:", message.text(), about);
    });
    page.on("pageerror", (error) => wrong("exception:", error.message));
    page.on("dialog", (dialog) => { wrong("dialog:", dialog.message()); return dialog.dismiss(); });
    page.on("popup", (other) => wrong("window:", other?.url()));
    page.on("request", (request) => {
      if (!request.url().startsWith(`${address}/`) && !request.url().startsWith("data:")) wrong("request elsewhere:", request.url());
    });
    page.on("requestfailed", (request) => {
      const why = request.failure()?.errorText;
      // A stream of events ends by being left.
      if (!(why === "net::ERR_ABORTED" && request.resourceType() === "eventsource")) wrong("failed request:", request.url(), why);
    });
    page.on("response", (response) => {
      if (response.status() >= 400 && !this.#expected.has(response.url())) wrong("answer", response.status(), response.url());
    });
    await page.evaluateOnNewDocument(() => {
      window.__violations = [];
      addEventListener("securitypolicyviolation", (event) => {
        window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
      });
    });
  }

  /** Go to an address of the dashboard and see it drawn. */
  async go(path, { status = 200 } = {}) {
    const url = new URL(path, address).href;
    if (status >= 400) this.#expected.add(url);
    const answer = await this.page.goto(url, { waitUntil: "load" });
    assert.equal(answer.status(), status, path);
    await this.drawn();
  }

  /** Two frames: what scripts ask for in the first is there after the second. */
  async drawn() {
    await this.page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));
  }

  /** Do something that leads to another page, and see that drawn. */
  async follow(deed) {
    await Promise.all([this.page.waitForNavigation({ waitUntil: "load" }), deed()]);
    await this.drawn();
  }

  /** Wait for what must happen. */
  async until(condition) {
    const deadline = Date.now() + PATIENCE_MS;
    while (!(await condition())) {
      if (Date.now() > deadline) throw new Error(`never happened at ${this.page.url()}: ${condition}`);
      await new Promise((done) => { setTimeout(done, 20); });
    }
  }

  get path() {
    const { pathname, search, hash } = new URL(this.page.url());
    return pathname + search + hash;
  }

  /** An element by its role and its accessible name, as people who use a screen reader find it. */
  async named(role, name) {
    const handle = await this.page.waitForSelector(`aria/${name}[role="${role}"]`);
    return handle;
  }

  async text() {
    return this.page.evaluate(() => document.body.innerText);
  }

  /** What was wrong since the last time, with what the page itself has noticed. */
  async wrongs() {
    const noticed = await this.page.evaluate(() => [
      ...(window.__violations ?? []).splice(0).map((each) => `against the policy: ${each}`),
      ...(window.__pwned === undefined ? [] : [`ran: ${window.__pwned}`]),
    ]);
    return [...this.#wrongs.splice(0), ...noticed];
  }

  /** By how many pixels a page is wider than its window, and by what. */
  async overflow() {
    return this.page.evaluate(() => {
      const extra = document.documentElement.scrollWidth - document.documentElement.clientWidth;
      if (extra <= 0) return [];
      const scrolls = (each) => each && (getComputedStyle(each).overflowX !== "visible" || scrolls(each.parentElement));
      const wide = [...document.body.querySelectorAll("body *")]
        .filter((each) => each.getBoundingClientRect().right > innerWidth && !scrolls(each.parentElement));
      return [`wider than its window by ${extra}: ${wide.slice(0, 3).map((each) => each.outerHTML.slice(0, 120)).join(" | ")}`];
    });
  }

  /** Serious violations of accessibility. */
  async barriers() {
    await this.page.evaluate(AXE);
    return this.page.evaluate(async () => {
      const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
      return violations.filter((each) => ["serious", "critical"].includes(each.impact)).map((each) => {
        const places = each.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} (${node.any[0]?.message ?? ""})`);
        return `${each.impact} ${each.id}: ${places.join(" | ")}`;
      });
    });
  }

  async leave() {
    await this.context.close();
  }
}

/** Wait until the dashboard has read its runs, so that no page says that it is still at it. */
export async function settled(visitor, runIds) {
  for (const run of runIds) {
    await visitor.until(async () => {
      await visitor.page.goto(`${address}/runs/${run}/timeline`);
      return !/being built/.test(await visitor.text());
    });
  }
  await visitor.wrongs();
}
