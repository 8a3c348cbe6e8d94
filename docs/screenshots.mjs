// Opens pages of a dashboard and keeps what is seen. Called by screenshots.py, which says which and where.
import { createRequire } from "node:module";
import { join } from "node:path";

const asked = JSON.parse(process.argv[2]);
const require = createRequire(join(asked.browser.packages, "package.json"));
const browser = await require("puppeteer-core").default.launch({
  executablePath: asked.browser.program,
  env: { ...process.env, ...asked.browser.environment },
  headless: "shell",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en-US"],
});
try {
  const page = await browser.newPage();
  await page.setViewport({ width: 1100, height: 620 });
  await page.goto(asked.link);
  await page.waitForFunction(() => location.pathname.startsWith("/runs"));
  for (const [name, path] of Object.entries(asked.pages)) {
    await page.goto(asked.address + path);
    // A run that is opened for the first time is read first.
    while (/being made/.test(await page.evaluate(() => document.body.innerText))) await page.reload();
    if (name === "live") await page.waitForFunction(() => document.querySelectorAll("main tbody tr").length > 3);
    await page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));
    await page.screenshot({ path: join(asked.images, `${name}.png`) });
  }
} finally {
  await browser.close();
}
