// The worker, AbortSignals and failover.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";

import { Client, Discard, NornError, RetryAfter, Snooze, State, taskID, Worker, type WorkerOptions } from "../src/index.js";

const addresses = process.env["NORN_ADDR"] ?? "127.0.0.1:7711";
const text = (b: Uint8Array): string => new TextDecoder().decode(b);
const eventually = <T>(f: () => Promise<T> | T): Promise<T> => vi.waitFor(f, { timeout: 60_000, interval: 20 });

let client: Client;
let queue: string;
let runs = 0;
beforeAll(() => { client = new Client({ addresses }); });
afterAll(() => client.close());
beforeEach(() => { queue = `ts-${process.pid}-${++runs}`; });
const open: Client[] = [];
afterEach(async () => { for (const c of open.splice(0)) await c.close(); });
const another = (o = {}): Client => {
  const c = new Client({ addresses, ...o });
  open.push(c);
  return c;
};
const work = (o: Partial<WorkerOptions> & Pick<WorkerOptions, "queues">): { worker: Worker; running: Promise<void> } => {
  const worker = new Worker(another(), { warn: () => undefined, ...o });
  return { worker, running: worker.run() };
};

test("handlers steer what comes next", async () => {
  const add = async (payload: string, maxAttempts = 9) => (await client.enqueue({ queue, payload, maxAttempts })).id;
  const [again, later, dead, bug] = await Promise.all([add("again"), add("later"), add("dead"), add("bug", 1)]);
  const { worker, running } = work({
    slots: 2,
    queues: {
      async [queue](job) {
        if (job.attempt > 1) return job.checkpoint;
        if (job.text === "again") {
          await job.update("page 1");
          throw new RetryAfter(0.01);
        }
        if (job.text === "later") throw new Snooze(600);
        if (job.text === "dead") throw new Discard("hopeless");
        throw new TypeError("boom");
      },
    },
  });
  await eventually(async () => expect(await client.count(queue)).toMatchObject({ completed: 1n, scheduled: 1n, dead: 2n }));
  await worker.stop();
  await running;
  expect(text((await client.get(again)).result)).toBe("page 1");
  expect(await client.get(later)).toMatchObject({ state: State.SCHEDULED, attempts: 0 });
  expect(await client.get(dead)).toMatchObject({ state: State.DEAD, error: "hopeless" });
  expect((await client.get(bug)).error).toContain("TypeError: boom");
});

test("a kind has its handler", async () => {
  const { id } = await client.enqueue({ queue, kind: "other" });
  const { worker, running } = work({ queues: { [queue]: () => "queue" }, kinds: { other: () => "kind" } });
  await eventually(async () => expect((await client.get(id)).state).toBe(State.COMPLETED));
  await worker.stop();
  await running;
  expect(text((await client.get(id)).result)).toBe("kind");
});

test("the end of a claim aborts the handler", async () => {
  const { id } = await client.enqueue({ queue });
  let began = (): void => undefined;
  const begun = new Promise<void>((resolve) => { began = resolve; });
  const ended = vi.fn();
  const { worker, running } = work({
    lease: 4,
    queues: {
      [queue]: (job) => new Promise((_, reject) => {
        began();
        job.signal.addEventListener("abort", () => { ended(); reject(job.signal.reason as Error); });
      }),
    },
  });
  await begun;
  await client.cancel([id]);
  await eventually(() => expect(ended).toHaveBeenCalledOnce());
  await worker.stop();
  await running;
  expect((await client.get(id)).state).toBe(State.CANCELLED);
});

test.each([false, true])("a stop lets finish, a hard one gives back: %s", async (hard) => {
  const [first, second] = [(await client.enqueue({ queue })).id, (await client.enqueue({ queue })).id];
  let began = (): void => undefined;
  let go = (): void => undefined;
  const begun = new Promise<void>((resolve) => { began = resolve; });
  const { worker, running } = work({
    queues: {
      [queue]: (job) => new Promise((resolve, reject) => {
        go = () => resolve("whole");
        job.signal.addEventListener("abort", () => reject(job.signal.reason as Error));
        began();
      }),
    },
  });
  await begun;
  if (hard) worker.stopNow();
  const stopped = worker.stop();
  go();
  await stopped;
  await running;
  expect(await client.get(first)).toMatchObject(hard ? { state: State.READY, attempts: 0 } : { state: State.COMPLETED });
  expect(await client.get(second)).toMatchObject({ state: State.READY, attempts: 0 });
});

test("an AbortSignal ends a run", async () => {
  const stop = new AbortController();
  const worker = new Worker(another(), { queues: { [queue]: () => undefined }, wait: 60 });
  const running = worker.run({ signal: stop.signal });
  const { id } = await client.enqueue({ queue });
  await eventually(async () => expect((await client.get(id)).state).toBe(State.COMPLETED));
  stop.abort();
  await running;
});

test("a claim that is aborted keeps nothing", async () => {
  const waits = another();
  await waits.count(queue);
  const signal = AbortSignal.timeout(300);
  const e: unknown = await waits.claim([queue], { wait: 60, lease: 600, signal }).catch((e: unknown) => e);
  expect(e).toBeInstanceOf(NornError);
  expect(e).toMatchObject({ kind: "CANCELLED" });
  expect((e as NornError).cause).toBe(signal.reason);
  const { id } = await client.enqueue({ queue });
  expect((await client.claim([queue], { wait: 20 })).map((c) => c.id)).toEqual([id]);
});

test("a call that is aborted before it is sent has not happened", async () => {
  await expect(client.enqueue({ queue }, { signal: AbortSignal.abort() })).rejects.toMatchObject({ kind: "CANCELLED", unknown: false });
  expect((await client.count(queue)).total).toBe(0n);
});

test("of several addresses one that answers is found", async () => {
  const c = another({ addresses: ["127.0.0.1:1", addresses] });
  expect((await c.enqueue({ queue })).existed).toBe(false);
});

test("one Work request ends and wants", async () => {
  for (let n = 0; n < 4; n++) await client.enqueue({ queue, payload: String(n) });
  const claims = await client.claim([queue], { max: 3 });
  const [a, b, c] = claims as [(typeof claims)[0], (typeof claims)[0], (typeof claims)[0]];
  const done = await client.work({
    completions: [{ claim: a, result: "r" }], failures: [{ claim: b, error: "x", discard: true }], releases: [c], want: { queues: [queue], max: 2 },
  });
  expect([...done.completions, ...done.failures, ...done.releases].filter((r) => r instanceof NornError)).toEqual([]);
  expect(done.failures[0]).toMatchObject({ state: State.DEAD });
  expect(await client.count(queue)).toMatchObject({ completed: 1n, dead: 1n, claimed: BigInt(done.claims.length) });
});

test("all tasks are listed and updates followed", async () => {
  const results = await client.enqueueMany(Array.from({ length: 250 }, (_, n) => ({ queue, payload: String(n), tags: ["t"] })));
  const ids = results.map((r) => (r as { id: string }).id).sort();
  const seen: string[] = [];
  for await (const t of client.list({ queue, filter: { tags: ["t"] } })) seen.push(t.id);
  expect(seen).toEqual(ids);
  const [claim] = await client.claim([queue]);
  if (!claim) throw new Error("no claim");
  await client.update(claim, "one");
  await client.complete(claim);
  const updates: string[] = [];
  for await (const u of client.follow(claim.id)) updates.push(text(u.data));
  expect(updates).toEqual(["one"]);
});

test("mistakes are told", () => {
  expect(() => taskID("nonsense")).toThrow(RangeError);
  expect(() => new Worker(client, {})).toThrow("no queue");
  expect(() => new Client({ addresses: [] })).toThrow("no address");
});

test.skipIf(!process.env["NORN_TLS_ADDR"])("TLS and a token", async () => {
  const { readFileSync } = await import("node:fs");
  const o = { addresses: process.env["NORN_TLS_ADDR"] as string, tls: { ca: readFileSync(process.env["NORN_TLS_CA"] as string) }, timeout: 20 };
  const c = another({ ...o, authToken: async () => process.env["NORN_TEST_TOKEN"] ?? "" });
  const { id } = await c.enqueue({ queue, payload: "x".repeat(900_000) });
  expect((await c.get(id)).payload.length).toBe(900_000);
  await expect(another({ ...o, authToken: "wrong" }).count()).rejects.toMatchObject({ kind: "UNAUTHENTICATED", unknown: false });
  await expect(another({ ...o, tls: {}, timeout: 2 }).count()).rejects.toMatchObject({ kind: "UNAVAILABLE" });
  await expect(another({ ...o, tls: undefined, timeout: 2 }).count()).rejects.toMatchObject({ kind: "UNAVAILABLE" });
});
