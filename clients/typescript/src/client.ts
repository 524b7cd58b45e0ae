// The client: all calls, repeated safely over new connections and on other nodes.

import { randomBytes } from "node:crypto";
import type tls from "node:tls";

import { create, fromBinary, toBinary, type DescMessage, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { timestampFromMs, type Timestamp } from "@bufbuild/protobuf/wkt";

import { NornError, REFUSED, SETTLED, type Kind } from "./errors.js";
import type { Error as ErrorMessage } from "./gen/norn/v1/error_pb.js";
import {
  CancelRequestSchema, ClaimReplySchema, ClaimRequestSchema, CompleteRequestSchema, CountReplySchema, CountRequestSchema,
  EnqueueReplySchema, EnqueueRequestSchema, FailRequestSchema, FilterSchema, GetReplySchema, GetRequestSchema, KeyReplySchema,
  KeyRequestSchema, ListReplySchema, ListRequestSchema, LogReplySchema, LogRequestSchema, Method, ReleaseRequestSchema,
  RenewReplySchema, RenewRequestSchema, RetryRequestSchema, UpdateRequestSchema, WorkReplySchema, WorkRequestSchema,
  WriteReplySchema, type Count, type Limits, type LogReply, type WriteResult,
} from "./gen/norn/v1/service_pb.js";
import {
  RetryPolicySchema, State, TaskSpecSchema, type DependencyFailure, type Grant, type Receipt as ReceiptMessage, type Task as TaskMessage,
  type TaskSpec, type Update,
} from "./gen/norn/v1/task_pb.js";
import { Generator, partitionOf, taskID, taskIDBytes, type TaskID } from "./ids.js";
import { aborted, clock, Connection, late, nonsense, type Answer, type ConnectOptions } from "./wire.js";

/** Reads change nothing: their outcome is never unknown. */
const READS: ReadonlySet<number> = new Set([Method.PING, Method.GET, Method.LIST, Method.COUNT, Method.LOG, Method.KEY]);
const MAX_UNANSWERED = 100; // as many earlier requests a claim may name
const MAX_BATCH_DEPENDENCIES = 10_000; // of all tasks of one request

export interface ClientOptions {
  /** host:port of any nodes; by default those in NORN_ADDR, or 127.0.0.1:7711. */
  addresses?: string | readonly string[];
  /** By default that in NORN_AUTH_TOKEN. A function is asked with each connection. */
  authToken?: string | (() => string | Promise<string>);
  /** With TLS: {} trusts the system's certificates, `ca`, `cert` and `key` are as in node:tls. */
  tls?: tls.ConnectionOptions;
  /** A UUID: another cluster is refused before it is sent the token. */
  clusterID?: string;
  /** Seconds after which a call that names none is given up (30). */
  timeout?: number;
  /** Shown in the server's logs. */
  agent?: string;
}

/** What every call takes. */
export interface CallOptions {
  /** Seconds after which it is given up. */
  timeout?: number | undefined;
  /** Aborting it ends the call, with a NornError of kind CANCELLED. */
  signal?: AbortSignal | undefined;
}

/** A task to be added. */
export interface NewTask {
  queue: string;
  /** A text is sent as UTF-8. */
  payload?: Uint8Array | string;
  /** Made once, by {@link Client.newID}, for who enqueues the same task again after an unknown outcome. */
  id?: TaskID;
  /** What is to be done, beside the queue. */
  kind?: string;
  tags?: readonly string[];
  headers?: Readonly<Record<string, string>>;
  /** Higher is claimed first. */
  priority?: number;
  /** Seconds from now, by the clocks of the servers. */
  delay?: number;
  notBefore?: Date;
  /** Unique within the queue: the task is not added while another one has it. */
  key?: string;
  /** Seconds; 0: until the task is finished. */
  keyWindow?: number;
  dependencies?: readonly TaskID[];
  onDependencyFailure?: DependencyFailure;
  maxAttempts?: number;
  /** What is left out is the queue's. */
  retry?: Omit<MessageInitShape<typeof RetryPolicySchema>, "$typeName">;
}

/** What an accepted write has bought. */
export interface Receipt {
  id: TaskID;
  /** It was there before: this call was a repetition. */
  existed: boolean;
  copies: number;
  durableCopies: number;
  partition: number;
  /** Of the task, after a failure, a cancellation or a retry. */
  state: State;
}

/** One of many results: a receipt, or why there is none. */
export type Result = Receipt | NornError;

/** A task as it stands; its messages are those of the protocol. */
export type Task = Omit<TaskMessage, "id" | "dependencies" | "$typeName"> & { id: TaskID; dependencies: TaskID[] };

/** The right to run a task until its deadline. */
export class Claim {
  readonly task: Task;
  readonly id: TaskID;
  /** It rises with every claim of the task: let what you write to refuse lower ones. */
  readonly token: bigint;
  /** The newest update of earlier claims. */
  readonly checkpoint: Uint8Array;
  /** Number of the next update. */
  seq = 0n;
  /** Length in seconds. */
  lease = 0;
  #deadline = 0;
  #wall = 0;

  constructor(grant: Grant, sentAt: number, waited: number) {
    if (!grant.task) throw new Error("a grant without a task");
    this.task = taskOf(grant.task);
    this.id = this.task.id;
    this.token = grant.token;
    this.checkpoint = grant.checkpoint;
    this.extend(sentAt, waited, grant.leaseSeconds);
  }

  /** The lease was renewed, by a request that was sent at that time of the clock. */
  extend(sentAt: number, waited: number, lease: number): void {
    this.lease = lease;
    // A thousandth for the drift between two clocks.
    this.#deadline = sentAt + (waited + lease - lease / 1000) * 1000;
    this.#wall = Date.now() + this.#deadline - clock();
  }

  /** Seconds until the work must have stopped, unless it is renewed. The wall clock counts too: it runs on while the machine is suspended. */
  left(): number {
    return Math.min(this.#deadline - clock(), this.#wall - Date.now()) / 1000;
  }
}

export interface ClaimOptions extends CallOptions {
  /** The most tasks to be granted (1). */
  max?: number;
  /** Seconds that the claims last unless renewed (30). */
  lease?: number | undefined;
  /** Seconds to wait when nothing is ready (0). */
  wait?: number;
  /** Shown in the claims. */
  worker?: string;
}

/** What {@link Client.work} ends, and what it wants next. */
export interface Work {
  completions?: readonly { claim: Claim; result?: Uint8Array | string | undefined }[];
  failures?: readonly ({ claim: Claim } & Failure)[];
  releases?: readonly Claim[];
  /** What to claim in the same request, which does not wait for tasks; left out: nothing. */
  want?: { queues: readonly string[]; max?: number; lease?: number; worker?: string };
}

export interface WorkDone {
  completions: Result[];
  failures: Result[];
  releases: Result[];
  claims: Claim[];
  /** Why nothing was granted, where that is not for want of tasks. */
  claimError: NornError | undefined;
}

/** How a claim ends that has failed. */
export interface Failure {
  error: string;
  /** Seconds until the next attempt; left out: the task's policy decides. */
  retryIn?: number;
  /** It uses no attempt. */
  uncounted?: boolean;
  /** The task is dead at once. */
  discard?: boolean;
}

export interface ListOptions extends CallOptions {
  queue?: string;
  states?: readonly State[];
  filter?: Omit<MessageInitShape<typeof FilterSchema>, "$typeName">;
  /** Tasks per page (100). */
  page?: number;
}

const bytes = (v: Uint8Array | string | undefined): Uint8Array => (typeof v === "string" ? new TextEncoder().encode(v) : (v ?? new Uint8Array()));
/** Fractions of a millisecond have no place in a Timestamp made of it. */
const stamp = (ms: number): Timestamp => timestampFromMs(Math.ceil(ms));
const taskOf = (m: TaskMessage): Task => ({ ...m, id: taskID(m.id), dependencies: m.dependencies.map(taskID) });
const pause = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done, { once: true });
    if (signal?.aborted) done();
  });

interface ItemResult {
  receipt?: ReceiptMessage | undefined;
  error?: ErrorMessage | undefined;
  state?: State;
}

function judge(r: ItemResult): Result {
  if (r.error) return NornError.of(r.error, r.state);
  const m = r.receipt;
  if (!m) return new NornError("INTERNAL", "a result without a receipt", { unknown: true });
  return { id: taskID(m.id), existed: m.existed, copies: m.copies, durableCopies: m.durableCopies, partition: m.partition, state: r.state ?? State.UNSPECIFIED };
}

/** The one result of a request with one item. */
function single(results: readonly Result[]): Receipt {
  const [one] = results;
  if (!one || one instanceof NornError) throw one ?? new NornError("INTERNAL", "no result for one item", { unknown: true });
  return one;
}

interface Attempted<T> {
  value: T;
  /** An attempt before the one that was answered may have had its effect. */
  maybe: boolean;
}

/** A cluster, through any of its nodes. */
export class Client {
  readonly addresses: readonly string[];
  /** Seconds. */
  timeout: number;
  readonly #token: string | (() => string | Promise<string>);
  readonly #options: Omit<ConnectOptions, "token" | "clusterID">;
  #clusterID: string;
  #connections: (Promise<Connection> | undefined)[];
  #newest: Connection | undefined;
  #first = 0; // index of the address that calls begin with
  #closed = new AbortController();
  #ids = new Generator();
  #session = new Uint8Array(randomBytes(16)); // names this process in claims
  #requests = 0n;
  #lost: bigint[] = []; // claim requests without an answer, to be named by the next one

  /** Makes a client; it connects with the first call. */
  constructor(options: ClientOptions = {}) {
    const given = options.addresses ?? process.env["NORN_ADDR"] ?? "127.0.0.1:7711";
    this.addresses = (typeof given === "string" ? [given] : given).flatMap((a) => a.split(",")).map((a) => a.trim()).filter(Boolean);
    if (!this.addresses.length) throw new NornError("INVALID_ARGUMENT", "no address of a node");
    this.timeout = options.timeout ?? 30;
    this.#token = options.authToken ?? process.env["NORN_AUTH_TOKEN"] ?? "";
    this.#clusterID = options.clusterID ?? "";
    this.#options = { ask: Boolean(options.clusterID), tls: options.tls, agent: options.agent ?? "norn-typescript" };
    this.#connections = this.addresses.map(() => undefined);
  }

  /** Closes the connections; calls that are open fail. */
  async close(): Promise<void> {
    this.#closed.abort();
    for (const c of await Promise.allSettled(this.#connections)) if (c.status === "fulfilled") c.value?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  // Producers

  /** An ID for a task, in a partition that takes enqueues now. */
  async newID(o: CallOptions = {}): Promise<TaskID> {
    return taskID(this.#draw(await this.#known(o)));
  }

  #draw(c: Connection): Uint8Array {
    const id = this.#ids.next();
    const { partitions = 0, enqueueable = new Uint8Array() } = c.placement ?? {};
    if (partitions && enqueueable.some((b) => b)) {
      for (let n = 0; n < 100 * partitions; n++) {
        const p = partitionOf(id, partitions);
        if (((enqueueable[p >> 3] ?? 0) >> (p & 7)) & 1) break;
        id.set(randomBytes(8), 12);
      }
    }
    return id;
  }

  /** Adds a task. Its receipt comes once it is durable. */
  async enqueue(task: NewTask, o: CallOptions = {}): Promise<Receipt> {
    return single(await this.enqueueMany([task], o));
  }

  /** Adds tasks, in as few requests as the limits allow. Gives a result for each, in their order. */
  async enqueueMany(tasks: readonly NewTask[], o: CallOptions = {}): Promise<Result[]> {
    const end = this.#end(o);
    const specs: TaskSpec[] = [];
    for (const t of tasks) specs.push(await this.#spec(t, { ...o, timeout: (end - clock()) / 1000 }));
    const size = (s: TaskSpec): [number, number] => [toBinary(TaskSpecSchema, s).length + 8, s.dependencies.length];
    return await this.#each(Method.ENQUEUE, specs, EnqueueRequestSchema, (tasks) => ({ tasks }), EnqueueReplySchema, { ...o, end, size }, judge);
  }

  async #spec(t: NewTask, o: CallOptions): Promise<TaskSpec> {
    let notBefore: Timestamp | undefined = t.notBefore && stamp(t.notBefore.getTime());
    if (t.delay) notBefore = stamp((await this.#known(o)).now() + t.delay * 1000);
    let id = t.id && taskIDBytes(t.id);
    if (!id && t.key) {
      id = (await this.#unary(Method.KEY, KeyRequestSchema, { queue: t.queue, key: t.key, windowSeconds: t.keyWindow ?? 0 }, KeyReplySchema, o)).id;
    }
    const retry = t.retry || t.maxAttempts ? create(RetryPolicySchema, { ...t.retry, ...(t.maxAttempts ? { maxAttempts: t.maxAttempts } : {}) }) : undefined;
    return create(TaskSpecSchema, {
      id: id ?? this.#draw(await this.#known(o)), queue: t.queue, payload: bytes(t.payload), kind: t.kind ?? "", tags: [...(t.tags ?? [])],
      headers: { ...t.headers }, priority: t.priority ?? 0, key: t.key ?? "", keyWindowSeconds: t.keyWindow ?? 0,
      dependencies: (t.dependencies ?? []).map(taskIDBytes), onDependencyFailure: t.onDependencyFailure ?? 0,
      ...(retry && { retry }), ...(notBefore && { notBefore }),
    });
  }

  // Workers

  /** Claims the best ready tasks of some queues; none when there was nothing in time. What an aborted claim was granted is given back. */
  async claim(queues: readonly string[], o: ClaimOptions = {}): Promise<Claim[]> {
    const wait = o.wait ?? 0;
    const timeout = o.timeout ?? this.timeout + wait;
    return await this.#claiming(Method.CLAIM, ClaimReplySchema, { ...o, timeout }, (left, number, unanswered) => {
      // With room for the answer: an empty answer is better than none.
      const room = Math.max(0, Math.min(wait, (left - Math.min(left / 10, 1000)) / 1000));
      return toBinary(ClaimRequestSchema, this.#ask(number, unanswered, { queues, ...o }, room));
    }, (reply, sentAt) => reply.grants.map((g) => new Claim(g, sentAt, reply.waitedSeconds)));
  }

  /**
   * Ends tasks and claims the next ones in one request, which does not wait for tasks: who gets none waits with claim.
   * It is complete, fail, release and claim together.
   */
  async work(w: Work, o: CallOptions = {}): Promise<WorkDone> {
    const message = {
      completions: (w.completions ?? []).map(({ claim, result }) => completion(claim, result)),
      failures: (w.failures ?? []).map(failure),
      releases: (w.releases ?? []).map(ref),
    };
    const { want } = w;
    return await this.#claiming(Method.WORK, WorkReplySchema, o, (_, number, unanswered) =>
      toBinary(WorkRequestSchema, create(WorkRequestSchema, { ...message, ...(want && { claim: this.#ask(number, unanswered, want, 0) }) })),
    (reply, sentAt) => {
      for (const part of ["completions", "failures", "releases"] as const) {
        if (reply[part].length !== message[part].length) throw new Error(`${reply[part].length} results for ${message[part].length} ${part}`);
      }
      return {
        completions: reply.completions.map(judge), failures: reply.failures.map(judge), releases: reply.releases.map(judge),
        claims: (reply.claim?.grants ?? []).map((g) => new Claim(g, sentAt, reply.claim?.waitedSeconds ?? 0)),
        claimError: reply.claimError && NornError.of(reply.claimError),
      };
    });
  }

  #ask(number: bigint, unanswered: bigint[], o: { queues: readonly string[]; max?: number; lease?: number | undefined; worker?: string }, waitSeconds: number) {
    return create(ClaimRequestSchema, {
      queues: [...o.queues], maxTasks: o.max ?? 1, leaseSeconds: o.lease ?? 0, waitSeconds, worker: o.worker ?? "",
      session: this.#session, requestNo: number, unanswered,
    });
  }

  /** A call that claims: each attempt has a number of its own and names those that were not answered. */
  async #claiming<R extends DescMessage, T extends Claim[] | WorkDone>(
    method: Method, reply: R, o: CallOptions, request: (left: number, number: bigint, unanswered: bigint[]) => Uint8Array,
    take: (reply: MessageShape<R>, sentAt: number) => T,
  ): Promise<T> {
    const lost = this.#lost; // numbers of attempts that nobody will take an answer to any more
    this.#lost = [];
    try {
      const { value } = await this.#call(method, (left) => {
        const unanswered = lost.slice(-MAX_UNANSWERED);
        lost.push(++this.#requests);
        return request(left, this.#requests, unanswered);
      }, (a) => take(fromBinary(reply, a.body), a.sentAt), o);
      if (Array.isArray(value) || !value.claimError) lost.length = 0; // what a claim that failed was granted the next one frees
      if (o.signal?.aborted && Array.isArray(value)) {
        if (value.length) await this.release(value, { timeout: 5 }).catch(() => undefined); // else they lapse
        throw aborted(o.signal, false);
      }
      return value;
    } finally {
      this.#lost = [...this.#lost, ...lost].slice(-MAX_UNANSWERED);
    }
  }

  /** Frees what claims were granted whose answers were lost. The next claim does so too: this is for who makes none any more. */
  async freeUnanswered(o: CallOptions = { timeout: 5 }): Promise<void> {
    if (!this.#lost.length) return;
    await this.#claiming(Method.CLAIM, ClaimReplySchema, o,
      (_, number, unanswered) => toBinary(ClaimRequestSchema, this.#ask(number, unanswered, { queues: [] }, 0)), () => [] as Claim[]);
  }

  /** Renews claims and moves their deadlines, all in one request where the limits allow. Gives an error for each, or undefined. */
  async renew(claims: readonly Claim[], o: CallOptions & { lease?: number } = {}): Promise<(NornError | undefined)[]> {
    return await this.#each(Method.RENEW, claims, RenewRequestSchema, (some) => ({ claims: some.map(ref), leaseSeconds: o.lease ?? 0 }), RenewReplySchema, o,
      (r, claim, sentAt) => {
        if (r.error) return NornError.of(r.error, r.state);
        claim.extend(sentAt, 0, r.leaseSeconds);
        return undefined;
      });
  }

  /** Appends to the task's log; unless it is output, it is the checkpoint of a later claim. After an unknown outcome repeat it with the same data. */
  async update(claim: Claim, data: Uint8Array | string, o: CallOptions & { output?: boolean } = {}): Promise<Receipt> {
    const m = { id: taskIDBytes(claim.id), token: claim.token, seq: claim.seq, data: bytes(data), output: o.output ?? false };
    const { results } = await this.#unary(Method.UPDATE, UpdateRequestSchema, m, WriteReplySchema, o);
    const receipt = single(results.map(judge));
    claim.seq++;
    return receipt;
  }

  /** Finishes a task; late is better than never. */
  async complete(claim: Claim, result?: Uint8Array | string, o: CallOptions = {}): Promise<Receipt> {
    return single(await this.#writes(Method.COMPLETE, [claim], CompleteRequestSchema, () => ({ completions: [completion(claim, result)] }), o));
  }

  /** Ends a claim with a failure. Gives the state of the task then. */
  async fail(claim: Claim, how: Failure, o: CallOptions = {}): Promise<State> {
    return single(await this.#writes(Method.FAIL, [claim], FailRequestSchema, () => ({ failures: [failure({ claim, ...how })] }), o)).state;
  }

  /** Gives tasks back, without using an attempt. */
  async release(claims: readonly Claim[], o: CallOptions = {}): Promise<Result[]> {
    return await this.#writes(Method.RELEASE, claims, ReleaseRequestSchema, (some) => ({ claims: some.map(ref) }), o);
  }

  // Readers and operators

  async get(id: TaskID, o: CallOptions = {}): Promise<Task> {
    const { task } = await this.#unary(Method.GET, GetRequestSchema, { id: taskIDBytes(id) }, GetReplySchema, o);
    if (!task) throw new NornError("INTERNAL", "an answer without a task");
    return taskOf(task);
  }

  /** All tasks that fit, in the order of their IDs, fetched page by page. */
  async *list(o: ListOptions = {}): AsyncGenerator<Task, void, undefined> {
    let cursor = new Uint8Array();
    do {
      const page = await this.#unary(Method.LIST, ListRequestSchema, {
        queue: o.queue ?? "", states: [...(o.states ?? [])], limit: o.page ?? 100, cursor, ...(o.filter && { filter: create(FilterSchema, o.filter) }),
      }, ListReplySchema, o);
      yield* page.tasks.map(taskOf);
      cursor = Uint8Array.from(page.nextCursor);
    } while (cursor.length);
  }

  /** The counters of a queue, or of all. */
  async count(queue = "", o: CallOptions = {}): Promise<Count> {
    const { total } = await this.#unary(Method.COUNT, CountRequestSchema, { queue }, CountReplySchema, o);
    if (!total) throw new NornError("INTERNAL", "an answer without counters");
    return total;
  }

  /** Updates of a task as they come, until it is finished. */
  async *follow(id: TaskID, o: CallOptions = {}): AsyncGenerator<Update, void, undefined> {
    let after: Update | undefined;
    for (let wait = 0; ;) {
      const page: LogReply = await this.#unary(Method.LOG, LogRequestSchema, {
        id: taskIDBytes(id), after: Boolean(after), afterToken: after?.token ?? 0n, afterSeq: after?.seq ?? 0n, waitSeconds: wait,
      }, LogReplySchema, { ...o, timeout: (o.timeout ?? this.timeout) + wait });
      yield* page.updates;
      after = page.updates.at(-1) ?? after;
      const over = page.state >= State.COMPLETED;
      if (over && !wait && !page.updates.length) return;
      wait = over ? 0 : 20; // one replica tells who waits of the end; a majority says that nothing comes after
    }
  }

  /** Cancels tasks. */
  async cancel(ids: readonly TaskID[], o: CallOptions & { reason?: string; onlyStates?: readonly State[] } = {}): Promise<Result[]> {
    return await this.#writes(Method.CANCEL, ids, CancelRequestSchema,
      (some) => ({ ids: some.map(taskIDBytes), reason: o.reason ?? "", onlyStates: [...(o.onlyStates ?? [])] }), o);
  }

  /** Gives tasks a new run of attempts at once. */
  async retry(ids: readonly TaskID[], o: CallOptions & { onlyStates?: readonly State[] } = {}): Promise<Result[]> {
    return await this.#writes(Method.RETRY, ids, RetryRequestSchema, (some) => ({ ids: some.map(taskIDBytes), onlyStates: [...(o.onlyStates ?? [])] }), o);
  }

  // Calls

  #end(o: CallOptions): number {
    return clock() + (o.timeout ?? this.timeout) * 1000;
  }

  /** A connection that knows what its node said of limits and placement. */
  async #known(o: CallOptions): Promise<Connection> {
    if (!this.#newest) await this.#call(Method.PING, () => new Uint8Array(), () => undefined, o);
    return this.#newest as Connection;
  }

  async #unary<Q extends DescMessage, R extends DescMessage>(method: Method, request: Q, init: MessageInitShape<Q>, reply: R, o: CallOptions): Promise<MessageShape<R>> {
    const body = toBinary(request, create(request, init));
    return (await this.#call(method, () => body, (a) => fromBinary(reply, a.body), o)).value;
  }

  async #writes<I, Q extends DescMessage>(method: Method, items: readonly I[], request: Q, init: (items: I[]) => MessageInitShape<Q>, o: CallOptions): Promise<Result[]> {
    return await this.#each(method, items, request, init, WriteReplySchema, o, (r: WriteResult) => judge(r));
  }

  /**
   * Sends items in as few requests as the limits allow, and those again that could not be taken at the moment, until the
   * timeout. Throws only when no server has said anything of any.
   */
  async #each<I, Q extends DescMessage, R extends DescMessage & { field: { results: unknown } }, T>(
    method: Method, items: readonly I[], request: Q, init: (items: I[]) => MessageInitShape<Q>, reply: R,
    o: CallOptions & { end?: number; size?: (item: I) => [number, number] }, take: (result: Item<R>, item: I, sentAt: number) => T,
  ): Promise<T[]> {
    const end = o.end ?? this.#end(o);
    const out = new Map<number, T | NornError>();
    let open = items.map((_, i) => i);
    if (!open.length) return [];
    const left = (): CallOptions => ({ signal: o.signal, timeout: Math.max(0, end - clock()) / 1000 });
    const limits = items.length > 1 ? (await this.#known(left())).hello.limits : undefined;
    for (let wait = 25, round = 0; open.length; wait = Math.min(2 * wait, 1000), round++) {
      const again: number[] = [];
      let advice = 0;
      while (open.length) {
        const batch = open.slice(0, fitting(open.map((i) => items[i] as I), limits, o.size));
        open = open.slice(batch.length);
        const body = toBinary(request, create(request, init(batch.map((i) => items[i] as I))));
        let answer: Attempted<(T | NornError)[]>;
        try {
          answer = await this.#call(method, () => body, (a) => {
            const { results } = fromBinary(reply, a.body) as unknown as { results: Item<R>[] };
            if (results.length !== batch.length) throw new Error(`${results.length} results for ${batch.length} items`);
            return results.map((r, k) => take(r, items[batch[k] as number] as I, a.sentAt));
          }, left(), Math.min(round, 1));
        } catch (e) {
          if (!(e instanceof NornError)) throw e;
          const alone = e.kind === "INVALID_ARGUMENT" && batch.length < items.length; // it is these items' own affair
          if (!out.size && !alone) throw e;
          for (const i of batch) out.set(i, e.with(e.unknown || was(out.get(i))));
          if (alone) continue;
          for (const i of open) out.set(i, e.with(was(out.get(i))));
          open = [];
          break;
        }
        answer.value.forEach((r, k) => {
          const i = batch[k] as number;
          if (r instanceof NornError) {
            r = r.with(r.unknown || ((answer.maybe || was(out.get(i))) && !SETTLED.has(r.kind)));
            if (r.again) {
              again.push(i);
              advice = Math.max(advice, r.retryAfter * 1000);
            }
          }
          out.set(i, r);
        });
      }
      open = again;
      const ms = Math.max(advice, wait * (0.5 + Math.random() / 2));
      if (!open.length || clock() + ms >= end || o.signal?.aborted) break;
      await pause(ms, o.signal);
    }
    return items.map((_, i) => out.get(i) as T);
  }

  /** Sends a request until it is answered for good; the error of the last attempt knows of all of them. It begins `skip` addresses further. */
  async #call<T>(method: Method, body: (left: number) => Uint8Array, take: (a: Answer) => T, o: CallOptions, skip = 0): Promise<Attempted<T>> {
    const end = this.#end(o);
    const nodes = this.addresses.length;
    let at = (this.#first + skip) % nodes;
    let [maybe, wait, refused, full] = [false, 25, 0, 0];
    for (;;) {
      let hello = true;
      try {
        const connection = await this.#connection(at, end, o.signal);
        hello = false;
        const answer = await connection.request(method, body, end, o.signal);
        try {
          const value = take(answer);
          this.#first = at;
          return { value, maybe };
        } catch (e) {
          throw e instanceof NornError ? e : nonsense(connection.address, method, e);
        }
      } catch (e) {
        if (!(e instanceof NornError)) throw e;
        maybe ||= e.unknown;
        refused = hello && REFUSED.has(e.kind) ? refused + 1 : 0;
        if (e.kind === "DISK_FULL") full++;
        // A refusal is final for its address, and only for that; no room on one disk says nothing of the others.
        const again = hello ? refused < nodes && e.kind !== "CANCELLED" : e.again || (e.kind === "DISK_FULL" && full < nodes);
        if (again && this.#first === at) this.#first = (at + 1) % nodes; // whoever comes next need not run into the same node first
        const ms = Math.max(e.retryAfter * 1000, wait * (0.5 + Math.random() / 2));
        if (!again || clock() + ms >= end || this.#closed.signal.aborted) {
          throw e.with(maybe && !READS.has(method) && (hello || !SETTLED.has(e.kind)));
        }
        await pause(ms, o.signal);
        if (o.signal?.aborted) throw aborted(o.signal, maybe && !READS.has(method));
        wait = Math.min(2 * wait, 1000);
        at = (at + 1) % nodes;
      }
    }
  }

  /** A living connection to an address, made now if need be. */
  async #connection(at: number, end: number, signal: AbortSignal | undefined): Promise<Connection> {
    const closed = (): NornError => new NornError("CANCELLED", "the client is closed");
    if (this.#closed.signal.aborted) throw closed();
    if (signal?.aborted) throw aborted(signal, false);
    const open = this.#connections[at];
    if (open) {
      const found = await within(open, this.addresses[at] as string, end, signal);
      if (found.alive) return found;
    }
    if (this.#connections[at] === open) {
      const made = this.#open(at, end);
      this.#connections[at] = made;
      made.catch(() => {
        if (this.#connections[at] === made) this.#connections[at] = undefined; // whoever waited is told of this failure, who comes next tries
      });
    }
    const found = await within(this.#connections[at] as Promise<Connection>, this.addresses[at] as string, end, signal);
    if (!this.#closed.signal.aborted) return found;
    found.close();
    throw closed();
  }

  async #open(at: number, end: number): Promise<Connection> {
    const token = typeof this.#token === "string" ? this.#token : await this.#token();
    const timeout = Math.max(10, Math.min(5000, end - clock()));
    const made = await Connection.open(this.addresses[at] as string, { ...this.#options, token, clusterID: this.#clusterID }, timeout);
    this.#clusterID = made.hello.clusterId; // all others must be of the same
    this.#newest = made;
    return made;
  }
}

type Item<R extends DescMessage> = MessageShape<R> extends { results: (infer T)[] } ? T : never;

const was = (r: unknown): boolean => r instanceof NornError && r.unknown;

/** Waits for a connection, no longer than the call has. */
async function within(c: Promise<Connection>, address: string, end: number, signal: AbortSignal | undefined): Promise<Connection> {
  let timer: NodeJS.Timeout | undefined;
  let stop: (() => void) | undefined;
  try {
    return await Promise.race([c, new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(late(address, false)), Math.max(0, Math.min(end - clock(), 2 ** 31 - 1)));
      stop = () => reject(aborted(signal, false));
      signal?.addEventListener("abort", stop, { once: true });
    })]);
  } finally {
    clearTimeout(timer);
    if (stop) signal?.removeEventListener("abort", stop);
  }
}

/** How many items, at least one, fit one request. */
function fitting<I>(items: readonly I[], limits: Limits | undefined, size: ((item: I) => [number, number]) | undefined): number {
  let [room, needs] = [limits?.maxBatchBytes ?? Infinity, MAX_BATCH_DEPENDENCIES];
  const most = Math.min(items.length, limits?.maxBatchTasks || items.length);
  for (let n = 0; n < most && size; n++) {
    const [weight, dependencies] = size(items[n] as I);
    room -= weight;
    needs -= dependencies;
    if (n && (room < 0 || needs < 0)) return n;
  }
  return most;
}

const ref = (c: Claim) => ({ id: taskIDBytes(c.id), token: c.token });
const completion = (c: Claim, result?: Uint8Array | string) => ({ ...ref(c), seq: c.seq, result: bytes(result) });
const failure = ({ claim, error, retryIn, uncounted = false, discard = false }: { claim: Claim } & Failure) => ({
  ...ref(claim), error, uncounted, discard,
  // 0 would be none, and servers look at the time only where the seconds are not set.
  ...(retryIn !== undefined && { retryInSeconds: Math.max(retryIn, 0.001), retryAt: stamp(Date.now() + retryIn * 1000) }),
});

export type { Kind };
