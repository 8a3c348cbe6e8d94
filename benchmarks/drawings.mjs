// Opens pages of a dashboard and prints how long each took until it was drawn. Called by drawings.py.
import { createRequire } from "node:module";
import { join } from "node:path";

const ROUNDS = 5;
const request = JSON.parse(process.argv[2]);
const require = createRequire(join(request.browser.packages, "package.json"));
const browser = await require("puppeteer-core").default.launch({
  executablePath: request.browser.program,
  env: { ...process.env, ...request.browser.environment },
  headless: "shell",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en-US"],
});
try {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 900 });
  const drawn = () => page.evaluate(() => new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(() => done(Math.round(performance.now()))));
  }));
  await page.goto(request.link);
  await page.waitForFunction(() => location.pathname.startsWith("/runs"));
  const figures = { first_visit_ms: await drawn() };
  for (const [name, path] of Object.entries(request.pages)) {
    const times = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      await page.goto(request.address + path, { waitUntil: "load" });
      times.push(await drawn());
    }
    const found = await page.$$eval("svg.causes a, svg.chart-plot path", (all) => all.length);
    if (!found) throw new Error(`${path} has no drawing`);
    figures[name] = times.sort((one, other) => one - other)[ROUNDS >> 1];
  }
  console.log(JSON.stringify(figures));
} finally {
  await browser.close();
}
