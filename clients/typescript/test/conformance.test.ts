// The list of what every client does: clients/conformance.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";

import { Client, Discard, NornError, RetryAfter, Snooze, State, taskID, taskIDBytes, Worker, type Claim, type Handler, type NewTask, type Result, type TaskID } from "../src/index.js";
import { partitionOf } from "../src/ids.js";

interface Step { do: string; with?: Record<string, unknown>; as?: string; via?: string; timeout?: number; want?: Record<string, unknown> }
interface Case { name: string; liar?: unknown[]; steps: Step[] }
type Got = Record<string, unknown>;

const { cases } = parse(readFileSync(new URL("../../conformance/cases.yaml", import.meta.url), "utf8")) as { cases: Case[] };
const addr = process.env["NORN_ADDR"] ?? "127.0.0.1:7711";
const program = process.env["NORN_LIAR"];

/** The program that lies, for all cases of a run. */
class Liar {
  readonly #process = spawn(program ?? "", ["-to", addr], { stdio: ["pipe", "pipe", "inherit"] });
  readonly #lines = createInterface(this.#process.stdout)[Symbol.asyncIterator]();
  #turn: Promise<unknown> = Promise.resolve();

  ask(order: object): Promise<Got> {
    const answer = this.#turn.then(async () => {
      this.#process.stdin.write(JSON.stringify(order) + "\n");
      const got = JSON.parse(String((await this.#lines.next()).value)) as Got;
      if (got["error"]) throw new Error(String(got["error"]));
      return got;
    });
    this.#turn = answer.catch(() => undefined);
    return answer;
  }

  async close(): Promise<void> {
    this.#process.stdin.end();
    await once(this.#process, "exit");
  }
}

/** Compares what was wanted with what came, as README.md says. Gives what is wrong. */
function fits(want: unknown, got: unknown, at = ""): string | undefined {
  if (Array.isArray(want)) {
    if (!Array.isArray(got)) return want.some((w) => !fits(w, got)) ? undefined : `${at}: ${String(got)} is none of ${want.join()}`;
    if (want.length !== got.length) return `${at}: ${JSON.stringify(got)} is not ${JSON.stringify(want)}`;
    return want.map((w, i) => fits(w, got[i], `${at}[${i}]`)).find(Boolean);
  }
  if (want !== null && typeof want === "object") {
    const w = want as { contains?: string; over?: number; under?: number };
    if (w.contains !== undefined) return String(got).includes(w.contains) ? undefined : `${at}: ${String(got)} does not contain ${w.contains}`;
    if (w.over !== undefined || w.under !== undefined) {
      const n = Number(got);
      return n > (w.over ?? -Infinity) && n < (w.under ?? Infinity) ? undefined : `${at}: ${n} is not within ${JSON.stringify(w)}`;
    }
    for (const [name, one] of Object.entries(want)) {
      const g = (got as Got | undefined)?.[name];
      if (g === undefined && one === 0) continue;
      const wrong = fits(one, g, `${at}.${name}`);
      if (wrong) return `${wrong} (all of it: ${show(got)})`;
    }
    return undefined;
  }
  return got === want || (typeof got === "bigint" && Number(got) === want) ? undefined : `${at}: it is ${show(got)}, not ${show(want)}`;
}

const show = (v: unknown): string => JSON.stringify(v, (_, x: unknown) => (typeof x === "bigint" ? Number(x) : x));
const text = (b: Uint8Array): string => new TextDecoder().decode(b);
const of = (r: Result): Got =>
  r instanceof NornError ? { error: r.kind, unknown: r.unknown, state: State[r.state] } : { existed: r.existed, state: State[r.state] };
const one = (r: Result[]): Got => {
  if (r[0] instanceof NornError) throw r[0];
  return of(r[0] as Result);
};

let runs = 0;

class Run {
  readonly queue = `conformance-ts-${process.pid}-${++runs}`;
  readonly tasks = new Map<string, TaskID>();
  readonly claims = new Map<string, Claim[]>();
  constructor(readonly liar: Liar | undefined, readonly at: string, readonly direct: Client, readonly through: Client) {}

  async step(s: Step): Promise<string | undefined> {
    const client = s.via === "server" ? this.direct : this.through;
    client.timeout = s.timeout ?? 30;
    let got: Got;
    try {
      got = await this.do(s, client, s.with ?? {});
    } catch (e) {
      if (e instanceof RangeError) got = { error: "INVALID_ARGUMENT", unknown: false };
      else if (e instanceof NornError && s.want?.["error"]) got = { error: e.kind, unknown: e.unknown, state: State[e.state] };
      else throw e;
    }
    return fits(s.want ?? {}, got);
  }

  task(w: Got): NewTask {
    const t = w as { queue?: string; payload?: string; size?: number; dependencies?: string[]; kind?: string; tags?: string[]; headers?: Record<string, string>; priority?: number; delay?: number; key?: string; max_attempts?: number };
    return {
      queue: t.queue ?? this.queue, payload: t.size ? "x".repeat(t.size) : (t.payload ?? ""), kind: t.kind ?? "", tags: t.tags ?? [],
      headers: t.headers ?? {}, priority: t.priority ?? 0, delay: t.delay ?? 0, key: t.key ?? "", maxAttempts: t.max_attempts ?? 0,
      dependencies: (t.dependencies ?? []).map((d) => this.tasks.get(d) as TaskID),
    };
  }

  granted(s: Step, claims: Claim[]): Got {
    this.claims.set(s.as ?? "", claims);
    return {
      claims: claims.length, payloads: claims.map((c) => text(c.task.payload)), checkpoints: claims.map((c) => text(c.checkpoint)), left: claims[0]?.left(),
    };
  }

  async do(s: Step, c: Client, w: Got): Promise<Got> {
    const claim = this.claims.get(String(w["claim"]))?.[0] as Claim;
    const task = this.tasks.get(String(w["task"])) as TaskID;
    switch (s.do) {
      case "id": {
        const id = taskIDBytes(String(w["text"]));
        return { hex: Buffer.from(id).toString("hex"), text: taskID(id), partition: partitionOf(id, Number(w["partitions"])) };
      }
      case "enqueue": {
        const r = await c.enqueue(this.task(w));
        this.tasks.set(s.as ?? "", r.id);
        return of(r);
      }
      case "enqueue_many":
        return { results: (await c.enqueueMany((w["tasks"] as Got[]).map((t) => this.task(t)))).map(of) };
      case "claim":
        return this.granted(s, await c.claim([this.queue], { max: Number(w["max"] ?? 1), lease: Number(w["lease"] ?? 0), wait: Number(w["wait"] ?? 0), worker: "conformance" }));
      case "renew": {
        const [e] = await c.renew([claim], { lease: Number(w["lease"] ?? 0) });
        if (e) throw e;
        return { left: claim.left() };
      }
      case "update":
        return of(await c.update(claim, String(w["data"])));
      case "complete":
        return of(await c.complete(claim, w["result"] as string | undefined));
      case "fail": {
        const f = w as { error: string; retry_in?: number; uncounted?: boolean; discard?: boolean };
        const state = await c.fail(claim, { error: f.error, uncounted: f.uncounted ?? false, discard: f.discard ?? false, ...(f.retry_in && { retryIn: f.retry_in }) });
        return { state: State[state] };
      }
      case "release":
        return one(await c.release([claim]));
      case "work": {
        const done = await c.work({ completions: [{ claim, result: String(w["result"]) }], want: { queues: [this.queue] } });
        if (done.claimError) throw done.claimError;
        return { ...this.granted(s, done.claims), completed: done.completions.map(of) };
      }
      case "get": {
        const t = await c.get(w["text"] ? taskID(String(w["text"])) : task);
        return {
          state: State[t.state], payload: text(t.payload), size: t.payload.length, attempts: t.attempts, result: text(t.result), error: t.error,
          updates: t.updates.map((u) => text(u.data)), kind: t.kind, tags: t.tags, headers: t.headers, priority: t.priority, max_attempts: t.maxAttempts, claims: t.claims.length,
        };
      }
      case "cancel":
        return one(await c.cancel([task], { reason: String(w["reason"] ?? "") }));
      case "retry":
        return one(await c.retry([task]));
      case "count":
        return { ...(await c.count(this.queue)) };
      case "seen":
        return (await (this.liar as Liar).ask({ seen: this.at }))["seen"] as Got;
      case "worker":
        return await this.worker(c, w as never);
    }
    throw new Error(`no operation ${s.do}`);
  }

  async worker(c: Client, w: { handler: string; until: Got; slots?: number; lease?: number; seconds?: number }): Promise<Got> {
    const handlers: Record<string, Handler> = {
      echo: (job) => job.payload,
      fail: () => Promise.reject(new Error("boom")),
      discard: () => { throw new Discard("hopeless"); },
      "put-off": () => { throw new Snooze(600); },
      slow: (job) => new Promise((resolve, reject) => {
        setTimeout(resolve, (w.seconds ?? 0) * 1000);
        job.signal.addEventListener("abort", () => reject(new Error("aborted")));
      }),
      checkpoint: async (job) => {
        if (job.checkpoint.length) return job.checkpoint;
        await job.update("page 1");
        throw new RetryAfter(0.01);
      },
    };
    const worker = new Worker(c, { queues: { [this.queue]: handlers[w.handler] as Handler }, slots: w.slots ?? 1, lease: w.lease ?? 30, warn: () => undefined });
    const running = worker.run();
    const end = Date.now() + 60_000;
    for (let wrong: string | undefined = "nothing yet"; wrong;) {
      wrong = fits(w.until, await this.direct.count(this.queue));
      if (wrong && Date.now() > end) throw new Error(wrong);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await worker.stop();
    await running;
    return { stopped: true };
  }
}

describe.skipIf(!program)("conformance", () => {
  let liar: Liar;
  beforeAll(() => { liar = new Liar(); });
  afterAll(() => liar.close());

  test("the list is whole", () => expect(cases.length).toBeGreaterThan(40));

  test.concurrent.each(cases.map((c) => [c.name, c] as const))("%s", async (_, c) => {
    const at = c.liar ? String((await liar.ask({ rules: c.liar }))["addr"]) : addr;
    const [direct, through] = [new Client({ addresses: addr }), new Client({ addresses: at })];
    try {
      const run = new Run(liar, at, direct, through);
      for (const [n, s] of c.steps.entries()) {
        const wrong = await run.step(s);
        if (wrong) throw new Error(`step ${n + 1}, ${s.do}: ${wrong}`);
      }
    } finally {
      await direct.close();
      await through.close();
      if (c.liar) await liar.ask({ close: at });
    }
  });
});
