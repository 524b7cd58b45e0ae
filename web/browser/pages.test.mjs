// The dashboard in a headless Chromium, against three nodes: what is shown is so, what is
// clicked happens, and nothing that a task carries can do more than be read.
//
//   make pages        (needs node, npm, and Debian's chromium)
//
// NORN is the binary, CHROMIUM the browser, SHOTS a directory for pictures of every page, PICTURES one for those of
// the docs.

import assert from "node:assert/strict";
import { spawn, execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const norn = process.env.NORN || "norn";
const limit = 30_000; // for anything that is waited for
const running = [];
let dir, browser, cluster;

// port finds one that is free with the 40 after it, as norn dev takes ten a node.
async function port() {
  const free = (p) => new Promise((yes) => {
    const s = createServer().once("error", () => yes(false)).listen(p, "127.0.0.1", () => s.close(() => yes(true)));
  });
  for (;;) {
    const p = 20000 + Math.floor(Math.random() * 900) * 10 + 1;
    if ((await Promise.all([0, 1, 2, 10, 11, 12, 20, 21, 22].map((n) => free(p + n)))).every(Boolean)) return p;
  }
}

// dev starts nodes and waits until all lead.
async function dev(nodes, ...flags) {
  const p = await port();
  const child = spawn(norn, ["dev", "--nodes", nodes, "--base-port", p, "--data", join(dir, "dev" + p), "-o", "json", ...flags], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  child.stderr.on("data", (d) => { said += d; });
  running.push(child);
  await new Promise((yes, no) => {
    child.stdout.once("data", yes);
    child.once("exit", (code) => no(new Error(`norn dev ended with ${code}: ${said}`)));
    setTimeout(() => no(new Error("norn dev is not ready: " + said)), 2 * limit).unref();
  });
  const addr = Array.from({ length: nodes }, (_, i) => `127.0.0.1:${p + 10 * i}`).join(",");
  const cli = async (...args) => (await promisify(execFile)(norn, args, { env: { ...process.env, NORN_ADDR: addr } })).stdout.trim();
  return { cli, addr, at: `http://127.0.0.1:${p + 2}/` };
}

before(async () => {
  dir = await mkdtemp(join(tmpdir(), "norn-pages-"));
  [cluster, browser] = await Promise.all([dev(3), chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox"] })]);
});

after(async () => {
  await browser?.close();
  await Promise.all(running.map((c) => new Promise((yes) => {
    if (c.exitCode !== null) return yes();
    c.once("exit", yes);
    c.kill("SIGTERM");
  })));
  await rm(dir, { recursive: true, force: true });
});

// page opens a page of the dashboard. Whatever the browser complains about fails the test.
async function page(t, at, options = {}) {
  const p = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  const wrong = [];
  p.on("pageerror", (e) => wrong.push(e.stack));
  p.on("console", (m) => { if (m.type() === "error" || /Content Security Policy/.test(m.text())) wrong.push(m.text()); });
  p.setDefaultTimeout(limit);
  t.after(async () => {
    if (process.env.SHOTS) await p.screenshot({ path: join(process.env.SHOTS, t.name.replaceAll(" ", "-") + ".png"), fullPage: true });
    await p.close();
    assert.deepEqual(wrong.filter((w) => !options.expects?.test(w)), []);
  });
  await p.goto((options.base || cluster.at) + at);
  return p;
}

const eventually = async (what, f) => {
  const until = Date.now() + limit;
  for (;;) {
    const got = await f();
    if (got) return got;
    if (Date.now() > until) assert.fail("never so: " + what);
    await new Promise((yes) => setTimeout(yes, 100));
  }
};

test("overview", async (t) => {
  await cluster.cli("task", "enqueue", "-q", "overview", "one");
  const p = await page(t, "");
  await p.getByRole("link", { name: "no worker takes queue overview, and 1 task is ready" }).waitFor(); // what needs somebody, and what to do
  await p.getByText("norn work -q overview").waitFor();
  await p.getByRole("link", { name: "3 of 3 nodes up" }).waitFor();
  await p.getByRole("row", { name: /^overview 1 0 0 0 0/ }).waitFor();
  assert.equal(await p.locator(".chart canvas").count(), 2);
  await cluster.cli("task", "enqueue", "-q", "overview", "two"); // seen without a click
  await p.getByRole("row", { name: /^overview 2 0 0 0 0/ }).waitFor();
  for (const [name, title] of [["Queues", "Queues"], ["Tasks", "Tasks"], ["Schedules", "Schedules"], ["Workers", "Workers"], ["Cluster", "Cluster"]]) {
    await p.getByRole("navigation", { name: "pages" }).getByRole("link", { name }).click();
    await p.getByRole("heading", { level: 1, name: title }).waitFor();
    await eventually("the title of " + title, async () => new RegExp(title).test(await p.title())); // it follows the heading
  }
  await p.goBack();
  await p.getByRole("heading", { level: 1, name: "Workers" }).waitFor();
});

// What an operator meets at night: a queue that is paused with work, one that nobody takes, a
// schedule that has paused itself. The overview names all three within five seconds, explain
// tells them apart, and each link leads there.
test("three causes at three in the morning", async (t) => {
  const { cli } = cluster, lines = join(dir, "lines");
  await writeFile(lines, "x\n".repeat(800));
  await cli("schedule", "set", "report", "--cron", "@every 1s", "-q", "reports", "--pause-on-failure", "--max-attempts", "1");
  const claimed = await eventually("a launch", async () => JSON.parse(await cli("task", "claim", "-q", "reports", "-o", "json"))[0]);
  const task = claimed.task || claimed;
  await cli("task", "fail", task.id, String(claimed.token || claimed.claim.token), "--error", "the disk of the reports is gone", "--discard");
  await eventually("the schedule pauses itself", async () => /"paused":\s*true/.test(await cli("schedule", "get", "report", "-o", "json")));
  await cli("queue", "pause", "sms", "--note", "provider is down");
  const [paused] = (await cli("task", "enqueue", "-q", "sms", "--lines", lines)).split("\n");
  await writeFile(lines, "x\n".repeat(600));
  const [alone] = (await cli("task", "enqueue", "-q", "pdf", "--lines", lines)).split("\n");
  const begun = Date.now(), p = await page(t, "");
  const names = [/queue sms is paused .*provider is down.* and 800 tasks are ready/, /no worker takes queue pdf, and 600 tasks are ready/, /schedule report has paused itself: paused because task/];
  for (const name of names) await p.getByRole("link", { name }).waitFor({ timeout: 5000 });
  assert.ok(Date.now() - begun < 5000, `it took ${Date.now() - begun} ms`);
  assert.match(await cli("cluster", "attention"), /queue sms is paused[\s\S]*no worker takes queue pdf[\s\S]*schedule report has paused itself/);
  assert.match(await cli("task", "explain", paused), /paused/);
  assert.match(await cli("task", "explain", alone), /no worker|nobody|No worker|asks/);
  await p.getByRole("link", { name: names[0] }).click();
  await p.getByRole("heading", { level: 1, name: "Queue sms" }).waitFor();
  await p.goBack();
  await p.getByRole("link", { name: names[2] }).click();
  await p.getByRole("heading", { level: 1, name: "Schedule report" }).waitFor();
  await p.goBack();
  await p.getByRole("link", { name: names[0] }).waitFor(); // for the picture
  await cli("queue", "resume", "sms");
  await p.getByRole("link", { name: /no worker takes queue sms, and 800 tasks are ready/ }).waitFor();
  await cli("schedule", "delete", "report");
});

test("values as people read them", async (t) => {
  const p = await page(t, "");
  const got = await p.evaluate(async () => {
    const f = await import("/pages/format.js"), { newID } = await import("/pages/ids.js");
    const base = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
    return {
      json: f.show(base('{"a":1.10,"a":[ ],"b":{"c":"x, \\"{y}: z"},"n":12345678901234567890}')).text,
      text: f.show(base("zwölf\n")), bytes: f.show(btoa("\x00\xff")).kind, cut: f.show(base("ö".repeat(9)), 9),
      nothing: f.show(""), broken: f.show(base("[1, 2")).kind, brief: f.brief(base("ö".repeat(300))), binary: f.brief(btoa("\xff\xfe\x00")),
      spans: [0, 0.0123, 5, 65, 3600, 90061, -7.25].map(f.span), size: f.size(1536), id: newID(),
      panic: f.errorOf("panic: a\nb\n\ngoroutine 1 [running]:\nmain"), plain: f.errorOf("exit status 1: a\n\nb"), none: f.errorOf(undefined),
    };
  });
  assert.deepEqual([got.panic, got.plain, got.none], [
    { message: "panic: a\nb", stack: "goroutine 1 [running]:\nmain" }, { message: "exit status 1: a\n\nb", stack: "" }, { message: "", stack: "" },
  ]);
  assert.equal(got.json, `{
  "a": 1.10,
  "a": [],
  "b": {
    "c": "x, \\"{y}: z"
  },
  "n": 12345678901234567890
}`);
  assert.deepEqual(got.text, { kind: "text", text: "zwölf\n", size: 7 });
  assert.deepEqual([got.bytes, got.broken, got.nothing.size], ["bytes", "text", 0]);
  assert.deepEqual(got.cut, { kind: "text", text: "öööö\n… 9 bytes more", size: 18 });
  assert.equal(got.brief, "ö".repeat(80) + "…");
  assert.equal(got.binary, "3 bytes of binary data");
  assert.deepEqual(got.spans, ["0 ms", "12 ms", "5.0 s", "1m 5s", "1h", "1d 1h", "-7.3 s"]);
  assert.equal(got.size, "1.5 KiB");
  assert.equal(await cluster.cli("task", "enqueue", "-q", "ids", "--id", got.id, "x"), got.id);
  const { created_at } = JSON.parse(await cluster.cli("task", "get", got.id, "-o", "json"));
  assert.ok(Math.abs(Date.parse(created_at) - Date.now()) < 60_000, created_at);
});

test("a task's life", async (t) => {
  const { cli } = cluster;
  const first = await cli("task", "enqueue", "-q", "life", '{"n": 1, "big": 12345678901234567890}', "--header", "tenant=7");
  const second = await cli("task", "enqueue", "-q", "life", "--after", first, "second");
  const p = await page(t, "#/tasks/" + second, { expects: /status of 4/ });
  await p.getByRole("heading", { name: "Why it is not done" }).waitFor();
  await p.locator("svg.graph .node").nth(1).waitFor();
  await p.locator("svg.graph a").filter({ hasText: first.slice(-10) }).click();
  await p.getByRole("heading", { level: 1, name: first }).waitFor();
  await p.getByText("12345678901234567890").waitFor(); // not 12345678901234567000
  const [grant] = JSON.parse(await cli("task", "claim", "-q", "life", "-o", "json"));
  await p.locator("p.acts .state.claimed").waitFor();
  for (let seq = 0; seq < 3; seq++) await cli("task", "update", first, grant.token, String(seq), `line ${seq}`);
  await p.locator(".log li").nth(2).getByText("line 2").waitFor();
  await cli("task", "complete", first, grant.token);
  await p.locator("p.acts .state.completed").waitFor();
  await p.getByRole("table", { name: "attempts" }).getByRole("row", { name: /^1 .*completed/ }).waitFor();
  assert.equal(await p.locator("svg.times rect.completed").count(), 1);
  await p.getByRole("searchbox").fill(second);
  await p.getByRole("searchbox").press("Enter");
  await p.locator("p.acts .state.ready").waitFor();
  await p.getByRole("button", { name: "cancel" }).click();
  await p.getByLabel("reason, shown as its error").fill("not needed");
  await p.getByRole("dialog").getByRole("button", { name: "cancel" }).click();
  await p.locator("p.acts .state.cancelled").waitFor();
  await p.locator("p.wrong").getByText("not needed").waitFor();
  assert.equal(JSON.parse(await cli("task", "get", second, "-o", "json")).state, "cancelled");
  await p.getByRole("button", { name: "retry" }).click();
  await p.getByRole("dialog").getByRole("button", { name: "retry" }).click();
  await p.getByRole("dialog").getByText("was cancelled on purpose").waitFor(); // refused, and said why
  await p.keyboard.press("Escape");
  await p.getByRole("dialog").waitFor({ state: "detached" });
});

test("updates go on after a retry", async (t) => {
  const { cli } = cluster;
  const id = await cli("task", "enqueue", "-q", "again", "x");
  const claim = async () => JSON.parse(await cli("task", "claim", "-q", "again", "-o", "json"))[0].token;
  const token = await claim();
  await cli("task", "update", id, token, "0", "of the first run");
  await cli("task", "fail", id, token, "--error", "no", "--discard");
  const p = await page(t, "#/tasks/" + id);
  await p.locator("p.acts .state.dead").waitFor();
  await p.locator(".log li").getByText("of the first run").waitFor();
  await p.getByRole("button", { name: "retry" }).click();
  await p.getByRole("dialog").getByRole("button", { name: "retry" }).click();
  await p.locator("p.acts .state.ready").waitFor();
  await cli("task", "update", id, await claim(), "0", "of the second run");
  await p.locator(".log li").getByText("of the second run").waitFor();
  assert.equal(await p.locator(".log li").count(), 2);
});

test("what a task carries is only read", async (t) => {
  const evil = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>';
  const { cli } = cluster;
  const id = await cli("task", "enqueue", "-q", "evil", evil, "--header", `x=${evil}`, "--max-attempts", "1");
  const [grant] = JSON.parse(await cli("task", "claim", "-q", "evil", "-o", "json"));
  await cli("task", "update", id, grant.token, "0", evil);
  await cli("task", "fail", id, grant.token, "--error", evil);
  const p = await page(t, "#/tasks/" + id, { expects: /status of 400|Content Security Policy/ });
  await p.locator(".log li").getByText("onerror").waitFor();
  await p.locator("p.wrong").getByText("onerror").waitFor();
  await p.locator(".data pre").getByText("onerror").waitFor();
  await p.goto(cluster.at + "#/tasks?queue=evil");
  await p.locator("td.brief").filter({ hasText: "onerror" }).first().waitFor();
  await p.goto(cluster.at + "#/queues/" + encodeURIComponent(evil));
  await p.getByRole("alert").or(p.getByText("no such queue")).first().waitFor();
  assert.equal(await p.evaluate(() => window.broken), undefined);
  assert.equal(await p.locator("main img").count(), 0);
  // Not even a script that got into the page would be run.
  assert.equal(await p.evaluate(() => { const s = document.createElement("script"); s.textContent = "window.broken=1"; document.body.append(s); return window.broken; }), undefined);
});

test("tasks by filter, and all at once", async (t) => {
  const { cli } = cluster;
  const lines = join(dir, "lines");
  await writeFile(lines, Array.from({ length: 2500 }, (_, i) => "task " + i).join("\n"));
  await cli("task", "enqueue", "-q", "many", "--lines", lines);
  await cli("task", "enqueue", "-q", "few", "stays");
  const p = await page(t, "#/tasks?queue=many");
  await p.getByRole("button", { name: "next" }).click();
  await p.getByText("page 2").waitFor();
  assert.equal(await p.locator("tbody tr").count(), 50);
  await p.getByRole("button", { name: "back" }).click();
  await p.getByText("page 1").waitFor();
  await p.getByLabel("pick", { exact: false }).nth(1).check();
  await p.getByLabel("pick", { exact: false }).nth(2).check();
  await p.getByRole("button", { name: "cancel 2 picked" }).click();
  await p.getByRole("dialog").getByRole("button", { name: "cancel 2 picked" }).click();
  await eventually("two are cancelled", async () => JSON.parse(await cli("task", "count", "-q", "many", "-o", "json")).cancelled == 2);
  await p.getByRole("button", { name: "cancel all found" }).click();
  await p.getByRole("button", { name: "cancel 2,498" }).click();
  await p.getByText("2,498 cancelled: done").waitFor();
  await p.getByRole("button", { name: "close" }).click();
  assert.equal(JSON.parse(await cli("task", "count", "-q", "many", "-o", "json")).cancelled, "2500");
  assert.equal(JSON.parse(await cli("task", "count", "-q", "few", "-o", "json")).ready, "1");
  await p.getByLabel("queue", { exact: true }).fill("few");
  await p.getByLabel("ready").check();
  // The page is drawn again every second: what was typed stays.
  const age = () => p.locator("tbody time").first().textContent(), was = await age();
  await eventually("an age changes", async () => (await age()) !== was);
  assert.equal(await p.getByLabel("queue", { exact: true }).inputValue(), "few");
  assert.ok(await p.getByLabel("ready").isChecked());
  await p.getByRole("button", { name: "show" }).click();
  await p.getByRole("row", { name: /stays/ }).waitFor();
  assert.match(p.url(), /queue=few&states=ready/);
});

test("a filter that cannot be read finds nothing", async (t) => {
  const { cli } = cluster;
  await cli("task", "enqueue", "-q", "unread", "--header", "path=a,b", "found");
  await cli("task", "enqueue", "-q", "unread", "--header", "tenant=7", "other");
  const p = await page(t, "#/tasks?queue=unread");
  const read = async (filter, says) => {
    if (filter) await p.evaluate((to) => { location.hash = to; }, filter);
    await p.getByText(says).waitFor();
    assert.equal(await p.getByRole("button", { name: "cancel all found" }).count(), 0);
    assert.equal(await p.locator("tbody tr").count(), 0);
  };
  await p.getByRole("row", { name: /other/ }).waitFor();
  await p.getByText("more", { exact: true }).click();
  await p.getByLabel("headers").fill("tenant");
  await p.getByRole("button", { name: "show" }).click();
  await read("", /header "tenant" is not name=value/);
  await read("#/tasks?queue=unread&states=failed", /state "failed" is none of/);
  await read("#/tasks?queue=unread&state=dead", /"state" is no condition/);
  await read("#/tasks?error_contains=why?&queue=unread&queue=many", /queue is there twice/);
  await p.evaluate(() => { location.hash = "#/tasks?queue=unread"; });
  await p.getByRole("row", { name: /other/ }).waitFor();
  await p.getByText("more", { exact: true }).click();
  await p.getByLabel("headers").fill("path=a,b"); // a value may have commas
  await p.getByRole("button", { name: "show" }).click();
  await eventually("one is found", async () => (await p.locator("tbody tr").count()) === 1);
  await p.getByRole("row", { name: /found/ }).waitFor();
});

test("kinds, tags and payloads", async (t) => {
  const { cli } = cluster;
  const id = await cli("task", "enqueue", "-q", "sorts", "--kind", "<b>send</b>", "--tag", "vip", "--tag", "eu", '{"user":{"id":7},"text":"needle"}');
  await cli("task", "enqueue", "-q", "sorts", "--kind", "other", "--tag", "eu", '{"user":{"id":8}}');
  const p = await page(t, "#/tasks?queue=sorts");
  await p.getByRole("row", { name: /<b>send<\/b>/ }).waitFor(); // as text
  for (const filter of ["kind=%3Cb%3Esend%3C/b%3E", "tag=eu&tag=vip", "payload_contains=needle", "value=user.id%3D7"]) {
    await p.evaluate((to) => { location.hash = to; }, "#/tasks?queue=sorts&" + filter);
    await eventually(filter + " finds one", async () => (await p.locator("tbody tr").count()) === 1);
    await p.getByRole("row", { name: /needle/ }).waitFor();
  }
  await p.getByLabel("tags").fill("eu, vip");
  await p.getByLabel("values in payloads").fill("user.id=8");
  await p.getByRole("button", { name: "show" }).click();
  await p.getByText("no task matches").waitFor();
  await p.evaluate((to) => { location.hash = to; }, "#/tasks/" + id);
  await p.getByRole("link", { name: "<b>send</b>" }).waitFor();
  await p.getByRole("link", { name: "vip" }).click();
  await p.getByRole("row", { name: /needle/ }).waitFor();
});

test("queues", async (t) => {
  const { cli } = cluster;
  await cli("task", "enqueue", "-q", "a/b-c", "x");
  const p = await page(t, "#/queues");
  await p.getByRole("row", { name: /^a\/b-c/ }).getByRole("link", { name: "a/b-c" }).click();
  await p.getByRole("heading", { level: 1, name: "Queue a/b-c" }).waitFor();
  await p.getByRole("button", { name: "pause" }).click();
  await p.getByLabel("note, shown to others").fill("deploy");
  await p.getByRole("dialog", { name: "" }).getByRole("button", { name: "pause" }).click();
  await p.locator("p.acts .state.paused").waitFor();
  const q = JSON.parse(await cli("queue", "get", "a/b-c", "-o", "json"));
  assert.match(JSON.stringify(q), /"paused":\s*true.*deploy/s);
  await p.getByRole("button", { name: "resume" }).click();
  await cli("queue", "resume", "a/b-c"); // somebody else does: the question goes, and does not become the other one
  await p.locator("p.acts .state.open").waitFor();
  assert.equal(await p.getByRole("dialog").count(), 0);
  await cli("queue", "pause", "a/b-c");
  await p.getByRole("button", { name: "resume" }).click();
  await p.getByRole("dialog").getByRole("button", { name: "resume" }).click();
  await p.locator("p.acts .state.open").waitFor();
});

// Ten thousand names are searched and put in order by the server; what is shown stays within a page.
test("queues by part of a name, in an order", async (t) => {
  const { cli } = cluster;
  for (const [name, n] of [["sorted/a", 1], ["sorted/b", 3], ["sorted/c", 2]]) {
    const lines = join(dir, "lines");
    await writeFile(lines, "x\n".repeat(n));
    await cli("task", "enqueue", "-q", name, "--lines", lines);
  }
  const p = await page(t, "#/queues");
  const part = p.getByRole("searchbox", { name: "part of a name" });
  await part.waitFor();
  await eventually("a slash goes to the search", async () => {
    await p.keyboard.press("/");
    return part.evaluate((e) => e === document.activeElement);
  });
  await part.fill("SORTED/"); // a slash that came twice is in the field
  await p.getByText("3 queues with").waitFor();
  const names = () => p.getByRole("table", { name: "queues" }).locator("tbody th").allInnerTexts();
  assert.deepEqual(await names(), ["sorted/a", "sorted/b", "sorted/c"]);
  await p.getByRole("button", { name: "ready", exact: true }).click();
  await p.locator("th[aria-sort=descending]").getByText("ready").waitFor();
  await eventually("the fullest first", async () => (await names()).join() === "sorted/b,sorted/c,sorted/a");
  await p.getByRole("button", { name: "ready", exact: true }).click();
  await eventually("the emptiest first", async () => (await names()).join() === "sorted/a,sorted/c,sorted/b");
  assert.match(p.url(), /contains=SORTED/);
  await p.reload(); // the address keeps it
  await eventually("still so", async () => (await names()).join() === "sorted/a,sorted/c,sorted/b");
});

test("settings of a queue, purge and delete", async (t) => {
  const { cli } = cluster, lines = join(dir, "lines");
  await writeFile(lines, "x\n".repeat(1234));
  await cli("task", "enqueue", "-q", "tuned", "--lines", lines);
  const p = await page(t, "#/queues/tuned", { expects: /status of 404/ }); // once it is deleted
  await p.getByText("edit settings").click();
  const form = p.getByRole("form", { name: "settings of tuned" });
  await form.getByLabel("lease, seconds").fill("45");
  await form.getByLabel("attempts, at most").fill("7");
  await form.locator("select[name=retention]").selectOption("keep");
  await form.getByRole("button", { name: "save" }).click();
  await p.getByText("3 settings are changed").waitFor();
  const { settings } = JSON.parse(await cli("queue", "get", "tuned", "-o", "json"));
  assert.deepEqual([settings.lease_seconds, settings.retry.max_attempts, settings.retention], [45, 7, "keep"]);
  await form.getByLabel("lease, seconds").fill(""); // as the servers have it
  await form.getByRole("button", { name: "save" }).click();
  await eventually("it is unset", async () => JSON.parse(await cli("queue", "get", "tuned", "-o", "json")).settings.lease_seconds === 0);
  await form.getByLabel("backoff varies").fill("7");
  await form.getByRole("button", { name: "save" }).click(); // the browser refuses it
  assert.equal(await form.evaluate((f) => f.checkValidity()), false);
  assert.ok(await p.getByRole("button", { name: "delete" }).isDisabled());
  await p.getByRole("button", { name: "pause" }).click();
  await p.getByRole("dialog").getByText("1,234 ready").waitFor(); // how many
  await p.keyboard.press("Escape");
  await p.getByRole("button", { name: "purge" }).click();
  await p.getByRole("dialog").getByText("1,234").first().waitFor();
  await p.getByRole("button", { name: "purge 1,234" }).click();
  await p.getByText("1,234 cancelled: done").waitFor();
  await p.getByRole("button", { name: "close" }).click();
  await eventually("it can be deleted", () => p.getByRole("button", { name: "delete" }).isEnabled());
  await p.getByRole("button", { name: "delete" }).click();
  await p.getByRole("dialog").getByText("1,234 cancelled").waitFor();
  await p.getByRole("dialog").getByRole("button", { name: "delete" }).click();
  await eventually("it is gone", async () => !(await cli("queue", "list", "-o", "json")).includes("tuned"));
});

test("a task is enqueued", async (t) => {
  const { cli } = cluster;
  const p = await page(t, "#/tasks?queue=typed", { expects: /status of 4/ });
  await p.getByRole("link", { name: "enqueue a task" }).click();
  await p.getByRole("heading", { level: 1, name: "Enqueue a task" }).waitFor();
  const form = p.getByRole("form", { name: "task" });
  assert.equal(await form.getByLabel("queue", { exact: true }).inputValue(), "typed");
  await form.getByLabel("kind").fill("send");
  await form.getByLabel("tags").fill("vip, eu");
  await form.getByLabel("headers").fill("tenant=7, path=a,b");
  await form.getByLabel("delay").fill("3600");
  await form.getByLabel("payload", { exact: true }).fill('{"n": 12345678901234567890');
  await form.getByLabel("JSON").check();
  await p.getByText("The payload is no JSON").waitFor();
  await form.getByLabel("payload", { exact: true }).fill('{"n": 12345678901234567890}');
  await p.getByText("what is sent").click();
  await p.locator("pre").getByText('"kind": "send"').waitFor();
  await form.getByRole("button", { name: "enqueue" }).click();
  await p.getByText("Enqueued:").waitFor();
  const id = await p.locator(".outcome a.id").innerText(), got = JSON.parse(await cli("task", "get", id, "-o", "json"));
  assert.deepEqual([got.queue, got.kind, got.tags, got.headers, got.state], ["typed", "send", ["vip", "eu"], { tenant: "7", path: "a,b" }, "scheduled"]);
  assert.equal(Buffer.from(got.payload, "base64").toString(), '{"n": 12345678901234567890}');
  await form.getByLabel("queue", { exact: true }).fill("no such name!");
  await form.getByRole("button", { name: "enqueue" }).click();
  await p.getByRole("alert").getByText("queue").waitFor();
});

test("a schedule is made and edited", async (t) => {
  const { cli } = cluster;
  const p = await page(t, "#/schedules", { expects: /status of 4/ });
  await p.getByRole("link", { name: "new schedule" }).click();
  const form = p.getByRole("form", { name: "schedule" });
  await form.getByLabel("name", { exact: true }).fill("typed");
  await form.getByLabel("queue", { exact: true }).fill("typed");
  await form.getByLabel("times", { exact: true }).fill("61 * * * *");
  await p.getByRole("alert").waitFor();
  assert.ok(await form.getByRole("button", { name: "create" }).isDisabled());
  await form.getByLabel("times", { exact: true }).fill("30 2 * * *");
  await form.getByLabel("time zone").fill("Europe/Berlin");
  await form.getByLabel("payload", { exact: true }).fill("of the form");
  await eventually("ten times are shown", async () => (await p.getByRole("table", { name: "next times" }).locator("tbody tr").count()) === 10);
  assert.ok(!(await cli("schedule", "list", "-o", "json")).includes('"typed"')); // nothing yet
  await form.getByRole("button", { name: "create" }).click();
  await p.getByRole("heading", { level: 1, name: "Schedule typed" }).waitFor();
  await p.getByText("of the form").waitFor();
  await p.getByRole("link", { name: "edit" }).click();
  await form.getByLabel("times", { exact: true }).fill("45 3 * * *");
  await form.getByLabel("when one still runs").selectOption("skip");
  await eventually("the preview follows", async () => (await p.getByRole("table", { name: "next times" }).innerText()).includes("03:45:00"));
  await form.getByRole("button", { name: "save" }).click();
  await p.getByRole("heading", { level: 1, name: "Schedule typed" }).waitFor();
  const s = JSON.parse(await cli("schedule", "get", "typed", "-o", "json")), spec = (s[0] || s).spec;
  assert.deepEqual([spec.cron, spec.overlap, Buffer.from(spec.task.payload, "base64").toString(), spec.time_zone], ["45 3 * * *", "skip", "of the form", "Europe/Berlin"]);
  await cli("schedule", "delete", "typed");
});

// What others wait for stands to their left, and no line runs through a task.
test("a picture of diamonds and fan-outs", async (t) => {
  const { cli } = cluster;
  const put = (...after) => cli("task", "enqueue", "-q", "drawn", "x", ...after.flatMap((id) => ["--after", id]));
  const top = await put(), sides = [await put(top), await put(top), await put(top), await put(top)];
  const far = await put(sides[0]), bottom = await put(...sides, far, top);
  const p = await page(t, "#/tasks/" + bottom);
  await p.locator("svg.graph .node").nth(6).waitFor();
  const { nodes, edges } = await p.evaluate(() => ({
    nodes: [...document.querySelectorAll("svg.graph .node")].map((n) => ({ id: n.dataset.id, ...n.getBoundingClientRect().toJSON() })),
    edges: [...document.querySelectorAll("svg.graph .edge")].map((e) => {
      const at = e.getScreenCTM(), points = [];
      for (let l = 0; l <= e.getTotalLength(); l += 2) points.push(new DOMPoint(...(({ x, y }) => [x, y])(e.getPointAtLength(l))).matrixTransform(at).toJSON());
      return { from: e.dataset.from, to: e.dataset.to, points };
    }),
  }));
  const of = Object.fromEntries(nodes.map((n) => [n.id, n]));
  assert.equal(nodes.length, 7);
  assert.equal(edges.length, 4 + 1 + 6);
  for (const e of edges) {
    assert.ok(of[e.from].right <= of[e.to].left, "what is waited for stands to the left");
    for (const n of nodes) {
      if (n.id === e.from || n.id === e.to) continue;
      assert.ok(!e.points.some((q) => q.x > n.left + 1 && q.x < n.right - 1 && q.y > n.top + 1 && q.y < n.bottom - 1), "a line runs through a task");
    }
  }
  const whole = await p.locator("svg.graph").boundingBox();
  for (const e of edges) for (const q of e.points) assert.ok(q.y >= whole.y && q.y <= whole.y + whole.height && q.x >= whole.x && q.x <= whole.x + whole.width, "a line is cut off");
  for (const a of nodes) for (const b of nodes) assert.ok(a === b || a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top, "two tasks overlap");
  await p.goto(cluster.at + "#/tasks/" + top); // the same from its other end: what waits for it
  await p.getByRole("heading", { level: 1, name: top }).waitFor();
  await p.locator("svg.graph .node").nth(6).waitFor();
  assert.equal(await p.locator("svg.graph .edge").count(), 4 + 1 + 6);
  assert.equal(await p.locator(`svg.graph .node.self[data-id="${top}"]`).count(), 1);
  const none = await cli("task", "enqueue", "-q", "drawn", "x");
  await p.goto(cluster.at + "#/tasks/" + none);
  await p.getByRole("heading", { level: 1, name: none }).waitFor();
  await p.getByRole("heading", { name: "Updates" }).waitFor();
  assert.equal(await p.locator("svg.graph").count(), 0);
});

test("an empty server", async (t) => {
  const { at } = await dev(1);
  const p = await page(t, "#/schedules", { base: at });
  await p.getByText("no schedule yet").waitFor();
  assert.equal(await p.getByText(/no master|nobody/).count(), 0); // nothing is wrong
  await p.goto(at + "#/");
  await p.getByText("Nothing is wrong").waitFor();
  await p.goto(at + "#/queues");
  await p.getByText("no queue yet").waitFor();
});

// By keys alone, with names for all that can be used, and without a jump while it loads.
test("keys, names and no jumps", async (t) => {
  const { cli } = cluster;
  await cli("task", "enqueue", "-q", "calm", "x");
  for (const at of ["", "#/queues", "#/queues/calm", "#/tasks", "#/schedules", "#/workers", "#/cluster", "#/enqueue", "#/edit-schedule"]) {
    const p = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await p.addInitScript(() => {
      window.jumped = 0;
      new PerformanceObserver((l) => { for (const e of l.getEntries()) if (!e.hadRecentInput) window.jumped += e.value; }).observe({ type: "layout-shift", buffered: true });
    });
    await p.goto(cluster.at + at);
    await p.locator("main h1").waitFor();
    await eventually("the page is there", async () => (await p.locator("main [aria-busy=true]").count()) === 0);
    const { jumped, nameless } = await p.evaluate(() => ({
      jumped: window.jumped,
      nameless: [...document.querySelectorAll("main button, main input, main select, main textarea, main a")].filter((e) => !(e.getAttribute("aria-label") || e.labels?.length || e.textContent.trim() || e.title)).map((e) => e.outerHTML),
    }));
    assert.ok(jumped < 0.1, `${at} jumps by ${jumped}`);
    assert.deepEqual(nameless, [], at);
    await p.close();
  }
  const p = await page(t, "");
  await p.locator("main h1").waitFor();
  await p.keyboard.press("Tab");
  assert.equal(await p.evaluate(() => document.activeElement.textContent), "to the content");
  await p.keyboard.press("Enter");
  assert.equal(await p.evaluate(() => document.activeElement.id), "main");
  for (const [key, title] of [["q", "Queues"], ["w", "Workers"], ["o", "Overview"]]) {
    await eventually("g and " + key + " go to " + title, async () => { // within a second and a half: a busy machine may need another try
      await p.keyboard.press("g");
      await p.keyboard.press(key);
      return p.getByRole("heading", { level: 1, name: title }).isVisible();
    });
  }
});

// Each state in light and dark, as people see it: SHOTS says where to.
test("pictures", { skip: !process.env.SHOTS }, async (t) => {
  const { cli, addr } = cluster, lines = join(dir, "lines");
  await writeFile(lines, "x\n".repeat(40));
  await cli("task", "enqueue", "-q", "shown/mail", "--kind", "send", "--tag", "vip", "--lines", lines);
  const failed = await cli("task", "enqueue", "-q", "shown/pdf", "--max-attempts", "3", '{"invoice": 17}');
  for (let i = 0; i < 2; i++) {
    const [grant] = await eventually("it is ready", async () => { const all = JSON.parse(await cli("task", "claim", "-q", "shown/pdf", "-o", "json")); return all.length ? all : null; });
    await cli("task", "update", failed, grant.token, "0", `page ${i + 1} of 3 is drawn`);
    await cli("task", "fail", failed, grant.token, "--error", "render: the font of page 3 is missing, and the printer does not answer either", "--retry-in", "1s");
  }
  await cli("schedule", "set", "shown", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "-q", "shown/mail", "nightly");
  const worker = spawn(norn, ["work", "-q", "shown/mail", "--name", "shown-1", "--slots", "3", "--", "sh", "-c", "cat >/dev/null; sleep 60"], { env: { ...process.env, NORN_ADDR: addr }, stdio: "ignore" });
  running.push(worker);
  await eventually("it works", async () => JSON.parse(await cli("task", "count", "-q", "shown/mail", "-o", "json")).claimed >= 1);
  const pages = { overview: "", queues: "#/queues?by=ready&down=true", queue: "#/queues/shown%2Fmail", tasks: "#/tasks?queue=shown%2Fpdf", task: "#/tasks/" + failed, enqueue: "#/enqueue?queue=shown%2Fmail",
    schedules: "#/schedules", schedule: "#/schedules/shown", "edit-schedule": "#/edit-schedule?name=shown", workers: "#/workers", worker: "#/workers/shown-1", cluster: "#/cluster" };
  for (const [size, viewport] of [["", { width: 1400, height: 900 }], ["-phone", { width: 390, height: 844 }]]) {
    for (const colorScheme of ["light", "dark"]) {
      const p = await page({ after: () => {} }, "", { viewport, colorScheme });
      for (const [name, at] of Object.entries(pages)) {
        await p.goto(cluster.at + at);
        await p.locator("main h1").waitFor();
        await eventually("the page is there", async () => (await p.locator("main [aria-busy=true]").count()) === 0);
        await p.screenshot({ path: join(process.env.SHOTS, `page-${name}${size}-${colorScheme}.png`), fullPage: true });
      }
      await p.close();
    }
  }
  worker.kill("SIGKILL");
  await cli("schedule", "delete", "shown");
});

// The pictures of docs/how-to/dashboard.md, of a cluster of their own: PICTURES says where to.
test("pictures of the docs", { skip: !process.env.PICTURES }, async () => {
  const to = process.env.PICTURES, { cli, addr, at } = await dev(3), lines = join(dir, "lines");
  await mkdir(to, { recursive: true });
  const many = async (n, ...args) => {
    await writeFile(lines, "x\n".repeat(n));
    return (await cli("task", "enqueue", "--lines", lines, ...args)).split("\n");
  };
  const claim = (q) => eventually("one is ready", async () => JSON.parse(await cli("task", "claim", "-q", q, "-o", "json"))[0]);
  await cli("schedule", "set", "report", "--cron", "@every 1s", "-q", "reports", "--pause-on-failure", "--max-attempts", "1");
  const run = await claim("reports");
  await cli("task", "fail", run.task.id, run.token, "--error", "the disk of the reports is gone", "--discard");
  await eventually("the schedule pauses itself", async () => /"paused":\s*true/.test(await cli("schedule", "get", "report", "-o", "json")));
  await cli("schedule", "set", "nightly", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "-q", "mail", "nightly");
  await cli("queue", "pause", "sms", "--note", "provider is down");
  await many(800, "-q", "sms");
  await many(600, "-q", "pdf");
  await many(40, "-q", "mail", "--kind", "send", "--tag", "vip");
  const failed = await cli("task", "enqueue", "-q", "invoices", "--max-attempts", "3", '{"invoice": 17}');
  for (let i = 0; i < 2; i++) {
    const { token } = await claim("invoices");
    await cli("task", "update", failed, token, "0", `page ${i + 1} of 3 is drawn`);
    await cli("task", "fail", failed, token, "--error", "render: the font of page 3 is missing", "--retry-in", "1s");
  }
  const put = (...after) => cli("task", "enqueue", "-q", "build", "x", ...after.flatMap((id) => ["--after", id]));
  const top = await put(), sides = [await put(top), await put(top), await put(top)], bottom = await put(...sides);
  const worker = spawn(norn, ["work", "-q", "mail", "--name", "mailer-1", "--slots", "3", "--", "sh", "-c", "cat >/dev/null; sleep 60"], { env: { ...process.env, NORN_ADDR: addr }, stdio: "ignore" });
  running.push(worker);
  await eventually("it works", async () => JSON.parse(await cli("task", "count", "-q", "mail", "-o", "json")).claimed >= 1);
  const pages = { overview: "", queues: "#/queues?by=ready&down=true", queue: "#/queues/mail", tasks: "#/tasks?queue=mail", task: "#/tasks/" + failed, dependencies: "#/tasks/" + bottom,
    schedules: "#/schedules", worker: "#/workers/mailer-1", cluster: "#/cluster" };
  let bytes = 0;
  for (const colorScheme of ["light", "dark"]) {
    const p = await browser.newPage({ viewport: { width: 1000, height: 680 }, colorScheme });
    p.setDefaultTimeout(limit);
    for (const [name, hash] of Object.entries(pages)) {
      await p.goto(at + hash);
      await p.locator("main h1").waitFor();
      await eventually("the page is there", async () => (await p.locator("main [aria-busy=true]").count()) === 0);
      if (name === "overview") await p.getByRole("link", { name: /schedule report has paused itself/ }).waitFor();
      if (name === "dependencies") await p.locator("svg.graph").scrollIntoViewIfNeeded();
      bytes += (await p.screenshot({ path: join(to, `${name}-${colorScheme}.png`) })).length;
    }
    await p.close();
  }
  worker.kill("SIGKILL");
  assert.ok(bytes < 1_500_000, `the pictures have ${bytes} bytes`);
});

test("dead tasks are tried again", async (t) => {
  const { cli } = cluster;
  for (let i = 0; i < 3; i++) {
    const id = await cli("task", "enqueue", "-q", "broken", String(i), "--max-attempts", "1");
    const [grant] = JSON.parse(await cli("task", "claim", "-q", "broken", "-o", "json"));
    await cli("task", "fail", id, grant.token, "--error", i ? "timeout of smtp" : "no such user");
  }
  const p = await page(t, "#/tasks?queue=broken&states=dead&error_contains=timeout");
  await p.getByRole("row", { name: /timeout of smtp/ }).nth(1).waitFor();
  assert.equal(await p.getByText("no such user").count(), 0);
  await p.getByRole("button", { name: "retry all found" }).click();
  await p.getByRole("button", { name: "retry 2", exact: true }).click();
  await p.getByText("2 retried: done").waitFor();
  const count = JSON.parse(await cli("task", "count", "-q", "broken", "-o", "json"));
  assert.deepEqual([count.ready, count.dead], ["2", "1"]);
});

test("schedules and workers", async (t) => {
  const { cli, addr } = cluster;
  await cli("schedule", "set", "nightly", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "-q", "shed", "payload of it");
  const p = await page(t, "#/schedules");
  await p.getByRole("link", { name: "nightly" }).click();
  await p.getByText("payload of it").waitFor();
  const times = JSON.parse(await cli("schedule", "next", "nightly", "-o", "json")).map((o) => o.local.replace("T", " ") + " " + o.offset);
  assert.deepEqual(await p.getByRole("table", { name: "next times" }).locator("tbody tr td:nth-child(3)").allInnerTexts(), times);
  await p.getByRole("button", { name: "launch now" }).click();
  await p.getByRole("dialog").getByRole("button", { name: "launch now" }).click();
  await p.getByRole("row", { name: /trigger/ }).waitFor();
  assert.equal(JSON.parse(await cli("task", "count", "-q", "shed", "-o", "json")).ready, "1");
  await p.getByRole("button", { name: "pause" }).click();
  await p.getByRole("dialog").getByRole("button", { name: "pause" }).click();
  await p.locator("p.acts .state.paused").waitFor();
  const worker = spawn(norn, ["work", "-q", "shed", "--name", "shard-1", "--", "sh", "-c", "cat; sleep 60"], { env: { ...process.env, NORN_ADDR: addr }, stdio: "ignore" });
  running.push(worker);
  const gone = new Promise((yes) => worker.once("exit", yes));
  await p.goto(cluster.at + "#/workers");
  await p.getByRole("row", { name: /^shard-1 .*1 of/ }).waitFor();
  await p.getByRole("row", { name: /^shard-1/ }).getByRole("button", { name: "kill" }).click();
  await p.getByLabel("reason, shown to the worker").fill("test");
  await p.getByRole("dialog").getByRole("button", { name: "kill" }).click();
  await gone;
  await eventually("it is gone", async () => (await p.getByRole("row", { name: /^shard-1/ }).count()) === 0);
});

test("a worker drains, a schedule goes on, one picked task is tried again", async (t) => {
  const { cli, addr } = cluster, counts = async (queue) => JSON.parse(await cli("task", "count", "-q", queue, "-o", "json"));
  await cli("schedule", "set", "weekly", "--cron", "0 5 * * 1", "--tz", "UTC", "-q", "again", "x", "--paused");
  const p = await page(t, "#/schedules/weekly");
  await p.locator("p.acts .state.paused").waitFor();
  await p.getByRole("button", { name: "resume" }).click();
  await p.getByRole("dialog").getByRole("button", { name: "resume" }).click();
  await p.getByRole("button", { name: "pause" }).waitFor();
  assert.equal(JSON.parse(await cli("schedule", "get", "weekly", "-o", "json")).spec.paused, false);

  const worker = spawn(norn, ["work", "-q", "drained", "--name", "drain-1", "--", "sh", "-c", "cat; sleep 3"], { env: { ...process.env, NORN_ADDR: addr }, stdio: "ignore" });
  running.push(worker);
  const gone = new Promise((yes) => worker.once("exit", yes));
  await cli("task", "enqueue", "-q", "drained", "it is finished first");
  await p.goto(cluster.at + "#/workers");
  const row = p.getByRole("row", { name: /^drain-1 .*1 of/ });
  await row.waitFor();
  await row.getByRole("button", { name: "drain" }).click();
  await p.getByRole("dialog").getByRole("button", { name: "drain" }).click();
  await gone;
  assert.equal((await counts("drained")).completed, "1");

  for (const payload of ["one", "two"]) {
    const id = await cli("task", "enqueue", "-q", "picked", payload, "--max-attempts", "1");
    const [grant] = JSON.parse(await cli("task", "claim", "-q", "picked", "-o", "json"));
    await cli("task", "fail", id, grant.token, "--error", "no");
  }
  await p.goto(cluster.at + "#/tasks?queue=picked&states=dead");
  await p.getByRole("row", { name: /two/ }).getByLabel("pick").check();
  await p.getByRole("button", { name: "retry 1 picked" }).click();
  await p.getByRole("dialog").getByRole("button", { name: "retry 1 picked" }).click();
  await eventually("one is ready", async () => (await counts("picked")).ready === "1");
  assert.equal((await counts("picked")).dead, "1");
  assert.deepEqual(JSON.parse(await cli("task", "list", "-q", "picked", "--state", "ready", "-o", "json")).map((task) => atob(task.payload)), ["two"]);
});

test("cluster", async (t) => {
  const p = await page(t, "#/cluster");
  for (const n of ["n1", "n2", "n3"]) await p.getByRole("table", { name: "nodes" }).getByRole("row", { name: new RegExp("^" + n + " up") }).waitFor();
  assert.equal(await p.locator("svg.ring path:not(.moves)").count(), 64);
  await p.locator("svg.ring path:not(.moves)").nth(40).click();
  await p.locator("tr.picked").getByRole("rowheader", { name: "40" }).waitFor();
  await p.getByRole("button", { name: "compare all replicas now" }).click();
  await p.getByText("All replicas of 64 partitions hold the same").waitFor();
  await p.getByLabel("show").selectOption({ label: "not served (0)" });
  await p.getByRole("table", { name: "partitions" }).getByText("none").waitFor();
});

// An error is read without scrolling sideways, at 1,400 pixels and on a phone.
test("errors are read as they are", async (t) => {
  const { cli } = cluster, error = "smtp: 450 4.7.1 the mailbox is busy, and this line is long enough that no table of a phone has it in one line";
  const id = await cli("task", "enqueue", "-q", "wrong", "x", "--max-attempts", "1");
  const [grant] = JSON.parse(await cli("task", "claim", "-q", "wrong", "-o", "json"));
  await cli("task", "fail", id, grant.token, "--error", error);
  for (const width of [1400, 390]) {
    for (const at of ["#/tasks?queue=wrong", "#/tasks/" + id, "#/queues/wrong"]) {
      const p = await page({ name: `error ${width}`, after: () => {} }, at, { viewport: { width, height: 850 } });
      const seen = p.locator("main table").getByText(error).first();
      await seen.waitFor();
      const box = await seen.boundingBox();
      assert.ok(box.x >= 0 && box.x + box.width <= width, `${at} at ${width}: from ${box.x} to ${box.x + box.width}`);
      await p.close();
    }
  }
});

test("on a small screen, in the dark", async (t) => {
  const p = await page(t, "", { viewport: { width: 380, height: 740 }, colorScheme: "dark" });
  for (const at of ["", "#/queues", "#/tasks", "#/schedules", "#/workers", "#/cluster"]) {
    await p.goto(cluster.at + at);
    await p.locator("main table").first().waitFor();
    const over = await p.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(over <= 0, `${at || "overview"} is ${over} pixels too wide`);
  }
  const [back] = (await p.evaluate(() => getComputedStyle(document.body).backgroundColor)).match(/\d+/);
  assert.ok(Number(back) < 60);
});

test("a node that stops and comes back", async (t) => {
  const one = await dev(1);
  const p = await page(t, "", { base: one.at, expects: /Failed to load resource|ERR_CONNECTION/ });
  await p.getByText("Nothing is wrong").waitFor();
  await p.route("**/api/**", (r) => r.abort());
  await p.getByRole("alert").getByText("the node does not answer").waitFor();
  await p.getByText("Nothing is wrong").waitFor(); // of before, and said to be old
  await p.unroute("**/api/**");
  await p.getByRole("alert").waitFor({ state: "detached" });
});

// nginx with a configuration within http, or null where it is not installed.
async function nginx(t, at) {
  const where = join(dir, "nginx");
  await mkdir(where, { recursive: true });
  await writeFile(join(where, "passwords"), "ann:{PLAIN}pass\n");
  await writeFile(join(where, "conf"), `daemon off; master_process off; pid ${where}/pid; error_log stderr;
    events {}
    http {
      access_log off;
      client_body_temp_path ${where}/1; proxy_temp_path ${where}/2; fastcgi_temp_path ${where}/3; uwsgi_temp_path ${where}/4; scgi_temp_path ${where}/5;
      server {
        listen 127.0.0.1:${at.port};
        location /norn/ { proxy_pass ${at.to}; auth_basic norn; auth_basic_user_file ${where}/passwords; }
      }
    }`);
  const child = spawn("nginx", ["-c", join(where, "conf"), "-e", "stderr", "-p", where], { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, PATH: process.env.PATH + ":/usr/sbin" } });
  let said = "", missing = false;
  child.stderr.on("data", (d) => { said += d; });
  await new Promise((yes) => { child.once("spawn", yes); child.once("error", () => { missing = true; yes(); }); });
  if (missing) return false;
  running.push(child);
  await eventually("nginx listens: " + said, () => fetch(`http://127.0.0.1:${at.port}/`).then(() => true, () => false));
  return true;
}

// Below a path, with a password of the proxy beside the token of the node.
test("behind a proxy", async (t) => {
  const file = join(dir, "token of the proxied");
  await writeFile(file, "a-secret-of-this-test\n", { mode: 0o600 });
  const [node, free] = [await dev(1, "--auth-token-file", file), await port()];
  if (!await nginx(t, { port: free, to: node.at })) return t.skip("nginx is not installed");
  const cli = async (...args) => (await promisify(execFile)(norn, args, { env: { ...process.env, NORN_ADDR: node.addr, NORN_AUTH_TOKEN_FILE: file } })).stdout.trim();
  const id = await cli("task", "enqueue", "-q", "proxied", "payload");
  const p = await page(t, "", { base: `http://127.0.0.1:${free}/norn/`, expects: /401/, httpCredentials: { username: "ann", password: "pass" } });
  await p.getByLabel("token of this server").fill("a-secret-of-this-test");
  await p.getByRole("button", { name: "go on" }).click();
  await p.getByRole("row", { name: /^proxied 1 0 0 0 0/ }).waitFor();
  await p.locator(".chart canvas").first().waitFor(); // of /metrics
  await p.getByPlaceholder("ID of a task").fill(id);
  await p.keyboard.press("Enter");
  await p.getByRole("button", { name: "cancel" }).click();
  await p.getByRole("dialog").getByRole("button", { name: "cancel" }).click();
  await p.locator("p.acts .state.cancelled").waitFor();
  assert.equal(JSON.parse(await cli("task", "get", id, "-o", "json")).state, "cancelled");
  assert.match(p.url(), /\/norn\/#\/tasks\//);
});

test("the token", async (t) => {
  const file = join(dir, "token");
  await writeFile(file, "a-secret-of-this-test\n", { mode: 0o600 });
  const { at } = await dev(1, "--auth-token-file", file);
  const p = await page(t, "#/cluster", { base: at, expects: /401/ });
  await p.getByLabel("token of this server").fill("wrong");
  await p.getByRole("button", { name: "go on" }).click();
  await p.getByRole("alert").waitFor();
  await p.getByLabel("token of this server").fill("a-secret-of-this-test");
  await p.getByRole("button", { name: "go on" }).click();
  await p.getByRole("table", { name: "nodes" }).getByRole("row", { name: /^n1 up/ }).waitFor();
  assert.ok(!p.url().includes("secret"));
  await p.reload();
  await p.getByRole("table", { name: "nodes" }).getByRole("row", { name: /^n1 up/ }).waitFor(); // this tab still knows it
  await p.getByRole("button", { name: "sign out" }).click();
  await p.getByLabel("token of this server").waitFor();
});

// What the token may not do is not offered, and what is not its tenant's is not there.
test("the rights of a token", async (t) => {
  const file = join(dir, "token of rights");
  await writeFile(file, "root-of-this-test\n", { mode: 0o600 });
  const { at, cli } = await dev(1, "--auth-token-file", file);
  const root = (...args) => cli(...args, "--auth-token", "root-of-this-test");
  await root("access", "tenant", "set", "acme");
  const viewer = await root("access", "token", "create", "--name", "wall", "--role", "viewer", "--tenant", "acme");
  const operator = await root("access", "token", "create", "--name", "anna", "--role", "operator", "--tenant", "acme");
  for (const queue of ["acme/mail", "acme2/mail", "mail"]) await root("task", "enqueue", "-q", queue, "x");
  const p = await page(t, "#/queues", { base: at, expects: /401|403/ });
  const enter = async (token) => {
    await p.getByLabel("token of this server").fill(token);
    await p.getByRole("button", { name: "go on" }).click();
    await p.getByRole("link", { name: "acme/mail" }).first().waitFor();
  };
  await enter(viewer);
  await p.getByText("wall (acme)").waitFor();
  assert.equal(await p.getByText("acme2/mail").count(), 0);
  await p.getByRole("link", { name: "acme/mail" }).first().click();
  await p.getByRole("heading", { name: "acme/mail" }).waitFor();
  await p.getByText("wall (acme)").waitFor();
  assert.equal(await p.getByRole("button", { name: "pause" }).count(), 0);
  await p.getByRole("button", { name: "sign out" }).click();
  await p.getByLabel("token of this server").fill(operator);
  await p.getByRole("button", { name: "go on" }).click();
  await p.getByText("anna (acme)").waitFor();
  await p.getByRole("button", { name: "pause" }).waitFor();
});

// On every page, of who sees all and may do nothing; and of who could when the question was asked.
test("what the rights of a token do not allow is not offered, and refused all the same", async (t) => {
  const file = join(dir, "token of offers");
  await writeFile(file, "root-of-these-offers\n", { mode: 0o600 });
  const { at, addr, cli } = await dev(1, "--auth-token-file", file);
  const root = (...args) => cli(...args, "--auth-token", "root-of-these-offers");
  const id = await root("task", "enqueue", "-q", "offers", "s3cret");
  await root("schedule", "set", "offered", "--cron", "@yearly", "--tz", "UTC", "-q", "offers", "x");
  const worker = spawn(norn, ["work", "-q", "idle", "--name", "hand-1", "--", "true"], { env: { ...process.env, NORN_ADDR: addr, NORN_AUTH_TOKEN: "root-of-these-offers" }, stdio: "ignore" });
  running.push(worker);
  const viewer = await root("access", "token", "create", "--name", "wall", "--role", "viewer");
  await root("access", "role", "set", "night", "--allow", "see,operate:*");
  const night = await root("access", "token", "create", "--name", "night", "--role", "night");
  const p = await page(t, "#/queues", { base: at, expects: /401|403/ });
  const enter = async (token, name) => {
    await p.getByLabel("token of this server").fill(token);
    await p.getByRole("button", { name: "go on" }).click();
    await p.getByText(name).first().waitFor();
  };
  // Each page, what says that it is there, and what may be done on it.
  const places = [
    ["#/queues/offers", "Queue offers", ["pause", "drain", "delete"]], ["#/tasks/" + id, id, ["retry", "cancel"]], ["#/tasks?queue=offers", "Tasks", ["cancel all found", "retry all found"]],
    ["#/schedules/offered", "Schedule offered", ["pause", "launch now"]], ["#/workers", "Workers", ["drain", "kill"]], ["#/cluster", "Cluster", ["compare all replicas now"]],
  ];
  const visit = async (offered) => {
    for (const [to, title, acts] of places) {
      await p.evaluate((hash) => { location.hash = hash; }, to);
      await p.getByRole("heading", { level: 1, name: title }).waitFor();
      if (to === "#/workers") await p.getByRole("row", { name: /^hand-1/ }).waitFor();
      for (const name of acts) {
        const button = p.getByRole("button", { name, exact: true });
        if (offered) await button.first().waitFor();
        else {
          await p.waitForLoadState("networkidle");
          assert.equal(await button.count(), 0, `${name} is offered on ${to}`);
        }
      }
    }
  };
  await enter("root-of-these-offers", "root");
  await visit(true); // or the test would see nothing missing
  await p.getByRole("button", { name: "sign out" }).click();
  await enter(viewer, "wall");
  await visit(false);
  assert.equal(await p.getByText("s3cret").count(), 0);
  const said = await p.evaluate(async (id) => {
    const token = Object.entries(sessionStorage).find(([k]) => k.startsWith("norn-token"))[1], said = [];
    for (const [method, path, body] of [
      ["PATCH", "queues/offers", { settings: { paused: true }, fields: ["paused"] }], ["DELETE", "queues/offers", {}], ["POST", "tasks/cancel", { ids: [id] }], ["POST", "tasks/retry", { ids: [id] }],
      ["POST", "tasks/bulk", { action: "cancel", queue: "offers", all: true }], ["POST", "schedules", { changes: [{ name: "offered", trigger: {} }] }], ["POST", "workers/hand-1", { action: "kill" }],
      ["POST", "cluster", { repair: {} }], ["GET", "cluster/verify?partitions=0"], ["POST", "access", { list: {} }], ["POST", "tasks", { tasks: [{ queue: "offers" }] }], ["POST", "tasks/claim", { queues: ["offers"], worker: "w", max_tasks: 1 }],
    ]) {
      const r = await fetch("/api/v1/" + path, { method, headers: { "X-Norn-Token": token, "Content-Type": "application/json" }, body: body && JSON.stringify(body) });
      said.push([method + " " + path, r.status, /wall \(role viewer\) may not/.test(await r.text())]);
    }
    return said;
  }, id);
  assert.deepEqual(said.filter(([, status, why]) => status !== 403 || !why), []);
  await p.getByRole("button", { name: "sign out" }).click();
  await enter(night, "night");
  await p.evaluate(() => { location.hash = "#/queues/offers"; });
  await p.getByRole("button", { name: "pause" }).click();
  await root("access", "role", "set", "night", "--allow", "see:*");
  await p.getByRole("dialog").getByRole("button", { name: "pause" }).click();
  await p.getByRole("dialog").getByText("night (role night) may not operate").waitFor();
  const left = JSON.parse(await root("queue", "get", "offers", "-o", "json"));
  assert.deepEqual([left.settings.paused, left.count.ready], [false, "1"]);
});
