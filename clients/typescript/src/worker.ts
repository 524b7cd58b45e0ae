// A worker: slots that claim tasks, run handlers and report what came of it, and one renewal for all of them. It pulls: it
// has no session with the server, and hears of a cancellation when it renews.

import os from "node:os";

import type { CallOptions, Claim, Client, Task, Work } from "./client.js";
import { Discard, NornError, RetryAfter, Snooze } from "./errors.js";
import { State } from "./gen/norn/v1/task_pb.js";
import type { TaskID } from "./ids.js";

const SETTLE = 900; // seconds for which a report is repeated
const GONE = new Set(["CLAIM_LOST", "NOT_FOUND", "CANCELLED"]); // what a renewal says of a claim that is over
const HOPELESS = new Set(["INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED", "INCOMPATIBLE"]); // it will not get better

/** What a handler gives: the task's result. */
export type Output = Uint8Array | string | void;
export type Handler = (job: Job) => Promise<Output> | Output;

export interface WorkerOptions {
  /** Handlers by queue. */
  queues?: Readonly<Record<string, Handler>>;
  /** Handlers by kind of task, which go before those of the queue. */
  kinds?: Readonly<Record<string, Handler>>;
  /** Queues to take tasks from; by default those that have a handler. */
  from?: readonly string[];
  /** How many handlers run at once (1). */
  slots?: number;
  /** Seconds of a claim, renewed at a third of it (30). */
  lease?: number;
  /** Seconds that a request for tasks may wait (20). */
  wait?: number;
  /** Shown in the claims. */
  name?: string;
  /** Seconds that a stop lets handlers finish before it aborts them and gives their tasks back, without using an attempt (30). */
  patience?: number;
  /** Hears what a person should know, by default console.warn. */
  warn?: (text: string) => void;
}

/** A task that a handler works on. */
export class Job {
  readonly #ended = new AbortController();
  readonly #client: Client;
  #writing: Promise<unknown> = Promise.resolve();

  constructor(client: Client, readonly claim: Claim) {
    this.#client = client;
  }

  get task(): Task {
    return this.claim.task;
  }
  get id(): TaskID {
    return this.claim.id;
  }
  get queue(): string {
    return this.task.queue;
  }
  get kind(): string {
    return this.task.kind;
  }
  get payload(): Uint8Array {
    return this.task.payload;
  }
  /** The payload as UTF-8. */
  get text(): string {
    return new TextDecoder().decode(this.task.payload);
  }
  /** 1 for the first one. */
  get attempt(): number {
    return this.task.attempts + 1;
  }
  /** It rises with every claim of the task: let what you write to refuse lower ones. */
  get token(): bigint {
    return this.claim.token;
  }
  /** The newest update of earlier claims. */
  get checkpoint(): Uint8Array {
    return this.claim.checkpoint;
  }
  /** Aborted when the claim is over, or the worker must end: what the handler does no longer counts. Hand it to what waits. */
  get signal(): AbortSignal {
    if (this.claim.left() <= 0) this.end("the claim could not be renewed in time");
    return this.#ended.signal;
  }

  /** Appends to the task's log, in the order of the calls, and returns when it is durable; unless it is output it is the checkpoint of a later claim. */
  async update(data: Uint8Array | string, o: { output?: boolean } = {}): Promise<void> {
    const written = this.#writing.then(() => this.#update(data, o));
    this.#writing = written.catch(() => undefined);
    await written;
  }

  async #update(data: Uint8Array | string, o: { output?: boolean }): Promise<void> {
    for (;;) {
      this.signal.throwIfAborted();
      try {
        await this.#client.update(this.claim, data, { ...o, timeout: Math.max(0.1, Math.min(5, this.claim.left())) });
        return;
      } catch (e) {
        if (!(e instanceof NornError)) throw e;
        if (e.kind === "CLAIM_LOST") this.end(e.message);
        else if (!e.unknown && !e.again) throw e;
      }
    }
  }

  /** The claim is over: the worker says so. */
  end(why: string): void {
    if (!this.#ended.signal.aborted) this.#ended.abort(new DOMException(why, "AbortError"));
  }
}

/** Takes tasks of some queues and runs handlers. */
export class Worker {
  readonly #client: Client;
  readonly #o: Required<Omit<WorkerOptions, "from">> & { from: readonly string[] };
  readonly #jobs = new Set<Job>();
  #stopping = new AbortController();
  #aborting = false;
  #failed: unknown;
  #running: Promise<void> | undefined;

  constructor(client: Client, o: WorkerOptions) {
    const from = o.from ?? Object.keys(o.queues ?? {});
    if (!from.length) throw new RangeError("no queue: give handlers by queue, or name queues in `from`");
    if ((o.slots ?? 1) < 1) throw new RangeError("slots is at least 1");
    this.#client = client;
    this.#o = {
      queues: {}, kinds: {}, slots: 1, lease: 30, wait: 20, name: `${os.hostname()}/${process.pid}`, patience: 30,
      warn: (text) => console.warn("norn:", text), ...o, from,
    };
  }

  /** Runs until stop, or until the signal is aborted. Throws the NornError for which there is no sense in going on. */
  async run(o: { signal?: AbortSignal } = {}): Promise<void> {
    const stop = (): void => void this.stop();
    o.signal?.addEventListener("abort", stop, { once: true });
    if (o.signal?.aborted) stop();
    try {
      this.#running ??= this.#run();
      await this.#running;
    } finally {
      o.signal?.removeEventListener("abort", stop);
    }
  }

  /** Takes no more tasks, lets what runs finish for `patience` seconds, and returns when all is over. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    const timer = setTimeout(() => this.stopNow(), this.#o.patience * 1000);
    await this.#running?.catch(() => undefined); // run throws it
    clearTimeout(timer);
  }

  /** Aborts what runs, and gives the tasks back without using an attempt. */
  stopNow(): void {
    this.#aborting = true;
    this.#stopping.abort();
    for (const job of this.#jobs) job.end("the worker was stopped");
  }

  async #run(): Promise<void> {
    let over = false;
    let wake = (): void => undefined;
    const heartbeat = (async () => {
      const every = this.#o.lease / 3;
      for (let pause = every; !over;) {
        // A little earlier: workers must not march in step.
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, pause * 1000 * (0.9 + Math.random() / 10));
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
        const jobs = [...this.#jobs].filter((j) => !j.signal.aborted);
        // A renewal that failed is made again at once, at another node: to wait as long again would be too late.
        if (!over) pause = !jobs.length || (await this.#renew(jobs, every / 2)) ? every : Math.min(1, every / 10);
      }
    })();
    await Promise.all(Array.from({ length: this.#o.slots }, () => this.#slot()));
    over = true;
    wake();
    await heartbeat;
    await this.#client.freeUnanswered().catch((e: unknown) => this.#o.warn(`tasks may have been granted on the way out, their claims will lapse: ${String(e)}`));
    if (this.#failed !== undefined) throw this.#failed;
  }

  async #slot(): Promise<void> {
    try {
      await this.#take();
    } catch (e) { // a worker with fewer slots than it says would be hard to notice
      this.#failed ??= e;
      void this.stop();
    }
  }

  async #take(): Promise<void> {
    const { from, lease, wait, name } = this.#o;
    const stopping = this.#stopping.signal;
    while (!stopping.aborted) {
      let claims: Claim[];
      try {
        claims = await this.#client.claim(from, { lease, wait, worker: name, signal: stopping });
      } catch (e) {
        if (stopping.aborted) return;
        if (!(e instanceof NornError) || HOPELESS.has(e.kind)) throw e;
        this.#o.warn(`no tasks: ${e.message}`);
        await new Promise((resolve) => setTimeout(resolve, 1000));
        continue; // which frees what was granted meanwhile
      }
      for (let claim = claims.shift(); claim; claim = claims.shift()) {
        if (stopping.aborted) {
          await this.#client.release([claim, ...claims]);
          return;
        }
        claims.unshift(...(await this.#job(claim)));
      }
    }
  }

  /** Runs a handler and says what came of it. Gives the claims that came with that. */
  async #job(claim: Claim): Promise<Claim[]> {
    const job = new Job(this.#client, claim);
    this.#jobs.add(job);
    try {
      let work: Work;
      try {
        const handler = this.#o.kinds[claim.task.kind] ?? this.#o.queues[claim.task.queue];
        if (!handler) throw new Snooze(60, `this worker has no handler for kind ${JSON.stringify(claim.task.kind)} of queue ${claim.task.queue}`);
        work = { completions: [{ claim, result: (await handler(job)) ?? "" }] }; // work that is done counts, however late
      } catch (e) {
        work = this.#failure(job, e);
      }
      return await this.#report(claim, work);
    } catch (e) {
      this.#o.warn(`task ${claim.id}: ${String(e)}`);
      return [];
    } finally {
      this.#jobs.delete(job);
    }
  }

  /** What is said of a handler that has thrown; nothing where nobody would believe it. */
  #failure(job: Job, e: unknown): Work {
    const { claim } = job;
    if (job.signal.aborted) {
      if (this.#aborting && claim.left() > 0) return { releases: [claim] };
      this.#o.warn(`task ${claim.id} lost: ${String(job.signal.reason)}`);
      return {};
    }
    if (e instanceof Snooze) return { failures: [{ claim, error: e.message, retryIn: e.seconds, uncounted: true }] };
    if (e instanceof RetryAfter) return { failures: [{ claim, error: e.message, retryIn: e.seconds }] };
    if (e instanceof Discard) return { failures: [{ claim, error: e.message || "discarded", discard: true }] };
    this.#o.warn(`task ${claim.id} failed: ${String(e)}`);
    return { failures: [{ claim, error: e instanceof Error ? (e.stack ?? e.message).slice(0, 8192) : String(e) }] };
  }

  /** Ends a task and claims the next one in the same request. */
  async #report(claim: Claim, work: Work): Promise<Claim[]> {
    if (!work.completions && !work.failures && !work.releases) return [];
    const o: CallOptions = { timeout: SETTLE };
    const { from, lease, name } = this.#o;
    const done = await this.#client.work(this.#stopping.signal.aborted ? work : { ...work, want: { queues: from, lease, worker: name } }, o);
    for (const r of [...done.completions, ...done.failures, ...done.releases]) {
      if (!(r instanceof NornError)) continue;
      if (!r.again) this.#o.warn(`task ${claim.id}: ${r.message}`);
      else if (work.completions?.[0]) await this.#client.complete(claim, work.completions[0].result, o);
      else if (work.failures?.[0]) await this.#client.fail(claim, work.failures[0], o);
      else await this.#client.release([claim], { timeout: Math.max(0.1, claim.left()) });
    }
    return done.claims;
  }

  /** Renews claims by one request, and tells whether it is known of each what has become of it. */
  async #renew(jobs: readonly Job[], timeout: number): Promise<boolean> {
    try {
      const results = await this.#client.renew(jobs.map((j) => j.claim), { timeout });
      let known = true;
      results.forEach((e, i) => {
        const job = jobs[i] as Job;
        if (e && (GONE.has(e.kind) || e.state === State.CANCELLED)) {
          job.end(e.message);
        } else if (e) {
          known = false;
          this.#o.warn(`task ${job.id} could not be renewed, trying again: ${e.message}`);
        }
      });
      return known;
    } catch (e) { // whatever it is: without renewals all that runs here is lost
      this.#o.warn(`${jobs.length} claims could not be renewed, trying again: ${String(e)}`);
      return false;
    }
  }
}
