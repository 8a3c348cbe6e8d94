// A visitor with a separate browser profile, who records every problem of a page.
import assert from "node:assert/strict";
import { address, AXE, browser, link, PATIENCE_MS } from "./stage.mjs";

export const DESKTOP = 1280;
export const PHONE = 390;

export class Visitor {
  /** Problems since the last call of `problems`. */
  #problems = [];
  /** Addresses whose errors are expected. */
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
      // The link opens a page that redirects by itself.
      await visitor.until(() => /^\/(fleet|runs|$)/.test(new URL(visitor.page.url()).pathname));
    }
    return visitor;
  }

  async #listen() {
    const { page } = this;
    const report = (...words) => this.#problems.push(words.join(" "));
    page.setDefaultTimeout(PATIENCE_MS);
    page.on("console", (message) => {
      const about = message.location().url ?? "";
      if (["error", "warn"].includes(message.type()) && !this.#expected.has(about)) report("console:", message.text(), about);
    });
    page.on("pageerror", (error) => report("exception:", error.message));
    page.on("dialog", (dialog) => { report("dialog:", dialog.message()); return dialog.dismiss(); });
    page.on("popup", (other) => report("window:", other?.url()));
    page.on("request", (request) => {
      if (!request.url().startsWith(`${address}/`) && !request.url().startsWith("data:")) report("request elsewhere:", request.url());
    });
    page.on("requestfailed", (request) => {
      const why = request.failure()?.errorText;
      // An event stream is aborted when its page is left.
      if (!(why === "net::ERR_ABORTED" && request.resourceType() === "eventsource")) report("failed request:", request.url(), why);
    });
    page.on("response", (response) => {
      if (response.status() >= 400 && !this.#expected.has(response.url())) report("answer", response.status(), response.url());
    });
    await page.evaluateOnNewDocument(() => {
      window.__violations = [];
      addEventListener("securitypolicyviolation", (event) => {
        window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
      });
    });
  }

  /** Open an address of the dashboard and wait until it is drawn. */
  async go(path, { status = 200 } = {}) {
    const url = new URL(path, address).href;
    if (status >= 400) this.#expected.add(url);
    const answer = await this.page.goto(url, { waitUntil: "load" });
    assert.equal(answer.status(), status, path);
    await this.drawn();
  }

  /** Wait for two frames: what scripts request in the first is drawn in the second. */
  async drawn() {
    await this.page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));
  }

  /** Do something that opens another page, and wait until it is drawn. */
  async follow(action) {
    await Promise.all([this.page.waitForNavigation({ waitUntil: "load" }), action()]);
    await this.drawn();
  }

  /** Wait until a condition holds. */
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

  /** An element by its role and accessible name. */
  async named(role, name) {
    const handle = await this.page.waitForSelector(`aria/${name}[role="${role}"]`);
    return handle;
  }

  async text() {
    return this.page.evaluate(() => document.body.innerText);
  }

  /** Problems since the last call, including those that the page itself recorded. */
  async problems() {
    const noticed = await this.page.evaluate(() => [
      ...(window.__violations ?? []).splice(0).map((each) => `policy violation: ${each}`),
      ...(window.__pwned === undefined ? [] : [`ran: ${window.__pwned}`]),
    ]);
    return [...this.#problems.splice(0), ...noticed];
  }

  /** By how many pixels a page is wider than its window, and which elements are. */
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

  /** Serious accessibility violations. */
  async violations() {
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

/** Wait until the dashboard has indexed the runs, so that no page shows the notice about it. */
export async function settled(visitor, runIds) {
  for (const run of runIds) {
    await visitor.until(async () => {
      await visitor.page.goto(`${address}/runs/${run}/timeline`);
      return !/being built/.test(await visitor.text());
    });
  }
  await visitor.problems();
}
