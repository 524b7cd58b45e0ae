// The site in a headless Chromium, opened from files, as somebody has it who unpacks it: the
// search finds a heading and leads there, the menu and links work, nothing is asked of a network.
//
//   make site-browser     (needs node, npm, and Debian's chromium)

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const home = new URL("../../bin/site/public/index.html", import.meta.url);
let browser, page;
const asked = [], wrong = [];

before(async () => {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox"] });
  page = await browser.newPage({ viewport: { width: 1000, height: 800 } });
  page.on("request", (r) => { if (!r.url().startsWith("file:")) asked.push(r.url()); });
  page.on("requestfailed", (r) => wrong.push(r.url()));
  page.on("pageerror", (e) => wrong.push(String(e)));
  page.on("console", (m) => { if (m.type() === "error") wrong.push(m.text()); });
});

after(async () => { await browser?.close(); });

test("the search finds a heading, and leads to it", async () => {
  await page.goto(home.href);
  await page.keyboard.press("/");
  await page.keyboard.type("repeating safely");
  const first = page.locator("#found li a").first();
  await first.waitFor();
  assert.match(await first.innerText(), /Repeating safely/);
  await first.click();
  await page.waitForURL(/reference\/protocol(\.html|\/index\.html|\/)?#repeating-safely$/);
  const heading = page.locator("#repeating-safely");
  assert.equal((await heading.innerText()).trim(), "Repeating safely");
  const box = await heading.boundingBox();
  assert.ok(box.y > -50 && box.y < 800, `the heading is at ${box.y}`);
});

test("a misspelt word is found, one that is nowhere is not, Escape closes", async () => {
  await page.goto(home.href);
  await page.fill("#search", "shedules");
  await page.locator("#found li a", { hasText: "Schedules" }).first().waitFor();
  await page.fill("#search", "xyzzyplugh");
  assert.match(await page.locator("#found").innerText(), /Nothing found/);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#found").isVisible(), false);
});

test("the menu and links lead from page to page", async () => {
  await page.goto(home.href);
  await page.locator("nav summary", { hasText: "Understand" }).click();
  await page.locator("nav a", { hasText: "Guarantees" }).first().click();
  await page.locator("main h1", { hasText: "Guarantees" }).waitFor();
  assert.equal(await page.locator("nav a[aria-current=page]").count(), 1);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 1000, `the page is ${width} wide`);
  await page.setViewportSize({ width: 360, height: 700 });
  const narrow = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(narrow <= 360, `on a telephone it is ${narrow} wide`);
});

test("nothing was asked of a network, and nothing failed", () => {
  assert.deepEqual(asked, []);
  assert.deepEqual(wrong, []);
  assert.ok(fileURLToPath(home));
});
