// Frames and connections: docs/reference/protocol.md, Framing and A connection.

import net from "node:net";
import tls from "node:tls";

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";

import { NornError } from "./errors.js";
import { ErrorSchema } from "./gen/norn/v1/error_pb.js";
import {
  HelloReplySchema, HelloSchema, Method, PingReplySchema, type HelloReply, type Placement,
} from "./gen/norn/v1/service_pb.js";

const VERSION = 1;
const PORT = 7711;
const [RESPONSE, ERROR, CANCEL, DEADLINE, METHOD] = [0x8000, 0x4000, 0x1000, 0x0800, 0x03ff];
const HEAD = 10; // bytes that the length counts besides the body
const MAX_FRAME = 24 << 20;
const GRACE = 500; // ms that a cancelled request may still take to be answered
const IDLE = 10_000; // after so many ms without a byte a connection is asked, after twice as long it is dead

/** Milliseconds of a clock that nobody sets. */
export const clock = (): number => performance.now();

export interface ConnectOptions {
  token: string;
  clusterID: string;
  /** Whether it is this cluster is asked before the token is sent. */
  ask: boolean;
  tls: tls.ConnectionOptions | undefined;
  agent: string;
}

export interface Answer {
  body: Uint8Array;
  /** Just before the request was sent: deadlines of leases count from here. */
  sentAt: number;
}

interface Pending {
  method: number;
  sentAt: number;
  resolve(a: Answer): void;
  reject(e: NornError): void;
}

export function encodeFrame(request: number, word: number, body: Uint8Array, left?: number): Buffer {
  const extra = left === undefined ? 0 : 4;
  const frame = Buffer.allocUnsafe(4 + HEAD + extra + body.length);
  frame.writeUInt32BE(HEAD + extra + body.length, 0);
  frame.writeBigUInt64BE(BigInt(request), 4);
  frame.writeUInt16BE(extra ? word | DEADLINE : word, 12);
  if (left !== undefined) frame.writeUInt32BE(Math.min(Math.max(1, Math.ceil(left)), 0xffffffff), 14);
  frame.set(body, 4 + HEAD + extra);
  return frame;
}

const unavailable = (reason: string, unknown: boolean, cause?: unknown): NornError =>
  new NornError("UNAVAILABLE", reason, { unknown, cause });

/** One connection, from its hello to its end. */
export class Connection {
  hello!: HelloReply;
  placement: Placement | undefined;
  /** What the node's clock was ahead of {@link clock}, in ms. */
  #ahead = Date.now() - clock();
  #pending = new Map<number, Pending>();
  #queue: (() => void)[] = []; // requests that wait for credit
  #credit = 1;
  #next = 1;
  #dead: string | undefined;
  #heard = clock();
  #asked = false;
  #chunks: Buffer[] = [];
  #size = 0;
  #watch: NodeJS.Timeout | undefined;

  private constructor(readonly address: string, private readonly socket: net.Socket) {
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.on("error", (e) => this.#end(`${address}: ${e.message}`));
    socket.on("close", () => this.#end(`${address} closed the connection`));
  }

  /** Connects and says hello, within so many ms. */
  static async open(address: string, o: ConnectOptions, timeout: number): Promise<Connection> {
    const end = clock() + timeout;
    const c = new Connection(address, await dial(address, o, timeout));
    try {
      const hello = { minVersion: VERSION, maxVersion: VERSION, clusterId: o.clusterID, agent: o.agent };
      if (o.ask) {
        await c.request(Method.HELLO, () => toBinary(HelloSchema, create(HelloSchema, { ...hello, onlyCluster: true })), end);
      }
      const said = await c.request(Method.HELLO, () => toBinary(HelloSchema, create(HelloSchema, { ...hello, authToken: o.token })), end);
      c.hello = fromBinary(HelloReplySchema, said.body);
      if (c.hello.version !== VERSION) {
        throw new NornError("INCOMPATIBLE", `${address} speaks version ${c.hello.version} of the protocol, this client ${VERSION}`);
      }
    } catch (e) {
      c.close();
      throw e instanceof NornError ? e.with(false) : new NornError("INTERNAL", `${address}: ${String(e)}`); // nothing but the hello was sent
    }
    c.#told(c.hello, clock());
    // One request is kept back for the ping of a full connection.
    c.#credit = Math.max(1, (c.hello.limits?.maxInFlight ?? 2) - 1);
    c.#watch = setInterval(() => c.#look(), IDLE / 4);
    c.#watch.unref();
    return c;
  }

  get alive(): boolean {
    return this.#dead === undefined;
  }

  /** Milliseconds since 1970 that the node's clock shows: the one here may have been set wrongly. */
  now(): number {
    return clock() + this.#ahead;
  }

  /** Sends a request as soon as there is credit, and gives its one answer; end is when it is due, by clock(). */
  async request(method: number, body: (left: number) => Uint8Array, end: number, signal?: AbortSignal, extra = 0): Promise<Answer> {
    await this.#room(end, signal, extra);
    const sentAt = clock();
    const bytes = body(end - sentAt);
    if (bytes.length + HEAD + 4 > MAX_FRAME) {
      throw new NornError("INVALID_ARGUMENT", `a request of ${bytes.length} bytes does not fit a frame`);
    }
    const number = this.#next++;
    const frame = encodeFrame(number, method, bytes, end - sentAt);
    return await new Promise<Answer>((resolve, reject) => {
      let gone: NornError | undefined; // why the answer is no longer wanted
      let timer: NodeJS.Timeout;
      const finish = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
      };
      const cancel = (e: NornError): void => {
        if (gone) return;
        gone = e;
        this.#write(encodeFrame(number, CANCEL, new Uint8Array()));
        clearTimeout(timer);
        timer = setTimeout(() => {
          // The credit stays taken until the answer comes, if ever.
          finish();
          reject(e);
        }, GRACE);
      };
      const onAbort = (): void => cancel(aborted(signal, true));
      this.#pending.set(number, {
        method, sentAt,
        resolve: (a) => { finish(); resolve(a); },
        reject: (e) => { finish(); reject(gone && e.kind === "CANCELLED" ? gone.with(false) : e); },
      });
      timer = setTimeout(() => cancel(late(this.address, true)), Math.min(Math.max(0, end - clock()), 2 ** 31 - 1));
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#write(frame);
      if (signal?.aborted) onAbort();
    });
  }

  /** Ends the connection. Requests without an answer fail; they may have happened. */
  close(): void {
    this.#end("the connection was closed");
  }

  async #room(end: number, signal: AbortSignal | undefined, extra: number): Promise<void> {
    while (this.alive && this.#pending.size >= this.#credit + extra) {
      if (signal?.aborted) throw aborted(signal, false);
      if (clock() >= end) throw late(this.address, false);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(wake, Math.max(1, Math.min(end - clock(), 1000)));
        function wake(): void {
          clearTimeout(timer);
          resolve();
        }
        this.#queue.push(wake);
      });
    }
    if (this.#dead !== undefined) throw unavailable(this.#dead, false);
    if (signal?.aborted) throw aborted(signal, false);
    if (clock() >= end) throw late(this.address, false);
  }

  #write(frame: Buffer): void {
    if (this.alive) this.socket.write(frame);
  }

  #read(chunk: Buffer): void {
    this.#heard = clock();
    this.#asked = false;
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    let wanted = 4;
    while (this.alive && this.#size >= wanted) {
      const buffer = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks);
      const length = buffer.readUInt32BE(0);
      if (length < HEAD || length > MAX_FRAME) {
        const said = /^[ -~]{4}/.test(buffer.toString("latin1")) ? `: it said ${JSON.stringify(buffer.toString("latin1").slice(0, 40))}` : "";
        this.#end(`${this.address} sent a frame of length ${length}${said}: is that a Norn client port?`);
        return;
      }
      if (buffer.length < 4 + length) {
        this.#chunks = [buffer];
        wanted = 4 + length;
        continue;
      }
      const rest = buffer.subarray(4 + length);
      this.#chunks = rest.length ? [rest] : [];
      this.#size = rest.length;
      wanted = 4;
      this.#take(Number(buffer.readBigUInt64BE(4)), buffer.readUInt16BE(12), buffer.subarray(4 + HEAD, 4 + length));
    }
  }

  #take(request: number, word: number, body: Buffer): void {
    if (!(word & RESPONSE) || word & ~(RESPONSE | ERROR | METHOD)) {
      this.#end(`${this.address} sent a frame with flags 0x${word.toString(16)}`);
      return;
    }
    if (request === 0) {
      this.#end(word & ERROR ? `${this.address}: ${fromBinary(ErrorSchema, body).message}` : `${this.address} answered no request`);
      return;
    }
    const pending = this.#pending.get(request); // there until its answer comes, also when nobody waits for that any more
    if (!pending) {
      this.#end(`${this.address} sent an answer without a request (id ${request})`);
      return;
    }
    if ((word & METHOD) !== pending.method) {
      this.#end(`${this.address} sent an answer of method ${word & METHOD} to request ${request} of method ${pending.method}`);
      return;
    }
    this.#pending.delete(request);
    this.#queue.shift()?.();
    try {
      if (word & ERROR) {
        pending.reject(NornError.of(fromBinary(ErrorSchema, body)));
        return;
      }
      if (pending.method === Method.PING) this.#told(fromBinary(PingReplySchema, body), pending.sentAt);
      pending.resolve({ body: Uint8Array.from(body), sentAt: pending.sentAt });
    } catch (e) {
      pending.reject(nonsense(this.address, pending.method, e));
    }
  }

  #told(m: { placement?: Placement | undefined; now?: { seconds: bigint; nanos: number } | undefined }, sentAt: number): void {
    this.placement = m.placement;
    // It was the node's time in the middle, to within half the way there and back.
    if (m.now) this.#ahead = Number(m.now.seconds) * 1000 + m.now.nanos / 1e6 - (sentAt + clock()) / 2;
  }

  #look(): void {
    const silent = clock() - this.#heard;
    if (silent > 2 * IDLE && this.#asked) {
      this.#end(`${this.address} is silent`);
    } else if (silent > IDLE && !this.#asked) {
      this.#asked = true;
      this.request(Method.PING, () => new Uint8Array(), clock() + IDLE, undefined, 1).catch(() => undefined);
    }
  }

  #end(why: string): void {
    if (this.#dead !== undefined) return;
    this.#dead = why;
    clearInterval(this.#watch);
    const lost = [...this.#pending.values()];
    this.#pending.clear();
    for (const wake of this.#queue.splice(0)) wake();
    this.socket.destroy();
    for (const p of lost) p.reject(unavailable(why, true));
  }
}

export const late = (address: string, unknown: boolean): NornError =>
  new NornError("DEADLINE_EXCEEDED", unknown ? `no answer from ${address} in time` : "the request could not be sent in time", { unknown });

export const aborted = (signal: AbortSignal | undefined, unknown: boolean): NornError =>
  new NornError("CANCELLED", "the call was aborted", { unknown, cause: signal?.reason });

export const nonsense = (address: string, method: number, e: unknown): NornError =>
  new NornError("INTERNAL", `${address} sent an answer to method ${method} that makes no sense: ${e instanceof Error ? e.message : String(e)}`, { unknown: true });

function dial(address: string, o: ConnectOptions, timeout: number): Promise<net.Socket> {
  const [, bracketed, plain, port] = /^(?:\[(.*)\]|([^:]*))(?::(\d+))?$/.exec(address) ?? [];
  const host = bracketed ?? plain;
  if (!host) throw new NornError("INVALID_ARGUMENT", `${JSON.stringify(address)} is no address; write host:port, or [IPv6]:port`);
  const to = { host, port: Number(port ?? PORT) };
  return new Promise((resolve, reject) => {
    const socket = o.tls ? tls.connect({ ...(net.isIP(host) ? {} : { servername: host }), ...o.tls, ...to }) : net.connect(to);
    const fail = (why: string): void => {
      socket.destroy();
      reject(unavailable(`cannot connect to ${address}: ${why}`, false));
    };
    const timer = setTimeout(() => fail("it does not answer"), Math.max(1, timeout));
    socket.once(o.tls ? "secureConnect" : "connect", () => {
      clearTimeout(timer);
      socket.removeAllListeners("error");
      socket.removeAllListeners("close");
      resolve(socket);
    });
    socket.once("error", (e) => {
      clearTimeout(timer);
      fail(e.message);
    });
    socket.once("close", () => {
      clearTimeout(timer);
      fail("it closed the connection");
    });
  });
}
